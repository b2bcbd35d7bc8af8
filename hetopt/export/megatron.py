"""Megatron-LM: one (d, c, t) and one recomputation for all stages, uneven layers, 1F1B.

RUNTIMES.md, Megatron-LM. Ranks are laid out ``tp-cp-ep-dp-pp`` by default, ``tp`` the
fastest, which is how hetopt counts them too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetopt.export.alike import (
    alike_losses,
    launched,
    recompute_loss,
    shared_head_losses,
)
from hetopt.export.bundle import ranks_csv
from hetopt.export.launcher import Loss
from hetopt.export.megatron_arguments import megatron_arguments
from hetopt.export.megatron_reading import is_megatron, read_megatron
from hetopt.export.scripts import script_name, torchrun_scripts, visible_devices

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from hetopt.export.job import Job
    from hetopt.export.sketch import Sketch
    from hetopt.problem.problem import Problem

#: Tensor and context parallelism assert it on devices before Blackwell.
ENVIRONMENT = {"CUDA_DEVICE_MAX_CONNECTIONS": "1"}


class Megatron:
    """Writes the arguments of ``pretrain_gpt.py``."""

    name = "megatron"
    title = "Megatron-LM"

    def losses(self, job: Job) -> Iterable[Loss]:
        """Yield what of the plan Megatron-LM cannot do."""
        return megatron_losses(job)

    def files(self, job: Job) -> Mapping[str, str]:
        """Return one script per node, and the ranks as they are launched."""
        job = launched(job)
        program = ["../pretrain_gpt.py"]
        for name, value in megatron_arguments(job).items():
            program += [name, value] if value else [name]
        return {
            "ranks.csv": ranks_csv(job.placement),
            **torchrun_scripts(job, program, ENVIRONMENT),
        }

    def commands(self, job: Job) -> str:
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

    def recognises(self, folder: Path) -> bool:
        """Whether a script has Megatron-LM's arguments."""
        return is_megatron(folder)

    def read(self, folder: Path) -> Sketch:
        """Read layout and degrees from a folder's scripts."""
        return read_megatron(folder)


def megatron_losses(job: Job) -> Iterator[Loss]:
    """Yield what of a plan Megatron-LM, and what builds on it, cannot do."""
    yield from alike_losses(job)
    yield from shared_head_losses(job)
    yield from recompute_loss(job)
    if not job.warms_up_as_1f1b:
        counts = ", ".join(str(stage.warmup) for stage in job.stages)
        yield Loss(
            what=f"schedule {job.plan.schedule} with warm-up counts {counts}: it is "
            "1F1B, one more on each stage than on the next",
            instead="1F1B",
        )
    zero = max(job.zero_stages)
    if zero > 1:
        yield Loss(
            what=f"ZeRO {zero} in a pipeline: it shards optimizer states alone",
            instead="ZeRO 1, which needs more memory",
        )
    yield from problem_losses(job.problem)


def problem_losses(problem: Problem) -> Iterator[Loss]:
    """Yield what Megatron-LM cannot do of a problem, whatever its plan."""
    model, training = problem.model, problem.training
    if training.zero and training.optimizer != "adam":
        yield Loss(
            what=f"ZeRO with optimizer {training.optimizer}: it shards Adam's states",
            instead="ZeRO 0, which needs more memory",
        )
    if 0 < model.positions < training.seq_len:
        yield Loss(
            what=f"a table of {model.positions} positions for sequences of "
            f"{training.seq_len}: it must be as long as a sequence",
            instead=f"{training.seq_len} positions",
        )


def mixed_note(job: Job) -> list[str]:
    """Return a paragraph if devices with different drivers are to talk together."""
    drivers = {visible_devices(job, node) for node in job.placement.nodes}
    if len(drivers) < 2:
        return []
    names = dict.fromkeys(node.cluster for node in job.placement.nodes)
    return [
        f"Devices of {', '.join(names)} have different drivers, and one job joins "
        "them: that takes a communication library which all of them share."
    ]


LAUNCHER = Megatron()
