"""The lines below the tables, as plain (label, text) pairs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetopt.base.words import counted
from hetopt.problem.training.choices import ANY
from hetopt.problem.training.training import Training
from hetopt.report.rounding import percent, rounded
from hetopt.results.settlement import OPTIMALITY_GAP
from hetopt.results.spending import cost_of_time

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from hetopt.cost.table.table import CostTable
    from hetopt.plans.plan import Pipeline, Plan
    from hetopt.problem.cluster.cluster import Cluster
    from hetopt.results.front import Front
    from hetopt.results.launch import Launch
    from hetopt.results.money import Cost
    from hetopt.results.per_schedule import ScheduleBound
    from hetopt.results.priced_plan import PricedPlan
    from hetopt.results.result import Objective, Result
    from hetopt.results.spending import Spent

#: How a pair of stages and micro-batches was settled, in words.
SETTLED = {
    "solved": "solved",
    "refuted-by-bound": "refuted by bound",
    "refuted-by-search": "refuted by search",
    "infeasible": "infeasible",
    "unsettled": "unsettled",
}
#: Amounts of money from here on are shown without decimals.
_LARGE = 1000
#: A gap from here on says nothing about the plan.
_USELESS = 0.99
_MINIMISED = "what is minimised"
#: The objective, in words.
FORMS: Mapping[Objective, str] = {
    "closed": "closed form",
    "simulated": "simulated time",
    "cost": "cost",
    "uniap": "UniAP's objective",
}


def headline(result: Result) -> str:
    """Return how sure the outcome of a search is, and of which plans."""
    if result.status == "optimal":
        cheapest = result.objective == "cost"
        proven = "proven of least cost" if cheapest else "proven optimal"
        return proven + _among(result)
    if result.status == "feasible":
        if result.gap is None or result.gap > _USELESS:
            return f"how far from the best possible is unknown{_among(result)}"
        return f"at most {percent(result.gap)} from the best possible{_among(result)}"
    if result.status == "infeasible":
        return f"no feasible plan{_among(result)}: {result.reason}"
    if result.lower_bound_s is None:
        return str(result.reason)
    return f"{result.reason}; none takes less than {rounded(result.lower_bound_s)} s"


def offloads(clusters: Iterable[Cluster]) -> tuple[str, ...]:
    """Return a line for each cluster that offloads, with the assumptions about it."""
    return tuple(
        f"{own.name} offloads the optimizer: its states are in the hosts' memory, of "
        "which no limit is known; once an iteration gradients go there "
        f"({own.host_device.bandwidth_bytes_per_s / 1e9:g} GB/s per device), hosts "
        f"update ({own.host_memory_bytes_per_s / 1e9:g} GB/s) and weights come back, "
        "one after the other"
        for own in clusters
        if own.offload == "optimizer"
    )


def summary(result: Result, best: PricedPlan) -> tuple[tuple[str, str], ...]:
    """Return label and text of each line on how a result was found."""
    return (
        ("plan", shape(best.plan)),
        ("iteration time", times(best, result.objective)),
        ("throughput", throughput(result)),
        ("lower bound", bound(result)),
        *searched(result),
        ("solver", solver(result)),
        ("latencies", latencies(result)),
    )


def _among(result: Result) -> str:
    """Return in words which plans were searched, if not the usual ones."""
    parts = [*among(result)]
    if result.spent is not None:
        parts.append(f"over {_permitted(result.spent)}")
    return f" {', '.join(parts)}" if parts else ""


def among(found: Result | Front) -> Iterator[str]:
    """Yield in words which plans were searched, whatever their nodes."""
    if found.launcher is not None:
        yield f"of the plans that {found.launcher} can run"
    if found.relaxed:
        yield f"with {' and '.join(found.relaxed)} relaxed"
    if found.several is not None and found.several.most > 1:
        yield f"of up to {counted(found.several.most, 'pipeline')}"
    if found.schedules:
        yield f"over {counted(_tried(found.schedules), 'schedule')}"


def _permitted(spent: Spent) -> str:
    """Return in words which nodes and plans were permitted."""
    limits = []
    if spent.spending.budget is not None:
        limits.append(f"of at most {spent.spending.budget:,.10g} an hour")
    if spent.spending.min_tokens_per_s is not None:
        limits.append(f"with {spent.spending.min_tokens_per_s:,.10g} tokens/s or more")
    return " ".join(["all choices of nodes", " and ".join(limits)]).strip()


def price_of(launch: Launch, best: PricedPlan, objective: Objective) -> str:
    """Return how much longer an iteration takes because of the launcher's limits."""
    if launch.closed_form_s is None or launch.iteration_time_s is None:
        return (
            f"What {launch.launcher} costs is unknown: the time was up before a plan "
            "without its limits was found."
        )
    proven = "" if launch.proven else ", not proven"
    return (
        f"{launch.launcher} costs "
        f"{best.closed_form_s / launch.closed_form_s - 1:+.2%} in closed form, "
        f"{best.iteration_time_s / launch.iteration_time_s - 1:+.2%} simulated, "
        f"against the plan of least {FORMS[objective]} without its limits "
        f"({launch.schedule}{proven})."
    )


