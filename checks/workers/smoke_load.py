from itertools import pairwise

from dl_doctor.contract import Check
from dl_doctor.facts import Batches, DatasetSamples, Loader, SmokeLoad
from dl_doctor.facts.smoke_load import PATIENCE_S, WorkerState
from dl_doctor.model import Ended, Finding, Fix, Quantity, Unavailable, Verdict
from dl_doctor.text import place_in
from dl_doctor.units import count, plain

FEWER = Fix("Try it with fewer workers", ("dl-doctor check --num-workers=1 ...",))


CLOSE = 0.8
"""Of the loader's timeout, from when on the longest wait is told. Proposal."""


def smoke_load(load: SmokeLoad, loader: Loader, samples: DatasetSamples | Unavailable, batches: Batches | Unavailable) -> Verdict:
    """A real DataLoader delivers batches

    ## What it checks
    A DataLoader like yours, with the workers, the start method and the prefetch_factor of the plan, delivers its first batches
    through shared memory, and its workers are ended.

    ## Why it matters
    It is what the job does first. And where a worker cannot hand a batch over, the job may wait for ever without a word: with a
    collate_fn of its own the batch is lost in a thread of the worker, and only a traceback on standard error tells.

    ## How it decides
    An exception, a worker that dies, and a batch that is lost in a worker's thread fail. No batch in time, and nothing that says
    why, is an error. A loader with a `timeout` fails where one batch is waited for longer than that, and warns from 80 % on. It
    is tried only where it takes at most a quarter of the memory that is left and finds the shared memory
    that it needs; otherwise what it would take is a warning.

    For example, a worker that reads a damaged file raises in its third batch, and the traceback's last line names the file.

    ## How to fix
    The exception says what is wrong. A batch that was lost for want of shared memory or of descriptors needs more of them, or
    fewer workers.

    ## Known limits
    It sees the first batches only. Batches are not copied into pinned memory, and no GPU is touched.

    ## References
    pytorch/pytorch#5040, pytorch/pytorch#973, google/gvisor#9827
    """
    plan = f"{count(load.workers, 'worker')} by {load.method}" if load.workers else "no workers"
    if load.refused:
        return Verdict(f"not tried: {load.refused}", [not_tried(load)])
    if load.ended is None or load.ended.how not in ("answered", "killed", "exited"):
        told = "no answer" if load.ended is None else load.ended.in_words
        return Verdict.unknown(f"{plan}: the process that loads {told}")
    if load.ended.how != "answered":
        return Verdict(f"{plan}: {load.ended.in_words}", [main_process_died(load, load.ended)])
    came = f"{plan}: {len(load.came_s)} of {load.wanted} batches"
    if load.out_of_memory:
        return Verdict(f"{came}, then stopped", [stopped()], Verdict.unknown("it needs more memory").reason)
    if load.late == "feeder":
        return Verdict(came, [lost(load)])
    if load.raised:
        cause = told_by(load.raised, samples, batches)
        return Verdict.skip(f"{came}, then what {cause} tells was raised: see there") if cause else Verdict(came, [raised(load)])
    timed_out = beyond_its_timeout(load, loader)
    if timed_out:
        return Verdict(came, timed_out)
    if load.late:
        return Verdict.unknown(f"{came} came in time; {'; '.join(map(doing, load.processes)) or 'no worker was started'}")
    if not load.came_s:
        return Verdict.unknown(f"{plan}: the loader is at its end without a batch: see loader-options")
    pace = load.seconds_per_batch
    then = "" if pace is None else f", then one each {plain(pace)} s"
    return Verdict(f"{came}, the first after {plain(load.came_s[0])} s{then}")


def beyond_its_timeout(load: SmokeLoad, loader: Loader) -> list[Finding]:
    """It was tried without the loader's timeout, and the batches took longer than that."""
    timeout_s = loader.arguments.timeout_s if loader.arguments else 0
    waits = [after - before for before, after in pairwise((0.0, *load.came_s, *((PATIENCE_S,) if load.late else ())))]
    if not timeout_s or not load.workers or not waits or max(waits) < CLOSE * timeout_s:
        return []
    ends = max(waits) > timeout_s
    return [
        Finding(
            level="fail" if ends else "warn",
            subject="timeout",
            summary=f"A batch is waited for {plain(max(waits))} s, and the loader gives up after {plain(timeout_s)} s",
            measured=Quantity(round(max(waits), 2), "s", "the longest wait for a batch"),
            expected=Quantity(timeout_s, "s", "the loader's timeout"),
            relation="at_most",
            why=f'The epoch {"ends" if ends else "may end"} in "DataLoader timed out after {plain(timeout_s)} seconds".',
            fixes=(Fix("Give it more time", (f"DataLoader(..., timeout={max(60, round(4 * max(waits)))})",)),),
        )
    ]


def told_by(raised: str, samples: DatasetSamples | Unavailable, batches: Batches | Unavailable) -> str | None:
    """The check that fails for the same exception, of which one finding is enough."""
    met = [fact.trouble for fact in (samples, batches) if not isinstance(fact, Unavailable)]
    for trouble in met:
        if trouble and not trouble.out_of_memory and not trouble.late and trouble.explains(raised):
            return "dataset-sample" if trouble.stage == "read" else "dataset-collate"
    return None


