"""Who this process runs as, in the words of the target's Python."""

import msgspec

from dl_doctor.facts.target import Target
from dl_doctor.model import Unavailable
from dl_doctor.probing import QUICK_S, Probes


class UserIdentity(msgspec.Struct, frozen=True, kw_only=True):
    """Source: pwd, getpass and os.path.expanduser of the target's Python; torch's version by its file."""

    uid: int
    in_passwd: bool
    """Whether the user's number has an entry in the user database."""

    name_error: str | None
    """What getpass.getuser() raises: KeyError before Python 3.13, OSError from then on. None where there is a name."""

    home: str
    """What `~` becomes; `~` itself where nothing says."""

    home_said: bool
    """Whether HOME is set."""

    torch_version: str | None
    """None without torch, or where its file does not say."""


async def collect(probes: Probes, target: Target) -> UserIdentity | Unavailable:
    probed = await probes.run("user_identity", python=target.path, deadline_s=QUICK_S)
    if probed.answer is None:
        return Unavailable.failed(f"asking the job's Python who it runs as: it {probed.ended.in_words}")
    return msgspec.convert(probed.answer, UserIdentity)
