"""TorchTitan itself takes the configurations that we export.

Besides ``torchtitan==0.3.0`` without what it requires it takes spmd_types, tyro,
docstring_parser and typeguard. What reads data, and what needs a GPU to be loaded, is
not there: nothing of it has a part in a configuration or a model.
"""

import importlib
import sys
import warnings
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import MagicMock

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torchtitan")

from hetopt.errors import InputError
from hetopt.export.bundle import bundle
from hetopt.export.torchtitan.cut import layers_of
from hetopt.export.torchtitan.launcher import LAUNCHER
from hetopt.export.torchtitan.models import flavor_says
from hetopt.export.torchtitan.settings import Settings
from tests.export.jobs import draw_job
from tests.export.torchtitan.test_torchtitan import PARTS
from tests.runtimes.torch_plans import job_of as job_of_case
from tests.with_configs import job_of, problem_with_preset

pytestmark = [
    pytest.mark.runtimes,
    pytest.mark.filterwarnings("ignore"),
]

#: What TorchTitan loads and does not call here.
ABSENT = (
    "datasets",
    "datasets.distributed",
    "tokenizers",
    "torchdata",
    "torchdata.stateful_dataloader",
    "torch.utils.tensorboard",
    "torchtitan.distributed.minimal_async_ep.kernels",
)


#: Presets, and what is changed of them.
MIXTURES = [
    ("qwen3-30b-a3b", {}),
    ("qwen3-235b-a22b", {}),
    ("mixtral-8x7b", {}),
    (
        "qwen3-30b-a3b",
        {
            "layers": 6,
            "experts": {
                **{"number": 64, "per_token": 6, "ffn": 768, "shared_ffn": 1536},
                **{"groups": 8, "groups_per_token": 3, "scores": "sigmoid"},
                **{"router_bias": True, "scale": 2.5, "dense_layers": 2},
            },
        },
    ),
]


class Loader:
    """Stands for what reads data."""


@pytest.fixture(scope="module")
def titan() -> Any:
    """Return what its command line is read with."""
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in ABSENT:
            # A class of one of them is made a subclass of.
            patch.setitem(sys.modules, name, MagicMock(StatefulDataLoader=Loader))
        config = importlib.import_module("torchtitan.config")
        dims = importlib.import_module("torchtitan.distributed.parallel_dims")
        yield config.ConfigManager, dims.ParallelDims


def configured(titan: Any, text: str, *flags: str) -> Any:
    """Return the configuration that a bundle's file leads to."""
    module = ModuleType("hetopt_plan")
    exec(compile(text, "hetopt_plan.py", "exec"), vars(module))
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "hetopt_plan", module)
        arguments = ["--module", "hetopt_plan", "--config", "train", *flags]
        return titan[0]().parse_args(arguments)


