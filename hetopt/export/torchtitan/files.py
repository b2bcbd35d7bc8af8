"""Reads the settings of a folder: a TOML file of TorchTitan 0.2, or Python of 0.3."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from hetopt.base.reading import read_text
from hetopt.errors import InputError
from hetopt.export.shared.shell.arguments import calling_scripts, has_script
from hetopt.export.torchtitan.program import Made, Program
from hetopt.export.torchtitan.settings import TITAN, Settings
from hetopt.export.understood import not_priced

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from hetopt.export.shared.shell.arguments import ShellArguments
    from hetopt.results.reported import Reported

#: A TOML file with two of these sections is a job of 0.2.
_SECTIONS = frozenset({"model", "training", "parallelism"})
#: Sections that affect the price, and the calls that make each in 0.3.
_MAKERS = {
    "training": ("TrainingConfig",),
    "parallelism": ("ParallelismConfig",),
    "compile": ("CompileConfig",),
    "activation_checkpoint": (
        "FullAC.Config",
        "SelectiveAC.Config",
        "MemoryBudgetAC.Config",
    ),
    "optimizer": ("default_adamw", "OptimizersContainer.Config"),
    "loss": ("CrossEntropyLoss.Config", "ChunkedLossWrapper.Config"),
}
#: Loaders of TorchTitan 0.3.0 that do not feed the pre-training of a decoder.
_OTHER_DATA = {
    "ChatDataLoader": "conversations",
    "MMDataLoader": "images with text",
    "FluxDataLoader": "images",
}
_MODES = {"Full": "full", "Selective": "selective", "MemoryBudget": "memory_budget"}
#: A number whose digits Python would not write again.
_LONG_NUMBER = re.compile("0[box][0-9A-Fa-f_]{1000}")
_COMMAND = re.compile(r"activation[_-]checkpoint:([\w-]+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """The job that a folder's files describe.

    Attributes
    ----------
    scripts
        Scripts that start TorchTitan.
    model
        The call that makes the model in 0.3.
    family
        The model's name, empty if the files do not give it.
    reported
        Reports on the script's arguments and the program's conditions and loops.
    """

    settings: Settings
    scripts: list[ShellArguments] = field(default_factory=list)
    model: Made | None = None
    family: str = ""
    reported: tuple[Reported, ...] = ()


def looks_like_torchtitan(folder: Path) -> bool:
    """Whether a folder has a job's TOML, or a Python file with a configuration."""
    return bool(_jobs(folder) or _programs(folder))


def read_job(folder: Path) -> Job:
    """Read the settings of a folder; those of its script replace the others.

    Raises
    ------
    InputError
        There is no job or several, or it cannot be read.
    """
    what = "TorchTitan's --job.config_file, or --module and --config"
    scripts = (
        calling_scripts(folder, _calls, what) if has_script(folder, _calls) else []
    )
    given = scripts[0] if scripts else None
    named = None if given is None else given.values.get("job.config_file")
    jobs, programs = _jobs(folder), _programs(folder)
    if named is not None or (jobs and not programs):
        path = _only([folder / PurePath(named).name] if named else jobs, folder)
        values = dict(_leaves(_toml(path)))
        settings = Settings(values | _arguments(given), str(path), new=False)
        return Job(settings=settings, scripts=scripts, reported=_said(given))
    return _read_program(folder, programs, scripts)


def _read_program(
    folder: Path, programs: list[Path], scripts: list[ShellArguments]
) -> Job:
    """Read a configuration in Python."""
    given = scripts[0] if scripts else None
    module = "" if given is None else given.values.get("module", "")
    last = module.rpartition(".")[2]
    own = [path for path in programs if last and last in (path.stem, path.parent.name)]
    program = Program(_only(own or programs, folder))
    name = "" if given is None else given.values.get("config", "")
    if not name:
        found = program.configurations()
        if len(found) != 1:
            many = " and ".join(found[:3]) or "none"
            msg = f"configures {many}: name the one you mean with --config in a script"
            raise InputError(msg, file=program.file)
        name = found[0]
    made = program.configuration(name)
    values = dict(_fields(made, program))
    values |= _arguments(given)
    told = [
        not_priced(text, "hetopt cannot evaluate it and follows all of its lines")
        for text in program.undecided
    ]
    model = made.fields.get("model_spec")
    if not isinstance(model, Made):
        raise program.wrong("model_spec", "is not a call that hetopt can follow")
    source = program.sources.get("model_registry", "")
    family = source.rpartition(".")[2] if source.strip(".") else last
    return Job(
        settings=Settings(values, program.file, new=True),
        scripts=scripts,
        model=model,
        family=family,
        reported=(*told, *_said(given)),
    )


