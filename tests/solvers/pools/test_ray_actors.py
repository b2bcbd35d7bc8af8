"""The pool on a real Ray cluster of several nodes, one of which is lost."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from hetopt.errors import InputError
from hetopt.solvers.cp_sat import solve
from hetopt.solvers.params import RaceParams
from hetopt.solvers.pools.process import Died, Done, Event, Failed, Note
from hetopt.solvers.request import Request
from tests.oracle.instances import make_instance
from tests.solvers import serving

ray = pytest.importorskip("ray")

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hetopt.solvers.pools.ray_actors import RayPool

# Ray's own threads, files and settings are not ours to judge.
pytestmark = [
    pytest.mark.ray,
    pytest.mark.filterwarnings("ignore"),
]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Three nodes of one core each, in processes of their own."""
    from ray.cluster_utils import Cluster

    root = str(Path(__file__).parents[3])
    before = dict(os.environ)
    os.environ["PYTHONPATH"] = os.pathsep.join([root, *filter(None, sys.path)])
    os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"
    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    for _ in range(2):
        made.add_node(num_cpus=1)
    os.environ["RAY_ADDRESS"] = made.address
    yield made
    ray.shutdown()
    made.shutdown()  # type: ignore[no-untyped-call]
    os.environ.clear()
    os.environ.update(before)


@pytest.fixture
def pool(cluster: Any) -> Iterator[RayPool]:
    from hetopt.solvers.pools.ray_actors import RayPool

    made = RayPool(None, serving.make, "payload")
    yield made
    made.close()


def gather(pool: RayPool, answers: int) -> list[Event]:
    events: list[Event] = []
    while sum(not isinstance(event, Note) for event in events) < answers:
        events += pool.collect(30.0)
    return events


@pytest.mark.slow
def test_answers_notes_and_failures_carry_their_task(pool: RayPool) -> None:
    assert pool.idle == 3
    pool.submit(1, ("double", 21))
    pool.submit(2, ("payload", None))
    pool.submit(3, ("nonsense", None))
    with pytest.raises(RuntimeError, match="no worker is idle"):
        pool.submit(4, ("double", 1))
    events = gather(pool, 3)
    failed = next(event for event in events if isinstance(event, Failed))
    assert (failed.task, "ValueError: nonsense" in failed.trace) == (3, True)
    events.remove(failed)
    assert {Note(1, "working"), Done(1, 42), Done(2, "payload")} == set(events)
    assert pool.idle == 3


@pytest.mark.slow
def test_a_running_task_sees_the_shared_number(pool: RayPool) -> None:
    pool.submit(1, ("wait for shared", 7))
    assert pool.collect(0.5) == []
    pool.shared.value = 7
    assert gather(pool, 1) == [Done(1, 7)]


@pytest.mark.slow
def test_a_death_is_charged_to_its_task_and_the_actor_replaced(pool: RayPool) -> None:
    pool.submit(1, ("speak and die", None))
    events = gather(pool, 1)
    assert events[-1] == Died(1)
    assert pool.idle == 3
    pool.submit(2, ("double", 4))
    assert gather(pool, 1)[-1] == Done(2, 8)


@pytest.mark.slow
def test_the_connection_of_others_outlives_the_pool(cluster: Any) -> None:
    from hetopt.solvers.pools.ray_actors import RayPool

    ray.init(log_to_driver=False)
    try:
        RayPool(1, serving.make, "payload").close()
        assert ray.is_initialized()
        assert ray.get(ray.put(3)) == 3
    finally:
        ray.shutdown()
    RayPool(1, serving.make, "payload").close()
    assert not ray.is_initialized()


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ("", "Ray cannot reach a cluster: ConnectionError"),
        ("\nno head node\nTraceback", "Ray cannot reach a cluster: no head node"),
    ],
)
def test_a_cluster_out_of_reach(
    said: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from hetopt.solvers.pools.ray_actors import RayPool

    def fail(**_: Any) -> None:
        raise ConnectionError(said)

    monkeypatch.setattr(ray, "init", fail)
    with pytest.raises(InputError, match=f"{message}$"):
        RayPool(1, serving.make, "payload")


@pytest.mark.slow
def test_a_race_on_the_cluster_gives_the_same_plan(cluster: Any) -> None:
    instance = make_instance(12)
    answers = [
        solve(Request(problem=instance.problem, table=instance.table, params=params))
        for params in (RaceParams(jobs=0), RaceParams(executor="ray"))
    ]
    assert answers[0].best == answers[1].best
    assert answers[0].status == answers[1].status == "optimal"


@pytest.mark.slow
def test_a_node_may_be_lost_while_it_works(cluster: Any) -> None:
    from hetopt.solvers.pools.ray_actors import RayPool

    extra = cluster.add_node(num_cpus=1)
    made = RayPool(None, serving.make, "payload")
    try:
        assert made.idle == 4
        for task in range(4):
            made.submit(task, ("wait for shared", 5))
        assert made.collect(1.0) == []
        cluster.remove_node(extra, allow_graceful=False)
        (event,) = gather(made, 1)
        assert isinstance(event, Died)
        made.shared.value = 5
        others = gather(made, 3)
        assert {event.task, *(other.task for other in others)} == {0, 1, 2, 3}
        assert all(isinstance(other, Done) for other in others)
        assert made.idle >= 3
        made.submit(9, ("double", 4))
        assert gather(made, 1)[-1] == Done(9, 8)
    finally:
        made.close()
