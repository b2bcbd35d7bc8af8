"""What we export is what megatron-core's own parser and checks accept."""

import random
import re
import shlex
import warnings
from typing import Any

import pytest
import yaml

with warnings.catch_warnings():
    # Of what is not installed beside it.
    warnings.simplefilter("ignore")
    layouts = pytest.importorskip(
        "megatron.core.transformer.pipeline_parallel_layer_layout"
    )
    configs = pytest.importorskip("megatron.core.transformer.transformer_config")
    utils = pytest.importorskip("megatron.core.transformer.utils")
    blocks = pytest.importorskip("megatron.core.transformer.transformer_block")
    import torch

from hetopt.errors import InputError
from hetopt.export.bundle import bundle
from hetopt.export.job import Job
from hetopt.export.megatron.launcher import LAUNCHER as MEGATRON
from hetopt.export.nemo.launcher import LAUNCHER as NEMO
from hetopt.export.nemo.settings import Recipe
from hetopt.export.shared.megatron.pipeline import division_of
from hetopt.problem.layout import (
    layout_chunks,
    layout_text,
    predictions_fault,
)
from hetopt.problem.model.stated import stated
from tests.export.jobs import draw_job
from tests.with_configs import NAMES, job_of, problem_of

pytestmark = pytest.mark.runtimes

PLANS = 500
#: Layouts that were published, and the stages that they are for.
PUBLISHED = {
    "Et*2|(t*2|)*34,t*3|(t*2|)*3,tL": 8,
    "Et*3|(tt|)*29,m|L": 16,
    "Et|(tt|)*62,tL": 8,
}


def arguments(job: Job, allow_lossy: bool) -> dict[str, str]:
    """Return what a script tells pretrain_gpt.py."""
    files = bundle(job, MEGATRON, allow_lossy=allow_lossy)
    text = next(text for name, text in files.items() if name.endswith(".sh"))
    (command,) = re.findall(r"^exec .*", text.replace("\\\n", " "), re.MULTILINE)
    words = shlex.split(command.replace("=", " "))
    pairs = zip(words, [*words[1:], "--"], strict=True)
    return {a: "" if b.startswith("--") else b for a, b in pairs if a[:2] == "--"}


def counts(layout: Any) -> list[int]:
    """Return decoder layers per stage."""
    kind = layouts.LayerType.decoder
    return [stages[0].count(kind) for stages in layout.layout]


