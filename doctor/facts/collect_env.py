"""What PyTorch's own collect_env says: maintainers of PyTorch know their way in it. Taken for `dl-doctor ticket` only."""

import msgspec

from dl_doctor.facts.memory_budget import MemoryBudget
from dl_doctor.facts.target import Target
from dl_doctor.facts.torch_files import TorchFiles
from dl_doctor.facts.torch_import import no_room
from dl_doctor.model import Ended, Unavailable
from dl_doctor.probing import Probes

DEADLINE_S = 40.0
"""It imports torch and starts a dozen programs (pip, lscpu, nvidia-smi, ...): 2 s, and several times that on a network disk."""

LONGEST = 20_000
"""Characters kept; a usual one has 3,000."""


class CollectEnv(msgspec.Struct, frozen=True, kw_only=True):
    """Source: torch.utils.collect_env.get_pretty_env_info() in a process of the examined Python."""

    ended: Ended
    text: str = ""
    """Several lines; empty where it did not come to its end."""


async def collect(
    probes: Probes, target: Target, files: TorchFiles, memory: MemoryBudget | Unavailable
) -> CollectEnv | Unavailable:
    if files.version is None:
        return Unavailable.absent(f"{files.origin} is not PyTorch")
    if full := no_room(memory):
        return full
    probed = await probes.run("collect_env", {"longest": LONGEST}, python=target.path, deadline_s=DEADLINE_S, place="apart")
    return msgspec.convert({**(probed.answer or {}), "ended": probed.ended}, CollectEnv)
