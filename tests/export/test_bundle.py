"""What every bundle has, and when there is none."""

import errno
import os
from collections.abc import Callable
from dataclasses import replace
from math import lcm
from pathlib import Path
from typing import Any

import pytest

from hetopt.errors import CheckError, InputError
from hetopt.export.bundle import bundle, write_folder
from hetopt.export.job import Job
from hetopt.export.launcher import Launcher, Limits, Loss
from hetopt.export.registry import SHIPPED
from hetopt.export.registry import launcher as launcher_of
from tests.export.jobs import draw_job


def fake(*lost: Loss) -> Launcher:
    """Return a launcher that loses what it is told to."""
    return Launcher(
        name="fake",
        title="Fake",
        losses=lambda job: lost,
        files=lambda job: {"deep/run.sh": "#!/bin/sh\n", "plan.txt": "plan"},
        commands=lambda job: "run it",
    )


SMALL = Loss(what="cp 2 on stage 1", instead="cp 1")
FATAL = Loss(what="two pipelines", instead=None)


def test_exact_bundle_says_nothing_of_losses() -> None:
    files = bundle(draw_job(1), fake(), allow_lossy=True)
    assert "LOSSY.md" not in files
    assert "differ from the plan" not in files["README.md"]
    assert "run it" in files["README.md"]


def test_losses_are_refused_with_their_list() -> None:
    with pytest.raises(CheckError) as caught:
        bundle(draw_job(1), fake(SMALL, FATAL), allow_lossy=False)
    assert len(caught.value.findings) == 2
    assert "cp 2 on stage 1" in caught.value.findings[0]


def test_allowed_losses_are_written_down() -> None:
    files = bundle(draw_job(1), fake(SMALL), allow_lossy=True)
    assert "cp 2 on stage 1. Instead: cp 1." in files["LOSSY.md"]
    assert "differ from the plan" in files["README.md"]


def test_what_has_no_substitute_is_refused_even_so() -> None:
    with pytest.raises(CheckError) as caught:
        bundle(draw_job(1), fake(SMALL, FATAL), allow_lossy=True)
    assert [f for f in caught.value.findings if "two pipelines" in f]
    assert len(caught.value.findings) == 1


def test_copies_of_shards_are_a_loss_of_what_writes_shards() -> None:
    job = draw_job(4)
    ranks = lcm(*(stage.strategy.dp * stage.strategy.cp for stage in job.stages))
    assert ranks > 1
    limits = Limits(schedules=(job.plan.schedule,))
    writing = replace(fake(), limits=limits)

    def grouped(size: int) -> Job:
        training = replace(job.problem.training, zero=1, shard_group=size)
        return replace(job, problem=replace(job.problem, training=training))

    assert "LOSSY.md" not in bundle(grouped(ranks), writing, allow_lossy=False)
    assert "LOSSY.md" not in bundle(grouped(1), fake(), allow_lossy=False)
    with pytest.raises(CheckError) as caught:
        bundle(grouped(1), writing, allow_lossy=False)
    assert "training.shard_group 1" in caught.value.findings[0]
    files = bundle(grouped(1), writing, allow_lossy=True)
    assert "Instead: shards over all of them" in files["LOSSY.md"]


def test_gradients_of_weights_apart_are_refused_by_name() -> None:
    job = draw_job(1, alike=True, schedules=("zb-h1",))
    refused = []
    for launcher in map(launcher_of, SHIPPED):
        runs = "zb-h1" in getattr(launcher.limits, "schedules", ())
        if runs or launcher.limits is None:
            assert "LOSSY.md" not in bundle(job, launcher, allow_lossy=True)
            continue
        with pytest.raises(CheckError) as caught:
            bundle(job, launcher, allow_lossy=True)
        said = f"schedule zb-h1: {launcher.no_split}"
        assert any(said in found for found in caught.value.findings), launcher.name
        refused.append(launcher.name)
    # What starts the user's program takes any plan.
    assert {*SHIPPED} - {*refused} == {"torch", "slurm", "torchrun"}
    assert "FlexAttention" in launcher_of("torchtitan").no_split
    assert "with the rest" in launcher_of("megatron").no_split


def test_folder_is_whole_and_scripts_can_be_run(tmp_path: Path) -> None:
    write_folder(str(tmp_path / "out"), bundle(draw_job(1), fake(), allow_lossy=False))
    assert (tmp_path / "out/deep/run.sh").stat().st_mode & 0o111
    assert not (tmp_path / "out/plan.txt").stat().st_mode & 0o111
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_folder_with_something_in_it_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("precious")
    with pytest.raises(InputError, match="is not empty"):
        write_folder(str(tmp_path), {"a": "b"})
    with pytest.raises(InputError, match="is a file"):
        write_folder(str(tmp_path / "mine"), {"a": "b"})
    with pytest.raises(InputError, match="does not exist"):
        write_folder(str(tmp_path / "no" / "where"), {"a": "b"})
    assert (tmp_path / "mine").read_text() == "precious"


def test_a_file_takes_three_calls_and_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There may be a file for each of a million nodes."""
    calls: list[str] = []

    def counted(name: str) -> Callable[..., Any]:
        real = getattr(os, name)

        def call(*given: Any, **named: Any) -> Any:
            calls.append(name)
            return real(*given, **named)

        return call

    for name in ("open", "write", "close", "stat", "lstat", "chmod", "rename"):
        monkeypatch.setattr(os, name, counted(name))
    monkeypatch.setattr("builtins.open", lambda *_: pytest.fail("opened otherwise"))
    files = {f"nodes/{number}.sh": "echo\n" for number in range(50)}
    write_folder(str(tmp_path / "out"), files)
    monkeypatch.undo()
    per_file = {name: calls.count(name) // 50 for name in calls}
    assert {name: count for name, count in per_file.items() if count} == {
        "open": 1,
        "write": 1,
        "close": 1,
    }


def test_what_is_written_in_parts_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = os.write
    monkeypatch.setattr(os, "write", lambda handle, rest: write(handle, rest[:3]))
    write_folder(str(tmp_path / "out"), {"a": "zwölf Zeichen", "b": ""})
    assert (tmp_path / "out/a").read_text("utf-8") == "zwölf Zeichen"
    assert (tmp_path / "out/b").read_bytes() == b""


def test_a_full_disk_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(handle: int, rest: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "write", fail)
    with pytest.raises(InputError, match="cannot be written: No space left"):
        write_folder(str(tmp_path / "out"), {"deep/a": "b"})
    assert not list(tmp_path.iterdir())
