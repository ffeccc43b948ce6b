"""Look at one path, which may never answer: at its age, its room, some of its files, and whether it can be written to."""

import errno
import os
import stat
import tempfile
import time

PEEK_FILES = 100
PEEK_S = 0.5

POINTERS = (b"version https://git-lfs.github.com/spec/", b"# xet version ")
"""How files begin that stand for others, which git-lfs or git-xet would have put in their place."""

READ_FILES = 3


def probe(arguments, step):
    """`path`; `peek`: look at some files below it; `write`: bytes to write at most, 0 for nothing."""
    path, told = arguments["path"], {}
    begin = time.monotonic()
    try:
        here, told["exists"] = nearest(path, step)
        step("statvfs %s" % here)
        room = os.statvfs(here)
    except OSError as error:
        return dict(told, refusal=refusal("look at it", error))
    told["latency_s"] = round(time.monotonic() - begin, 6)
    step("resolve the links of %s" % here)
    told["real_path"] = os.path.realpath(here)
    told["total_bytes"], told["free_bytes"] = room.f_blocks * room.f_frsize, room.f_bavail * room.f_frsize
    if room.f_files:
        told["total_files"], told["free_files"] = room.f_files, room.f_favail
    if arguments["peek"] and told["exists"]:
        step("list %s" % here)
        told.update(peek(here, step))
    if arguments["write"]:
        told.update(written(here, min(arguments["write"], max(4096, told["free_bytes"] // 4)), step))
    return told


def nearest(path, step):
    """The path, or the nearest folder above it that exists, where it would be made; and whether it exists."""
    exists = True
    while True:
        step("stat %s" % path)
        try:
            os.stat(path)
        except (FileNotFoundError, NotADirectoryError):
            above = os.path.dirname(path.rstrip("/"))
            if above == path or not above:
                raise
            path, exists = above, False
        else:
            return path, exists


def peek(path, step):
    """The sizes of the first files that are met, for a moment, and whether the smallest of them are what they should be."""
    found: list[tuple[int, str]] = []
    pending, end, all_seen = [path], time.monotonic() + PEEK_S, True
    while pending and len(found) < PEEK_FILES and time.monotonic() < end:
        here = pending.pop()
        try:
            with os.scandir(here) as entries:
                for entry in entries:
                    if entry.is_dir():
                        pending.append(entry.path)
                    elif entry.is_file():
                        found.append((entry.stat().st_size, entry.path))
                    if len(found) >= PEEK_FILES or time.monotonic() > end:
                        break
        except NotADirectoryError:
            found.append((os.stat(here).st_size, here))
        except OSError:
            all_seen = False
    told = {"files_seen": len(found), "mean_file_bytes": sum(size for size, _ in found) // len(found) if found else None}
    told["empty"] = all_seen and not pending and not any(size for size, _ in found) and regular(path)
    for _, name in sorted(found)[:READ_FILES]:
        step("read %s" % name)
        told.update(begun(name))
    return told


def regular(path):
    """A file or a folder, and no device."""
    mode = os.stat(path).st_mode
    return stat.S_ISDIR(mode) or stat.S_ISREG(mode)


def begun(name):
    try:
        descriptor = os.open(name, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
        try:
            begin = os.read(descriptor, 64)
        finally:
            os.close(descriptor)
    except OSError as error:
        return {"read_refusal": refusal("read %s" % name, error)}
    return {"pointer": name} if begin.startswith(POINTERS) else {}


def written(path, size, step):
    """Write a file without a name, or one whose name is gone at once."""
    folder = path if stat.S_ISDIR(os.stat(path).st_mode) else os.path.dirname(path)
    at = "create a file in %s" % folder
    try:
        step(at)
        with tempfile.TemporaryFile(buffering=0, prefix=".dl-doctor-probe-", dir=folder) as file:
            at = "write %d bytes to %s" % (size, folder)
            step(at)
            content = memoryview(os.urandom(size))
            while content:
                content = content[file.write(content) :]
            at = "synchronize a file in %s" % folder
            step(at)
            os.fsync(file)
    except OSError as error:
        return {"write_refusal": refusal(at, error)}
    return {"written": True}


def refusal(step, error):
    return {"step": step, "code": errno.errorcode.get(error.errno or 0, "OSError"), "error": error.strerror or str(error)}
