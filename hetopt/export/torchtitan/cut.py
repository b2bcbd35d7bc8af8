"""How TorchTitan cuts a model into stages, and which schedule runs them.

Sources: ``distributed/pipeline_parallel.py`` of TorchTitan 0.2.2 and 0.3.0.
"""

from __future__ import annotations

from pathlib import PurePath
from typing import TYPE_CHECKING

from hetopt.base.reading import read_text
from hetopt.base.words import counted, describe
from hetopt.errors import InputError
from hetopt.export.pipeline import MOST_STAGES
from hetopt.export.torchtitan.schedule_csv import schedule_text
from hetopt.problem.layout import layout_text
from hetopt.problem.training.choices import INTERLEAVED

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from hetopt.export.torchtitan.settings import Settings
    from hetopt.problem.training.choices import ScheduleName

_HOME = "parallelism."
_MODULES = f"{_HOME}module_fqns_per_model_part"
_SCHEDULE = f"{_HOME}pipeline_parallel_schedule"
_CSV = f"{_HOME}pipeline_parallel_schedule_csv"
_SCHEDULES: dict[str, ScheduleName] = {
    "1f1b": "1f1b",
    "gpipe": "gpipe",
    "interleaved1f1b": INTERLEAVED,
}
#: Names of schedules that are loaded from a CSV.
_LOADED = (
    "pipelineschedulesingle",
    "pipelineschedulemulti",
    "_pipelinescheduleruntime",
)


def stages_of(settings: Settings) -> int:
    """Return the number of stages; InputError above ``MOST_STAGES``."""
    path = f"{_HOME}pipeline_parallel_degree"
    found = settings.whole(path, 1)
    if found > MOST_STAGES:
        msg = f"is {found}, expected at most {MOST_STAGES} stages"
        raise settings.wrong(path, msg)
    return found


