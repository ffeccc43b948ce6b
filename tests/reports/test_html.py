"""The page: no script, no request, readable by everybody, in light and dark, on a telephone and on paper."""

import itertools
import re
import unicodedata
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dl_doctor.comparison import compare
from dl_doctor.model import Finding, Pipeline, Reason, Report
from dl_doctor.reports import diff
from dl_doctor.reports.html import render
from dl_doctor.reports.look import Look
from dl_doctor.reports.page import shown
from tests.browser import Browser, printed
from tests.html import Elements
from tests.installed import ROOT
from tests.made import RATES, hostile, large_node, measured, result, with_pipeline, with_results

REPORTS = {
    "plain": lambda plain: plain,
    "measured": measured,
    "some measured": lambda plain: with_pipeline(plain, "some"),
    "large node": large_node,
    "hostile": hostile,
    "nothing at all": lambda plain: with_results(msgspec.structs.replace(plain, pipeline=Pipeline((), None, None))),
}

each_report = pytest.mark.parametrize("name", REPORTS)


def page(plain: Report, name: str) -> str:
    return render(REPORTS[name](plain), Look())


@each_report
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_in_chromium(plain: Report, browser: Browser, name: str, scheme: Any) -> None:
    """It asks for nothing, says nothing, is accessible (contrast too), and fits into any window."""
    visit = browser.visit(page(plain, name), lambda page: (violations(page), sprawling(page)), scheme=scheme)

    assert visit.messages == []
    assert [request.partition(":")[0] for request in visit.requests] == ["file"]
    assert visit.found == ([], [])


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_what_differs_in_chromium(plain: Report, browser: Browser, scheme: Any) -> None:
    html = diff.renderer("html")(compare(plain, hostile(plain), ("a.json", "<b>b</b>"), {}), Look())
    visit = browser.visit(html, lambda page: (violations(page), sprawling(page)), scheme=scheme)

    assert (visit.messages, [request.partition(":")[0] for request in visit.requests]) == ([], ["file"])
    assert visit.found == ([], [])
    assert not {"script", "img", "svg"} & {tag for tag, _ in Elements(html).found}


@each_report
def test_paper_holds_every_finding_and_what_is_folded(plain: Report, browser: Browser, name: str, tmp_path: Path) -> None:
    report = REPORTS[name](plain)
    paper = bare(printed(browser, render(report, Look()), tmp_path))

    assert [text for text in told(report) if bare(shown(text)) not in paper] == []


def violations(page: Any) -> list[str]:
    from axe_playwright_python.sync_playwright import Axe  # noqa: PLC0415

    found = Axe().run(page).response["violations"]
    return [f"{rule['id']}: {node['html'][:200]}" for rule in found for node in rule["nodes"]]


def sprawling(page: Any) -> list[str]:
    """What does not fit: pages that scroll sideways, and texts of a drawing that are cut off."""
    outside = """[...document.querySelectorAll('svg text')].filter(text => text.checkVisibility()).filter(text => {
      const [box, frame] = [text.getBBox(), text.ownerSVGElement.viewBox.baseVal];
      return box.x < -1 || box.x + box.width > frame.width + 1 || box.y < -1 || box.y + box.height > frame.height + 1;
    }).map(text => text.textContent)"""
    found = []
    for width in (320, 390, 720, 1600):
        page.set_viewport_size({"width": width, "height": 900})
        if (needed := page.evaluate("document.documentElement.scrollWidth")) > width:
            found.append(f"{needed} in a window of {width}")
        found += page.evaluate(outside)
    return found


def told(report: Report) -> list[str]:
    """What has to be readable on paper."""
    texts = []
    for one in report.results:
        texts += [one.seen] if one.status == "pass" else []
        texts += [one.reason.detail] if one.reason else []
        texts += one.trace.splitlines()
        for finding in one.findings:
            texts += [finding.summary, finding.why, *(command for fix in finding.fixes for command in fix.commands)]
    texts += [lack.detail for lack in report.unavailable.values()]
    return texts


def bare(text: str) -> str:
    """Letters and digits alone: lines break anywhere."""
    return "".join(c for c in unicodedata.normalize("NFKC", text) if c.isalnum()).lower()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_telephone_is_accessible_too(plain: Report, browser: Browser, scheme: Any) -> None:
    """Its drawings are others."""
    assert browser.visit(page(plain, "measured"), violations, scheme=scheme, width=390).found == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(
    ("color", "behind", "least"),
    [
        # WCAG 2.2: 4.5 for text, 3 for what has to be seen of a drawing
        ("ink", "card", 4.5), ("soft", "card", 4.5), ("accent-ink", "card", 4.5), ("ink", "paper", 4.5), ("soft", "paper", 4.5),
        ("bar", "card", 3), ("accent", "card", 3), ("demand", "card", 3), ("demand", "flow", 3), ("soft", "card", 3),
    ],
)  # fmt: skip
def test_drawings_have_contrast(scheme: str, color: str, behind: str, least: float) -> None:
    """What axe does not look at."""
    colors = variables(scheme)
    lighter, darker = sorted((luminance(colors[color]), luminance(colors[behind])), reverse=True)

    assert (lighter + 0.05) / (darker + 0.05) >= least