def config(**fields: Any) -> Any:
    """Return megatron-core's configuration, which checks itself."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return configs.TransformerConfig(
            pipeline_dtype=torch.bfloat16, bf16=True, **fields
        )


def from_arguments(told: dict[str, str]) -> Any:
    """Return the configuration that pretrain_gpt.py would make of its arguments."""
    names = {
        "num_layers": "--num-layers",
        "hidden_size": "--hidden-size",
        "ffn_hidden_size": "--ffn-hidden-size",
        "num_attention_heads": "--num-attention-heads",
        "kv_channels": "--kv-channels",
        "num_query_groups": "--num-query-groups",
        "tensor_model_parallel_size": "--tensor-model-parallel-size",
        "pipeline_model_parallel_size": "--pipeline-model-parallel-size",
        "context_parallel_size": "--context-parallel-size",
        "recompute_num_layers": "--recompute-num-layers",
    }
    fields: dict[str, Any] = {
        name: int(told[argument])
        for name, argument in names.items()
        if argument in told
    }
    for name, argument in (
        ("recompute_granularity", "--recompute-granularity"),
        ("recompute_method", "--recompute-method"),
        ("pipeline_model_parallel_layout", "--pipeline-model-parallel-layout"),
        ("normalization", "--normalization"),
    ):
        if argument in told:
            fields[name] = told[argument]
    return config(
        sequence_parallel="--sequence-parallel" in told,
        gated_linear_unit="--swiglu" in told,
        add_bias_linear="--disable-bias-linear" not in told,
        **fields,
    )


@pytest.mark.parametrize("alike", [True, False], ids=["alike", "mixed"])
def test_no_plan_that_we_accept_is_rejected(alike: bool) -> None:
    accepted = 0
    for seed in range(PLANS):
        job = draw_job(seed, alike=alike, granularity="block" if seed % 5 else "layer")
        losses = list(MEGATRON.losses(job))
        if any(loss.instead is None for loss in losses):
            continue
        accepted += not losses
        told = arguments(job, allow_lossy=True)
        made = from_arguments(told)
        layout = made.pipeline_model_parallel_layout
        assert layout.virtual_pipeline_model_parallel_size == 1
        assert tuple(counts(layout)) == job.layers
        if not losses:
            strategy = job.stages[0].strategy
            assert made.tensor_model_parallel_size == strategy.tp
            assert made.context_parallel_size == strategy.cp
            granularity = None if strategy.recompute == "none" else strategy.recompute
            assert made.recompute_granularity == granularity
    assert accepted > 10


@pytest.mark.parametrize("alike", [True, False], ids=["alike", "mixed"])
def test_no_recipe_that_we_accept_is_rejected(alike: bool) -> None:
    """Megatron-Bridge's model fields are those of megatron-core's configuration."""
    known = {field for field in configs.TransformerConfig.__dataclass_fields__}
    for seed in range(PLANS):
        job = draw_job(seed, alike=alike)
        if any(loss.instead is None for loss in NEMO.losses(job)):
            continue
        files = bundle(job, NEMO, allow_lossy=True)
        fields = yaml.safe_load(files["recipe.yaml"])["model"]
        made = config(**{name: fields[name] for name in fields if name in known})
        assert tuple(counts(made.pipeline_model_parallel_layout)) == job.layers
        assert set(fields) - known == {
            # Megatron-Bridge's own.
            "vocab_size",
            "should_pad_vocab",
            "seq_length",
            "position_embedding_type",
            "rotary_base",
            "rotary_percent",
            "share_embeddings_and_output_weights",
        }


@pytest.mark.parametrize("name", NAMES)
def test_the_model_of_a_config_is_megatron_cores(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Layers with windows, and how far these reach, are computed by megatron-core."""
    problem = problem_of(name)
    job = job_of(problem)
    told = arguments(job, allow_lossy=True)
    made = from_arguments(told)
    model, own = problem.model, problem.model.architecture
    size = told.get("--window-size")
    window = tuple(map(int, size.split(","))) if size else None
    skipped = told.get("--window-attn-skip-freq")
    has_window = [
        utils.is_layer_window_attention(window, int(skipped) if skipped else None, n)
        for n in range(1, model.layers + 1)
    ]
    if own.sliding_window is None:
        # Layers may differ in rotary embeddings alone.
        assert not any(has_window)
    else:
        assert tuple(has_window) == own.windows(model.layers)
    if window is not None:
        ones = torch.ones
        # It asks for a GPU, which nothing here needs.
        monkeypatch.setattr(
            torch, "ones", lambda *sizes, device, **kind: ones(*sizes, **kind)
        )
        masked = utils.get_sliding_window_causal_mask(8192, 8192, window)
        seen = int((~masked[-1]).sum())
        assert seen == own.sliding_window
    assert made.kv_channels == model.head_dim
    assert made.num_query_groups in (None, model.kv_heads)
    recipe = yaml.safe_load(bundle(job, NEMO, allow_lossy=True)["recipe.yaml"])["model"]
    known = configs.TransformerConfig.__dataclass_fields__
    bridge = config(**{field: recipe[field] for field in recipe if field in known})
    assert bridge.layernorm_epsilon == own.norm_eps
    assert bridge.layernorm_zero_centered_gamma == own.norm_zero_centred
    assert bridge.add_qkv_bias == stated(model, "qkv_bias")
    assert (bridge.hidden_dropout, bridge.attention_dropout) == (0.0, 0.0)
    assert bridge.qk_layernorm == (own.qk_norm != "none")
    if own.attention_scale is not None:
        assert bridge.softmax_scale == own.attention_scale


def test_chunks_are_virtual_stages() -> None:
    """A layout of several chunks is cut as the plan is, and the degree follows."""
    for layers, chunks in (((3, 3), 2), ((4, 2, 1), 3), ((1, 2, 3, 1), 4)):
        made = config(
            num_layers=sum(layers) * chunks,
            hidden_size=64,
            num_attention_heads=4,
            pipeline_model_parallel_size=len(layers),
            pipeline_model_parallel_layout=layout_text(layers * chunks),
        )
        layout = made.pipeline_model_parallel_layout
        assert layout.virtual_pipeline_model_parallel_size == chunks
        kind = layouts.LayerType.decoder
        for stage, count in zip(layout.layout, layers, strict=True):
            assert [part.count(kind) for part in stage] == [count] * chunks


