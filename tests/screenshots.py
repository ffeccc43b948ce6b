"""`python -m tests.screenshots` takes the pictures of the HTML report in docs/ anew. It needs chromium; fonts-inter is nicer."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from dl_doctor.reports.html import render
from dl_doctor.reports.look import Look
from tests.browser import started
from tests.recorded import examine_recorded, read
from tests.reports.conftest import steady
from tests.reports.test_goldens import MACHINES

DOCS = Path(__file__).parents[1] / "docs"

PICTURES = (
    # file, machine, colours, and in pixels: width, where the picture begins, height
    ("report-light.png", "docker-v1", "light", 1100, 0, 1260),
    ("report-dark.png", "kubernetes-limited-pod", "dark", 1100, 1080, 1010),
    ("report-390.png", "docker-v1", "light", 390, 0, 1500),
)


def main() -> None:
    with TemporaryDirectory() as folder, started(Path(folder)) as browser:
        for file, machine, scheme, width, top, height in PICTURES:
            place = Path(folder) / file
            html = render(steady(examine_recorded(read(machine)[0], place, MACHINES[machine])), Look())
            clip = {"x": 0, "y": top, "width": width, "height": height}

            def take(page: Any, file: str = file, clip: dict[str, int] = clip) -> None:
                page.screenshot(path=str(DOCS / file), full_page=True, clip=clip)

            browser.visit(html, take, scheme=scheme, width=width)


if __name__ == "__main__":
    main()
