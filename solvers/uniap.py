"""The ``uniap`` solver: enumerate (pp_size, c), solve each program (UniAP).

Programs are looked at in the order of a cheap lower bound, not in the paper's, after
a local search has looked at all of them, so that good choices come early and cut the
others off. A program that cannot beat the best choice so far is refuted; without
early stopping the answer is therefore proven.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hetopt.formulations.uniap_choice import lower_bound_ns, price
from hetopt.result import OPTIMALITY_GAP
from hetopt.solvers.uniap_stopping import NO_STOPPING, EarlyStopping

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from hetopt.formulations.uniap_choice import UniapChoice, UniapProgram
    from hetopt.result import How, Status


@dataclass(frozen=True, slots=True, kw_only=True)
class UniapSettlement:
    """How one program was settled; ``how`` as in ``hetopt.result``.

    Attributes
    ----------
    value_ns
        The best choice found for it; None if none was.
    bound_ns
        Valid lower bound on its objective; None if it has no choice at all.
    build_s, solve_s
        Wall-clock seconds.
    """

    stages: int
    microbatches: int
    how: How
    value_ns: int | None
    bound_ns: int | None
    build_s: float = 0.0
    solve_s: float = 0.0

    @property
    def gap(self) -> float | None:
        """(value - bound) / value; None without a value."""
        if self.value_ns is None or self.bound_ns is None:
            return None
        return (self.value_ns - self.bound_ns) / max(self.value_ns, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class UniapResult:
    """Outcome of one search.

    Attributes
    ----------
    best
        The program of the best choice, and the choice; both None if there is none.
    lower_bound_ns
        Valid over all programs; None if none is feasible.
    settlements
        In the order in which the programs were given.
    """

    status: Status
    program: UniapProgram | None
    choice: UniapChoice | None
    value_ns: int | None
    lower_bound_ns: int | None
    settlements: tuple[UniapSettlement, ...]
    search_time_s: float

    @property
    def gap(self) -> float | None:
        """(value - bound) / value; None without a choice."""
        if self.value_ns is None or self.lower_bound_ns is None:
            return None
        return (self.value_ns - self.lower_bound_ns) / max(self.value_ns, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class UniapParams:
    """Parameters of the ``uniap`` solver.

    Attributes
    ----------
    stopping
        When to leave a program unproven; never by default. UniAP's own rules are
        ``PUBLISHED_STOPPING``.
    starts
        Whether a local search gives each program a choice to start from.
    on_settled
        Called with every program's settlement.
    """

    stopping: EarlyStopping = NO_STOPPING
    starts: bool = True
    on_settled: Callable[[UniapSettlement], None] | None = None


DEFAULT_PARAMS = UniapParams()


def solve_programs(
    programs: Sequence[UniapProgram],
    params: UniapParams = DEFAULT_PARAMS,
    *,
    time_limit_s: float | None = None,
    seed: int = 0,
    cutoff_ns: int | None = None,
) -> UniapResult:
    """Find the best choice over all programs.

    Parameters
    ----------
    programs
        One for each (pp_size, c) on offer.
    time_limit_s
        Wall-clock limit over all of them.
    cutoff_ns
        Choices that cost more are of no interest.

    Notes
    -----
    After Ctrl-C the best so far is returned, with what is proven about it.
    """
    search = _Search(params=params, seed=seed, limit_ns=cutoff_ns)
    if time_limit_s is not None:
        search.end = search.begin + time_limit_s
    bounds = [lower_bound_ns(program) for program in programs]
    order = sorted(range(len(programs)), key=lambda at: (bounds[at], at))
    settled: dict[int, UniapSettlement] = {}
    try:
        if params.starts:
            for at in order:
                search.start(programs[at], bounds[at])
        for at in order:
            settled[at] = search.settle(programs[at], bounds[at])
            if params.on_settled is not None:
                params.on_settled(settled[at])
    except KeyboardInterrupt:
        for at in order:
            settled.setdefault(at, _unsettled(programs[at], bounds[at]))
    return search.result([settled[at] for at in range(len(programs))])


@dataclass(slots=True)
class _Search:
    """The best choice so far, and what is left of the time."""

    params: UniapParams
    seed: int
    limit_ns: int | None
    begin: float = field(default_factory=time.monotonic)
    end: float | None = None
    program: UniapProgram | None = None
    choice: UniapChoice | None = None
    value_ns: int | None = None
    #: What the local search found, by the identity of the program.
    starts: dict[int, int] = field(default_factory=dict)

    def start(self, program: UniapProgram, cheap_bound_ns: int) -> None:
        """Look for a good choice before anything is solved: it cuts off the rest."""
        from hetopt.solvers.uniap_start import start

        late = self.end is not None and time.monotonic() >= self.end
        if late or self._refuted(cheap_bound_ns):
            return
        choice = start(program)
        if choice is None:
            return
        value = price(program, choice).total_ns
        self.starts[id(program)] = value
        if self.limit_ns is None or value <= self.limit_ns:
            self._improve(program, choice, value)

    def _refuted(self, bound_ns: int) -> bool:
        return self.limit_ns is not None and bound_ns > self.limit_ns

    def settle(self, program: UniapProgram, cheap_bound_ns: int) -> UniapSettlement:
        """Solve or refute one program."""
        from hetopt.formulations.uniap import UniapLinear
        from hetopt.solvers.uniap_engine import UniapEngine

        value = self.starts.get(id(program))
        if self._refuted(cheap_bound_ns):
            return _settlement(program, "refuted-by-bound", value, cheap_bound_ns)
        begin = time.monotonic()
        if self.end is not None and begin >= self.end:
            return _settlement(program, "unsettled", value, cheap_bound_ns)
        form = UniapLinear(program, cutoff_ns=self.limit_ns)
        built = time.monotonic()
        answer = UniapEngine(
            form, stopping=self.params.stopping, seed=self.seed
        ).settle(
            time_limit_s=None if self.end is None else max(self.end - built, 0.0),
            best_ns=self.limit_ns,
            start=self.choice if program is self.program else None,
        )
        done = time.monotonic()
        times = {"build_s": built - begin, "solve_s": done - built}
        if answer.choice is not None and answer.value_ns is not None:
            self._improve(program, answer.choice, answer.value_ns)
        if answer.verdict == "optimal":
            return _settlement(
                program, "solved", answer.value_ns, answer.bound_ns, **times
            )
        if answer.verdict == "infeasible":
            if self.limit_ns is None:
                return _settlement(program, "infeasible", None, None, **times)
            return _settlement(
                program, "refuted-by-search", value, self.limit_ns, **times
            )
        bound = max(cheap_bound_ns, answer.bound_ns or 0)
        best = (
            answer.value_ns if value is None else min(value, answer.value_ns or value)
        )
        return _settlement(program, "unsettled", best, bound, **times)

    def _improve(
        self, program: UniapProgram, choice: UniapChoice | None, value_ns: int
    ) -> None:
        """Keep a choice if it is better than the best so far."""
        if self.value_ns is None or value_ns < self.value_ns:
            self.program, self.choice, self.value_ns = program, choice, value_ns
            self.limit_ns = value_ns

    def result(self, settlements: Iterable[UniapSettlement]) -> UniapResult:
        """Sum up."""
        settled = tuple(settlements)
        bounds = [item.bound_ns for item in settled if item.bound_ns is not None]
        bound = min(bounds) if bounds else None
        if self.value_ns is not None:
            bound = self.value_ns if bound is None else min(bound, self.value_ns)
        status: Status
        if self.value_ns is None:
            done = all(item.how != "unsettled" for item in settled)
            status = "infeasible" if done else "unknown"
        else:
            gap = (self.value_ns - (bound or 0)) / max(self.value_ns, 1)
            status = "optimal" if gap <= OPTIMALITY_GAP else "feasible"
        return UniapResult(
            status=status,
            program=self.program,
            choice=self.choice,
            value_ns=self.value_ns,
            lower_bound_ns=bound,
            settlements=settled,
            search_time_s=time.monotonic() - self.begin,
        )


def _settlement(
    program: UniapProgram,
    how: How,
    value_ns: int | None,
    bound_ns: int | None,
    *,
    build_s: float = 0.0,
    solve_s: float = 0.0,
) -> UniapSettlement:
    return UniapSettlement(
        stages=program.stages,
        microbatches=program.microbatches,
        how=how,
        value_ns=value_ns,
        bound_ns=bound_ns,
        build_s=build_s,
        solve_s=solve_s,
    )


def _unsettled(program: UniapProgram, bound_ns: int) -> UniapSettlement:
    return _settlement(program, "unsettled", None, bound_ns)
