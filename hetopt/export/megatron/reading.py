"""Reads Megatron-LM's launch scripts, hetopt's and hand-made ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hetopt.errors import InputError
from hetopt.export.pipeline import MOST_STAGES, PipelineReadBack, stages_of
from hetopt.export.shared.hosts import even_places, rank_hosts
from hetopt.export.shared.megatron_layout import layout_layers
from hetopt.export.shared.megatron_says import architecture_says
from hetopt.export.shared.shell_arguments import calling_scripts, has_script

if TYPE_CHECKING:
    from pathlib import Path

    from hetopt.export.shared.shell_arguments import ShellArguments
    from hetopt.problem.training import Recompute

PIPELINE = "--pipeline-model-parallel-size"
LAYOUT = "--pipeline-model-parallel-layout"
FIRST = "--decoder-first-pipeline-num-layers"
LAST = "--decoder-last-pipeline-num-layers"

#: Schedules, cuts and models that hetopt cannot price.
_REFUSED = (
    "--num-layers-per-virtual-pipeline-stage",
    "--num-virtual-stages-per-pipeline-rank",
    "--account-for-embedding-in-pipeline-split",
    "--account-for-loss-in-pipeline-split",
    "--num-experts",
    "--multi-latent-attention",
    "--mtp-num-layers",
    "--use-megatron-fsdp",
    "--use-torch-fsdp2",
)
#: Field of a model or of training -> argument.
_SAYS = {
    "hidden": "--hidden-size",
    "heads": "--num-attention-heads",
    "kv_heads": "--num-query-groups",
    "ffn": "--ffn-hidden-size",
    "seq_len": "--seq-length",
    "global_batch": "--global-batch-size",
}


def read_megatron(folder: Path) -> PipelineReadBack:
    """Read the scripts of a folder and its ``nodes`` folder.

    Raises
    ------
    InputError
        No script calls Megatron-LM, two scripts call it differently, or it would
        refuse the arguments; see ``hetopt.export.launcher.Reader``.
    """
    what = "Megatron-LM's --num-layers and --micro-batch-size"
    scripts = calling_scripts(folder, _calls, what)
    arguments = scripts[0]
    tp = arguments.count("--tensor-model-parallel-size", 1)
    cp = arguments.count("--context-parallel-size", 1)
    layers = _layers(arguments)
    places = rank_hosts(folder)
    world = len(places) if places is not None else _world_size(scripts)
    each, rest = divmod(world, len(layers))
    if rest or each % (tp * cp) or not each:
        msg = (
            f"{world} ranks, which is no multiple of tp * cp * stages = {tp} * {cp} * "
            f"{len(layers)}"
        )
        raise InputError(msg, file=arguments.file, field=PIPELINE)
    dp = each // (tp * cp)
    micro = arguments.count("--micro-batch-size")
    batch = arguments.count("--global-batch-size", micro * dp)
    if batch % (micro * dp):
        msg = f"is {batch}, which is no multiple of micro-batch size {micro} * dp {dp}"
        raise InputError(msg, file=arguments.file, field="--global-batch-size")
    stages = len(layers)
    return PipelineReadBack(
        microbatches=batch // (micro * dp),
        schedule="1f1b",
        stages=stages_of(
            even_places(places, stages, each, str(folder)),
            layers,
            [(dp, cp, tp)] * stages,
            [_recompute(arguments)] * stages,
        ),
        says=_says(arguments, sum(layers)),
    )


def _says(arguments: ShellArguments, layers: int) -> dict[str, Any]:
    """Return what the arguments say of model and training."""
    says: dict[str, Any] = {
        name: arguments.count(argument)
        for name, argument in _SAYS.items()
        if argument in arguments
    }
    if "--hidden-size" in arguments:
        # The arguments are complete, so what they leave out is off.
        says["tied"] = "--untie-embeddings-and-output-weights" not in arguments
        says["zero"] = int("--use-distributed-optimizer" in arguments)
        settings = {
            name.removeprefix("--").replace("-", "_"): value
            for name, value in arguments.values.items()
        }

        def wrong(name: str, message: str) -> InputError:
            field = "--" + name.replace("_", "-")
            return InputError(message, file=arguments.file, field=field)

        says |= architecture_says(settings, layers, wrong)
    return says


def is_megatron(folder: Path) -> bool:
    """Whether a script of a folder has Megatron-LM's arguments."""
    return has_script(folder, _calls)


