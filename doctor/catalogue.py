"""What there is: the built-in checks and collectors, and those that plugins bring."""

from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, replace
from importlib.metadata import Distribution, EntryPoint, distributions
from typing import get_args, get_origin, get_type_hints

import msgspec

from dl_doctor.contract import Check, needs_of
from dl_doctor.facts import COLLECTORS, Collector
from dl_doctor.model import PROFILES, Profile, Unavailable
from dl_doctor.probing import Probes
from dl_doctor.settings import Settings
from dl_doctor.system import System

GROUP = "dl_doctor.plugins"
"""Entry-point group; each entry names a module-level Plugin."""

INJECTED: frozenset[type] = frozenset({System, Probes, Settings})
"""What a collector may take that is no fact."""


@dataclass(frozen=True)
class Plugin:
    """What a third party adds. Its distribution's name becomes the area of its checks and the prefix of ids and facts."""

    checks: tuple[Check, ...] = ()
    collectors: tuple[Collector, ...] = ()


@dataclass(frozen=True)
class BrokenPlugin:
    """A plugin that could not be used: told in the report as an error."""

    distribution: str
    reason: str


class Catalogue:
    """Checks by id, collectors by the fact that they give, and what could not be loaded."""

    def __init__(self, checks: Iterable[Check], collectors: Iterable[Collector], broken: Iterable[BrokenPlugin] = ()) -> None:
        self.checks = {check.id: check for check in sorted(checks, key=lambda check: (check.area, check.id))}
        self.collectors = {fact_of(collector): collector for collector in collectors}
        self.broken = tuple(broken)
        self.names: dict[type, str] = {fact: snake_case(fact.__name__) for fact in self.collectors}

    @property
    def areas(self) -> tuple[str, ...]:
        return tuple(sorted({check.area for check in self.checks.values()}))

    @property
    def facts(self) -> dict[str, type]:
        """Every fact by its name in a report."""
        return {name: fact for fact, name in self.names.items()}

    def inputs(self, fact: type, *, required: bool = False) -> list[type]:
        """The facts that a fact's collector takes, or those of them that it requires."""
        if fact not in self.collectors:
            raise TypeError(f"no collector gives {fact.__name__}")
        needs = needs_of(self.collectors[fact].collect).values()
        return [need.fact for need in needs if need.fact not in INJECTED and (need.required or not required)]

    def derived(self, fact: type) -> bool:
        """Whether a fact is worked out from other facts and the settings alone."""
        return all(need.fact not in (System, Probes) for need in needs_of(self.collectors[fact].collect).values())

    def closure(self, facts: Iterable[type], *, required: bool = False) -> list[type]:
        """These facts and all that they are made of, or cannot do without, inputs first."""
        ordered: dict[type, None] = {}

        def visit(fact: type, above: tuple[type, ...] = ()) -> None:
            if fact in above:
                raise TypeError(f"{fact.__name__} is made of itself")
            if fact not in ordered:
                for needed in self.inputs(fact, required=required):
                    visit(needed, (*above, fact))
                ordered[fact] = None

        for fact in facts:
            visit(fact)
        return list(ordered)

    def profile_of(self, check: Check) -> Profile:
        """The lowest one in which it judges: the highest among the collectors that it cannot do without."""
        facts = self.closure((need.fact for need in check.needs.values() if need.required), required=True)
        profiles = [self.collectors[fact].profile for fact in facts]
        return max(profiles, key=PROFILES.index, default="quick")


def fact_of(collector: Collector) -> type:
    """The struct that it returns; TypeError where its annotation does not name one."""
    returned = get_type_hints(collector.collect).get("return")
    if get_origin(returned) is AsyncIterator:  # of one that tells what it knows while it goes on
        (returned,) = get_args(returned)
    for alternative in get_args(returned) or (returned,):
        if isinstance(alternative, type) and issubclass(alternative, msgspec.Struct) and alternative is not Unavailable:
            return alternative
    raise TypeError(f"{collector.collect.__module__}.{collector.collect.__qualname__} is not annotated to return a fact")


