"""The verdict on a run, and the exit codes: the one table that decides them. The format of a report never matters."""

from collections.abc import Iterable

import msgspec

from dl_doctor.model import NO_GPU, Outcome, Result
from dl_doctor.settings import ExitCodes, Settings

GO, STOP, WRONG_USE, UNKNOWN, BUG, INTERRUPTED, TERMINATED = 0, 1, 2, 3, 70, 130, 143

EXIT_CODES = {
    GO: "go: no failure. Checks that could not tell are told in one line.",
    STOP: "do not start here: at least one failure (or warning, with --fail-on warn).",
    WRONG_USE: "the command or its configuration is wrong.",
    UNKNOWN: "could not tell: no failure, but an essential or required check could not tell, or nothing was judged.",
    BUG: "a bug in dl-doctor; a log to attach is named.",
    INTERRUPTED: "interrupted.",
    TERMINATED: "terminated.",
}


NAGIOS = {"ok": 0, "warning": 1, "critical": 2, "unknown": 3}
"""Of a monitoring plugin; the Monitoring Plugins Development Guidelines have them."""


def outcome_of(
    results: Iterable[Result], *, essential: set[str], settings: Settings, interrupted_by: int | None = None
) -> Outcome:
    """The verdict and its exit code, as `--exit-codes` wants it.

    Args:
        results: of all checks that were asked for.
        essential: ids without whose judgement nothing can be said; what `--require` names comes on top.
        settings: `--fail-on`, `--require` and what was selected.
        interrupted_by: the signal that ended the run before everything was known.
    """
    results = tuple(results)
    if interrupted_by is not None:
        outcome = Outcome("unknown", 128 + interrupted_by, "the run was interrupted")
    else:
        outcome = of_the_gate(results, essential, settings)
    return translated(outcome, results, settings.exit_codes)


def outcome_of_a_sweep(
    results: Iterable[Result], conclusion: str | None, why: str, *, interrupted_by: int | None = None
) -> Outcome:
    """0: a recommendation, which may be that nothing is to change. 1: the loader broke. 3: too noisy, or nothing was measured.

    Args:
        results: of the checks that ran along: whether the dataset can be made.
        conclusion: of the sweep; None where there was none.
        why: of the conclusion, or why there is none.
        interrupted_by: the signal that ended it.
    """
    if interrupted_by is not None:
        return Outcome("unknown", 128 + interrupted_by, f"interrupted; so far: {why}")
    failed = [result for result in results if result.status == "fail"]
    if conclusion == "broke" or failed:
        return Outcome("stop", STOP, why if conclusion == "broke" else f"{' and '.join(named([r.id for r in failed]))} said no")
    return Outcome("go", GO, why) if conclusion in ("change", "keep") else Outcome("unknown", UNKNOWN, why)


def of_the_gate(results: tuple[Result, ...], essential: set[str], settings: Settings) -> Outcome:
    fail_on = settings.fail_on or "fail"
    required = set(settings.require or ())
    failed = [result.id for result in results if result.status == "fail"]
    warned = [result.id for result in results if result.status == "warn"]
    untold = [result.id for result in results if could_not_tell(result, essential, required)]
    untold += sorted(required - {result.id for result in results})
    judged = [result for result in results if result.status in ("pass", "warn", "fail")]
    stops = failed + (warned if fail_on == "warn" else [])
    if stops:
        code = GO if fail_on == "never" else STOP
        return Outcome("stop", code, f"{' and '.join(named(stops))} said no")
    if untold:
        return Outcome("unknown", GO if fail_on == "never" else UNKNOWN, f"{' and '.join(named(untold))} could not tell")
    if not judged and without_gpus(results):
        return Outcome("go", GO, NO_GPU)
    if not judged and asked_for_something(settings, results):
        return Outcome("unknown", GO if fail_on == "never" else UNKNOWN, "nothing was judged")
    return Outcome("go", GO, "no failure")


def translated(outcome: Outcome, results: Iterable[Result], exit_codes: ExitCodes | None) -> Outcome:
    """The same verdict with the exit code that whoever calls understands: `--exit-codes`."""
    if exit_codes == "prolog":
        code = STOP if outcome.exit_code == STOP and any(map(is_the_sites, results)) else GO
        return msgspec.structs.replace(outcome, exit_code=code)
    if exit_codes == "nagios":
        return msgspec.structs.replace(outcome, exit_code=for_nagios(outcome, results))
    return outcome


def is_the_sites(result: Result) -> bool:
    """Whether it has a failure that whoever runs the node mends: only that may drain it."""
    return any(f.level == "fail" and f.accepted is None and f.owner in ("admin", "vendor") for f in result.findings)


def for_nagios(outcome: Outcome, results: Iterable[Result]) -> int:
    if outcome.exit_code == STOP:
        return NAGIOS["critical"]
    if outcome.exit_code != GO:
        return NAGIOS["unknown"]
    return NAGIOS["warning" if any(result.status == "warn" for result in results) else "ok"]


def of_a_run_without_report(code: int, exit_codes: str | None) -> int:
    """What a wrong command, a bug or an interruption ends with, for whoever calls: a prolog drains no node for our trouble."""
    if exit_codes == "prolog":
        return GO
    return NAGIOS["unknown"] if exit_codes == "nagios" and code != GO else code


def could_not_tell(result: Result, essential: set[str], required: set[str]) -> bool:
    if result.id in required:
        return result.status in ("error", "skip", "not_run")
    return result.id in essential and result.status == "error"


def without_gpus(results: tuple[Result, ...]) -> bool:
    """Whether checks of GPUs alone were asked for, where there is none and nobody expects one."""
    reasons = [result.reason.detail for result in results if result.reason is not None]
    return NO_GPU in reasons and all(result.area == "gpu" and result.status in ("skip", "not_run") for result in results)


def asked_for_something(settings: Settings, results: tuple[Result, ...]) -> bool:
    return bool(results) or settings.select is not None


def named(ids: list[str], most: int = 3) -> list[str]:
    """The first of them, and how many more there are."""
    return ids if len(ids) <= most else [*ids[:most], f"{len(ids) - most} more"]
