"""What differs, as one HTML page of the look of a report's."""

from dl_doctor.comparison import Comparison
from dl_doctor.reports.diff import words
from dl_doctor.reports.look import SYMBOLS, Look
from dl_doctor.reports.page import page


def render(comparison: Comparison, look: Look) -> str:  # noqa: ARG001 (a page looks the same everywhere)
    return page("diff.html.j2", comparison=comparison, words=words, symbols=SYMBOLS, most=words.MOST_OF_ONE_FACT)
