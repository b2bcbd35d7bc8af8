"""Megatron-LM is told the model of a config: checklists written from it by hand."""

import re
from pathlib import Path

import pytest

from hetopt.errors import InputError
from hetopt.export.back.importing import import_plan
from hetopt.export.bundle import bundle, write_folder
from hetopt.export.megatron.launcher import LAUNCHER
from hetopt.export.megatron.reading import read_megatron
from hetopt.problem.model.architecture import ARCHITECTURE_FIELDS
from hetopt.problem.model.stated import stated
from tests.export.scripts import told
from tests.with_configs import NAMES, job_of, problem_of

#: What ``pretrain_gpt.py`` is told of the plan and its training, not of the model.
NOT_THE_MODELS = {
    "--nproc_per_node",
    "--nnodes",
    "--node_rank",
    "--master_addr",
    "--master_port",
    "--seq-length",
    "--max-position-embeddings",
    "--tensor-model-parallel-size",
    "--pipeline-model-parallel-size",
    "--context-parallel-size",
    "--pipeline-model-parallel-layout",
    "--micro-batch-size",
    "--global-batch-size",
    "--optimizer",
    "--bf16",
    "--cross-entropy-loss-fusion",
    "--use-distributed-optimizer",
    "--overlap-grad-reduce",
}

#: RMSNorm, rotary embeddings of whole heads, no dropout: none is the parser's default.
PLAIN = (
    "--normalization RMSNorm --disable-bias-linear --position-embedding-type rope "
    "--rotary-percent 1.0 --hidden-dropout 0 --attention-dropout 0 "
)
UNTIED = "--untie-embeddings-and-output-weights "

