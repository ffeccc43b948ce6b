"""Whether somebody listens where CUDA looks for the daemon of MPS.

The daemon does not notice: its socket is one of ordered packets, a socket of datagrams cannot connect to that, and the kernel
says so only where somebody has it open.
"""

import errno
import os
import socket
import stat

SAID = {
    errno.EPROTOTYPE: "listens",
    errno.ECONNREFUSED: "refuses",
    errno.EACCES: "denied",
    errno.EPERM: "denied",
    errno.ENOENT: "absent",
    errno.ENOTDIR: "absent",
}


def probe(arguments, step):
    """`path` is the socket's."""
    path = arguments["path"]
    step("connect to %s" % path)
    try:
        if not stat.S_ISSOCK(os.stat(path).st_mode):
            return {"daemon": "unknown"}
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ours:
            ours.connect(path)
    except OSError as error:  # errno is None where the path is too long for a socket
        return {"daemon": SAID.get(error.errno or 0, "unknown")}
    return {"daemon": "listens"}
