"""Argument lists after public scripts' conventions: what is read, and what is said.

Every case says the whole of what a reader makes of it: degrees, layers, what the files
say of model and training, and which arguments are reported. So an argument that is
passed over in silence, or one that is read as another, fails.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml

from hetopt.errors import InputError
from hetopt.export.back.importing import import_plan
from hetopt.export.bundle import bundle, write_folder
from hetopt.export.registry import launcher, reader
from hetopt.problem.model.architecture import RotaryScaling
from hetopt.problem.model.experts import Experts
from hetopt.problem.training.choices import ScheduleName
from tests.export.jobs import as_llama, draw_job

CORPUS = Path(__file__).parent / "corpus"
#: Fewer would not be what acceptance asks for.
LEAST = 60


def _cases() -> list[Any]:
    found = []
    for path in sorted(CORPUS.glob("*.yaml")):
        content = yaml.safe_load(path.read_text("utf-8"))
        for case in content["cases"]:
            case["from"] = {"deepspeed": "megatron"}.get(path.stem, path.stem)
            case["base"] = content["says"]
            case["shared"] = content["shared"]
            found.append(pytest.param(case, id=f"{path.stem}: {case['name']}"))
    return found


CASES = _cases()


def written(case: dict[str, Any], folder: Path) -> Path:
    for name, text in case.items():
        if "." in name:
            file = folder / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(
                re.sub(r"@(\w+)", lambda m: case["shared"].get(m[1], m[0]), text)
            )
    return folder


def expected_says(case: dict[str, Any]) -> dict[str, Any]:
    if "only" in case:
        only: dict[str, Any] = case["only"]
        return only
    says = case["base"] | case.get("says", {})
    found = {name: value for name, value in says.items() if value != "absent"}
    of_megatron = case["from"] in ("megatron", "nemo", "flagscale")
    if of_megatron and "sequence_parallel" in found:
        found.setdefault("overlap_tensor", False)
    for name, value in found.items():
        if isinstance(value, set):
            found[name] = frozenset(value)
        elif isinstance(value, dict):
            found[name] = (Experts if name == "experts" else RotaryScaling)(**value)
    return found


@pytest.mark.parametrize("name", ["megatron", "flagscale", "hetu", "hexiscale", "nemo"])
@pytest.mark.parametrize("seed", range(4))
def test_bundles_say_nothing_that_is_not_read(
    name: str, seed: int, tmp_path: Path
) -> None:
    schedule: ScheduleName = "gpipe" if name == "hexiscale" else "1f1b"
    job = draw_job(
        seed, alike=True, cp=False, schedules=(schedule,), recompute=("full",)
    )
    if name in ("hetu", "hexiscale"):
        job = as_llama(job, zero=int(name == "hetu"))
    chosen = launcher(name)
    assert list(chosen.losses(job)) == []
    write_folder(str(tmp_path / "out"), bundle(job, chosen, allow_lossy=False))
    found = reader(tmp_path / "out", name).read(tmp_path / "out")
    told = {each.argument for each in found.reported}
    # The problem's links say whether they go through the hosts' memory.
    assert told <= {"hetero_use_cpu_communication", "model.should_pad_vocab"}
    import_plan(found, job.problem)


def test_there_are_enough() -> None:
    assert len(CASES) >= LEAST


@pytest.mark.parametrize("case", CASES)
def test_what_is_read_and_what_is_said(case: dict[str, Any], tmp_path: Path) -> None:
    folder = written(case, tmp_path)
    reads = reader(folder, case.get("named") or None)
    assert reads is reader(
        folder, {"deepspeed": "megatron"}.get(case["from"], case["from"])
    )
    if "refused" in case:
        with pytest.raises(InputError) as caught:
            reads.read(folder)
        said = str(caught.value)
        assert case["refused"] in said
        assert "\n" not in said
        return
    found = reads.read(folder)
    read = case["read"]
    assert found.microbatches == read["microbatches"]
    assert [stage.layers for stage in found.stages] == read["layers"]
    assert found.chunks == read.get("chunks", 1)
    assert found.layout == read.get("layout")
    degrees = [[s.strategy.dp, s.strategy.cp, s.strategy.tp] for s in found.stages]
    wanted = read["degrees"]
    whole = wanted if isinstance(wanted[0], list) else [wanted] * len(degrees)
    assert degrees == whole
    recompute = {stage.strategy.recompute for stage in found.stages}
    assert recompute == {read.get("recompute", "none")}
    assert dict(found.says) == expected_says(case)
    assert found.offload == case.get("offload")
    if "warmups" in read:
        assert [stage.warmup for stage in found.stages] == read["warmups"]
    kinds: dict[str, Counter[str]] = {"unknown": Counter(), "not priced": Counter()}
    for each in found.reported:
        kinds[each.kind][each.argument] += 1
    assert kinds["unknown"] == Counter(case.get("unknown", ()))
    assert kinds["not priced"] == Counter(case.get("reported", ()))
