"""The tables and lines of reports about plans."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hetopt.problem.model.kinds import END_KINDS, LAYER
from hetopt.report.drawing.sheet import by_column, labelled
from hetopt.report.head import answer, layout
from hetopt.report.rounding import differences, rounded
from hetopt.report.rows import boundary_rows, chain, of_each, stage_rows
from hetopt.report.summary import (
    amount,
    cost_lines,
    named_schedule,
    offloads,
    price_of,
    share_line,
    summary,
    unused,
)
from hetopt.report.utilisation import beyond_peak
from hetopt.results.money import known_cost
from hetopt.results.spending import cost_of_time
from hetopt.schedule.schedules import rule_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from hetopt.plans.plan import Plan
    from hetopt.pricing.price import Price
    from hetopt.problem.facts import Accuracy
    from hetopt.problem.model.model import Model
    from hetopt.problem.problem import Problem
    from hetopt.report.drawing.sheet import Part, Sheet
    from hetopt.report.rows import StageRow
    from hetopt.results.per_schedule import ScheduleBound
    from hetopt.results.priced_plan import PricedPlan
    from hetopt.results.result import Result

BYTES_PER_GB = 1e9

#: Headings that break at soft hyphens if the numbers below are short.
_DEVICES = "de\u00advices"
_CONNECTIONS, _MESSAGES = "connec\u00adtions", "messages each"


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What a report says beside a result.

    Attributes
    ----------
    errors
        See ``hetopt.report.head.answer``.
    next
        The line on what to do next; empty for none.
    unused
        Why clusters have no stage, by name; those of which nothing is known are left
        out.
    explain
        The command that says more about these; empty for none.
    notes
        Notes on the latencies, a line each.
    """

    errors: Mapping[str, Accuracy | None] | None = None
    next: str = ""
    unused: Mapping[str, str] = field(default_factory=dict)
    explain: str = ""
    notes: Sequence[str] = ()


_NOTHING = Told()


def stage_table(
    plan: Plan,
    *,
    model: Model | None = None,
    price: Price | None = None,
    whole: bool = False,
) -> Sheet:
    """Return the table of stages; at most 80 characters wide unless ``whole``.

    Parameters
    ----------
    model
        None leaves out the contents of stages.
    price
        None leaves out memory and times.
    whole
        Whether to add units, contents and warm-ups, and all digits of times.
    """
    rows = stage_rows(model, plan, price)
    columns: list[tuple[str, Sequence[Any]]] = [
        ("stage", [row.stage for row in rows]),
        ("cluster", [row.cluster for row in rows]),
    ]
    if whole or model is None:
        columns.append(
            ("units", [f"{row.first_unit}-{row.end_unit - 1}" for row in rows])
        )
    if model is not None and whole:
        columns.append(("holds", [row.contents for row in rows]))
    elif model is not None:
        # Units of one chunk, pairs of layers and blocks are not whole layers.
        whole_layers = all(
            kind.startswith(LAYER) for kind in {*model.units} - END_KINDS
        ) and not (plan.chunks > 1 or rule_of(plan.schedule).folded)
        short = [row.short_contents for row in rows]
        columns.append(("layers" if whole_layers else "units", short))
    columns.append(("strategy", [row.strategy for row in rows]))
    columns.append((_DEVICES, [row.devices for row in rows]))
    if price is not None:
        times = [(row.forward_ms, row.backward_ms) for row in rows]
        show = "{:.2f}".format if whole else rounded
        columns += [
            ("memory GB", [_memory(row) for row in rows]),
            ("fwd/bwd ms", ["/".join(map(show, pair)) for pair in times]),
        ]
    if whole or price is None:
        columns.append(("warm-ups", [row.warmup for row in rows]))
    if price is not None:
        columns.append(("idle", [f"{row.idle_share:.0%}" for row in rows]))
    return by_column(
        columns,
        left=("cluster", "holds", "strategy"),
        optional=("holds", "units", "layers"),
    )


