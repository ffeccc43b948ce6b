"""NVIDIA's catalogue of Xids: the codes by which its driver tells, in the kernel's log, what happened to a GPU."""

from typing import Literal

import msgspec

Cause = Literal["application", "driver", "hardware"]
"""What most often brings it, in one word; ours, after the catalogue's conditions and actions."""

Action = Literal["nothing", "restart the job", "reset the GPU", "restart the node", "look at the memory", "look at NVLink", "ask"]
"""The catalogue's immediate action: IGNORE, RESTART_APP (or _VM), RESET_GPU, RESTART_BM, WORKFLOW_XID_48, WORKFLOW_NVLINK_ERR and
_NVLINK5_ERR; `ask` is any other, such as CONTACT_SUPPORT, CHECK_MECHANICALS and UPDATE_SWFW, or none."""

CATALOGUE = "docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html"
"""For Ampere and later."""

ARCHIVE = "docs.nvidia.com/deploy/xid-errors/archive/index.html"
"""For Volta and older; its rows here are from memory."""


class XidMeaning(msgspec.Struct, frozen=True):
    """One row."""

    code: int
    meaning: str
    cause: Cause
    action: Action
    told_by_154: bool = False
    """Whether the driver also changes its recovery action, and says so with Xid 154 ("Xid 154 linkage")."""

    source: str = CATALOGUE


