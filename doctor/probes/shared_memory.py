"""Use POSIX shared memory as a worker does: a segment that is filled, and a lock. Their names are gone before they are used."""

import errno
import mmap
import os


def probe(arguments, step):
    """`size` is what the segment takes; gives for segment and lock None, or the step that was refused and how."""
    return {"segment": refused(segment, step, arguments["size"]), "lock": refused(lock, step)}


def refused(use, step, *arguments):
    done = []

    def tell(name):
        done.append(name)
        step(name)

    try:
        use(tell, *arguments)
    except (OSError, ImportError) as error:
        code = errno.errorcode.get(getattr(error, "errno", None) or 0, type(error).__name__)
        return {"step": done[-1], "code": code, "error": getattr(error, "strerror", None) or str(error)}
    return None


def segment(step, size):
    step("import _posixshmem")
    import _posixshmem  # type: ignore[import-not-found]  # noqa: PLC0415 (a Python can be without it)

    name = "/.dl-doctor-probe-" + os.urandom(8).hex()  # a pid is not enough: containers can share /dev/shm
    step("create a segment")
    descriptor = _posixshmem.shm_open(name, os.O_CREAT | os.O_EXCL | os.O_RDWR, mode=0o600)
    try:
        _posixshmem.shm_unlink(name)
        step("reserve %d bytes" % size)
        os.ftruncate(descriptor, size)
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(descriptor, 0, size)
        step("map and write it")
        with mmap.mmap(descriptor, size) as memory:
            for page in range(0, size, mmap.PAGESIZE):
                memory[page] = 1
    finally:
        os.close(descriptor)


def lock(step):
    """Under fork its semaphore has no name any more when it has been made; the system call is the same for all methods."""
    step("make a lock of multiprocessing")
    import multiprocessing  # noqa: PLC0415

    with multiprocessing.get_context("fork").Lock():
        pass
