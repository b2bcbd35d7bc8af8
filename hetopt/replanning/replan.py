"""The next plan with the least total time: of N iterations, and of the change to it.

With T the time of an iteration in closed form, z the least time of its moves and N the
iterations until the next change, a plan takes N T + z + restart. No plan has a T below
the search's lower bound, so N times it bounds all totals. Candidates are searched in
the order of T until N T alone is no less than the best total.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from hetopt.cost.communication.migration import Network
from hetopt.replanning.candidates import TOPS, Old, Searched, mended, quickest
from hetopt.replanning.holdings import States, bytes_held
from hetopt.replanning.layouts import layout_of, moved_to, rearranged
from hetopt.replanning.moves import moves_between
from hetopt.results.claims import without_better
from hetopt.results.money import cost_of
from hetopt.results.result import Result
from hetopt.solvers.race.merging import with_plans

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from hetopt.plans.plan import Plan
    from hetopt.problem.cluster.nodes import Device, Node
    from hetopt.problem.problem import Problem
    from hetopt.replanning.holdings import Held, Layout
    from hetopt.replanning.moves import Moves
    from hetopt.results.priced_plan import PricedPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """The plan that ran, and the nodes before and after the change.

    Attributes
    ----------
    problem, plan, before
        The old problem, the plan that ran, and its nodes.
    after
        The nodes that remain or have joined.
    iterations
        N, at least 1.
    restart_s
        Seconds that any change of plan takes in addition to its moves.
    checkpoint_bytes_per_s
        Rate at which all devices together read a checkpoint; None if there is none.
    """

    problem: Problem
    plan: Plan
    before: Sequence[Node]
    after: Sequence[Node]
    iterations: int
    restart_s: float
    checkpoint_bytes_per_s: float | None


class Candidate(NamedTuple):
    """A next plan with the cost of changing to it.

    Attributes
    ----------
    nodes
        In the order of the plan's ranks in which least has to move.
    change_s
        Seconds of moves and restart; 0 if the same pipelines stay on the same devices.
    total_s
        N T + z + restart.
    """

    priced: PricedPlan
    nodes: tuple[Node, ...]
    layout: Layout
    moves: Moves
    change_s: float
    total_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Replanned:
    """The best next plan.

    Attributes
    ----------
    result
        Result for the problem after the change, with the best candidate's plan.
    candidates
        Best first; empty if no plan exists or none was found in time.
    bound_s
        Lower bound on the total of all plans; None if unknown.
    first_s
        Seconds until the first candidate was known; None if there is none.
    checkpoint_s
        Seconds for all devices to read all that the fastest plan needs from the
        checkpoint; None if there is no checkpoint or no candidate.
    """

    result: Result
    candidates: tuple[Candidate, ...]
    bound_s: float | None
    first_s: float | None
    checkpoint_s: float | None

    @property
    def gap(self) -> float | None:
        """The largest share of the total that a better plan could save."""
        if not self.candidates or self.bound_s is None:
            return None
        total = self.candidates[0].total_s
        return max(0.0, (total - self.bound_s) / total)

    @property
    def pays_after(self) -> int:
        """The N from which no candidate with a cheaper change has a lower total."""
        best, *others = self.candidates
        needed = [
            (best.change_s - other.change_s)
            / (other.priced.closed_form_s - best.priced.closed_form_s)
            for other in others
            if other.change_s < best.change_s
            and other.priced.closed_form_s > best.priced.closed_form_s
        ]
        return math.ceil(max(needed, default=0.0))


class Replanning:
    """Compares plans of the problem after a change.

    Parameters
    ----------
    told
        Called with a line whenever a better plan is found.

    Raises
    ------
    InputError
        The old plan's ranks cannot be placed.
    """

    def __init__(
        self, change: Change, searched: Searched, told: Callable[[str], None]
    ) -> None:
        self._change, self._searched, self._told = change, searched, told
        self._began = time.monotonic()
        self._first_s: float | None = None
        plan, problem = change.plan, change.problem
        self._layout = layout_of(problem, plan, change.before)
        self._left = {
            node.device(number)
            for node in change.after
            for number in range(len(node.devices))
        }
        self._candidates: dict[str, Candidate] = {}

    def run(self) -> Replanned:
        """Return the best of all candidates.

        Raises
        ------
        InputError
            The states of a folded plan would have to move, or a slice cannot be moved.
        """
        change, searched = self._change, self._searched
        old = Old(plan=change.plan, layout=self._layout, left=change.after)
        self._weigh(mended(old, searched))
        known = [each.priced.closed_form_s for each in self._candidates.values()]
        least = min(known, default=None)
        for top in TOPS:
            result, plans = quickest(searched, least, top=top)
            self._weigh(plans)
            if self._is_done(plans, top) or result.interrupted:
                break
        ordered = sorted(
            self._candidates.values(),
            key=lambda each: (each.total_s, each.priced.closed_form_s),
        )
        if ordered:
            result = self._result(result, ordered[0].priced)
        bound = result.lower_bound_s
        return Replanned(
            result=result,
            candidates=tuple(ordered),
            bound_s=None if bound is None else self._bound(bound, ordered),
            first_s=self._first_s,
            checkpoint_s=self._checkpoint_s(ordered),
        )

    def _weigh(self, plans: Iterable[PricedPlan]) -> None:
        """Find the moves to plans, and report each plan that is better."""
        for priced in plans:
            if priced.plan.digest in self._candidates:
                continue
            own = self._candidate(priced)
            best = min((x.total_s for x in self._candidates.values()), default=math.inf)
            self._candidates[priced.plan.digest] = own
            after_s = time.monotonic() - self._began
            if self._first_s is None:
                self._first_s = after_s
            if own.total_s < best:
                moved = own.moves.bytes / 1e9
                self._told(
                    f"after {after_s:.1f} s: {priced.closed_form_s:.4f} s an "
                    f"iteration, {moved:.1f} GB to move in {own.moves.seconds:.3f} s"
                )

    def _candidate(self, priced: PricedPlan) -> Candidate:
        change, problem = self._change, self._searched.request.problem
        states = States.of(problem, (change.plan, priced.plan))
        held = self._held(states)
        layout = layout_of(problem, priced.plan, change.after)
        needed = states.held(priced.plan, layout)
        nodes = rearranged(change.after, needed, held, states)
        layout = moved_to(layout, change.after, nodes)
        needed = states.held(priced.plan, layout)
        network = Network(problem, nodes, change.checkpoint_bytes_per_s)
        moves = moves_between(held, needed, states, network)
        # Other pipelines, or other devices, need new processes and groups: a restart.
        same = priced.plan.pipelines == change.plan.pipelines and layout == self._layout
        change_s = 0.0 if same else moves.seconds + change.restart_s
        return Candidate(
            priced=priced,
            nodes=tuple(nodes),
            layout=layout,
            moves=moves,
            change_s=change_s,
            total_s=change.iterations * priced.closed_form_s + change_s,
        )

    def _held(self, states: States) -> dict[Device, Held]:
        """Return what the remaining devices hold."""
        held = states.held(self._change.plan, self._layout)
        return {device: own for device, own in held.items() if device in self._left}

    def _is_done(self, plans: Sequence[PricedPlan], top: int) -> bool:
        """Whether no plan that comes later in the order of T can be better."""
        if self._searched.pipelines > 1 or len(plans) < top:
            return True
        if self._searched.request.deadline.is_over():
            return True
        best = min(each.total_s for each in self._candidates.values())
        return self._change.iterations * plans[-1].closed_form_s >= best

    def _result(self, result: Result, best: PricedPlan) -> Result:
        """Return the search's result with this plan and its cost instead."""
        request = self._searched.request
        result = with_plans(result, [best], request.table)
        if result.claims is not None:
            time_s = best.time_s(result.objective)
            claims = dict(without_better(result.claims, time_s))
            if claims.get("best_s", 0.0) > time_s:
                # It is none that the search has found.
                del claims["best_s"]
            result = replace(result, claims=claims)
        cost = cost_of(request.problem, best.plan, best.iteration_time_s)
        return replace(result, cost=cost)

    def _bound(self, bound_s: float, ordered: Sequence[Candidate]) -> float:
        """Return a lower bound on the total of every plan."""
        bound = self._change.iterations * bound_s
        return min(bound, ordered[0].total_s) if ordered else bound

    def _checkpoint_s(self, ordered: Sequence[Candidate]) -> float | None:
        """Return the seconds to read the fastest plan's states from a checkpoint."""
        rate = self._change.checkpoint_bytes_per_s
        if rate is None or not ordered:
            return None
        quickest_ = min(ordered, key=lambda each: each.priced.closed_form_s)
        plan = quickest_.priced.plan
        problem = self._searched.request.problem
        states = States.of(problem, (plan,))
        network = Network(problem, quickest_.nodes, rate)
        used: dict[tuple[str, ...], float] = {}
        for device, held in states.held(plan, quickest_.layout).items():
            size = bytes_held(held, states)
            for name, bytes_per_s in network.from_checkpoint(device) or ():
                used[name] = used.get(name, 0.0) + size / bytes_per_s
        return max(used.values())
