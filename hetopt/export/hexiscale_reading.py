"""HexiScale's pipelines, hetopt's and hand-made ones, as a sketch of a plan."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from hetopt.errors import InputError
from hetopt.export.hexiscale_losses import SHARDING
from hetopt.export.hexiscale_models import MODEL_SIZES, SEQ_LEN, VOCAB
from hetopt.export.rank_hosts import rank_hosts
from hetopt.export.shell_arguments import (
    ShellArguments,
    ensure_agree,
    read_script,
    script_paths,
)
from hetopt.export.sketch import Sketch, StageSketch
from hetopt.plan import Strategy
from hetopt.reading import read_json

if TYPE_CHECKING:
    from hetopt.export.rank_hosts import RankHosts
    from hetopt.problem.training import Recompute

PATH = "--all-hetero-configs-path"
BATCHES, CHUNKS = "--global-bsz-size", "--chunks"
DEGREES, LAYERS = "hetero_configs", "layer_partitions"

_ZERO = {name: zero for zero, name in SHARDING.items()}


def is_hexiscale(folder: Path) -> bool:
    """Whether a script of a folder names a file of pipelines; raises nothing."""
    for path in script_paths(folder):
        try:
            if PATH in read_script(path):
                return True
        except InputError:
            continue
    return False


def read_hexiscale(folder: Path) -> Sketch:
    """Read a folder's scripts and the pipelines they name.

    Raises
    ------
    InputError
        No script calls HexiScale, two call it differently, the pipelines differ, or
        HexiScale would refuse them; see ``hetopt.export.sketch.Reader``.
    """
    arguments = _arguments(folder)
    _check_schedule(arguments)
    file = str(folder / Path(arguments.values[PATH]).name)
    content = read_json(file, "HexiScale's pipelines")
    degrees = _pipelines(content, DEGREES, file)
    layers = _pipelines(content, LAYERS, file)
    if "pp_layouts" in content:
        msg = "is given: hetopt reads ranks counted pipeline by pipeline alone"
        raise InputError(msg, file=file, field="pp_layouts")
    if len(degrees) != len(layers):
        msg = f"has {len(layers)} pipelines, expected {len(degrees)} as {DEGREES}"
        raise InputError(msg, file=file, field=LAYERS)
    dp, tps, counts = len(degrees), degrees[0], layers[0]
    if len(counts) != len(tps):
        msg = f"has {len(counts)} stages, expected {len(tps)} as {DEGREES}"
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
    places = _places(folder, degrees, file)
    stages = []
    for number, (tp, count) in enumerate(zip(tps, counts, strict=True)):
        cluster, hosts = places[number]
        strategy = Strategy(dp=dp, cp=1, tp=tp, recompute=_recompute(arguments))
        stages.append(
            StageSketch(cluster=cluster, hosts=hosts, layers=count, strategy=strategy)
        )
    return Sketch(
        microbatches=chunks,
        schedule="gpipe",
        stages=tuple(stages),
        says=_says(arguments, batch * dp, dp),
    )


def _arguments(folder: Path) -> ShellArguments:
    scripts = [s for s in map(read_script, script_paths(folder)) if PATH in s]
    if not scripts:
        msg = f"holds no script (*.sh, nodes/*.sh) with HexiScale's {PATH}"
        raise InputError(msg, file=str(folder))
    ensure_agree(scripts)
    return scripts[0]


def _pipelines(content: Any, field: str, file: str) -> list[list[int]]:
    """Return one list per pipeline, all the same."""
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
    """Return what an argument says of every pipeline; the last value stands for more.

    HexiScale repeats the last value for pipelines without one.
    """
    values = arguments.counts(name)
    if len(values) > dp:
        msg = f"has {len(values)} values, expected one for each of {dp} pipelines"
        raise InputError(msg, file=arguments.file, field=name)
    if len(set(values)) > 1:
        msg = "differs between pipelines, which hetopt cannot price: expected the same"
        raise InputError(msg, file=arguments.file, field=name)
    return values[0]


def _check_schedule(arguments: ShellArguments) -> None:
    kind = arguments.values.get("--pipeline-type", "Gpipe")
    if kind != "Gpipe":
        msg = f"is {kind!r}, expected Gpipe"
        raise InputError(msg, file=arguments.file, field="--pipeline-type")


def _recompute(arguments: ShellArguments) -> Recompute:
    name = "--recompute-stage-output"
    if name in arguments:
        msg = "is given, which hetopt cannot price"
        raise InputError(msg, file=arguments.file, field=name)
    return "full" if "--checkpoint-layers" in arguments else "none"


def _says(
    arguments: ShellArguments, batch: int, dp: int
) -> dict[str, int | bool | str]:
    """Return what the arguments say of model and training."""
    size = arguments.values.get("--model-size", "llama-7b")
    if size not in MODEL_SIZES:
        msg = f"is {size!r}, expected one of {', '.join(MODEL_SIZES)}"
        raise InputError(msg, file=arguments.file, field="--model-size")
    hidden, heads, kv_heads, ffn = MODEL_SIZES[size]
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
        "precision": arguments.values.get("--mixed-precision", "fp16"),
    }
    if dp > 1:
        kind = arguments.values.get("--default-dp-type", "zero2")
        if kind not in _ZERO:
            msg = f"is {kind!r}, expected one of {', '.join(_ZERO)}"
            raise InputError(msg, file=arguments.file, field="--default-dp-type")
        says["zero"] = _ZERO[kind]
    return says


def _places(
    folder: Path, degrees: list[list[int]], file: str
) -> list[tuple[str | None, tuple[str, ...]]]:
    """Return cluster and hosts of every stage, replica by replica."""
    places = rank_hosts(folder) if (folder / "ranks.csv").exists() else None
    tps = degrees[0]
    if places is None:
        return [(None, ())] * len(tps)
    if len(places) != sum(map(sum, degrees)):
        msg = f"has {sum(map(sum, degrees))} ranks, ranks.csv has {len(places)}"
        raise InputError(msg, file=file, field=DEGREES)
    found = []
    for stage in range(len(tps)):
        held = _held(places, tps, stage)
        clusters = {cluster for _, cluster in held}
        if len(clusters) > 1:
            msg = f"places stage {stage} on {', '.join(sorted(map(str, clusters)))}"
            raise InputError(msg, file=str(folder / "ranks.csv"))
        found.append((held[0][1], tuple(host for host, _ in held)))
    return found


def _held(places: RankHosts, tps: list[int], stage: int) -> RankHosts:
    """Return where a stage's ranks run, replica by replica."""
    first = sum(tps[:stage])
    return tuple(
        place
        for begin in range(0, len(places), sum(tps))
        for place in places[begin + first : begin + first + tps[stage]]
    )
