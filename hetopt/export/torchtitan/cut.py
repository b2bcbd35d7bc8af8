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

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from hetopt.export.torchtitan.settings import Settings
    from hetopt.problem.training.choices import ScheduleName

_HOME = "parallelism."
_MODULES = f"{_HOME}module_fqns_per_model_part"
_SCHEDULE = f"{_HOME}pipeline_parallel_schedule"
_CSV = f"{_HOME}pipeline_parallel_schedule_csv"
_SCHEDULES: dict[str, ScheduleName] = {"1f1b": "1f1b", "gpipe": "gpipe"}
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
    """Return the layers of each stage as TorchTitan cuts them.

    Parameters
    ----------
    layers
        Of the model.

    Raises
    ------
    InputError
        TorchTitan would refuse the cut, or a stage has no layer or several parts.
    """
    stages = stages_of(settings)
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
    if most is not None and -(-(layers + first + last) // most) != stages:
        cut = -(-(layers + first + last) // most)
        msg = (
            f"is {most}, which makes {counted(cut, 'stage')}; expected {stages}, one "
            "per pipeline rank"
        )
        raise settings.wrong(path, msg)
    if parts is not None:
        return _named(settings, parts, stages, layers)
    each, more = divmod(layers + first + last, stages)
    if max(first, last) > each:
        msg = (
            f"{counted(stages, 'stage')} of {counted(layers, 'layer')} leave {each} "
            "each, ends included"
        )
        raise settings.wrong(f"{_HOME}pipeline_parallel_degree", msg)
    found = [each + (stage < more) for stage in range(stages)]
    found[0] -= first
    found[-1] -= last
    if min(found) < 1:
        msg = f"leaves stage {found.index(min(found))} without a layer"
        raise settings.wrong(f"{_HOME}pipeline_parallel_degree", msg)
    return found


def _named(
    settings: Settings, parts: Sequence[object], stages: int, layers: int
) -> list[int]:
    """Return the layers of stages whose modules are listed."""
    head = "lm_head" if settings.new else "output"
    if len(parts) != stages:
        msg = f"has {counted(len(parts), 'part')}, expected {stages}, one a stage"
        raise settings.wrong(_MODULES, msg)
    found, done = [], 0
    for number, part in enumerate(parts):
        if not isinstance(part, list):
            raise settings.wrong(_MODULES, "expected a list of modules for each stage")
        own = {name for name in part if str(name).startswith("layers.")}
        wanted = {f"layers.{layer}" for layer in range(done, done + len(own))}
        ends = {"tok_embeddings"} if number == 0 else set()
        ends |= {"norm", head} if number == stages - 1 else set()
        if {str(name) for name in part} != wanted | ends or not own:
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
        msg = f"is {describe(name)}: hetopt can price 1F1B, GPipe and a schedule_csv"
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
