"""The errors that hetopt raises.

Exit codes are those of the command line.

    HetoptError
    +-- InputError          what the user wrote is wrong (exit code 2)
    |   +-- DigestError     a plan was made from another problem or table
    |   +-- RecordError     a record cannot have this value (also a ValueError)
    +-- InfeasibleError     no plan exists, and why (exit code 1)
    +-- CheckError          a claim about a plan does not hold (exit code 1)
    +-- SolverError         a solver library failed
"""

from __future__ import annotations


class HetoptError(Exception):
    """Base of every error hetopt raises on purpose.

    Examples
    --------
    >>> import hetopt
    >>> try:
    ...     hetopt.plan("nowhere.yaml")
    ... except hetopt.HetoptError as error:
    ...     print(type(error).__name__)
    InputError
    """


class InputError(HetoptError):
    """Something the user wrote cannot be used.

    Parameters
    ----------
    message
        What is wrong and what was expected, in one line.
    file
        The file with the mistake, as the user named it.
    line
        Line number from 1, if known.
    field
        Dotted path of the field, such as ``clusters.0.nodes``.

    Examples
    --------
    >>> import hetopt
    >>> hetopt.plan("problem.yaml", top=0)
    Traceback (most recent call last):
        ...
    hetopt.errors.RecordError: top: is 0, expected a whole number of at least 1
    """

    def __init__(
        self,
        message: str,
        *,
        file: str | None = None,
        line: int | None = None,
        field: str | None = None,
    ) -> None:
        self.message = message
        self.file = file
        self.line = line
        self.field = field
        place = file or ""
        if file and line is not None:
            place += f":{line}"
        super().__init__(": ".join(part for part in (place, field, message) if part))


class DigestError(InputError):
    """A plan, table or certificate belongs to another problem or latency table.

    Examples
    --------
    >>> import hetopt
    >>> from dataclasses import replace
    >>> problem = hetopt.read_problem("problem.yaml")
    >>> table = hetopt.build_table(problem)
    >>> longer = replace(problem, training=replace(problem.training, seq_len=2048))
    >>> try:
    ...     hetopt.plan(longer, table=table)
    ... except hetopt.DigestError as error:
    ...     print(error.field)
    problem_digest
    """


class RecordError(InputError, ValueError):
    """A part of a problem cannot have a value, in ``dataclasses.replace`` or otherwise.

    Examples
    --------
    >>> from dataclasses import replace
    >>> import hetopt
    >>> problem = hetopt.read_problem("problem.yaml")
    >>> replace(problem.training, seq_len="long")
    Traceback (most recent call last):
        ...
    hetopt.errors.RecordError: seq_len: is 'long', expected a whole number of at least 1
    """

    @property
    def said(self) -> str:
        """The field and what is wrong with it, as a part of a sentence."""
        return f"{self.field or ''} {self.message}".strip()


class InfeasibleError(HetoptError):
    """No plan satisfies the constraints; the message names the reason.

    Commands that need a plan raise it; ``hetopt.plan`` returns a result without a plan.

    Examples
    --------
    >>> import hetopt
    >>> def best(result):
    ...     if result.best is None:
    ...         raise hetopt.InfeasibleError(result.reason)
    ...     return result.best.plan
    >>> best(hetopt.plan("problem.yaml")).devices > 0
    True
    """


class CheckError(HetoptError):
    """A claim about a plan does not hold.

    Parameters
    ----------
    findings
        One line for each claim that does not hold.

    Examples
    --------
    >>> import hetopt
    >>> from dataclasses import replace
    >>> from hetopt.check import check_plan
    >>> problem = hetopt.read_problem("problem.yaml")
    >>> table = hetopt.build_table(problem)
    >>> plan = hetopt.plan(problem, table=table).best.plan
    >>> pipeline = replace(plan.pipeline, microbatches=3)
    >>> try:
    ...     check_plan(problem, table, replace(plan, pipelines=(pipeline,)))
    ... except hetopt.CheckError as error:
    ...     print(error.findings[0])
    microbatches: 3 does not divide the global batch 4
    """

    def __init__(self, findings: list[str]) -> None:
        self.findings = findings
        super().__init__("; ".join(findings))


class SolverError(HetoptError):
    """A solver library failed, or returned a status hetopt does not know.

    Examples
    --------
    >>> import hetopt
    >>> issubclass(hetopt.SolverError, hetopt.HetoptError)
    True
    """
