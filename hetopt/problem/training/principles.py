"""The principles that prune the space of plans (HetAuto Table 5), and relaxations.

P2, that a stage lives in one cluster, always holds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

if TYPE_CHECKING:
    from collections.abc import Iterable

#: P4: all stages of a cluster share one strategy; or each has its own, with a tensor
#: degree that never rises along the pipeline (H2 section 4.3.3); or each has any.
Sharing = Literal["one", "falling-tp", "any"]
#: Principles that may be relaxed, by their names in options and results.
Relaxable = Literal["p3", "p4", "p4-falling-tp"]
RELAXABLE: tuple[Relaxable, ...] = get_args(Relaxable)

_SHARING: dict[Relaxable, Sharing] = {"p4": "any", "p4-falling-tp": "falling-tp"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Principles:
    """The principles that a plan has to keep.

    Attributes
    ----------
    consecutive
        P3: the stages of a cluster stand next to each other in the pipeline.
    sharing
        P4, or its relaxed form.
    """

    consecutive: bool = True
    sharing: Sharing = "one"

    @classmethod
    def relaxing(cls, names: Iterable[str]) -> Principles:
        """Return all principles but those named; ValueError if that is impossible."""
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
        """Names of what is relaxed; empty if all principles hold."""
        names: list[Relaxable] = [] if self.consecutive else ["p3"]
        names += [name for name, sharing in _SHARING.items() if sharing == self.sharing]
        return tuple(names)


#: The space that is searched unless the user asks for a wider one.
PRUNED = Principles()
