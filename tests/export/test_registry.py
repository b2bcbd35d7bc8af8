"""A bundle is recognised by the launcher that wrote it, and by no other."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from hetopt.errors import InputError
from hetopt.export import registry
from hetopt.export.bundle import bundle, write_folder
from hetopt.export.registry import SHIPPED, launcher, reader, readers
from tests.export.jobs import as_llama, draw_job


@pytest.mark.parametrize(
    "name", ["flagscale", "hetu", "megatron", "nemo", "torchtitan"]
)
def test_ranks_without_heads_of_their_own_are_refused(name: str) -> None:
    """As Megatron-LM checks it: groups of queries are a multiple of tp."""
    refused = 0
    for seed in range(20):
        job = draw_job(seed, alike=True, cp=False, schedules=("1f1b",))
        tp = job.stages[0].strategy.tp
        for kv_heads in (1, 2, 4, 8):
            model = replace(job.problem.model, kv_heads=kv_heads)
            other = replace(job, problem=replace(job.problem, model=model))
            lost = [loss for loss in launcher(name).losses(other)]
            found = [loss for loss in lost if "key and value heads" in loss.what]
            assert bool(found) == (kv_heads % tp != 0)
            assert all(loss.instead is None for loss in found)
            refused += bool(found)
    assert refused > 3


@pytest.mark.parametrize("name", SHIPPED)
def test_whose_a_bundle_is_can_be_told(name: str, tmp_path: Path) -> None:
    one = launcher(name)
    job = next(
        job
        for job in (
            as_llama(draw_job(seed, alike=True, cp=False)) for seed in range(200)
        )
        if all(loss.instead is not None for loss in one.losses(job))
    )
    folder = tmp_path / "out"
    write_folder(str(folder), bundle(job, one, allow_lossy=True))
    if name in readers():
        assert reader(folder, None) is readers()[name]
        return
    with pytest.raises(InputError, match="is of no known launcher"):
        reader(folder, None)


def test_every_launcher_has_a_folder_and_a_line() -> None:
    home = Path(registry.__file__).parent
    assert sorted(SHIPPED) == sorted(
        path.parent.name for path in home.glob("*/launcher.py")
    )
    for name in SHIPPED:
        assert launcher(name).name == name


@pytest.mark.parametrize("name", SHIPPED)
def test_a_launcher_needs_none_of_the_others(name: str) -> None:
    home = Path(registry.__file__).parent
    found = {
        part
        for path in (home / name).rglob("*.py")
        for part in re.findall(r"^ *from hetopt\.export\.(\w+)", path.read_text(), re.M)
    }
    assert not found & (set(SHIPPED) - {name})
    assert "registry" not in found
