"""Recipes of Megatron-Bridge say what scripts of Megatron-LM say."""

import pytest
import yaml

from hetopt.export.bundle import bundle
from hetopt.export.megatron.launcher import LAUNCHER as MEGATRON
from hetopt.export.nemo.launcher import LAUNCHER as NEMO
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
