"""The compiled functions of searches, in sets that are compiled together.

A set is compiled by calling each of its kernels once: by solving a tiny problem, or
directly. Every kernel is called with arguments of the same types in every search, so
that a search finds all its machine code afterwards (tests/solvers/test_kernels.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType, SimpleNamespace
from typing import TYPE_CHECKING

from hetopt.problem.training.choices import FREE, SCHEDULES
from hetopt.schedule.schedules import rule_of
from hetopt.solvers.registry import solver as registered

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from hetopt.problem.training.choices import ScheduleName
    from hetopt.problem.training.principles import Relaxable
    from hetopt.results.result import Objective
    from hetopt.solvers.race.worker import Worker
    from hetopt.solvers.registry import KernelSetName
    from hetopt.solvers.request import Request

#: A problem of two clusters that any solver plans in a moment.
TINY = """\
model: {layers: 4, hidden: 1024, heads: 8, ffn: 4096, vocab: 32000}
clusters:
  - {name: fast, accelerator: A100-80GB, nodes: 1, devices_per_node: 2,
     inter_node: {bandwidth: 100 Gbps, latency: 5 us}}
  - {name: slow, accelerator: A40, nodes: 1, devices_per_node: 2,
     inter_node: {bandwidth: 100 Gbps, latency: 5 us}}
