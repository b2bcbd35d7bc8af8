"""The errors a caller of hetopt can meet.

Exit codes are those of the command line.

    HetoptError
    +-- InputError          what the user wrote is wrong (exit code 2)
    |   +-- DigestError     a plan was made from another problem or table
    +-- InfeasibleError     no plan exists, and why (exit code 1)
    +-- CheckError          a plan does not hold what it claims (exit code 1)
    +-- SolverError         an engine failed or answered nonsense
"""

from __future__ import annotations


class HetoptError(Exception):
    """Base of every error hetopt raises on purpose."""


class InputError(HetoptError):
    """Something the user wrote cannot be used.

    Parameters
    ----------
    message
        What is wrong and what was expected, in one line.
    file
        The file it stands in, as the user named it.
    line
        Line number from 1, where known.
    field
        Dotted path of the field, such as ``clusters.0.nodes``.
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
    """A plan or certificate belongs to another problem or latency table."""


class InfeasibleError(HetoptError):
    """No plan satisfies the constraints; the message names the one in the way."""


class CheckError(HetoptError):
    """A plan is not what it claims to be.

    Parameters
    ----------
    findings
        One line for each claim that does not hold.
    """

    def __init__(self, findings: list[str]) -> None:
        self.findings = findings
        super().__init__("; ".join(findings))


class SolverError(HetoptError):
    """A solver library failed, or returned a status hetopt does not know."""
