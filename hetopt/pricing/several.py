"""Price a plan of several pipelines.

Each pipeline is priced as a plan of its own part of the problem
(``hetopt.cost.divided``), whose g includes adding up gradients over the pipelines. In
closed form an iteration takes as long as the longest pipeline. In the simulation a
stage waits, before its g, for all stages of other pipelines that hold some of its
units, and takes the longest g among them. A single pipeline is priced here, too, if
sequences have several lengths (``hetopt.pricing.mixed``).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from hetopt.cost.divided import Part, by_length, part, sources_by_length
from hetopt.cost.table.ticks import TICK_S
from hetopt.errors import InputError
from hetopt.pricing.mixed import price_mixed
from hetopt.pricing.price import Price, price
from hetopt.problem.division import ensure_division, everything
from hetopt.schedule.run import simulate

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hetopt.plans.plan import Plan, Share
    from hetopt.problem.problem import Problem
    from hetopt.schedule.run import Simulation


@dataclass(frozen=True, slots=True, kw_only=True)
class SeveralPrice:
    """Prices of a plan of R pipelines.

    Attributes
    ----------
    parts
        Problem and table of each pipeline, for the longest sequences that it takes;
        length R.
    prices, simulations
        Of each pipeline alone, but its g includes the reduction over all; length R.
    closed_form_s, iteration_time_s
        Iteration time of the plan, by formula and by simulation, in seconds.
    """

    parts: tuple[Part, ...]
    prices: tuple[Price, ...]
    simulations: tuple[Simulation, ...]
    closed_form_s: float
    iteration_time_s: float


def price_several(problem: Problem, plan: Plan) -> SeveralPrice:
    """Return memory and both iteration times of a plan of several pipelines.

    Parameters
    ----------
    problem
        The whole problem that the plan is for.

    Raises
    ------
    InputError
        As ``hetopt.price`` for one of the pipelines; a pipeline has no share, or nodes
        that the problem does not have.

    Examples
    --------
    >>> import hetopt
    >>> from dataclasses import replace
    >>> from hetopt.pricing.several import price_several
    >>> problem = hetopt.read_problem("problem.yaml")
    >>> found = hetopt.plan(problem, pipelines=2)
    >>> if len(found.best.plan.pipelines) > 1:
    ...     priced = price_several(problem, found.best.plan)
    ...     assert abs(priced.closed_form_s - found.best.closed_form_s) < 1e-9
    """
    if problem.training.lengths is not None:
        return _price_lengths(problem, plan)
    division, shares = _division(problem, plan)
    parts = tuple(
        part(problem, division, number, share.batch)
        for number, share in enumerate(shares)
    )
    prices = tuple(
        _price(number, partial(price, plan.alone(number), own.table))
        for number, own in enumerate(parts)
    )
    return _together(plan, parts, prices)


def _price_lengths(problem: Problem, plan: Plan) -> SeveralPrice:
    """Price pipelines that take sequences of several lengths."""
    division: list[Mapping[str, tuple[int, ...]]] = [everything(problem)]
    if len(plan.pipelines) > 1:
        division, _ = _division(problem, plan)
    batch = problem.training.global_batch
    sources = sources_by_length(problem)
    parts, prices = [], []
    for number, pipeline in enumerate(plan.pipelines):
        known = by_length(problem, division, number, sources)
        tables = {tokens: each.table for tokens, each in known.items()}
        taken = set() if pipeline.mix is None else set(pipeline.mix.sequences)
        if unknown := taken - set(tables):
            msg = f"has {max(unknown)} tokens, which no sequence of the problem has"
            raise InputError(msg, field=f"pipelines.{number}.mix.sequences")
        own = partial(price_mixed, plan.alone(number), tables, batch)
        prices.append(_price(number, own))
        parts.append(known[max(taken)])
    return _together(plan, tuple(parts), tuple(prices))


def _division(
    problem: Problem, plan: Plan
) -> tuple[list[Mapping[str, tuple[int, ...]]], list[Share]]:
    """Return the nodes and the share of each pipeline."""
    shares = [pipeline.share for pipeline in plan.pipelines]
    for number, share in enumerate(shares):
        if share is None:
            msg = "is missing: one of several pipelines has a share of the nodes"
            raise InputError(msg, field=f"pipelines.{number}.share")
    known = [share for share in shares if share is not None]
    division = [share.nodes for share in known]
    ensure_division(problem, division)
    return division, known


def _together(
    plan: Plan, parts: tuple[Part, ...], prices: tuple[Price, ...]
) -> SeveralPrice:
    simulations = tuple(simulate(each.times) for each in prices)
    return SeveralPrice(
        parts=parts,
        prices=prices,
        simulations=simulations,
        closed_form_s=max(each.closed_form_s for each in prices),
        iteration_time_s=together_ns(plan, simulations) * TICK_S,
    )


def _price(number: int, own: Callable[[], Price]) -> Price:
    """Price one pipeline; the field of an error has its number."""
    try:
        return own()
    except InputError as error:
        field = (error.field or "pipelines.0").replace(".0", f".{number}", 1)
        raise InputError(error.message, field=field) from error


def together_ns(plan: Plan, simulations: tuple[Simulation, ...]) -> int:
    """Return when all pipelines have ended their iteration.

    The g of a stage begins when it and all stages that hold some of its units have run
    their last pass, and takes as long as the longest g among them.
    """
    ends = []
    for pipeline, run in zip(plan.pipelines, simulations, strict=True):
        stages = zip(pipeline.stages, run.last_end_ns, run.times.sync_ns, strict=True)
        ends.append([(s.first_unit, s.end_unit, end, g) for s, end, g in stages])
    every = [stage for own in ends for stage in own]
    longest = 0
    for first, last, _, _ in every:
        met = [stage for stage in every if stage[0] < last and first < stage[1]]
        last_pass = max(end for _, _, end, _ in met)
        longest = max(longest, last_pass + max(g for _, _, _, g in met))
    return longest
