"""The file of a certificate, to say what is wrong in which line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hetopt.errors import CheckError, InputError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hetopt.check.verify.findings import Finding
    from hetopt.problem.document.document import Document


@dataclass(frozen=True, slots=True)
class File:
    """A certificate's file, to say what is wrong in which line.

    Attributes
    ----------
    plan
        Name of the plan's file.
    """

    name: str
    plan: str
    document: Document

    def ensure_none(self, findings: Iterable[Finding], field: str = "") -> None:
        """Raise CheckError if there are findings; ``field`` is what they are of."""
        lines = [self._shown(each, field) for each in findings]
        if lines:
            raise CheckError(lines)

    def placed(self, error: InputError) -> InputError:
        """Return an error with its line."""
        place = self.document.place(_path(error.field or ""))
        line = None if place is None else place.line
        return InputError(error.message, file=self.name, line=line, field=error.field)

    def _shown(self, finding: Finding, field: str) -> str:
        full = f"{field}.{finding.field}" if field else finding.field
        if full.partition(".")[0] not in self.document.data:
            return f"{self.plan}: {full}: {finding.message}"
        place = self.document.place(_path(full))
        line = "" if place is None else f":{place.line}"
        return f"{self.name}{line}: {full}: {finding.message}"


def _path(field: str) -> tuple[str | int, ...]:
    return tuple(int(key) if key.isdigit() else key for key in field.split(".") if key)
