"""What ``hetopt run`` tells."""

from __future__ import annotations

import io
from dataclasses import replace

from hetopt.report.drawing.console import draw
from hetopt.report.running import measured_report, run_report
from hetopt.running.conditions import Conditions
from hetopt.running.explaining import explain_run
from tests.report.timeline.making import balanced, plan_of, price_of
from tests.running.making import measured_as


def test_measured_stands_beside_predicted() -> None:
    planned = balanced(2, 3)
    price = price_of(planned)
    really = replace(
        planned,
        forward_ns=(10_000_000, 12_500_000),
        transfer_ns=(4_000_000,),
        occupancy_ns=(4_000_000,),
    )
    measured = measured_as(really)
    explained = explain_run(planned, measured)
    report = run_report(plan_of(planned, "hall"), price, measured, explained)
    text = draw(report, io.StringIO())
    for each in ("0.0125", "0.0030", "0.0040", "0 to 1", "median of 3 iterations"):
        assert each in text
    assert f"{explained.predicted_s:.6f} s, from which measured differs by +" in text
    assert f"{explained.replayed_s:.6f} s" in text
    for name, part_s in explained.parts_s:
        assert f"difference by {name}" in text
        assert f"{part_s:+.6f} s" in text
    # Two of half a GB are in flight on the first stage.
    assert "what autograd kept" in text
    row = next(line for line in text.splitlines() if "hall0" in line)
    assert row.split()[-2:] == ["1", "0"]
    # All that was allocated is held against all that was planned.
    allocated = replace(measured, memory="allocated")
    row = next(
        line
        for line in draw(
            run_report(plan_of(planned, "hall"), price, allocated, explained),
            io.StringIO(),
        ).splitlines()
        if "hall0" in line
    )
    assert row.split()[-2:] == ["21", "0"]


def test_a_bundle_alone_has_no_prediction() -> None:
    measured = replace(measured_as(balanced(1, 3)), iteration_s=(0.25,), units="a.py:b")
    text = draw(measured_report(measured, 0.2), io.StringIO())
    assert "0.250000 s, one iteration" in text
    assert "0.200000 s" in text
    assert "units of a.py:b, not the plan's own" in text
    assert "planned" not in text
    assert "boundary" not in text
    # Of a program that does not say them.
    assert "threads" not in text


def test_threads_load_and_cpu_time_are_said() -> None:
    conditions = Conditions(threads=1, cores=2, load=1.6, cpu_shares=(0.97, 0.41, 0.6))
    measured = measured_as(balanced(2, 3)).under(conditions)
    lines = draw(measured_report(measured, 0.2), io.StringIO()).splitlines()
    said = {line[:33].strip(): line[33:].strip() for line in lines}
    assert said["threads per rank"] == "1"
    assert said["load"] == "1.6 on 2 cores, mean of the iterations"
    assert said["CPU time over wall time"] == "41% to 97%, median 60% of 3 ranks"
    assert "unreliable" not in said
    busy = measured.under(replace(conditions, load=4.0))
    text = draw(measured_report(busy, 0.2), io.StringIO())
    assert "the run has a load of 4.0 on 2 cores: run again on a quiet machine" in text
