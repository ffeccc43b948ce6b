"""The way in: `dl-doctor` and `python -m dl_doctor`.

A doctor is called where things are broken, so before it imports anything that is not already loaded it forgets the import
path of the job: PYTHONPATH and the working directory may hold a broken click, or folders called `checks` and `reports`.
What the job would import is for probes to find out, in processes of their own.
"""

import os
import sys


def leave_the_jobs_import_path() -> None:
    """Take the entries of PYTHONPATH and the working directory off sys.path, but for the one that we came from."""
    try:
        working_directory = os.getcwd()  # noqa: PTH109 (pathlib could be the user's)
    except OSError:  # it was deleted
        working_directory = ""
    jobs = {"", working_directory, *os.environ.get("PYTHONPATH", "").split(os.pathsep)}
    foreign = {os.path.realpath(entry) for entry in jobs} - {our_own_folder()}
    sys.path[:] = [entry for entry in sys.path if os.path.realpath(entry) not in foreign]


def our_own_folder() -> str:
    """The folder on sys.path that this package was installed into (`pip install --target` and PYTHONPATH go together)."""
    return os.path.dirname(os.path.dirname(os.path.realpath(__file__)))  # noqa: PTH120


def main() -> None:
    leave_the_jobs_import_path()
    from dl_doctor.cli import run  # noqa: PLC0415 (only now is it safe)

    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
