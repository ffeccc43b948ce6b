"""HTML pages: what all of them have in common, and what becomes of a text that they show."""

import re
from base64 import b64encode
from collections.abc import Iterable
from hashlib import sha256
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from dl_doctor.reports.look import amount, printable
from dl_doctor.units import plain

LONGEST_TEXT = 2_000
LONGEST_NAME = 200
"""Characters; what is longer is no text for people, and the JSON report has it."""


def page(template: str, **values: Any) -> str:
    """The page that a template makes of these values: one file, without script or request.

    Every text in it is escaped and printable: any may be a stranger's.
    """
    environment = Environment(
        loader=PackageLoader("dl_doctor.reports", "templates"),
        autoescape=True,  # always: jinja2's own choice goes by the file's ending
        undefined=StrictUndefined,
        finalize=shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {filter_.__name__: filter_ for filter_ in FILTERS}
    style = environment.get_template("style.css").render().strip()
    return environment.get_template(template).render(
        style=Markup(style),  # noqa: S704 (ours)
        style_hash=b64encode(sha256(style.encode()).digest()).decode(),
        **values,
    )


def shown(value: Any) -> Any:
    """What a template's expression becomes before it is escaped: printable, and of a length that people read."""
    if value is None:
        return ""
    return value if isinstance(value, Markup) or not isinstance(value, str) else shortened(value, LONGEST_TEXT)


def name(text: str | None) -> str:
    """A name in a place that is too small for a text."""
    return shortened(text or "", LONGEST_NAME)


def shortened(text: str, most: int) -> str:
    rest = len(text) - most
    return printable(text) if rest <= 0 else f"{printable(text[:most])}… ({rest} more characters)"


def fitted(text: str, most: float) -> str:
    """A name where there is room for `most` characters."""
    text = printable(text[:LONGEST_NAME])
    return text if len(text) <= most else text[: max(int(most) - 1, 1)] + "…"


def sentence(text: str) -> str:
    """With a full stop."""
    text = text.rstrip()
    return text if text.endswith((".", "!", "?")) else f"{text}."


def opening(text: str) -> str:
    """A sentence with a capital letter, where it begins with a word and not with a name such as shm-size or torch.cuda."""
    word = text.partition(" ")[0]
    return sentence(text[:1].upper() + text[1:] if word.isalpha() and word.islower() else text)


def lines(texts: Iterable[str]) -> Markup:
    """Several lines, for a <pre>."""
    return Markup("\n").join(map(shown, texts))


def moment(text: str) -> str:
    """`2026-01-01 12:30 UTC` of an RFC 3339 time; what is none stays as it is."""
    found = re.match(r"([0-9-]{10})T([0-9:]{5})[0-9:.]*Z$", text)
    return f"{found[1]} {found[2]} UTC" if found else name(text)


FILTERS = (amount, plain, name, fitted, lines, sentence, opening, moment)
"""What templates call by name."""
