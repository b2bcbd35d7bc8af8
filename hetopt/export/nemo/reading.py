"""Reads recipes of Megatron-Bridge and NeMo, written by hetopt or by hand.

Settings come from Python programs, which are parsed and never run, then from YAML
files, then from ``section.name=value`` after the program of a launch script; later ones
replace earlier ones.
"""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import yaml

from hetopt.errors import InputError
from hetopt.export.launcher import Reader
from hetopt.export.nemo.settings import BRIDGE, Recipe, bridge_path
from hetopt.export.shared.hosts import rank_hosts
from hetopt.export.shared.megatron.chunks import chunk_notes
from hetopt.export.shared.megatron.pipeline import division_of, pipeline_of
from hetopt.export.shared.megatron.programs import ensure_decoder
from hetopt.export.shared.megatron.says import notes
from hetopt.export.shared.python import followed, parse_program
from hetopt.export.shared.settings import load_settings
from hetopt.export.shared.shell.arguments import (
    ShellArguments,
    read_script,
    script_paths,
)
from hetopt.export.shared.world import world_size
from hetopt.export.understood import not_priced

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from hetopt.export.pipeline import PipelineReadBack
    from hetopt.export.shared.hosts import RankHosts
    from hetopt.results.reported import Reported

_DEGREE = "model.tensor_model_parallel_size"
_OVERLAP = "model.overlap_p2p_comm"
#: Classes of configuration -> section.
_CLASSES = {
    "TrainingConfig": "train",
    "OptimizerConfig": "optimizer",
    "SchedulerConfig": "scheduler",
    "DistributedDataParallelConfig": "ddp",
    "CommOverlapConfig": "comm_overlap",
    "MegatronCommOverlapCallback": "comm_overlap",
    "MixedPrecisionConfig": "mixed_precision",
    "GPTDatasetConfig": "dataset",
    "MockGPTDatasetConfig": "dataset",
    "TokenizerConfig": "tokenizer",
    "CheckpointConfig": "checkpoint",
    "LoggerConfig": "logger",
    "RNGConfig": "rng",
    "MegatronStrategy": "trainer.strategy",
    "Trainer": "trainer",
    "MockDataModule": "data",
    "PreTrainingDataModule": "data",
}


def looks_like_nemo(folder: Path) -> bool:
    """Whether a recipe of a folder sets ``model.tensor_model_parallel_size``."""
    return any(
        bridge_path(path) == _DEGREE for path in _read(folder, _scripts(folder))[0]
    )


def read_nemo(folder: Path) -> PipelineReadBack:
    """Read the recipe of a folder, and its launch scripts if there are any.

    Raises
    ------
    InputError
        The recipe is malformed, leaves out what decides the pipeline, or asks for what
        Megatron-Bridge refuses or hetopt cannot price; see
        ``hetopt.export.launcher.Reader``.
    """
    scripts = _scripts(folder)
    values, told = _read(folder, scripts)
    for script in scripts:
        ensure_decoder(script.program, script.names, script.file)
    recipe = Recipe(values, str(folder))
    arguments = recipe.arguments
    if "--num-layers" not in arguments and "--pipeline-model-parallel-layout" not in (
        arguments
    ):
        msg = (
            "is missing: the model is of a class or checkpoint that hetopt cannot "
            "read; write it into a YAML file of overrides"
        )
        raise InputError(msg, file=str(folder), field="model.num_layers")
    division_of(arguments)
    arguments.count("--micro-batch-size")
    places = rank_hosts(folder)
    world = _world(recipe, scripts, places)
    found = pipeline_of(arguments, world, places, folder)
    missing = tuple(
        not_priced(path, "is not given: hetopt takes the problem's")
        for path, name in (
            ("model.hidden_size", "--hidden-size"),
            ("model.seq_length", "--seq-length"),
            ("mixed_precision", "--bf16"),
        )
        if name not in arguments and not recipe.has(path)
    )
    says = {**found.says, **recipe.says}
    if not recipe.has("mixed_precision"):
        for name in ("precision", "gradients"):
            says.pop(name, None)
    return replace(
        found,
        says=says,
        reported=(
            *missing,
            *told,
            *(each for script in scripts[:1] for each in script.report(BRIDGE)),
            *recipe.reported,
            *_transfers(recipe, found.chunks),
            *chunk_notes(arguments, found, recipe.spelled),
            *notes(arguments.values, arguments.wrong, recipe.spelled),
            *BRIDGE.report(arguments.values.left(), recipe.spelled),
        ),
    )


def _transfers(recipe: Recipe, chunks: int) -> Iterator[Reported]:
    """Yield a report if a recipe does not decide whether transfers overlap.

    Megatron-core overlaps those of virtual stages only on request. Megatron-Bridge and
    NeMo 2 request it if a recipe configures overlaps at all.
    """
    if chunks > 1 and not recipe.says_overlap:
        why = (
            "is not given, and megatron-core's default is false: hetopt prices "
            "transfers between virtual stages as overlapped with computation, which "
            "true does"
        )
        yield not_priced(_OVERLAP, why)


def _world(
    recipe: Recipe, scripts: list[ShellArguments], places: RankHosts | None
) -> int:
    if places is not None:
        return len(places)
    trainer = recipe.world()
    if trainer is not None:
        return trainer
    return world_size(scripts or [ShellArguments(file=recipe.file)])


