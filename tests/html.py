"""Pages of HTML, as tests read them."""

import re
from html.parser import HTMLParser


class Elements(HTMLParser):
    """The elements of a page and their attributes, and the texts between them."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.texts).split())

    def ids(self) -> list[str]:
        return [attributes["id"] or "" for _, attributes in self.found if "id" in attributes]


def without_style(html: str) -> str:
    """The page's style sheet is a file of its own; here its changes would hide those of the page."""
    html = re.sub("<style>.*?</style>", "<style>...</style>", html, flags=re.DOTALL)
    return re.sub("sha256-[^']*", "sha256-...", html)
