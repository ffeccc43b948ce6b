"""Which start methods multiprocessing offers; get_start_method() without allow_none would fix one."""

import multiprocessing
import sys


def probe(arguments, step):  # noqa: ARG001
    return {
        "python": list(sys.version_info[:3]),
        "available": multiprocessing.get_all_start_methods(),
        "chosen": multiprocessing.get_start_method(allow_none=True),
    }
