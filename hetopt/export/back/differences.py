"""The decisions that differ between two plans, in words.

If the stages of every cluster are neighbours in both plans (HetAuto's P3), the number
of stages of a cluster is a decision of its own, and so is the order of the clusters;
otherwise the two are one decision.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING

from hetopt.base.file_record import FileRecord
from hetopt.schedule.schedules import rule_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from hetopt.plans.plan import Plan, Stage
    from hetopt.plans.strategy import Strategy

MICROBATCHES = "micro-batches"
SCHEDULE = "schedule"
SPLIT = "layer split"
DEGREES = "degrees"
RECOMPUTATION = "recomputation"
STAGES = "stages"
ORDER = "order"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change(FileRecord):
    """A decision that differs between two plans.

    Attributes
    ----------
    what
        ``micro-batches``, ``schedule``, ``layer split``, ``degrees``,
        ``recomputation``, ``stages`` or ``order``.
    cluster
        The cluster that the decision is about; None if it is about all.
    before, after
        The decision of each plan.
    """

    what: str
    cluster: str | None
    before: str
    after: str


def changes(mine: Plan, ours: Plan) -> tuple[Change, ...]:
    """Return the decisions that differ between two plans, in the order to try them."""
    first, second = mine.pipeline.stages, ours.pipeline.stages
    counts = [plan.pipeline.microbatches for plan in (mine, ours)]
    order = list(dict.fromkeys(stage.cluster for stage in (*second, *first)))
    shared = [name for name in order if own(first, name) and own(second, name)]
    found = [
        _change(MICROBATCHES, *map(str, counts)),
        _change(SCHEDULE, _schedule(mine), _schedule(ours)),
        _change(SPLIT, _split(first, order), _split(second, order)),
    ]
    kinds: list[tuple[str, Callable[[Sequence[Stage]], str]]] = [
        (DEGREES, partial(_several, words=lambda s: f"({s.dp},{s.cp},{s.tp})")),
        (RECOMPUTATION, partial(_several, words=lambda s: s.recompute)),
    ]
    apart = stand_together(first) and stand_together(second)
    if apart:
        kinds.append((STAGES, lambda stages: str(len(stages))))
    for what, words in kinds:
        for name in shared:
            before, after = words(own(first, name)), words(own(second, name))
            found.append(_change(what, before, after, name))
    if apart:
        found.append(_change(ORDER, _order(first), _order(second)))
    else:
        found.append(_change(STAGES, _hosted(first), _hosted(second)))
    return tuple(change for change in found if change.before != change.after)


def own(stages: Iterable[Stage], cluster: str) -> list[Stage]:
    """Return the stages of a cluster."""
    return [stage for stage in stages if stage.cluster == cluster]


def stand_together(stages: Iterable[Stage]) -> bool:
    """Whether the stages of every cluster are neighbours."""
    runs = [name for name, _ in groupby(stage.cluster for stage in stages)]
    return len(set(runs)) == len(runs)


def bodies(stages: Sequence[Stage]) -> dict[str, list[int]]:
    """Return the units of every cluster's stages, without embedding and head."""
    found: dict[str, list[int]] = {}
    for number, stage in enumerate(stages):
        ends = (number == 0) + (number == len(stages) - 1)
        found.setdefault(stage.cluster, []).append(stage.units - ends)
    return found


def _change(what: str, before: str, after: str, cluster: str | None = None) -> Change:
    return Change(what=what, cluster=cluster, before=before, after=after)


def _schedule(plan: Plan) -> str:
    if plan.warmup_epsilon is not None:
        return f"{plan.schedule}, epsilon {plan.warmup_epsilon:g}"
    if plan.chunks > 1:
        return f"{plan.schedule} of {plan.chunks} chunks"
    if not rule_of(plan.schedule).free:
        return plan.schedule
    warmups = ", ".join(str(stage.warmup) for stage in plan.pipeline.stages)
    return f"{plan.schedule}, warm-ups {warmups}"


def _split(stages: Sequence[Stage], order: Sequence[str]) -> str:
    """Return the layers of every cluster's stages, clusters in a given order."""
    held = bodies(stages)
    return "; ".join(f"{_runs(held[name])} on {name}" for name in order if name in held)


def _runs(values: Iterable[int]) -> str:
    """Return numbers in order, equal neighbours as "3 x 8"."""
    runs = [(value, len(list(run))) for value, run in groupby(values)]
    return ", ".join(str(v) if n == 1 else f"{n} x {v}" for v, n in runs)


def _several(stages: Sequence[Stage], words: Callable[[Strategy], str]) -> str:
    """Return the words for stages: once if all have the same, else each in order."""
    each = [words(stage.strategy) for stage in stages]
    return each[0] if len(set(each)) == 1 else ", ".join(each)


def _order(stages: Sequence[Stage]) -> str:
    return ", ".join(dict.fromkeys(stage.cluster for stage in stages))


def _hosted(stages: Sequence[Stage]) -> str:
    """Return how many stages each cluster hosts, in pipeline order."""
    rows = groupby(stage.cluster for stage in stages)
    return ", ".join(f"{len(list(run))} on {name}" for name, run in rows)
