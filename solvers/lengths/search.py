"""Search for the best pipelines for sequences of several lengths (Hetu v2).

For every division of the nodes, one program chooses an option for each pipeline, and
the sequences that it takes (``hetopt.formulations.lengths``). The options are all
pipelines, or bounds on them; if a bound is chosen, the program is solved again without
bounds.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

from hetopt.base.interruption import released
from hetopt.cost.device_work import least_seconds_of_lengths
from hetopt.cost.divided import by_length, depends_on, sources_by_length
from hetopt.cost.table.ticks import LONGEST_NS, TICK_S
from hetopt.cost.table_file.file import table_digest
from hetopt.formulations.lengths.option import SCALE
from hetopt.plans.mix import Mix
from hetopt.plans.plan import Pipeline, Plan, Share, Stage
from hetopt.pricing.mixed import price_mixed
from hetopt.pricing.several import together_ns
from hetopt.problem.division import everything
from hetopt.problem.training.choices import RESHARDING
from hetopt.schedule.run import simulate
from hetopt.solvers.dividing import divisions
from hetopt.solvers.lengths.options import options_of
from hetopt.solvers.lengths.prices import warmups_of
from hetopt.solvers.progress import Progress

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from hetopt.cost.divided import Part
    from hetopt.formulations.lengths.option import Option
    from hetopt.problem.problem import Problem
    from hetopt.solvers.dividing import Division
    from hetopt.solvers.request import Request

    #: An option for each pipeline, and its micro-batches by length.
    Choice = list[tuple[Option, tuple[int, ...]]]

#: Relative gap at which a program counts as solved.
_GAP = 1e-7
#: How many pipelines with the least bounds are simulated, if one takes all sequences.
_BEST_OF = 32
#: The longest time of a plan, in steps.
_LONGEST = LONGEST_NS * SCALE


class Seat:
    """A share of the nodes, and the options of a pipeline on it."""

    def __init__(self, request: Request, parts: dict[int, Part]) -> None:
        self.parts = [parts[tokens] for tokens in sorted(parts)]
        self.tables = {tokens: each.table for tokens, each in parts.items()}
        own, tables = self.parts[-1].problem, [each.table for each in self.parts]
        #: Options in closed form or, of the simulated time, bounds.
        self.options = lru_cache(maxsize=None)(
            partial(options_of, request.problem, own, tables, request.deadline)
        )


class LengthsSearch:
    """Searches divisions of the nodes until all are done, or time is up.

    Attributes
    ----------
    ways
        All divisions; in the first, one pipeline has all nodes.
    bounds
        The bound of every division that was searched, by its number.
    found
        The best plans, of one division each, with their times, ascending.
    interrupted
        Whether the user stopped the search.

    Parameters
    ----------
    whole
        See ``solve_lengths``.
    """

    def __init__(
        self,
        request: Request,
        most: int,
        *,
        simulated: bool = False,
        whole: Problem | None = None,
    ) -> None:
        self._request, self._simulated, self._all = request, simulated, whole
        problem = request.problem
        nodes = tuple(everything(problem).items())
        self.ways: list[Division] = [(nodes,)]
        if most > 1:
            cuts = request.params.principles.sharing == "one"
            self.ways += divisions(problem, most, cuts=cuts)
        self.bounds: dict[int, float] = {}
        self.found: list[tuple[float, Plan]] = []
        self.interrupted = False
        self._cutoff_s = request.cutoff_s or math.inf
        self._sources = sources_by_length(problem)
        #: Bound by device time, whatever the division.
        self.least_s = least_seconds_of_lengths(problem, self._sources)
        #: From the shortest to the longest.
        self._lengths = sorted(problem.training.sequences)
        self._sequences = [problem.training.sequences[each] for each in self._lengths]
        self._seats: dict[Hashable, Seat] = {}
        #: The least closed form found.
        self._closed_s = math.inf
        self._digest = table_digest(request.table)

    @property
    def best_s(self) -> float:
        """The least time found; inf before there is a plan."""
        return self.found[0][0] if self.found else math.inf

    @property
    def last_s(self) -> float:
        """The time that a plan has to beat to be among the best."""
        full = len(self.found) >= self._request.params.top
        return min(self._cutoff_s, self.found[-1][0] if full else math.inf)

    def run(self) -> None:
        """Search every division until the time is up or the user interrupts."""
        try:
            with released():
                self._run()
        except KeyboardInterrupt:
            self.interrupted = True

    def _run(self) -> None:
        for number, way in enumerate(self.ways):
            # With one pipeline there is a plan soon.
            if number and self._request.deadline.is_over():
                return
            self.bounds[number] = max(self._search(way), self.least_s)
            self._tell()

    def _tell(self) -> None:
        told = self._request.params.on_progress
        if told is None:
            return
        known, bound = math.isfinite(self.best_s), self.lower_bound()
        told(
            Progress(
                elapsed_s=self._request.deadline.elapsed_s(),
                incumbent_s=self.best_s if known else None,
                bound_s=bound if math.isfinite(bound) else None,
                gap=max(0.0, self.best_s - bound) / self.best_s if known else None,
                settled=len(self.bounds),
                programs=len(self.ways),
            )
        )

    def lower_bound(self) -> float:
        """Return a lower bound on all plans; inf if there are none."""
        known = list(self.bounds.values())
        if len(self.bounds) < len(self.ways):
            known.append(self.least_s)
        return min(known, default=math.inf)

    def claims(self, *, bounded: bool) -> dict[str, Any]:
        """Return what is claimed (``hetopt.results.claims``).

        Parameters
        ----------
        bounded
            Whether the bounds hold for all plans that are asked for.
        """
        children = [
            {
                "at": [{name: list(sizes) for name, sizes in own} for own in way],
                "bound_s": None if math.isinf(bound) else bound,
            }
            for way, bound in zip(self.ways, self.bounds.values(), strict=False)
            if bounded
        ]
        return {"by": "divisions", "of": len(self.ways), "children": children}

    def _search(self, way: Division) -> float:
        """Return a bound on the plans of a division, and keep the best of them."""
        seats = [self._seat(way, number) for number in range(len(way))]
        keys = [self._key(way, number) for number in range(len(way))]
        alike = [(r, r + 1) for r in range(len(way) - 1) if keys[r] == keys[r + 1]]
        bound, chosen = self._chosen(seats, alike, self.last_s, self._simulated)
        plans = [self._plan(way, seats, each) for each in chosen]
        if self._simulated and bound < self.last_s:
            # Which of the plans with low bounds are quick, the closed form says better.
            _, chosen = self._chosen(seats, alike, self._closed_s, False)
            self._closed_s = min([self._closed_s, *map(_closed_s, chosen)])
            plans += [self._plan(way, seats, each) for each in chosen]
        best = min(plans, key=lambda each: each[0], default=None)
        if best is not None and best[0] < self.last_s:
            self.found.append(best)
            self.found.sort(key=lambda each: each[0])
            del self.found[self._request.params.top :]
        # A plan that is no better than the best so far need not be found.
        return bound

    def _chosen(
        self,
        seats: Sequence[Seat],
        alike: Sequence[tuple[int, int]],
        cutoff_s: float,
        simulated: bool,
    ) -> tuple[float, list[Choice]]:
        """Return a bound in seconds, and the best choices below a cutoff."""
        alone = len(seats) == 1
        options = [seat.options(simulated=simulated, alone=alone) for seat in seats]
        if not all(options):
            return math.inf, []
        bound, chosen = self._solve(options, alike, cutoff_s)
        if any(not option.hosts for each in chosen for option, _ in each):
            real = [[each for each in own if each.hosts] for own in options]
            _, chosen = self._solve(real, alike, cutoff_s) if all(real) else (0, [])
        return bound * TICK_S / SCALE, chosen

    def _key(self, way: Division, number: int) -> Hashable:
        """Return a key that is the same for equal seats only."""
        longest = self._request.problem.of_length(self._lengths[-1])
        return depends_on(longest, [dict(parts) for parts in way], number)

    def _seat(self, way: Division, number: int) -> Seat:
        key = self._key(way, number)
        if key not in self._seats:
            division = [dict(parts) for parts in way]
            parts = by_length(
                self._request.problem, division, number, self._sources, self._all
            )
            self._seats[key] = Seat(self._request, parts)
        return self._seats[key]

    def _solve(
        self,
        options: Sequence[Sequence[Option]],
        alike: Sequence[tuple[int, int]],
        cutoff_s: float,
    ) -> tuple[float, list[Choice]]:
        """Return a bound in steps, and the best choices below a cutoff."""
        cutoff = _LONGEST
        if math.isfinite(cutoff_s):
            cutoff = round(cutoff_s / TICK_S * SCALE)
        if len(options) == 1:
            return self._alone(options[0])
        from ortools.sat.python import cp_model

        from hetopt.formulations.lengths.program import LengthsProgram
        from hetopt.solvers.cp_sat import run

        # An option that alone takes as long as the last plan of interest is of no use.
        able = [
            [each for each in own if each.fixed + each.rates[-1] < cutoff]
            for own in options
        ]
        known = cutoff if math.isfinite(cutoff_s) else math.inf
        if not all(able):
            return known, []
        program = LengthsProgram(able, self._sequences, cutoff, alike)
        solver = cp_model.CpSolver()
        solver.parameters.num_workers = 1
        solver.parameters.catch_sigint_signal = False
        solver.parameters.random_seed = self._request.seed
        solver.parameters.linearization_level = 2
        solver.parameters.relative_gap_limit = _GAP
        left_s = self._request.deadline.left_s()
        if left_s is not None:
            solver.parameters.max_time_in_seconds = max(left_s, 0.01)
        name = run(solver, program.model)
        if name == "INFEASIBLE":
            return known, []
        if name in ("OPTIMAL", "FEASIBLE"):
            bound = min(solver.best_objective_bound, solver.objective_value)
            return max(bound - 1, 0.0), [program.extract(solver.value)]
        return max(solver.best_objective_bound - 1, 0.0), []

    def _alone(self, options: Sequence[Option]) -> tuple[float, list[Choice]]:
        """Return a bound and the best options of a pipeline that takes all sequences.

        Several of them if their times are to be simulated.
        """
        found: list[tuple[int, Option, tuple[int, ...]]] = []
        for option in options:
            if option.longest < len(self._lengths) - 1 or min(option.rates) < 0:
                continue
            counts = tuple(-(-n // option.per_microbatch) for n in self._sequences)
            found.append((option.takes(counts), option, counts))
        if not found:
            return math.inf, []
        found.sort(key=lambda each: each[0])
        real = [each for each in found if each[1].hosts]
        best = real[: _BEST_OF if self._simulated else 1]
        return found[0][0], [[(option, counts)] for _, option, counts in best]

    def _plan(
        self, way: Division, seats: Sequence[Seat], chosen: Choice
    ) -> tuple[float, Plan]:
        """Return the time of a choice in seconds, and its plan."""
        taken = self._shared(chosen)
        pipelines = tuple(
            self._pipeline(seat, option, own, None if len(way) == 1 else dict(parts))
            for seat, (option, _), own, parts in zip(
                seats, chosen, taken, way, strict=True
            )
        )
        table, batch = self._request.table, self._request.problem.training.global_batch
        plan = Plan(
            schedule=table.schedule,
            pipelines=pipelines,
            problem_digest=table.problem_digest,
            table_digest=self._digest,
        )
        if not self._simulated:
            return _closed_s(chosen), plan
        runs = tuple(
            simulate(price_mixed(plan.alone(r), seat.tables, batch).times)
            for r, seat in enumerate(seats)
        )
        return together_ns(plan, runs) * TICK_S, plan

    def _shared(self, chosen: Choice) -> list[dict[int, int]]:
        """Return the sequences of every pipeline, by their length in tokens."""
        taken: list[dict[int, int]] = [{} for _ in chosen]
        for length in reversed(range(len(self._lengths))):
            tokens, left = self._lengths[length], self._sequences[length]
            for r, (option, _) in enumerate(chosen):
                if option.longest == length:
                    taken[r][tokens] = 1
                    left -= 1
            for r, (option, counts) in enumerate(chosen):
                room = option.per_microbatch * counts[length]
                more = min(left, room - taken[r].get(tokens, 0))
                if more > 0:
                    taken[r][tokens] = taken[r].get(tokens, 0) + more
                    left -= more
        return taken

    def _pipeline(
        self,
        seat: Seat,
        option: Option,
        taken: dict[int, int],
        nodes: dict[str, tuple[int, ...]] | None,
    ) -> Pipeline:
        mix = Mix(per_microbatch=option.per_microbatch, sequences=taken)
        table = seat.parts[option.longest].table
        batch = self._request.problem.training.global_batch
        part = table.at(batch // option.per_microbatch)
        layouts = [
            int(own.layout[own.row(host.strategy)])
            for host in option.hosts
            for own in [part.clusters[host.cluster]]
        ]
        warmups = warmups_of(table.schedule, option.hosts)
        stages = []
        for i, host in enumerate(option.hosts):
            end, resharding = option.cut[i + 1], None
            if i + 1 < len(layouts):
                at = table.cuts[end - 1], layouts[i], layouts[i + 1]
                resharding = RESHARDING[int(part.resharding[at])]
            stages.append(
                Stage(
                    cluster=table.cluster_names[host.cluster],
                    first_unit=option.cut[i],
                    end_unit=end,
                    strategy=host.strategy,
                    warmup=warmups[i],
                    resharding=resharding,
                )
            )
        share = None
        if nodes is not None:
            share = Share(batch=sum(taken.values()), nodes=nodes)
        return replace(
            Pipeline(microbatches=1, stages=tuple(stages), share=share, mix=mix),
            microbatches=sum(mix.microbatches.values()),
        )


def _closed_s(chosen: Choice) -> float:
    """Return the closed form of pipelines, in seconds."""
    return max(option.takes(counts) for option, counts in chosen) * TICK_S / SCALE
