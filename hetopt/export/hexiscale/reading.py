"""Reads HexiScale's pipelines, written by hetopt or by hand."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from hetopt.base.reading import read_json
from hetopt.base.words import counted, describe
from hetopt.errors import InputError
from hetopt.export.hexiscale.losses import SHARDING
from hetopt.export.hexiscale.models import MODEL_SIZES, SEQ_LEN, VOCAB
from hetopt.export.launcher import Reader
from hetopt.export.pipeline import PipelineReadBack, stages_of
from hetopt.export.shared.hosts import rank_hosts, stage_places
from hetopt.export.shared.shell.arguments import calling_scripts, has_script
from hetopt.export.understood import not_priced, table

if TYPE_CHECKING:
    from hetopt.export.pipeline import StagePlace
    from hetopt.export.shared.shell.arguments import ShellArguments
    from hetopt.problem.training.choices import Recompute
    from hetopt.results.reported import Reported

PATH = "--all-hetero-configs-path"
BATCHES, CHUNKS = "--global-bsz-size", "--chunks"
DEGREES, LAYERS = "hetero_configs", "layer_partitions"

#: Learning rate, data, checkpoints and profiles, named as in Galvatron's programs, on
#: which HexiScale's is based.
HEXISCALE = table(
    """
    adam_weight_decay check_loss dropout_prob epochs initialize_on_meta load_params
    local_rank lr profile run_iter save_profiled_memory seed
    """,
    {},
)
_ZERO = {name: zero for zero, name in SHARDING.items()}


def is_hexiscale(folder: Path) -> bool:
    """Whether a script of a folder names a file of pipelines."""
    return has_script(folder, _calls)


def read_hexiscale(folder: Path) -> PipelineReadBack:
    """Read a folder's scripts and the pipelines they name.

    Raises
    ------
    InputError
        No script calls HexiScale, two call it differently, the pipelines differ, or
        HexiScale would refuse them; see ``hetopt.export.launcher.Reader``.
    """
    arguments = calling_scripts(folder, _calls, f"HexiScale's {PATH}")[0]
    _check_schedule(arguments)
    file = str(folder / Path(arguments.get(PATH) or "").name)
    content = read_json(file, "HexiScale's pipelines")
    degrees = _pipelines(content, DEGREES, file)
    layers = _pipelines(content, LAYERS, file)
    if "pp_layouts" in content:
        msg = "is given: hetopt reads ranks counted pipeline by pipeline alone"
        raise InputError(msg, file=file, field="pp_layouts")
    if len(degrees) != len(layers):
        msg = (
            f"has {counted(len(layers), 'pipeline')}, expected {len(degrees)} as "
            f"{DEGREES}"
        )
        raise InputError(msg, file=file, field=LAYERS)
    dp, tps, counts = len(degrees), degrees[0], layers[0]
    if len(counts) != len(tps):
        msg = f"has {counted(len(counts), 'stage')}, expected {len(tps)} as {DEGREES}"
        raise InputError(msg, file=file, field=LAYERS)
    total = arguments.count("--total-layer-num")
    if sum(counts) != total:
        msg = f"sums up to {sum(counts)}, expected {total} as in --total-layer-num"
        raise InputError(msg, file=file, field=LAYERS)
    batch = _shared(arguments, BATCHES, dp)
    chunks = _shared(arguments, CHUNKS, dp)
    if batch % chunks:
        msg = f"is {batch}, expected a multiple of the {chunks} of {CHUNKS}"
        raise InputError(msg, file=arguments.file, field=BATCHES)
    return PipelineReadBack(
        microbatches=chunks,
        schedule="gpipe",
        stages=stages_of(
            _places(folder, degrees, file),
            counts,
            [(dp, 1, tp) for tp in tps],
            [_recompute(arguments)] * len(tps),
        ),
        says=_says(arguments, batch * dp, dp, max(tps) > 1),
        reported=_reported(arguments),
    )


def _calls(script: ShellArguments) -> bool:
    return PATH in script


def _pipelines(content: Any, field: str, file: str) -> list[list[int]]:
    """Return a list of numbers for each pipeline; all have to be the same."""
    value = content.get(field) if isinstance(content, dict) else None
    if not isinstance(value, list) or not all(
        isinstance(row, list)
        and row
        and all(type(number) is int and number >= 1 for number in row)
        for row in [*value, *([] if value else [None])]
    ):
        msg = "is no list of pipelines, each a list of whole numbers of at least 1"
        raise InputError(msg, file=file, field=field)
    if any(row != value[0] for row in value):
        msg = "differs between pipelines, which hetopt cannot price: expected the same"
        raise InputError(msg, file=file, field=field)
    return value


def _shared(arguments: ShellArguments, name: str, dp: int) -> int:
    """Return the value of an argument, which has to be the same for all pipelines.

    HexiScale repeats the last value for pipelines without one.
    """
    values = arguments.counts(name)
    if len(values) > dp:
        msg = (
            f"has {counted(len(values), 'value')}, expected one for each of "
            f"{counted(dp, 'pipeline')}"
        )
        raise InputError(msg, file=arguments.file, field=name)
    if len(set(values)) > 1:
        msg = "differs between pipelines, which hetopt cannot price: expected the same"
        raise InputError(msg, file=arguments.file, field=name)
    return values[0]


def _check_schedule(arguments: ShellArguments) -> None:
    kind = arguments.get("--pipeline-type", "Gpipe")
    if kind != "Gpipe":
        msg = f"is {describe(kind)}, expected Gpipe"
        raise InputError(msg, file=arguments.file, field="--pipeline-type")


def _recompute(arguments: ShellArguments) -> Recompute:
    name = "--recompute-stage-output"
    if name in arguments:
        msg = "is given, which hetopt cannot price"
        raise InputError(msg, file=arguments.file, field=name)
    return "full" if "--checkpoint-layers" in arguments else "none"


def _reported(arguments: ShellArguments) -> tuple[Reported, ...]:
    """Return what the price leaves out of a script's arguments."""
    known = [name for name in ("fp16", "bf16") if name in arguments]
    told = arguments.get("--mixed-precision") or "fp16"
    contradicted = tuple(
        not_priced(f"--{name}", f"hetopt takes --mixed_precision, which is {told}")
        for name in known
        if name != told
    )
    return (*contradicted, *arguments.report(HEXISCALE))


