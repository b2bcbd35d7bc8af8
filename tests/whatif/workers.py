"""A worker for variants that some of them kill."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hetopt.whatif.solving import Answer, solve

if TYPE_CHECKING:
    from hetopt.planning.asked import Search
    from hetopt.problem.problem import Problem


def deadly(
    payload: tuple[Search, int], shared: Any, say: Any
) -> Callable[[Problem], Answer]:
    """Return a search that dies of a global batch of 8."""

    def run(problem: Problem) -> Answer:
        if problem.training.global_batch == 8:
            os._exit(9)
        return solve(replace(payload[0], problem=problem, jobs=1))

    return run