def shape(plan: Plan) -> str:
    """Return stages, micro-batches, schedule and devices; or the pipelines."""
    used = f"schedule {named_schedule(plan)}, "
    used += f"{counted(plan.devices, 'device')} used"
    if len(plan.pipelines) > 1:
        return f"{len(plan.pipelines)} pipelines side by side, {used}"
    stages = counted(len(plan.pipeline.stages), "stage")
    microbatches = counted(plan.pipeline.microbatches, "micro-batch", "es")
    return f"{stages} x {microbatches}, {used}"


def share_line(number: int, pipeline: Pipeline) -> str:
    """Return the stages, sequences and devices of one pipeline in one line."""
    microbatches = counted(pipeline.microbatches, "micro-batch", "es")
    text = (
        f"pipeline {number}: {counted(len(pipeline.stages), 'stage')}, {microbatches}"
    )
    share = pipeline.share
    if pipeline.mix is not None:
        taken = pipeline.mix.sequences.items()
        each = ", ".join(f"{number} of {tokens} tokens" for tokens, number in taken)
        text += f" of up to {counted(pipeline.mix.per_microbatch, 'sequence')} ({each})"
    if share is None:
        return text
    nodes = "; ".join(
        f"{name} {' + '.join(map(str, sizes))}" for name, sizes in share.nodes.items()
    )
    return f"{text}, {counted(share.batch, 'sequence')}, devices of nodes: {nodes}"


def named_schedule(of: Plan | CostTable | Training | ScheduleBound) -> str:
    """Return the schedule of a record, with its chunks per stage or its epsilon."""
    if isinstance(of, Training) and of.any_schedule:
        return ANY
    if of.warmup_epsilon is not None:
        return f"{of.schedule} (epsilon 1/{round(1 / of.warmup_epsilon)})"
    if of.chunks > 1:
        return f"{of.schedule} of {counted(of.chunks, 'chunk')} a stage"
    return of.schedule


def unused(result: Result, plan: Plan) -> list[str]:
    """Return the clusters of the problem on which the plan has no stage."""
    return [name for name in result.table_kinds if name not in plan.clusters]


def times(best: PricedPlan, objective: Objective = "closed") -> str:
    """Return both times, their difference, and which of them is minimised."""
    difference = best.iteration_time_s / best.closed_form_s - 1
    if best.objective_s is not None:
        return (
            f"{best.objective_s:.4f} s as UniAP counts ({_MINIMISED}), "
            f"{best.closed_form_s:.4f} s in closed form, "
            f"{best.iteration_time_s:.4f} s simulated ({difference:+.1%})"
        )
    if objective == "simulated":
        return (
            f"{best.iteration_time_s:.4f} s simulated ({_MINIMISED}), "
            f"{best.closed_form_s:.4f} s in closed form "
            f"({best.closed_form_s / best.iteration_time_s - 1:+.1%})"
        )
    minimised = "at which cost is minimised" if objective == "cost" else _MINIMISED
    return (
        f"{best.closed_form_s:.4f} s in closed form ({minimised}), "
        f"{best.iteration_time_s:.4f} s simulated ({difference:+.1%})"
    )


def throughput(result: Result) -> str:
    """Return tokens/s and both MFUs."""
    parts = []
    if result.tokens_per_s is not None:
        parts.append(f"{result.tokens_per_s:,.0f} tokens/s")
    if result.mfu is not None:
        parts.append(f"MFU {result.mfu:.1%} of all devices offered")
    if result.mfu_used is not None:
        parts.append(f"{result.mfu_used:.1%} of those used")
    least = None if result.spent is None else result.spent.spending.min_tokens_per_s
    if least is not None and (result.tokens_per_s or 0.0) < least:
        parts.append(f"{least:,.10g} tokens/s in closed form only")
    return ", ".join(parts)