def _says(
    arguments: ShellArguments, batch: int, dp: int, tensor_parallel: bool
) -> dict[str, int | bool | str]:
    """Return what the arguments say of model and training."""
    size = arguments.get("--model-size") or "llama-7b"
    if size not in MODEL_SIZES:
        msg = f"is {describe(size)}, expected one of {', '.join(MODEL_SIZES)}"
        raise InputError(msg, file=arguments.file, field="--model-size")
    hidden, heads, kv_heads, ffn = MODEL_SIZES[size]
    fused = "--use-flash-attn" in arguments
    says: dict[str, int | bool | str] = {
        "hidden": hidden,
        "heads": heads,
        "kv_heads": kv_heads,
        "ffn": ffn,
        "vocab": VOCAB,
        "tied": False,
        "gated": True,
        "seq_len": SEQ_LEN,
        "global_batch": batch,
        "precision": arguments.get("--mixed-precision") or "fp16",
        "attention": "fused" if fused else "unfused",
        "optimizer": arguments.get("--optimizer-type") or "adam",
    }
    split = "--seq-parallel" in arguments
    if split or tensor_parallel:
        says["sequence_parallel"] = split
    if dp > 1:
        kind = arguments.get("--default-dp-type", "zero2")
        if kind not in _ZERO:
            msg = f"is {describe(kind)}, expected one of {', '.join(_ZERO)}"
            raise InputError(msg, file=arguments.file, field="--default-dp-type")
        says["zero"] = _ZERO[kind]
    return says


def _places(folder: Path, degrees: list[list[int]], file: str) -> list[StagePlace]:
    """Return cluster and hosts of every stage, replica by replica."""
    path = folder / "ranks.csv"
    places = rank_hosts(folder) if path.exists() else None
    tps, world = degrees[0], sum(map(sum, degrees))
    if places is not None and len(places) != world:
        msg = f"has {world} ranks, ranks.csv has {len(places)}"
        raise InputError(msg, file=file, field=DEGREES)
    each = range(sum(tps))
    ranks = [
        [begin + rank for begin in range(0, world, sum(tps)) for rank in held]
        for held in (each[sum(tps[:stage]) :][:tp] for stage, tp in enumerate(tps))
    ]
    return stage_places(places, ranks, str(path))


READER = Reader(looks_like=is_hexiscale, read=read_hexiscale)
