"""Layer sharding: step 2 of HeteroAuto (H2, section 4.3.3)."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """One type of accelerator in a pipeline.

    Attributes
    ----------
    unit_ns, extra_ns
        Time of a body unit, and of embedding or head on a stage with fewer units.
    most
        Most body units that fit into memory, for each stage.
    late
        Whether the last stages, not the first, hold one unit more than others.
    """

    unit_ns: float
    extra_ns: float
    most: tuple[int, ...]
    late: bool

    @property
    def stages(self) -> int:
        """Number of its stages."""
        return len(self.most)

    def split(self, units: int) -> tuple[int, ...]:
        """Return the body units of each stage, as evenly as possible."""
        each, more = divmod(units, self.stages)
        less = (each,) * (self.stages - more)
        return (
            (*less, *(each + 1,) * more) if self.late else (*(each + 1,) * more, *less)
        )

    @property
    def room(self) -> int:
        """Most body units of all stages together, spread evenly."""
        each = min(self.most)
        order = reversed(self.most) if self.late else iter(self.most)
        more = next(i for i, most in enumerate(order) if most == each)
        return each * self.stages + more

    def length_ns(self, units: int) -> float:
        """Return the time of its longest stage."""
        each = units // self.stages
        return max(
            ceil(units / self.stages) * self.unit_ns,
            self.extra_ns + each * self.unit_ns,
        )


def shard(shares: Sequence[Share], length: int) -> list[int] | None:
    """Return the body units of each type, or None if they do not fit (step 2).

    At first all types get units for the same time, the time if units could be split
    plus that of one unit, as far as memory permits. Units too many are taken from the
    type with the longest stage, which keeps the longest as short as possible. Missing
    units, if memory is short, go to the type whose longest stage then is the shortest.
    """
    rooms = [share.room for share in shares]
    least = [share.stages for share in shares]
    if sum(least) > length or sum(rooms) < length:
        return None
    if any(room < few for room, few in zip(rooms, least, strict=True)):
        return None
    pace = length / sum(share.stages / share.unit_ns for share in shares)
    pace += max(share.unit_ns for share in shares)
    units = [
        min(room, int(pace / share.unit_ns) * share.stages)
        for share, room in zip(shares, rooms, strict=True)
    ]
    while (excess := sum(units) - length) > 0:
        able = [i for i, share in enumerate(shares) if units[i] > share.stages]
        i = max(able, key=lambda i: (shares[i].length_ns(units[i]), -i))
        shorter = (ceil(units[i] / least[i]) - 1) * least[i]
        units[i] -= min(excess, units[i] - shorter)
    while (missing := length - sum(units)) > 0:
        able = [i for i, room in enumerate(rooms) if units[i] < room]
        i = min(able, key=lambda i: (shares[i].length_ns(units[i] + 1), i))
        longer = (units[i] // least[i] + 1) * least[i]
        units[i] += min(missing, min(longer, rooms[i]) - units[i])
    return units
