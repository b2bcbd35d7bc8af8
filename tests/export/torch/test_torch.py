"""Jobs for hetopt's own program are the plan's, and can be read back."""

import json
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hetopt.errors import CheckError, InputError
from hetopt.export.back.importing import import_plan
from hetopt.export.bundle import bundle, write_folder
from hetopt.export.job import Job
from hetopt.export.planning.limits import fitted
from hetopt.export.registry import limits_of, readers, recognises
from hetopt.export.torch.launcher import LAUNCHER as TORCH
from hetopt.export.torch.launcher import TESTED_WITH
from hetopt.export.torch.reading import read_torch
from hetopt.export.torchtitan.launcher import LAUNCHER as TORCHTITAN
from hetopt.problem.model.architecture import Architecture
from hetopt.problem.model.latent import Latent
from hetopt.problem.training.choices import RESHARDING
from hetopt.problem.training.dispatch import Dispatch
from hetopt.problem.training.pins import Domain, Pins
from tests.export.jobs import draw_job, restaged, untied
from tests.runtimes.torch_plans import CASES, EXPERTS, UNEVEN, job_of

ROOT = Path(__file__).parents[3]


def exact(seed: int, **settings: Any) -> Job:
    return draw_job(seed, **settings)


def write(job: Job, folder: Path) -> Path:
    write_folder(str(folder), bundle(job, TORCH, allow_lossy=False))
    return folder


@pytest.mark.parametrize("seed", range(60))
def test_plans_of_any_degrees_are_read_back_as_they_were(
    seed: int, tmp_path: Path
) -> None:
    job = exact(seed, granularity="block" if seed % 4 == 0 else "layer")
    assert not list(TORCH.losses(job))
    folder = write(job, tmp_path / "out")
    assert recognises(readers()["torch"], folder)
    read_back = read_torch(folder)
    assert read_back.microbatches == job.microbatches
    assert tuple(stage.layers for stage in read_back.stages) == job.layers
    for number, (read, stage) in enumerate(
        zip(read_back.stages, job.stages, strict=True)
    ):
        assert read.strategy == stage.strategy
        assert read.warmup == min(stage.warmup, job.microbatches)
        assert read.cluster == stage.cluster
        ranks = [rank for rank in job.placement.ranks if rank.stage == number]
        assert read.hosts == tuple(rank.host for rank in ranks)
    for name, value in read_back.says.items():
        model = job.problem.model
        parts = (job.problem.training, model, model.architecture)
        of = next(part for part in parts if hasattr(part, name))
        assert getattr(of, name) == value


@pytest.mark.parametrize(
    ("part", "changed"),
    [
        ("training", {"precision": "fp16"}),
        ("training", {"optimizer": "sgd"}),
        ("training", {"sequence_parallel": False}),
        ("model", {"vocab": 12345}),
        ("model", {"norm_eps": 1e-3}),
    ],
)
def test_files_of_another_problem_are_refused(
    part: str, changed: dict[str, Any], tmp_path: Path
) -> None:
    job = exact(1)
    folder = write(job, tmp_path / "out")
    assert import_plan(read_torch(folder), job.problem).findings == ()
    path = folder / "job.json"
    data = json.loads(path.read_text())
    data[part] |= changed
    path.write_text(json.dumps(data))
    (name,) = changed
    with pytest.raises(InputError, match="the files say") as caught:
        import_plan(read_torch(folder), job.problem)
    assert caught.value.field == name
    # Before they said so, they agreed with any.
    if name not in ("vocab",):
        del data[part][name]
        path.write_text(json.dumps(data))
        import_plan(read_torch(folder), job.problem)


