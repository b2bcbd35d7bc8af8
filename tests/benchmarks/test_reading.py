"""Names count as the file that defines them, and every family has files."""

from __future__ import annotations

import pytest

from benchmarks import reading


@pytest.mark.parametrize(
    ("module", "name", "file"),
    [
        ("hetopt.errors", "InputError", "hetopt/errors.py"),
        ("hetopt", "Problem", "hetopt/problem/problem.py"),
        ("hetopt.cli", "entry", "hetopt/cli/entry.py"),
        ("hetopt.solvers.registry", None, "solvers/registry.py"),
    ],
)
def test_a_name_counts_as_the_file_that_defines_it(
    module: str, name: str | None, file: str
) -> None:
    assert reading.defining((module, name)) == reading.ROOT / file


def test_names_of_others_are_of_no_file() -> None:
    assert reading.defining(("dataclasses", "replace")) is None


@pytest.mark.parametrize("family", reading.FAMILIES)
def test_a_family_has_files_of_its_own_and_imports_others(
    family: str, capsys: pytest.CaptureFixture[str]
) -> None:
    own = reading.own_files(family)
    imported = reading.imported_files(own)
    assert own
    assert imported
    assert not own & imported
    assert reading.main([family]) == 0
    total = reading.lines(own) + reading.lines(imported)
    assert f"{total:,}" in capsys.readouterr().out
