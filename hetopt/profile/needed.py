"""The shards whose times a problem's table needs; needs no PyTorch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetopt.base.words import counted
from hetopt.cost.build import build_table
from hetopt.cost.profiles.units import forward_flops, shard_key
from hetopt.cost.shard_shape import ATTENTION_CORE
from hetopt.cost.sources.coverage import table_shape
from hetopt.cost.sources.features import shapes_of
from hetopt.cost.sources.forest_source import not_covered
from hetopt.cost.sources.roofline import Roofline
from hetopt.errors import InputError
from hetopt.problem.model.kinds import ATTENTION, LAYER, WITHOUT_WINDOW

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hetopt.cost.shard_shape import ShardShape
    from hetopt.problem.problem import Problem


def clusters_here(
    problem: Problem, file: str, accelerator: str, wanted: Sequence[str] | None
) -> tuple[str, ...]:
    """Return the clusters of a problem whose device this machine's is.

    Parameters
    ----------
    accelerator
        Name of this machine's device.
    wanted
        Names of clusters that it stands for; None: those with that accelerator.

    Raises
    ------
    InputError
        There are none, or the problem does not have a wanted one.
    """
    devices = {each.name: each.accelerator for each in problem.clusters}
    here = accelerator.lower()
    named = wanted or [
        name
        for name, device in devices.items()
        if here in (device.name.lower(), str(device.preset).lower())
    ]
    if not named or not devices.keys() >= {*named}:
        known = ", ".join(f"{name} ({own.name})" for name, own in devices.items())
        what = ", ".join(named) or f"one of this machine's {accelerator}"
        msg = f"are {known}, and not {what}: name those that this machine stands for, "
        msg += f"as in --cluster {next(iter(devices))}"
        raise InputError(msg, file=file, field="clusters")
    return tuple(named)


def needed_shapes(
    problems: Mapping[str, Problem], clusters: Mapping[str, Sequence[str]]
) -> tuple[ShardShape, ...]:
    """Return the shards that tables have of some clusters, those of least work first.

    Shards of equal work are there once, whatever problems and clusters share them.

    Parameters
    ----------
    clusters
        Names by file of the problem.

    Raises
    ------
    InputError
        Profiles of layers do not cover a problem, or nothing of it can be measured.
    """
    found: dict[object, ShardShape] = {}
    for file, problem in problems.items():
        reason = not_covered(problem.model, problem.training)
        if reason:
            raise InputError(f"a profile of layers {reason}", file=file)
        units = _units(problem)
        for tokens in problem.training.sequences:
            each = problem.of_length(tokens)
            table = build_table(each, Roofline())
            for name in clusters[file]:
                shape = table_shape(each, table, name)
                for unit in units:
                    for shard in shapes_of(unit, each.model, each.training, shape):
                        if shard is not None:
                            found.setdefault(shard_key(shard), shard)
    if not found:
        msg = f"no strategy of {counted(len(problems), 'problem')} fits in memory"
        raise InputError(msg, field="--for")
    return tuple(sorted(found.values(), key=forward_flops))


def _units(problem: Problem) -> tuple[str, ...]:
    """Return the units of a model as profiles have them."""
    kinds = [WITHOUT_WINDOW.get(kind, kind) for kind in problem.model.units]
    if LAYER in kinds or ATTENTION in kinds:
        kinds.append(ATTENTION_CORE)
    return tuple(dict.fromkeys(kinds))
