"""Files of the catalogue: one that lacks a fact or its source is refused in a line."""

from __future__ import annotations

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from hetopt.cli import main
from hetopt.errors import InputError
from hetopt.problem import catalogue
from hetopt.problem.accelerator_file import FACTS, read_accelerator

H100 = Path(__file__).parents[2] / "data" / "accelerators" / "h100.json"
DATA: dict[str, Any] = json.loads(H100.read_text("utf-8"))


def changed(key: str, value: Any) -> dict[str, Any]:
    """Return H100's facts with another value at a dotted key, or without it."""
    data = deepcopy(DATA)
    here, *rest = data, *key.split(".")[:-1]
    for step in rest:
        here = here[step]
    last = key.split(".")[-1]
    if value is None:
        del here[last]
    else:
        here[last] = value
    return data


@pytest.mark.parametrize("key", [*FACTS, "name", "peak_flops"])
def test_a_file_that_lacks_a_fact_is_refused(key: str) -> None:
    with pytest.raises(InputError) as raised:
        read_accelerator(changed(key, None), "mine.json")
    field = {"peak_flops": ""}.get(key, f"{key}: ")
    assert str(raised.value).startswith(f"mine.json: {field}")
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("memory.source", " ", "memory.source: is ' ', expected where the value com"),
        ("peak_flops.bf8", {}, "peak_flops.bf8: is not a fact of an accelerator (did"),
        ("speed", {}, "speed: is not a fact of an accelerator"),
        (
            "operators.accuracy.value",
            {"runs": 3, "median": 0.1},
            "operators.accuracy.worst: is missing, expected",
        ),
    ],
)
def test_a_wrong_fact_is_refused(key: str, value: Any, said: str) -> None:
    with pytest.raises(InputError) as raised:
        read_accelerator(changed(key, value), "mine.json")
    assert str(raised.value).startswith(f"mine.json: {said}")
    assert "\n" not in str(raised.value)


def test_no_published_iteration_is_a_fact_too() -> None:
    data = changed("operators.accuracy.value", "")
    data["operators"]["accuracy"]["value"] = None
    assert read_accelerator(data, "mine.json").accuracy is None


def test_commands_name_the_file_and_the_fact(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "mine.json"
    path.write_text(json.dumps(changed("intra_node_share", None)), "utf-8")
    catalogue.accelerators.cache_clear()
    monkeypatch.setattr(catalogue, "_json_files", lambda _: iter([path]))
    try:
        assert main(["catalog"]) == 2
    finally:
        catalogue.accelerators.cache_clear()
    err = capsys.readouterr().err
    assert f"{path}: intra_node_share: is missing, expected" in err
    assert err.count("\n") == 1
