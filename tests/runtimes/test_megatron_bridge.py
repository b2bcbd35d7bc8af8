"""What we write for Megatron-Bridge is there, read from its own source.

Importing it takes Transformer Engine, which takes a GPU; its files tell enough.
"""

import ast
import importlib.util
from dataclasses import replace
from pathlib import Path

import pytest

from hetopt.export.bundle import bundle
from hetopt.export.nemo.launcher import LAUNCHER, recipe
from hetopt.export.shared.one_mesh import launched
from tests.export.jobs import draw_job
from tests.with_configs import NAMES, job_of, problem_of


def root() -> Path | None:
    """Return the folder that holds the package ``megatron``, bridge included."""
    spec = importlib.util.find_spec("megatron")
    for place in spec.submodule_search_locations or () if spec else ():
        if (Path(place) / "bridge").is_dir():
            return Path(place).parent
    return None


ROOT = root()

pytestmark = [
    pytest.mark.runtimes,
    pytest.mark.skipif(ROOT is None, reason="megatron-bridge is not installed"),
]

CLASSES = {
    "model": (
        ("megatron.bridge.models.gpt_provider", "GPTModelProvider"),
        ("megatron.core.transformer.transformer_config", "TransformerConfig"),
        ("megatron.core.model_parallel_config", "ModelParallelConfig"),
    ),
    "train": (("megatron.bridge.training.config", "TrainingConfig"),),
    "dataset": (
        (
            "megatron.core.datasets.blended_megatron_dataset_config",
            "BlendedMegatronDatasetConfig",
        ),
        ("megatron.core.datasets.gpt_dataset", "GPTDatasetConfig"),
        ("megatron.bridge.training.config", "DataloaderConfig"),
    ),
    "tokenizer": (("megatron.bridge.training.tokenizers.config", "TokenizerConfig"),),
    "optimizer": (("megatron.core.optimizer.optimizer_config", "OptimizerConfig"),),
    "ddp": (
        (
            "megatron.core.distributed.distributed_data_parallel_config",
            "DistributedDataParallelConfig",
        ),
    ),
    "container": (("megatron.bridge.training.config", "ConfigContainer"),),
}
CALLS = {
    "GPTModelProvider": "model",
    "TrainingConfig": "train",
    "GPTDatasetConfig": "dataset",
    "TokenizerConfig": "tokenizer",
    "ConfigContainer": "container",
}


def source(module: str) -> ast.Module:
    assert ROOT is not None
    path = ROOT / (module.replace(".", "/") + ".py")
    return ast.parse(path.read_text("utf-8"))


def fields(section: str) -> set[str]:
    """Return the annotated names of a section's classes."""
    found = set()
    for module, name in CLASSES[section]:
        (node,) = (
            node
            for node in source(module).body
            if isinstance(node, ast.ClassDef) and node.name == name
        )
        found |= {
            each.target.id
            for each in node.body
            if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)
        }
    return found


def test_fields_of_the_recipe_are_its_own() -> None:
    known = {section: fields(section) for section in CLASSES}
    copied = 0
    for seed in range(30):
        job = launched(draw_job(seed, alike=True, schedules=("1f1b",)))
        training = replace(job.problem.training, zero=1, shard_group=1)
        grouped = replace(job, problem=replace(job.problem, training=training))
        for content in map(recipe, (job, grouped)):
            assert content.pop("mixed_precision") in (None, "bf16_mixed", "fp16_mixed")
            for section, values in content.items():
                assert set(values) <= known[section]
        copied += "num_distributed_optimizer_instances" in content["ddp"]
    assert copied > 5
    for name in NAMES:
        assert set(recipe(job_of(problem_of(name)))["model"]) <= known["model"]


@pytest.mark.parametrize("config", [None, "gemma-2-9b"])
def test_the_program_uses_what_there_is(config: str | None) -> None:
    job = draw_job(11, alike=True, schedules=("1f1b",))
    if config is not None:
        job = job_of(problem_of(config))
    program = ast.parse(bundle(job, LAUNCHER, allow_lossy=True)["pretrain.py"])
    imported = 0
    for node in ast.walk(program):
        if isinstance(node, ast.ImportFrom) and node.module:
            names = {
                name
                for each in ast.walk(source(node.module))
                for name in (
                    [each.name]
                    if isinstance(each, ast.ClassDef | ast.FunctionDef)
                    else [alias.name for alias in each.names]
                    if isinstance(each, ast.ImportFrom)
                    else []
                )
            }
            assert {alias.name for alias in node.names} <= names
            imported += len(node.names)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            section = CALLS.get(node.func.id)
            if section:
                given = {word.arg for word in node.keywords if word.arg}
                assert given <= fields(section)
    assert imported > 8
