"""Hold what is written against its published schema, of which each is read once."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import jsonschema

from hetopt.report.schemas import SCHEMAS

if TYPE_CHECKING:
    from jsonschema.protocols import Validator


@cache
def _validator(name: str) -> Validator:
    # That the schemas are schemas is a test of their own.
    return jsonschema.Draft202012Validator(SCHEMAS[name])


def ensure_fits(data: Any, name: str) -> None:
    """Fail unless data is as its schema says."""
    _validator(name).validate(data)
