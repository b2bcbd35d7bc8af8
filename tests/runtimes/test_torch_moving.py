"""A toy model's states move from plan to plan on gloo, and training goes on."""

from __future__ import annotations

import csv
import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

torch = pytest.importorskip("torch")

from hetopt.check.plan.moves import check_moves
from hetopt.cli import main
from hetopt.cost.communication.migration import Network
from hetopt.replanning.holdings import States
from hetopt.replanning.layouts import device_names, layout_of
from hetopt.replanning.moves import moves_between
from hetopt.replanning.nodes import nodes_of, without
from tests.runtimes.test_torch_execution import written
from tests.runtimes.torch_plans import (
    MIXTRAL,
    ONE,
    PAIR,
    Case,
    fork,
    job_of,
    launch,
    side_by_side,
    start,
)

if TYPE_CHECKING:
    from hetopt.export.job import Job

pytestmark = pytest.mark.torch

WHOLE = {"zero": 0, "seq_len": 32}
RATE = ("--lr", "0.01", "--every", "1")


@dataclass(frozen=True)
class Move:
    """Two plans of one batch, and the devices of the first one that are lost."""

    old: tuple[Case, ...]
    new: tuple[Case, ...]
    lost: list[str] = field(default_factory=list)


def case(*degrees: tuple[int, int, int], **fields: Any) -> Case:
    training = {**WHOLE, **fields.pop("training", {})}
    return Case(schedule="1f1b", degrees=degrees, training=training, **fields)


TIED: dict[str, Any] = {"model": {"tied": True}, "training": {"precision": "bf16"}}
MIXED: dict[str, Any] = {
    "model": {"experts": MIXTRAL},
    "training": {"optimizer": "sgd"},
}
#: Two and three ranks share heads, widths, the vocabulary and a sequence evenly.
SIXTHS: dict[str, Any] = {
    "model": {"heads": 6, "kv_heads": 6, "hidden": 96, "ffn": 192, "vocab": 510},
    "training": {"seq_len": 36},
}

CASES = {
    "a lost rank, another cut": Move(
        old=(case(PAIR, layers=(3,), q=4), case(ONE, ONE, layers=(2, 1), q=3)),
        new=(case(ONE, PAIR, layers=(1, 2), q=7),),
        lost=["hall0/0:1"],
    ),
    "thirds and halves": Move(
        old=(
            case((1, 1, 3), layers=(2,), q=3, **SIXTHS),
            case(PAIR, layers=(2,), q=2, **SIXTHS),
        ),
        new=(
            case(PAIR, layers=(2,), q=4, **SIXTHS),
            case(ONE, layers=(2,), q=1, **SIXTHS),
        ),
        lost=["hall0/0:5"],
    ),
    "tied, 16 bits, replicas, through hosts": Move(
        old=(case((2, 1, 1), PAIR, layers=(1, 2), halls=(0, 1), q=3, **TIED),),
        new=(case(ONE, PAIR, layers=(2, 1), halls=(0, 1), q=6, **TIED),),
        lost=["hall0/0:0"],
    ),
    "layers cut elsewhere": Move(
        old=(case(PAIR, ONE, blocks=(2, 4), q=2),),
        new=(case(ONE, PAIR, blocks=(4, 2), q=1, each=2),),
    ),
    "experts, sgd": Move(
        old=(case(PAIR, ONE, layers=(2, 1), q=2, experts=((1, 2), (1, 1)), **MIXED),),
        new=(case((2, 1, 1), layers=(3,), q=1, experts=((2, 1),), **MIXED),),
    ),
}


def job(cases: tuple[Case, ...]) -> Job:
    """Return the job of one pipeline, or of two that have half a node each."""
    if len(cases) == 1:
        return job_of(cases[0])
    return side_by_side(cases, [{"hall0": (4,)}] * 2)


def write_moves(move: Move, jobs: tuple[Job, Job], folder: Path) -> int:
    """Write what `hetopt replan` would write; return the bytes that move."""
    old, new = jobs
    before = nodes_of(old.problem)
    after = without(before, move.lost)
    states = States.of(old.problem, (old.plan, new.plan))
    layouts = (
        layout_of(old.problem, old.plan, before),
        layout_of(new.problem, new.plan, after),
    )
    names = device_names(layouts[0]), device_names(layouts[1])
    left = {node.device(k) for node in after for k in range(len(node.devices))}
    held = states.held(old.plan, layouts[0])
    held = {device: own for device, own in held.items() if device in left}
    needed = states.held(new.plan, layouts[1])
    moves = moves_between(held, needed, states, Network(new.problem, after, None))
    text = moves.to_csv()
    plans = old.plan, new.plan
    assert check_moves(new.problem, text, plans, names, {d.name for d in left}) == []
    (folder / "moves.csv").write_text(text)
    answer = {"ranks_before": names[0], "ranks": names[1]}
    (folder / "answer.json").write_text(json.dumps(answer))
    return moves.bytes