def _scripts(folder: Path) -> list[ShellArguments]:
    """Return launch scripts of Python programs."""
    read = map(read_script, script_paths(folder))
    return [one for one in read if one.program is not None]


def _read(
    folder: Path, scripts: Iterable[ShellArguments]
) -> tuple[dict[str, Any], list[Reported]]:
    """Return values by path, and reports of what hetopt cannot read in programs."""
    values: dict[str, Any] = {}
    told: list[Reported] = []
    for path in sorted(folder.glob("*.py")):
        found = _program(path)
        values |= found.values
        told += found.reported()
    for path in sorted([*folder.glob("*.yaml"), *folder.glob("*.yml")]):
        data = load_settings(path).data
        values |= dict(_leaves(data)) if isinstance(data, dict) else {}
    for script in scripts:
        for name, text in script.overrides.items():
            values[name] = _override(text)
    return values, told


def _override(text: str) -> Any:
    """Return a value from a command line; the text if it is not YAML."""
    try:
        value = yaml.safe_load(text)
        # Of a number that is too long to be written this raises ValueError.
        str(value)
    except (yaml.YAMLError, ValueError, RecursionError):
        return text
    return value


def _leaves(data: dict[Any, Any], home: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in data.items():
        if isinstance(value, dict) and value:
            yield from _leaves(value, f"{home}{key}.")
        else:
            yield f"{home}{key}", value


def _program(path: Path) -> _Assignments:
    """Return what a Python program assigns, without running it."""
    found = _Assignments()
    with followed(str(path)):
        found.visit(parse_program(path))
    if len(found.recipes) > 1:
        names = " and ".join(list(found.recipes)[:3])
        msg = f"holds several recipes, {names}: keep the one you mean"
        raise InputError(msg, file=str(path))
    return found


class _Assignments(ast.NodeVisitor):
    """Collects ``config.section.name = value`` and arguments of known classes.

    Attributes
    ----------
    values
        Value by path; an expression that is no literal is its text.
    recipes
        Functions that assign values.
    undecided
        Conditions and loops that contain such assignments.
    opaque
        Variable or section -> the call that makes it, whose result hetopt cannot know.
    """

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self.recipes: dict[str, None] = {}
        self.undecided: dict[str, None] = {}
        self.opaque: dict[str, str] = {}
        self._made: dict[str, str] = {}
        self._function = ""
        self._conditions: list[str] = []

    def reported(self) -> list[Reported]:
        """Return reports of what hetopt cannot read."""
        told = [
            not_priced(text, "hetopt cannot evaluate it and reads all of its lines")
            for text in self.undecided
        ]
        for name, call in self.opaque.items():
            why = f"hetopt cannot read what {call[:60]} makes, and takes defaults"
            told.append(not_priced(name, why))
        return told

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        """Visit a function under its name."""
        outer, self._function = self._function, node.name
        self.generic_visit(node)
        self._function = outer

    def visit_If(self, node: ast.If) -> None:
        """Visit all branches of a condition."""
        if ast.unparse(node.test) == "__name__ == '__main__'":
            self.generic_visit(node)
        else:
            self._visit_inside(f"if {ast.unparse(node.test)}", node)

    def visit_For(self, node: ast.For) -> None:
        """Visit the body of a loop once."""
        self._visit_inside(f"for {ast.unparse(node.target)}", node)

    def _visit_inside(self, text: str, node: ast.AST) -> None:
        self._conditions.append(text[:80])
        self.generic_visit(node)
        self._conditions.pop()

    def visit_Assign(self, node: ast.Assign) -> None:
        """Take an assignment to an attribute, as in ``config.section.name``."""
        for target in node.targets:
            path = ast.unparse(target).split(".")
            if isinstance(target, ast.Name) and isinstance(node.value, ast.Call):
                self._made[path[0]] = ast.unparse(node.value.func)
            if isinstance(target, ast.Attribute) and all(map(str.isidentifier, path)):
                made = self._made.get(path[0], "ConfigContainer")
                if not made.endswith("ConfigContainer"):
                    self.opaque[path[0]] = f"{made}()"
                self._take(".".join(path[1:]), node.value)
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        """Take the keyword arguments of a configuration class."""
        name = ast.unparse(node.func).rpartition(".")[2]
        provider = name.endswith("Provider") or "ModelProvider" in name
        section = "model" if provider else _CLASSES.get(name)
        for keyword in node.keywords:
            nested = isinstance(keyword.value, ast.Call)
            if section is not None and keyword.arg is not None and not nested:
                self._take(f"{section}.{keyword.arg}", keyword.value)
            elif name == "ConfigContainer" and keyword.arg == "mixed_precision":
                self._take(keyword.arg, keyword.value)
        self.generic_visit(node)

    def _take(self, path: str, value: ast.expr) -> None:
        called = ast.unparse(value.func) if isinstance(value, ast.Call) else ""
        if called and path != "mixed_precision":
            name = called.rpartition(".")[2]
            if name not in _CLASSES and name != "GPTModelProvider":
                self.opaque[path] = f"{called}()"
            return
        if "." not in path and path != "mixed_precision":
            return
        try:
            self.values[path] = ast.literal_eval(value)
        except (ValueError, TypeError, SyntaxError, RecursionError):
            self.values[path] = called.rpartition(".")[2] or ast.unparse(value)
        if self._function:
            self.recipes[self._function] = None
        self.undecided |= dict.fromkeys(self._conditions)


READER = Reader(looks_like=looks_like_nemo, read=read_nemo)
