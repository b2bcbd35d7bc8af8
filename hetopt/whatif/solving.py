"""Solving the variants of a problem: one after the other, or several at once.

This process begins: after the first variant it has loaded the compiled code. Workers
have to load it again, so they are started only if that saves time on the remaining
variants. Each worker searches one variant at a time by itself, which keeps all cores
busier than several workers on one search.
"""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from hetopt.errors import InputError
from hetopt.planning.posed import Posed, ensure_holds, found_by
from hetopt.problem.digest import problem_digest
from hetopt.solvers.pools.opening import worker_count
from hetopt.whatif.apart import run_apart

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hetopt.planning.asked import Search
    from hetopt.problem.problem import Problem
    from hetopt.results.result import Result
    from hetopt.whatif.variants import Variant

#: Additional CPU seconds of the first search of a process, which loads code.
_LOADING_S = 1.5
#: CPU seconds until workers have imported and loaded their code.
_STARTING_S = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The outcome of a variant.

    Attributes
    ----------
    result
        None if it was not searched.
    failure
        Why it was not searched.
    """

    result: Result | None
    failure: str | None = None


class Solving:
    """Solves variants; variants with equal problems are solved once.

    Attributes
    ----------
    interrupted
        Whether the user interrupted it: the remaining variants were not searched.

    Parameters
    ----------
    asked
        How each is searched, whatever its problem.
    told
        Called with a line whenever a variant is done.
    """

    def __init__(
        self,
        variants: Sequence[Variant],
        asked: Search,
        told: Callable[[str], None],
    ) -> None:
        self.interrupted = False
        self._variants = variants
        self._asked = asked
        self._told = told
        self._known: dict[str, Answer] = {}
        self._waiting: deque[tuple[str, Problem]] = deque()
        self._keys = [
            None if each.problem is None else _key(each.problem) for each in variants
        ]
        first: dict[str, Problem] = {}
        for key, each in zip(self._keys, variants, strict=True):
            if key is not None and each.problem is not None:
                first.setdefault(key, each.problem)
        self._waiting.extend(first.items())
        self._count = len(first)

    def answers(self) -> list[Answer]:
        """Solve all variants, and return their outcomes, in their order.

        Raises
        ------
        InputError
            The first problem cannot be planned as asked.
        CheckError, SolverError
            A solver is wrong.
        """
        # CPU time of this process: other load on the machine is no reason for workers.
        began_s = time.process_time()
        while self._waiting and not self.interrupted:
            done = len(self._known)
            workers = min(worker_count(self._asked.jobs), len(self._waiting))
            taken_s = time.process_time() - began_s - _LOADING_S
            each_s = max(0.0, taken_s) / max(done, 1)
            gain_s = each_s * len(self._waiting) * (1 - 1 / workers)
            if done and gain_s > _STARTING_S:
                self._solve_apart(workers)
                break
            self._solve_here()
        return [self._answer(index) for index in range(len(self._variants))]

    def _answer(self, index: int) -> Answer:
        key, failure = self._keys[index], self._variants[index].failure
        if key is None:
            return Answer(result=None, failure=failure)
        return self._known.get(key) or Answer(
            result=None, failure="not searched: interrupted"
        )

    def _take(self, key: str, answer: Answer) -> None:
        self._known[key] = answer
        self._told(f"{len(self._known)} of {self._count} searched")

    def _solve_here(self) -> None:
        key, problem = self._waiting.popleft()
        try:
            answer = solve(replace(self._asked, problem=problem))
        except KeyboardInterrupt:
            self.interrupted = True
            return
        except InputError as error:
            if not self._known:
                # The base problem itself is invalid, not just a variant of it.
                raise
            answer = Answer(result=None, failure=str(error))
        self._take(key, answer)
        self.interrupted = answer.result is not None and answer.result.interrupted

    def _solve_apart(self, size: int) -> None:
        keys, problems = zip(*self._waiting, strict=True)
        self._waiting.clear()

        def take(number: int, answer: Answer | None) -> bool:
            failure = "its process died, perhaps out of memory"
            self._take(keys[number], answer or Answer(result=None, failure=failure))
            return True

        done = run_apart(size, _make, (self._asked, size), problems, take)
        self.interrupted = not done


def _key(problem: Problem) -> str:
    """Return a key of equal problems: digest and full names of latency sources."""
    return f"{problem_digest(problem)} {sorted(problem.latency.items())}"


def solve(asked: Search, *, beside: int = 1) -> Answer:
    """Solve one variant, and check the solver's result.

    Parameters
    ----------
    beside
        Number of searches that run at the same time and share the memory.

    Raises
    ------
    InputError
        The problem has no latency table, or what is asked is not possible for it.
    CheckError
        The solver is wrong.
    """
    posed = Posed.of(asked)
    result = found_by(posed.tree(posed.request(beside=beside)))
    ensure_holds(posed.problem, posed.table, result)
    return Answer(result=result)


def _make(
    payload: tuple[Search, int], shared: Any, say: Callable[[Any], None]
) -> Callable[[Problem], Answer]:
    """Return the function with which a worker solves a variant."""
    asked, beside = payload

    def run(problem: Problem) -> Answer:
        try:
            return solve(replace(asked, problem=problem, jobs=1), beside=beside)
        except InputError as error:
            return Answer(result=None, failure=str(error))

    return run
