"""Parameters of a unit by the ranks that hold the same ones.

Dense parameters are held by ``dp * cp`` ranks of a stage, ``tp`` apart. Routed experts
are held by ``dp * cp * tp / (ep * etp)`` ranks, ``ep * etp`` apart: Megatron-LM folds
expert ranks into the same devices, with those that split an expert's matrices adjacent.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hetopt.cost.units import unit_expert_parameters, unit_parameters

if TYPE_CHECKING:
    from hetopt.cost.shapes import Floats, Ints, Shape
    from hetopt.problem.model.model import Model


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldAlike:
    """Parameters whose gradients one group of ranks adds up; arrays are (R,).

    Attributes
    ----------
    parameters
        Number on one device, before ZeRO shards them.
    replicas, stride
        Number of ranks in the group, and the difference between neighbouring ranks.
    """

    parameters: Floats
    replicas: Ints
    stride: Ints


def held_alike(
    model: Model, kind: str, shape: Shape, replicas: Ints
) -> tuple[HeldAlike, ...]:
    """Return the parameters of a unit of the kind, dense ones first.

    Parameters
    ----------
    replicas
        dp * cp; (R,).
    """
    dense = HeldAlike(
        parameters=unit_parameters(model, kind, shape.tp),
        replicas=replicas,
        stride=shape.tp,
    )
    routed = unit_expert_parameters(model, kind, shape)
    if routed is None:
        return (dense,)
    ranks = shape.ep * shape.etp
    return (
        dense,
        HeldAlike(
            parameters=routed, replicas=replicas * shape.tp // ranks, stride=ranks
        ),
    )