#: Config -> arguments of the model, and fields that Megatron-LM has no setting for.
CHECKLISTS = {
    "llama-3.1-8b": (
        PLAIN + UNTIED + "--num-layers 32 --hidden-size 4096 --ffn-hidden-size 14336 "
        "--num-attention-heads 32 --kv-channels 128 --group-query-attention "
        "--num-query-groups 8 --norm-epsilon 1e-5 --swiglu --rotary-base 500000 "
        "--use-rope-scaling --rope-scaling-factor 8",
        "",
    ),
    "llama-3.1-70b": (
        PLAIN + UNTIED + "--num-layers 80 --hidden-size 8192 --ffn-hidden-size 28672 "
        "--num-attention-heads 64 --kv-channels 128 --group-query-attention "
        "--num-query-groups 8 --norm-epsilon 1e-5 --swiglu --rotary-base 500000 "
        "--use-rope-scaling --rope-scaling-factor 8",
        "",
    ),
    "llama-3.2-1b": (
        PLAIN + "--num-layers 16 --hidden-size 2048 --ffn-hidden-size 8192 "
        "--num-attention-heads 32 --kv-channels 64 --group-query-attention "
        "--num-query-groups 8 --norm-epsilon 1e-5 --swiglu --rotary-base 500000 "
        "--use-rope-scaling --rope-scaling-factor 32",
        "",
    ),
    "qwen2.5-0.5b": (
        PLAIN + "--num-layers 24 --hidden-size 896 --ffn-hidden-size 4864 "
        "--num-attention-heads 14 --kv-channels 64 --group-query-attention "
        "--num-query-groups 2 --norm-epsilon 1e-6 --swiglu --rotary-base 1000000 "
        "--add-qkv-bias",
        "",
    ),
    "qwen2.5-7b": (
        PLAIN + UNTIED + "--num-layers 28 --hidden-size 3584 --ffn-hidden-size 18944 "
        "--num-attention-heads 28 --kv-channels 128 --group-query-attention "
        "--num-query-groups 4 --norm-epsilon 1e-6 --swiglu --rotary-base 1000000 "
        "--add-qkv-bias",
        "",
    ),
    "qwen3-0.6b": (
        PLAIN + "--num-layers 28 --hidden-size 1024 --ffn-hidden-size 3072 "
        "--num-attention-heads 16 --kv-channels 128 --group-query-attention "
        "--num-query-groups 8 --norm-epsilon 1e-6 --swiglu --rotary-base 1000000 "
        "--qk-layernorm",
        "",
    ),
    "qwen3-8b": (
        PLAIN + UNTIED + "--num-layers 36 --hidden-size 4096 --ffn-hidden-size 12288 "
        "--num-attention-heads 32 --kv-channels 128 --group-query-attention "
        "--num-query-groups 8 --norm-epsilon 1e-6 --swiglu --rotary-base 1000000 "
        "--qk-layernorm",
        "",
    ),
    "gemma-2-9b": (
        # GeGLU becomes SwiGLU, one of the losses. Layers 2, 4, ... attend to all.
        PLAIN + "--num-layers 42 --hidden-size 3584 --ffn-hidden-size 14336 "
        "--num-attention-heads 16 --kv-channels 256 --group-query-attention "
        "--num-query-groups 8 --norm-epsilon 1e-6 --apply-layernorm-1p --swiglu "
        "--rotary-base 10000 --window-size 4095,0 --window-attn-skip-freq 2",
        "activation norm_place attention_softcap logit_softcap embedding_scale",
    ),
    "gemma-2-27b": (
        PLAIN + "--num-layers 46 --hidden-size 4608 --ffn-hidden-size 36864 "
        "--num-attention-heads 32 --kv-channels 128 --group-query-attention "
        "--num-query-groups 16 --norm-epsilon 1e-6 --apply-layernorm-1p --swiglu "
        "--rotary-base 10000 --window-size 4095,0 --window-attn-skip-freq 2",
        "activation norm_place attention_scale attention_softcap logit_softcap "
        "embedding_scale",
    ),
    "gemma-3-1b": (
        # Layers 6, 12, ... attend to all.
        PLAIN + "--num-layers 26 --hidden-size 1152 --ffn-hidden-size 6912 "
        "--num-attention-heads 4 --kv-channels 256 --group-query-attention "
        "--num-query-groups 1 --norm-epsilon 1e-6 --apply-layernorm-1p --swiglu "
        "--rotary-base 1000000 --qk-layernorm --window-size 511,0 "
        "--window-attn-skip-freq 6",
        "activation norm_place rotary_local_base embedding_scale",
    ),
    "mistral-7b-v0.3": (
        PLAIN + UNTIED + "--num-layers 32 --hidden-size 4096 --ffn-hidden-size 14336 "
        "--num-attention-heads 32 --kv-channels 128 --group-query-attention "
        "--num-query-groups 8 --norm-epsilon 1e-5 --swiglu --rotary-base 1000000",
        "",
    ),
    "mistral-7b-windowed": (
        PLAIN + UNTIED + "--num-layers 32 --hidden-size 4096 --ffn-hidden-size 14336 "
        "--num-attention-heads 32 --kv-channels 128 --group-query-attention "
        "--num-query-groups 8 --norm-epsilon 1e-6 --swiglu --rotary-base 10000 "
        "--window-size 4095,0",
        "",
    ),
    "mistral-small-24b": (
        # Heads of 128 although 5120 / 32 is 160.
        PLAIN + UNTIED + "--num-layers 40 --hidden-size 5120 --ffn-hidden-size 32768 "
        "--num-attention-heads 32 --kv-channels 128 --group-query-attention "
        "--num-query-groups 8 --norm-epsilon 1e-5 --swiglu --rotary-base 100000000",
        "",
    ),
    "olmo-2-7b": (
        PLAIN + UNTIED + "--num-layers 32 --hidden-size 4096 --ffn-hidden-size 11008 "
        "--num-attention-heads 32 --kv-channels 128 --norm-epsilon 1e-5 --swiglu "
        "--rotary-base 10000 --qk-layernorm",
        "norm_place qk_norm",
    ),
    "glm-4-9b": (
        PLAIN.replace("percent 1.0", "percent 0.5")
        + UNTIED
        + "--num-layers 40 --hidden-size 4096 --ffn-hidden-size 13696 "
        "--num-attention-heads 32 --kv-channels 128 --group-query-attention "
        "--num-query-groups 2 --norm-epsilon 1.5625e-7 --swiglu --rotary-base 10000 "
        "--rotary-interleaved --no-rope-fusion --add-qkv-bias",
        "",
    ),
    "glm-4-9b-0414": (
        PLAIN.replace("percent 1.0", "percent 0.5")
        + UNTIED
        + "--num-layers 40 --hidden-size 4096 --ffn-hidden-size 13696 "
        "--num-attention-heads 32 --kv-channels 128 --group-query-attention "
        "--num-query-groups 2 --norm-epsilon 1.5625e-7 --swiglu --rotary-base 10000 "
        "--rotary-interleaved --no-rope-fusion --add-qkv-bias",
        "norm_place",
    ),
    "phi-3-mini": (
        PLAIN + UNTIED + "--num-layers 32 --hidden-size 3072 --ffn-hidden-size 8192 "
        "--num-attention-heads 32 --kv-channels 96 --norm-epsilon 1e-5 --swiglu "
        "--rotary-base 10000",
        "",
    ),
    "phi-4": (
        PLAIN + UNTIED + "--num-layers 40 --hidden-size 5120 --ffn-hidden-size 17920 "
        "--num-attention-heads 40 --kv-channels 128 --group-query-attention "
        "--num-query-groups 10 --norm-epsilon 1e-5 --swiglu --rotary-base 250000",
        "",
    ),
    "smollm3-3b": (
        # Layers 4, 8, ... have no rotary embeddings.
        PLAIN + "--num-layers 36 --hidden-size 2048 --ffn-hidden-size 11008 "
        "--num-attention-heads 16 --kv-channels 128 --group-query-attention "
        "--num-query-groups 4 --norm-epsilon 1e-6 --swiglu --rotary-base 5000000 "
        "--no-rope-freq 4",
        "",
    ),
}