links: {default: {bandwidth: 10 Gbps, latency: 1 ms, staged: host}}
training: {global_batch: 4, seq_len: 1024, schedule: %s}
"""
#: Schedules under which the tiny problem is solved: with given warm-up counts, and
#: with free ones.
_GIVEN, _FREE = SCHEDULES[0], FREE
#: Simulated time that any plan of the tiny problem takes at most, in seconds.
_LONG_S = 1000.0
#: The same in ps.
_LATE_PS = 10**15


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelSet:
    """Kernels that are compiled together.

    Attributes
    ----------
    modules
        Full names of the modules with the kernels.
    call
        Calls every kernel once, which compiles it.
    """

    modules: tuple[str, ...]
    call: Callable[[], None]


def kernels_for(
    solver: str,
    *,
    objective: Objective = "closed",
    schedules: Iterable[ScheduleName] = (),
    limited: bool = False,
) -> tuple[KernelSetName, ...]:
    """Return the kernels that a search may need.

    Parameters
    ----------
    solver
        Name of the solver.
    schedules
        Schedules that are searched.
    limited
        Whether there is a time limit: then ``auto`` may end with a tree search.
    """
    needed = registered(solver).kernels
    if limited and solver == "auto":
        needed = (*needed, "tree")
    if objective == "simulated" or any(rule_of(each).interleaved for each in schedules):
        needed = (*needed, "simulated")
        if any(rule_of(each).free for each in schedules):
            needed = (*needed, "free warm-ups")
    return needed


def _tiny(schedule: str, *relaxed: Relaxable) -> Request:
    from hetopt.cost.build import build_table
    from hetopt.problem.reading import read_problem_text
    from hetopt.problem.training.principles import Principles
    from hetopt.solvers.params import RaceParams
    from hetopt.solvers.request import Request

    problem = read_problem_text(TINY % schedule)
    params = RaceParams(jobs=0, principles=Principles.relaxing(relaxed))
    return Request(problem=problem, table=build_table(problem), params=params)


def _call_bounds() -> None:
    import numpy as np

    from hetopt.solvers.bounds.by_count import focus, survey
    from hetopt.solvers.bounds.ordering_loop import order_once
    from hetopt.solvers.bounds.sums import add_once

    add_once()
    order_once()
    request = _tiny(_GIVEN)
    programs, q = _worker(request).programs, request.table.slices[-1].microbatches
    box_bounds = programs.box_bounds(q)
    root = box_bounds.root()
    box_bounds.bounded(root, np.inf)
    box_bounds.by_option(root)
    relaxation = programs.relaxation(q)
    bound = survey(relaxation, cutoff=None).bound
    stages = int(bound.argmin())
    focus(relaxation, stages, cutoff=float(bound[stages]))


def _worker(request: Request) -> Worker:
    from hetopt.solvers.race.messages import NO_CUTOFF, Payload
    from hetopt.solvers.race.worker import Worker

    payload = Payload(
        problem=request.problem,
        table=request.table,
        engine="hetopt.solvers.dp.solver:DpEngine",
        seed=request.seed,
        top=1,
    )
    return Worker(payload, SimpleNamespace(value=NO_CUTOFF), lambda said: None)


def _call_dp() -> None:
    from hetopt.solvers.dp.buffers import copy_once
    from hetopt.solvers.dp.solver import solve

    copy_once()
    for request in (_tiny(_GIVEN), _tiny(_GIVEN, "p4")):
        solve(request)


def _call_simulated() -> None:
    from hetopt.solvers.simulated.solver import search_within

    search_within(_tiny(_GIVEN), _LONG_S)


def _call_free_warmups() -> None:
    from hetopt.solvers.race.messages import NO_CUTOFF
    from hetopt.solvers.simulated.ledger import SimulatedLedger
    from hetopt.solvers.simulated.solver import search_within

    request = _tiny(_FREE)
    best = search_within(request, _LONG_S).best
    if best is not None:
        ledger = SimulatedLedger(request.problem, request.table, top=1, limit=NO_CUTOFF)
        ledger.start(best.plan)


def _call_tree() -> None:
    from hetopt.solvers.mcts.data import SearchData
    from hetopt.solvers.mcts.subtree import Subtree

    request = _tiny(_GIVEN)
    data = SearchData.of(request.problem, request.table)
    tree = Subtree(data, data.stages[0], seed=[0], exploration=0.0, most_nodes=1000)
    tree.iterate(1, lambda value, decision: value, -1)


def _call_verification() -> None:
    from hetopt.check.verify.bound import unproven, unproven_ranges
    from hetopt.check.verify.search import search

    request = _tiny(_GIVEN)
    problem, table = request.problem, request.table
    for q in (part.microbatches for part in table.slices):
        # No plan is as slow as that: every range of lambda is searched.
        bounds = {2: _LATE_PS}
        ranges = unproven_ranges(problem, table, q, bounds)
        search(problem, table, q, bounds, ranges)
        unproven(problem, table, q, bounds, objective="simulated")


KERNELS: Mapping[KernelSetName, KernelSet] = MappingProxyType(
    {
        "dp": KernelSet(
            modules=(
                "hetopt.solvers.dp.configs",
                "hetopt.solvers.dp.bounds",
                "hetopt.solvers.dp.prices",
                "hetopt.solvers.dp.label_pool",
                "hetopt.solvers.dp.labels",
            ),
            call=_call_dp,
        ),
        "simulated": KernelSet(
            modules=(
                "hetopt.solvers.simulated.bounds",
                "hetopt.solvers.simulated.runs",
                "hetopt.solvers.simulated.fills",
                "hetopt.solvers.simulated.walk",
                "hetopt.solvers.arrays.least",
            ),
            call=_call_simulated,
        ),
        "bounds": KernelSet(
            modules=(
                "hetopt.solvers.bounds.sums",
                "hetopt.solvers.bounds.box_sums",
                "hetopt.solvers.bounds.ordering_loop",
            ),
            call=_call_bounds,
        ),
        "free warm-ups": KernelSet(
            modules=("hetopt.solvers.simulated.warmups",),
            call=_call_free_warmups,
        ),
        "tree": KernelSet(modules=("hetopt.solvers.mcts.tree",), call=_call_tree),
        "verification": KernelSet(
            modules=(
                "hetopt.check.verify.fills",
                "hetopt.check.verify.labels.labels",
            ),
            call=_call_verification,
        ),
    }
)