def layers_of(settings: Settings, layers: int) -> list[int]:
    """Return the layers of each part as TorchTitan cuts them.

    A stage has one part; if interleaved, several, the first ones of all stages first.

    Parameters
    ----------
    layers
        Of the model.

    Raises
    ------
    InputError
        TorchTitan would refuse the cut, or a part has no layer. One with embedding or
        head needs none if a stage has several.
    """
    stages = stages_of(settings)
    several = _interleaves(settings)
    parts = settings.rows(_MODULES)
    first = settings.whole(
        f"{_HOME}pipeline_parallel_first_stage_less_layers", 1, least=0
    )
    last = settings.whole(
        f"{_HOME}pipeline_parallel_last_stage_less_layers", 1, least=0
    )
    path = f"{_HOME}pipeline_parallel_layers_per_stage"
    most = settings.whole(path) if settings.text(path) else None
    if stages == 1:
        return [layers]
    cut = stages * (1 + several)
    wanted = f"{stages}, one" if not several else f"a multiple of {stages}, at least 2"
    if most is not None:
        cut = -(-(layers + first + last) // most)
        if not _suits(cut, stages, several):
            msg = (
                f"is {most}, which makes {counted(cut, 'stage')}; expected {wanted} "
                "per pipeline rank"
            )
            raise settings.wrong(path, msg)
    if parts is not None:
        if not _suits(len(parts), stages, several):
            msg = f"has {counted(len(parts), 'part')}, expected {wanted} a stage"
            raise settings.wrong(_MODULES, msg)
        return _named(settings, parts, layers)
    each, more = divmod(layers + first + last, cut)
    if max(first, last) > each:
        msg = (
            f"{counted(cut, 'stage')} of {counted(layers, 'layer')} leave {each} "
            "each, ends included"
        )
        raise settings.wrong(f"{_HOME}pipeline_parallel_degree", msg)
    found = [each + (part < more) for part in range(cut)]
    found[0] -= first
    found[-1] -= last
    if min(found[several : cut - several]) < 1:
        msg = f"leaves stage {found.index(min(found))} without a layer"
        raise settings.wrong(f"{_HOME}pipeline_parallel_degree", msg)
    return found


def by_stage(parts: list[int], stages: int) -> tuple[list[int], str | None]:
    """Return the layers of every stage, and the layout of parts that differ.

    Layers are those of one part; if parts differ, those of all.
    """
    if parts == parts[:stages] * (len(parts) // stages):
        return parts[:stages], None
    return [sum(parts[own::stages]) for own in range(stages)], layout_text(parts)


def _interleaves(settings: Settings) -> bool:
    """Whether stages have several parts."""
    name = settings.text(_SCHEDULE).lower()
    return _SCHEDULES.get(name) == INTERLEAVED and not settings.text(_CSV)


def _suits(parts: int, stages: int, several: bool) -> bool:
    """Whether stages have one part each, or equally many if they have several."""
    return parts > stages and parts % stages == 0 if several else parts == stages


def _named(settings: Settings, parts: Sequence[object], layers: int) -> list[int]:
    """Return the layers of parts whose modules are listed."""
    head = "lm_head" if settings.new else "output"
    found, done = [], 0
    for number, part in enumerate(parts):
        if not isinstance(part, list):
            raise settings.wrong(_MODULES, "expected a list of modules for each stage")
        own = {name for name in part if str(name).startswith("layers.")}
        wanted = {f"layers.{layer}" for layer in range(done, done + len(own))}
        ends = {"tok_embeddings"} if number == 0 else set()
        ends |= {"norm", head} if number == len(parts) - 1 else set()
        # TorchTitan's optimizer refuses a part without parameters.
        least = own or (ends and _interleaves(settings))
        if {str(name) for name in part} != wanted | ends or not least:
            text = ", ".join(sorted(ends)) or "nothing"
            msg = (
                f"stage {number} is not of layers from {done} in a row, with {text} "
                "beside them"
            )
            raise settings.wrong(_MODULES, msg)
        found.append(len(own))
        done += len(own)
    if done != layers:
        msg = f"has {counted(done, 'layer')} in all, the model {layers}"
        raise settings.wrong(_MODULES, msg)
    return found


def schedule_of(
    settings: Settings, folder: Path, stages: int, microbatches: int
) -> tuple[ScheduleName, list[int] | None]:
    """Return the schedule, and the warm-ups of a CSV.

    Raises
    ------
    InputError
        hetopt cannot price the schedule, or the CSV is not in the folder.
    """
    name, file = settings.text(_SCHEDULE, "1F1B"), settings.text(_CSV)
    if stages == 1:
        return "1f1b", None
    if file:
        return "1f1b", _loaded(folder / PurePath(file).name, stages, microbatches)
    if name.lower() in _LOADED:
        raise settings.wrong(_CSV, f"is missing, which {name} loads")
    if name.lower() not in _SCHEDULES:
        known = "1F1B, Interleaved1F1B, GPipe and a schedule_csv"
        msg = f"is {describe(name)}: hetopt can price {known}"
        raise settings.wrong(_SCHEDULE, msg)
    return _SCHEDULES[name.lower()], None


def _loaded(path: Path, stages: int, microbatches: int) -> list[int]:
    """Return the warm-ups of a CSV; InputError if they do not give its schedule."""
    text = read_text(path, "a schedule")
    rows = [line.split(",") for line in text.splitlines() if line.strip()]
    warmups = [
        next((at for at, cell in enumerate(row) if "B" in cell), len(row))
        for row in rows
    ]
    plain = "".join(",".join(filter(None, map(str.strip, row))) + "\n" for row in rows)
    if len(rows) != stages or min(warmups) < 1:
        msg = (
            f"has {counted(len(rows), 'row')}, expected forwards and backwards of "
            f"{stages}"
        )
        raise InputError(msg, file=str(path))
    if plain != schedule_text(warmups, microbatches):
        msg = (
            f"is no schedule of {counted(microbatches, 'micro-batch', 'es')} in which "
            "stages do some forward passes and then one backward and one forward in "
            "turn"
        )
        raise InputError(msg, file=str(path))
    if warmups != sorted(warmups, reverse=True):
        raise InputError("deadlocks: warm-ups rise downstream", file=str(path))
    return warmups
