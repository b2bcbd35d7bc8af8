"""Problems that ship with hetopt, with other values of some keys."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetopt.problem.catalogue import problem_files
from hetopt.problem.document.document import load_document
from hetopt.problem.document.edits import Setting, edited
from hetopt.problem.reading import problem_of

if TYPE_CHECKING:
    from hetopt.problem.problem import Problem


def variant(name: str, settings: dict[str, object]) -> Problem:
    """Return a named problem with dotted keys set to plain values."""
    path = str(problem_files()[name])
    changes = [Setting(key=key, value=value) for key, value in settings.items()]
    return problem_of(edited(load_document(path), changes), path)