def _calls(script: ShellArguments) -> bool:
    return LAYOUT in script or {"--num-layers", "--micro-batch-size"} <= script.names


def _world_size(scripts: list[ShellArguments]) -> int:
    """Return the ranks that the scripts start: one a node, or one for all nodes."""
    nodes = scripts[0].count("--nnodes", 1)
    each = [script.count("--nproc-per-node", 1) for script in scripts]
    if len(scripts) == 1:
        return nodes * each[0]
    if len(scripts) != nodes:
        msg = f"is {nodes}, but {len(scripts)} scripts are there, expected one a node"
        raise InputError(msg, file=scripts[0].file, field="--nnodes")
    return sum(each)


def _layers(arguments: ShellArguments) -> tuple[int, ...]:
    """Return layers per stage as Megatron-LM would cut them."""
    for name in _REFUSED:
        if name in arguments:
            msg = "is given, which hetopt cannot price"
            raise InputError(msg, file=arguments.file, field=name)
    stages = arguments.count(PIPELINE, 1)
    if stages > MOST_STAGES:
        msg = f"is {stages}, expected at most {MOST_STAGES} stages"
        raise InputError(msg, file=arguments.file, field=PIPELINE)
    if LAYOUT not in arguments:
        return _even_layers(arguments, stages)
    for name in (FIRST, LAST):
        if name in arguments:
            msg = f"is given beside {LAYOUT}, expected one of the two"
            raise InputError(msg, file=arguments.file, field=name)
    try:
        layers = layout_layers(arguments.values[LAYOUT])
    except ValueError as error:
        raise InputError(str(error), file=arguments.file, field=LAYOUT) from error
    if len(layers) != stages:
        msg = f"has {len(layers)} stages, expected {stages} as in {PIPELINE}"
        raise InputError(msg, file=arguments.file, field=LAYOUT)
    count = arguments.count("--num-layers", sum(layers))
    if sum(layers) != count:
        msg = f"has {sum(layers)} layers, expected {count} as in --num-layers"
        raise InputError(msg, file=arguments.file, field=LAYOUT)
    if not all(layers):
        msg = f"leaves stage {layers.index(0)} without a layer, expected at least one"
        raise InputError(msg, file=arguments.file, field=LAYOUT)
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
        raise InputError(msg, file=arguments.file, field="--num-layers")
    return tuple(ends.get(number, left // (inner or 1)) for number in range(stages))


def _recompute(arguments: ShellArguments) -> Recompute:
    name, modules = "--recompute-granularity", "--recompute-modules"
    if arguments.values.get(modules, "core_attn") != "core_attn":
        msg = f"is {arguments.values[modules]!r}, hetopt can price core_attn alone"
        raise InputError(msg, file=arguments.file, field=modules)
    if name not in arguments:
        return "selective" if "--recompute-activations" in arguments else "none"
    match arguments.values[name]:
        case "selective":
            return "selective"
        case "full":
            _check_whole(arguments)
            return "full"
        case other:
            msg = f"is {other!r}, expected full or selective"
            raise InputError(msg, file=arguments.file, field=name)


def _check_whole(arguments: ShellArguments) -> None:
    """Raise InputError unless every layer is recomputed from its own input."""
    method = arguments.values.get("--recompute-method")
    if method not in ("uniform", "block"):
        msg = f"is {method!r}, expected uniform or block"
        raise InputError(msg, file=arguments.file, field="--recompute-method")
    number = arguments.count("--recompute-num-layers")
    if method == "uniform" and number == 1:
        return
    if method == "block" and number >= max(_layers(arguments)):
        return
    msg = f"{method} {number} recomputes other than every layer, which hetopt can price"
    raise InputError(msg, file=arguments.file, field="--recompute-num-layers")
