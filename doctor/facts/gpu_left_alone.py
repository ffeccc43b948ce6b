"""Which GPUs nothing may be run on, and why: somebody else uses them, or nothing can be begun there."""

from dl_doctor.facts.gpu_states import MPS_SERVER, GpuProcess, GpuState
from dl_doctor.units import binary_size

LEAST_FREE_BYTES = 1 << 30
"""For a context, its libraries, and a quarter of what is then left. Proposal."""


def why_left_alone(state: GpuState) -> str | None:
    """In words, for `GPU 3: ...`; None where it may be measured."""
    working = [process for process in state.processes if process.kind != "graphics" and process.name != MPS_SERVER]
    if state.lost:
        return "NVML has lost it"
    if state.compute_mode == "prohibited":
        return "its compute mode is prohibited"
    if (state.compute_mode or "").startswith("exclusive") and working:
        return f"its compute mode is {state.compute_mode}, and {told(working[0])} holds it"
    if state.divided:  # others have other instances; whether ours is in use, its memory tells the probe
        return None
    if stranger := next((process for process in working if process.stranger), None):
        return f"{told(stranger)} computes on it"
    if state.in_use:
        return in_use(state)
    free = (state.memory_total_bytes or LEAST_FREE_BYTES) - (state.memory_used_bytes or 0)
    return f"only {binary_size(max(0, free))} of its memory are free" if free < LEAST_FREE_BYTES else None


def told(process: GpuProcess) -> str:
    return f"{process.name} (pid {process.pid})" if process.name else f"pid {process.pid}"


def in_use(state: GpuState) -> str:
    if state.filled:
        return f"{binary_size(state.memory_used_bytes or 0)} of its memory are in use"
    if state.utilised:
        return f"something keeps it busy: at least {min(state.utilisation):.0%} of the time"
    return "it is in use"
