"""What this process is on a Mac, and whether torch computes on the GPU there. Elsewhere torch is not imported."""

import ctypes
import platform


def probe(_arguments, step):
    step("ask the platform")
    found = {
        "system": platform.system(),
        "machine": platform.machine(),
        "macos": platform.mac_ver()[0] or None,
        "translated": sysctl("sysctl.proc_translated"),
        "virtual": sysctl("kern.hv_vmm_present"),
    }
    if found["system"] != "Darwin":
        return found
    step("import torch")
    import torch  # noqa: PLC0415

    backend = getattr(torch.backends, "mps", None)
    found.update(built=bool(backend and backend.is_built()), available=bool(backend and backend.is_available()))
    if found["available"]:
        step("a product on the GPU")
        found.update(product(torch))
    return found


def product(torch):
    """Whole numbers below 2 ** 11 are exact in all types, so equal means equal."""
    given = torch.arange(64.0).reshape(8, 8)
    try:
        there = (given.to("mps") @ torch.ones(8, 8, device="mps")).cpu()
    except Exception as error:  # noqa: BLE001 (whatever Metal says)
        return {"raised": "%s: %s" % (type(error).__name__, error)}
    return {"agrees": bool((there == given @ torch.ones(8, 8)).all())}


def sysctl(name):
    """A number that is 0 or 1, as a bool; None where there is none of that name."""
    value, size = ctypes.c_int(0), ctypes.c_size_t(ctypes.sizeof(ctypes.c_int))
    try:
        failed = ctypes.CDLL(None).sysctlbyname(name.encode(), ctypes.byref(value), ctypes.byref(size), None, 0)
    except AttributeError:
        return None
    return None if failed else bool(value.value)
