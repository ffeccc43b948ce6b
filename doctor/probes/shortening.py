"""Long texts, cut where no secret is parted: a piece of one would not be known as such when the report is redacted."""

import re


def beginning(text: str, most: int) -> str:
    """As many characters at most, in whole words. A name such as `password` stands before what it is of, and stays with it."""
    if len(text) <= most:
        return text
    found = re.match(r".*(?=\s)", text[: most + 1], re.DOTALL)
    return found[0].rstrip() if found else ""


def ending(text: str, most: int) -> str:
    """As many characters at most, from the end, in whole lines: before what is left of a line may have been such a name.

    Progress bars end theirs with a carriage return.
    """
    if len(text) <= most:
        return text
    return "".join(re.split("[\r\n]", text[len(text) - most - 1 :], maxsplit=1)[1:])
