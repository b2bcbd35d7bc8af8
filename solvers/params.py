"""Parameters of solvers: those of the race over (p, q), and those of a few solvers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

from hetopt.problem.training.principles import PRUNED

if TYPE_CHECKING:
    from collections.abc import Callable

    from hetopt.problem.training.principles import Principles
    from hetopt.solvers.progress import Progress

Executor = Literal["process", "ray"]
#: What ``dfs`` minimises: the closed form, or H2's own formula (section 4.3.2).
Cost = Literal["closed", "h2"]
COSTS: tuple[Cost, ...] = get_args(Cost)
EXECUTORS: tuple[Executor, ...] = get_args(Executor)


@dataclass(frozen=True, slots=True, kw_only=True)
class RaceParams:
    """Parameters of a race, with any engine.

    Attributes
    ----------
    jobs
        Worker processes; None for one per core, 0 or 1 to work in this process.
    top
        How many best plans to report.
    on_progress
        Called now and then from the thread that called ``solve``.
    principles
        Principles that a plan keeps; a solver refuses to relax one that it cannot.
    journal
        A file that a tree search keeps of what is settled and found, to resume from.
    executor
        Where workers run: processes of this machine, or actors of a Ray cluster,
        of which ``jobs`` (None for one per core) are started.
    beside
        Searches that run at the same time and share the memory, including this one.

    Examples
    --------
    ``hetopt.plan`` creates them; a direct call of a solver's ``solve`` needs its own.

    >>> import hetopt
    >>> from hetopt.base.deadline import Deadline
    >>> from hetopt.solvers.cp_sat import solve
    >>> from hetopt.solvers.request import Request
    >>> problem = hetopt.read_problem("problem.yaml")
    >>> request = Request(
    ...     problem=problem,
    ...     table=hetopt.build_table(problem),
    ...     params=hetopt.RaceParams(jobs=1),
    ...     deadline=Deadline.after(60),
    ... )
    >>> solve(request).status
    'optimal'
    """

    jobs: int | None = None
    top: int = 1
    on_progress: Callable[[Progress], None] | None = None
    principles: Principles = PRUNED
    journal: str | None = None
    executor: Executor = "process"
    beside: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class MctsParams(RaceParams):
    """Parameters of ``mcts`` and ``mcts-guided``.

    Attributes
    ----------
    exploration
        Exploration weight lambda of UCB (HetAuto, Eq. 1), at least 0; None for the
        solver's default.
    iterations
        Total rollouts, at least 1; None for as many as the time limit permits, or the
        solver's default without a time limit.
    """

    exploration: float | None = None
    iterations: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DfsParams(RaceParams):
    """Parameters of ``dfs``.

    Attributes
    ----------
    cost
        What the search minimises: our closed form, or H2's formula.
    group_devices
        Devices of a group in the second stage; None for no second stage.
    """

    cost: Cost = "closed"
    group_devices: int | None = 128