def stage_tables(
    plan: Plan,
    *,
    model: Model | None = None,
    prices: Sequence[Price] | None = None,
    whole: bool = False,
) -> list[Part]:
    """Return the tables of stages of all pipelines, each with a line on its share.

    Parameters
    ----------
    model, whole
        See ``stage_table``.
    prices
        One for each pipeline; None leaves out memory and times.
    """
    known = prices or (None,) * len(plan.pipelines)
    if len(plan.pipelines) == 1 and plan.pipeline.mix is None:
        return [stage_table(plan, model=model, price=known[0], whole=whole)]
    parts: list[Part] = []
    for number, (pipeline, price) in enumerate(zip(plan.pipelines, known, strict=True)):
        own = plan.alone(number)
        parts += [
            share_line(number, pipeline),
            stage_table(own, model=model, price=price, whole=whole),
        ]
    return parts


def _memory(row: StageRow) -> str:
    return (
        f"{row.memory_bytes / BYTES_PER_GB:.1f}/{row.usable_bytes / BYTES_PER_GB:.1f}"
    )


def boundary_table(
    plan: Plan, price: Price, *, problem: Problem | None = None
) -> Sheet:
    """Return the table of boundaries between stages.

    Parameters
    ----------
    problem
        None leaves out the connections that carry a boundary.
    """
    rows = boundary_rows(plan, price, problem)
    columns: list[tuple[str, Sequence[Any]]] = [
        ("boundary", [f"{row.stage}-{row.stage + 1}" for row in rows]),
        ("clusters", [" -> ".join(dict.fromkeys(row.clusters)) for row in rows]),
        ("resharding", [row.resharding for row in rows]),
    ]
    if any(row.connections for row in rows):
        columns += [
            (
                _CONNECTIONS,
                ["" if not row.connections else row.connections for row in rows],
            ),
            (
                _MESSAGES,
                ["" if row.messages is None else f"{row.messages:g}" for row in rows],
            ),
            (
                "shared Gbps",
                [
                    "" if row.bytes_per_s is None else f"{row.bytes_per_s * 8e-9:.4g}"
                    for row in rows
                ],
            ),
        ]
    columns += [
        ("transfer ms", [f"{row.transfer_ms:.3f}" for row in rows]),
        ("occupancy ms", [f"{row.occupancy_ms:.3f}" for row in rows]),
    ]
    return by_column(columns, left=("clusters", "resharding"))


def alternatives_table(result: Result, problem: Problem | None = None) -> Sheet:
    """Return the table that compares the reported plan with the next best.

    Schedules are a column if they differ, pipelines if there are several, and prices
    if nodes were chosen by them.

    Parameters
    ----------
    problem
        None leaves out prices.
    """
    plans = result.plans
    values = [each.time_s(result.objective) for each in plans]
    columns: list[tuple[str, Sequence[Any]]] = []
    if problem is not None and result.spent is not None:
        costs = [known_cost(problem, x.plan, x.iteration_time_s) for x in plans]
        prices = [each.per_hour or 0.0 for each in costs]
        columns.append(("price an hour", [*map(amount, prices)]))
        if result.objective == "cost":
            values = [*map(cost_of_time, prices, values)]
    schedules = [named_schedule(each.plan) for each in plans]
    if len({*schedules}) > 1:
        columns.append(("schedule", schedules))
    columns += [
        ("stages", [of_each(x.plan, lambda own: len(own.stages)) for x in plans]),
        ("micro-batches", [of_each(x.plan, lambda y: y.microbatches) for x in plans]),
        (_DEVICES, [each.plan.devices for each in plans]),
        ("clusters", [chain(each.plan) for each in plans]),
    ]
    columns = [
        ("rank", range(1, len(plans) + 1)),
        ("against best", differences(values, values[0])),
        *columns,
    ]
    return by_column(columns, left=("schedule", "clusters"))


