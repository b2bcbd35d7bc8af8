"""Parameters of a unit by the ranks that hold the same ones.

Dense parameters are held by ``dp * cp`` ranks of a stage, ``tp`` apart. Routed experts
are held by ``dp * cp * tp / (ep * etp)`` ranks, ``ep * etp`` apart: Megatron-LM folds
expert ranks into the same devices, with those that split an expert's matrices adjacent.
ZeRO shards them over all of these ranks, or over groups of them that hold a copy each
(``Training.shard_group``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hetopt.cost.units import unit_expert_parameters, unit_parameters

if TYPE_CHECKING:
    from hetopt.cost.shapes import Floats, Ints, Shape
    from hetopt.problem.model.model import Model
    from hetopt.problem.training.training import Training


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldAlike:
    """Parameters whose gradients one group of ranks adds up; arrays are (R,).

    Attributes
    ----------
    parameters
        Number on one device, before ZeRO shards them.
    replicas, stride
        Number of ranks in the group, and the difference between neighbouring ranks.
    shards
        Number of ranks, next to each other, that share the shards.
    """

    parameters: Floats
    replicas: Ints
    stride: Ints
    shards: Ints

    @property
    def copies(self) -> HeldAlike:
        """One shard, and the ranks that hold it alike: one of every ``shards``."""
        return HeldAlike(
            parameters=self.parameters / self.shards,
            replicas=self.replicas // self.shards,
            stride=self.stride * self.shards,
            shards=np.ones_like(self.shards),
        )


def held_alike(
    model: Model, training: Training, kind: str, shape: Shape, replicas: Ints
) -> tuple[HeldAlike, ...]:
    """Return the parameters of a unit of the kind, dense ones first.

    Parameters
    ----------
    replicas
        dp * cp; (R,).
    """
    tp, ranks = shape.tp, shape.ep * shape.etp
    held = [(unit_parameters(model, kind, tp), replicas, tp)]
    routed = unit_expert_parameters(model, kind, shape)
    if routed is not None:
        held.append((routed, replicas * tp // ranks, ranks))
    return tuple(
        HeldAlike(
            parameters=parameters,
            replicas=alike,
            stride=stride,
            shards=np.gcd(alike, training.shard_group or alike),
        )
        for parameters, alike, stride in held
    )
