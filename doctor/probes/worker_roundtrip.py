"""Start a real child by each method of multiprocessing and wait for its answer, over a pipe: no semaphore that could be left."""

import multiprocessing
import multiprocessing.connection
import operator
import signal
import time

from .socket_folder import socket_folder


def probe(arguments, step):
    """`patience_s` is what a child may take; gives for each method how it ended, and after how many seconds."""
    signal.signal(signal.SIGALRM, out_of_patience)
    return {"trips": [trip(method, arguments["patience_s"], step) for method in multiprocessing.get_all_start_methods()]}


class OutOfPatience(Exception):
    pass


def out_of_patience(*_):
    raise OutOfPatience


def trip(method, patience_s, step):
    step("start a child by %s" % method)
    begin = time.monotonic()
    signal.alarm(patience_s)
    try:
        told = answer(method)
    except OutOfPatience:
        told = {"how": "hung"}
    except Exception as error:  # noqa: BLE001 (it is the answer)
        told = {"how": "raised", "error": "%s: %s" % (type(error).__name__, error)}
    finally:
        signal.alarm(0)
    told = dict({"exit_code": None, "error": None}, **told)
    return dict(told, method=method, duration_s=round(time.monotonic() - begin, 6))


def answer(method):
    context = multiprocessing.get_context(method)
    reader, writer = context.Pipe(duplex=False)
    child = context.Process(target=operator.methodcaller("send", method), args=(writer,))
    start(child, method)
    writer.close()
    multiprocessing.connection.wait([reader, child.sentinel])
    try:
        answered = reader.poll() and reader.recv() == method
    except EOFError:
        answered = False
    child.join()
    return {"how": "answered"} if answered else {"how": "exited", "exit_code": child.exitcode}


def start(child, method):
    if method != "forkserver":
        return child.start()
    with socket_folder():  # which nobody needs when it has started
        return child.start()