def schedules_table(schedules: Sequence[ScheduleBound]) -> Sheet:
    """Return the table of results for each schedule that is not passed over."""
    rows = [each for each in schedules if each.status != "passed-over"]
    values = [each.objective_s for each in rows]
    bounds = [each.lower_bound_s for each in rows]
    best = min((value for value in values if value is not None), default=None)
    columns: list[tuple[str, Sequence[str]]] = [
        ("schedule", [*map(named_schedule, rows)]),
        ("status", [each.status for each in rows]),
    ]
    if best is not None:
        columns += [
            ("best plan", differences(values, best)),
            ("lower bound", differences(bounds, best)),
        ]
    return by_column(columns, left=("schedule", "status"))


def _schedules(schedules: Sequence[ScheduleBound]) -> Iterator[Part]:
    """Yield the table of all schedules, and which of them were not searched."""
    if schedules:
        yield schedules_table(schedules)
    left = [each for each in schedules if each.status == "unknown" and each.reason]
    if left:
        names = ", ".join(map(named_schedule, left))
        yield f"Not searched, and so left to the bound of their device time: {names}."


def plan_report(
    result: Result,
    best: PricedPlan,
    *,
    problem: Problem | None = None,
    prices: Sequence[Price] | None = None,
    told: Told = _NOTHING,
    verbose: bool = False,
) -> list[Part]:
    """Return what ``hetopt plan`` prints about a result with a plan.

    Parameters
    ----------
    problem, prices
        Without them the report has only what the result contains; one price for each
        pipeline.
    told
        What the result does not contain.
    verbose
        Whether to add how the plan was found, boundaries, and where times come from.
    """
    model, plan = None if problem is None else problem.model, best.plan
    groups: list[Iterable[Part]] = [
        filter(None, (answer(result, best, told.errors), layout(plan), told.next)),
        stage_tables(plan, model=model, prices=prices, whole=verbose),
        _remarks(result, best, told),
        _schedules(result.schedules),
        _alternatives(result, problem),
    ]
    if verbose:
        groups += _details(result, best, problem, prices, told)
    return _spaced(groups)


def _alternatives(result: Result, problem: Problem | None) -> Iterator[Part]:
    """Yield the table of the next best plans, and whether they are just that."""
    if not result.alternatives:
        return
    yield alternatives_table(result, problem)
    if not result.ranks_are_proven:
        yield "Others may come between these: not all plans were compared with them."


def _spaced(groups: Iterable[Iterable[Part]]) -> list[Part]:
    """Return the parts of all groups, with an empty line between two groups."""
    parts: list[Part] = []
    for group in map(list, groups):
        parts += ["", *group] if parts and group else group
    return parts


def _remarks(result: Result, best: PricedPlan, told: Told) -> Iterator[str]:
    """Yield sentences on what the plan leaves unused, loses and costs."""
    unknown = [name for name in unused(result, best.plan) if name not in told.unused]
    yield from told.unused.values()
    if unknown:
        verb = "is" if len(unknown) == 1 else "are"
        more = f"; `{told.explain}` says what using more would cost"
        yield f"{', '.join(unknown)} {verb} not used{more if told.explain else ''}."
    if result.launch is not None:
        yield price_of(result.launch, best, result.objective)
    if (wrong := beyond_peak(result)) is not None:
        yield f"MFU is {wrong}."
    for label, text in cost_lines(result.cost):
        when = "" if result.objective == "simulated" else ", at the simulated time"
        yield f"{label}{when}: {text}"


def _details(
    result: Result,
    best: PricedPlan,
    problem: Problem | None,
    prices: Sequence[Price] | None,
    told: Told,
) -> Iterator[Iterable[Part]]:
    """Yield boundaries, how the plan was found, and where its times come from."""
    plan = best.plan
    alike = len(plan.pipelines) == 1 and plan.pipeline.mix is None
    if prices is not None and alike and len(plan.pipeline.stages) > 1:
        yield [boundary_table(plan, prices[0], problem=problem)]
    yield [labelled(summary(result, best)), *told.notes]
    if problem is not None:
        yield offloads(own for own in problem.clusters if own.name in plan.clusters)