def test_the_job_names_the_clusters_of_stages(tmp_path: Path) -> None:
    job = exact(1)
    folder = write(job, tmp_path / "out")
    names = [stage.cluster for stage in job.stages]
    data = json.loads((folder / "job.json").read_text())
    data["stages"][0]["cluster"] = "elsewhere"
    (folder / "job.json").write_text(json.dumps(data))
    with pytest.raises(InputError, match="is 'elsewhere', the hosts of its ranks are"):
        read_torch(folder)
    (folder / "ranks.csv").unlink()
    read = read_torch(folder)
    assert [each.cluster for each in read.stages] == ["elsewhere", *names[1:]]


@pytest.mark.parametrize("seed", range(30))
def test_ranks_of_the_program_are_those_of_the_placement(seed: int) -> None:
    job = exact(seed)
    stages = json.loads(bundle(job, TORCH, allow_lossy=False)["job.json"])["stages"]
    numbered = [
        (number, dp, cp, tp)
        for number, stage in enumerate(stages)
        for dp in range(stage["dp"])
        for cp in range(stage["cp"])
        for tp in range(stage["tp"])
    ]
    ranks = job.placement.ranks
    assert numbered == [(rank.stage, rank.dp, rank.cp, rank.tp) for rank in ranks]
    ends = [stage["end"] for stage in stages]
    assert [stage["first"] for stage in stages] == [0, *ends[:-1]]
    assert ends[-1] == job.problem.model.layers + 2


def test_the_norm_and_the_rotary_embedding_are_the_models() -> None:
    job = exact(4)
    said = Architecture(norm_eps=1e-6, rotary_base=5e5)
    model = replace(job.problem.model, architecture=said)
    job = replace(job, problem=replace(job.problem, model=model))
    content = json.loads(bundle(job, TORCH, allow_lossy=False)["job.json"])["model"]
    assert (content["norm_eps"], content["rotary_base"]) == (1e-6, 5e5)


def test_a_bundle_is_the_program_with_the_tested_version(tmp_path: Path) -> None:
    files = bundle(exact(4), TORCH, allow_lossy=False)
    own = {name for name in files if name.startswith("program/")}
    folder = ROOT / "hetopt/export/torch/program"
    assert own == {
        f"program/{path.name}"
        for path in folder.glob("*.py")
        if path.name != "llama_units.py"
    }
    assert not any("hetopt." in line for name in own for line in imports(files[name]))
    assert json.loads(files["job.json"])["tested_with"] == {"torch": TESTED_WITH}
    assert f"tested with {TESTED_WITH}" in files["README.md"]
    # The marked tests run that version.
    assert f"torch=={TESTED_WITH}" in (ROOT / "Makefile").read_text()


def imports(text: str) -> list[str]:
    return [line for line in text.splitlines() if "import " in line]


@pytest.mark.parametrize("way", RESHARDING)
def test_the_way_of_resharding_is_kept(way: Any, tmp_path: Path) -> None:
    job = restaged(exact(2), 0, resharding=way)
    folder = write(job, tmp_path / "out")
    stages = json.loads((folder / "job.json").read_text())["stages"]
    assert stages[0]["resharding"] == way
    assert stages[-1]["resharding"] is None
    read_torch(folder)


def test_stages_of_several_chunks_are_read_back(tmp_path: Path) -> None:
    for name, case in CASES.items():
        if case.chunks == 1:
            continue
        job = job_of(case)
        folder = write(job, tmp_path / name)
        content = json.loads((folder / "job.json").read_text())
        assert content["training"]["chunks"] == case.chunks
        ways = [stage["resharding"] for stage in content["stages"]]
        assert ways == [stage.resharding for stage in job.stages]
        assert ways[-1] is not None
        read = read_torch(folder)
        assert (read.schedule, read.chunks) == (case.schedule, case.chunks)
        assert tuple(stage.layers for stage in read.stages) == job.layers
        for stage, own in zip(read.stages, job.stages, strict=True):
            assert stage.warmup == min(own.warmup, case.q * case.chunks)


