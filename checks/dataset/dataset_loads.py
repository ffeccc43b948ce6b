from dl_doctor.contract import Check
from dl_doctor.facts import Loader
from dl_doctor.model import Finding, Fix, Quantity, Verdict
from dl_doctor.text import place_in
from dl_doctor.units import binary_size, plain


def dataset_loads(loader: Loader) -> Verdict:
    """The dataset can be made here

    ## What it checks
    What `--dataset` or `--loader` names is imported in a process of the job's Python and, if it is a function or a class, called
    without arguments. What holds loaders or splits is opened: a Lightning DataModule (`setup("fit")`, then `train_dataloader()`),
    a dict (its "train", else its first), several loaders (the first), a CombinedLoader. `dl_doctor.check(loader)` examines what
    there is already, in a fork of its process.

    ## Why it matters
    The job begins in the same way. A path that is not mounted here, a package that is missing in this environment, or a file
    that takes more memory than there is ends it before the first step.

    ## How it decides
    An exception, an exit, a death by a signal and a dataset of no samples fail. What does not come back in time, and a name that
    leads to nothing that could be examined, is an error: then nothing else can be said of the dataset. Making it may take a
    quarter of the memory that is left, on top of torch; if it wants more, it is stopped, and that is a warning. So is a command
    line that is read when the file is imported: here there is none, and the job has one.

    For example, `--dataset train.py:make_dataset` fails where that function opens an index in /data and /data is not mounted.

    ## How to fix
    The last line of the exception says what is missing. A class that needs arguments gets a function that gives them:
    `def make_data(): return Data("/data/train")`, and `--dataset train.py:make_data`.

    ## Known limits
    A main guard does not run: what is made below `if __name__ == "__main__"` cannot be named. What the function does when it
    gets other arguments is not seen. `prepare_data()` of a DataModule is not called, because it downloads.

    ## References
    docs.python.org/3/library/runpy.html, lightning.ai/docs/pytorch/stable/data/datamodule.html
    """
    ended = loader.ended
    if loader.wrong:
        return Verdict.unknown(loader.wrong)
    if loader.made:
        return Verdict(told(loader), [*empty(loader), *foreign(loader)])
    if loader.out_of_memory:
        return Verdict(f"{loader.spec} was stopped", [too_large(loader)], Verdict.unknown("it needs more memory").reason)
    if ended.how in ("hung", "unstartable"):
        return Verdict.unknown(f"{loader.spec}: the job's Python {ended.in_words}")
    if ended.how == "exited" and ended.exit_code == WRONG_USE and "usage:" in ended.output_tail:
        return Verdict(f"{loader.spec} {ended.in_words}", [wants_arguments(loader)], Verdict.unknown(UNSAID).reason)
    trace = ended.output_tail if ended.how == "raised" else ""
    return Verdict(f"{loader.spec} {ended.in_words}", [broken(loader)], trace=trace)


def told(loader: Loader) -> str:
    size = "of unknown length" if loader.length is None else f"of {loader.length:,} samples"
    taken = "".join(f", {choice}" for choice in loader.choices)
    made = "" if loader.make_s is None else f", made in {plain(loader.make_s)} s"
    return f"{loader.spec}{taken}: {loader.type} {size}{made}"


WRONG_USE = 2
"""What argparse, click and others exit with when they do not like a command line."""

UNSAID = "it reads a command line, and an examination has none"


def wants_arguments(loader: Loader) -> Finding:
    """No fault of the job's, which is started with arguments."""
    at = "when it is imported" if (loader.ended.step or "").startswith("import") else "when it is called"
    printed = loader.ended.output_tail.strip().splitlines()
    return Finding(
        level="warn",
        subject=loader.spec,
        summary=f"{loader.spec} reads the command line {at}, and ended because there is none here",
        why=f"What it printed: {printed[-1].strip().removeprefix('-c: ')}",
        fixes=(
            Fix(
                "Read the command line below the main guard, and give what it says to functions",
                ('if __name__ == "__main__":', "    main(parser.parse_args())"),
            ),
            Fix(
                "Or name a function of a file that does not read it, and needs no arguments",
                ('def make_data(): return Data("/data/train")',),
            ),
        ),
    )


def broken(loader: Loader) -> Finding:
    ended = loader.ended
    lines = [line.strip() for line in ended.output_tail.strip().splitlines()]
    printed = [line for line in lines if line.isprintable() and not line.startswith("File ")]
    last = f" The last that was printed: {printed[-1]}" if printed and ended.how in ("exited", "killed") else ""
    how = {"raised": "was raised", "exited": "exits"}.get(ended.how)
    place = place_in(ended.output_tail)
    where = f" It {how} at {place}." if place and how else ""
    memory = " SIGKILL is what the kernel sends where memory runs out." if ended.signal == "SIGKILL" else ""
    return Finding(
        level="fail",
        subject=loader.spec,
        summary=f"{loader.spec} {ended.in_words}",
        why=f"The job makes its dataset in the same way, and would end here before its first step.{where}{memory}{last}",
    )


def too_large(loader: Loader) -> Finding:
    return Finding(
        level="warn",
        subject=loader.spec,
        summary=f"Making {loader.spec} takes more than {binary_size(loader.allowed_bytes)} of memory, a quarter of what is left",
        expected=Quantity(loader.allowed_bytes, "bytes", "a quarter of the memory that is left here"),
        relation="at_most",
        why="It was stopped there, so that the examination harms nobody. If it needs four times as much, the job dies of it.",
        fixes=(
            Fix(
                "Examine it where there is more memory, or a part of it",
                ("def make_dataset(): return Subset(Data(...), range(1000))",),
            ),
            Fix("Keep paths or offsets in the dataset, and read a sample when it is asked for"),
        ),
    )


def empty(loader: Loader) -> list[Finding]:
    if loader.length != 0:
        return []
    return [
        Finding(
            level="fail",
            subject=loader.spec,
            summary=f"{loader.spec} has no samples",
            measured=Quantity(0, "samples", f"len({loader.type})"),
            expected=Quantity(1, "samples", "something to train on"),
            relation="at_least",
            why="An epoch ends at once, and a loader that shuffles raises. A pattern that matches no file here has this effect.",
        )
    ]


OTHERS = "loaders of other libraries have threads or processes of their own"


def foreign(loader: Loader) -> list[Finding]:
    if loader.kind != "other":
        return []
    return [
        Finding(
            level="note",
            subject=loader.spec,
            summary=f"{loader.type} is no Dataset and no DataLoader of torch: it is not examined further",
            why=f"num_workers does not apply: {loader.own_threads or OTHERS}.",
        )
    ]


CHECK = Check(dataset_loads, essential=True)