def told(printed: list[str]) -> tuple[dict[int, float], int | None]:
    """Return losses by step, and the bytes that a run says it has moved."""
    text = "".join(printed)
    losses = {
        int(step): float(loss)
        for step, loss in re.findall(r"step (\d+): loss ([\d.]+)", text)
    }
    moved = re.search(r"step \d+: (\d+) bytes have moved", text)
    return losses, None if moved is None else int(moved[1])


def given(folder: Path) -> tuple[str, ...]:
    files = ("old", "answer.json", "moves.csv")
    return ("--moved", *(str(folder / name) for name in files))


@pytest.mark.parametrize("name", CASES)
def test_the_loss_goes_on_as_without_a_change(name: str, tmp_path: Path) -> None:
    move = CASES[name]
    jobs = job(move.old), job(move.new)
    for own, folder in zip(jobs, ("first", "second"), strict=True):
        written(own, tmp_path / folder)
    asked = ("--cpu", "--steps", "5", *RATE)
    kept = ("--checkpoints", str(tmp_path / "old"))
    first, second = (
        (tmp_path / name, own.world_size)
        for name, own in zip(("first", "second"), jobs, strict=True)
    )
    whole, _ = told(fork(*first, *asked, *kept))
    assert len(set(whole.values())) == 5
    for path in (tmp_path / "old").glob("step-[45]"):
        path.rename(tmp_path / path.name)
    for rank in jobs[0].placement.ranks:
        if f"{rank.cluster}/0:{rank.local_device}" in move.lost:
            (tmp_path / f"old/step-3/rank-{rank.rank}.pt").unlink()
    expected = write_moves(move, jobs, tmp_path)
    assert expected > 0
    losses, moved = told(fork(*second, *asked, *given(tmp_path)))
    assert moved == expected
    assert sorted(losses) == [3, 4]
    off = 2e-3 if jobs[0].problem.training.precision == "bf16" else 1e-5
    assert losses == pytest.approx({n: whole[n] for n in losses}, rel=off)


PROBLEM = """\
model: {layers: 4, hidden: 64, heads: 4, ffn: 128, vocab: 128}
clusters:
  - {name: a, accelerator: A100-40GB, nodes: [2, 2], inter_node: {bandwidth: 1 GB/s}}
training: {global_batch: 12, seq_len: 64, precision: fp32, zero: 0, schedule: 1f1b}
pin: {forbid: {clusters: {a: {dp: [2, 4]}}}}
"""


def test_the_commands_fit_each_other(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    jobs = ("--jobs", "1", "--pipelines", "2")
    Path("problem.yaml").write_text(PROBLEM)
    assert main(["plan", "problem.yaml", *jobs, "--out", "plan.json"]) == 0
    bundle = ("--to", "torch", "--out")
    assert main(["export", "problem.yaml", "plan.json", *bundle, "first"]) == 0
    capsys.readouterr()
    files = ("--out", "next.json", "--problem-out", "left.yaml", "--moves", "moves.csv")
    lost = ("--lost", "a/1:0", "--iterations", "500", "--json")
    assert main(["replan", "problem.yaml", "plan.json", *lost, *files, *jobs]) == 0
    Path("answer.json").write_text(capsys.readouterr().out)
    assert main(["export", "left.yaml", "next.json", *bundle, "second"]) == 0
    arguments = ("--steps", "4", *RATE)
    old = tmp_path / "old"
    whole, _ = told(launch(Path("first"), *arguments, "--checkpoints", str(old)))
    for path in old.glob("step-[34]"):
        path.rename(path.name)
    rows = csv.DictReader(Path("moves.csv").read_text().splitlines())
    losses, moved = told(launch(Path("second"), *arguments, *given(tmp_path)))
    assert moved == sum(int(row["bytes"]) for row in rows)
    assert losses == pytest.approx({n: whole[n] for n in (2, 3)}, rel=1e-5)


def test_files_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    move = CASES["a lost rank, another cut"]
    jobs = job(move.old), job(move.new)
    written(jobs[0], tmp_path / "first")
    written(jobs[1], tmp_path / "second")
    launch(
        tmp_path / "first",
        *("--steps", "1", *RATE, "--checkpoints", str(tmp_path / "old")),
    )
    write_moves(move, jobs, tmp_path)

    def complaint() -> str:
        (running,) = start(tmp_path / "second", "--steps", "2", *given(tmp_path))
        printed = running.communicate(timeout=60)[0]
        assert running.returncode
        return printed

    rows = (tmp_path / "moves.csv").read_text().splitlines()
    (tmp_path / "moves.csv").write_text("\n".join(rows[:-1]) + "\n")
    assert re.search(r"ValueError: unit-\d+\.dense\.\w+: no move provides", complaint())
