"""Compiling the searches, once, before a command's clock starts."""

from __future__ import annotations

import sys
import warnings
from contextlib import ExitStack
from typing import TYPE_CHECKING

from hetopt.cli.output import complain

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hetopt.report.progress import CompilingBar
    from hetopt.solvers.registry import KernelSetName


def prepare(kernels: Iterable[KernelSetName], jobs: int | None = None) -> None:
    """Compile what a search needs unless that was done before, and say so.

    Parameters
    ----------
    jobs
        Processes that may compile; None: one per core.
    """
    from hetopt.solvers.compiling import CompilingWarning, compile_once

    with (
        warnings.catch_warnings(record=True) as caught,
        ExitStack() as stack,
    ):
        warnings.simplefilter("always", CompilingWarning)
        compile_once(kernels, jobs=jobs, show=_Shown(stack).show)
    ours = [each for each in caught if issubclass(each.category, CompilingWarning)]
    complain(*(f"warning: {each.message}" for each in ours))


class _Shown:
    """Says once that kernels are compiled, then shows how many are."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self._bar: CompilingBar | None = None

    def show(self, done: int, count: int) -> None:
        if self._bar is None:
            from hetopt.report.progress import CompilingBar

            complain("compiling the searches, once; this takes about a minute")
            self._bar = self._stack.enter_context(CompilingBar(sys.stderr))
        self._bar.update(done, count)
