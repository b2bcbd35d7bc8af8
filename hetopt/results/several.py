"""What a search found about pipelines side by side."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True, kw_only=True)
class PartBound:
    """The bound of one pipeline of a division of the nodes.

    Attributes
    ----------
    division
        For each pipeline and cluster, the devices of each node.
    pipeline, batch
        Number of the pipeline, and its sequences in an iteration; None: the bound holds
        for all pipelines of the division together, for any split of the batch.
    bound_s
        Lower bound on its closed form, which includes adding up gradients over
        pipelines; None: it has no plan.
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
    """The proof of a result that may have several pipelines.

    Attributes
    ----------
    most
        Most pipelines of a plan.
    divisions
        Number of ways to divide the nodes among up to ``most`` pipelines.
    bounds
        Bounds of the pipelines that were searched. The result's claims follow from
        them, and from the device time of the others.
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