def doing(worker: WorkerState) -> str:
    """What a worker does of which no batch comes: whether it computes, such as importing, or waits."""
    if worker.signal or worker.exit_code is not None:
        return f"worker {worker.pid} {worker.end}"
    if worker.state is None:
        return f"worker {worker.pid} is gone"
    waits = f" in {worker.wait_channel}" if worker.wait_channel else ""
    return f"worker {worker.pid} has used {plain(worker.cpu_s or 0)} s of CPU and is in state {worker.state}{waits}"


def not_tried(load: SmokeLoad) -> Finding:
    waits = "The job will need it all the same, and with a collate_fn of its own it waits for ever when that runs out."
    return Finding(
        level="warn",
        subject="loader",
        summary=f"Loading was not tried: {load.refused}",
        why=waits if load.short_of_shared_memory else "Trying it could end the job, or others here.",
        fixes=()
        if load.short_of_shared_memory
        else (Fix("Try it with fewer workers", ("dl-doctor check --num-workers=1 ...",)),),
        explained_by="shm-size" if load.short_of_shared_memory else "memory-budget",
    )


def main_process_died(load: SmokeLoad, ended: Ended) -> Finding:
    return Finding(
        level="fail",
        subject="loader",
        summary=f"The process that iterates over the loader {ended.in_words}",
        why=f"The job's main process does the same.{last_printed(load)}",
    )


def stopped() -> Finding:
    return Finding(
        level="warn",
        subject="loader",
        summary="Loading wanted more than a quarter of the memory that is left, and was stopped",
        why="It was stopped there, so that the examination harms nobody.",
        fixes=(FEWER,),
    )


def lost(load: SmokeLoad) -> Finding:
    error = load.feeder_error or "an exception"
    return Finding(
        level="fail",
        subject="loader",
        summary=f"A worker could not hand a batch over, and the loader waits for ever: {error}",
        measured=Quantity(len(load.came_s), "batches", "delivered before it"),
        why="It happens in the thread that writes batches into the worker's queue: the batch is lost, and the main process does "
        "not hear of it. Torch's own collate_fn puts tensors into shared memory earlier, where the exception is told.",
        fixes=handing_over(error),
        explained_by="fd-limit" if short_of_descriptors(error) else "shm-size" if "No space left" in error else None,
    )


def short_of_descriptors(text: str) -> bool:
    """By what Python and torch say in the main process, of a worker and of the pipe to it."""
    return any(sign in text for sign in ("Too many open files", "(24)", "[Errno 24]", "received 0 items of ancdata"))


def more_descriptors() -> Fix:
    return Fix("Allow more descriptors: dl-doctor explain fd-limit", ("ulimit -n 65536",))


def handing_over(error: str) -> tuple[Fix, ...]:
    timeout = Fix("Have the loader tell instead of waiting for ever", ("DataLoader(..., timeout=120)",))
    if "No space left" in error or "(28)" in error:
        return (Fix("Give it more shared memory: dl-doctor explain shm-size", ("docker run --shm-size=8g ...",)), timeout)
    if short_of_descriptors(error):
        return (more_descriptors(), timeout)
    return (Fix("Return from collate_fn only what can be pickled: tensors, numbers, text, and lists and dicts of them"), timeout)


def raised(load: SmokeLoad) -> Finding:
    error = (load.raised or "").strip()
    if short_of_descriptors(error + load.printed):
        return out_of_descriptors(error, load)
    if "DataLoader worker (pid" in error:
        memory = " SIGKILL is what the kernel sends where memory runs out." if "died by SIGKILL" in load.ends else ""
        summary = f"A worker {' and one '.join(load.ends)}" if load.ends else f"A worker died: {error.splitlines()[0]}"
        why = f"In the job the loader then says: {error.splitlines()[0]}.{memory}{last_printed(load)}"
    else:
        summary = f"Loading raised {error.splitlines()[-1].strip()}"
        place = place_in(error)
        why = f"{f'It was raised at {place}. ' if place else ''}The job's first batches are made in the same way."
    return Finding(
        level="fail",
        subject="loader",
        summary=summary,
        measured=Quantity(len(load.came_s), "batches", "delivered before it"),
        why=why.strip(),
        explained_by="dataset-picklable" if "pickle" in error.lower() else None,
    )


def out_of_descriptors(error: str, load: SmokeLoad) -> Finding:
    """Whichever process met it first: the other one sees a pipe that ends (EOFError) or a worker that is gone."""
    return Finding(
        level="fail",
        subject="loader",
        summary=f"Loading ran out of file descriptors: {error.splitlines()[-1].strip()}",
        measured=Quantity(len(load.came_s), "batches", "delivered before it"),
        why="Each tensor of a batch that waits is a descriptor, and each worker some more.",
        fixes=(more_descriptors(), Fix("Or have workers hand over fewer tensors: pack lists into one tensor")),
        explained_by="fd-limit",
    )


def last_printed(load: SmokeLoad) -> str:
    printed = load.printed.strip().splitlines()
    return f" The last that was printed: {printed[-1].strip()}" if printed else ""


CHECK = Check(smoke_load, essential=True)
