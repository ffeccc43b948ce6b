"""dl-doctor: says where a deep-learning job is about to start whether it would break or crawl there, and what mends it.

Importing this package loads nothing else: `__main__` cleans the import path before the first dependency is needed.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dl_doctor.model import Report

__all__ = ["__version__", "check"]

__version__ = "0.1.0"


def check(loader: object = None, dataset: object = None, **options: object) -> "Report":
    """Examine a DataLoader, or a dataset, that is at hand, and the machine with it.

    Args:
        loader: a torch DataLoader, or what holds one, such as a Lightning DataModule.
        dataset: a dataset without a loader. Without both, only the machine is examined.
        options: those of `dl-doctor check` by name, such as num_workers=8 or profile="quick".

    It is examined in a fork of this process, so nothing changes here. The report shows itself where Python prints it;
    `report.verdict.exit_code` is what the command would exit with.
    """
    from dl_doctor.calling import examined  # noqa: PLC0415 (importing this package loads nothing else)

    return examined(loader, dataset, options)
