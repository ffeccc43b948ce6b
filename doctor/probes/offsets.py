"""Where open files are read at. A forked process shares that with the one that it was forked from, and moves it for both."""

import contextlib
import fcntl
import os
import stat
from os import lseek, readlink  # by names of our own: the job's code may patch modules


class OpenFile:
    """A descriptor, what it leads to, and the offset at first."""

    def __init__(self, number):
        self.number = number
        self.path = path_of(number)
        self.at_first = offset_of(number)


def path_of(number):
    return readlink("/proc/self/fd/%d" % number)


def offset_of(number):
    return lseek(number, 0, os.SEEK_CUR)


def inherited():
    """Regular files that are open for reading. One that is open for appending is a log."""
    found = []  # type: list[OpenFile]
    try:
        numbers = sorted(int(name) for name in os.listdir("/proc/self/fd"))
    except OSError:
        return found
    for number in numbers:
        try:
            flags = fcntl.fcntl(number, fcntl.F_GETFL)
            read = flags & os.O_ACCMODE != os.O_WRONLY and not flags & os.O_APPEND
            if number > 2 and read and stat.S_ISREG(os.fstat(number).st_mode):
                found.append(OpenFile(number))
        except OSError:  # the descriptor of the listing
            continue
    return found


def put_back(files):
    """Have these be read where they were at first, as far as they are open yet."""
    for file in files:
        with contextlib.suppress(OSError):
            if path_of(file.number) == file.path and offset_of(file.number) != file.at_first:
                lseek(file.number, file.at_first, os.SEEK_SET)
