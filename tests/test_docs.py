"""What README and docs show is what there is."""

from pathlib import Path

import msgspec

from dl_doctor import catalogue
from dl_doctor.schema import schema_of

PROJECT = Path(__file__).parent.parent
README = (PROJECT / "README.md").read_text()


def test_the_report_in_readme_is_the_golden_one() -> None:
    assert (PROJECT / "tests/reports/docker-v1.txt").read_text() in README


def test_the_plugin_in_readme_is_the_one_that_is_tested() -> None:
    assert (PROJECT / "tests/plugin/acme_storage.py").read_text() in README
    assert (PROJECT / "tests/plugin/pyproject.toml").read_text() in README


def test_the_shipped_schema_is_the_one_of_the_structs() -> None:
    """`dl-doctor schema > docs/report.schema.json` writes it anew."""
    shipped = msgspec.json.decode((PROJECT / "docs/report.schema.json").read_bytes())

    today = msgspec.json.decode(msgspec.json.encode(schema_of(catalogue.load(plugins=False))))
    assert shipped == today


def test_links_lead_somewhere() -> None:
    for document in (PROJECT / "README.md", PROJECT / "CONTRIBUTING.md", *sorted((PROJECT / "docs").glob("*.md"))):
        for part in document.read_text().split("](")[1:]:
            target = part.partition(")")[0]
            assert target.startswith("https://") or (document.parent / target).exists(), f"{document.name}: {target}"
