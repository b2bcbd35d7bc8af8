"""Every public name has an example, and it does what it shows."""

from __future__ import annotations

import doctest
from typing import TYPE_CHECKING

import pytest

import hetopt
from tests.cli.conftest import SMALL

if TYPE_CHECKING:
    from pathlib import Path

NAMES = [name for name in hetopt.__all__ if name != "__version__"]


@pytest.mark.parametrize("name", ["", *NAMES])
def test_examples(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "problem.yaml").write_text(SMALL)
    monkeypatch.chdir(tmp_path)
    shown = getattr(hetopt, name) if name else hetopt
    title = f"hetopt.{name}" if name else "hetopt"
    examples = doctest.DocTestParser().get_doctest(
        shown.__doc__ or "", {}, title, None, 0
    )
    assert examples.examples
    told: list[str] = []
    runner = doctest.DocTestRunner()
    runner.run(examples, out=told.append)
    assert runner.summarize(verbose=False).failed == 0, "".join(told)
