"""What differs, as one HTML page of the look of a report's."""

from base64 import b64encode
from hashlib import sha256

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from dl_doctor.comparison import Comparison
from dl_doctor.reports.diff import words
from dl_doctor.reports.look import SYMBOLS, Look, harmless


def render(comparison: Comparison, look: Look) -> str:  # noqa: ARG001 (a page looks the same everywhere)
    """The page: no script, no request, and every text escaped and printable."""
    environment = Environment(
        loader=PackageLoader("dl_doctor.reports", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    style = environment.get_template("style.css").render().strip()
    return environment.get_template("diff.html.j2").render(
        comparison=harmless(comparison),
        words=words,
        symbols=SYMBOLS,
        most=words.MOST_OF_ONE_FACT,
        style=Markup(style),  # noqa: S704 (ours)
        style_hash=b64encode(sha256(style.encode()).digest()).decode(),
    )
