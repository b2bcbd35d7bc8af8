"""What was found out about pipelines side by side."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True, kw_only=True)
class PartBound:
    """What a search found out about one pipeline of a division of the nodes.

    Attributes
    ----------
    division
        By pipeline and cluster, the devices of each node.
    pipeline, batch
        Which of them, and the sequences that it takes in an iteration; None: the bound
        is on all pipelines of the division, whatever each of them takes.
    bound_s
        It takes no less in closed form, with adding up gradients; None: it has no plan.
    """

    division: tuple[Mapping[str, tuple[int, ...]], ...]
    pipeline: int | None
    batch: int | None
    bound_s: float | None

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> PartBound:
        """Read what ``to_json`` wrote; raises KeyError, TypeError or ValueError."""
        return cls(
            division=tuple(
                {name: tuple(sizes) for name, sizes in nodes.items()}
                for nodes in data["division"]
            ),
            pipeline=data.get("pipeline"),
            batch=data.get("batch"),
            bound_s=data["bound_s"],
        )

    def to_json(self) -> dict[str, Any]:
        """Return this as plain JSON data."""
        return {
            "division": [
                {name: list(sizes) for name, sizes in nodes.items()}
                for nodes in self.division
            ],
            **({} if self.pipeline is None else {"pipeline": self.pipeline}),
            **({} if self.batch is None else {"batch": self.batch}),
            "bound_s": self.bound_s,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Several:
    """How a result was found that may have several pipelines.

    Attributes
    ----------
    most
        Pipelines that a plan may have.
    divisions
        Ways to divide the nodes among up to so many pipelines.
    bounds
        Of the pipelines that were searched. What is claimed follows from them, and
        from the device time of the others.
    """

    most: int
    divisions: int
    bounds: tuple[PartBound, ...] = field(repr=False)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Several:
        """Read what ``to_json`` wrote; raises KeyError, TypeError or ValueError."""
        return cls(
            most=data["most"],
            divisions=data["divisions"],
            bounds=tuple(map(PartBound.from_json, data["bounds"])),
        )

    def to_json(self) -> dict[str, Any]:
        """Return this as plain JSON data."""
        return {
            "most": self.most,
            "divisions": self.divisions,
            "bounds": [each.to_json() for each in self.bounds],
        }