@pytest.mark.parametrize("name", UNEVEN)
def test_chunks_that_differ_are_read_back(name: str, tmp_path: Path) -> None:
    case = UNEVEN[name]
    job = job_of(case)
    folder = write(job, tmp_path / "out")
    content = json.loads((folder / "job.json").read_text())
    assert content["training"]["cuts"] == [*case.cuts]
    read = read_torch(folder)
    assert read.cuts == job.plan.cuts == case.cuts
    assert read.chunks == case.chunks
    units = 3 if job.problem.model.granularity == "block" else 1
    held = [units * stage.layers for stage in read.stages]
    held[0], held[-1] = held[0] + 1, held[-1] + 1
    assert held == [stage.units for stage in job.stages]
    plan = import_plan(read, job.problem).plan
    assert plan.cuts == job.plan.cuts
    for given, meant in zip(plan.pipeline.stages, job.stages, strict=True):
        assert replace(given, resharding=None) == replace(meant, resharding=None)


def test_chunks_of_another_model_are_not_imported(tmp_path: Path) -> None:
    job = job_of(UNEVEN["ends alone"])
    read = read_torch(write(job, tmp_path / "out"))
    model = replace(job.problem.model, layers=9)
    with pytest.raises(InputError, match="layers: the files have 8 units in all, the"):
        import_plan(read, replace(job.problem, model=model))


def test_chunks_that_are_alike_have_no_cuts() -> None:
    content = json.loads(bundle(exact(4), TORCH, allow_lossy=False)["job.json"])
    assert "cuts" not in content["training"]


@pytest.mark.parametrize(
    "cuts",
    [
        [1, 3, 3, 6, 7],
        [1, 3, 3, 6, 7, 9],
        [1, 3, 2, 6, 7, 8],
        [0, 3, 3, 6, 7, 8],
        [1, 3, 3, 6, 8, 8],
        [8, 8, 8, 8, 8, 8],
        [1, 1, 7, 7, 8, 8],
        [],
    ],
)
def test_chunks_that_cannot_be_are_refused(cuts: list[int], tmp_path: Path) -> None:
    folder = write(job_of(UNEVEN["ends alone"]), tmp_path / "out")
    change(folder / "job.json", ("training", "cuts"), cuts)
    message = (
        r"training\.cuts: is .*, expected the ends of 3 chunks for each of 2 stages"
    )
    with pytest.raises(InputError, match=message):
        read_torch(folder)


@pytest.mark.parametrize("name", EXPERTS)
def test_experts_are_read_back(name: str, tmp_path: Path) -> None:
    job = job_of(EXPERTS[name])
    folder = write(job, tmp_path / "out")
    read = read_torch(folder)
    assert [each.strategy for each in read.stages] == [
        each.strategy for each in job.stages
    ]
    assert read.says["experts"] == job.problem.model.experts
    # It drops no token, and sends every copy before anything else goes on.
    dispatch = {
        name: read.says[name] for name in ("capacity", "node_dedup", "overlaps")
    }
    assert dispatch == {"capacity": None, "node_dedup": False, "overlaps": False}


def test_experts_are_spread_over_the_ranks_there_are(tmp_path: Path) -> None:
    folder = write(job_of(EXPERTS["over replicas"]), tmp_path / "out")
    change(folder / "job.json", ("stages", 0, "ep"), 3)
    message = r"stages\.0\.ep: is 3: ep \* etp = 3 \* 1 does not"
    with pytest.raises(InputError, match=message):
        read_torch(folder)


def change(path: Path, keys: tuple[Any, ...], value: object) -> None:
    """Put a value under some keys of a file."""
    content = {"all": json.loads(path.read_text())}
    place: Any = content
    last: Any = "all"
    for key in keys:
        place, last = place[last], key
    place[last] = value
    path.write_text(json.dumps(content["all"]))


