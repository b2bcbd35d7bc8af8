"""What Hetu's generator makes of our strategy is the plan, and can be read back."""

from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from hetopt.errors import CheckError, InputError
from hetopt.export.back.importing import import_plan
from hetopt.export.bundle import bundle, write_folder
from hetopt.export.hetu.launcher import LAUNCHER, STRATEGY
from hetopt.export.hetu.reading import READER, read_hetu
from hetopt.export.job import Job
from hetopt.export.registry import reader, readers, recognises
from tests.export.jobs import draw_job, restaged


def with_degrees(job: Job, dp: int, cp: int) -> Job | None:
    """Return a job of the same stages with one (d, c); None where they do not fit."""
    per_node = {c.name: c.devices_per_node for c in job.problem.clusters}
    stages = tuple(
        replace(
            stage,
            strategy=replace(
                stage.strategy,
                dp=dp,
                cp=cp,
                tp=max(1, per_node[stage.cluster] // (dp * cp)),
            ),
        )
        for stage in job.stages
    )
    pipeline = replace(job.plan.pipeline, stages=stages)
    batch = 2 * dp * job.microbatches
    training = replace(job.problem.training, global_batch=batch, zero=int(dp > 1))
    model = replace(job.problem.model, tied=False, kv_heads=8)
    problem = replace(job.problem, training=training, model=model)
    try:
        return Job.of(problem, replace(job.plan, pipelines=(pipeline,)))
    except InputError:
        return None


def exact(seed: int) -> Job:
    """Draw a job that loses nothing."""
    dp, cp = ((1, 1), (2, 1), (2, 2), (4, 1), (1, 2))[seed % 5]
    for again in range(100):
        drawn = draw_job(
            seed + 1000 * again, recompute=("none", "full"), schedules=("1f1b",)
        )
        job = with_degrees(drawn, dp, cp)
        if job is not None:
            return job
    raise AssertionError(seed)


def changed(job: Job, **training: object) -> Job:
    other = replace(job.problem.training, **training)  # type: ignore[arg-type]
    return replace(job, problem=replace(job.problem, training=other))


def strategy_of(text: str) -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load(text)["ds_parallel"]
    return content


def device_groups(content: dict[str, Any]) -> list[list[list[int]]]:
    """Return the devices of every layer and pipeline, as Hetu's generator finds them.

    Each pipeline has its stages' places after those of the pipelines before it, tp for
    every stage; places that are not used give no device.
    """
    groups = []
    for layer in range(content["num_layers"]):
        row = []
        begun = 0
        for layers in content["hetero_layers"]:
            stage, held = 0, layers[0]
            while layer >= held:
                stage += 1
                held += layers[stage]
            first = (begun + stage) * content["tp"]
            row.append(
                [
                    content["rank_to_device_mapping"][place]
                    for place in range(first, first + content["tp"])
                    if place not in content["unused_rank"]
                ]
            )
            begun += len(layers)
        groups.append(row)
    return groups


@pytest.mark.parametrize("seed", range(40))
def test_every_layer_is_on_the_devices_of_the_plan(seed: int) -> None:
    job = exact(seed)
    assert not list(LAUNCHER.losses(job))
    content = strategy_of(bundle(job, LAUNCHER, allow_lossy=False)[STRATEGY])
    assert len(content["cp_list"]) == content["dp"]
    pipelines = sum(content["cp_list"])
    assert len(content["hetero_layers"]) == pipelines
    assert content["micro_batch_num_list"] == [job.microbatches] * content["dp"]
    layers = [
        number for number, count in enumerate(job.layers or ()) for _ in range(count)
    ]
    groups = device_groups(content)
    recompute = content["recompute"]["recompute_layer_idxs_list"] or [[]] * pipelines
    degrees = job.stages[0].strategy
    for layer, stage in enumerate(layers):
        strategy = job.stages[stage].strategy
        for pipeline in range(pipelines):
            assert groups[layer][pipeline] == [
                rank.rank
                for rank in job.placement.ranks
                if rank.stage == stage
                and (rank.dp, rank.cp) == divmod(pipeline, degrees.cp)
            ]
            # dup * split = group size * pipelines, as of a weight split by tp.
            assert len(groups[layer][pipeline]) == strategy.tp
            assert (layer in recompute[pipeline]) == (strategy.recompute == "full")
    used = {device for row in groups for group in row for device in group}
    assert used == set(range(content["num_gpus"]))
    mapping = content["rank_to_device_mapping"]
    assert len(set(mapping.values())) == len(mapping)
    assert all(
        mapping[place] >= content["num_gpus"] for place in content["unused_rank"]
    )


@pytest.mark.parametrize("seed", range(30))
def test_exact_plans_are_read_back_as_they_were(seed: int, tmp_path: Path) -> None:
    job = exact(seed)
    folder = tmp_path / "out"
    write_folder(str(folder), bundle(job, LAUNCHER, allow_lossy=False))
    assert reader(folder, None) is READER
    read_back = read_hetu(folder)
    assert read_back.microbatches == job.microbatches
    for number, (read, stage) in enumerate(
        zip(read_back.stages, job.stages, strict=True)
    ):
        assert read.strategy == stage.strategy
        assert read.cluster == stage.cluster
        ranks = [r for r in job.placement.ranks if r.stage == number]
        assert read.hosts == tuple(rank.host for rank in ranks)
    if seed < 10:
        imported = import_plan(read_back, job.problem)
        assert [
            replace(stage, resharding=None) for stage in imported.plan.pipeline.stages
        ] == [replace(stage, resharding=None) for stage in job.stages]


def test_degrees_differ_and_places_stay_unused_in_some_of_them() -> None:
    texts = [
        bundle(exact(seed), LAUNCHER, allow_lossy=False)[STRATEGY] for seed in range(30)
    ]
    assert sum(bool(strategy_of(text)["unused_rank"]) for text in texts) > 3


@pytest.mark.parametrize("seed", range(60))
def test_any_plan_is_refused_or_keeps_the_runtimes_rules(
    seed: int, tmp_path: Path
) -> None:
    job = draw_job(seed, alike=seed % 2 == 0)
    losses = list(LAUNCHER.losses(job))
    if any(loss.instead is None for loss in losses):
        with pytest.raises(CheckError):
            bundle(job, LAUNCHER, allow_lossy=True)
        return
    files = bundle(job, LAUNCHER, allow_lossy=True)
    assert ("LOSSY.md" in files) == bool(losses)
    write_folder(str(tmp_path / "out"), files)
    read_back = read_hetu(tmp_path / "out")
    assert [stage.strategy.devices for stage in read_back.stages] == [
        stage.strategy.devices for stage in job.stages
    ]
    content = strategy_of(files[STRATEGY])
    assert all(sum(row) == content["num_layers"] for row in content["hetero_layers"])
    assert not (content["zero"] and content["dp"] == 1)


def test_each_loss_is_named() -> None:
    job = next(
        job
        for job in map(exact, range(1, 99, 5))
        if len(job.stages) > 2 and job.microbatches > 3
    )
    strategy = job.stages[0].strategy

    def lost(other: Job) -> list[tuple[str, str | None]]:
        return [(loss.what, loss.instead) for loss in LAUNCHER.losses(other)]

    def stage0(**fields: object) -> Job:
        return restaged(job, 0, strategy=replace(strategy, **fields))  # type: ignore[arg-type]

    def problem_model(**fields: object) -> Job:
        model = replace(job.problem.model, **fields)  # type: ignore[arg-type]
        return replace(job, problem=replace(job.problem, model=model))

    assert lost(job) == []
    for name in ("dp", "cp"):
        ((what, instead),) = lost(stage0(**{name: 4}))
        assert what.startswith(f"{name} 4, ")
        assert instead is None
    ((what, instead),) = lost(stage0(recompute="selective"))
    assert "recomputes norms" in what
    assert instead == "full recomputation there"
    ((what, instead),) = lost(restaged(job, 0, warmup=1))
    assert "1F1B" in what
    units = (strategy,) * job.stages[0].units
    assert "each layer" in lost(restaged(job, 0, unit_strategies=units))[0][0]
    assert lost(changed(job, zero=3))[0][1] == "ZeRO stage 1"
    assert lost(changed(job, zero=0)) == []
    alone = with_degrees(job, 1, 2)
    assert alone is not None
    ((what, instead),) = lost(changed(alone, zero=1))
    assert instead == "ZeRO stage 0, which needs more memory"
    assert lost(changed(job, precision="fp16"))[0][1] == "bf16"
    assert lost(changed(job, seq_len=511))[0][1] is None
    assert lost(problem_model(tied=True))[0][1] is None
    assert lost(problem_model(attention="bidirectional"))[0][1] is None
    wide = stage0(tp=2 * strategy.tp)
    assert lost(restaged(wide, 0, resharding="p2p")) == []
    assert "leader" in lost(restaged(wide, 0, resharding="leader"))[0][0]


#: Two pipelines, the second stage of half the first one's tp.
HAND: dict[str, Any] = {
    "hetero": True,
    "dp": 2,
    "tp": 2,
    "pp": 2,
    "zero": True,
    "num_layers": 8,
    "num_gpus": 6,
    "hetero_layers": [[5, 3], [5, 3]],
    "gpus_per_stage": 2,
    "micro_batch_num_list": [4, 4],
    "rank_to_device_mapping": {0: 0, 1: 1, 2: 2, 3: 6, 4: 3, 5: 4, 6: 5, 7: 7},
    "unused_rank": [3, 7],
}


def hand_made(folder: Path, *, nested: bool = False, **fields: object) -> Path:
    content: dict[str, Any] = {"ds_parallel": copy.deepcopy(HAND) | fields}
    if nested:
        content = {"trainer": content}
    (folder / "train.yaml").write_text(yaml.safe_dump(content))
    return folder


@pytest.mark.parametrize("nested", [False, True])
def test_hand_made_files_are_read(nested: bool, tmp_path: Path) -> None:
    folder = hand_made(tmp_path, nested=nested)
    assert recognises(readers()["hetu"], folder)
    read_back = read_hetu(folder)
    assert read_back.microbatches == 4
    assert read_back.says == {"tied": False, "zero": 1}
    assert [(s.layers, s.strategy.dp, s.strategy.tp) for s in read_back.stages] == [
        (5, 2, 2),
        (3, 2, 1),
    ]


def listed(*layers: int, **more: object) -> dict[str, object]:
    return {
        "recompute_granularity": "full",
        "recompute_layer_idxs_list": [list(layers)] * 2,
    } | more


@pytest.mark.parametrize(
    ("recompute", "found"),
    [
        (listed(0, 1, 2, 3, 4), ["full", "none"]),
        (listed(5, 6, 7), ["none", "full"]),
        (
            {"recompute_granularity": ["full"], "recompute_method": "uniform"},
            ["full", "full"],
        ),
    ],
)
def test_recomputed_layers_are_read(
    recompute: dict[str, object], found: list[str], tmp_path: Path
) -> None:
    read_back = read_hetu(hand_made(tmp_path, recompute=recompute))
    assert [stage.strategy.recompute for stage in read_back.stages] == found


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("hetero_layers", [[5, 3]]),
        ("hetero_layers", [[5, 3], [4, 4]]),
        ("hetero_layers", [[8, 0], [8, 0]]),
        ("hetero_layers", [[4, 3], [4, 3]]),
        ("micro_batch_num_list", [4, 2]),
        ("cp_list", [1, 2]),
        ("cp_list", [1]),
        ("gpus_per_stage", 4),
        ("rank_to_device_mapping", {0: 0}),
        ("rank_to_device_mapping", {place: 0 for place in range(8)}),
        ("unused_rank", [3]),
        ("unused_rank", [2, 3, 6, 7]),
        ("unused_rank", [3, 9]),
        ("num_gpus", 8),
        ("recompute", listed(0, 1)),
        ("recompute", listed(8)),
        ("recompute", listed(0, 1, 2, 3, 4, recompute_granularity="selective")),
        ("recompute", {"recompute_granularity": "full", "recompute_method": "block"}),
    ],
)
def test_what_it_refuses_names_the_field(
    name: str, value: object, tmp_path: Path
) -> None:
    with pytest.raises(InputError) as caught:
        read_hetu(hand_made(tmp_path, nested=False, **{name: value}))
    assert f"ds_parallel.{name}" in str(caught.value)
