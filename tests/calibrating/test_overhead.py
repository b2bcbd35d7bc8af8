from __future__ import annotations

import pytest

from hetopt.calibrating.overhead import fit_overhead
from hetopt.cost.build import build_table
from hetopt.errors import InputError
from hetopt.pricing.price import price
from tests.calibrating.making import plan_of, problem_of, run_of


def test_memory_corrects_the_overhead_of_the_fullest_device() -> None:
    problem = problem_of()
    run = run_of(problem, 1.0)
    memory = price(plan_of(), build_table(problem)).memory_bytes
    more = fit_overhead(run, max(memory) + 3 * 10**9)
    assert more.planned_bytes == max(memory)
    assert more.cluster == "ab"[memory.index(max(memory))]
    assert more.overhead_bytes == 3 * 10**9
    assert more.bounded is None
    less = fit_overhead(run, max(memory) // 2)
    assert less.overhead_bytes == 0
    assert (less.bounded or "").startswith("overhead (0 to ")


def test_more_memory_than_a_device_has_is_refused() -> None:
    problem = problem_of()
    run = run_of(problem, 1.0)
    sizes = {each.name: each.memory_bytes for each in problem.clusters}
    size = sizes[fit_overhead(run, 1).cluster]
    assert fit_overhead(run, size).planned_bytes
    with pytest.raises(InputError, match="give what one device held") as caught:
        fit_overhead(run, size + 1)
    assert caught.value.field == "--memory"
