"""The way in: `dl-doctor` and `python -m dl_doctor`.

A doctor is called where things are broken, so before it imports anything that is not already loaded it forgets the import
path of the job: PYTHONPATH and the working directory may hold a broken click, or folders called `checks` and `reports`.
What the job would import is for probes to find out, in processes of their own.
"""

import os
import sys

BUG, INTERRUPTED = 70, 130
"""As in outcome.py, which cannot be imported yet."""

BETWEEN_COLLECTIONS = 100_000
"""New objects before garbage is looked for. Modules are none, and looking for it every 700 took 3 % of a quick run."""


def leave_the_jobs_import_path() -> None:
    """Take PYTHONPATH's entries and the working directory off sys.path, but for what is the interpreter's own, or ours."""
    jobs = {resolved(entry) for entry in ("", *os.environ.get("PYTHONPATH", "").split(os.pathsep))}
    foreign = jobs - {resolved(entry) for entry in (our_own_folder(), *the_interpreters_folders())}
    sys.path[:] = [entry for entry in sys.path if resolved(entry) not in foreign]


def resolved(entry: str) -> str:
    """The folder that an entry of sys.path leads to; "" where it is relative to a working directory that was deleted."""
    try:
        return os.path.realpath(entry)
    except OSError:
        return ""


def our_own_folder() -> str:
    """The folder on sys.path that this package was installed into (`pip install --target` and PYTHONPATH go together)."""
    return os.path.dirname(os.path.dirname(os.path.realpath(__file__)))  # noqa: PTH120


def the_interpreters_folders() -> list[str]:
    """Where the standard library and what was installed lie: they stay, although PYTHONPATH may name them too."""
    library = os.path.dirname(os.__file__)  # noqa: PTH120
    site = sys.modules.get("site")  # not there under -S
    installed = [*site.getsitepackages(), site.getusersitepackages()] if site else []
    return [library, os.path.join(library, "lib-dynload"), *installed]  # noqa: PTH118


def main() -> None:
    import gc  # noqa: PLC0415 (it is built in: no path leads to another one)

    gc.set_threshold(BETWEEN_COLLECTIONS)
    leave_the_jobs_import_path()
    try:
        from dl_doctor.cli import run  # noqa: PLC0415 (only now is it safe)
    except KeyboardInterrupt:
        tell("interrupted")
        sys.exit(INTERRUPTED)
    except Exception as error:  # noqa: BLE001 (whatever is wrong with what we are made of, it says nothing of the machine)
        tell(f"cannot start: {error}. What it needs was looked for outside PYTHONPATH, which is the job's: install it with pip.")
        sys.exit(BUG)
    end(run(sys.argv[1:]))


def end(code: int) -> None:
    """Leave at once. All is written by now, and to take the modules down one by one takes longer than a tenth of a quick run."""
    for stream in (sys.stdout, sys.stderr):
        try:  # noqa: SIM105 (nothing more is imported here)
            stream.flush()
        except (OSError, ValueError, AttributeError):  # full, closed, or not there
            pass
    os._exit(code)


def tell(text: str) -> None:
    """A line on standard error, whatever state that is in."""
    try:  # noqa: SIM105 (nothing more is imported here)
        os.write(2, f"dl-doctor: {text}\n".encode("utf-8", "backslashreplace"))
    except OSError:
        pass


if __name__ == "__main__":
    main()
