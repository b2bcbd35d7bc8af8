"""Warm-up counts W in the CP-SAT program (MODEL.md section 4)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from hetopt.formulations.program import PERIOD_SCALE
from hetopt.formulations.space import MAX_DELTA

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ortools.sat.python import cp_model
    from ortools.sat.python.cp_model_helper import Literal

    from hetopt.formulations.cp_sat_period import Times
    from hetopt.formulations.cp_sat_terms import Expression, Literals
    from hetopt.formulations.cp_sat_variables import Variables

    #: Values of one delta, each with the literals that say so.
    Cases = tuple[tuple[int, Literals], ...]


class FixedDeltas(NamedTuple):
    """Warm-ups a stage adds at a boundary inside a cluster and into another."""

    inside: int
    across: int


FIXED_DELTAS = {
    "1f1b": FixedDeltas(1, 1),
    "eager-1f1b": FixedDeltas(2, 2),
    "virtual-1f1b": FixedDeltas(1, 2),
}
#: HAPT's epsilon (Eq. 2) is the inverse of this.
_FREE_TRANSFER = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Deltas:
    """Delta of the boundary after every slot (j, r), and of the one into j."""

    inside: Mapping[tuple[int, int], Cases]
    into: Mapping[int, Cases]


def fixed_deltas(v: Variables, fixed: FixedDeltas) -> Deltas:
    """One number inside clusters and one across them."""
    return Deltas(
        inside={key: ((fixed.inside, ()),) for key in v.kappa},
        into={j: ((fixed.across, ()),) for j in v.kappa_in},
    )


def adaptive_deltas(v: Variables, tau: Times) -> Deltas:
    """HAPT Eq. 2: 1, 2 or 3 by kappa over lambda_0 = max(max tau, max kappa)."""
    model = v.model
    # kappa <= 2 lambda in every plan: two stages and the boundary between them
    # are a window of at most MAX_DELTA + 1 periods.
    bound = max(v.sets.period_max // PERIOD_SCALE, 1) * (MAX_DELTA + 1)
    longest = model.new_int_var(0, bound, "longest")
    model.add_max_equality(
        longest, [*tau.values(), *v.kappa.values(), *v.kappa_in.values()]
    )
    return Deltas(
        inside={
            key: _adaptive(model, kappa, longest) for key, kappa in v.kappa.items()
        },
        into={j: _adaptive(model, kappa, longest) for j, kappa in v.kappa_in.items()},
    )


def _adaptive(
    model: cp_model.CpModel, kappa: cp_model.IntVar, longest: cp_model.IntVar
) -> Cases:
    """1 if kappa <= 0.01 lambda_0, else ceil(1 + 2 kappa / lambda_0)."""
    literals = []
    for factor in (_FREE_TRANSFER, 2):
        within = model.new_bool_var("")
        model.add(factor * kappa <= longest).only_enforce_if(within)
        model.add(factor * kappa > longest).only_enforce_if(~within)
        literals.append(within)
    free, half = literals
    model.add_implication(free, half)
    two = model.new_bool_var("")
    model.add_bool_and([~free, half]).only_enforce_if(two)
    model.add_bool_or([free, ~half, two])
    return ((1, [free]), (2, [two]), (MAX_DELTA, [~half]))


class InFlight:
    """How many micro-batches a slot may hold, with literals 'at least so many'.

    Parameters
    ----------
    counts
        Possible counts, ascending.
    warmup
        The variable count, or None if there is only one.
    """

    def __init__(
        self,
        model: cp_model.CpModel,
        counts: Sequence[int],
        warmup: Expression | None = None,
    ) -> None:
        self.counts = counts
        self._model = model
        self._warmup = warmup
        self._literals: dict[int, Literal] = {}

    def at_least(self, count: int) -> list[Literal]:
        """Return literals that hold when W is at least ``count``."""
        if self._warmup is None or count <= self.counts[0]:
            return []
        if count not in self._literals:
            literal = self._model.new_bool_var("")
            self._model.add(self._warmup <= count - 1).only_enforce_if(~literal)
            self._literals[count] = literal
        return [self._literals[count]]


def constant_warmups(v: Variables) -> dict[tuple[int, int], InFlight]:
    """Under gpipe, and with a single micro-batch, all q are in flight on every slot."""
    q = v.sets.microbatches
    return {slot: InFlight(v.model, (q,)) for slot in v.slots}


def count_warmups(v: Variables, deltas: Deltas) -> dict[tuple[int, int], InFlight]:
    """W_p = 1 and W_i = W_(i + 1) + delta_i; memory looks no further than q."""
    model, sets = v.model, v.sets
    most = MAX_DELTA * sets.stages
    counts = range(1, min(sets.microbatches, most) + 1)
    fixed = FIXED_DELTAS.get(sets.data.schedule)
    last = {j: model.new_int_var(1, most, f"warmup_end[{j}]") for j in sets.clusters}
    warmup: dict[tuple[int, int], Expression] = {}
    for j in sets.clusters:
        model.add(last[j] == 1).only_enforce_if(v.last[j])
        for r in range(sets.slots[j]):
            if fixed is not None:
                after = v.hosted[j] - (r + 1)
                warmup[j, r] = last[j] + fixed.inside * after
                continue
            warmup[j, r] = model.new_int_var(1, most, f"warmup[{j},{r}]")
            model.add(warmup[j, r] == last[j]).only_enforce_if(v.ends(j, r))
    if fixed is None:
        for (j, r), cases in deltas.inside.items():
            for delta, literals in cases:
                model.add(warmup[j, r] == warmup[j, r + 1] + delta).only_enforce_if(
                    [v.live[j][r + 1], *literals]
                )
    for (i, j), arc in v.follows.items():
        for delta, literals in deltas.into[j]:
            model.add(last[i] == warmup[j, 0] + delta).only_enforce_if([arc, *literals])
    return {slot: InFlight(model, counts, warmup[slot]) for slot in v.slots}
