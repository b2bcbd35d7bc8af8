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
from hetopt.export.registry import reader

CORPUS = Path(__file__).parent / "corpus"
#: Fewer would not be what acceptance asks for.
LEAST = 60


def _cases() -> list[Any]:
    found = []
    for path in sorted(CORPUS.glob("*.yaml")):
        content = yaml.safe_load(path.read_text("utf-8"))
        for case in content["cases"]:
            case["from"] = case.get("from", path.stem)
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
    return {name: value for name, value in says.items() if value != "absent"}


def test_there_are_enough() -> None:
    assert len(CASES) >= LEAST


@pytest.mark.parametrize("case", CASES)
def test_what_is_read_and_what_is_said(case: dict[str, Any], tmp_path: Path) -> None:
    folder = written(case, tmp_path)
    reads = reader(folder, case.get("named", None) or None)
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
    degrees = [[s.strategy.dp, s.strategy.cp, s.strategy.tp] for s in found.stages]
    wanted = read["degrees"]
    whole = wanted if isinstance(wanted[0], list) else [wanted] * len(degrees)
    assert degrees == whole
    recompute = {stage.strategy.recompute for stage in found.stages}
    assert recompute == {read.get("recompute", "none")}
    assert dict(found.says) == expected_says(case)
    kinds: dict[str, Counter[str]] = {"unknown": Counter(), "not priced": Counter()}
    for each in found.reported:
        kinds[each.kind][each.argument] += 1
    assert kinds["unknown"] == Counter(case.get("unknown", ()))
    assert kinds["not priced"] == Counter(case.get("reported", ()))
