"""``hetopt profile --for``: the shapes that problems need, measured on this machine."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from hetopt.base.words import counted
from hetopt.cli.inputs import load_problem
from hetopt.cli.output import emit
from hetopt.cli.paths import ensure_outputs

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from hetopt.cost.profiles.file import Profile
    from hetopt.cost.shard_shape import ShardShape
    from hetopt.profile.device import Device

#: Seconds of measuring, if no limit is given, and about how long one shape may take.
LIMIT_S, MOST_S = 120.0, 0.5


def measure_for(options: argparse.Namespace, path: str, device: Device) -> None:
    """Measure the shapes of problems; print an estimate first, then what to write.

    Parameters
    ----------
    options
        Those of ``hetopt profile``.
    path
        The profile to write or to continue.
    """
    from hetopt.cost.profiles.file import read_profile
    from hetopt.problem.catalogue import accelerators
    from hetopt.profile.device import describe
    from hetopt.profile.measuring import measure_grid, measured_rate
    from hetopt.profile.needed import clusters_here, needed_shapes
    from hetopt.profile.operators import best_rates
    from hetopt.report.profiling import (
        ProfilingBar,
        accelerator_line,
        ready_line,
        shards_text,
    )

    # A profile that they name already is continued.
    ensure_outputs((path,), options.problems)
    problems = {
        file: load_problem(file, lengths=True, divided=False)
        for file in dict.fromkeys(options.problems)
    }
    about = describe(device)
    name = about["accelerator"]
    clusters = {
        file: clusters_here(problem, file, name, options.cluster)
        for file, problem in problems.items()
    }
    shapes = needed_shapes(problems, clusters)
    limit_s = options.time_limit or LIMIT_S
    rate = measured_rate(shapes, device)
    emit(_estimate(shapes, rate, limit_s))
    with ProfilingBar(sys.stderr) as bar:
        outcome = measure_grid(
            path,
            shapes,
            device,
            about,
            bar.update,
            flops_per_s=rate,
            most_s=MOST_S,
            budget_s=limit_s,
        )
    emit(shards_text(path, outcome))
    emit(_left_out(read_profile(path)))
    for file, problem in problems.items():
        from_here = os.path.relpath(path, os.path.dirname(file) or os.curdir)
        precision = problem.training.precision
        emit(ready_line(from_here, name, precision, file, clusters[file]))
    if name not in accelerators():
        dtype = shapes[-1].dtype
        emit(accelerator_line(name, dtype, best_rates(device, dtype)))


def _estimate(shapes: Sequence[ShardShape], flops_per_s: float, limit_s: float) -> str:
    """Return how long shapes take at a rate, and how much of that is permitted."""
    from hetopt.profile.measuring import expected_s

    whole_s = sum(expected_s(shape, flops_per_s, MOST_S) for shape in shapes)
    text = (
        f"{counted(len(shapes), 'shape')}, about {whole_s:.0f} s if nothing else runs"
    )
    return text + (f", of which {limit_s:g} s are measured" * (whole_s > limit_s))


def _left_out(profile: Profile) -> str:
    """Return how far a forest of a profile is off on shapes that are left out."""
    from hetopt.cost.sources.evaluation import leave_one_out
    from hetopt.cost.sources.features import PASSES

    score = leave_one_out(profile)
    if score is None:
        return "too few shapes for a leave-one-out error"
    return (
        "leave-one-out error of a forest of these, which predicts other shapes: "
        f"{score.mape:.1%} in the mean, {score.median_error:.1%} in the median "
        f"({counted(score.judged // len(PASSES), 'shape')})"
    )
