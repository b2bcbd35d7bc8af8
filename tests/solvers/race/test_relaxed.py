"""Searches that relax P3 or P4 begin with the pruned space; others are refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hetopt.base.deadline import Deadline, Stopped
from hetopt.errors import InputError
from hetopt.problem.training.principles import Principles
from hetopt.solvers.loading import load
from hetopt.solvers.params import RaceParams
from hetopt.solvers.race import race as race_module
from hetopt.solvers.registry import SOLVERS
from hetopt.solvers.request import Request
from tests.oracle.instances import make_instance

#: An instance in which relaxing p4 pays.
PAYING = 6
SPACES = tuple(
    Principles.relaxing(names)
    for names in (["p4"], ["p4-falling-tp"], ["p3"], ["p3", "p4"])
)


@pytest.mark.parametrize(
    "name", [name for name, own in SOLVERS.items() if not own.relaxes]
)
def test_what_knows_only_the_pruned_space_says_so(name: str) -> None:
    instance = make_instance(0)
    with pytest.raises(InputError, match=f"{name} cannot relax p3, p4: use auto, dp"):
        load(name)(
            Request(
                problem=instance.problem,
                table=instance.table,
                params=RaceParams(principles=SPACES[-1]),
                deadline=Deadline.after(1),
            )
        )


@pytest.mark.parametrize("space", SPACES)
def test_a_wider_space_begins_with_the_best_plan_of_the_pruned_one(
    space: Principles, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So plans are never worse than without, however short the time."""
    instance = make_instance(PAYING)
    request = Request(
        problem=instance.problem, table=instance.table, params=RaceParams(jobs=0)
    )
    pruned = load("dp")(request).best
    assert pruned is not None
    settle = race_module._Race._settle
    reached = []

    def stop_if_relaxed(loop: race_module._Race) -> None:
        reached.append(loop)
        if len(reached) == 2:
            raise Stopped
        settle(loop)

    monkeypatch.setattr(race_module._Race, "_settle", stop_if_relaxed)
    monkeypatch.setattr(race_module._Race, "_plan_relaxed", lambda loop: None)
    params = RaceParams(jobs=0, principles=space)
    found = load("dp")(replace(request, params=params)).best
    assert len(reached) == 2
    assert found is not None
    assert found.closed_form_s <= pruned.closed_form_s
