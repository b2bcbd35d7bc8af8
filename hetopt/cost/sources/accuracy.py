"""Errors of sums of operators on published iterations.

They are those of the problem's software (``Reached.accuracy``), or without software the
device's (``Accelerator.accuracy``), which are of iterations in 16 bits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from hetopt.cost.operators.file import (
    GROUP_MATMUL,
    MATMUL,
    MEMORY,
    SDP_BACKWARD,
    SDP_FORWARD,
)
from hetopt.cost.sources.by_cluster import latency_sources
from hetopt.cost.sources.operator_source import OperatorSource

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hetopt.plans.plan import Plan
    from hetopt.problem.cluster.cluster import Cluster
    from hetopt.problem.facts import Accuracy
    from hetopt.problem.model.model import Model
    from hetopt.problem.problem import Problem


#: Names of the classes of operators in reports.
_WORDS = {
    MATMUL: "multiplications",
    GROUP_MATMUL: "grouped multiplications",
    SDP_FORWARD: "attention",
    SDP_BACKWARD: "attention",
    MEMORY: "element-wise kernels",
}


class Timed(Protocol):
    """A plan with its time."""

    @property
    def plan(self) -> Plan:
        """The plan."""
        ...

    @property
    def iteration_time_s(self) -> float:
        """Its simulated iteration time."""
        ...


def accuracies(problem: Problem, plan: Plan) -> dict[str, Accuracy | None]:
    """Return the errors on each cluster that a plan uses; None if unknown."""
    known = {
        cluster.name: _accuracy(problem, source)
        for cluster, source in _summed(problem, plan)
    }
    return {name: known.get(name) for name in plan.clusters}


def _accuracy(problem: Problem, source: OperatorSource) -> Accuracy | None:
    """Return the errors of a source; None if unknown or if a user measured kernels."""
    reached = source.reached(problem.model, problem.training)
    return None if source.own else reached.accuracy


def latency_notes(
    problem: Problem, best: Timed, alternatives: Sequence[Timed] = ()
) -> list[str]:
    """Return notes on every used cluster's operators and their errors.

    Further notes compare the best plans, and state the assumed overlap of all-to-alls.

    Parameters
    ----------
    alternatives
        The next best plans, best first.
    """
    notes, errors = [], []
    for cluster, source in _summed(problem, best.plan):
        how = _how_known(source, problem.model)
        parts = [f"{cluster.name}: the sum of {how} operators"]
        lent: dict[str, dict[str, None]] = {}
        for op, device in source.borrowed.items():
            if op == GROUP_MATMUL and problem.model.experts is None:
                continue
            lent.setdefault(device, {})[_WORDS[op]] = None
        parts += [f"{', '.join(ops)} as on {device}" for device, ops in lent.items()]
        if source.own:
            words = ", ".join(dict.fromkeys(_WORDS[op] for op in source.own))
            file = source.measured[min(source.own)]
            kind = "" if file.kind == "measured" else f" ({file.kind})"
            parts.append(f"{words} as in {file.name}{kind}")
        known = _accuracy(problem, source)
        parts += _software(problem, cluster)
        unknown = "no published iteration to compare with"
        if problem.training.software is not None:
            unknown = "no published iteration that the fit had not seen"
        parts.append(unknown if known is None else str(known))
        errors += [] if known is None else [known.median]
        notes.append("; ".join(parts))
    if errors and alternatives:
        apart = alternatives[0].iteration_time_s / best.iteration_time_s - 1
        where = "within" if abs(apart) < max(errors) else "beyond"
        # The best plan in closed form may not be the best in simulation.
        how = "slower" if apart >= 0 else "faster, simulated"
        notes.append(
            f"the next best plan is {abs(apart):.1%} {how}, {where} that error"
        )
    overlap = problem.training.moe.overlap
    if overlap:
        notes.append(
            f"training.moe.overlap: {overlap:.0%} of experts' all-to-alls are assumed "
            "to be hidden behind another micro-batch's computation, at most for its "
            "duration"
        )
    return notes


def _software(problem: Problem, cluster: Cluster) -> Iterator[str]:
    """Yield what is known of the problem's software on a cluster's device, if any."""
    training, experts = problem.training, problem.model.experts is not None
    found = training.reached(cluster.accelerator.known_as, experts=experts)
    if found is not None and training.software is not None:
        yield f"under {training.software.name}: {found.source}"
        priced = training.moe.priced_as
        if experts and priced != found.dispatcher:
            yield f"its runs send tokens by {found.dispatcher}, not by {priced}"
    elif training.software is not None:
        kind = f"{'experts' if experts else 'dense models'} in {training.precision}"
        yield (
            f"nothing is known of {training.software.name} there with {kind}, so times "
            "are those without software"
        )
    if training.overlap_tensor and (found is None or found.tensor_overlapped is None):
        yield "what training.overlap_tensor gains there is not known, and is left out"


def _how_known(source: OperatorSource, model: Model) -> str:
    """Return whether a model's operators were measured, modelled, or partly so."""
    used = {*source.measured} - ({GROUP_MATMUL} if model.experts is None else set())
    if not source.modelled:
        return "measured"
    return "modelled" if used <= {*source.modelled} else "measured and modelled"


def _summed(problem: Problem, plan: Plan) -> Iterator[tuple[Cluster, OperatorSource]]:
    """Yield the clusters that a plan uses and whose times are sums of operators."""
    sources = latency_sources(problem).by_cluster
    for cluster in problem.clusters:
        source = sources[cluster.name]
        if cluster.name in plan.clusters and isinstance(source, OperatorSource):
            yield cluster, source