@pytest.mark.parametrize("text", PUBLISHED)
def test_published_layouts_are_megatron_cores(text: str) -> None:
    """So is how hetopt writes them: the same in every chunk."""
    chunks = layout_chunks(text)
    layers, predictions = [chunk.count("t") for chunk in chunks], text.count("m")
    texts = [text] if predictions else [text, layout_text(layers)]
    for each in texts:
        made = config(
            num_layers=sum(layers),
            hidden_size=64,
            num_attention_heads=4,
            pipeline_model_parallel_size=PUBLISHED[text],
            pipeline_model_parallel_layout=each,
            mtp_num_layers=predictions or None,
        )
        assert letters(made.pipeline_model_parallel_layout.layout) == chunks


def test_layouts_mean_the_same_to_both_readers() -> None:
    """On random texts, right and wrong ones: same chunks, or refused by both."""
    rng = random.Random(7)
    right = 0
    for _ in range(20_000):
        text = "E" if rng.random() < 0.9 else ""
        for _ in range(rng.randint(0, 5)):
            text += rng.choice(
                ("t", "tt", "|", "t*3", "|t", "(t|)*2", "(tt|t)*3", ",", "(t*2|)*2")
            )
        text += rng.choice(("", "", "", "m", "m|", "|m*2", "|m|", "m|m"))
        text += rng.choice(("L", "tL", "|L", "L", "tL", "t*12L", "", "x"))
        stages = 1
        try:
            chunks = layouts.PipelineParallelLayerLayout.parse_str_to_list(text)
            stages = rng.choice([p for p in (1, 2, 3) if len(chunks) % p == 0])
            layout = layouts.PipelineParallelLayerLayout(text, stages)
            count = layout.flatten_layout.count
            kinds = layouts.LayerType
            layout.validate_layer_layout(count(kinds.decoder), count(kinds.mtp))
        except (AssertionError, IndexError):
            with pytest.raises(ValueError, match=r"is not|has"):
                ensured(text, stages)
            continue
        assert ensured(text, stages) == letters(layout.layout), text
        right += 1
    assert right > 5_000


def test_layers_without_a_layout_are_spread_as_megatron_core_does() -> None:
    """For random arguments: as many layers in every chunk, or refused by both."""
    rng = random.Random(3)
    right = 0
    for _ in range(4_000):
        stages = rng.choice((2, 3, 4))
        told = {
            "num_layers": rng.randint(2, 60),
            "pipeline_model_parallel_size": stages,
            "virtual_pipeline_model_parallel_size": rng.choice((None, 2, 3)),
            "num_layers_in_first_pipeline_stage": rng.choice((None, None, 2, 6)),
            "num_layers_in_last_pipeline_stage": rng.choice((None, None, 3, 6)),
            "account_for_embedding_in_pipeline_split": rng.random() < 0.4,
            "account_for_loss_in_pipeline_split": rng.random() < 0.4,
        }
        chunks = told["virtual_pipeline_model_parallel_size"] or 1
        arguments = Recipe({f"model.{name}": told[name] for name in told}, "x")
        try:
            made = config(hidden_size=64, num_attention_heads=4, **told)
            expected = [
                blocks.get_num_layers_to_build(made, vp_stage=chunk, pp_rank=stage)
                for chunk in range(chunks)
                for stage in range(stages)
            ]
            # Of ends that hold more than all layers it leaves less than none.
            assert min(expected) >= 0
        except (AssertionError, ValueError):
            with pytest.raises(InputError):
                division_of(arguments.arguments)
            continue
        found = division_of(arguments.arguments)
        each = [*found.layers] * (chunks if found.layout is None else 1)
        assert each == expected, told
        if found.layout is not None:
            layers = [chunk.count("t") for chunk in layout_chunks(found.layout)]
            assert layers == expected
        right += 1
    assert right > 500


def ensured(text: str, stages: int) -> list[str]:
    """Return the chunks of a layout; ValueError if it is against the rules."""
    chunks = layout_chunks(text)
    if fault := predictions_fault(chunks, stages):
        raise ValueError(fault)
    return chunks


def letters(layout: list[list[list[Any]]]) -> list[str]:
    """Return megatron-core's chunks as letters, first chunks of all stages first."""
    of = {"embedding": "E", "decoder": "t", "mtp": "m", "loss": "L"}
    return [
        "".join(of[kind.name] for kind in stage[chunk])
        for chunk in range(len(layout[0]))
        for stage in layout
    ]
