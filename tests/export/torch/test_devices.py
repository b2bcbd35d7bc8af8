"""Ranks run on the devices of their clusters, which reach each other as priced."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from hetopt.cli import main
from hetopt.errors import CheckError, InputError
from hetopt.export.bundle import bundle, losses_of
from hetopt.export.job import Job
from hetopt.export.planning.limits import fitted
from hetopt.export.registry import limits_of
from hetopt.export.torch.launcher import LAUNCHER as TORCH
from hetopt.problem.catalogue import accelerators
from hetopt.problem.cluster.links import ClusterLinks
from hetopt.problem.training.pins import ClusterPins, Domain, Pins
from tests.cli.conftest import SMALL
from tests.runtimes.torch_plans import ONE, PAIR, Case, job_of, side_by_side

if TYPE_CHECKING:
    from pathlib import Path

A100, MI300X, ASCEND = "A100-80GB", "MI300X", "Ascend-A2-64GB"


def placed(
    devices: tuple[str, ...],
    staged: str = "device",
    pairs: dict[tuple[int, int], str | None] | None = None,
    halls: tuple[int, ...] = (),
    **model: Any,
) -> Job:
    """Return a job with a stage in each of some clusters."""
    count = len(devices)
    case = Case(
        schedule="1f1b",
        degrees=(ONE,) * count,
        halls=halls or tuple(range(count)),
        model=model,
    )
    return on(devices, job_of(case), staged, pairs or {})


def on(
    devices: tuple[str, ...], job: Job, staged: Any, pairs: dict[tuple[int, int], Any]
) -> Job:
    clusters = tuple(
        replace(cluster, accelerator=accelerators()[name])
        for cluster, name in zip(job.problem.clusters, devices, strict=True)
    )
    link = job.problem.links.default
    assert link is not None
    links = ClusterLinks(
        default=replace(link, staged=staged),
        pairs={
            frozenset(f"hall{n}" for n in pair): own and replace(link, staged=own)
            for pair, own in pairs.items()
        },
    )
    return Job.of(replace(job.problem, clusters=clusters, links=links), job.plan)


def written(job: Job, **options: bool) -> dict[str, Any]:
    files = bundle(job, TORCH, **{"allow_lossy": False, **options})
    content: dict[str, Any] = json.loads(files["job.json"])
    return content


def test_exp1_has_a_library_for_each_vendor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["plan", "hetauto-exp1", "--for", "torch", "--out", "a.json"]) == 0
    export = ["export", "hetauto-exp1", "a.json", "--to", "torch", "--out", "out"]
    assert main(export) == 0
    content = json.loads((tmp_path / "out/job.json").read_text())
    clusters = content["clusters"]
    assert {name: own["device"] for name, own in clusters.items()} == {
        "a100": "cuda",
        "ascend": "npu",
    }
    assert {name: own["backend"] for name, own in clusters.items()} == {
        "a100": "nccl",
        "ascend": "hccl",
    }
    assert {own["group"] for own in clusters.values()} == {0, 1}
    plan = json.loads((tmp_path / "a.json").read_text())
    (pipeline,) = plan["plan"]["pipelines"]
    planned = [stage["cluster"] for stage in pipeline["stages"]]
    assert [stage["cluster"] for stage in content["stages"]] == planned
    readme = (tmp_path / "out/README.md").read_text()
    assert "ascend on npu (hccl)" in readme
    assert "over gloo" in readme
    assert "never tried on Ascend" in readme
    for path in (tmp_path / "out/nodes").glob("*-ascend-*.sh"):
        assert "export ASCEND_RT_VISIBLE_DEVICES=" in path.read_text()


@pytest.mark.parametrize(
    ("devices", "staged", "expected"),
    [
        ((A100, "H100"), "device", [("cuda", "nccl", 0)] * 2),
        ((A100, "H100"), "host", [("cuda", "nccl", 0), ("cuda", "nccl", 1)]),
        ((A100, MI300X), "host", [("cuda", "nccl", 0), ("cuda", "nccl", 1)]),
        ((ASCEND, A100), "host", [("npu", "hccl", 0), ("cuda", "nccl", 1)]),
    ],
)
def test_clusters_are_in_one_group_if_their_devices_reach_each_other(
    devices: tuple[str, ...], staged: str, expected: list[tuple[str, str, int]]
) -> None:
    content = written(placed(devices, staged))
    found = [tuple(own.values()) for own in content["clusters"].values()]
    assert found == expected
    names = [stage["cluster"] for stage in content["stages"]]
    assert names == list(content["clusters"]) == ["hall0", "hall1"]


def test_clusters_that_no_stage_is_on_are_not_named() -> None:
    job = placed((A100, "H100", ASCEND), "host")
    alone = job_of(Case(schedule="1f1b", degrees=(ONE, ONE), halls=(0, 0)))
    job = Job.of(replace(job.problem, model=alone.problem.model), alone.plan)
    assert list(written(job)["clusters"]) == ["hall0"]


def test_transfers_from_device_to_device_need_one_library() -> None:
    job = placed((ASCEND, A100))
    message = (
        "staged: device between hall0 and hall1, whose devices share no collective "
        "library: set staged: host"
    )
    with pytest.raises(CheckError, match=message):
        bundle(job, TORCH, allow_lossy=False)
    with pytest.raises(InputError, match=f"the launcher cannot do: {message}"):
        fitted(limits_of("torch"), job.problem)
    assert "through the hosts" in bundle(job, TORCH, allow_lossy=True)["LOSSY.md"]
    groups = written(job, allow_lossy=True)["clusters"].values()
    assert {own["group"] for own in groups} == {0, 1}
    fitted(limits_of("torch"), placed((ASCEND, A100), "host").problem)


def test_direct_links_that_lead_around_one_through_hosts_are_a_loss() -> None:
    """The first and the last are apart, so the middle can be with only one of them."""
    job = placed((A100,) * 3, pairs={(0, 2): "host"})
    ((loss),) = losses_of(job, TORCH)
    assert loss.what == (
        "staged: device between hall1 and hall2, but host between hall0 and hall2, so "
        "that they cannot all be in one group: set staged: host between hall1 and "
        "hall2 too"
    )
    direct = placed((A100,) * 3, "host", pairs={(0, 1): "device"})
    groups = written(direct)["clusters"].values()
    assert [own["group"] for own in groups] == [0, 0, 1]


def test_clusters_that_exchange_something_come_first_in_groups() -> None:
    """The pipeline is hall0, hall2, hall1; hall0 and hall1 exchange nothing."""
    halls = (0, 2, 1)
    job = placed((A100,) * 3, pairs={(1, 2): "host"}, halls=halls)
    groups = written(job)["clusters"]
    assert {name: own["group"] for name, own in groups.items()} == {
        "hall0": 0,
        "hall2": 0,
        "hall1": 1,
    }
    for tied in (False, True):
        pairs: dict[tuple[int, int], str | None] = {(0, 1): "device"}
        job = placed((A100, ASCEND, A100), "host", pairs, halls, tied=tied)
        found = [loss.what for loss in losses_of(job, TORCH)]
        assert ["hall0 and hall1" in what for what in found] == [True] * tied


def test_clusters_without_a_link_are_apart_unless_others_lead_around() -> None:
    line = placed((A100,) * 3, pairs={(0, 2): None})
    assert {own["group"] for own in written(line)["clusters"].values()} == {0}
    between = placed((A100, ASCEND, A100), "host", pairs={(0, 2): None})
    groups = written(between)["clusters"].values()
    assert [own["group"] for own in groups] == [0, 1, 2]


def test_a_search_asks_only_for_what_pins_leave() -> None:
    job = placed((A100, ASCEND, "H800"))
    refused = r"between hall0 and hall1.*between hall1 and hall2"
    with pytest.raises(InputError, match=refused):
        fitted(limits_of("torch"), job.problem)
    for pins in (
        Pins(clusters={"hall1": ClusterPins(stages=Domain(allowed=frozenset({0})))}),
        Pins(clusters={"hall1": ClusterPins(units=Domain(allowed=frozenset({0})))}),
        Pins(order=("hall0", "hall2")),
    ):
        fitted(limits_of("torch"), replace(job.problem, pins=pins))
    apart = placed((A100, ASCEND, "H800"), "host", {(0, 1): "device"}).problem
    pinned = replace(apart, pins=Pins(order=("hall0", "hall2", "hall1")))
    fitted(limits_of("torch"), pinned)
    tied = replace(pinned, model=replace(pinned.model, tied=True))
    for problem in (apart, tied):
        with pytest.raises(InputError, match="between hall0 and hall1, whose"):
            fitted(limits_of("torch"), problem)


OWN = (
    "{name: Foo, memory: 80 GB, peak_flops: 300 TFLOPS, memory_bandwidth: 2 TB/s, "
    "intra_node: {bandwidth: 300 GB/s, latency: 3 us}, "
    "host_device: {bandwidth: 25 GB/s, latency: 10 us}"
)


@pytest.mark.parametrize(
    ("like", "device"),
    [("", None), (f", like: {ASCEND}", "npu"), (f", like: {A100}", "cuda")],
)
def test_a_device_type_that_nothing_states_is_said(
    like: str,
    device: str | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    text = SMALL.replace("A100-80GB", f"{OWN}{like}}}")
    (tmp_path / "p.yaml").write_text(text)
    note = "cluster fast: device type of 'Foo' is not known, taken as cuda"
    said = [] if device else [f"note: {note}"]
    plan = ["plan", "p.yaml", "--for", "torch", "--solver", "dp", "--out", "a.json"]
    for command in (
        plan,
        ["export", "p.yaml", "a.json", "--to", "torch", "--out", "o"],
    ):
        assert main(command) == 0
        lines = capsys.readouterr().err.splitlines()
        assert [line for line in lines if line.startswith("note: ")] == said
    content = json.loads((tmp_path / "o/job.json").read_text())
    assert content["clusters"]["fast"]["device"] == (device or "cuda")
    assert (f"Assumed: {note}." in (tmp_path / "o/README.md").read_text()) == bool(said)


def test_a_loss_between_pipelines_is_said_once() -> None:
    cases = (
        Case(schedule="1f1b", degrees=(PAIR,), layers=(2,)),
        Case(schedule="1f1b", degrees=(ONE, ONE), halls=(0, 1)),
    )
    nodes: Any = ({"hall0": (4,)}, {"hall0": (4,), "hall1": (8,)})
    within = on((A100, ASCEND), side_by_side(cases, nodes), "device", {})
    assert len(losses_of(within, TORCH)) == 1
    apart = (cases[0], Case(schedule="1f1b", degrees=(PAIR,), halls=(1,), layers=(2,)))
    nodes = ({"hall0": (8,)}, {"hall1": (8,)})
    between = on((A100, ASCEND), side_by_side(apart, nodes), "device", {})
    assert len(losses_of(between, TORCH)) == 1


def test_a_driver_that_pytorch_does_not_know_is_refused() -> None:
    job = placed((A100, A100))
    other = replace(job.problem.clusters[1].accelerator, visible_devices="NEW_VISIBLE")
    clusters = (
        job.problem.clusters[0],
        replace(job.problem.clusters[1], accelerator=other),
    )
    job = replace(job, problem=replace(job.problem, clusters=clusters))
    with pytest.raises(CheckError, match=r"devices of cluster hall1 \(NEW_VISIBLE\)"):
        bundle(job, TORCH, allow_lossy=True)
