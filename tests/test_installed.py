"""``make test`` tests the package that was built, not this checkout."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import hetopt
import hetopt.data
import hetopt.formulations
import hetopt.solvers


@pytest.mark.skipif(
    "HETOPT_TEST_INSTALLED" not in os.environ, reason="only in `make test`"
)
def test_every_part_comes_from_site_packages() -> None:
    for part in (hetopt, hetopt.data, hetopt.formulations, hetopt.solvers):
        assert part.__file__ is not None
        path = Path(part.__file__)
        assert "site-packages" in path.parts, path
        assert not path.parent.is_symlink()
