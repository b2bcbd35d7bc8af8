"""Programs of one (p, q) as files for other solvers, and their solutions as plans."""

from __future__ import annotations

import re
import tempfile
from abc import ABC, abstractmethod
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from hetopt.base.words import counted
from hetopt.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from hetopt.formulations.linear_program import LinearProgram
    from hetopt.formulations.miqp.program import QuadraticProgram
    from hetopt.plans.plan import Plan
    from hetopt.solvers.mip.solution_file import Row, Solution

#: The last word of a complete file, in lower case.
LAST_WORDS = {".lp": b"end", ".mps": b"endata"}

_MARK = re.compile(r"[a-z]+_p\d+_q\d+_[0-9a-f]{12}")


class Written(ABC):
    """A program to be written to a file, and the plans of its solutions.

    Attributes
    ----------
    mark
        Name of a column that is added and fixed at 1. Solvers write it into their
        solutions, so that these name the program that they solve.
    size
        Size in words; set when the file's content is made.
    unit
        Unit of the objective, in words.
    readers
        Solvers that can read the file, in words.
    """

    mark: str
    size: str
    unit: str
    readers: str

    @abstractmethod
    def content(self, path: str, head: Sequence[str]) -> bytes:
        """Return the content of the file to be written to ``path``.

        Parameters
        ----------
        head
            Lines of the comment at the top.
        """

    @abstractmethod
    def plan(self, solution: Solution) -> Plan:
        """Return the plan of a solution.

        Raises
        ------
        InputError
            It is no solution of this program.
        """

    def ensure_own(self, solution: Solution) -> None:
        """Raise InputError if a solution belongs to another program."""
        if solution.numbered or self.mark in solution.values:
            return
        others = [name for name in solution.values if _MARK.fullmatch(name)]
        msg = f"is a solution of {others[0] if others else 'another program'}, "
        msg += f"expected one of {self.mark} (formulation, p, q, latency table)"
        if solution.values:
            raise InputError(msg, file=solution.path)


class WrittenLinear(Written):
    """A linear program.

    Parameters
    ----------
    decide
        Returns the plan of a solution, a value for every column.
    """

    readers = "GLPK, CBC, SCIP, HiGHS, Gurobi"

    def __init__(
        self,
        linear: LinearProgram,
        *,
        mark: str,
        unit: str,
        decide: Callable[[Sequence[float]], Plan],
    ) -> None:
        self.mark, self.unit = mark, unit
        self.size = (
            f"{counted(len(linear.names), 'column')}, "
            f"{counted(len(linear.row_names), 'row')}, {linear.nonzeros} nonzeros"
        )
        self._linear = linear
        self._decide = decide
        linear.lower[linear.column(mark, upper=1.0)] = 1.0

    def content(self, path: str, head: Sequence[str]) -> bytes:
        """Return LP or free MPS; see ``Written``."""
        from hetopt.formulations.program_text import lp_text, mps_text

        write = lp_text if path.endswith(".lp") else mps_text
        return write(self._linear, head).encode("ascii")

    def plan(self, solution: Solution) -> Plan:
        """Check the columns against bounds and rows; see ``Written``."""
        from hetopt.formulations.program_text import column_names

        self.ensure_own(solution)
        linear = self._linear
        values = solution.columns(column_names(linear), linear.integer)
        solution.ensure_holds(self._rows(values))
        return self._decide(values)

    def _rows(self, values: Sequence[float]) -> Iterator[Row]:
        """Yield every column and row with its value; see ``Solution.ensure_holds``."""
        linear = self._linear
        yield from (
            (name, value, abs(value), lower, upper)
            for name, value, lower, upper in zip(
                linear.names, values, linear.lower, linear.upper, strict=True
            )
        )
        matrix = linear.matrix()
        starts, columns = matrix.starts.tolist(), matrix.columns.tolist()
        parts = [
            coefficient * values[column]
            for coefficient, column in zip(matrix.values.tolist(), columns, strict=True)
        ]
        for i, name in enumerate(linear.row_names):
            own = parts[starts[i] : starts[i + 1]]
            size = sum(map(abs, own))
            yield name, sum(own), size, linear.row_lower[i], linear.row_upper[i]


class WrittenQuadratic(Written):
    """The MIQP with its products of variables, not linearised.

    Parameters
    ----------
    decide
        Returns the plan of the values that the model's variables have.
    """

    readers = "SCIP, Gurobi (not GLPK, CBC, HiGHS: rows have products of variables)"

    def __init__(
        self, program: QuadraticProgram, *, mark: str, decide: Callable[[], Plan]
    ) -> None:
        self.mark, self.unit = mark, f"{program.places.unit} nanoseconds"
        self._program = program
        self._decide = decide
        program.mark(mark)

    def content(self, path: str, head: Sequence[str]) -> bytes:
        """Return the head, and then what Pyomo writes; see ``Written``."""
        from hetopt.formulations.program_text import comment

        ending = path[path.rindex(".") :]
        with _scratch(path, ending) as scratch:
            variables, rows, products = self._program.write(scratch)
            body = Path(scratch).read_bytes()
        if not body.rstrip().lower().endswith(LAST_WORDS[ending]):
            msg = "cannot be written: no space in the folder for temporary files"
            raise InputError(msg, file=path)
        self.size = (
            f"{counted(variables, 'variable')}, {counted(rows, 'constraint')}, "
            f"{products} of them with products"
        )
        return _joined(comment(ending, head)) + body

    def plan(self, solution: Solution) -> Plan:
        """Check the variables against bounds and rows; see ``Written``."""
        self.ensure_own(solution)
        with _scratch(solution.path, ".lp") as scratch:
            variables = self._program.written_variables(scratch)
        integer = [variable.is_integer() for variable in variables.values()]
        values = solution.columns(list(variables), integer)
        for variable, value in zip(variables.values(), values, strict=True):
            variable.set_value(value, skip_validation=True)
        solution.ensure_holds(self._program.activities())
        return self._decide()


def _joined(lines: Iterable[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode("ascii")


@contextmanager
def _scratch(path: str, ending: str) -> Iterator[str]:
    """Yield the name of a temporary file; errors name ``path``.

    A library writes it in place of ``path``, where it would leave an incomplete file
    when interrupted.
    """
    try:
        with tempfile.TemporaryDirectory(prefix="hetopt-") as folder:
            yield str(Path(folder, f"model{ending}"))
    except OSError as error:
        reason = error.strerror or str(error)
        msg = f"cannot be written: {reason} in the folder for temporary files"
        raise InputError(msg, file=path) from error
