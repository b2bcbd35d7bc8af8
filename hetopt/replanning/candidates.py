"""Candidates for the next plan: the old one, repaired forms of it, the fastest ones.

Iteration time and moves are in conflict: repairing the old plan moves least, while the
fastest plan may be entirely different. The old plan and its repaired forms are known
within moments; the best of them is the cutoff of a search for several pipelines.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from hetopt.check import check_plan
from hetopt.cost.divided import part
from hetopt.cost.sources.by_cluster import latency_sources
from hetopt.cost.sources.remembered import RememberedSource
from hetopt.cost.table_file.file import table_digest
from hetopt.errors import CheckError, InputError
from hetopt.export.planning.limits import runs
from hetopt.export.registry import limits_of
from hetopt.planning.posed import found_by
from hetopt.plans.plan import Plan, Share
from hetopt.pricing.price import price
from hetopt.pricing.several import price_several
from hetopt.results.priced_plan import PricedPlan
from hetopt.solvers.params import RaceParams

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from hetopt.planning.posed import Posed
    from hetopt.plans.plan import Pipeline
    from hetopt.problem.cluster.nodes import Node
    from hetopt.replanning.holdings import Layout
    from hetopt.results.result import Result
    from hetopt.solvers.request import Request

    #: Number of devices of each node, by cluster.
    Nodes = Mapping[str, tuple[int, ...]]

#: Numbers of best one-pipeline plans that are searched, one search after the other.
TOPS = (1, 8, 32)


@dataclass(frozen=True, slots=True, kw_only=True)
class Old:
    """The plan that ran, and its devices.

    Attributes
    ----------
    left
        The remaining nodes, in the order of the new problem.
    """

    plan: Plan
    layout: Layout
    left: Sequence[Node]


@dataclass(frozen=True, slots=True, kw_only=True)
class Searched:
    """How the problem after the change is searched.

    Attributes
    ----------
    posed
        What is asked about it.
    request
        Search request for the problem after the change.
    """

    posed: Posed
    request: Request

    @property
    def pipelines(self) -> int:
        """Largest number of pipelines that a plan may have."""
        return self.posed.over.pipelines

    def found(self, request: Request, pipelines: int = 1) -> Result:
        """Return the solver's result for a request."""
        over = replace(self.posed.over, pipelines=pipelines)
        return found_by(replace(self.posed, over=over).tree(request))

    def priced(self, pipelines: tuple[Pipeline, ...], old: Plan) -> PricedPlan | None:
        """Return a plan of the problem with both times; None if it breaks a rule."""
        request, launcher = self.request, self.posed.asked.limiting
        plan = replace(
            old,
            pipelines=pipelines,
            problem_digest=request.table.problem_digest,
            table_digest=table_digest(request.table),
        )
        try:
            check_plan(request.problem, request.table, plan, request.params.principles)
            if launcher and not runs(limits_of(launcher), request.problem, plan):
                return None
            several = len(pipelines) > 1
            known = (
                price_several(request.problem, plan)
                if several
                else price(plan, request.table)
            )
        except (CheckError, InputError):
            return None
        return PricedPlan.of(plan, known)


def mended(old: Old, searched: Searched) -> Iterator[PricedPlan]:
    """Yield the old plan unchanged, then with its pipelines on their remaining nodes.

    A pipeline that lost devices is planned again on its own nodes. First every pipeline
    keeps its part of the batch, then the batch is divided by devices. If the old plan
    has one pipeline and several are searched, the best plan of one follows it.
    """
    pipelines = old.plan.pipelines
    known = searched.priced(pipelines, old.plan)
    if known is not None:
        yield known
    if len(pipelines) == 1 < searched.pipelines:
        best = searched.found(searched.request).best
        yield from () if best is None else (best,)
    if len(pipelines) == 1 or len(pipelines) > searched.pipelines:
        return
    nodes = _nodes_left(old)
    kept = [number for number, own in enumerate(nodes) if own]
    if not kept:
        return
    batches = [each.share.batch for each in pipelines if each.share is not None]
    weights = [sum(map(sum, own.values())) for own in nodes]
    tried: list[list[int]] = []
    if len(kept) == len(pipelines):
        tried.append(batches)
    tried.append(_shared_out(sum(batches), [weights[number] for number in kept]))
    mender = Mender(old, searched, [nodes[number] for number in kept])
    for parts in tried:
        for keep in (True, False):
            found = mender.mended([pipelines[number] for number in kept], parts, keep)
            known = None if found is None else searched.priced(found, old.plan)
            if known is not None:
                yield known