def _fields(made: Made, program: Program) -> Iterator[tuple[str, Any]]:
    """Yield path and value of each field of a configuration.

    Raises
    ------
    InputError
        A section that affects the price is computed, or of a class that hetopt does
        not know.
    """
    for section, value in made.fields.items():
        makers = _MAKERS.get(section)
        if section == "model_spec":
            continue
        if section == "activation_checkpoint" and value is None:
            yield "activation_checkpoint.mode", "none"
            continue
        if not isinstance(value, Made):
            if makers is not None:
                msg = f"is {str(value)[:60]}, which hetopt cannot follow"
                raise program.wrong(section, msg)
            yield section, value
            continue
        by_default = value.name.endswith(" by default")
        if makers and not by_default and not _is_one_of(value.name, makers):
            msg = f"is {value.name}, expected {' or '.join(makers)}"
            raise program.wrong(section, msg)
        if section == "dataloader":
            for name, what in _OTHER_DATA.items():
                if name in value.name:
                    msg = f"is {value.name}, which is for {what}: text is expected"
                    raise program.wrong(section, msg)
        if section == "activation_checkpoint" and not by_default:
            yield "activation_checkpoint.mode", _MODES[value.name.partition("AC.")[0]]
        if section == "loss":
            yield "loss", value.name
        for name, inner in value.fields.items():
            if name.startswith("**") and makers:
                msg = f"is given {name}, expected its settings one by one"
                raise program.wrong(section, msg)
            yield f"{section}.{name}", _shown(inner)


def _is_one_of(name: str, makers: tuple[str, ...]) -> bool:
    """Whether a name is a known one, perhaps with its module before it."""
    return any(name == maker or name.endswith(f".{maker}") for maker in makers)


def _shown(value: Any) -> Any:
    """Return a value as data, with the name of what is called for each call."""
    if isinstance(value, Made):
        name = value.fields.get("optimizer_name")
        return name if isinstance(name, str) else value.name
    return [_shown(each) for each in value] if isinstance(value, list) else value


def _only(paths: list[Path], folder: Path) -> Path:
    """Return the only file; InputError if there is not exactly one."""
    if len(paths) == 1:
        return paths[0]
    names = " and ".join(path.name for path in paths[:3]) or "no"
    msg = f"has {names} jobs of TorchTitan, expected one, or a script that names it"
    raise InputError(msg, file=str(folder))


def _jobs(folder: Path) -> list[Path]:
    found = []
    for path in sorted(folder.glob("*.toml")):
        if len(_SECTIONS & _toml(path).keys()) > 1:
            found.append(path)
    return found


def _programs(folder: Path) -> list[Path]:
    found = []
    for path in sorted([*folder.glob("*.py"), *folder.glob("*/config_registry.py")]):
        text = read_text(path, "a Python program")
        if "torchtitan" in text and "Trainer.Config(" in text:
            found.append(path)
    return found


def _toml(path: Path) -> dict[str, Any]:
    text = read_text(path, "a job of TorchTitan")
    if _LONG_NUMBER.search(text):
        raise InputError("has a number that is too long", file=str(path))
    try:
        return tomllib.loads(text)
    except RecursionError as error:
        raise InputError("is nested too deeply", file=str(path)) from error
    except ValueError as error:
        msg = f"is not TOML: {error}".partition("\n")[0]
        raise InputError(msg, file=str(path)) from error


def _leaves(data: dict[str, Any], home: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in data.items():
        if isinstance(value, dict):
            yield from _leaves(value, f"{home}{key}.")
        else:
            yield f"{home}{key}", value


def _calls(script: ShellArguments) -> bool:
    own = any("." in name for name in script.names)
    return "torchtitan" in (script.program or "") or (
        own and not {"job.config_file", "training.seq_len"}.isdisjoint(script.names)
    )


def _arguments(script: ShellArguments | None) -> dict[str, Any]:
    """Return the settings that follow the program, which replace those of files."""
    found: dict[str, Any] = {}
    if script is None:
        return found
    for name in sorted(script.names):
        if "." in name:
            section, _, last = name.rpartition(".")
            value: Any = script.values[name]
            if last.startswith("no_"):
                found[f"{section}.{last[3:]}"] = False
            elif name != "job.config_file":
                several = list(script.lists.get(name, ()))
                found[name] = several or (True if value == "" else value)
    for words in script.lists.values():
        for match in filter(None, map(_COMMAND.fullmatch, words)):
            found["activation_checkpoint.mode"] = match[1].replace("-", "_")
    return found


def _said(script: ShellArguments | None) -> tuple[Reported, ...]:
    return () if script is None else script.report(TITAN)
