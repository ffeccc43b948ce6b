"""How every probe starts and answers. Its text is given to the examined interpreter as `python -c`, Python 3.8 or newer:

    python -c TEXT PROBE ANSWERS ARGUMENTS

So sys.path begins as it would for the job, with the working directory, and our own folder is not on it.
"""

import sys

working_directory = sys.path.pop(0)  # a json.py of the user's is the job's trouble, not the probe's

import json  # noqa: E402
import os  # noqa: E402
import re  # noqa: E402
import struct  # noqa: E402

sys.path.insert(0, working_directory)


def send(message):
    """Write a frame, see guard.py; what is no text (a lone surrogate) is shown by its number."""
    text = json.dumps(message, ensure_ascii=False)
    content = re.sub("[\ud800-\udfff]", lambda match: "\\\\u%04x" % ord(match.group()), text).encode("utf-8")
    frame = struct.pack(">I", len(content)) + content
    while frame:
        frame = frame[os.write(answers, frame) :]


def step(name):
    send({"step": name})


def be_the_first_to_go():
    """When memory runs out, the kernel is to end this process and not the job's."""
    try:
        with open("/proc/self/oom_score_adj", "w") as file:
            file.write("1000")
    except OSError:
        pass


def run(path, arguments):
    with open(path, encoding="utf-8") as file:
        code = compile(file.read(), path, "exec")
    names = {"__name__": "__probe__", "__file__": path}
    exec(code, names)
    return names["probe"](arguments, step)


answers = int(sys.argv[2])
os.set_inheritable(answers, False)
be_the_first_to_go()
send({"started": True})
try:
    send({"answer": run(sys.argv[1], json.loads(sys.argv[3]))})
except Exception as error:  # noqa: BLE001 (it is the answer)
    import traceback

    send({"raised": {"type": type(error).__name__, "message": str(error), "trace": traceback.format_exc()}})
sys.stdout.flush()
sys.stderr.flush()
os._exit(0)
