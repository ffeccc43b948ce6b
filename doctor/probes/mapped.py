"""The libraries in a process's own memory: which files they are, and the names that they go by. For probes."""

import os
import struct

SEGMENT_IN_MEMORY, DYNAMIC_SEGMENT = 1, 2
"""PT_LOAD and PT_DYNAMIC of elf(5)."""

TABLE_OF_NAMES, OWN_NAME = 5, 14
"""DT_STRTAB and DT_SONAME."""


def mapped_files(beginning=""):
    """Files that lie in our memory and whose name begins so, links followed, in the order of their addresses."""
    with open("/proc/self/maps", encoding="utf-8", errors="backslashreplace") as file:
        paths = ["/" + line.rstrip("\n").partition("/")[2] for line in file if "/" in line]
    return list(dict.fromkeys(path for path in paths if os.path.basename(path).startswith(beginning)))


def soname(path):
    """The name by which the loader knows a library: `libcudnn.so.9`; its file's where it has none, or cannot be read."""
    try:
        with open(path, "rb") as file:
            return name_in(file) or os.path.basename(path)
    except (OSError, ValueError, KeyError, struct.error):
        return os.path.basename(path)


def name_in(file):
    """DT_SONAME of an ELF file of 64 bits; None where it is none."""
    head = file.read(64)
    if head[:5] != b"\x7fELF\x02":
        return None
    order = "<" if head[5] == 1 else ">"
    (begin,), (size, count) = struct.unpack(order + "Q", head[32:40]), struct.unpack(order + "HH", head[54:58])
    file.seek(begin)
    table = file.read(size * count)
    segments = [struct.unpack_from(order + "IIQQQQ", table, size * index) for index in range(count)]
    offset, length = next((segment[2], segment[5]) for segment in segments if segment[0] == DYNAMIC_SEGMENT)
    file.seek(offset)
    tags = dict(struct.iter_unpack(order + "qQ", file.read(length - length % 16)))
    if OWN_NAME not in tags:
        return None
    names = tags[TABLE_OF_NAMES]
    for kind, _, offset, address, _, length in segments:
        if kind == SEGMENT_IN_MEMORY and address <= names < address + length:
            file.seek(offset + names - address + tags[OWN_NAME])
            return file.read(256).partition(b"\0")[0].decode("ascii", "backslashreplace")
    return None
