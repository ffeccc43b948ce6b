"""What NVIDIA's driver has told in the kernel's log: its Xids, and nothing else of the log."""

import re

import msgspec

from dl_doctor.facts.gpu_grant import GpuGrant
from dl_doctor.facts.nvidia_driver import NvidiaDriver, nothing_to_ask
from dl_doctor.facts.runtime import Runtime
from dl_doctor.model import Ended, Unavailable
from dl_doctor.probes.shortening import beginning
from dl_doctor.probing import QUICK_S, Probes

XID = re.compile(
    r"NVRM: Xid \((?:PCI:)?(?P<pci>[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2})(?:\.[0-7])?(?: GPU-I:(?P<instance>[0-9]+))?\): "
    r"(?P<code>[0-9]{1,4})(?:, *)?(?P<text>.*)",
    re.ASCII | re.IGNORECASE,
)
"""`NVRM: Xid (PCI:0000:65:00): 79, GPU has fallen off the bus.`; up to driver 4xx without `PCI:`, and of MIG with an instance."""

LOADED = re.compile(r"NVRM: loading NVIDIA ")
"""What the driver says when it is loaded (kernel-open/nvidia/nv.c); all that was told before is of another life of it."""

RECOVERED = re.compile(r"GPU recovery action changed from 0x[0-9a-f]+ \(.*\) to 0x0 \(None\)")
"""The text of Xid 154 when nothing is left to be done for a GPU. That a reset brings it is not verified."""

LONGEST_TEXT = 200
"""Characters that are kept of an Xid's text."""


class Xid(msgspec.Struct, frozen=True, kw_only=True):
    """One code of one GPU, however often it was told."""

    pci: str
    """As the driver writes it, without the function: `0000:65:00`."""

    code: int
    count: int
    last_s: float | None
    """When it was last told, in seconds since the kernel started; None where the log has no times."""

    text: str
    """What the driver last told with it, its beginning."""

    over: str | None = None
    """What the log tells after it by which it is over; None where there is nothing."""


class KernelLog(msgspec.Struct, frozen=True, kw_only=True):
    """Source: a probe that reads /dev/kmsg, or else syslog(2), and keeps the lines of NVIDIA's driver alone."""

    ended: Ended
    source: str | None = None
    since_s: float | None = None
    """The oldest line that is left, in seconds since the kernel started."""

    now_s: float | None = None
    xids: tuple[Xid, ...] = ()
    """In the order in which each was first told."""


async def collect(
    probes: Probes, driver: NvidiaDriver, grant: GpuGrant | Unavailable, runtime: Runtime | Unavailable
) -> KernelLog | Unavailable:
    if nothing := nothing_to_ask(driver, grant):
        return nothing
    if driver.platform == "wsl":
        return Unavailable.absent("in WSL the driver is Windows', and this kernel hears nothing of it")
    if isinstance(runtime, Runtime) and runtime.sandbox == "gvisor":
        return Unavailable.absent("gVisor shows no log of the host's kernel")
    probed = await probes.run("kernel_log", deadline_s=QUICK_S)
    found = probed.answer or {}
    if refusals := found.get("refusals"):
        return refused(refusals)
    return KernelLog(
        ended=probed.ended,
        source=found.get("source"),
        since_s=found.get("since_s"),
        now_s=found.get("now_s"),
        xids=parse_lines([(at_s, text) for at_s, text in found.get("lines", ())]),
    )


def refused(refusals: dict[str, str]) -> Unavailable:
    told = ", ".join(f"{source}: {code}" for source, code in refusals.items())
    if {"EPERM", "EACCES"} & set(refusals.values()):
        ask = "ask whoever runs the node for `dmesg | grep Xid`"
        return Unavailable.denied(f"the kernel's log may not be read by this user or in this container ({told}): {ask}")
    return Unavailable.absent(f"the kernel's log is not to be had here ({told}): on the node itself, `dmesg | grep Xid` shows it")


def parse_lines(lines: list[tuple[float | None, str]]) -> tuple[Xid, ...]:
    """Lines of the driver's in their order, each with its time."""
    open_: dict[tuple[str, int], Xid] = {}
    over: list[Xid] = []

    def close(why: str, pci: str | None = None) -> None:
        closed = [key for key in open_ if pci in (None, key[0])]
        over.extend(msgspec.structs.replace(open_.pop(key), over=why) for key in closed)

    for at_s, text in lines:
        if LOADED.search(text):
            close("the driver was loaded again")
            continue
        found = XID.search(text)
        if not found:
            continue
        key = (found["pci"].lower(), int(found["code"]))
        before = open_.get(key)
        open_[key] = Xid(
            pci=key[0],
            code=key[1],
            count=before.count + 1 if before else 1,
            last_s=at_s,
            text=beginning(found["text"].strip(), LONGEST_TEXT),
        )
        if key[1] == 154 and RECOVERED.search(text):
            close("the driver wants nothing done for the GPU any more", key[0])
    return (*over, *open_.values())
