"""Open device nodes and close them again. Opening can hang in a driver that is ill, and starts a GPU that sleeps."""

import errno
import os
import stat

MODPROBE = "/usr/bin/nvidia-modprobe"


def probe(arguments, step):
    """`paths` are device nodes; gives for each what stat(2) and open(2) say."""
    nodes = []
    for path in arguments["paths"]:
        step("open %s" % path)
        nodes.append(looked_at(path))
    can_make_nodes = os.geteuid() == 0 or is_setuid(MODPROBE)
    return {"nodes": nodes, "uid": os.geteuid(), "groups": os.getgroups(), "can_make_nodes": can_make_nodes}


def looked_at(path):
    found = {"name": os.path.basename(path), "error": None}
    try:
        status = os.stat(path)
        found.update(mode=stat.S_IMODE(status.st_mode), uid=status.st_uid, gid=status.st_gid)
        if stat.S_ISCHR(status.st_mode):
            found.update(major=os.major(status.st_rdev))
        os.close(os.open(path, os.O_RDWR | os.O_CLOEXEC))
    except OSError as error:
        found["error"] = errno.errorcode.get(error.errno or 0, str(error.errno))
    return found


def is_setuid(path):
    try:
        return bool(os.stat(path).st_mode & stat.S_ISUID)
    except OSError:
        return False
