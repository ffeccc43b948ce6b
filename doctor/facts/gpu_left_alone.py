"""Which GPUs nothing may be run on, and why: somebody else uses them, or nothing can be begun there."""

from dl_doctor.facts.gpu_states import MPS_SERVER, GpuProcess, GpuState
from dl_doctor.units import GIB, binary_size, percent

LEAST_FREE_BYTES = GIB
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
    return strangers_on(state) or (in_use(state) if state.in_use else too_full(state))


def why_not_begun(state: GpuState) -> str | None:
    """Why not even something small is tried there. A desktop's programs are no reason, nor is what the job itself has there."""
    if state.divided:
        return None
    return strangers_on(state) or (in_use(state) if state.utilised else too_full(state))


def strangers_on(state: GpuState) -> str | None:
    stranger = next((process for process in state.processes if process.stranger), None)
    return f"{told(stranger)} computes on it" if stranger else None


def too_full(state: GpuState) -> str | None:
    free = (state.memory_total_bytes or LEAST_FREE_BYTES) - (state.memory_used_bytes or 0)
    if not state.memory_total_bytes or free >= LEAST_FREE_BYTES:
        return None
    return f"only {binary_size(max(0, free))} of its memory are free"


def told(process: GpuProcess) -> str:
    return f"{process.name} (pid {process.pid})" if process.name else f"pid {process.pid}"


def in_use(state: GpuState) -> str:
    if state.filled:
        return f"{binary_size(state.memory_used_bytes or 0)} of its memory are in use"
    if state.utilised:
        return f"something keeps it busy: at least {percent(min(state.utilisation))} of the time"
    return "it is in use"
