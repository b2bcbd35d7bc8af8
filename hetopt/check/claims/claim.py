"""What a claim is about, and what follows from it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hetopt.check.claims.asked import TOLERANCE, Asked
from hetopt.check.plan.reading import items, mapping, number

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hetopt.check.claims.asked import Variant
    from hetopt.check.claims.ways import Division
    from hetopt.plans.plan import Plan

    #: Returns what follows from a claim; from None: from device time alone.
    Derive = Callable[["At", object], "Claim"]
    #: Returns the bound of a claim without children, in seconds; inf: no plan.
    LeafBound = Callable[["At", Mapping[str, Any]], float]


def as_claimed(at: At, entry: Mapping[str, Any]) -> float:
    """Return the bound of a claim without children as it is claimed."""
    at.ensure_leaf(entry, "bound_s")
    bound = number(entry, "bound_s", at.place)
    return math.inf if bound is None else bound


@dataclass(frozen=True, slots=True, kw_only=True)
class At:
    """The place of a claim.

    Attributes
    ----------
    place
        Its field, for messages.
    device_s
        Device time of what it is about.
    below
        What is branched over there, from this claim down.
    chunks
        Chunks of every stage.
    nodes
        Nodes of each cluster, in the problem's order; shape (J,).
    leaf
        What a claim without children says.
    variant
        The schedule; None: the problem's own.
    part
        If it is about one of several pipelines: all of them, its number and its
        sequences.
    alike
        What these have in common, by its name; None: nothing is asked.
    """

    asked: Asked = field(repr=False)
    place: str
    device_s: float
    below: tuple[str, ...]
    chunks: int
    nodes: tuple[int, ...]
    leaf: LeafBound = field(repr=False)
    variant: Variant | None = None
    part: tuple[Division, int, int] | None = None
    alike: str | None = None

    @property
    def is_part(self) -> bool:
        """Whether its plans are no plans of the problem, but one of its pipelines."""
        return self.part is not None

    def ensure_leaf(self, entry: Mapping[str, Any], *keys: str) -> None:
        """Remember keys that have no meaning in a claim without children."""
        part = ("pipeline", "batch") if self.is_part else ()
        alike = () if self.alike is None else ("alike",)
        self.ensure_keys(entry, *keys, *part, *alike)

    def ensure_keys(self, entry: Mapping[str, Any], *allowed: str) -> None:
        """Remember keys of a claim that have no meaning here."""
        for key in entry:
            if key not in (*allowed, "at", "best_s"):
                self.asked.say(f"{self.place}.{key}: has no meaning here")

    def ensure_best(self, entry: Mapping[str, Any], least_s: float) -> None:
        """Compare the best plan that was found there with the bounds and the result."""
        best_s = None if "best_s" not in entry else number(entry, "best_s", self.place)
        if best_s is None:
            return
        asked = self.asked
        slack_s = asked.slack_s(self.chunks)
        if least_s > best_s * (1 + TOLERANCE) + slack_s:
            asked.say(f"{self.place}: is bounded by {least_s}, has a plan of {best_s}")
        reported_s = None if self.is_part else asked.best_s
        if reported_s is not None and math.isinf(reported_s):
            asked.say(f"{self.place}: has a plan of {best_s}, but there is no plan")
        elif reported_s is not None and best_s < reported_s * (1 - TOLERANCE) - slack_s:
            asked.say(
                f"{self.place}: has a plan of {best_s}, better than the reported "
                f"{reported_s!r}"
            )
        elif reported_s is None:
            return
        elif self.place == "claims" and best_s > reported_s * (1 + TOLERANCE) + slack_s:
            # The plans of the whole tree are those of the result.
            asked.say(f"claims: has a plan of {best_s}, not {reported_s!r}")
        elif "children" in entry and asked.problem.training.lengths is None:
            self._ensure_found(entry, best_s)

    def _ensure_found(self, entry: Mapping[str, Any], best_s: float) -> None:
        """Ensure that the best plan of several children is that of one of them."""
        children = [
            mapping(item, place) for place, item in items(entry, "children", self.place)
        ]
        found = [
            number(child, "best_s", self.place)
            for child in children
            if "best_s" in child
        ]
        least_s = min((each for each in found if each is not None), default=math.inf)
        if least_s > best_s * (1 + TOLERANCE) + self.asked.slack_s(self.chunks):
            self.asked.say(
                f"{self.place}: has a plan of {best_s}, but none of its children has"
            )


class Claim:
    """What follows from a claim; by itself, a bound that is taken as it is.

    Attributes
    ----------
    least_s
        Lower bound on the time of all plans that it is about; inf: there is none.
    """

    def __init__(self, least_s: float) -> None:
        self.least_s = least_s

    def of(self, plan: Plan) -> float:
        """Return the largest lower bound on the time of one of these plans."""
        return self.least_s
