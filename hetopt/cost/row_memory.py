"""What every strategy of a cluster needs of its devices' memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hetopt.cost.memory import (
    fixed_bytes,
    state_bytes,
    temporary_bytes,
    weight_bytes,
)
from hetopt.cost.ranges import whole_bytes
from hetopt.cost.recompute import activation_bytes
from hetopt.cost.shapes import Floats, Ints, distinct_rows
from hetopt.problem.cluster.packing import packed
from hetopt.problem.training.choices import RECOMPUTE_OPTIONS
from hetopt.schedule.schedules import rule_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from hetopt.cost.rows import StrategyRows
    from hetopt.problem.problem import Problem
    from hetopt.problem.training.choices import Recompute


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """Bytes of every row; (R, N), and ``fixed`` (R,).

    ``weight`` is None if the schedule does not split the backward pass.
    """

    state: Ints
    activation: Ints
    temporary: Ints
    fixed: Ints
    weight: Ints | None


def memory_of(
    problem: Problem,
    rows: StrategyRows,
    kinds: tuple[str, ...],
    limit_bytes: int,
    whole: Problem,
) -> Memory:
    """Evaluate the memory of every row on devices with ``limit_bytes``.

    Parameters
    ----------
    rows, kinds
        R strategies of one cluster, and N kinds of units.
    whole
        The problem whose plans these are.
    """
    training = problem.training
    # Strategies that differ only in q, dp or recomputation have the same shard.
    first, where = distinct_rows(rows.shape.columns)
    shape = rows.shape.take(first)
    numbers, place = np.unique(rows.policies, return_inverse=True)
    used = [RECOMPUTE_OPTIONS[number] for number in numbers] or [RECOMPUTE_OPTIONS[0]]

    def per_kind(evaluate: Callable[..., Floats], *policy: Recompute) -> Ints:
        found = [
            evaluate(problem.model, training, kind, shape, *policy) for kind in kinds
        ]
        return whole_bytes(np.stack(found, axis=1), limit_bytes)

    def per_policy(evaluate: Callable[..., Floats]) -> Ints:
        found = np.stack([per_kind(evaluate, policy) for policy in used])
        return found[place, where]

    fixed = whole_bytes(fixed_bytes(problem.model, training, shape), limit_bytes)
    splits = rule_of(training.schedule).splits
    state = _state_bytes(problem, rows, kinds, _alone(whole, rows))
    return Memory(
        state=whole_bytes(state, limit_bytes),
        activation=per_policy(activation_bytes),
        temporary=per_policy(temporary_bytes),
        fixed=fixed[where],
        weight=per_kind(weight_bytes)[where] if splits else None,
    )


def _state_bytes(
    problem: Problem,
    rows: StrategyRows,
    kinds: tuple[str, ...],
    alone: NDArray[np.bool_],
) -> Floats:
    """Return the weights, gradients and optimizer states of every row; (R, N)."""
    first, where = distinct_rows((*holders(rows), alone))
    shape, replicas = rows.shape.take(first), rows.replicas[first]
    found = [
        state_bytes(
            problem.model,
            problem.training,
            kind,
            shape,
            replicas,
            alone=alone[first],
            offload=rows.cluster.offload,
        )
        for kind in kinds
    ]
    return np.stack(found, axis=1)[where]


def _alone(whole: Problem, rows: StrategyRows) -> NDArray[np.bool_]:
    """Return which rows can only be the whole pipeline: no second stage fits; (R,)."""
    cluster, *others = whole.clusters
    if others:
        return np.zeros(len(rows.strategies), dtype=bool)
    most = rows.most_stages
    if cluster.nodes > rows.cluster.nodes:
        fits = (packed(cluster, each.devices, each.inside) for each in rows.strategies)
        most = np.array([each.stages if each else 0 for each in fits], dtype=np.int64)
    one: NDArray[np.bool_] = most == 1
    return one


def holders(rows: StrategyRows) -> tuple[Ints, ...]:
    """Return the numbers that determine which ranks hold the same parameters; (R,)."""
    _, _, tp, ep, etp = rows.shape.columns
    return tp, ep, etp, rows.replicas
