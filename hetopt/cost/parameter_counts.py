"""Parameters of a whole model, and those that are active for a token.

Publishers of mixtures of experts state both, but differ in which token tables they
count, so tables are also counted separately. *Total* includes the input's and the
head's table (once if they are tied), but no layers that predict further tokens, as the
671 billion of DeepSeek-V3; *active* is total without the routed experts that a token is
not sent to.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hetopt.cost.shapes import Shape
from hetopt.cost.units import unit_expert_parameters, unit_parameters
from hetopt.problem.model.kinds import HEAD, PREDICTION

if TYPE_CHECKING:
    from hetopt.problem.model.model import Model


@dataclass(frozen=True, slots=True, kw_only=True)
class ParameterCounts:
    """Parameters of a model.

    Attributes
    ----------
    total
        With all token tables and every expert; without layers that predict further
        tokens.
    active
        ``total`` without the routed experts that a token is not sent to.
    table
        Those of one token table; 0 if tokens are image patches.
    predictions
        Those of the layers that predict further tokens, without the model's tables,
        which they share.
    """

    total: int
    active: int
    table: int
    predictions: int

    @property
    def active_without_input(self) -> int:
        """Active parameters without the input's table: a token reads one row of it."""
        return self.active - self.table


def parameter_counts(model: Model) -> ParameterCounts:
    """Count a model's parameters."""
    table = model.parts[-1].hidden * model.vocab
    total, idle, predictions = 0, 0, 0
    for kind in dict.fromkeys(model.units):
        dense, routed = _of_unit(model, kind)
        if kind == HEAD and model.tied:
            dense -= table
        if kind == PREDICTION:
            predictions = dense - table + routed
            continue
        units = model.units.count(kind)
        total += units * (dense + routed)
        if model.experts is not None:
            unused = model.experts.number - model.experts.per_token
            idle += units * (routed * unused // model.experts.number)
    return ParameterCounts(
        total=total,
        active=total - idle,
        table=0 if model.patch else table,
        predictions=predictions,
    )


def _of_unit(model: Model, kind: str) -> tuple[int, int]:
    """Return a unit's parameters without routed experts, and those of the experts."""
    whole = Shape.of([(1, 1, 1)])
    routed = unit_expert_parameters(model, kind, whole)
    dense = unit_parameters(model, kind, whole.tp)
    return round(float(dense[0])), 0 if routed is None else round(float(routed[0]))
