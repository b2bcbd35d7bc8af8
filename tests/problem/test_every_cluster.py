"""Pins that give every cluster stages."""

from __future__ import annotations

from dataclasses import replace

from hetopt.problem.catalogue import problem_files
from hetopt.problem.reading import read_problem
from hetopt.problem.training.pins import ClusterPins, Domain, Pins

TP = Domain(allowed=frozenset({8}))
PROBLEM = read_problem(str(problem_files()["hetauto-exp2"]))


def _used(pins: Pins) -> dict[str, bool]:
    """Return whether each cluster has to be used."""
    problem = replace(PROBLEM, pins=pins).with_every_cluster()
    names = [cluster.name for cluster in problem.clusters]
    return {name: not problem.pins.of(name).stages.permits(0) for name in names}


def test_no_cluster_may_be_unused() -> None:
    first, *_ = (cluster.name for cluster in PROBLEM.clusters)
    assert all(_used(Pins()).values())
    made = replace(PROBLEM, pins=Pins(clusters={first: ClusterPins(tp=TP)}))
    assert made.with_every_cluster().pins.of(first).tp == TP
    assert made.with_every_cluster().with_every_cluster() == made.with_every_cluster()


def test_clusters_that_pins_leave_out_stay_unused() -> None:
    first, second, third = (cluster.name for cluster in PROBLEM.clusters)
    out = Pins(clusters={second: ClusterPins(stages=Domain(allowed=frozenset({0})))})
    assert _used(out) == {first: True, second: False, third: True}
    order = Pins(order=(third, first))
    assert _used(order) == {first: True, second: False, third: True}
