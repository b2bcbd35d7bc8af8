"""The principles that prune the space of plans (HetAuto Table 5), and their relaxing.

P2, that a stage lives in one cluster, always holds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

if TYPE_CHECKING:
    from collections.abc import Iterable

#: P4: all stages of a cluster share one strategy; or each has its own, with the
#: tensor degree never rising along the pipeline (H2 section 4.3.3); or any.
Sharing = Literal["one", "falling-tp", "any"]
#: What may be relaxed, by the names that users and results give it.
Relaxable = Literal["p3", "p4", "p4-falling-tp"]
RELAXABLE: tuple[Relaxable, ...] = get_args(Relaxable)

_SHARING: dict[Relaxable, Sharing] = {"p4": "any", "p4-falling-tp": "falling-tp"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Principles:
    """Which principles a plan has to keep.

    Attributes
    ----------
    consecutive
        P3: the stages of a cluster stand next to each other in the pipeline.
    sharing
        P4, and what is left of it.
    """

    consecutive: bool = True
    sharing: Sharing = "one"

    @classmethod
    def relaxing(cls, names: Iterable[str]) -> Principles:
        """Return all principles but those named; raises ValueError."""
        relaxed = list(names)
        for name in relaxed:
            if name not in RELAXABLE:
                msg = f"there is no {name!r}, expected some of {', '.join(RELAXABLE)}"
                raise ValueError(msg)
        shared = [sharing for name, sharing in _SHARING.items() if name in relaxed]
        if len(shared) > 1:
            msg = "p4 and p4-falling-tp exclude each other, expected one of them"
            raise ValueError(msg)
        return cls(
            consecutive="p3" not in relaxed, sharing=shared[0] if shared else "one"
        )

    @property
    def relaxed(self) -> tuple[Relaxable, ...]:
        """What is relaxed; empty when all principles hold."""
        names: list[Relaxable] = [] if self.consecutive else ["p3"]
        names += [name for name, sharing in _SHARING.items() if sharing == self.sharing]
        return tuple(names)


#: The space that is searched unless the user asks for a wider one.
PRUNED = Principles()