def values(arguments: dict[str, str]) -> dict[str, str | float]:
    """Return arguments with numbers as numbers."""

    def value(text: str) -> str | float:
        return float(text) if re.fullmatch(r"[0-9.]+(e-?[0-9]+)?", text) else text

    return {name: value(text) for name, text in arguments.items()}


def told_of_model(name: str, **model: object) -> dict[str, str]:
    """Return what a script says of a config's model."""
    files = bundle(job_of(problem_of(name, **model)), LAUNCHER, allow_lossy=True)
    given = told(next(text for path, text in files.items() if path.endswith(".sh")))
    return {name: text for name, text in given.items() if name not in NOT_THE_MODELS}


def test_every_config_has_a_checklist() -> None:
    assert sorted(CHECKLISTS) == NAMES
    assert len(NAMES) >= 15


@pytest.mark.parametrize("name", NAMES)
def test_arguments_are_the_configs(name: str) -> None:
    expected, _ = CHECKLISTS[name]
    listed = told(f"exec {expected}")
    assert values(told_of_model(name)) == values(listed)


@pytest.mark.parametrize("name", NAMES)
def test_what_has_no_argument_is_a_loss_by_name(name: str) -> None:
    job = job_of(problem_of(name))
    lost = [re.match(r"model\.(\w+) ", loss.what) for loss in LAUNCHER.losses(job)]
    names = [match[1] for match in lost if match]
    assert len(names) == len(lost)
    assert sorted(names) == sorted(CHECKLISTS[name][1].split())
    assert ("LOSSY.md" in bundle(job, LAUNCHER, allow_lossy=True)) == bool(names)


