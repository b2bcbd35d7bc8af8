"""TorchTitan itself takes the configurations that we export.

Besides ``torchtitan==0.2.2`` without what it requires it takes datasets, tensorboard,
tokenizers, torchdata, triton and tyro to import it.
"""

import warnings
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    manager = pytest.importorskip("torchtitan.config.manager")
    dims = pytest.importorskip("torchtitan.distributed.parallel_dims")
    specs = pytest.importorskip("torchtitan.protocols.train_spec")

from hetopt.export.bundle import bundle
from hetopt.export.torchtitan.launcher import LAUNCHER
from tests.export.jobs import draw_job

pytestmark = [
    pytest.mark.runtimes,
    pytest.mark.filterwarnings("ignore"),
]


@pytest.mark.parametrize("alike", [True, False], ids=["alike", "mixed"])
def test_configurations_and_models_are_taken(alike: bool, tmp_path: Path) -> None:
    taken = 0
    for seed in range(60):
        job = draw_job(seed, alike=alike)
        if any(loss.instead is None for loss in LAUNCHER.losses(job)):
            continue
        files = bundle(job, LAUNCHER, allow_lossy=True)
        path = tmp_path / "train.toml"
        path.write_text(files["train.toml"])
        config = manager.ConfigManager().parse_args([f"--job.config_file={path}"])
        degrees = config.parallelism
        mesh = dims.ParallelDims(
            dp_replicate=degrees.data_parallel_replicate_degree,
            dp_shard=degrees.data_parallel_shard_degree,
            cp=degrees.context_parallel_degree,
            tp=degrees.tensor_parallel_degree,
            pp=degrees.pipeline_parallel_degree,
            ep=1,
            etp=1,
            world_size=job.world_size,
        )
        assert config.training.seq_len % mesh.seq_len_divisor == 0
        # Its DDP refuses to stand beside anything else.
        alone = mesh.world_size == mesh.dp_replicate
        assert mesh.fsdp_enabled or not mesh.dp_replicate_enabled or alone
        exec(compile(files["hetopt_flavor.py"], "hetopt_flavor.py", "exec"), {})
        spec = specs.get_train_spec(config.model.name)
        arguments = spec.model_args[config.model.flavor]
        arguments.update_from_config(config)
        with torch.device("meta"):
            made = spec.model_cls(arguments)
        model, first = job.problem.model, made.layers["0"]
        assert first.feed_forward.w1.weight.shape == (model.ffn, model.hidden)
        kv = model.kv_heads * model.head_dim
        assert first.attention.wk.weight.shape == (kv, model.hidden)
        assert made.output.weight.shape == (model.vocab, model.hidden)
        held = {name for name, _ in made.named_children()} - {"layers"}
        held |= {f"layers.{name}" for name in made.layers}
        parts = degrees.module_fqns_per_model_part
        assert (parts is None) == (len(job.stages) == 1)
        assert sorted(name for part in parts or [held] for name in part) == sorted(held)
        taken += 1
    assert taken > 5
