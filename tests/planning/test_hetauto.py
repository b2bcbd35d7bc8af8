"""HetAuto's experiments at 10 Gbps per node have the optima that were proven before."""

from __future__ import annotations

import pytest

import hetopt


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "closed_form_s", "simulated_s"),
    [
        (1, 10.016243, 9.894287),
        (2, 10.381453, 10.103599),
        (3, 8.532344, 8.253045),
    ],
)
def test_optima_at_10_gbps(
    number: int, closed_form_s: float, simulated_s: float
) -> None:
    name = f"hetauto-exp{number}-10gbps"
    least = hetopt.plan(name, objective="closed", jobs=1)
    quickest = hetopt.plan(name, objective="simulated", jobs=1)
    assert least.status == quickest.status == "optimal"
    assert least.best is not None
    assert quickest.best is not None
    assert least.best.closed_form_s == pytest.approx(closed_form_s, abs=1e-6)
    assert quickest.best.iteration_time_s == pytest.approx(simulated_s, abs=1e-6)
