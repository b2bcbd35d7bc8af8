"""The pipeline that Megatron-LM's arguments make, wherever they are written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hetopt.export.pipeline import MOST_STAGES, PipelineReadBack, stages_of
from hetopt.export.shared.hosts import even_places
from hetopt.export.shared.megatron_layout import layout_layers
from hetopt.export.shared.megatron_recompute import recompute_of
from hetopt.export.shared.megatron_says import model_says, training_says

if TYPE_CHECKING:
    from pathlib import Path

    from hetopt.export.shared.hosts import RankHosts
    from hetopt.export.shared.shell_arguments import ShellArguments

PIPELINE = "--pipeline-model-parallel-size"
LAYOUT = "--pipeline-model-parallel-layout"
FIRST = "--decoder-first-pipeline-num-layers"
LAST = "--decoder-last-pipeline-num-layers"

#: Schedules, cuts and models that hetopt cannot price, and values that ask for none.
_REFUSED = {
    "--num-layers-per-virtual-pipeline-stage": (),
    "--num-virtual-stages-per-pipeline-rank": (),
    "--virtual-pipeline-model-parallel-size": (),
    "--account-for-embedding-in-pipeline-split": (),
    "--account-for-loss-in-pipeline-split": (),
    "--standalone-embedding-stage": (),
    "--pipeline-model-parallel-split-rank": (),
    "--enable-zbh1-pipeline": (),
    "--enable-zbh1-exact-semantics": (),
    "--num-experts": ("1",),
    "--multi-latent-attention": (),
    "--mtp-num-layers": ("0",),
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
    """Return dp, cp and tp on so many ranks; InputError if they do not divide."""
    tp = arguments.count("--tensor-model-parallel-size", 1)
    cp = arguments.count("--context-parallel-size", 1)
    stages = len(layers_of(arguments))
    each, rest = divmod(world, stages)
    if rest or each % (tp * cp) or not each:
        msg = (
            f"{world} ranks, which is no multiple of tp * cp * stages = {tp} * {cp} * "
            f"{stages}"
        )
        raise arguments.wrong(PIPELINE, msg)
    return each // (tp * cp), cp, tp


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
    """Return the pipeline, with all that the arguments say of model and training.

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
    layers = layers_of(arguments)
    degrees = dp, cp, tp = degrees_of(arguments, world)
    batch, micro = batches_of(arguments, dp)
    settings, stages = arguments.values, len(layers)
    says: dict[str, Any] = training_says(settings, (dp * cp, tp), legacy=legacy)
    says["global_batch"] = batch
    if "--seq-length" in arguments:
        says["seq_len"] = arguments.count("--seq-length")
    if "--hidden-size" in arguments:
        says |= model_says(settings, sum(layers), arguments.wrong)
    recompute = recompute_of(settings, max(layers), arguments.wrong)
    return PipelineReadBack(
        microbatches=batch // (micro * dp),
        schedule="1f1b",
        stages=stages_of(
            even_places(places, stages, world // stages, str(folder)),
            layers,
            [degrees] * stages,
            [recompute] * stages,
        ),
        says=says,
    )


def layers_of(arguments: ShellArguments) -> tuple[int, ...]:
    """Return layers per stage as Megatron-LM would cut them."""
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
        return _even_layers(arguments, stages)
    for name in (FIRST, LAST):
        if name in arguments:
            msg = f"is given beside {LAYOUT}, expected one of the two"
            raise arguments.wrong(name, msg)
    try:
        layers = layout_layers(arguments.get(LAYOUT) or "")
    except ValueError as error:
        raise arguments.wrong(LAYOUT, str(error)) from error
    if len(layers) != stages:
        msg = f"has {len(layers)} stages, expected {stages} as in {PIPELINE}"
        raise arguments.wrong(LAYOUT, msg)
    count = arguments.count("--num-layers", sum(layers))
    if sum(layers) != count:
        msg = f"has {sum(layers)} layers, expected {count} as in --num-layers"
        raise arguments.wrong(LAYOUT, msg)
    if not all(layers):
        msg = f"leaves stage {layers.index(0)} without a layer, expected at least one"
        raise arguments.wrong(LAYOUT, msg)
    return layers


def _even_layers(arguments: ShellArguments, stages: int) -> tuple[int, ...]:
    """Return layers per stage without a layout: even, ends aside."""
    count = arguments.count("--num-layers")
    ends = {
        number: arguments.count(name)
        for name, number in ((FIRST, 0), (LAST, stages - 1))
        if name in arguments
    }
    inner = stages - len(ends)
    left = count - sum(ends.values())
    if (left % inner or left < inner) if inner else left:
        msg = f"is {count}, which does not leave the same for each of {inner} stages"
        raise arguments.wrong("--num-layers", msg)
    return tuple(ends.get(number, left // (inner or 1)) for number in range(stages))
