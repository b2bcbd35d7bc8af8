"""Check that a search for several pipelines is possible, before it begins."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hetopt.errors import InputError
from hetopt.problem.division import part_of, pins_fault
from hetopt.problem.meshes import meshes
from hetopt.schedule.schedules import rule_of
from hetopt.solvers.dividing import divisions
from hetopt.solvers.refusals import ensure_fills, ensure_races

if TYPE_CHECKING:
    from hetopt.problem.cluster.cluster import Cluster
    from hetopt.problem.problem import Problem
    from hetopt.problem.training.choices import ScheduleName
    from hetopt.problem.training.principles import Principles


def ensure_several(
    problem: Problem,
    name: str,
    pipelines: int,
    principles: Principles,
    *,
    schedule: ScheduleName | None = None,
    spends: bool = False,
) -> None:
    """Raise InputError if a search for several pipelines is not possible.

    Parameters
    ----------
    name
        Name of the solver.
    principles
        Without P4, stages of every pipeline have to fill its nodes.
    schedule
        The one that is searched; None: several are.
    spends
        Whether nodes are chosen by their prices.
    """
    field = "pipelines"
    ensure_races(name, field)
    if schedule is not None and rule_of(schedule).free:
        msg = f"is for schedules that prescribe warm-up counts, not {schedule}"
        raise InputError(f"{msg}: leave it out, or name another one", field=field)
    pin = pins_fault(problem.pins)
    if pin is not None:
        msg = f"applies to one pipeline only, but {field} asks for more: leave it out"
        raise InputError(msg, field=f"pin.{pin}")
    if principles.sharing != "one":
        _ensure_fill(problem, pipelines)
    elif pipelines > 1 and not spends:
        # Fewer nodes may be divided in fewer ways.
        divisions(problem, pipelines)


def _ensure_fill(problem: Problem, most: int) -> None:
    """Raise InputError as ``ensure_fills`` does, for any pipeline's nodes and batch."""
    clusters: dict[Cluster, None] = {}
    for way in divisions(problem, most, cuts=False):
        nodes = [dict(parts) for parts in way]
        for number in range(len(way)):
            clusters |= dict.fromkeys(part_of(problem, nodes, number, 1).clusters)
    for cluster in clusters:
        pins, seen = problem.pins.of(cluster.name), set()
        for batch in range(1, problem.training.global_batch):
            training = replace(problem.training, global_batch=batch)
            found = meshes(problem.model, cluster, training, pins, 1)
            stages = frozenset((each.devices, each.inside) for each in found)
            if stages not in seen:
                ensure_fills(cluster, stages)
            seen.add(stages)