def test_each_loss_of_experts_is_named() -> None:
    job = job_of(EXPERTS["over replicas"])
    experts, training = job.problem.model.experts, job.problem.training
    assert experts is not None

    def lost(of: Job) -> list[tuple[str, bool]]:
        return [(loss.what, loss.instead is None) for loss in TORCH.losses(of)]

    def model(**fields: Any) -> Job:
        changed = replace(job.problem.model, **fields)
        return replace(job, problem=replace(job.problem, model=changed))

    def moe(**fields: Any) -> Job:
        changed = replace(training, moe=Dispatch(**fields))
        return replace(job, problem=replace(job.problem, training=changed))

    assert lost(job) == lost(moe(imbalance=1.5)) == []
    balanced = replace(experts, router_bias=True)
    assert lost(model(experts=balanced)) == []
    ((what, refused),) = lost(model(experts=replace(balanced, scores="sigmoid")))
    assert what.startswith("experts.router_bias")
    assert refused
    assert ("routed experts with biases", True) in lost(model(norm="layer"))
    assert [what.split(":")[0] for what, _ in lost(moe(capacity=1.2))] == [
        "moe.capacity 1.2"
    ]
    assert [refused for _, refused in lost(moe(node_dedup=True))] == [False]
    with pytest.raises(CheckError, match="layers that predict further tokens"):
        bundle(model(predictions=1), TORCH, allow_lossy=True)
    latent = Latent(kv_lora=16, qk_dim=12, rope_dim=4, v_dim=16)
    of_latent = model(latent=latent, kv_heads=4)
    with pytest.raises(CheckError, match="which has latent attention"):
        bundle(of_latent, TORCH, allow_lossy=True)


def test_zero_of_each_stage_is_kept(tmp_path: Path) -> None:
    job = exact(2)
    other = replace(job.stages[0].strategy, zero=1 - job.problem.training.zero)
    folder = write(restaged(job, 0, strategy=other), tmp_path / "out")
    read = read_torch(folder)
    assert "zero" not in read.says
    zeros = [stage.strategy.zero for stage in read.stages]
    assert zeros == [other.zero] + [job.problem.training.zero] * (len(zeros) - 1)
    # No table has costs of stages that shard their states differently.
    with pytest.raises(InputError, match=r"zero: is 0, 1.* by stage, which hetopt"):
        import_plan(read, job.problem)


@pytest.mark.parametrize(
    ("keys", "value", "message"),
    [
        (("stages", 1, "first"), 1, r"stages\.1\.first: is 1, expected \d"),
        (("stages", 0, "end"), 1, r"stages\.0\.end: is 1, which leaves no layer"),
        (("stages", -1, "end"), 999, r"end: is 999, expected \d+: the embedding"),
        (("stages", 0, "dp"), 10**7, r"stages\.0\.dp: is 10000000"),
        (("stages", 1, "warmup"), 99, r"stages\.1\.warmup: deadlocks: stage 1 warms"),
        (("stages", 0, "resharding"), None, r"resharding: is empty, expected one of"),
        (("training", "chunks"), 99, r"chunks: is 99, (which needs|expected a div)"),
    ],
)
def test_wrong_jobs_are_refused_with_the_reason(
    keys: tuple[Any, ...], value: object, message: str, tmp_path: Path
) -> None:
    folder = write(exact(2, schedules=("1f1b",)), tmp_path / "out")
    change(folder / "job.json", keys, value)
    with pytest.raises(InputError, match=message):
        read_torch(folder)


def test_ranks_that_are_not_those_of_the_job_are_refused(tmp_path: Path) -> None:
    folder = write(exact(2), tmp_path / "out")
    path = folder / "ranks.csv"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:-1]))
    with pytest.raises(InputError, match=r"names \d+ ranks, expected \d+ as in job"):
        read_torch(folder)