def variables(scheme: str) -> dict[str, str]:
    """The style's colours; each scheme has a block of its own, light first."""
    style = (ROOT / "reports/templates/style.css").read_text(encoding="utf-8")
    light, dark, *_ = re.findall(r":root \{(.*?)\}", style, re.DOTALL)
    return dict(re.findall("--([a-z-]+): (#[0-9a-f]{6})", light if scheme == "light" else dark))


def luminance(color: str) -> float:
    """https://www.w3.org/TR/WCAG22/#dfn-relative-luminance."""
    red, green, blue = (int(color[place : place + 2], 16) / 255 for place in (1, 3, 5))
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in (red, green, blue)]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def test_light_and_dark_differ(plain: Report, browser: Browser) -> None:
    background = "getComputedStyle(document.body).backgroundColor"
    colors = [
        browser.visit(page(plain, "plain"), lambda page: page.evaluate(background), scheme=scheme).found
        for scheme in ("light", "dark")
    ]  # fmt: skip

    assert len({*colors}) == 2


def test_one_picture_is_shown_at_a_time(plain: Report, browser: Browser) -> None:
    shown = "[...document.querySelectorAll('figure svg')].filter(svg => svg.checkVisibility()).map(svg => svg.classList[0])"
    found = {
        width: browser.visit(page(plain, "measured"), lambda page: page.evaluate(shown), width=width).found
        for width in (390, 1200)
    }

    assert found == {390: ["narrow", "narrow"], 1200: ["wide", "wide"]}


@each_report
class TestTheDocument:
    def test_nothing_in_it_runs_or_loads(self, plain: Report, name: str) -> None:
        elements = Elements(page(plain, name)).found
        tags = {tag for tag, _ in elements}
        links = {value for _, attributes in elements for key, value in attributes.items() if key in ("href", "src", "action")}

        assert tags.isdisjoint({"script", "iframe", "object", "embed", "form", "img", "base", "animate", "foreignobject"})
        assert [key for _, attributes in elements for key in attributes if key.startswith("on") or key == "style"] == []
        assert {link for link in links if not str(link).startswith("#")} == {"data:,"}

    def test_ids_are_unique_and_links_lead_to_them(self, plain: Report, name: str) -> None:
        elements = Elements(page(plain, name))
        links = {attributes["href"] for tag, attributes in elements.found if tag == "a"}

        assert len(elements.ids()) == len({*elements.ids()})
        assert {str(link).removeprefix("#") for link in links} <= {*elements.ids()}

    def test_headings_are_in_order(self, plain: Report, name: str) -> None:
        levels = [int(tag[1]) for tag, _ in Elements(page(plain, name)).found if re.fullmatch("h[1-6]", tag)]

        assert levels[0] == 1
        assert all(deeper <= level + 1 for level, deeper in itertools.pairwise(levels))


def test_every_check_has_an_anchor(plain: Report) -> None:
    report = large_node(plain)

    assert {one.id for one in report.results} <= {*Elements(render(report, Look())).ids()}


def test_a_large_node_stays_small(plain: Report) -> None:
    """Eight GPUs, 90 checks, 20 findings with all that they can say."""
    assert len(render(measured(large_node(plain, findings=20, long=10)), Look()).encode()) < 300_000


def test_the_order_of_the_page(plain: Report) -> None:
    """What somebody accepted comes after what counts; what explains comes before what it explains."""
    accepted = Finding(level="fail", subject="x", summary="known", accepted="we live with it")
    report = with_results(
        plain,
        result("an-effect", "fail", Finding(level="fail", subject="x", summary="the effect", explained_by="a-cause")),
        result("a-warning", "warn", Finding(level="warn", subject="x", summary="the warning")),
        result("a-cause", "fail", Finding(level="fail", subject="x", summary="the cause")),
        result("a-pass", "pass", accepted, seen="what was seen"),
        result("an-error", "error", reason=Reason("failed", "the file is damaged", "mounts")),
        result("a-skip", "skip", reason=Reason("absent", "there is none here")),
    )
    text = Elements(render(report, Look())).text
    words = ("Do not start here", "Summary", "The way of a sample", "the cause", "the effect", "Explained by a-cause",
             "Could not tell These", "The file is damaged", "the warning", "we live with it", "There is none here",
             "what was seen", "Control groups", "How this was made")  # fmt: skip
    places = [text.find(word) for word in words]

    assert -1 not in places, dict(zip(words, places, strict=True))
    assert places == sorted(places)
    assert text.count("the effect") == 1