XIDS = (
    XidMeaning(8, "the GPU stopped processing", "application", "restart the job"),
    XidMeaning(11, "invalid stream of commands", "application", "restart the job"),
    XidMeaning(13, "exception while computing, such as an index out of bounds", "application", "restart the job"),
    XidMeaning(14, "error that a program has injected", "application", "nothing"),
    XidMeaning(16, "display engine hung", "driver", "ask", source=ARCHIVE),
    XidMeaning(24, "semaphore timeout", "driver", "restart the job", source=ARCHIVE),
    XidMeaning(25, "illegal stream of commands", "application", "restart the job"),
    XidMeaning(31, "page fault in GPU memory", "application", "restart the job"),
    XidMeaning(32, "corrupted stream of commands, often by a bad PCIe connection", "hardware", "restart the job"),
    XidMeaning(37, "firmware error", "driver", "nothing"),
    XidMeaning(38, "firmware error", "driver", "nothing"),
    *(XidMeaning(code, "copy engine error", "driver", "restart the job") for code in (39, 40, 41)),
    XidMeaning(43, "a program hit a fault and was ended; the GPU is healthy", "application", "nothing"),
    XidMeaning(44, "fault during a context switch", "application", "nothing"),
    XidMeaning(45, "clean-up after a program was ended, or after another error", "application", "nothing"),
    XidMeaning(46, "the GPU stopped processing", "driver", "reset the GPU"),
    XidMeaning(48, "double bit error in memory", "hardware", "look at the memory", told_by_154=True),
    XidMeaning(54, "a power cable is not connected", "hardware", "ask"),
    XidMeaning(56, "display engine error", "driver", "ask", source=ARCHIVE),
    XidMeaning(57, "error in training the memory's interface", "hardware", "ask", source=ARCHIVE),
    XidMeaning(58, "unstable memory interface", "hardware", "ask", source=ARCHIVE),
    XidMeaning(60, "security processor error", "driver", "restart the job"),
    XidMeaning(61, "micro-controller warning", "driver", "ask", source=ARCHIVE),
    XidMeaning(62, "micro-controller halted", "driver", "reset the GPU", told_by_154=True),
    XidMeaning(63, "a bad row or page of the memory was recorded, to be replaced", "hardware", "nothing", told_by_154=True),
    XidMeaning(64, "a bad row or page of the memory could not be replaced", "hardware", "reset the GPU", told_by_154=True),
    XidMeaning(66, "illegal access by the driver", "driver", "nothing"),
    XidMeaning(67, "illegal access by the driver", "driver", "nothing"),
    XidMeaning(68, "video decoder error", "application", "restart the job"),
    XidMeaning(69, "error in a class of the compute engine", "application", "restart the job"),
    *(XidMeaning(code, "copy engine error", "driver", "restart the job") for code in (70, 71, 72)),
    XidMeaning(74, "NVLink error", "hardware", "look at NVLink", told_by_154=True),
    *(XidMeaning(code, "copy engine error", "driver", "restart the job") for code in (75, 76, 77)),
    XidMeaning(78, "a vGPU could not be started", "driver", "ask"),
    XidMeaning(79, "the GPU has fallen off the bus", "hardware", "restart the node", told_by_154=True),
    XidMeaning(80, "data to the GPU were corrupted", "hardware", "restart the job"),
    XidMeaning(82, "JPEG decoder error", "application", "restart the job"),
    *(XidMeaning(code, "video decoder error", "application", "restart the job") for code in (83, 84)),
    XidMeaning(85, "copy engine error", "driver", "restart the job"),
    XidMeaning(86, "optical flow engine error", "application", "restart the job"),
    *(XidMeaning(code, "video decoder error", "application", "restart the job") for code in (88, 89)),
    XidMeaning(92, "many single bit errors in memory", "hardware", "nothing"),
    XidMeaning(93, "the board's information memory is protected from writing", "driver", "nothing"),
    XidMeaning(94, "uncorrectable memory error, contained to one program", "hardware", "restart the job", told_by_154=True),
    XidMeaning(95, "uncorrectable memory error, not contained", "hardware", "reset the GPU", told_by_154=True),
    *(XidMeaning(code, "video decoder error", "application", "restart the job") for code in (96, 97, 98)),
    *(XidMeaning(code, "JPEG decoder error", "application", "restart the job") for code in range(99, 106)),
    XidMeaning(106, "test message", "driver", "nothing"),
    XidMeaning(107, "test message", "driver", "nothing"),
    XidMeaning(109, "a context switch took too long", "driver", "reset the GPU", told_by_154=True),
    XidMeaning(110, "security fault", "hardware", "reset the GPU", told_by_154=True),
    XidMeaning(119, "the GPU's system processor (GSP) does not answer", "driver", "reset the GPU"),
    XidMeaning(120, "error in the GPU's system processor (GSP)", "driver", "reset the GPU", told_by_154=True),
    XidMeaning(121, "corrected error on the link to the CPU (C2C)", "hardware", "nothing"),
    *(XidMeaning(code, "copy engine error", "driver", "restart the job") for code in range(126, 136)),
    XidMeaning(136, "an NVLink could not be trained", "hardware", "reset the GPU", told_by_154=True),
    XidMeaning(137, "forbidden access to another GPU over NVLink", "application", "nothing"),
    XidMeaning(139, "optical flow engine error", "application", "restart the job"),
    XidMeaning(140, "uncorrectable memory error that could not be handled", "hardware", "reset the GPU"),
    XidMeaning(141, "CUDA fast path error", "application", "nothing"),
    XidMeaning(142, "video encoder error", "driver", "ask"),
    XidMeaning(143, "the GPU could not be started", "hardware", "reset the GPU", told_by_154=True),
    *(
        XidMeaning(code, f"NVLink error ({unit})", "hardware", "look at NVLink", told_by_154=True)
        for code, unit in enumerate(("SAW", "RLW", "TLW", "TREX", "NVLPW_CTRL", "NETIR", "MSE"), 144)
    ),
    XidMeaning(151, "a key could not be changed (confidential computing)", "driver", "restart the job"),
    XidMeaning(152, "deep learning accelerator's memory management error", "driver", "nothing"),
    XidMeaning(153, "deep learning accelerator's timeout", "driver", "nothing"),
    XidMeaning(154, "the driver's recovery action has changed", "driver", "nothing"),
    XidMeaning(155, "an NVLink went down, as software defined it", "driver", "reset the GPU", told_by_154=True),
    XidMeaning(156, "a part of the GPU was retired", "hardware", "reset the GPU", told_by_154=True),
    XidMeaning(157, "a part of the GPU could not be retired", "hardware", "nothing"),
    XidMeaning(158, "fatal timeout", "driver", "reset the GPU", told_by_154=True),
    XidMeaning(159, "error on the link to the CPU (CHI)", "driver", "ask"),
    XidMeaning(160, "a channel of the memory was retired", "hardware", "nothing"),
    XidMeaning(161, "a channel of the memory could not be retired", "hardware", "nothing"),
    XidMeaning(162, "power smoothing is engaged again", "driver", "ask"),
    XidMeaning(163, "power smoothing is disengaged", "driver", "ask"),
    XidMeaning(164, "power smoothing is near the end of its life", "hardware", "ask"),
    XidMeaning(165, "power smoothing is at the end of its life", "hardware", "ask"),
    XidMeaning(166, "unencrypted traffic on NVLink (confidential computing)", "driver", "ask"),
    XidMeaning(167, "fatal PCIe timeout", "hardware", "ask"),
    XidMeaning(168, "errors in protected memory", "hardware", "ask"),
    XidMeaning(169, "micro-controller halted", "driver", "ask"),
    XidMeaning(170, "interrupt on NVLink (confidential computing)", "driver", "ask"),
    XidMeaning(171, "uncorrectable error in DRAM, beside Xid 48", "hardware", "ask"),
    XidMeaning(172, "uncorrectable error in SRAM, beside Xid 48", "hardware", "ask"),
)
"""Those that a GPU of today can give; meanings in our words."""
