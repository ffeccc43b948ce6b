from dl_doctor.contract import Check
from dl_doctor.facts import LoaderPlan, StartMethods, WorkerRoundtrip
from dl_doctor.facts.worker_roundtrip import Trip
from dl_doctor.model import Finding, Fix, Verdict
from dl_doctor.units import plain


def worker_roundtrip(roundtrip: WorkerRoundtrip, methods: StartMethods, plan: LoaderPlan) -> Verdict:
    """A worker process starts and answers

    ## What it checks
    A real child of the job's Python is started by each method that multiprocessing offers (fork, spawn, forkserver), and has to
    send one message back.

    ## Why it matters
    A limit on processes, a sandbox, a folder for temporary files with too long a name or something that the interpreter loads
    at its start can keep workers from living. A DataLoader then says "DataLoader worker exited unexpectedly", or waits.

    ## How it decides
    By the method in force for this job: if its child cannot be started or dies, it fails; if it does not answer in time, that is
    an error. Trouble with a method that the job does not use is a note.

    For example, where a sitecustomize.py crashes in children, spawn fails and fork, which loads nothing anew, passes.

    ## How to fix
    The message says what stopped the child. Until it is mended, another method that answers can be given to the loader.

    ## Known limits
    The child imports neither torch nor your dataset, so that what breaks in those is not seen here.

    ## References
    python/cpython#93852, pytorch/pytorch#169252, docs.python.org/3/library/multiprocessing.html
    """
    if not roundtrip.trips:
        return Verdict.unknown(f"the job's Python {roundtrip.ended.in_words}")
    seen = ", ".join(f"{trip.method}: {told(trip)}" for trip in roundtrip.trips)
    if plan.num_workers == 0:
        return Verdict(f"{seen}; without workers none is needed")
    method = methods.in_force(plan.start_method)
    used = next((trip for trip in roundtrip.trips if trip.method == method), None)
    if used is None:
        return Verdict.skip(f"the job's Python cannot start workers by {method}: see start-method")
    if used.ended.how == "hung":
        return Verdict.unknown(f"a child by {method}, the method in force, gave no answer within {plain(used.duration_s)} s")
    broken = [trip for trip in roundtrip.trips if trip.ended.how != "answered"]
    return Verdict(seen, [trouble(trip, method, roundtrip) for trip in broken])


def told(trip: Trip) -> str:
    if trip.ended.how == "answered":
        return f"answered in {plain(1000 * trip.duration_s)} ms"
    return trip.ended.in_words


def trouble(trip: Trip, method: str, roundtrip: WorkerRoundtrip) -> Finding:
    in_force = trip.method == method
    said = roundtrip.ended.output_tail.strip().splitlines()
    printed = f" The last that was printed: {said[-1].strip()}" if said and trip.ended.how == "exited" else ""
    which = trip.method if in_force else f"{trip.method}, which this job does not use,"
    wording = "could not be started" if trip.ended.how == "raised" else "did not answer"
    return Finding(
        level="fail" if in_force else "note",
        subject=trip.method,
        summary=f"A worker by {which} {wording}: {trip.ended.in_words}",
        why=f"{'Every DataLoader with workers ends here.' if in_force else 'It matters if the method is changed.'}{printed}",
        fixes=instead(roundtrip) if in_force else (),
        explained_by="temp-space" if trip.method == "forkserver" else None,
    )


def instead(roundtrip: WorkerRoundtrip) -> tuple[Fix, ...]:
    """Another method, where one answers."""
    answering = [trip.method for trip in roundtrip.trips if trip.ended.how == "answered"]
    if not answering:
        return (Fix("Load in the main process meanwhile", ("DataLoader(..., num_workers=0)",), note="It loads more slowly."),)
    return (
        Fix(
            "Use a method whose child answers meanwhile",
            (f'DataLoader(..., multiprocessing_context="{answering[0]}")',),
            note="spawn and forkserver send the dataset by pickle.",
        ),
    )


CHECK = Check(worker_roundtrip)
