"""Chromium, as it shows a page from a file: what the page asks for, says on the console, and looks like."""

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pytest

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
"""Names of it on PATH; nothing is downloaded."""

Scheme = Literal["light", "dark"]


@dataclass
class Visit:
    """What happened when a page was opened."""

    found: Any
    requests: list[str] = field(default_factory=list)
    messages: list[str] = field(default_factory=list)


class Browser:
    """Lives in a thread of its own, because its event loop would keep the engine from starting one here."""

    def __init__(self, program: str, folder: Path) -> None:
        self._folder = folder
        self._thread = ThreadPoolExecutor(1)
        self._thread.submit(self._start, program).result()

    def _start(self, program: str) -> None:
        from playwright.sync_api import sync_playwright  # noqa: PLC0415

        self._playwright = sync_playwright().start()
        sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
        self._chromium = self._playwright.chromium.launch(executable_path=program, args=sandbox)

    def close(self) -> None:
        self._thread.submit(self._chromium.close).result()
        self._thread.submit(self._playwright.stop).result()
        self._thread.shutdown()

    def visit(self, html: str, look: Callable[[Any], Any], *, scheme: Scheme = "light", width: int = 1200) -> Visit:
        """Open the page in a window of this width, and have `look` find something on it; it gets Playwright's page."""
        return self._thread.submit(self._visit, html, look, scheme, width).result()

    def _visit(self, html: str, look: Callable[[Any], Any], scheme: Scheme, width: int) -> Visit:
        file = self._folder / "report.html"
        file.write_text(html, encoding="utf-8")
        context = self._chromium.new_context(color_scheme=scheme, viewport={"width": width, "height": 900})
        try:
            page = context.new_page()
            visit = Visit(None)
            page.on("console", lambda message: visit.messages.append(message.text))
            page.on("pageerror", lambda error: visit.messages.append(str(error)))
            page.on("request", lambda request: visit.requests.append(request.url))
            page.goto(file.as_uri())
            said = [*visit.messages]
            visit.found = look(page)
            visit.messages = said  # what `look` makes the page say is not the page's
            return visit
        finally:
            context.close()


@contextmanager
def started(folder: Path) -> Iterator[Browser]:
    program = next(filter(None, map(shutil.which, PROGRAMS)), None)
    if program is None:
        pytest.skip("needs chromium")
    pytest.importorskip("playwright", reason="needs playwright; `make test` installs it")
    browser = Browser(program, folder)
    try:
        yield browser
    finally:
        browser.close()


def printed(browser: Browser, html: str, folder: Path) -> str:
    """The text of the page as it comes out of a printer."""
    if shutil.which("pdftotext") is None:
        pytest.skip("needs pdftotext, of poppler-utils")
    pdf = folder / "report.pdf"
    browser.visit(html, lambda page: page.pdf(path=str(pdf), format="A4"))
    return subprocess.run(["pdftotext", "-raw", str(pdf), "-"], check=True, capture_output=True, encoding="utf-8").stdout
