"""Fixes that several checks word alike."""

from collections.abc import Callable

from dl_doctor.facts.loader_plan import LoaderPlan
from dl_doctor.model import Fix


def for_containers(
    title: str, *, run: str, compose: tuple[str, ...], kubernetes: tuple[str, ...], note: str = ""
) -> tuple[Fix, ...]:
    """One setting of a container, in the words of docker, podman, compose and Kubernetes.

    Args:
        title: what to do.
        run: the options of `docker run`, which podman takes too.
        compose: lines below the service in compose.yaml.
        kubernetes: lines of the container's or the pod's spec.
        note: said with docker and podman.
    """
    return (
        Fix(title, (f"docker run {run} ...",), runtimes=("docker",), note=note),
        Fix(title, (f"podman run {run} ...",), runtimes=("podman",), note=note),
        Fix("In compose.yaml", compose, runtimes=("compose",)),
        Fix(title, kubernetes, runtimes=("kubernetes",)),
    )


def ask_for_less(plan: LoaderPlan, fits: Callable[[int, int], bool]) -> tuple[Fix, ...]:
    """The most workers that fit with a prefetch_factor of 1; nothing where none do, or where it is as little already.

    Args:
        plan: how the job loads now.
        fits: whether so many workers, with this prefetch_factor, do.
    """
    if not plan.num_workers:
        return ()
    most = plan.num_workers if plan.prefetch_factor > 1 else plan.num_workers - 1
    workers = next((number for number in range(most, -1, -1) if fits(number, 1)), None)
    if workers is None:
        return ()
    options = f"num_workers={workers}, prefetch_factor=1" if workers else "num_workers=0"
    return (Fix("Or ask for less", (f"DataLoader(..., {options})",), note="It loads more slowly."),)


def quoted(path: str) -> str:
    """A path as a shell takes it, whatever is in its name."""
    return path if all(letter.isalnum() or letter in "/._:-" for letter in path) else "'" + path.replace("'", "'\\''") + "'"