@pytest.mark.parametrize("name", RATES)
def test_the_picture_says_what_it_shows(plain: Report, name: str) -> None:
    rates, demand, narrowest = RATES[name]
    html = render(with_pipeline(plain, name), Look())
    about = html.partition('<desc id="wide-about">')[2].partition("</desc>")[0]

    assert about.count("not measured") == rates.count(None)
    assert ("the GPU could take 1,900" in about or "could take 1,000" in about) == (demand is not None)
    assert (f"narrowest: {narrowest}" in about) == (narrowest is not None)
    assert ("▲ narrowest" in html) == (narrowest is not None)
    assert ("dl-doctor sweep --dataset" in html) == (None in rates[:4] or rates[5] is None)


def test_bars_are_as_long_as_the_rates(plain: Report) -> None:
    """To scale below the top, the same length beyond it, and none vanishes."""
    html = render(with_pipeline(plain, "all"), Look())
    bars = re.findall(r'<rect class="bar([^"]*)" x="40"[^>]* width="([0-9.]+)"', html)
    lengths = [float(length) for _, length in bars]

    assert lengths[1] / lengths[5] == pytest.approx(1041 / 1900, rel=0.01)
    assert lengths[0] == lengths[2] == lengths[4] == max(lengths)
    assert ["cut" in classes for classes, _ in bars] == [True, False, True, False, True, False]
    assert "narrowest" in bars[1][0]


def test_a_sweep_is_told_in_a_table_too(plain: Report) -> None:
    text = Elements(render(measured(plain), Look())).text

    assert "Recommended: 12 workers , 1,020 samples/s." in text
    assert "12 recommended 1,020 940 – 1,090 53.7 % – 20.9 min 2.1 s ipc" in text
    assert "prefetch_factor 4 (measured)" in text


def test_what_the_gpus_reach_is_a_table(plain: Report) -> None:
    """A row for each GPU, a column for each kind, and never a colour alone."""
    text = Elements(render(measured(plain), Look())).text

    assert "8 × NVIDIA H100 80GB HBM3: achieved of what is possible." in text
    assert "bf16 TFLOP/s, by datasheet" in text
    assert "host to device GB/s, by link" in text
    assert "gpu:0 75 % 742 of 989" in text
    assert "1,755 MHz, 61 °C, 690 of 700 W" in text
    assert "gpu:3 ! heat ! link x8 of x16 45 % 443 of 989" in text
    assert "1,095 MHz, 91 °C, 431 of 700 W" in text


@pytest.mark.parametrize(
    "sweep",
    [None, [], {}, {"points": None}, {"points": [1, None, {}]}, {"points": [{"num_workers": True, "samples_per_s": 1}]},
     {"points": [{"num_workers": -1, "samples_per_s": 1}]}, {"points": [{"num_workers": 1, "samples_per_s": float("nan")}]}],
)  # fmt: skip
def test_a_fact_that_is_no_sweep_is_not_drawn(plain: Report, sweep: Any) -> None:
    report = msgspec.structs.replace(plain, facts={"loader_sweep": sweep, "gpu_probe": sweep})

    assert "Throughput" not in render(report, Look())


@pytest.mark.parametrize("points", [[(0, 0)], [(4, 100)], [(0, 1e14), (65_536, 0.001)], [(1, 5)] * 500])
def test_an_odd_sweep_is_drawn_inside_its_frame(plain: Report, points: list[tuple[int, float]]) -> None:
    sweep = {"points": [{"num_workers": workers, "samples_per_s": rate} for workers, rate in points]}
    html = render(msgspec.structs.replace(plain, facts={"loader_sweep": sweep}), Look())
    numbers = [float(number) for points in re.findall('points="([^"]*)"', html) for number in re.split("[ ,]", points)]

    assert 0 <= min(numbers) <= max(numbers) <= 1040


def test_what_took_longest_is_told(plain: Report) -> None:
    times = {"mounts": 0.01, "nvml": 2.5, "torch_import": 4.0, "target": 0.2}
    report = msgspec.structs.replace(plain, run=msgspec.structs.replace(plain.run, collected_s=times))

    assert "Facts that took longest torch_import 4 s, nvml 2.5 s, target 0.2 s" in Elements(render(report, Look())).text


def test_names_do_no_harm(plain: Report) -> None:
    """They are shown, and as text."""
    html = page(plain, "hostile")
    text = Elements(html).text

    assert "<script>alert(1)</script>" in text
    assert "{{ 7*7 }}{% raw %}" in text
    assert not set(html) & set("\x1b\x07\r\x00\u202e\u2066\u200f\ud800\u2028")
    assert "a" * 10_000 not in html
    assert "(8000 more characters)" in text
