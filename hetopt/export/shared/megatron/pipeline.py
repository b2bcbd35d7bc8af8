"""The pipeline that Megatron-LM's arguments make, from scripts, YAML or recipes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hetopt.base.words import counted
from hetopt.export.pipeline import MOST_STAGES, PipelineReadBack, stages_of
from hetopt.export.shared.hosts import even_places
from hetopt.export.shared.megatron.layout import layout_layers, layout_predictions
from hetopt.export.shared.megatron.numbers import whole
from hetopt.export.shared.megatron.offload import offload_said
from hetopt.export.shared.megatron.recompute import recompute_of
from hetopt.export.shared.megatron.says import model_says, training_says
from hetopt.problem.training.choices import INTERLEAVED

if TYPE_CHECKING:
    from pathlib import Path

    from hetopt.export.shared.hosts import RankHosts
    from hetopt.export.shared.shell.arguments import ShellArguments

EXPERTS = "--expert-model-parallel-size"
PIPELINE = "--pipeline-model-parallel-size"
LAYOUT = "--pipeline-model-parallel-layout"
FIRST = "--decoder-first-pipeline-num-layers"
LAST = "--decoder-last-pipeline-num-layers"
#: Virtual stages on each rank; layers of each; what Megatron-Bridge calls the former.
VIRTUAL = "--num-virtual-stages-per-pipeline-rank"
LAYERS_EACH = "--num-layers-per-virtual-pipeline-stage"
VIRTUAL_SIZE = "--virtual-pipeline-model-parallel-size"

#: Arguments that hetopt cannot price, and the values with which they have no effect.
_REFUSED = {
    "--account-for-embedding-in-pipeline-split": (),
    "--account-for-loss-in-pipeline-split": (),
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


def degrees_of(arguments: ShellArguments, world: int) -> tuple[int, int, int]:
    """Return dp, cp and tp on ``world`` ranks; InputError if these do not divide."""
    tp = arguments.count("--tensor-model-parallel-size", 1)
    cp = arguments.count("--context-parallel-size", 1)
    stages = len(layers_of(arguments)[0])
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
    layers, chunks = layers_of(arguments)
    degrees = dp, cp, tp = degrees_of(arguments, world)
    batch, micro = batches_of(arguments, dp)
    settings, stages = arguments.values, len(layers)
    says: dict[str, Any] = training_says(settings, (dp * cp, tp), legacy=legacy)
    says["global_batch"] = batch
    if "--seq-length" in arguments:
        says["seq_len"] = arguments.count("--seq-length")
    if "--hidden-size" in arguments:
        says |= model_says(settings, chunks * sum(layers), arguments.wrong)
    recompute = recompute_of(arguments, max(layers))
    return PipelineReadBack(
        microbatches=batch // (micro * dp),
        schedule="1f1b" if chunks == 1 else INTERLEAVED,
        chunks=chunks,
        stages=stages_of(
            even_places(places, stages, world // stages, str(folder)),
            layers,
            [degrees] * stages,
            [recompute] * stages,
            experts_of(arguments, degrees),
        ),
        says=says,
        offload=offload_said(settings, arguments.wrong),
    )


def layers_of(arguments: ShellArguments) -> tuple[tuple[int, ...], int]:
    """Return layers per stage and chunk as Megatron-LM cuts them, and the chunks."""
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
    if LAYOUT not in arguments:
        chunks = _chunks_of(arguments, stages)
        return _even_layers(arguments, stages, chunks), chunks
    for name in (FIRST, LAST, LAYERS_EACH, VIRTUAL):
        if name in arguments:
            msg = f"is given beside {LAYOUT}, expected one of the two"
            raise arguments.wrong(name, msg)
    return _laid_out(arguments, stages)


def _laid_out(arguments: ShellArguments, stages: int) -> tuple[tuple[int, ...], int]:
    """Return layers per stage and chunk by a layout, and how many chunks it has."""
    try:
        layers = layout_layers(arguments.get(LAYOUT) or "")
        further = layout_predictions(arguments.get(LAYOUT) or "")
    except ValueError as error:
        raise arguments.wrong(LAYOUT, str(error)) from error
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
    if not all(layers[:-1]) or not layers[-1] + further:
        msg = f"leaves stage {layers.index(0)} without a layer, expected at least one"
        raise arguments.wrong(LAYOUT, msg)
    if layers != layers[:stages] * chunks:
        msg = (
            f"has chunks that differ in their layers, {', '.join(map(str, layers))} of "
            f"{counted(stages, 'stage')}: hetopt prices the same layers in every chunk"
        )
        raise arguments.wrong(LAYOUT, msg)
    return layers[:stages], chunks


def _chunks_of(arguments: ShellArguments, stages: int) -> int:
    """Return the virtual stages on each rank if there is no layout."""
    for name in (VIRTUAL, VIRTUAL_SIZE):
        if name in arguments:
            return arguments.count(name)
    if LAYERS_EACH not in arguments:
        return 1
    each, count = arguments.count(LAYERS_EACH), arguments.count("--num-layers")
    if count % (stages * each):
        msg = (
            f"is {each}, and {counted(count, 'layer')} are no multiple of it times "
            f"{stages}"
        )
        raise arguments.wrong(LAYERS_EACH, msg)
    return count // (stages * each)


def _even_layers(
    arguments: ShellArguments, stages: int, chunks: int
) -> tuple[int, ...]:
    """Return layers per stage and chunk without a layout: even, except at the ends."""
    count = arguments.count("--num-layers")
    ends = {
        number: arguments.count(name)
        for name, number in ((FIRST, 0), (LAST, stages - 1))
        if name in arguments
    }
    if chunks > 1:
        for name in (FIRST, LAST):
            if name in arguments:
                msg = (
                    f"is given with {chunks} virtual stages on each rank, of which "
                    "hetopt prices those of as many layers each: leave it out"
                )
                raise arguments.wrong(name, msg)
    inner = stages - len(ends)
    left, rest = divmod(count, chunks)
    left -= sum(ends.values())
    if not inner and left:
        given = [name for name in (FIRST, LAST) if name in arguments]
        msg = (
            f"is {count}, expected {sum(ends.values()) * chunks} as in "
            f"{' and '.join(given)}: no other stage is left"
        )
        raise arguments.wrong("--num-layers", msg)
    if rest or (inner and (left % inner or left < inner)):
        msg = (
            f"is {count}, which does not leave the same for each of "
            f"{counted(inner, 'stage')}"
        )
        if chunks > 1:
            msg += f" of {chunks} virtual ones"
        raise arguments.wrong("--num-layers", msg)
    return tuple(ends.get(number, left // (inner or 1)) for number in range(stages))
