"""The ticket: short enough to be posted, and nothing in it is markup, a link or a mention but what we wrote.

It is parsed by cmark-gfm, GitHub's own.
"""

import re
from typing import Any

import msgspec
import pytest
from cmarkgfm import github_flavored_markdown_to_html
from cmarkgfm.cmark import Options

from dl_doctor.model import Finding, Fix, Quantity, Reason, Report
from dl_doctor.reports.look import Look
from dl_doctor.reports.markdown import LONGEST, escaped, fence, render
from tests.html import Elements
from tests.made import HOSTILE, hostile, result, with_results

OURS = {"p", "strong", "table", "thead", "tbody", "tr", "th", "td", "h3", "h4", "ul", "li", "pre", "code", "details", "summary"}
OURS |= {"span"}
"""What a ticket is made of."""

PINGS = re.compile(r"@\w|#\d|\bGH-\d|://|www\.|:[a-z+-][\w+-]*:", re.IGNORECASE)
"""What GitHub makes a mention, a link or an emoji of, in text that is no code."""


def html_of(markdown: str) -> str:
    html: str = github_flavored_markdown_to_html(markdown, Options.CMARK_OPT_UNSAFE)
    return html


def text_of(html: str) -> str:
    """What is read outside of code."""
    return Elements(re.sub(r"<pre>.*?</pre>", "", html, flags=re.DOTALL)).text


def test_the_ticket_of_a_broken_container(plain: Report) -> None:
    text = render(plain, Look())
    order = ("do not start here** (exit 1): 1 failed", "| Host | recorded |", "### Failures",
             "measured **64 MiB** (statvfs /dev/shm)", "expected **≥ 432.1 MiB**", "docker run --shm-size=1g", "### Warnings",
             "The loader's arguments", "| --num-workers | 8 |", "Skipped and not run", "<summary>5 passed")  # fmt: skip

    assert [text.find(words) for words in order] == sorted(text.index(words) for words in order)
    assert text.splitlines()[0].startswith("**✗ dl-doctor")


def test_nothing_of_a_strangers_is_markup(plain: Report) -> None:
    report = hostile(plain)
    html = html_of(render(report, Look()))
    elements = [tag for tag, _ in Elements(html).found]
    text = text_of(html)

    assert {*elements} <= OURS
    assert elements.count("h4") == sum(f.level != "note" and f.accepted is None for r in report.results for f in r.findings)
    assert PINGS.findall(text) == []
    assert "<script>alert(1)</script>" in text
    assert "**bold** _it_ ~~gone~~ [link](http" in text.replace("\u200b", "")
    assert not set(html) & set("\x1b\x07\x00\u202e\ud800\u2028")


LITERAL = (
    *HOSTILE[:6], *HOSTILE[10:], "- item", "+ item", "1. item", "12) item", "---", "===", "# heading", "> quoted", "| a | b |",
    "    code", "a_b_c", "2 * 3 * 4", "`code", "&amp;", "&#35;", "a@b.example", "~~~", "[^1]", "[!NOTE]", "$x$ and $y$", "!1 %2",
    "<!-- comment", "C:\\dir", "a\\", "1.5 GiB", "-1 of 2", "--batch-bytes", "10:20:30", "100:", ":100:",
)  # fmt: skip


@pytest.mark.parametrize("place", ["{}", "- {}", "#### x: {}", "**{}**", "| a |\n|---|\n| {} |", "x ({}), **{}**"])
@pytest.mark.parametrize("text", LITERAL)
def test_a_text_is_read_as_it_is(text: str, place: str) -> None:
    html = html_of(place.replace("{}", escaped(text, 2000)))
    read = text_of(html).replace("\u200b", "")
    wanted = text_of(html_of(place.replace("{}", "TEXT"))).replace("TEXT", " ".join(text.split()))

    assert re.sub(r"\W", "", read) == re.sub(r"\W", "", wanted)
    assert PINGS.findall(text_of(html)) == []
    assert {tag for tag, _ in Elements(html).found} <= OURS


