"""Reads launch scripts of Megatron-LM and Megatron-DeepSpeed, by hetopt or others."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hetopt.export.launcher import Reader
from hetopt.export.megatron.deepspeed import deepspeed_says
from hetopt.export.shared.megatron.arguments import DEEPSPEED, MEGATRON
from hetopt.export.shared.megatron.chunks import chunk_notes
from hetopt.export.shared.megatron.pipeline import (
    batches_of,
    degrees_of,
    division_of,
    pipeline_of,
)
from hetopt.export.shared.megatron.programs import (
    ensure_decoder,
    other_program,
    unknown_program,
)
from hetopt.export.shared.megatron.says import notes
from hetopt.export.shared.shell.arguments import calling_scripts, has_script, spelled
from hetopt.export.shared.world import places_of, world_size
from hetopt.export.understood import Read, not_priced

if TYPE_CHECKING:
    from pathlib import Path

    from hetopt.export.pipeline import PipelineReadBack
    from hetopt.export.shared.shell.arguments import ShellArguments
    from hetopt.results.reported import Reported

#: Names of older versions -> today's.
_ALIASES = {
    "layernorm_epsilon": "norm_epsilon",
    "model_parallel_size": "tensor_model_parallel_size",
    "batch_size": "micro_batch_size",
    "activations_checkpoint_granularity": "recompute_granularity",
    "encoder_seq_length": "seq_length",
}


#: Megatron-DeepSpeed's name of ``num_query_groups``.
_KV_HEADS = "num_key_value_heads"


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
    division_of(arguments)
    arguments.count("--micro-batch-size")
    places = places_of(folder, arguments)
    world = len(places) if places is not None else world_size(scripts)
    dp, _, _ = degrees_of(arguments, world)
    sizes = (*batches_of(arguments, dp), dp)
    deepspeed = deepspeed_says(folder, arguments, sizes)
    legacy = deepspeed is not None
    found = pipeline_of(arguments, world, places, folder, legacy=legacy)
    reported = (
        *chunk_notes(arguments, found, spelled),
        *_reported(arguments, legacy),
    )
    if deepspeed is None:
        return replace(found, reported=reported)
    return replace(
        found,
        says={**found.says, **deepspeed.says},
        offload=deepspeed.offload,
        reported=(*reported, *deepspeed.reported),
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
        *notes(arguments.values, arguments.wrong, spelled),
        *arguments.report(DEEPSPEED if deepspeed else MEGATRON),
    )


def _named(arguments: ShellArguments) -> ShellArguments:
    """Return a script's arguments under today's names."""
    left = arguments.values.left()
    new = {_ALIASES[name]: value for name, value in left.items() if name in _ALIASES}
    kept = {name: value for name, value in left.items() if name not in _ALIASES}
    if _KV_HEADS in kept:
        new |= {"num_query_groups": kept.pop(_KV_HEADS), "group_query_attention": ""}
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


READER = Reader(looks_like=is_megatron, read=read_megatron)
