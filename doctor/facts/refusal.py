"""What was tried and refused, as probes tell it."""

import msgspec


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """The step that did not work, and how the operating system or Python said no."""

    step: str
    code: str
    """`ENOSPC`, as errno(3) names it; the exception's type where there is no errno."""

    error: str
    """In the system's words."""

    @property
    def in_words(self) -> str:
        """`bind a socket: AF_UNIX path too long (OSError)`."""
        return f"{self.step}: {self.error} ({self.code})"