def cost_lines(cost: Cost | None) -> tuple[tuple[str, str], ...]:
    """Return the line about a cost; none without a cost."""
    return () if cost is None else (("cost", cost_text(cost)),)


def cost_text(cost: Cost) -> str:
    """Return the cost of an iteration and of a trillion tokens, and the nodes."""
    if cost.per_iteration is None or cost.per_hour is None:
        return f"unknown: no price_per_hour of {', '.join(cost.unpriced)}"
    nodes = ", ".join(f"{count} {name}" for name, count in cost.nodes.items())
    return (
        f"{cost.per_iteration:.4g} an iteration, {amount(cost.per_trillion_tokens)} "
        f"a trillion tokens, {cost.per_hour:,.2f} an hour (nodes: {nodes})"
    )


def amount(value: float | None) -> str:
    """Return an amount of money, without decimals if it is large."""
    if value is None:
        return "-"
    return f"{value:,.0f}" if value >= _LARGE else f"{value:,.2f}"


def bound(result: Result) -> str:
    """Return the global lower bound and the gap."""
    if result.lower_cost is not None:
        least = f"{result.lower_cost:.4g} an iteration in closed form"
        if result.best is not None and result.cost is not None:
            paid = cost_of_time(result.cost.per_hour or 0.0, result.best.closed_form_s)
            least += f", as which the plan costs {paid:.4g}"
        return f"{least}, gap {gap_text(result.gap)}"
    if result.lower_bound_s is None:
        return "none"
    return f"{result.lower_bound_s:.4f} s, gap {gap_text(result.gap)}"


def gap_text(gap: float | None) -> str:
    """Return a gap as a percentage; only one of a proven plan is rounded to 0."""
    if gap is None:
        return "unknown"
    if OPTIMALITY_GAP < gap < 1e-4:
        return f"{gap:.1e}"
    return f"{gap:.2%}"


def searched(result: Result) -> Iterator[tuple[str, str]]:
    """Yield what was searched, as label and text; a pair for each branching."""
    yield from branched(result)
    if result.settlements:
        yield "stages x micro-batches", settled(result)
    yield "search time", f"{result.search_time_s:.1f} s"


def branched(found: Result | Front) -> Iterator[tuple[str, str]]:
    """Yield how much of each branching was searched, as label and text."""
    spent, several = found.spent, found.several
    if spent is not None:
        yield "choices of nodes", f"{spent.choices:,}: {spent.searched:,} searched"
    if found.schedules:
        yield "schedules", _schedules(found.schedules)
    if several is not None:
        ways = f"{counted(several.divisions, 'way')} to divide the nodes"
        pipelines = counted(several.searched, "pipeline")
        up_to = "" if spent is None else "up to "
        yield "divisions", f"{up_to}{ways}: {pipelines} searched"


def settled(result: Result) -> str:
    """Return how many pairs of stages and micro-batches were settled in each way."""
    counts = result.settled
    parts = [f"{count} {SETTLED[how]}" for how, count in counts.items()]
    if result.schedules and result.best is not None:
        parts[-1] += f" under {named_schedule(result.best.plan)}"
    return f"{sum(counts.values())}: {', '.join(parts)}"


def _tried(schedules: Iterable[ScheduleBound]) -> int:
    """Return the number of schedules that are not passed over."""
    return sum(each.status != "passed-over" for each in schedules)


def _schedules(schedules: Sequence[ScheduleBound]) -> str:
    """Return the number of schedules searched, and those passed over, with reasons."""
    parts = [f"best of {counted(_tried(schedules), 'schedule')}"]
    passed: dict[str | None, list[str]] = {}
    for each in schedules:
        if each.status == "passed-over":
            name = named_schedule(each)
            passed.setdefault(each.reason, []).append(name)
    parts += [
        f"passed over {', '.join(names)}: {reason}" for reason, names in passed.items()
    ]
    return "; ".join(parts)


def solver(result: Result) -> str:
    """Return the solver that settled the programs, and why it was chosen."""
    if result.choice is None:
        return result.solver
    return f"{result.solver}, {result.choice}"


def latencies(result: Result) -> str:
    """Return where each cluster's times come from."""
    text = ", ".join(f"{name} {kind}" for name, kind in result.table_kinds.items())
    if "modelled" in result.table_kinds.values():
        text += " (modelled times were computed, not measured)"
    return text
