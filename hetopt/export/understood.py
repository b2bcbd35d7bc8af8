"""Records which arguments of a runtime's files a reader uses, and reports the others.

An argument that a reader looks up is priced or compared with the problem. A table of
the launcher lists others: those that change nothing that hetopt prices, and those that
it cannot price, with the reason. The rest is unknown. As look-ups are recorded, there
is no second list of the arguments that a reader uses.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING

from hetopt.results.reported import Reported

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

UNKNOWN = "hetopt does not know it"
#: Values with which an argument that cannot be priced changes nothing.
_OFF = frozenset({"false", "none", "null", "~"})


class Read(Mapping[str, str]):
    """Arguments by name, which record the names that are looked up.

    Parameters
    ----------
    asked
        The names looked up so far; shared between views of the same arguments.
    """

    def __init__(self, values: Mapping[str, str], asked: set[str] | None = None):
        self._values = values
        self.asked: set[str] = set() if asked is None else asked

    def __getitem__(self, name: str) -> str:
        self.asked.add(name)
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def left(self) -> dict[str, str]:
        """Return the arguments that were not looked up."""
        return {n: v for n, v in self._values.items() if n not in self.asked}


def not_priced(argument: str, why: str) -> Reported:
    """Return the report of an argument that hetopt knows and cannot price."""
    return Reported(argument=argument, kind="not priced", why=why)


@dataclass(frozen=True, slots=True, kw_only=True)
class ArgumentTable:
    """The effect of arguments that a launcher's reader does not look up.

    Attributes
    ----------
    harmless
        Names that change no time and no memory that hetopt prices.
    unpriced
        Name -> what hetopt prices in its place. After ``=`` a name may have values,
        separated by ``|``, with which it changes nothing.
    """

    harmless: frozenset[str]
    unpriced: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    def report(
        self, values: Mapping[str, str], spelled: Callable[[str], str] = str
    ) -> tuple[Reported, ...]:
        """Return the reports of arguments that were not looked up."""
        reasons = {}
        for entry, why in self.unpriced.items():
            name, _, neutral = entry.partition("=")
            reasons[name] = (why, _OFF | set(neutral.split("|") if neutral else ()))
        found = []
        for name, value in values.items():
            if name in reasons:
                why, neutral_values = reasons[name]
                if value.lower() not in neutral_values:
                    found.append(not_priced(spelled(name), why))
            elif name not in self.harmless:
                told = Reported(argument=spelled(name), kind="unknown", why=UNKNOWN)
                found.append(told)
        return tuple(sorted(found, key=lambda each: each.argument))


def table(
    harmless: str, unpriced: Mapping[str, str], *more: ArgumentTable
) -> ArgumentTable:
    """Return a table whose names are given as texts.

    Parameters
    ----------
    harmless
        Names, separated by spaces.
    unpriced
        What hetopt prices in their place -> names, separated by spaces.
    more
        Tables whose entries are included.
    """
    reasons = {name: why for why, names in unpriced.items() for name in names.split()}
    for each in more:
        reasons = dict(each.unpriced) | reasons
    names = frozenset(harmless.split()).union(*(each.harmless for each in more))
    return ArgumentTable(harmless=names, unpriced=MappingProxyType(reasons))
