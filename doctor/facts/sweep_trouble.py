"""Why a loader delivered nothing that counts, as probes tell it."""

import msgspec

from dl_doctor.probing import Probed
from dl_doctor.text import place_in


class Undelivered(msgspec.Struct, frozen=True):
    text: str
    late: bool = False
    """It was ended because it did not come back in time."""


def trouble_of(answer: Probed) -> Undelivered | None:
    """None where it delivered."""
    if answer.answer is None:
        return without_answer(answer)
    if answer.answer["pressed"]:
        return Undelivered("MemoryError: the machine ran short of memory")
    return Undelivered(answer.answer["raised"]) if answer.answer["raised"] else None


def without_answer(answer: Probed) -> Undelivered:
    """Of a process that gave no answer."""
    return Undelivered(answer.ended.error or f"it {answer.ended.in_words}", late=answer.ended.how in ("hung", "stuck"))


def in_a_line(trouble: Undelivered) -> str:
    """An exception without its traceback, and where in the job's code it was raised."""
    lines = trouble.text.strip().splitlines()
    if len(lines) < 2:
        return "".join(lines)
    place = place_in("\n".join(lines))
    return f"{lines[-1].strip()}{f' ({place})' if place else ''}"
