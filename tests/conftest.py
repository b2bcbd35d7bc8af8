"""For all tests: which drawn instances a run tries, and that no process is left."""

from __future__ import annotations

import gc
import sys
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

import pytest

from tests import processes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

#: Seeds that each test is run with by default, and by ``make test-slow`` at most:
#: consecutive ones go through the schedules. ``make test-seeds`` runs the others.
QUICK_SEEDS, SLOW_SEEDS = 3, 10


def pytest_collection_modifyitems(items: Sequence[pytest.Item]) -> None:
    """Mark as slow or more what a test is asked for beyond its first few cases."""
    seeds: defaultdict[str, list[object]] = defaultdict(list)
    cases: Counter[str] = Counter()
    for item in items:
        name = item.nodeid.partition("[")[0]
        cases[name] += 1
        if cases[name] > _limit(item, "quick_cases", sys.maxsize):
            item.add_marker(pytest.mark.slow)
        if not isinstance(item, pytest.Function) or not hasattr(item, "callspec"):
            continue
        seed = item.callspec.params.get("seed")
        if seed is None:
            continue
        known = seeds[name]
        if seed not in known:
            known.append(seed)
        if known.index(seed) >= _limit(item, "slow_seeds", SLOW_SEEDS):
            item.add_marker(pytest.mark.seeds)
            # Not of both, however long it takes.
            item.own_markers[:] = [x for x in item.own_markers if x.name != "slow"]
        elif known.index(seed) >= _limit(item, "quick_seeds", QUICK_SEEDS):
            item.add_marker(pytest.mark.slow)


def _limit(item: pytest.Item, name: str, usual: int) -> int:
    """Return how many seeds a test is run with, which its own marker may say."""
    own = item.get_closest_marker(name)
    limit: int = usual if own is None else own.args[0]
    return limit


def pytest_configure() -> None:
    """See also processes whose parents have ended, and collect no garbage yet."""
    processes.adopt_orphans()
    gc.disable()


def pytest_collection_finish() -> None:
    """Collect garbage of tests alone: what was imported for them stays."""
    gc.freeze()
    gc.enable()


@pytest.fixture
def workers_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have searches with several jobs start workers however short they are."""
    from hetopt.solvers.pools import opening, process

    def start(size: int, make: Any, payload: Any, *, alone_s: float) -> Any:
        return process.Pool(size, make, payload)

    monkeypatch.setattr(opening, "GrowingPool", start)


@pytest.fixture(autouse=True)
def no_process_is_left(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail a test that leaves a process running, and end that, for the tests after.

    Ray's own processes, which end with its cluster, are not ours to judge.
    """
    if request.node.get_closest_marker("ray") is not None:
        yield
        return
    before = processes.children()
    yield
    left = processes.left(before)
    for pid in left:
        processes.end(pid)
    if left:
        pytest.fail(f"still running: {'; '.join(left.values())}", pytrace=False)
