"""Read the kernel's log, without waiting for more of it, and keep what NVIDIA's driver tells of Xids and of its start."""

import ctypes
import errno
import os
import re
import time

WANTED = re.compile("NVRM: (Xid |loading NVIDIA )")

MOST_LINES = 5000
"""The newest that are kept: a driver in trouble can say the same for hours."""

RECORD_BYTES = 8192
"""The longest record; CONSOLE_EXT_LOG_MAX of the kernel's printk.h, and one that does not fit would be an error."""

READ_ALL, SIZE = 3, 10
"""Actions of syslog(2)."""

LINE = re.compile(r"(?:<\d+>)?(?:\[ *(\d+\.\d+)\](?:\[ *[TC]\d+\])?)? ?(.*)")
"""Of syslog(2): level, then seconds since the start where the kernel writes these, and who wrote it where it says so."""


def probe(_arguments, step):
    """Gives the lines as [seconds or null, text], or why no way to the log is open."""
    refusals = {}
    for source, read in (("/dev/kmsg", of_the_device), ("syslog(2)", of_the_call)):
        step("read %s" % source)
        try:
            lines = read()
        except OSError as error:
            refusals[source] = errno.errorcode.get(error.errno or 0, str(error))
        else:
            return dict(kept(lines), source=source, now_s=time.clock_gettime(time.CLOCK_MONOTONIC))
    return {"refusals": refusals}


def kept(lines):
    return {"since_s": lines[0][0] if lines else None, "lines": [line for line in lines if WANTED.match(line[1])][-MOST_LINES:]}


def of_the_device():
    """Each read gives a record, `6,339,5140900,-;text`, and lines that begin with a blank for what it is of."""
    device = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    lines = []  # type: list[list[object]]
    try:
        while True:
            try:
                record = os.read(device, RECORD_BYTES)
            except BlockingIOError:
                return lines
            except BrokenPipeError:  # the log went round meanwhile
                continue
            if not record:
                raise OSError(errno.ENODATA, "it is another device of that name")
            lines.append(of_a_record(record.decode("utf-8", "backslashreplace")))
    finally:
        os.close(device)


def of_a_record(record):
    prefix, _, text = record.partition(";")
    fields = prefix.split(",")
    return [int(fields[2]) / 1e6 if len(fields) > 2 else None, text.partition("\n")[0]]


def of_the_call():
    call = ctypes.CDLL(None, use_errno=True).klogctl
    size = call(SIZE, None, 0)
    room = ctypes.create_string_buffer(max(size, 1 << 16))
    length = call(READ_ALL, room, len(room))
    if size < 0 or length < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return of_a_text(room.raw[:length].decode("utf-8", "backslashreplace"))


def of_a_text(text):
    found = (LINE.match(line) for line in text.splitlines())
    return [[float(match.group(1)) if match.group(1) else None, match.group(2)] for match in found if match]
