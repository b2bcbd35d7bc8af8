"""The pipeline that Megatron-LM's arguments make, from scripts, YAML or recipes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from hetopt.base.words import counted
from hetopt.export.pipeline import MOST_STAGES, PipelineReadBack, stages_of
from hetopt.export.shared.hosts import even_places
from hetopt.export.shared.megatron.numbers import whole
from hetopt.export.shared.megatron.offload import offload_said
from hetopt.export.shared.megatron.recompute import recompute_of
from hetopt.export.shared.megatron.says import model_says, training_says
from hetopt.plans.strategy import Strategy
from hetopt.problem.layout import (
    layout_chunks,
    layout_text,
    predictions_fault,
)
from hetopt.problem.training.choices import INTERLEAVED

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from hetopt.export.shared.hosts import RankHosts
    from hetopt.export.shared.shell.arguments import ShellArguments

EXPERTS = "--expert-model-parallel-size"
#: Groups of ranks that share shards of the optimizer's states.
_COPIES = "--num-distributed-optimizer-instances"
PIPELINE = "--pipeline-model-parallel-size"
LAYOUT = "--pipeline-model-parallel-layout"
FIRST = "--decoder-first-pipeline-num-layers"
LAST = "--decoder-last-pipeline-num-layers"
#: What counts as a layer where layers are spread evenly, by argument.
COUNTED = {
    "--account-for-embedding-in-pipeline-split": "embedding",
    "--account-for-loss-in-pipeline-split": "loss",
}
#: Virtual stages on each rank; layers of each; what Megatron-Bridge calls the former.
VIRTUAL = "--num-virtual-stages-per-pipeline-rank"
LAYERS_EACH = "--num-layers-per-virtual-pipeline-stage"
VIRTUAL_SIZE = "--virtual-pipeline-model-parallel-size"

#: Arguments that hetopt cannot price, and the values with which they have no effect.
_REFUSED = {
    "--standalone-embedding-stage": (),
    "--pipeline-model-parallel-split-rank": (),
    "--enable-zbh1-pipeline": (),
    "--enable-zbh1-exact-semantics": (),
    "--use-megatron-fsdp": (),
    "--use-custom-fsdp": (),
    "--use-torch-fsdp2": (),
    "--data-parallel-sharding-strategy": ("no_shard",),
    "--ds-sequence-parallel-size": ("1",),
    "--yaml-cfg": (),
    "--include": (),
    "--exclude": (),
}


class Division(NamedTuple):
    """How a model is divided among stages and their chunks.

    Attributes
    ----------
    stages, chunks
        p and v.
    layers
        Transformer layers of every chunk, first the first chunks of all stages; of
        these alone if there is no ``layout``.
    layout
        As of ``PipelineReadBack``.
    """

    stages: int
    chunks: int
    layers: tuple[int, ...]
    layout: str | None = None


def degrees_of(arguments: ShellArguments, world: int) -> tuple[int, int, int]:
    """Return dp, cp and tp on ``world`` ranks; InputError if these do not divide."""
    tp = arguments.count("--tensor-model-parallel-size", 1)
    cp = arguments.count("--context-parallel-size", 1)
    stages = arguments.count(PIPELINE, 1)
    each, rest = divmod(world, stages)
    if rest or each % (tp * cp) or not each:
        msg = (
            f"{counted(world, 'rank')}, which is no multiple of tp * cp * stages = "
            f"{tp} * {cp} * {stages}"
        )
        raise arguments.wrong(PIPELINE, msg)
    return each // (tp * cp), cp, tp


def experts_of(
    arguments: ShellArguments, degrees: tuple[int, int, int]
) -> tuple[int, int]:
    """Return ep and etp; InputError if they do not divide dp * cp * tp."""
    if "--num-experts" not in arguments:
        return 1, 1
    dp, cp, tp = degrees
    ep = arguments.count(EXPERTS, 1)
    etp = arguments.count("--expert-tensor-parallel-size", tp)
    if dp * cp * tp % (ep * etp):
        msg = (
            f"is {ep}: ep * etp = {ep} * {etp} does not divide dp * cp * tp = {dp} * "
            f"{cp} * {tp}"
        )
        raise arguments.wrong(EXPERTS, msg)
    return ep, etp


def batches_of(arguments: ShellArguments, dp: int) -> tuple[int, int]:
    """Return the sequences of an iteration and of a micro-batch of a replica."""
    micro = arguments.count("--micro-batch-size")
    batch = arguments.count("--global-batch-size", micro * dp)
    if batch % (micro * dp):
        msg = f"is {batch}, which is no multiple of micro-batch size {micro} * dp {dp}"
        raise arguments.wrong("--global-batch-size", msg)
    return batch, micro


def pipeline_of(
    arguments: ShellArguments,
    world: int,
    places: RankHosts | None,
    folder: Path,
    *,
    legacy: bool = False,
) -> PipelineReadBack:
    """Return the pipeline, with what the arguments say of model and training.

    Parameters
    ----------
    world
        Ranks.
    places
        Their hosts, if the folder's files name them.
    legacy
        As ``training_says``.

    Raises
    ------
    InputError
        Megatron-LM would refuse the arguments, or hetopt cannot price them.
    """
    stages, chunks, layers, layout = division_of(arguments)
    held = [sum(layers[number::stages]) for number in range(stages)]
    degrees = dp, cp, tp = degrees_of(arguments, world)
    batch, micro = batches_of(arguments, dp)
    settings = arguments.values
    says: dict[str, Any] = training_says(settings, (dp * cp, tp), legacy=legacy)
    says["global_batch"] = batch
    experts = experts_of(arguments, degrees)
    if says.get("zero") and (group := _shard_group(arguments, degrees, experts)):
        says["shard_group"] = group
    if "--seq-length" in arguments:
        says["seq_len"] = arguments.count("--seq-length")
    if "--hidden-size" in arguments:
        total = sum(held) * (chunks if layout is None else 1)
        says |= model_says(settings, total, arguments.wrong)
    recompute = recompute_of(arguments, max(layers))
    return PipelineReadBack(
        microbatches=batch // (micro * dp),
        schedule="1f1b" if chunks == 1 else INTERLEAVED,
        chunks=chunks,
        layout=layout,
        stages=stages_of(
            even_places(places, stages, world // stages, str(folder)),
            held,
            [degrees] * stages,
            [recompute] * stages,
            experts,
        ),
        says=says,
        offload=offload_said(settings, arguments.wrong),
    )


def _shard_group(
    arguments: ShellArguments,
    degrees: tuple[int, int, int],
    experts: tuple[int, int],
) -> int | None:
    """Return how many ranks share shards; None: all that hold a weight.

    Raises
    ------
    InputError
        Not all shards, those of experts too, can have so many copies.
    """
    copies = arguments.count(_COPIES, 1)
    if copies == 1:
        return None
    (dp, cp, tp), (ep, etp) = degrees, experts
    group, rest = divmod(dp * cp, copies)
    strategy = Strategy(dp=dp, cp=cp, tp=tp, ep=ep, etp=etp)
    made = strategy.shard_copies(group, experts="--num-experts" in arguments)
    if rest or {*made} != {copies}:
        msg = f"is {copies}, expected a divisor of the ranks that hold a weight"
        raise arguments.wrong(_COPIES, f"{msg}: dp * cp is {dp * cp}")
    return group


def division_of(arguments: ShellArguments) -> Division:
    """Return the stages and chunks that Megatron-LM divides a model into.

    Raises
    ------
    InputError
        Megatron-LM would refuse the arguments, or hetopt cannot price them.
    """
    for name, neutral in _REFUSED.items():
        if name in arguments and arguments.get(name) not in neutral:
            raise arguments.wrong(name, "is given, which hetopt cannot price")
    stages = arguments.count(PIPELINE, 1)
    if stages > MOST_STAGES:
        msg = f"is {stages}, expected at most {MOST_STAGES} stages"
        raise arguments.wrong(PIPELINE, msg)
    if stages > 1 and "--no-pipeline-parallel" in arguments:
        msg = f"is given, but {PIPELINE} is {stages}"
        raise arguments.wrong("--no-pipeline-parallel", msg)
    if LAYOUT in arguments:
        _ensure_alone(arguments, LAYOUT, (FIRST, LAST, *COUNTED, LAYERS_EACH, VIRTUAL))
    found = (_laid_out if LAYOUT in arguments else _spread)(arguments, stages)
    if found.chunks > 1 and stages == 1:
        msg = f"is 1, expected more with {found.chunks} virtual stages on each rank"
        raise arguments.wrong(PIPELINE, msg)
    return found


def _ensure_alone(arguments: ShellArguments, one: str, others: Sequence[str]) -> None:
    """Raise InputError if one of several arguments is given beside another one."""
    for name in others:
        if name in arguments:
            msg = f"is given beside {one}, expected one of the two"
            raise arguments.wrong(name, msg)


def _laid_out(arguments: ShellArguments, stages: int) -> Division:
    """Return the division by a layout."""
    text = arguments.get(LAYOUT) or ""
    try:
        found = layout_chunks(text)
    except ValueError as error:
        raise arguments.wrong(LAYOUT, str(error)) from error
    layers = tuple(chunk.count("t") for chunk in found)
    further = sum(chunk.count("m") for chunk in found)
    chunks, rest = divmod(len(layers), stages)
    if rest or not chunks:
        msg = (
            f"has {counted(len(layers), 'stage')}, expected a multiple of {PIPELINE}, "
            f"{stages}"
        )
        raise arguments.wrong(LAYOUT, msg)
    told = arguments.count(VIRTUAL_SIZE, chunks)
    if told != chunks:
        msg = (
            f"is {told}, and is not the {chunks} on each rank of {LAYOUT}: leave it out"
        )
        raise arguments.wrong(VIRTUAL_SIZE, msg)
    count = arguments.count("--num-layers", sum(layers))
    if sum(layers) != count:
        msg = (
            f"has {counted(sum(layers), 'layer')}, expected {count} as in --num-layers"
        )
        raise arguments.wrong(LAYOUT, msg)
    predicted = whole(arguments.values, "mtp_num_layers", arguments.wrong, 0, least=0)
    if predicted != further:
        msg = (
            f"has {counted(further, 'layer')} of multi-token prediction, not "
            "--mtp-num-layers"
        )
        raise arguments.wrong(LAYOUT, msg)
    if fault := predictions_fault(found, stages):
        raise arguments.wrong(LAYOUT, fault)
    for stage in range(stages):
        if not any(found[stage::stages]):
            msg = f"leaves stage {stage} with nothing, expected E, t, m or L"
            raise arguments.wrong(LAYOUT, msg)
    plain = not further or (chunks == 1 and "m" in found[-1])
    if plain and all(layers) and layers == layers[:stages] * chunks:
        return Division(stages, chunks, layers[:stages])
    _ensure_few(arguments, LAYOUT, len(layers))
    return Division(stages, chunks, layers, text)


def _ensure_few(arguments: ShellArguments, name: str, chunks: int) -> None:
    """Raise InputError for more chunks in all than any job has."""
    if chunks > MOST_STAGES:
        msg = f"makes {chunks} virtual stages, expected at most {MOST_STAGES}"
        raise arguments.wrong(name, msg)


def _spread(arguments: ShellArguments, stages: int) -> Division:
    """Return the division without a layout: even, but for the ends."""
    chunks = _chunks_of(arguments, stages)
    layers = _even_layers(arguments, stages, chunks)
    ends = [name in arguments for name in COUNTED]
    if chunks == 1 and not any(ends):
        return Division(stages, chunks, layers)
    predicted = whole(arguments.values, "mtp_num_layers", arguments.wrong, 0, least=0)
    if not any(ends) and not predicted:
        return Division(stages, chunks, layers)
    _ensure_few(arguments, VIRTUAL, stages * chunks)
    every = [*layers] * chunks
    every[0] -= ends[0]
    every[-1] -= ends[1]
    alike = chunks == 1 and all(every)
    text = None if alike else layout_text(every, predicted)
    return Division(stages, chunks, tuple(every), text)


def _chunks_of(arguments: ShellArguments, stages: int) -> int:
    """Return the virtual stages on each rank if there is no layout."""
    for name in (VIRTUAL, VIRTUAL_SIZE):
        if name in arguments:
            return arguments.count(name)
    if LAYERS_EACH not in arguments:
        return 1
    _ensure_alone(arguments, LAYERS_EACH, (FIRST, LAST))
    each, count = arguments.count(LAYERS_EACH), arguments.count("--num-layers")
    ends = sum(name in arguments for name in COUNTED)
    chunks, rest = divmod(count + ends, stages * each)
    if rest:
        msg = (
            f"is {each}, and {counted(count, 'layer')}{_with_ends(arguments)} are no "
            f"multiple of it times {stages}"
        )
        raise arguments.wrong(LAYERS_EACH, msg)
    return chunks


def _with_ends(arguments: ShellArguments) -> str:
    """Return what counts as a layer too: " with embedding and loss", or nothing."""
    ends = " and ".join(what for name, what in COUNTED.items() if name in arguments)
    return f" with {ends}" if ends else ""


def _even_layers(
    arguments: ShellArguments, stages: int, chunks: int
) -> tuple[int, ...]:
    """Return layers per stage and chunk without a layout: even, except at the ends.

    An embedding or a loss that counts as a layer is among them.
    """
    count = arguments.count("--num-layers")
    ends = {}
    for name, number in ((FIRST, 0), (LAST, stages - 1)):
        if name in arguments:
            given = arguments.count(name)
            _ensure_alone(arguments, name, tuple(COUNTED))
            if given % chunks:
                msg = f"is {given}, expected a multiple of the {chunks} virtual stages"
                raise arguments.wrong(name, f"{msg} on each rank")
            ends[number] = given // chunks
    inner = stages - len(ends)
    left, rest = divmod(count + sum(name in arguments for name in COUNTED), chunks)
    left -= sum(ends.values())
    if not inner and left:
        named = [name for name in (FIRST, LAST) if name in arguments]
        msg = (
            f"is {count}, expected {sum(ends.values()) * chunks} as in "
            f"{' and '.join(named)}: no other stage is left"
        )
        raise arguments.wrong("--num-layers", msg)
    if rest or (inner and (left % inner or left < inner)):
        msg = (
            f"is {count}, which{_with_ends(arguments)} does not leave the same for "
            f"each of {counted(inner, 'stage')}"
        )
        if chunks > 1:
            msg += f" of {chunks} virtual ones"
        raise arguments.wrong("--num-layers", msg)
    return tuple(ends.get(number, left // (inner or 1)) for number in range(stages))