class Mender:
    """Plans pipelines of the old plan again, each on its remaining nodes.

    Parameters
    ----------
    nodes
        Remaining nodes of each pipeline that has any.
    """

    def __init__(self, old: Old, searched: Searched, nodes: Sequence[Nodes]) -> None:
        self._old, self._searched, self._nodes = old, searched, nodes
        problem = searched.request.problem
        self._source = RememberedSource(latency_sources(problem))

    def mended(
        self, pipelines: Sequence[Pipeline], batches: Sequence[int], keep: bool
    ) -> tuple[Pipeline, ...] | None:
        """Return the pipelines with these parts of the batch; None if one has no plan.

        Parameters
        ----------
        keep
            Whether pipelines that lost nothing keep their stages, if that is feasible.
        """
        found = []
        for number, (pipeline, batch) in enumerate(
            zip(pipelines, batches, strict=True)
        ):
            share = Share(batch=batch, nodes=self._nodes[number])
            if pipeline.share == share:
                found.append(pipeline)
                continue
            own = self._request(number, batch)
            new = None
            untouched = (
                pipeline.share is not None and pipeline.share.nodes == share.nodes
            )
            if keep and untouched:
                new = self._with_microbatches(pipeline, own)
            if new is None:
                best = self._searched.found(own).best
                if best is None:
                    return None
                new = best.plan.pipeline
            alone = len(self._nodes) == 1
            found.append(replace(new, share=None if alone else share))
        return tuple(found)

    def _request(self, number: int, batch: int) -> Request:
        """Return the search request for one pipeline by itself."""
        request = self._searched.request
        if len(self._nodes) == 1:
            return request
        mine = part(request.problem, self._nodes, number, batch, self._source)
        return replace(request, problem=mine.problem, table=mine.table)

    def _with_microbatches(self, pipeline: Pipeline, own: Request) -> Pipeline | None:
        """Return a pipeline with its stages and the best number of micro-batches."""
        batch = own.problem.training.global_batch
        searched = replace(self._searched, request=own)
        known = [
            searched.priced(
                (replace(pipeline, microbatches=number, share=None),), self._old.plan
            )
            for number in range(1, batch + 1)
            if batch % number == 0
        ]
        best = min(
            (each for each in known if each is not None),
            key=lambda each: each.closed_form_s,
            default=None,
        )
        return None if best is None else best.plan.pipeline


def _nodes_left(old: Old) -> list[Nodes]:
    """Return the remaining nodes of each pipeline, by cluster."""
    left = {(node.cluster, node.host): set(node.devices) for node in old.left}
    found: list[Nodes] = []
    for stages in old.layout:
        devices = {device for stage in stages for device in stage}
        count = Counter(
            (device.cluster, device.host)
            for device in devices
            if device.number in left.get((device.cluster, device.host), ())
        )
        own: dict[str, tuple[int, ...]] = {}
        for node in old.left:
            if (size := count[node.cluster, node.host]) > 0:
                own[node.cluster] = (*own.get(node.cluster, ()), size)
        found.append(
            {name: tuple(sorted(sizes, reverse=True)) for name, sizes in own.items()}
        )
    return found


def _shared_out(batch: int, weights: Sequence[int]) -> list[int]:
    """Divide a batch by weights, at least one each, by largest remainders."""
    exact = [batch * weight / sum(weights) for weight in weights]
    found = [max(1, int(value)) for value in exact]
    order = sorted(range(len(exact)), key=lambda k: int(exact[k]) - exact[k])
    for k in range(batch - sum(found)):
        found[order[k % len(order)]] += 1
    return found


def quickest(
    searched: Searched, known_s: float | None, *, top: int
) -> tuple[Result, list[PricedPlan]]:
    """Return the result of the search, and the plans that it found, fastest first.

    Parameters
    ----------
    known_s
        Seconds of the fastest plan known so far; None if there is none. The cutoff of
        a search for several pipelines; other searches ignore it.
    top
        Number of best plans to return; for several pipelines it is always one.
    """
    request = searched.request
    if searched.pipelines > 1:
        result = searched.found(replace(request, cutoff_s=known_s), searched.pipelines)
    else:
        params: RaceParams = replace(request.params, top=top)
        result = searched.found(replace(request, params=params))
    return result, [*result.plans]
