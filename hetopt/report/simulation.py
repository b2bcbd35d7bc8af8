"""The report of ``hetopt simulate``: how the time of an iteration is spent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar, get_args

from annotated_types import MinLen

from hetopt.base.fields import Count, Digest, Positive, Seconds
from hetopt.base.file_record import FileRecord
from hetopt.base.words import counted
from hetopt.cost.table.ticks import TICK_S
from hetopt.report.drawing.sheet import labelled, sheet
from hetopt.report.rows import SimulationRow, simulation_rows
from hetopt.report.summary import cost_lines, share_line
from hetopt.results.money import Cost
from hetopt.schedule.run import EventKind

if TYPE_CHECKING:
    from hetopt.plans.plan import Plan
    from hetopt.pricing.price import Price
    from hetopt.pricing.several import SeveralPrice
    from hetopt.report.drawing.sheet import Part, Sheet
    from hetopt.schedule.run import Simulation


@dataclass(frozen=True, slots=True, kw_only=True)
class CriticalPath(FileRecord):
    """The longest chain of events of a simulated iteration.

    Attributes
    ----------
    duration_s
        Of the path's events, by their kind, without kinds that take none.
    """

    events: Count
    duration_s: Mapping[EventKind, Positive]

    @classmethod
    def of(cls, run: Simulation) -> CriticalPath:
        """Return the path of a run."""
        critical = run.critical_path()
        found: dict[EventKind, int] = {}
        for event in critical:
            took_ns = event.end_ns - event.start_ns
            if took_ns:
                found[event.kind] = found.get(event.kind, 0) + took_ns
        kinds = (kind for kind in get_args(EventKind) if kind in found)
        return cls(
            events=len(critical),
            duration_s={kind: found[kind] * TICK_S for kind in kinds},
        )

    def __str__(self) -> str:
        parts = sorted(self.duration_s.items())
        path = ", ".join(f"{kind} {time_s:.4f} s" for kind, time_s in parts)
        return f"{counted(self.events, 'event')}: {path}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedPipeline(FileRecord):
    """One of several pipelines by itself.

    Attributes
    ----------
    stages
        Times are since the iteration began.
    critical_path
        Its last wait includes adding up gradients over the pipelines.
    """

    iteration_time_s: Seconds
    closed_form_s: Seconds
    stages: Annotated[tuple[SimulationRow, ...], MinLen(1)]
    critical_path: CriticalPath


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedPlan(FileRecord):
    """What ``hetopt simulate --json`` prints: one iteration of a plan.

    Attributes
    ----------
    iteration_time_s
        Simulated, event by event.
    stages
        Times are since the iteration began.
    pipelines
        If there are several, in the place of ``stages`` and ``critical_path``.
    """

    SCHEMA: ClassVar[str] = "hetopt-simulation/1"

    problem_digest: Digest
    table_digest: Digest
    iteration_time_s: Seconds
    closed_form_s: Seconds
    cost: Cost | None = None
    stages: tuple[SimulationRow, ...] = ()
    critical_path: CriticalPath | None = None
    pipelines: tuple[SimulatedPipeline, ...] = ()


def simulation_report(
    plan: Plan, price: Price, run: Simulation, cost: Cost | None = None
) -> list[Part]:
    """Return what ``hetopt simulate`` prints: stages, and the critical path."""
    return [
        simulated_stages(plan, run),
        labelled(
            (
                ("simulated", f"{price.iteration_time_s:.6f} s"),
                ("closed form", f"{price.closed_form_s:.6f} s"),
                *cost_lines(cost),
                ("critical path", str(CriticalPath.of(run))),
            )
        ),
    ]


def simulated_stages(plan: Plan, run: Simulation) -> Sheet:
    """Return the table of the stages' activity in a pipeline."""
    return sheet(
        ("stage", "cluster", "busy s", "idle", "first forward s", "last backward s"),
        (
            (
                row.stage,
                row.cluster,
                f"{row.busy_s:.4f}",
                f"{row.idle_share:.1%}",
                f"{row.first_forward_s:.4f}",
                f"{row.last_backward_s:.4f}",
            )
            for row in simulation_rows(plan, run)
        ),
        left=("cluster",),
    )


def several_simulation_report(plan: Plan, price: SeveralPrice) -> list[Part]:
    """Return what ``hetopt simulate`` prints of several pipelines."""
    parts: list[Part] = []
    ends = []
    runs = zip(plan.pipelines, price.prices, price.simulations, strict=True)
    for number, (pipeline, own, run) in enumerate(runs):
        parts += [
            share_line(number, pipeline),
            simulated_stages(plan.alone(number), run),
        ]
        ends.append(
            (
                f"pipeline {number}",
                f"{own.iteration_time_s:.6f} s simulated by itself, "
                f"{own.closed_form_s:.6f} s in closed form; "
                f"critical path: {CriticalPath.of(run)}",
            )
        )
    whole = (
        ("simulated", f"{price.iteration_time_s:.6f} s, with gradients added up"),
        ("closed form", f"{price.closed_form_s:.6f} s"),
    )
    return [*parts, labelled((*whole, *ends))]


def simulated(
    plan: Plan, price: Price, run: Simulation, cost: Cost | None = None
) -> SimulatedPlan:
    """Return the run for a file."""
    return SimulatedPlan(
        problem_digest=plan.problem_digest,
        table_digest=plan.table_digest,
        iteration_time_s=price.iteration_time_s,
        closed_form_s=price.closed_form_s,
        cost=cost,
        stages=simulation_rows(plan, run),
        critical_path=CriticalPath.of(run),
    )


def several_simulated(plan: Plan, price: SeveralPrice) -> SimulatedPlan:
    """Return the runs of several pipelines for a file."""
    runs = zip(price.prices, price.simulations, strict=True)
    return SimulatedPlan(
        problem_digest=plan.problem_digest,
        table_digest=plan.table_digest,
        iteration_time_s=price.iteration_time_s,
        closed_form_s=price.closed_form_s,
        pipelines=tuple(
            SimulatedPipeline(
                iteration_time_s=own.iteration_time_s,
                closed_form_s=own.closed_form_s,
                stages=simulation_rows(plan.alone(number), run),
                critical_path=CriticalPath.of(run),
            )
            for number, (own, run) in enumerate(runs)
        ),
    )
