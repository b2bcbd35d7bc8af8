"""Megatron-LM: the arguments of ``pretrain_gpt.py``, and a script per node."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetopt.export.launcher import Launcher, Reader
from hetopt.export.megatron.arguments import megatron_arguments
from hetopt.export.megatron.reading import is_megatron, read_megatron
from hetopt.export.shared.megatron import ENVIRONMENT, LIMITS, megatron_losses
from hetopt.export.shared.one_mesh import launched
from hetopt.export.shared.scripts import mixed_note, script_name, torchrun_scripts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hetopt.export.job import Job


def files(job: Job) -> Mapping[str, str]:
    """Return one script per node."""
    program = ["../pretrain_gpt.py", *megatron_arguments(job)]
    return torchrun_scripts(job, program, ENVIRONMENT)


def commands(job: Job) -> str:
    """Say where the folder goes and which arguments are the user's."""
    first = script_name(job, job.placement.nodes[0])
    trial = (
        "--mock-data --tokenizer-type NullTokenizer --vocab-size "
        f"{job.problem.model.vocab - 1} --lr 1e-4 --train-iters 10 --eval-iters 0"
    )
    parts = [
        "Copy this folder into a checkout of Megatron-LM on every host, so that "
        "the checkout's `pretrain_gpt.py` is in the folder above, and run on each "
        "host its own script; ranks meet on the first host. The scripts hold what "
        "the plan decides; data, tokenizer, learning rate and checkpoints follow "
        "as arguments. A trial with made-up data, on the first host:",
        f"    ./{first} {trial}",
    ]
    return "\n\n".join(parts + mixed_note(job))


LAUNCHER = Launcher(
    name="megatron",
    title="Megatron-LM",
    losses=megatron_losses,
    launched=launched,
    files=files,
    commands=commands,
    limits=LIMITS,
    reader=Reader(looks_like=is_megatron, read=read_megatron),
)
