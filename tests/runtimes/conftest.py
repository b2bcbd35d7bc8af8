"""The process that ranks are forked from lives as long as the session."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING

import pytest

from tests.runtimes import torch_plans

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session", autouse=True)
def forked_ranks() -> Iterator[None]:
    """Have PyTorch imported once, not by every rank of every plan."""
    if importlib.util.find_spec("torch") is None:
        yield
        return
    with torch_plans.forking():
        yield