@pytest.mark.parametrize(
    ("text", "shown"),
    [("shm-size", "shm-size"), ("0.5 CPUs", "0.5 CPUs"), ("/dev/shm", "/dev/shm"), ("--num-workers", "--num-workers"),
     ("10:20:30", "10:20:30"), ("50 %", "50 %"), ("a" * 70, "a" * 60 + "…"), ("a_b", r"a\_b")],
)  # fmt: skip
def test_usual_texts_stay_readable(text: str, shown: str) -> None:
    """Tickets are read by mail, too."""
    assert escaped(text, 60) == shown


@pytest.mark.parametrize("text", ["x", "```", "a ```` b\n`````\n```", "~~~", "</details>", "\x1b[2J"])
def test_a_fence_holds_what_is_in_it(text: str) -> None:
    (tag, *_), *others = Elements(html_of(fence(text))).found

    assert [tag, *(name for name, _ in others)] == ["pre", "code"]
    assert "\x1b" not in fence(text)


def long(index: int, words: int) -> Any:
    fix = Fix(f"Fix {index}", (f"command {index}",))
    finding = Finding(level="fail", subject="x", summary=f"summary {index}", why="why " * words, fixes=(fix,),
                      measured=Quantity(1, "GB/s", "NVML"))  # fmt: skip
    return result(f"check-{index}", "fail", finding)


@pytest.mark.parametrize(
    ("findings", "words", "passes", "collected", "says"),
    [
        (5, 10, 50, 3000, ""),  # all of it
        (5, 10, 3000, 3000, "fits into a ticket: what passed. The"),  # passes go first
        (170, 60, 50, 30_000, "fits into a ticket: what collect_env says, what passed. The"),
        (60, 400, 50, 3000, "what passed, all but the first 400 characters of each text. The"),
        (300, 400, 50, 3000, "all but the first 60 characters of each text. The"),
        (5000, 400, 50, 3000, " more, which the JSON report has."),
    ],
)  # fmt: skip
def test_it_is_short_enough_to_be_posted(
    plain: Report, findings: int, words: int, passes: int, collected: int, says: str
) -> None:
    results = [*(long(index, words) for index in range(findings)), *(result(f"pass-{index}", "pass") for index in range(passes))]
    facts = {"collect_env": {"text": "PyTorch version\n" * (collected // 16)}}
    report = msgspec.structs.replace(with_results(plain, *results), facts=facts)
    text = render(report, Look())

    assert len(text) <= LONGEST
    assert says in text
    assert text.count("check-") >= min(findings, 500)
    assert ("1 failed" in text) == (findings == 1)


def test_what_is_known_of_the_loader(plain: Report) -> None:
    """What was examined goes before what is planned; facts may be anything."""
    plan = {"num_workers": 4, "batch_bytes": 1 << 20, "start_method": None, "shm_need_bytes": 5}
    arguments = {"num_workers": 2, "persistent_workers": True, "sampler": "a|b"}
    shown = {
        "plan": render(msgspec.structs.replace(plain, facts={"loader_plan": plan}), Look()),
        "loader": render(msgspec.structs.replace(plain, facts={"loader_plan": plan, "loader": {"arguments": arguments}}), Look()),
        "odd": render(msgspec.structs.replace(plain, facts={"loader_plan": [], "loader": 7, "collect_env": {"text": 3}}), Look()),
    }

    assert "| num\\_workers | 4 |\n| batch\\_bytes | 1 MiB |\n\n" in shown["plan"]
    assert "| num\\_workers | 2 |\n| persistent\\_workers | yes |\n| sampler | a\\|b |\n\n" in shown["loader"]
    assert "The loader's arguments" not in shown["odd"]


def test_what_could_not_be_told_is_told_with_its_trace(plain: Report) -> None:
    lacking = Reason("failed", "the file is damaged", "mounts")
    text = render(
        with_results(
            plain, result("a", "error", reason=lacking, trace="Traceback\n  boom"), result("b", "error", reason=lacking)
        ),
        Look(),
    )

    assert "? **a, b**: the file is damaged" in text
    assert "```\nTraceback\n  boom\n```" in text
