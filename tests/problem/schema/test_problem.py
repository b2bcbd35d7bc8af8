"""The JSON Schema that editors complete problem files with."""

import json
from typing import Any

from hetopt.problem.catalogue import accelerators, model_presets
from hetopt.problem.problem import SECTIONS
from hetopt.problem.schema.json_schema import problem_json_schema


def text_of(part: Any) -> str:
    return json.dumps(part)


def test_it_names_every_section_and_lets_it_be_a_file() -> None:
    schema = problem_json_schema()
    assert set(SECTIONS) <= set(schema["properties"])
    assert schema["required"] == ["model", "clusters", "training"]
    assert schema["additionalProperties"] is False
    for section in SECTIONS:
        assert "#/$defs/FileReference" in text_of(schema["properties"][section])


def test_every_field_that_is_not_plain_is_described() -> None:
    plain = {"bandwidth", "latency", "precision", "optimizer", "schedule", "pairs"}
    plain |= {"group", "stages", "microbatches", "resharding", "forbid"}
    for name, part in problem_json_schema()["$defs"].items():
        if name == "FileReference":
            continue
        assert part["description"], name
        for field, item in part["properties"].items():
            assert field in plain or item.get("description"), (name, field)


def test_it_knows_the_catalogue() -> None:
    text = text_of(problem_json_schema())
    for name in (*accelerators(), *model_presets()):
        assert f'"{name}"' in text


def test_it_is_plain_json_and_the_same_every_time() -> None:
    assert problem_json_schema() == problem_json_schema()
    assert json.loads(text_of(problem_json_schema())) == problem_json_schema()
