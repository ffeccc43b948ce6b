"""Fixes that several checks word alike."""

from dl_doctor.model import Fix


def for_containers(title: str, *, run: str, compose: str, kubernetes: tuple[str, ...], note: str = "") -> tuple[Fix, ...]:
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
        Fix("Or in compose.yaml", (compose,), runtimes=("compose",)),
        Fix(title, kubernetes, runtimes=("kubernetes",)),
    )
