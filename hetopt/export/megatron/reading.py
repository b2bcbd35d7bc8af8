"""Reads launch scripts of Megatron-LM and Megatron-DeepSpeed, hetopt's and others'."""

from __future__ import annotations

from dataclasses import replace
from pathlib import PurePath
from typing import TYPE_CHECKING

from hetopt.export.megatron.deepspeed import deepspeed_says
from hetopt.export.megatron.programs import (
    ensure_decoder,
    other_program,
    unknown_program,
)
from hetopt.export.pipeline import MOST_STAGES, PipelineReadBack, stages_of
from hetopt.export.shared.hosts import even_places, rank_hosts
from hetopt.export.shared.megatron_arguments import DEEPSPEED, MEGATRON
from hetopt.export.shared.megatron_layout import layout_layers
from hetopt.export.shared.megatron_recompute import recompute_of
from hetopt.export.shared.megatron_says import model_says, notes, training_says
from hetopt.export.shared.shell_arguments import calling_scripts, has_script
from hetopt.export.shared.understood import Read, not_priced

if TYPE_CHECKING:
    from pathlib import Path

    from hetopt.export.shared.hosts import RankHosts
    from hetopt.export.shared.shell_arguments import ShellArguments
    from hetopt.export.shared.understood import Reported

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
#: Names of older versions.
_ALIASES = {
    "layernorm_epsilon": "norm_epsilon",
    "model_parallel_size": "tensor_model_parallel_size",
    "batch_size": "micro_batch_size",
    "activations_checkpoint_granularity": "recompute_granularity",
    "encoder_seq_length": "seq_length",
}


def read_megatron(folder: Path) -> PipelineReadBack:
    """Read the scripts of a folder and its ``nodes`` folder.

    Raises
    ------
    InputError
        No script calls Megatron-LM, two scripts call it differently, they start
        another program than a decoder's pre-training, or it would refuse the
        arguments; see ``hetopt.export.launcher.Reader``.
    """
    what = "Megatron-LM's --num-layers and --micro-batch-size"
    scripts = [_named(one) for one in calling_scripts(folder, _calls, what)]
    arguments = scripts[0]
    ensure_decoder(arguments.program, arguments.names, arguments.file)
    tp = arguments.count("--tensor-model-parallel-size", 1)
    cp = arguments.count("--context-parallel-size", 1)
    layers = _layers(arguments)
    micro = arguments.count("--micro-batch-size")
    places = _places(folder, arguments)
    world = len(places) if places is not None else _world_size(scripts)
    each, rest = divmod(world, len(layers))
    if rest or each % (tp * cp) or not each:
        msg = (
            f"{world} ranks, which is no multiple of tp * cp * stages = {tp} * {cp} * "
            f"{len(layers)}"
        )
        raise arguments.wrong(PIPELINE, msg)
    dp = each // (tp * cp)
    batch = arguments.count("--global-batch-size", micro * dp)
    if batch % (micro * dp):
        msg = f"is {batch}, which is no multiple of micro-batch size {micro} * dp {dp}"
        raise arguments.wrong("--global-batch-size", msg)
    stages = len(layers)
    settings = arguments.values
    deepspeed = deepspeed_says(folder, arguments, batch, micro, dp)
    says = training_says(settings, (dp * cp, tp), legacy=deepspeed is not None)
    recompute = recompute_of(settings, max(layers), arguments.wrong)
    says |= {"global_batch": batch} | (deepspeed.says if deepspeed else {})
    if "--seq-length" in arguments:
        says["seq_len"] = arguments.count("--seq-length")
    if "--hidden-size" in arguments:
        says |= model_says(settings, sum(layers), arguments.wrong)
    reported = _reported(arguments, deepspeed is not None)
    return PipelineReadBack(
        microbatches=batch // (micro * dp),
        schedule="1f1b",
        stages=stages_of(
            even_places(places, stages, each, str(folder)),
            layers,
            [(dp, cp, tp)] * stages,
            [recompute] * stages,
        ),
        says=says,
        reported=(*reported, *(deepspeed.reported if deepspeed else ())),
    )


def _reported(arguments: ShellArguments, deepspeed: bool) -> tuple[Reported, ...]:
    """Return what the price leaves out of a script's arguments."""
    missing = tuple(
        not_priced(name, "is not given: hetopt takes the problem's model")
        for name in ("--hidden-size", "--seq-length")
        if name not in arguments
    )
    return (
        *unknown_program(arguments.program),
        *missing,
        *notes(arguments.values),
        *arguments.report(DEEPSPEED if deepspeed else MEGATRON),
    )


def _named(arguments: ShellArguments) -> ShellArguments:
    """Return a script's arguments under the names that they have today."""
    left = arguments.values.left()
    new = {_ALIASES[name]: value for name, value in left.items() if name in _ALIASES}
    kept = {name: value for name, value in left.items() if name not in _ALIASES}
    return replace(arguments, values=Read(new | kept))


def is_megatron(folder: Path) -> bool:
    """Whether a script of a folder has Megatron-LM's arguments."""
    return has_script(folder, _calls)


def _calls(script: ShellArguments) -> bool:
    names = script.names
    sizes = {"num_layers", "encoder_num_layers"}
    batches = {"micro_batch_size", "batch_size"}
    return (
        "pipeline_model_parallel_layout" in names
        or not (names.isdisjoint(sizes) or names.isdisjoint(batches))
        or (
            bool(script.program)
            and other_program(script.program) is not None
            and "num_layers" in names
        )
    )


def _places(folder: Path, arguments: ShellArguments) -> RankHosts | None:
    """Return the hosts of ranks, of the hosts that DeepSpeed takes."""
    name = arguments.get("--hostfile")
    nodes = "--num-nodes" in arguments
    places = rank_hosts(folder, PurePath(name).name if name else "hostfile")
    if places is None or not nodes:
        return places
    first = list(dict.fromkeys(host for host, _ in places))
    kept = set(first[: arguments.count("--num-nodes")])
    return tuple(place for place in places if place[0] in kept)


def _world_size(scripts: list[ShellArguments]) -> int:
    """Return the ranks that the scripts start: one a node, or one for all nodes."""
    first = scripts[0]
    names = {"nproc_per_node", "num_gpus", "nnodes", "num_nodes"}
    if first.names.isdisjoint(names):
        msg = (
            "is not given, nor a hostfile or ranks.csv in the folder: hetopt cannot "
            "tell how many ranks there are"
        )
        raise first.wrong("--nproc-per-node", msg)
    if "--num-gpus" in first:
        return first.count("--num-nodes", 1) * first.count("--num-gpus")
    if "--num-nodes" in first:
        msg = (
            "is not given, and the hostfile is not in the folder: hetopt cannot tell "
            "how many ranks there are"
        )
        raise first.wrong("--num-gpus", msg)
    nodes = _nodes(first)
    each = [script.count("--nproc-per-node", 1) for script in scripts]
    if len(scripts) == 1:
        return nodes * each[0]
    if len(scripts) != nodes:
        msg = f"is {nodes}, but {len(scripts)} scripts are there, expected one a node"
        raise first.wrong("--nnodes", msg)
    return sum(each)


def _nodes(script: ShellArguments) -> int:
    """Return the nodes of torchrun; of a range, as 1:4, the most."""
    text = script.get("--nnodes", "1") or ""
    least, _, most = text.partition(":")
    if most and least != most:
        msg = f"is {text}: hetopt cannot tell how many ranks there are"
        raise script.wrong("--nnodes", msg)
    return script.count("--nnodes", 1) if not most else int(most)


def _layers(arguments: ShellArguments) -> tuple[int, ...]:
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
