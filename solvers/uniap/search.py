"""UniAP's enumeration: every (pp_size, c) is a program, and each is settled.

A local search tries all programs first. Then they are solved in the order of a cheap
lower bound, not in that of the paper, so that good choices come early and refute other
programs. A program that cannot beat the best choice so far is refuted; without early
stopping the answer is therefore proven. Under a time limit, the programs share the time
that is left, and those that ran out of time are solved again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from hetopt.base.deadline import Deadline
from hetopt.base.interruption import check
from hetopt.cost.table.ticks import LONGEST_NS, TICK_S
from hetopt.formulations.uniap.choice import lower_bound_ns, price
from hetopt.formulations.uniap.program import UniapLinear
from hetopt.results.settlement import OPTIMALITY_GAP
from hetopt.solvers.params import RaceParams
from hetopt.solvers.progress import Progress
from hetopt.solvers.uniap.engine import UniapEngine
from hetopt.solvers.uniap.stopping import NO_STOPPING, EarlyStopping

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hetopt.formulations.uniap.choice import UniapChoice, UniapProgram
    from hetopt.results.result import Status
    from hetopt.results.settlement import How

#: How often a program is solved at most, under a time limit.
_PASSES = 3
#: A program that took this share of its time counts as cut short.
_CUT_SHORT = 0.9
#: Seconds between two reports of progress.
_TELL_S = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class UniapSettlement:
    """How one program was settled; ``how`` as in ``hetopt.results.settlement``.

    Attributes
    ----------
    value_ns
        Value of the best choice found; None if none was found.
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
    program, choice
        The program of the best choice, and the choice; both None if there is none.
    lower_bound_ns
        Lower bound over all programs; None if none is feasible.
    settlements
        In the order in which the programs were given.
    interrupted
        Whether the user stopped it.
    """

    status: Status
    program: UniapProgram | None
    choice: UniapChoice | None
    value_ns: int | None
    lower_bound_ns: int | None
    settlements: tuple[UniapSettlement, ...]
    search_time_s: float
    interrupted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class UniapParams(RaceParams):
    """Parameters of the ``uniap`` solver.

    Attributes
    ----------
    stopping
        When to stop a program unproven; never by default. UniAP's own rules are
        ``PUBLISHED_STOPPING``.
    starts
        Whether a local search gives each program a choice to start from.
    on_settled
        Called with every program's settlement, each time that it is solved.
    """

    stopping: EarlyStopping = NO_STOPPING
    starts: bool = True
    on_settled: Callable[[UniapSettlement], None] | None = None


DEFAULT_PARAMS = UniapParams()


def solve_programs(
    programs: Sequence[UniapProgram],
    params: UniapParams = DEFAULT_PARAMS,
    *,
    deadline: Deadline | None = None,
    seed: int = 0,
    cutoff_ns: int | None = None,
) -> UniapResult:
    """Find the best choice over all programs.

    Parameters
    ----------
    programs
        One for each permitted (pp_size, c).
    deadline
        For all of them together; without a limit by default.
    cutoff_ns
        Choices that cost more are of no interest.

    Notes
    -----
    After Ctrl-C the best choice so far is returned, with what is proven about it.
    """
    limit = LONGEST_NS if cutoff_ns is None else min(cutoff_ns, LONGEST_NS)
    search = _Enumeration(programs, params, deadline or Deadline(), seed, limit)
    interrupted = False
    try:
        search.run()
    except KeyboardInterrupt:
        interrupted = True
    return replace(search.result(), interrupted=interrupted)


class _Enumeration:
    """The best choice so far, what is known of every program, and the time left."""

    def __init__(
        self,
        programs: Sequence[UniapProgram],
        params: UniapParams,
        deadline: Deadline,
        seed: int,
        limit_ns: int,
    ) -> None:
        self.programs, self.params, self.seed = programs, params, seed
        self.limit_ns = limit_ns
        self.deadline = deadline
        self.told_s = deadline.elapsed_s()
        self.program: UniapProgram | None = None
        self.choice: UniapChoice | None = None
        self.value_ns: int | None = None
        self.settled = [
            self._first(program, lower_bound_ns(program)) for program in programs
        ]

    @staticmethod
    def _first(program: UniapProgram, bound_ns: int | None) -> UniapSettlement:
        return UniapSettlement(
            stages=program.stages,
            microbatches=program.microbatches,
            how="infeasible" if bound_ns is None else "unsettled",
            value_ns=None,
            bound_ns=bound_ns,
        )

    def run(self) -> None:
        """Search starts for all programs, then settle them, repeatedly if cut short."""
        if self.params.starts:
            for at in self._open():
                self._start(at)
        for _ in range(_PASSES):
            cut_short = False
            waiting = self._open()
            while waiting:
                at = waiting.pop(0)
                cut_short |= self._settle(at, 1 + len(waiting))
                if self.params.on_settled is not None:
                    self.params.on_settled(self.settled[at])
                self._tell()
            if not cut_short:
                return

    def _open(self) -> list[int]:
        """Return the unsettled programs, least bound first."""
        found = [
            (item.bound_ns or 0, at)
            for at, item in enumerate(self.settled)
            if item.how == "unsettled"
        ]
        return [at for _, at in sorted(found)]

    def _refuted(self, at: int) -> bool:
        bound = self.settled[at].bound_ns
        return bound is not None and bound > self.limit_ns

    def _start(self, at: int) -> None:
        """Find a choice of one program by local search, as a cutoff for all of them."""
        from hetopt.solvers.uniap.start import start

        check()
        if self.deadline.is_over() or self._refuted(at):
            return
        choice = start(self.programs[at])
        if choice is not None:
            self._find(at, choice, price(self.programs[at], choice).total_ns)
            self._tell()

    def _find(self, at: int, choice: UniapChoice, value_ns: int) -> None:
        """Keep a choice if it is better than the best so far."""
        known = self.settled[at].value_ns
        if known is None or value_ns < known:
            self.settled[at] = replace(self.settled[at], value_ns=value_ns)
        if value_ns > self.limit_ns:
            return
        if self.value_ns is None or value_ns < self.value_ns:
            self.program, self.choice = self.programs[at], choice
            self.value_ns = self.limit_ns = value_ns

    def _settle(self, at: int, waiting: int) -> bool:
        """Solve or refute one program; return whether it was cut short.

        Parameters
        ----------
        waiting
            Programs that share the time that is left, including this one.
        """
        check()
        if self._refuted(at):
            self._refute(at, "refuted-by-bound", self.settled[at].bound_ns)
            return False
        if self.deadline.is_over():
            return False
        left_s = self.deadline.left_s()
        share_s = None if left_s is None else left_s / waiting
        program, limit = self.programs[at], self.limit_ns
        clock = Deadline()
        # A row that no choice of interest violates would only harm the numerics.
        cutoff = None if limit == LONGEST_NS else limit
        form = UniapLinear(program, cutoff_ns=cutoff)
        build_s = clock.elapsed_s()
        answer = UniapEngine(
            form, stopping=self.params.stopping, seed=self.seed
        ).settle(
            deadline=Deadline.after(share_s),
            best_ns=cutoff,
            start=self.choice if program is self.program else None,
            found=lambda choice, value: self._find(at, choice, value),
            look=lambda bound: self._look(at, bound, limit),
        )
        solve_s = clock.elapsed_s() - build_s
        if answer.choice is not None and answer.value_ns is not None:
            self._find(at, answer.choice, answer.value_ns)
        if answer.bound_ns is not None:
            self._raise(at, answer.bound_ns, limit)
        known = self.settled[at]
        self.settled[at] = known = replace(
            known,
            build_s=known.build_s + build_s,
            solve_s=known.solve_s + solve_s,
        )
        if answer.verdict == "optimal" and (answer.value_ns or 0) > LONGEST_NS:
            self._refute(at, "refuted-by-search", limit)
        elif answer.verdict == "optimal":
            self.settled[at] = replace(
                known, how="solved", value_ns=answer.value_ns, bound_ns=answer.bound_ns
            )
        elif answer.verdict == "infeasible":
            self._refute(at, "refuted-by-search", limit)
        elif share_s is not None:
            return solve_s >= share_s * _CUT_SHORT
        return False

    def _refute(self, at: int, how: How, bound_ns: int | None) -> None:
        """Settle a program that has no better choice; if none is known, it has none."""
        if self.value_ns is None and self.limit_ns == LONGEST_NS:
            how, bound_ns = "infeasible", None
        self.settled[at] = replace(self.settled[at], how=how, bound_ns=bound_ns)

    def _raise(self, at: int, bound_ns: int, limit_ns: int) -> None:
        """Raise a program's bound, at most to the cutoff that it was solved with."""
        bound_ns = min(bound_ns, limit_ns)
        known = self.settled[at]
        if bound_ns > (known.bound_ns or 0):
            self.settled[at] = replace(known, bound_ns=bound_ns)

    def _look(self, at: int, bound_ns: int, limit_ns: int) -> None:
        """Record a bound while its program is being solved, and report progress."""
        check()
        self._raise(at, bound_ns, limit_ns)
        if self.deadline.elapsed_s() - self.told_s > _TELL_S:
            self._tell()

    def _bound_ns(self) -> int | None:
        bounds = [item.bound_ns for item in self.settled if item.bound_ns is not None]
        bound = min(bounds) if bounds else None
        if self.value_ns is None:
            return bound
        return self.value_ns if bound is None else min(bound, self.value_ns)

    def _gap(self) -> float | None:
        if self.value_ns is None:
            return None
        return (self.value_ns - (self._bound_ns() or 0)) / max(self.value_ns, 1)

    def _tell(self) -> None:
        self.told_s = self.deadline.elapsed_s()
        if self.params.on_progress is None:
            return
        value, bound = self.value_ns, self._bound_ns()
        self.params.on_progress(
            Progress(
                elapsed_s=self.told_s,
                incumbent_s=None if value is None else value * TICK_S,
                bound_s=None if bound is None else bound * TICK_S,
                gap=self._gap(),
                settled=sum(item.how != "unsettled" for item in self.settled),
                programs=len(self.settled),
            )
        )

    def result(self) -> UniapResult:
        """Return the result of the search."""
        for at in self._open():
            if self._refuted(at):
                self._refute(at, "refuted-by-bound", self.settled[at].bound_ns)
        gap = self._gap()
        status: Status
        if gap is None:
            done = all(item.how != "unsettled" for item in self.settled)
            status = "infeasible" if done else "unknown"
        else:
            status = "optimal" if gap <= OPTIMALITY_GAP else "feasible"
        return UniapResult(
            status=status,
            program=self.program,
            choice=self.choice,
            value_ns=self.value_ns,
            lower_bound_ns=self._bound_ns(),
            settlements=tuple(self.settled),
            search_time_s=self.deadline.elapsed_s(),
        )
