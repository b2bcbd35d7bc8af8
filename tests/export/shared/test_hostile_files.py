"""Runtime files that stand for more than any job has end in one error, soon."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from hetopt.errors import InputError
from hetopt.export.registry import reader
from hetopt.export.shared.shell.arguments import read_script

#: Sizes that a job of the torch program has to say.
MODEL = ("layers", "hidden", "heads", "kv_heads", "ffn", "vocab", "tied")
CALL = "pretrain --num-layers 8 --micro-batch-size 1"


def complaint(folder: Path, form: str, **files: str) -> str:
    for name, text in files.items():
        (folder / name.replace("_", ".")).write_text(text)
    began = time.process_time()
    with pytest.raises(InputError) as caught:
        reader(folder, form).read(folder)
    assert time.process_time() - began < 5
    said = str(caught.value)
    assert "\n" not in said
    assert len(said) < 500
    return said


@pytest.mark.parametrize(
    ("script", "said"),
    [
        (f"{CALL.replace(' 1', ' ' + '9' * 5000)}", "--micro-batch-size: is '999"),
        ("A=99999\n" + "A=$((A*A))\n" * 12 + CALL, "is more than a shell's 64 bits"),
        ("A=xxxxxxxx\n" + 'A="$A$A"\n' * 32 + CALL, "its variables stand for more"),
        ("A=(x y)\n" + "A=($A $A)\n" * 32 + CALL, "its variables stand for more"),
        ("x" * 200_000 + "\n" + CALL, "is larger than 131072 bytes"),
        (f"{CALL} --pipeline-model-parallel-size 999999999", "at most 10000 stages"),
        (
            f"{CALL} --pipeline-model-parallel-layout 'E(t*9999|)*9999L'",
            "stands for more than 1000000 letters",
        ),
        (f"{CALL} --nnodes x:x", "--nnodes: is 'x:x', expected a whole number"),
        (f"{CALL} --nnodes 0:0", "--nnodes: is '0:0', expected a whole number"),
        (f"{CALL} --hostfile {'x' * 5000}", "is not given, nor a hostfile"),
        (
            f"torchrun --nproc_per_node 1 {CALL.replace(' ', '.py ', 1)} "
            f"--recompute-granularity full --recompute-method {'x' * 5000}",
            "--recompute-method: is 'xxx",
        ),
    ],
    ids=[
        *("digits", "product", "doubling", "array", "long", "stages", "layout"),
        *("range", "none", "file", "method"),
    ],
)
def test_scripts(script: str, said: str, tmp_path: Path) -> None:
    assert said in complaint(tmp_path, "megatron", run_sh=script)


def test_hosts_of_too_many_ranks(tmp_path: Path) -> None:
    many = "a slots=999999\n" * 1000
    assert "more than 1000000 ranks" in complaint(
        tmp_path, "megatron", run_sh=CALL, hostfile=many
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[" * 5000, "is nested too deeply"),
        ("- 1\n" * 200_000, "holds more than 100000 values"),
        ("ds_parallel: {hetero_layers: [[8]], dp: 1, gpus_per_stage: 900000000, "
         "tp: 900000000, micro_batch_num_list: [1]}", "more than 1000000 places"),
        ("ds_parallel: {hetero_layers: [[8]], recompute: full, "
         "micro_batch_num_list: [1]}", "recompute: is 'full', expected a mapping"),
    ],
    ids=["depth", "values", "devices", "recompute"],
)  # fmt: skip
def test_strategies(text: str, said: str, tmp_path: Path) -> None:
    assert said in complaint(tmp_path, "hetu", plan_yaml=text)


STAGE: dict[str, object] = {
    **dict.fromkeys(("dp", "cp", "tp", "warmup"), 1),
    **{"first": 0, "end": 10, "zero": 1, "recompute": "none", "resharding": None},
}


def job_of(*stages: dict[str, object]) -> str:
    sizes = dict.fromkeys(MODEL, 8) | {"tied": False}
    training = {"microbatches": 1, "chunks": 1, "seq_len": 8, "global_batch": 8}
    job = {"model": sizes, "training": training, "stages": stages}
    return json.dumps(job)


def test_a_job_of_too_many_stages(tmp_path: Path) -> None:
    assert "stages: has 20000 entries, expected at most 10000" in complaint(
        tmp_path, "torch", job_json=job_of(*[STAGE] * 20_000)
    )


def test_a_job_of_too_many_ranks(tmp_path: Path) -> None:
    stage = {**STAGE, **dict.fromkeys(("dp", "cp", "tp"), 1000)}
    assert "has more than 1000000 ranks" in complaint(
        tmp_path, "torch", job_json=job_of(stage)
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("def f(:\n", "cannot be read as Python"),
        ("x = " + "(" * 3000 + ")" * 3000, "cannot be read as Python"),
        ("cfg.model.num_layers = 10 ** 10 ** 10\n", "num_layers: is '10 ** 10 ** 10'"),
        ("cfg.model.num_layers = -4\n", "num_layers: is '-4'"),
        ("cfg.model.num_layers = 8\n", "micro_batch_size: is missing"),
        (
            "cfg.model.num_layers = 8\ncfg.train.micro_batch_size = 1\n",
            "cannot tell how many ranks there are",
        ),
        ("import os\nos.remove('x')\n", "model.num_layers: is missing"),
        (f"cfg.model.num_layers = 0x{'f' * 5000}\n", "a number of more than 64 digits"),
        (f"cfg.model.num_layers = {'1+' * 5000}1\n", "is nested too deeply"),
        (
            "cfg.model.num_layers = 8\ncfg.train.micro_batch_size = 1\n"
            f"cfg.trainer.devices = 8\ncfg.model.hidden_size = '{'9' * 5000}'\n",
            "hidden_size: is '999",
        ),
    ],
    ids=[
        *("syntax", "depth", "sum", "negative", "batch", "ranks", "never run"),
        *("hexadecimal", "long sum", "digits"),
    ],
)
def test_recipes(text: str, said: str, tmp_path: Path) -> None:
    assert said in complaint(tmp_path, "nemo", recipe_py=text)


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ("{", "is not JSON"),
        ("[" * 5000, "is nested too deeply"),
        ('{"zero_optimization": {"stage": 7}}', "stage: is 7, expected"),
        ('{"gradient_accumulation_steps": 3}', "8 sequences are 8 micro-batches"),
    ],
)
def test_configurations_of_deepspeed(config: str, said: str, tmp_path: Path) -> None:
    script = (
        "deepspeed --num_gpus 1 pretrain_gpt.py --num-layers 8 --micro-batch-size 1 "
        "--global-batch-size 8 --no-pipeline-parallel --deepspeed "
        "--deepspeed_config ds.json"
    )
    assert said in complaint(tmp_path, "megatron", run_sh=script, ds_json=config)


@pytest.mark.parametrize("value", ["2024-13-45", "9" * 5000, "0x" + "f" * 5000])
def test_overrides_that_are_no_values_stay_text(value: str, tmp_path: Path) -> None:
    (tmp_path / "recipe.py").write_text("cfg.model.num_layers = 8\n")
    (tmp_path / "run.sh").write_text(
        "torchrun --nproc_per_node 1 pretrain.py train.micro_batch_size=1 "
        f"checkpoint.ours={value}"
    )
    found = reader(tmp_path, "nemo").read(tmp_path)
    assert "checkpoint.ours" in {each.argument for each in found.reported}


def test_a_configuration_whose_name_no_file_has_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "run.sh").write_text(
        "deepspeed --num_gpus 1 pretrain_gpt.py --num-layers 8 --micro-batch-size 1 "
        f"--deepspeed --deepspeed_config {'x' * 5000}"
    )
    found = reader(tmp_path, "megatron").read(tmp_path)
    told = [each.why for each in found.reported]
    assert any("which is not here" in why and len(why) < 200 for why in told)


def test_later_arguments_count_and_words_stay_together(tmp_path: Path) -> None:
    path = tmp_path / "run.sh"
    path.write_text("x --a 1 2 --b=3 --a 4 --c 5 6\n")
    found = read_script(path)
    assert found.values == {"a": "4", "b": "3", "c": "5"}
    assert found.lists == {"c": ("5", "6")}
