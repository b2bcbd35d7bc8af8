"""Ranges of lambda that label setting searches, and the plans it finds there."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from hetopt.formulations.decision import Decision
from hetopt.formulations.scale import PERIOD_SCALE
from hetopt.solvers.arrays.windows import INFINITE
from hetopt.solvers.dp.label_pool import Label

if TYPE_CHECKING:
    from hetopt.solvers.arrays.costs import Ints
    from hetopt.solvers.arrays.options import ProgramOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A range of lambda (1 / PERIOD_SCALE ticks); for h-1f1b also of lambda_0 (ns)."""

    low: int
    high: int
    floor: int
    ceiling: int


def everything(options: ProgramOptions, *, steady: bool) -> tuple[Node, list[int]]:
    """Return the node of all plans within the cutoff, and the lambda_0 thresholds.

    Parameters
    ----------
    steady
        Whether plans have a steady state, with a lambda.
    """
    data = options.data
    more = data.part.passes - 1
    if not more:
        return Node(low=0, high=INFINITE, floor=0, ceiling=INFINITE), []
    high = data.cutoff // more
    if data.period_max is not None:
        high = min(high, data.period_max)
    floor, ceiling, changes = 0, INFINITE, list[int]()
    if steady and data.rule.thresholds:
        # No stage or link takes longer than lambda, and the fill includes 2 kappa.
        longest, slowest = high // PERIOD_SCALE, data.cutoff // (2 * PERIOD_SCALE)
        kappas = options.kappas(longest, slowest)
        floor, ceiling = options.reach(longest, kappas)
        changes = options.thresholds(kappas)
    return Node(low=data.period_min, high=high, floor=floor, ceiling=ceiling), changes


@dataclass(frozen=True, slots=True, kw_only=True)
class Labelled:
    """The best plan of a label setting.

    Attributes
    ----------
    total
        ``budget.total_of`` of its label; under gpipe with the plan's own pace.
    value
        The decision's exact objective, or None if it is not feasible.
    """

    decision: Decision
    total: int
    value: int | None


def cut(node: Node) -> list[Node]:
    """Cut a node's range of lambda in the middle; [] if it is a single value."""
    if node.low >= node.high:
        return []
    middle = (node.low + node.high) // 2
    return [replace(node, high=middle), replace(node, low=middle + 1)]


def decision_of(labels: Ints, options: ProgramOptions) -> Decision:
    """Read the decision of the best complete label, which is in row 0."""
    part, chain = options.data.part, options.data.chain
    runs: list[tuple[int, int]] = []
    units = []
    row, left = 0, 0
    while row >= 0:
        o, inside = int(labels[row, Label.OPTION]), int(labels[row, Label.IN_RUN])
        if not left:
            runs.append((o, inside))
            left = inside
        left -= 1
        units.append(int(labels[row, Label.LENGTH]))
        row = int(labels[row, Label.PARENT])
    pairs = [options.pairs[o] for o, _ in runs]
    decision = Decision(
        microbatches=part.microbatches,
        order=tuple(j for j, _ in pairs),
        strategies=tuple(part.clusters[j].strategies[k] for j, k in pairs),
        hosted=tuple(hosted for _, hosted in runs),
        units=chain.with_ends(units),
    )
    return options.canonical(decision)
