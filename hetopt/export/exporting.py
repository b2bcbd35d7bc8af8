"""``hetopt.export_plan``: the command ``hetopt export`` for Python programs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetopt.errors import InfeasibleError, InputError
from hetopt.export.bundle import bundle, ensure_free, write_folder
from hetopt.export.job import Job
from hetopt.export.registry import launcher_for

if TYPE_CHECKING:
    from hetopt.results.result import Result


def export_plan(
    result: Result,
    to: str | None = None,
    out: str = "bundle",
    *,
    allow_lossy: bool = False,
) -> tuple[str, ...]:
    """Write the files from which a launcher runs the plan of a result.

    Parameters
    ----------
    result
        What ``hetopt.plan`` returned.
    to
        A launcher; see ``hetopt catalog``. None: the problem's.
    out
        A new or empty folder.
    allow_lossy
        Whether to export what the launcher cannot do exactly; LOSSY.md lists it.

    Returns
    -------
    tuple of str
        The files' paths in ``out``, sorted.

    Raises
    ------
    CheckError
        The launcher cannot do what the plan says.
    InfeasibleError
        There is no plan.
    InputError
        There is no such launcher, or none is named, the folder cannot be written, or
        the result's problem is unknown.

    Examples
    --------
    >>> import hetopt
    >>> hetopt.export_plan(hetopt.plan("problem.yaml"), to="torchrun", out="bundle")[0]
    'README.md'
    """
    if result.best is None:
        raise InfeasibleError(result.reason)
    if result.problem is None:
        msg = "has no problem, expected what hetopt.plan returned"
        raise InputError(msg, field="result")
    target = launcher_for(to, result.problem)
    ensure_free(out)
    job = Job.of(result.problem, result.best.plan)
    files = bundle(job, target, allow_lossy=allow_lossy)
    write_folder(out, files)
    return tuple(sorted(files))
