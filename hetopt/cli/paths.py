"""The files a command may write: none it reads; a plan is replaced only by a plan."""

from __future__ import annotations

import os
import stat
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hetopt.base.files import ensure_writable
from hetopt.cli.flag import flags_in
from hetopt.errors import InputError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Iterator

#: Standard output, for the commands that may write there.
STDOUT = "-"
#: A larger file is no plan: one of 10,000 stages has 2 MB.
_MOST_BYTES = 100_000_000


def ensure_files(options: argparse.Namespace, *, plans: bool = False) -> None:
    """Check the files that a command's options name; see ``ensure_outputs``."""
    named: dict[str, list[str]] = {"reads": [], "writes": [], "problem": []}
    for flag in flags_in(options.takes):
        value = getattr(options, flag.dest)
        if flag.role and value is not None:
            named[flag.role] += value if isinstance(value, list) else [value]
    ensure_outputs(
        named["writes"], named["reads"], problems=named["problem"], plans=plans
    )


def ensure_outputs(
    outputs: Iterable[str | None],
    inputs: Iterable[str | None] = (),
    *,
    problems: Iterable[str] = (),
    plans: bool = False,
) -> None:
    """Raise InputError, before any work, for a file that must not be written.

    Parameters
    ----------
    outputs
        Files to write; None and ``-`` for none.
    inputs
        Files that are read, and folders all of whose files are read; None for none. A
        name of no existing file belongs to something that ships with hetopt.
    problems
        Problems that are read, with every file they name.
    plans
        Whether an output may replace a file that holds a plan.

    Raises
    ------
    InputError
        A file cannot be written, is also an input (even by another name), or is the
        same as another output; or it holds a plan, and ``plans`` is False.
    """
    names = [name for name in outputs if name is not None and name != STDOUT]
    for name in names:
        ensure_writable(name)
    for one, other in combinations(names, 2):
        if _is_same(one, other):
            msg = f"is also {one}, another file to write: name two"
            raise InputError(msg, file=other)
    existing = [name for name in names if Path(name).is_file()]
    if not existing:
        # Inputs exist, so no output is one.
        return
    for read in _read(inputs, problems):
        for name in existing:
            if os.path.samefile(name, read):
                msg = f"would replace {read}, which is read: name another file"
                raise InputError(msg, file=name)
    for name in existing:
        if not plans and holds_plan(name):
            msg = "holds a plan and is not replaced: name another file, or remove it"
            raise InputError(msg, file=name)


def holds_plan(name: str) -> bool:
    """Whether a file is a plan, or a result or certificate with a plan."""
    import json

    from hetopt.plans.plan import CUTS_SCHEMA, PLAN_SCHEMA
    from hetopt.results.certificate import CERTIFICATE_SCHEMA, TREE_SCHEMA
    from hetopt.results.result import RESULT_SCHEMA

    try:
        facts = Path(name).stat()
        if not stat.S_ISREG(facts.st_mode) or facts.st_size > _MOST_BYTES:
            return False
        data = json.loads(Path(name).read_bytes())
    except (OSError, ValueError, RecursionError):
        return False
    if not isinstance(data, dict):
        return False
    schema = data.get("schema")
    with_plans = (RESULT_SCHEMA, CERTIFICATE_SCHEMA, TREE_SCHEMA)
    return schema in (PLAN_SCHEMA, CUTS_SCHEMA) or (
        schema in with_plans and data.get("plan") is not None
    )


def _read(inputs: Iterable[str | None], problems: Iterable[str]) -> Iterator[str]:
    """Yield every file that a command reads."""
    for name in inputs:
        if name is None:
            continue
        if Path(name).is_dir():
            for folder, _, files in os.walk(name):
                yield from (os.path.join(folder, file) for file in files)
        elif Path(name).exists():
            yield name
    for name in problems:
        yield from _of_problem(name)


def _of_problem(name: str) -> Iterator[str]:
    """Yield a problem's file, and every file that it names."""
    from hetopt.problem.catalogue import problem_files
    from hetopt.problem.document.document import load_document

    path = name
    if not Path(name).exists():
        shipped = problem_files()
        if name not in shipped:
            return
        path = str(shipped[name])
    yield path
    if not Path(path).is_file():
        # A pipe can be read only once.
        return
    for text in _texts(load_document(path).data):
        named = Path(path).parent / text
        try:
            known = named.is_file()
        except (OSError, ValueError):
            continue
        if known:
            yield str(named)


def _texts(data: Any) -> Iterator[str]:
    if isinstance(data, str):
        yield data
    elif isinstance(data, dict):
        for value in data.values():
            yield from _texts(value)
    elif isinstance(data, list):
        for value in data:
            yield from _texts(value)


def _is_same(one: str, other: str) -> bool:
    """Whether two names are of one file, existing or not; devices never count."""
    if Path(one).is_file() and Path(other).is_file():
        return os.path.samefile(one, other)
    if Path(one).exists() or Path(other).exists():
        return False
    return os.path.realpath(one) == os.path.realpath(other)
