"""Recipes of Megatron-Bridge say what scripts of Megatron-LM say."""

from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from hetopt.export.bundle import bundle, write_folder
from hetopt.export.job import Job
from hetopt.export.megatron.launcher import LAUNCHER as MEGATRON
from hetopt.export.nemo.launcher import LAUNCHER as NEMO
from hetopt.export.nemo.reading import read_nemo
from hetopt.planning.plan import plan
from hetopt.problem.reading import read_problem_text
from hetopt.problem.training.choices import Gradients
from tests.export.jobs import draw_job
from tests.export.scripts import told


@pytest.mark.parametrize("seed", range(20))
def test_nemo_has_the_same_layout_and_degrees(seed: int) -> None:
    job = draw_job(seed, alike=True, schedules=("1f1b",))
    files = bundle(job, NEMO, allow_lossy=False)
    recipe = yaml.safe_load(files["recipe.yaml"])
    script = next(t for n, t in MEGATRON.files(job).items() if n.endswith(".sh"))
    first = told(script)
    model = recipe["model"]
    for name, argument in (
        ("pipeline_model_parallel_layout", "--pipeline-model-parallel-layout"),
        ("tensor_model_parallel_size", "--tensor-model-parallel-size"),
        ("pipeline_model_parallel_size", "--pipeline-model-parallel-size"),
        ("context_parallel_size", "--context-parallel-size"),
        ("num_layers", "--num-layers"),
        ("ffn_hidden_size", "--ffn-hidden-size"),
    ):
        assert str(model[name]) == first[argument]
    assert str(recipe["train"]["micro_batch_size"]) == first["--micro-batch-size"]
    assert recipe["ddp"]["use_distributed_optimizer"] == (
        "--use-distributed-optimizer" in first
    )
    compile(files["pretrain.py"], "pretrain.py", "exec")


@pytest.mark.parametrize("gradients", ["fp32", "bf16"])
def test_gradients_are_written_and_read_again(
    gradients: Gradients, tmp_path: Path
) -> None:
    """A mixed precision sets those of ``ddp``, so it is the one to be changed."""
    job = draw_job(1, alike=True, cp=False, schedules=("1f1b",))
    training = replace(job.problem.training, gradients=gradients)
    job = replace(job, problem=replace(job.problem, training=training))
    write_folder(str(tmp_path / "out"), bundle(job, NEMO, allow_lossy=True))
    assert read_nemo(tmp_path / "out").says["gradients"] == gradients


@pytest.mark.parametrize("chunks", [1, 2])
def test_interleaved_transfers_overlap(chunks: int, tmp_path: Path) -> None:
    """Megatron-core overlaps none unless told; Megatron-LM's parser tells it."""
    schedule = "interleaved-1f1b" if chunks > 1 else "1f1b"
    text = (
        "model: {layers: 8, hidden: 256, heads: 4, ffn: 1024, vocab: 1000}\n"
        "clusters: [{name: a, accelerator: A100-80GB, nodes: 1, devices_per_node: 2,"
        " inter_node: {bandwidth: 100 Gbps}}]\n"
        "training: {global_batch: 8, seq_len: 512, schedule: SCHEDULE, "
        "chunks: CHUNKS}\n"
        "pin: {stages: 2}\n"
    )
    text = text.replace("SCHEDULE", schedule).replace("CHUNKS", str(chunks))
    problem = read_problem_text(text)
    best = plan(problem, solver="dp", jobs=1).best
    assert best is not None
    files = bundle(Job.of(problem, best.plan), NEMO, allow_lossy=True)
    model = yaml.safe_load(files["recipe.yaml"])["model"]
    told_so = (model.get("overlap_p2p_comm"), model.get("batch_p2p_comm"))
    assert told_so == ((True, False) if chunks > 1 else (None, None))
    write_folder(str(tmp_path / "out"), files)
    told = [each.argument for each in read_nemo(tmp_path / "out").reported]
    assert "model.overlap_p2p_comm" not in told
    model.pop("overlap_p2p_comm", None)
    (tmp_path / "out" / "recipe.yaml").write_text(
        yaml.safe_dump(yaml.safe_load(files["recipe.yaml"]) | {"model": model})
    )
    why = {each.argument: each.why for each in read_nemo(tmp_path / "out").reported}
    said = why.get("model.overlap_p2p_comm", "")
    assert ("megatron-core's default is false" in said) == (chunks > 1)
