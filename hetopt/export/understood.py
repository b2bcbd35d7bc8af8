"""Which arguments of a runtime's files were read, and what becomes of the others.

What a reader asks for is priced or compared with the problem; a table of the launcher
says of others that they change nothing that hetopt prices, or why it cannot price them.
The rest is unknown. So no second list of what a reader reads is kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

UNKNOWN = "hetopt does not know it"
#: Values with which an argument that cannot be priced changes nothing.
_OFF = frozenset({"false", "none", "null", "~"})


class Read(Mapping[str, str]):
    """Arguments by name that remember which were asked for.

    Parameters
    ----------
    asked
        The names asked for so far; shared between views of the same arguments.
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
        """Return the arguments that nobody asked for."""
        return {n: v for n, v in self._values.items() if n not in self.asked}


@dataclass(frozen=True, slots=True, kw_only=True)
class Reported:
    """An argument that the price of a plan leaves out.

    Attributes
    ----------
    argument
        As its file spells it.
    kind
        ``unknown``, or ``not priced`` where hetopt knows what it does.
    why
        What hetopt prices in its place, or that it does not know it.
    """

    argument: str
    kind: Literal["unknown", "not priced"]
    why: str

    def __str__(self) -> str:
        return f"{self.argument}: {self.why}"

    def to_json(self) -> dict[str, str]:
        """Return this as plain JSON data."""
        return {"argument": self.argument, "kind": self.kind, "why": self.why}


def not_priced(argument: str, why: str) -> Reported:
    """Return the report of something that hetopt knows and cannot price."""
    return Reported(argument=argument, kind="not priced", why=why)


@dataclass(frozen=True, slots=True, kw_only=True)
class ArgumentTable:
    """What arguments do that a launcher's reader does not ask for.

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
        """Return what is to be said of arguments that nobody asked for."""
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
    """Return a table with the names of texts.

    Parameters
    ----------
    harmless
        Names, separated by spaces.
    unpriced
        What hetopt prices in their place -> names, separated by spaces.
    more
        Tables whose entries are there too.
    """
    reasons = {name: why for why, names in unpriced.items() for name in names.split()}
    for each in more:
        reasons = dict(each.unpriced) | reasons
    names = frozenset(harmless.split()).union(*(each.harmless for each in more))
    return ArgumentTable(harmless=names, unpriced=MappingProxyType(reasons))