@pytest.mark.parametrize(
    ("model", "expected", "lost"),
    [
        ({"activation": "quick-gelu"}, "--quick-geglu --no-bias-gelu-fusion", ""),
        ({"activation": "gelu"}, "--swiglu", "activation"),
        ({"gated": False, "activation": "gelu"}, "--no-bias-gelu-fusion", ""),
        ({"gated": False, "activation": "gelu-tanh"}, "", "activation"),
        (
            {"gated": False, "activation": "squared-relu"},
            "--squared-relu --no-bias-gelu-fusion",
            "",
        ),
        ({"qkv_bias": True, "out_bias": True}, "--swiglu --add-qkv-bias", "out_bias"),
        ({"rotary_base": 10000.5}, "--rotary-base 10000 --swiglu", "rotary_base"),
        (
            {"rotary_scaling": {"kind": "linear", "factor": 4}},
            "--rotary-seq-len-interpolation-factor 4 --swiglu",
            "",
        ),
        ({"rotary_scaling": {"kind": "yarn", "factor": 4}}, "", "rotary_scaling"),
        (
            {"rotary_scaling": {"kind": "llama3", "factor": 8, "high_freq_factor": 3}},
            "",
            "rotary_scaling",
        ),
        ({"parallel_mlp": True}, "", "parallel_mlp"),
        (
            {"sliding_window": 100, "full_layers": [0, 5]},
            "--window-size 99,0 --window-attn-skip-freq [0,1,1,1,1,0" + ",1" * 26 + "]",
            "",
        ),
        ({"hidden_dropout": 0.1}, "--hidden-dropout 0.1", ""),
    ],
)
def test_what_is_written_by_hand(
    model: dict[str, object], expected: str, lost: str
) -> None:
    given = told_of_model("mistral-7b-v0.3", **model)
    assert values(told(f"exec {expected}")).items() <= values(given).items()
    assert ("--swiglu" in given) == model.get("gated", True) or "quick" in expected
    losses = list(LAUNCHER.losses(job_of(problem_of("mistral-7b-v0.3", **model))))
    assert [loss.what.split()[0] for loss in losses] == (
        [f"model.{lost}"] if lost else []
    )


def test_a_window_leaves_sequences_whole() -> None:
    job = job_of(problem_of("mistral-7b-windowed"), cp=2)
    assert any("sliding window" in loss.what for loss in LAUNCHER.losses(job))
    job = job_of(problem_of("mistral-7b-v0.3"), cp=2)
    assert not list(LAUNCHER.losses(job))


@pytest.mark.parametrize(
    "name", [name for name in NAMES if not CHECKLISTS[name][1].strip()]
)
def test_what_is_written_is_read_back_as_the_problems(
    name: str, tmp_path: Path
) -> None:
    problem = problem_of(name)
    write_folder(
        str(tmp_path / "out"), bundle(job_of(problem), LAUNCHER, allow_lossy=False)
    )
    read_back = read_megatron(tmp_path / "out")
    for field in ARCHITECTURE_FIELDS:
        if field in read_back.says:
            assert read_back.says[field] == stated(problem.model, field), field
    assert {"norm_eps", "rotary_base", "qkv_bias", "sliding_window"} <= {
        *read_back.says
    }
    imported = import_plan(read_back, problem)
    assert imported.problem.model == problem.model


