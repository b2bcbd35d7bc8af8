"""Sizes of stages that programs cannot pack into odd nodes."""

from __future__ import annotations

import pytest

from hetopt.errors import InputError
from hetopt.problem.training.principles import Principles
from hetopt.solvers.loading import load
from hetopt.solvers.params import RaceParams
from hetopt.solvers.request import Request
from tests.oracle.odd import make_odd

#: One with stages of sizes that do not divide each other.
UNLIKE = 4


def test_sizes_that_do_not_divide_each_other_are_refused_without_p4() -> None:
    instance = make_odd(UNLIKE)
    request = Request(
        problem=instance.problem,
        table=instance.table,
        params=RaceParams(jobs=0, principles=Principles.relaxing(["p4"])),
    )
    with pytest.raises(InputError, match="each size has to divide the next") as caught:
        load("dp")(request)
    assert caught.value.field == "relax"