@pytest.mark.parametrize("alike", [True, False], ids=["alike", "mixed"])
def test_configurations_and_models_are_taken(
    alike: bool, titan: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    taken = 0
    for seed in range(40):
        job = draw_job(seed, alike=alike)
        if any(loss.instead is None for loss in LAUNCHER.losses(job)):
            continue
        files = bundle(job, LAUNCHER, allow_lossy=True)
        config = configured(titan, files["hetopt_plan.py"], "--training.steps", "7")
        assert config.training.steps == 7
        degrees = config.parallelism
        mesh = titan[1](
            dp_replicate=degrees.data_parallel_replicate_degree,
            dp_shard=degrees.data_parallel_shard_degree,
            cp=degrees.context_parallel_degree,
            tp=degrees.tensor_parallel_degree,
            pp=degrees.pipeline_parallel_degree,
            ep=1,
            world_size=job.world_size,
        )
        assert mesh.world_size == job.world_size
        batch = mesh.dp_replicate * mesh.dp_shard * config.training.local_batch_size
        assert job.problem.training.global_batch % batch == 0
        made = config.model_spec.model
        made.update_from_config(config=config)
        with torch.device("meta"):
            held = made.build()
        model, first = job.problem.model, held.layers["0"]
        assert first.feed_forward.w1.weight.shape == (model.ffn, model.hidden)
        wide = (model.heads + 2 * model.kv_heads) * model.head_dim
        assert first.attention.qkv_linear.wqkv.weight.shape == (wide, model.hidden)
        assert held.lm_head.weight.shape == (model.vocab, model.hidden)
        assert first.ffn_norm.eps == model.architecture.norm_eps
        rope = first.attention.rope.config
        assert rope.theta == model.architecture.rotary_base
        names = {name for name, _ in held.named_children()} - {"layers"}
        names |= {f"layers.{name}" for name in held.layers}
        parts = degrees.module_fqns_per_model_part
        assert (parts is None) == (len(job.stages) == 1)
        found = [name for part in parts or [names] for name in part]
        assert sorted(found) == sorted(names)
        taken += 1
    assert taken > 5


@pytest.mark.parametrize(("name", "experts"), MIXTURES)
def test_mixtures_are_taken(
    name: str,
    experts: dict[str, Any],
    titan: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    job = job_of(problem_with_preset(name, **experts), tp=4, ep=4)
    files = bundle(job, LAUNCHER, allow_lossy=True)
    config = configured(titan, files["hetopt_plan.py"])
    mesh = titan[1].from_config(config.parallelism, job.world_size)
    assert (mesh.tp, mesh.ep, mesh.pp) == (4, 4, 2)
    made = config.model_spec.model
    made.update_from_config(config=config)
    with torch.device("meta"):
        held = made.build()
    model = job.problem.model
    own = model.experts
    assert own is not None
    for number, is_routed in enumerate(model.routed):
        layer = held.layers[str(number)]
        assert layer.moe_enabled == is_routed
        if not is_routed:
            shape = (model.ffn, model.hidden)
            assert layer.feed_forward.w1.weight.shape == shape
            continue
        moe, router = layer.moe, layer.moe.router
        matrices = moe.routed_experts.inner_experts
        assert matrices.w1_EFD.shape == (own.number, own.ffn, model.hidden)
        assert matrices.w2_EDF.shape == (own.number, model.hidden, own.ffn)
        assert (router.top_k, router.score_func) == (own.per_token, own.scores)
        assert (router.route_norm, router.route_scale) == (own.normalised, own.scale)
        assert (router.num_expert_groups or 0) == own.groups
        assert (router.num_limited_groups or 0) == own.groups_per_token
        balanced = own.router_bias and own.scores == "sigmoid"
        assert (moe.expert_bias_E is not None) == balanced
        assert (moe.shared_experts is not None) == (own.shared_ffn > 0)
        if own.shared_ffn:
            assert moe.shared_experts.w1.weight.shape == (own.shared_ffn, model.hidden)
    hook = config.model_spec.post_optimizer_build_fn
    assert (hook is not None) == (own.router_bias and own.scores == "sigmoid")
    normed = model.architecture.qk_norm == "head"
    assert (held.layers["0"].attention.q_norm is not None) == normed
    parts = config.parallelism.module_fqns_per_model_part
    names = {name for name, _ in held.named_children()} - {"layers"}
    names |= {f"layers.{name}" for name in held.layers}
    assert sorted(name for part in parts for name in part) == sorted(names)


@pytest.mark.parametrize("name", ["llama3", "qwen3"])
def test_flavors_are_its_own(name: str, titan: Any) -> None:
    module = importlib.import_module(f"torchtitan.models.{name}")
    seen = 0
    for flavor, make in getattr(module, f"{name}_configs").items():
        made = make(attn_backend="varlen")
        layer = made.layers[0]
        says = flavor_says(name, flavor, lambda field, why: InputError(why), new=True)
        if layer.feed_forward is None:
            own, moe = says["experts"], layer.moe
            matrices = moe.routed_experts.inner_experts
            assert own.number == matrices.num_experts == moe.router.num_experts
            assert own.per_token == moe.router.top_k
            assert own.ffn == matrices.hidden_dim
            assert own.scores == moe.router.score_func
            assert own.normalised == moe.router.route_norm
        else:
            assert says["ffn"] == layer.feed_forward.w1.out_features
        assert says["layers"] == len(made.layers)
        assert says["hidden"] == made.dim
        assert says["vocab"] == made.vocab_size
        assert says["tied"] == made.enable_weight_tying
        assert says["norm_eps"] == made.norm.eps == layer.ffn_norm.eps
        assert says["rotary_base"] == layer.attention.rope.theta
        assert says["head_dim"] == layer.attention.rope.dim
        assert (says["rotary_scaling"] is None) == (
            layer.attention.rope.scaling == "none"
        )
        assert says["heads"] * says["head_dim"] == layer.attention.wo.in_features
        seen += 1
    assert seen > 5


def test_parts_are_those_of_the_chunks(
    titan: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    pipelining = importlib.import_module("torchtitan.distributed.pipeline_parallel")
    job = job_of_case(PARTS)
    files = bundle(job, LAUNCHER, allow_lossy=True)
    config = configured(titan, files["hetopt_plan.py"])
    degrees, p, v = config.parallelism, len(job.stages), job.plan.chunks
    made = config.model_spec.model
    made.update_from_config(config=config)
    with torch.device("meta"):
        held = made.build()
    parts = degrees.module_fqns_per_model_part
    schedule = degrees.pipeline_parallel_schedule
    for stage, planned in enumerate(job.stages):
        own = pipelining._get_pp_rank_to_stage_indices_mapping(
            stage, p, schedule, len(parts)
        )
        assert own == tuple(chunk * p + stage for chunk in range(v))
        for part, (first, end) in zip(own, job.plan.chunk_units(planned), strict=True):
            found = pipelining._split_module(held, parts[part])
            assert (found.tok_embeddings is not None) == (first == 0)
            units = len(job.problem.model.units)
            assert (found.lm_head is not None) == (end == units)
            assert (found.norm is not None) == (end == units)
            layers = range(max(first, 1), min(end, units - 1))
            assert [*found.layers] == [str(unit - 1) for unit in layers]
            assert [*found.parameters()]
    nothing = pipelining._split_module(held, [])
    optimizer = importlib.import_module("torchtitan.components.optimizer")
    with pytest.raises(ValueError, match="matched no parameters"):
        optimizer.default_adamw().build(model_parts=[nothing])


@pytest.mark.parametrize("several", [False, True], ids=["one part", "several"])
def test_cuts_are_its_own(several: bool, titan: Any) -> None:
    pipelining = importlib.import_module("torchtitan.distributed.pipeline_parallel")
    home, seen = "parallelism.pipeline_parallel_", 0
    name = "Interleaved1F1B" if several else "1F1B"
    for stages in range(2, 7):
        for layers in range(1, 20):
            for first, last in ((1, 1), (0, 1), (2, 3)):
                values = {
                    f"{home}degree": stages,
                    f"{home}schedule": name,
                    f"{home}first_stage_less_layers": first,
                    f"{home}last_stage_less_layers": last,
                }
                try:
                    parts = pipelining._generate_llm_fqn_per_model_part(
                        stages * (1 + several), layers, first, last
                    )
                except ValueError:
                    parts = [[]]
                counts = [sum("layers." in name for name in part) for part in parts]
                settings = Settings(values, "job.toml", new=True)
                if min(counts[several : len(counts) - several] or [0]):
                    assert layers_of(settings, layers) == counts
                    seen += 1
                else:
                    with pytest.raises(InputError):
                        layers_of(settings, layers)
    assert seen > 100