@pytest.mark.parametrize(
    ("name", "changed", "said"),
    [
        ("qwen2.5-7b", {"qkv_bias": False}, "qkv_bias: the files say true, the prob"),
        ("qwen3-8b", {"norm_eps": 1e-5}, "norm_eps: the files say 1e-06, the problem"),
        ("llama-3.1-8b", {"rotary_base": 1e4}, "rotary_base: the files say 500000, "),
        ("qwen3-8b", {"qk_norm": "all"}, "qk_norm: the files say head, the problem a"),
        ("mistral-7b-windowed", {"sliding_window": 99}, "sliding_window: the files sa"),
        ("phi-4", {"activation": "gelu"}, "activation: the files say silu, the prob"),
        (
            "llama-3.1-8b",
            {"rotary_scaling": {"kind": "llama3", "factor": 4}},
            "rotary_scaling: the files say {kind: llama3, factor: 8",
        ),
    ],
)
def test_files_of_another_model_are_refused(
    name: str, changed: dict[str, object], said: str, tmp_path: Path
) -> None:
    files = bundle(job_of(problem_of(name)), LAUNCHER, allow_lossy=False)
    write_folder(str(tmp_path / "out"), files)
    with pytest.raises(InputError) as caught:
        import_plan(read_megatron(tmp_path / "out"), problem_of(name, **changed))
    assert str(caught.value).startswith(said)


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("--norm-epsilon 1e-06", "--norm-epsilon x", "--norm-epsilon: is 'x', expe"),
        ("--rotary-base 10000", "--rotary-base nan", "--rotary-base: is 'nan', expec"),
        ("--window-size 4095,0", "--window-size 4095", "--window-size: is '4095', ex"),
        ("4095,0", "4095,0 --window-attn-skip-freq [0,1]", "--window-attn-skip-freq:"),
        ("4095,0", "4095,0 --window-attn-skip-freq 0", "--window-attn-skip-freq: is "),
        (
            "4095,0",
            "4095,0 --window-attn-skip-freq 2 --no-rope-freq 4",
            "--no-rope-freq: is '4' and window_attn_skip_freq is '2': give both the sa",
        ),
        (
            "4095,0",
            "4095,0 --no-rope-freq 4",
            "--no-rope-freq: is '4' and window_attn_skip_freq is left out: give both",
        ),
        (
            "4095,0",
            "4095,0 --use-rope-scaling --rope-scaling-factor 0",
            "--rope-scaling-factor: is 0, expected more than 0",
        ),
        (
            "4095,0",
            "4095,0 --use-rope-scaling --rotary-seq-len-interpolation-factor 2",
            "--rotary-seq-len-interpolation-factor: is given beside use_rope_scaling",
        ),
        ("--swiglu", "--swiglu --squared-relu", "--squared-relu: is given beside swig"),
    ],
)
def test_wrong_values_name_file_and_argument(
    before: str, after: str, said: str, tmp_path: Path
) -> None:
    files = bundle(
        job_of(problem_of("mistral-7b-windowed")), LAUNCHER, allow_lossy=False
    )
    changed = {name: text.replace(before, after) for name, text in files.items()}
    assert changed != files
    write_folder(str(tmp_path / "out"), changed)
    with pytest.raises(InputError) as caught:
        read_megatron(tmp_path / "out")
    assert said in str(caught.value)
    assert ".sh" in str(caught.value)


@pytest.mark.parametrize(
    ("given", "window", "full", "turned"),
    [
        ("--no-rope-freq 4", None, (3, 7), False),
        ("--window-size 99,0", 100, (), None),
        ("--window-size 99,0 --no-rope-freq [0,0,0,0,0,0,0,0]", 100, (), True),
        (
            "--window-size 99,0 --window-attn-skip-freq 4 --no-rope-freq "
            "[0,0,0,1,0,0,0,1]",
            100,
            (3, 7),
            False,
        ),
        (
            "--window-size 99,0 --window-attn-skip-freq 4 --no-rope-freq "
            "[0,0,0,0,0,0,0,0]",
            100,
            (3, 7),
            True,
        ),
    ],
)
def test_layers_without_window_and_without_rotary_embedding(
    given: str,
    window: int | None,
    full: tuple[int, ...],
    turned: bool | None,
    tmp_path: Path,
) -> None:
    (tmp_path / "run.sh").write_text(
        f"torchrun --nproc_per_node 1 pretrain_gpt.py --num-layers 8 {given} "
        "--hidden-size 64 --num-attention-heads 4 --micro-batch-size 1"
    )
    says = read_megatron(tmp_path).says
    assert says["sliding_window"] == window
    assert says["full_layers"] == full
    assert says.get("rotary_full_layers") == turned
