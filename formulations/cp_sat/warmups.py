"""Warm-up counts W in the CP-SAT program (MODEL.md section 4)."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from hetopt.formulations.scale import PERIOD_SCALE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ortools.sat.python import cp_model
    from ortools.sat.python.cp_model_helper import Literal

    from hetopt.formulations.cp_sat.terms import Expression, Literals, Times
    from hetopt.formulations.cp_sat.variables import Variables
    from hetopt.schedule.schedules import ScheduleRule

    #: Values of one delta, each with the literals that hold for it.
    Cases = tuple[tuple[int, Literals], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Deltas:
    """Delta of the boundary after every slot (j, r), and of the one into j."""

    inside: Mapping[tuple[int, int], Cases]
    into: Mapping[int, Cases]


def fixed_deltas(v: Variables) -> Deltas:
    """Return one delta inside clusters and one across them."""
    rule = v.sets.rule
    return Deltas(
        inside={key: ((rule.inside, ()),) for key in v.kappa},
        into={j: ((rule.across, ()),) for j in v.kappa_in},
    )


def adaptive_deltas(v: Variables, tau: Times) -> Deltas:
    """Return delta by HAPT Eq. 2: 1, 2 or 3 by kappa / max(max tau, max kappa)."""
    model, rule = v.model, v.sets.rule
    # kappa <= 2 lambda in every plan: two stages and the boundary between them
    # are a window of at most delta + 1 periods.
    bound = max(v.sets.period_max // PERIOD_SCALE, 1) * (rule.most_across + 1)
    longest = model.new_int_var(0, bound, "longest")
    model.add_max_equality(
        longest, [*tau.values(), *v.kappa.values(), *v.kappa_in.values()]
    )
    return Deltas(
        inside={
            key: _adaptive(model, rule, kappa, longest)
            for key, kappa in v.kappa.items()
        },
        into={
            j: _adaptive(model, rule, kappa, longest) for j, kappa in v.kappa_in.items()
        },
    )


def _adaptive(
    model: cp_model.CpModel,
    rule: ScheduleRule,
    kappa: cp_model.IntVar,
    longest: cp_model.IntVar,
) -> Cases:
    """Return delta, one more for every threshold t with ``t kappa > lambda_0``."""
    literals = []
    for threshold in rule.thresholds:
        within = model.new_bool_var("")
        model.add(threshold * kappa <= longest).only_enforce_if(within)
        model.add(threshold * kappa > longest).only_enforce_if(~within)
        literals.append(within)
    cases: list[tuple[int, Literals]] = [(rule.inside, [literals[0]])]
    for within, next_ in pairwise(literals):
        model.add_implication(within, next_)
        between = model.new_bool_var("")
        model.add_bool_and([~within, next_]).only_enforce_if(between)
        model.add_bool_or([within, ~next_, between])
        cases.append((rule.inside + len(cases), [between]))
    return (*cases, (rule.most_inside, [~literals[-1]]))


class InFlight:
    """Range of the micro-batches that a slot holds, with 'at least n' literals.

    Parameters
    ----------
    least, most
        The range of the count.
    warmup
        The count as an expression, or None if the range is one number.
    """

    def __init__(
        self,
        model: cp_model.CpModel,
        least: int,
        most: int,
        warmup: Expression | None = None,
    ) -> None:
        self.least = least
        self.most = most
        self._model = model
        self._warmup = warmup
        self._literals: dict[int, Literal] = {}

    def at_least(self, count: int) -> list[Literal]:
        """Return literals that hold when W is at least ``count``."""
        if self._warmup is None or count <= self.least:
            return []
        if count not in self._literals:
            literal = self._model.new_bool_var("")
            self._model.add(self._warmup <= count - 1).only_enforce_if(~literal)
            self._literals[count] = literal
        return [self._literals[count]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """Micro-batches in flight: on every slot, on a first stage and on the last one."""

    slots: Mapping[tuple[int, int], InFlight]
    opening: Mapping[int, InFlight]
    closing: InFlight


def constant_load(v: Variables) -> Load:
    """Return q in flight everywhere: under gpipe, or with a single micro-batch."""
    q = v.sets.most_held
    everywhere = InFlight(v.model, q, q)
    return Load(
        slots=dict.fromkeys(v.slots, everywhere),
        opening=dict.fromkeys(v.sets.clusters, everywhere),
        closing=everywhere,
    )


def count_warmups(v: Variables, deltas: Deltas) -> Load:
    """Return the load of W_p = 1, W_i = W_(i + 1) + delta_i; memory cuts W to q."""
    return _load(v, _chain_warmups(v, deltas))


def _chain_warmups(v: Variables, deltas: Deltas) -> dict[tuple[int, int], Expression]:
    """Return W of every slot."""
    model, sets = v.model, v.sets
    rule, most = sets.rule, most_warmups(v, sets.stages - 1)
    last = {j: model.new_int_var(1, most, f"warmup_end[{j}]") for j in sets.clusters}
    warmup: dict[tuple[int, int], Expression] = {}
    for j, r in v.slots:
        if rule.fixed:
            warmup[j, r] = last[j] + rule.inside * (v.hosted[j] - (r + 1))
            continue
        warmup[j, r] = model.new_int_var(1, most, f"warmup[{j},{r}]")
        model.add(warmup[j, r] == last[j]).only_enforce_if(v.ends(j, r))
    for j in sets.clusters:
        model.add(last[j] == 1).only_enforce_if(v.last[j])
    if not rule.fixed:
        for (j, r), cases in deltas.inside.items():
            for delta, literals in cases:
                model.add(warmup[j, r] == warmup[j, r + 1] + delta).only_enforce_if(
                    [v.live[j][r + 1], *literals]
                )
    for (i, j), arc in v.follows.items():
        for delta, literals in deltas.into[j]:
            model.add(last[i] == warmup[j, 0] + delta).only_enforce_if([arc, *literals])
    return warmup


def _load(v: Variables, warmup: Mapping[tuple[int, int], Expression]) -> Load:
    """Return the load, with W bounded by position: slot r has r stages before it."""
    model, sets = v.model, v.sets
    q, boundaries = sets.most_held, sets.stages - 1
    return Load(
        slots={
            (j, r): InFlight(
                model, 1, min(q, most_warmups(v, boundaries - r)), warmup[j, r]
            )
            for j, r in v.slots
        },
        opening={
            j: InFlight(
                model,
                min(q, sets.rule.least_warmups(boundaries)),
                min(q, most_warmups(v, boundaries)),
                warmup[j, 0],
            )
            for j in sets.clusters
        },
        closing=InFlight(model, 1, 1),
    )


def most_warmups(v: Variables, boundaries: int) -> int:
    """Return the largest W with this many boundaries to the last stage."""
    crossings = min(boundaries, len(v.sets.clusters) - 1)
    return v.sets.rule.most_warmups(boundaries, crossings)