def test_each_loss_is_named() -> None:
    job = untied(exact(4, recompute=("none",)))

    def lost(other: Job) -> list[str]:
        return [loss.what for loss in TORCH.losses(other)]

    def of(**fields: Any) -> Job:
        model = replace(job.problem.model, **fields)
        return replace(job, problem=replace(job.problem, model=model))

    def under(**fields: Any) -> Job:
        training = replace(job.problem.training, **fields)
        return replace(job, problem=replace(job.problem, training=training))

    assert len(job.stages) > 1
    assert lost(job) == []
    assert "ZeRO 3" in lost(under(zero=3))[0]
    assert lost(under(precision="fp16")) == []
    assert "fp8" in lost(under(precision="fp8"))[0]
    assert "unfused" in lost(under(attention="unfused"))[0]
    assert lost(under(sequence_parallel=False, gradients="bf16")) == []
    said = Architecture(norm_eps=1e-6, rotary_base=5e5, attention_softcap=50.0)
    assert [what.split()[0] for what in lost(of(architecture=said))] == [
        "model.attention_softcap"
    ]
    assert "positions" in lost(of(positions=7))[0]
    assert "even width" in lost(of(head_dim=7))[0]


def test_what_is_lost_is_not_in_the_files() -> None:
    job = exact(2)
    training = replace(job.problem.training, zero=3)
    job = replace(job, problem=replace(job.problem, training=training))
    cut = replace(job.stages[0], unit_strategies=(job.stages[0].strategy,) * 3)
    job = restaged(job, 0, unit_strategies=cut.unit_strategies)
    files = bundle(job, TORCH, allow_lossy=True)
    assert "ZeRO 1" in files["LOSSY.md"]
    assert "most frequent strategy" in files["LOSSY.md"]
    stages = json.loads(files["job.json"])["stages"]
    assert {stage["zero"] for stage in stages} == {1}


@pytest.mark.parametrize("launcher", [TORCH, TORCHTITAN], ids=lambda each: each.name)
def test_scripts_are_ones_that_bash_reads(launcher: Any, tmp_path: Path) -> None:
    job = untied(draw_job(4, alike=True, recompute=("none",)))
    write_folder(str(tmp_path / "out"), bundle(job, launcher, allow_lossy=True))
    for path in (tmp_path / "out/nodes").glob("*.sh"):
        subprocess.run(["bash", "-n", str(path)], check=True)


@pytest.mark.parametrize(
    ("training", "model", "message"),
    [({"precision": "fp8"}, {}, "fp8"), ({}, {"positions": 7}, "table of 7")],
)
def test_a_search_for_it_refuses_what_no_plan_can_help(
    training: dict[str, Any], model: dict[str, Any], message: str
) -> None:
    problem = exact(4).problem
    problem = replace(
        problem,
        training=replace(problem.training, **training),
        model=replace(problem.model, **model),
    )
    with pytest.raises(InputError, match=f"launcher cannot do: .*{message}"):
        fitted(limits_of("torch"), problem)


def test_a_search_for_it_leaves_every_way_of_resharding_open() -> None:
    problem = exact(4).problem
    found = fitted(limits_of("torch"), problem)
    assert all(found.pins.resharding.permits(way) for way in RESHARDING)
    pinned = Pins(resharding=Domain(allowed=frozenset({"leader"})))
    found = fitted(limits_of("torch"), replace(problem, pins=pinned))
    assert [w for w in RESHARDING if found.pins.resharding.permits(w)] == ["leader"]
    for other in ("megatron", "flagscale", "hetu"):
        found = fitted(limits_of(other), untied(exact(4)).problem)
        assert [w for w in RESHARDING if found.pins.resharding.permits(w)] == ["p2p"]


def test_several_pipelines_are_not_read_back(tmp_path: Path) -> None:
    folder = write(exact(1), tmp_path / "out")
    data = json.loads((folder / "job.json").read_text())
    stages = data.pop("stages")
    own = {"batch": 2, "microbatches": 1, "stages": stages}
    del data["training"]["microbatches"]
    (folder / "job.json").write_text(json.dumps({**data, "pipelines": [own, own]}))
    with pytest.raises(InputError, match="are 2, and plans of one pipeline alone"):
        read_torch(folder)
