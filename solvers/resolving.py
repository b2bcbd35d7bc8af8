"""Search again what a certificate says was searched, with another engine."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from hetopt.formulations.chain import Chain
from hetopt.formulations.program import ProgramData, objective_ceiling
from hetopt.formulations.space import undominated

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from hetopt.check.certificate import Doubt
    from hetopt.cost.table import CostTable
    from hetopt.problem.problem import Problem
    from hetopt.solvers.engine import Engine

#: Engines, best first; the one that made the certificate is passed over. Both choose
#: warm-up counts where the schedule leaves them free.
_ENGINES = (
    ("cp-sat", "hetopt.solvers.cp_sat:CpSatEngine"),
    ("dp", "hetopt.solvers.dp:DpEngine"),
)


def second_engine(solver: str, seed: int) -> tuple[str, Engine]:
    """Return an engine, and its name, that is not the solver's own."""
    name, path = next(pair for pair in _ENGINES if pair[0] != solver)
    module, _, attribute = path.partition(":")
    return name, getattr(import_module(module), attribute)(seed)


def resolve(
    problem: Problem,
    table: CostTable,
    doubts: Iterable[Doubt],
    engine: Engine,
    *,
    time_limit_s: float | None,
) -> Iterator[tuple[Doubt, str | None]]:
    """Search each program again below its bound; yield what is wrong, or None.

    No bound of a relaxation is used: the engine gets the whole program.

    Parameters
    ----------
    time_limit_s
        For each program; one that is not settled by then is not confirmed.
    """
    chain = Chain.of(table)
    for doubt in doubts:
        part = undominated(table, table.at(doubt.microbatches), chain)
        cutoff = objective_ceiling(part, chain, doubt.stages)
        if doubt.bound_ps is not None:
            cutoff = min(cutoff, doubt.bound_ps - 1)
        data = ProgramData(
            part=part,
            chain=chain,
            schedule=table.schedule,
            pins=problem.pins,
            names=table.cluster_names,
            devices=table.cluster_devices,
            usable_bytes=table.usable_bytes,
            stages=doubt.stages,
            cutoff=cutoff,
        )
        answer = engine.settle(
            data,
            excluded=(),
            found=lambda decision: None,
            stop=lambda: False,
            time_limit_s=time_limit_s,
        )
        yield doubt, _finding(doubt, answer.verdict, time_limit_s)


def _finding(doubt: Doubt, verdict: str, limit_s: float | None) -> str | None:
    program = f"({doubt.stages}, {doubt.microbatches})"
    if verdict == "infeasible":
        return None
    if verdict == "optimal":
        if doubt.bound_ps is None:
            return f"{program} is infeasible, but has a plan"
        return f"{program} is bounded by {doubt.bound_ps}, but has a better plan"
    return f"{program} could not be settled again within {limit_s:g} s"
