"""The content of ``measured.json``."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import jsonschema
import pytest

from hetopt.errors import InputError
from hetopt.report.schemas import SCHEMAS
from hetopt.running.conditions import Conditions
from hetopt.running.measured import measured_of, read_measured
from hetopt.running.records import iterations_of
from tests.running.making import measured_as, ranks_of
from tests.schedule.pipelines import pipeline, random_pipeline
from tests.schemas import ensure_fits


@pytest.mark.parametrize("units", [None, "mine.py:build_unit"])
def test_it_is_as_its_schema_says(units: str | None) -> None:
    times = random_pipeline(Random(1), max_stages=4, microbatches=3)
    measured = measured_as(times, units)
    data = json.loads(json.dumps(measured.to_json()))
    jsonschema.Draft202012Validator.check_schema(SCHEMAS["measured"])
    ensure_fits(data, "measured")
    assert data["units"] == units
    assert len(data["stages"]) == times.stages == len(data["boundaries_s"]) + 1
    for number, stage in enumerate(data["stages"]):
        assert stage["forward_s"] == pytest.approx(times.forward_ns[number] * 1e-9)
        assert stage["backward_s"] == pytest.approx(times.backward_ns[number] * 1e-9)


def test_stages_have_their_fullest_rank_and_middle_iteration() -> None:
    slow, quick = (
        ranks_of(pipeline([n], [20], [], microbatches=2, warmups=[1]), ranks=3)
        for n in (90, 10)
    )
    for one, other in zip(slow, quick, strict=True):
        one["iterations"] += other["iterations"] * 2
    measured = measured_of("0" * 64, slow, iterations_of(slow), None)
    assert measured.stages[0].peak_bytes == 2
    assert measured.stages[0].forward_s == pytest.approx(10e-9, rel=1e-3)
    assert measured.time_s == sorted(measured.iteration_s)[1]


def test_the_update_begins_with_the_end_of_the_last_pass_of_any_kind() -> None:
    ranks = ranks_of(pipeline([10], [20], [], microbatches=1, warmups=[1]))
    one = ranks[0]["iterations"][0]
    passes = [["F", 0, 1.0, 2.0], ["B", 0, 2.0, 4.0], ["W", 0, 4.0, 7.0]]
    ranks[0]["iterations"] = [{**one, "start_s": 1.0, "passes": passes, "end_s": 8.0}]
    (stage,) = measured_of("0" * 64, ranks, iterations_of(ranks), None).stages
    assert stage.sync_s == 1.0
    said = SCHEMAS["measured"]["properties"]["stages"]["items"]["properties"]["sync_s"]
    assert said["description"].startswith("From the end of the stage's last pass to ")


#: As an older hetopt wrote it, which does not say whether it was noisy.
GOOD = {
    "schema": "hetopt-measured/1",
    "plan_digest": "a" * 64,
    "iteration_s": [2, 1.5],
    "loss": [9.0, 8.5],
    "stages": [
        {"forward_s": 0.5, "backward_s": 1.0, "sync_s": 0.0, "peak_bytes": 1},
    ],
    "boundaries_s": [],
    "memory": "allocated",
    "devices": ["H100"],
    "versions": {"hetopt": "0.1", "torch": "2.9", "python": "3.11"},
    "units": None,
}


def written(folder: Path, data: Any) -> str:
    path = folder / "measured.json"
    path.write_text(data if isinstance(data, str) else json.dumps(data))
    return str(path)


def test_iterations_are_read(tmp_path: Path) -> None:
    found = read_measured(written(tmp_path, GOOD), "a" * 64)
    assert (found.time_s, found.on_cpu) == (1.75, False)
    found = read_measured(written(tmp_path, {**GOOD, "noise": []}), "a" * 64)
    assert found.conditions is None


def test_a_busy_machine_is_read_again(tmp_path: Path) -> None:
    times = random_pipeline(Random(1), max_stages=4, microbatches=3)
    busy = Conditions(threads=4, cores=2, load=8.0, cpu_shares=(0.5, 1.5))
    measured = measured_as(times).under(busy)
    data = json.loads(json.dumps(measured.to_json()))
    ensure_fits(data, "measured")
    assert data["conditions"]["threads"] == 4
    assert data["noise"] == ["a load of 8.0 on 2 cores"]
    assert read_measured(written(tmp_path, data), "0" * 64).noise == measured.noise
    unknown = measured.under(replace(busy, load=None))
    data = json.loads(json.dumps(unknown.to_json()))
    ensure_fits(data, "measured")
    assert not read_measured(written(tmp_path, data), "0" * 64).noise


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("{", "is not JSON"),
        ({**GOOD, "plan_digest": "b" * 64}, "plan_digest: is of another plan"),
    ],
)
def test_what_is_no_run(tmp_path: Path, data: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_measured(written(tmp_path, data), "a" * 64)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        read_measured(str(tmp_path / "none.json"), "a" * 64)
