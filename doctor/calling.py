"""`dl_doctor.check` from Python and notebooks: the engine in a thread of its own, on a fork of the process that calls.

A thread, because in a notebook an event loop runs already in the calling one. The fork is made before it, in the calling thread,
whose state (grad mode, default device) a worker would inherit too.
"""

import difflib
import html
import multiprocessing
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future, wait
from typing import Any

import click
import msgspec

from dl_doctor.catalogue import load
from dl_doctor.commands import check
from dl_doctor.engine import examine
from dl_doctor.forking import fork_with
from dl_doctor.model import Report
from dl_doctor.reports import renderer
from dl_doctor.reports.look import Look
from dl_doctor.settings import Settings
from dl_doctor.system import System
from dl_doctor.watching import Interruption

NOT_FROM_PYTHON = ("dataset", "loader", "python")
"""Settings that name what is at hand here."""


FRAME = '<iframe sandbox title="dl-doctor" srcdoc="{page}" style="width: 100%; height: 42rem; border: 0"></iframe>'
"""Of a page in a page: it keeps its own style, and runs no script."""


class Shown(Report, frozen=True, kw_only=True):
    """A report that is text where Python prints it, and a page in a notebook."""

    def __repr__(self) -> str:
        return renderer("text")(self, Look()).rstrip("\n")

    __str__ = __repr__

    def _repr_html_(self) -> str:
        return FRAME.format(page=html.escape(renderer("html")(self, Look())))


def examined(loader: object, dataset: object, options: Mapping[str, object]) -> Shown:
    if loader is not None and dataset is not None:
        raise TypeError("check() takes a loader or a dataset, not both: a loader has its dataset with it")
    at_hand = dataset if loader is None else loader
    if isinstance(at_hand, str | bytes | int | float | type):
        kind = f"the class {at_hand.__name__}" if isinstance(at_hand, type) else f"{at_hand!r}"
        raise TypeError(f"check() takes a DataLoader or a dataset that is at hand, not {kind}")
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        raise RuntimeError(
            "a process that was started by spawn or forkserver imports the program again, and dl_doctor.check is called in it: "
            "put the call below `if __name__ == '__main__':`"
        )
    catalogue = load()
    settings = msgspec.structs.replace(
        settings_of(options, catalogue),
        loader="loader" if loader is not None else None,
        dataset="dataset" if dataset is not None else None,
    )
    caller = fork_with(at_hand)
    interruption = Interruption()
    try:
        report = in_a_thread(
            lambda: examine(catalogue, settings, System(), caller=caller, interruption=interruption), interruption.end
        )
    finally:
        caller.close()
    return Shown(**{name: getattr(report, name) for name in report.__struct_fields__})


def in_a_thread(work: Callable[[], Report], end: Callable[[], None]) -> Report:
    """What `work` gives. Where waiting for it is interrupted, it is ended first."""
    done: Future[Report] = Future()

    def run() -> None:
        try:
            done.set_result(work())
        except BaseException as error:  # noqa: BLE001 (it is raised where the result is wanted)
            done.set_exception(error)

    thread = threading.Thread(target=run, name="dl-doctor", daemon=True)
    thread.start()
    try:
        wait([done])  # not Thread.join, which takes a thread for ended once it was interrupted
    except BaseException:
        end()
        wait([done])
        raise
    finally:
        thread.join()
    return done.result()


def settings_of(options: Mapping[str, object], catalogue: Any) -> Settings:
    """Options by the names that they have on the command line; TypeError for one that is unknown, ValueError for its value."""
    parameters = {
        parameter.opts[-1].lstrip("-").replace("-", "_"): parameter
        for parameter in check.check.params
        if parameter.name in Settings.__struct_fields__ and parameter.name not in NOT_FROM_PYTHON
    }
    context = click.Context(check.check)
    given: dict[str, Any] = {"data": (), "select": (), "ignore": (), "require": ()}
    for name, value in options.items():
        if name not in parameters:
            close = difflib.get_close_matches(name, parameters, n=1)
            hint = f"did you mean {close[0]!r}?" if close else f"there are {', '.join(sorted(parameters))}"
            raise TypeError(f"check() has no option {name!r}: {hint}")
        parameter = parameters[name]
        if value is not None:
            given[parameter.name] = converted(value, parameter, context)
    try:
        return check.settings_of(given, catalogue)
    except click.ClickException as error:
        raise ValueError(error.format_message()) from None


def converted(value: object, parameter: click.Parameter, context: click.Context) -> object:
    """A value as the command line would have read it."""
    if parameter.multiple:
        values = [value] if isinstance(value, str) or not hasattr(value, "__iter__") else list(value)
        text: object = tuple(map(str, values))
    else:
        text = value if isinstance(value, bool) else str(value)
    try:
        return parameter.type_cast_value(context, text)
    except click.ClickException as error:
        raise ValueError(error.format_message()) from None