def snake_case(name: str) -> str:
    """`SharedMemory` -> `shared_memory`."""
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name).lstrip("_")


def load(*, plugins: bool = True) -> Catalogue:
    """The built-in catalogue and, unless told otherwise, the plugins of this environment."""
    from dl_doctor.checks import CHECKS  # noqa: PLC0415 (checks import this package's facts)

    catalogue = Catalogue(CHECKS, COLLECTORS)
    for name, entries in sorted(installed_plugins().items()) if plugins else ():
        if isinstance(entries, Exception):
            catalogue = without(catalogue, name, entries)
        else:
            for entry in entries:
                catalogue = extended(catalogue, name, entry)
    return catalogue


def installed_plugins() -> dict[str, list[EntryPoint] | Exception]:
    """Entry points of our group by their distribution, or why they cannot be read.

    Any distribution may be damaged; only one that names our group is ours to tell about.
    """
    found: dict[str, list[EntryPoint] | Exception] = {}
    for distribution in distributions():
        try:
            entries = [entry for entry in distribution.entry_points if entry.group == GROUP]
        except Exception as error:  # noqa: BLE001 (importlib.metadata promises nothing about damaged files)
            if names_our_group(distribution):
                found.setdefault(name_of(distribution), error)
        else:
            if entries:
                found.setdefault(name_of(distribution), entries)  # of two of a name, the first on the path is imported
    return found


def names_our_group(distribution: Distribution) -> bool:
    try:
        return GROUP in (distribution.read_text("entry_points.txt") or "")
    except Exception:  # noqa: BLE001 (it is damaged, which is why we ask)
        return False


def extended(catalogue: Catalogue, distribution: str, entry: EntryPoint) -> Catalogue:
    """The catalogue with one more plugin, or with the reason why it cannot be used."""
    checks, collectors = tuple(catalogue.checks.values()), tuple(catalogue.collectors.values())
    try:
        plugin = entry.load()
        if not isinstance(plugin, Plugin):
            raise TypeError(f"{entry.value} is of type {type(plugin).__name__}, not dl_doctor.catalogue.Plugin")
        added = [replace(check, origin=distribution, prefix=f"{distribution}-") for check in plugin.checks]
        grown = Catalogue([*checks, *added], [*collectors, *plugin.collectors], catalogue.broken)
        if len(grown.checks) < len(checks) + len(added) or len(grown.collectors) < len(collectors) + len(plugin.collectors):
            raise ValueError("two checks have the same id, or two collectors give the same fact")
        for collector in plugin.collectors:
            fact = fact_of(collector)
            grown.names[fact] = f"{snake_case(distribution.replace('-', '_'))}_{snake_case(fact.__name__)}"
        for check in added:
            grown.closure(need.fact for need in check.needs.values())  # fails where a fact has no collector
    except (Exception, SystemExit) as error:  # noqa: BLE001 (whatever a stranger's module does when it is imported)
        return without(catalogue, distribution, error)
    else:
        grown.names.update(catalogue.names)
        return grown


def without(catalogue: Catalogue, distribution: str, error: BaseException) -> Catalogue:
    """The catalogue as it is, and why one plugin is not in it."""
    broken = BrokenPlugin(distribution, f"{type(error).__name__}: {error}")
    kept = Catalogue(catalogue.checks.values(), catalogue.collectors.values(), [*catalogue.broken, broken])
    kept.names.update(catalogue.names)
    return kept


def name_of(distribution: Distribution) -> str:
    """As in ids; the rest of an installation that was interrupted may have no name."""
    name = distribution.metadata["Name"] if "Name" in distribution.metadata else "nameless"  # noqa: SIM401 (its type has no get)
    return name.lower().replace("_", "-").replace(".", "-")
