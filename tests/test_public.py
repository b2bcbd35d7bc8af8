"""hetopt for Python programs: what ``import hetopt`` alone offers."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

import hetopt
from hetopt.cli import main
from hetopt.solvers.registry import SOLVERS

SECTIONS: dict[str, Any] = {
    "model": {"layers": 4, "hidden": 512, "heads": 8},
    "clusters": [
        {
            "name": name,
            "accelerator": accelerator,
            "nodes": 1,
            "devices_per_node": devices,
            "inter_node": {"bandwidth": "100 Gbps"},
        }
        for name, accelerator, devices in (("fast", "A100-80GB", 2), ("slow", "A40", 1))
    ],
    "links": {"default": {"bandwidth": "10 Gbps", "latency": "1 ms"}},
    "training": {"global_batch": 4, "seq_len": 1024},
}


@pytest.fixture
def problem() -> hetopt.Problem:
    return hetopt.read_problem(SECTIONS)


def test_the_face_is_what_is_public() -> None:
    assert dir(hetopt) == sorted(hetopt.__all__)
    for name in hetopt.__all__:
        assert getattr(hetopt, name) is not None


def test_a_problem_is_a_name_a_path_or_plain_data(
    tmp_path: Path, problem: hetopt.Problem
) -> None:
    file = tmp_path / "problem.yaml"
    file.write_text(yaml.safe_dump(SECTIONS))
    assert hetopt.read_problem(file) == hetopt.read_problem(str(file)) == problem
    assert hetopt.read_problem("hetauto-exp1").name == "hetauto-exp1"
    assert hetopt.plan(SECTIONS).best == hetopt.plan(problem).best


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (3, "problem: is 3, expected a path, a name, or a mapping of plain data"),
        (None, "problem: is empty, expected a path, a name, or a mapping"),
        ({"model": {1j: 2}}, "problem: expected a path, a name, or a mapping"),
        ({**SECTIONS, "model": object()}, "problem: expected a path, a name, or a"),
        ({}, "model: is missing, expected"),
        ({**SECTIONS, "training": {"seq_len": 8}}, "training.global_batch: is missing"),
        ("hetauto-exp9", "hetauto-exp9: no such file, and no problem of this name"),
    ],
)
def test_what_is_no_problem_is_said(given: Any, said: str) -> None:
    for reads in (hetopt.read_problem, hetopt.plan):
        with pytest.raises(hetopt.InputError) as caught:
            reads(given)
        assert str(caught.value).startswith(said)


@pytest.mark.parametrize(
    ("part", "changes", "said"),
    [
        (
            "training",
            {"seq_len": "long"},
            "seq_len: is 'long', expected a whole number",
        ),
        ("training", {"seq_len": -1}, "seq_len: is -1, expected a whole number"),
        (
            "training",
            {"schedule": "bogus"},
            "schedule: is 'bogus', expected one of ",
        ),
        ("training", {"seqlen": 8}, "seqlen: is not a known field (did you mean 's"),
        ("model", {"hidden": 0}, "hidden: is 0, expected a whole number"),
        ("model", {"norm": "l2"}, "norm: is 'l2', expected one of rms, layer"),
        ("cluster", {"nodes": "3"}, "nodes: is '3', expected a whole"),
        ("cluster", {"nodes": 0}, "nodes: is 0, expected a whole"),
        ("cluster", {"accelerator": "H100"}, "accelerator: is 'H100', expected Accel"),
        ("problem", {"clusters": []}, "clusters: is an empty list, expected a list"),
        ("problem", {"clusters": ()}, "clusters: is an empty list, expected a list"),
        ("problem", {"clusters": (1,)}, "clusters.0: is 1, expected Cluster"),
        ("problem", {"training": 3}, "training: is 3, expected Training"),
        ("problem", {"links": None}, "links: is empty, expected ClusterLinks"),
    ],
)
def test_a_bad_replace_raises_input_error(
    problem: hetopt.Problem, part: str, changes: dict[str, Any], said: str
) -> None:
    parts: dict[str, Any] = {
        "problem": problem,
        "training": problem.training,
        "model": problem.model,
        "cluster": problem.clusters[0],
    }
    with pytest.raises(hetopt.InputError) as caught:
        replace(parts[part], **changes)
    assert str(caught.value).startswith(said)


def test_clusters_are_short_in_a_shell(problem: hetopt.Problem) -> None:
    fast, slow = problem.clusters
    assert repr(fast) == "<Cluster: fast, 1 x 2 A100-80GB>"
    assert repr([slow]) == "[<Cluster: slow, 1 x 1 A40>]"


def test_print_shows_what_the_command_shows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "problem.json"
    file.write_text(json.dumps(SECTIONS))
    assert main(["plan", str(file)]) == 0
    command = capsys.readouterr().out.splitlines()
    printed = str(hetopt.plan(file)).splitlines()
    assert len(printed) == len(command)
    differ = [
        (one, other)
        for one, other in zip(printed, command, strict=True)
        if one != other
    ]
    assert [one for one, _ in differ] == [
        'next: hetopt.export_plan(result, to="megatron", out="bundle")',
        "slow is not used.",
    ]
    assert [other.split(";")[0].split(":")[0] for _, other in differ] == [
        "next",
        "slow is not used",
    ]


@pytest.mark.quick_cases(6)
@pytest.mark.parametrize("solver", [name for name in SOLVERS if "gurobi" not in name])
def test_no_plan_has_a_reason(solver: str) -> None:
    huge = {**SECTIONS, "model": {"layers": 80, "hidden": 8192, "heads": 64}}
    if solver == "uniap":
        training = {**SECTIONS["training"], "schedule": "gpipe"}
        huge |= {"clusters": SECTIONS["clusters"][:1], "training": training}
    result = hetopt.plan(huge, solver=solver)
    assert result.best is None
    assert result.reason
    assert result.reason in str(result)
    assert replace(result, reason=None).reason
    with pytest.raises(hetopt.InfeasibleError):
        hetopt.export_plan(result, to="torchrun")


def test_a_plan_is_exported_without_further_imports(tmp_path: Path) -> None:
    result = hetopt.plan(SECTIONS, schedule="1f1b")
    folder = tmp_path / "bundle"
    files = hetopt.export_plan(result, to="megatron", out=str(folder))
    assert files == tuple(
        sorted(str(f.relative_to(folder)) for f in folder.rglob("*") if f.is_file())
    )
    with pytest.raises(hetopt.InputError, match="not empty"):
        hetopt.export_plan(result, to="megatron", out=str(folder))
    with pytest.raises(hetopt.InputError, match="there is no launcher 'megatrn'"):
        hetopt.export_plan(result, to="megatrn", out=str(tmp_path / "other"))
    with pytest.raises(hetopt.InputError, match="has no problem"):
        hetopt.export_plan(replace(result, problem=None), to="megatron")
