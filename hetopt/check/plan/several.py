"""Checks of pipelines side by side, in addition to those of each pipeline."""

from __future__ import annotations

from itertools import combinations, product
from typing import TYPE_CHECKING

from hetopt.base.words import counted
from hetopt.check.plan.packing import cut
from hetopt.cost.build import build_table
from hetopt.cost.divided import part
from hetopt.cost.table_file.file import table_digest
from hetopt.errors import CheckError
from hetopt.problem.division import pins_fault

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hetopt.cost.table.table import CostTable
    from hetopt.plans.plan import Plan
    from hetopt.problem.problem import Problem


def several_findings(problem: Problem, plan: Plan) -> Iterator[str]:
    """Yield findings on the pipelines' shares of the batch and of the nodes."""
    shares = [each.share for each in plan.pipelines if each.share is not None]
    if len(shares) < len(plan.pipelines):
        yield "pipelines: one of several has no share"
        return
    if plan.per_unit:
        yield "pipelines: there are several, but units have strategies"
    batch = problem.training.global_batch
    sequences = sum(share.batch for share in shares)
    if sequences != batch:
        yield (
            f"batch: pipelines take {counted(sequences, 'sequence')}, expected {batch}"
        )
    if (pin := pins_fault(problem.pins)) is not None:
        yield f"pin {pin}: only possible with one pipeline"
    known = {each.name: each for each in problem.clusters}
    for number, share in enumerate(shares):
        if not share.nodes:
            yield f"pipeline {number}: has no nodes"
        for name, parts in share.nodes.items():
            if name not in known:
                yield f"pipeline {number}: no cluster is named {name!r}"
            elif not parts or min(parts) < 1:
                yield (
                    f"pipeline {number}: takes {list(parts)} devices of nodes of "
                    f"{name!r}, expected at least one part, each of at least 1 device"
                )
    for name, cluster in known.items():
        taken = [share.nodes.get(name, ()) for share in shares]
        if not cut(cluster, taken):
            listed = " | ".join(", ".join(map(str, own)) or "none" for own in taken)
            yield (
                f"cluster {name!r}: its nodes cannot be divided into parts of {listed} "
                "devices, those of each pipeline in nodes of their own"
            )
    for one, other in combinations(shares, 2):
        for first, second in product(one.nodes, other.nodes):
            if first != second and problem.links.between(first, second) is None:
                yield f"links: no link between {first!r} and {second!r}"


def parts_of(
    problem: Problem, table: CostTable, plan: Plan
) -> list[tuple[Problem, CostTable]]:
    """Return problem and table of every pipeline; the shares have to be valid.

    Raises
    ------
    CheckError
        The table is not the problem's own, so that no table of a part can be derived.
    """
    ensure_own_table(problem, table)
    shares = [each.share for each in plan.pipelines if each.share is not None]
    division = [share.nodes for share in shares]
    return [
        part(problem, division, number, share.batch)
        for number, share in enumerate(shares)
    ]


def ensure_own_table(problem: Problem, table: CostTable) -> None:
    """Raise CheckError unless the table is the one built from the problem."""
    if table_digest(table) != table_digest(build_table(problem)):
        msg = (
            "table: with several pipelines or sequence lengths it has to be the one "
            "built from the problem"
        )
        raise CheckError([msg])


def together(plan: Plan, ran: Sequence[tuple[Sequence[int], Sequence[int]]]) -> int:
    """Return the simulated iteration time of all pipelines, in nanoseconds.

    A stage waits until all stages that hold some of its units have run their last pass,
    and then takes the longest g of them.

    Parameters
    ----------
    ran
        For every pipeline, the ends of its stages' last passes, and their g.
    """
    holders: dict[int, list[int]] = {}
    ends: list[int] = []
    waits: list[int] = []
    for pipeline, (last, sync) in zip(plan.pipelines, ran, strict=True):
        for stage, end, g in zip(pipeline.stages, last, sync, strict=True):
            for unit in range(stage.first_unit, stage.end_unit):
                holders.setdefault(unit, []).append(len(ends))
            ends.append(end)
            waits.append(g)
    latest = list(ends)
    longest = list(waits)
    for met in holders.values():
        for stage_number in met:
            latest[stage_number] = max(
                latest[stage_number], *(ends[other] for other in met)
            )
            longest[stage_number] = max(
                longest[stage_number], *(waits[other] for other in met)
            )
    return max(end + g for end, g in zip(latest, longest, strict=True))
