"""hetopt's own training program: runs plans of all kinds, on devices of any vendor.

Stages have their own (dp, cp, tp), (ep, etp), recomputation, warm-up counts and ways of
resharding, and may hold several chunks or split their backward passes; pipelines may be
side by side. The bundle holds the program (``program``, whose docstring says how it
works) and ``job.json``, which describes the job.
"""

from __future__ import annotations

import json
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING

from hetopt.base.words import counted
from hetopt.export.launcher import Launcher, Limits, Loss, SideBySide
from hetopt.export.shared.architecture import architecture_losses, as_said
from hetopt.export.shared.kernels import (
    GRADIENTS_BF16,
    NO_SEQUENCE_PARALLEL,
    UNFUSED_LOSS,
    choice_losses,
)
from hetopt.export.shared.losses import dropless_losses, model_losses, unit_losses
from hetopt.export.shared.scripts import script_name, torchrun_scripts
from hetopt.export.torch.devices import (
    device_losses,
    device_notes,
    devices_of,
    search_losses,
    used_clusters,
)
from hetopt.export.torch.job_file import JobFile, JobModel, JobStage, JobTraining
from hetopt.plans.strategy import DEGREES
from hetopt.problem.training.choices import RESHARDING, SCHEDULE_CHOICES
from hetopt.schedule import orders
from hetopt.schedule.schedules import rule_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from hetopt.export.job import Job
    from hetopt.problem.problem import Problem

#: The PyTorch that the program was tested with.
TESTED_WITH = "2.13"

#: What ``job.json`` says of the model's architecture.
_ARCHITECTURE = ("norm_eps", "rotary_base")

#: The files beside the program: its start script, and an example of a user's units.
_TRAIN = '''"""Trains as job.json says; started in every rank by torchrun."""

from program.training import main

if __name__ == "__main__":
    main()
'''
_EXAMPLE = "llama_units.py"


def files(job: Job) -> Mapping[str, str]:
    """Return the program, its job, and one script per node."""
    program = {}
    for path in sorted(Path(__file__).with_name("program").glob("*.py")):
        name = path.name if path.name == _EXAMPLE else f"program/{path.name}"
        program[name] = path.read_text("utf-8")
    # The program imports nothing of hetopt.
    program["program/orders.py"] = Path(orders.__file__).read_text("utf-8")
    return {
        "job.json": _job_json(job),
        "train.py": _TRAIN,
        **program,
        **torchrun_scripts(job, ["train.py"]),
    }


def commands(job: Job) -> str:
    """Say what the program is and how to start it."""
    first = script_name(job, 0)
    parts = [
        f"`train.py` trains a transformer of the plan's sizes with PyTorch alone "
        f"(tested with {TESTED_WITH}; another version is noted at the start). "
        "`job.json` has every stage of the plan; `program/__init__.py` says how the "
        "program carries it out. Copy this folder to every host and run on each its "
        "own script; ranks meet on the first host:",
        f"    ./{first} --steps 1000 --checkpoints /data/checkpoints",
        _about_devices(job),
        "A run that is started again goes on from its newest checkpoint. Tokens are "
        "made up until you give your own: `--data FILE.py:FUNCTION` names a function "
        "`(step, job)` that returns the global batch as int64 (B, s + 1).",
        "A model of your own: `--units FILE.py:FUNCTION` names a function `(index, "
        "place)` that builds one unit as an `nn.Module`; `program/units.py` says what "
        f"a unit must do. `{_EXAMPLE}` makes them of a Hugging Face Llama:",
        f"    ./{first} --units {_EXAMPLE}:build_unit",
        "Memory is the plan's for the program's own units, which have no dropout; what "
        "a module of yours keeps for its backward pass is its own. A rank that fails "
        "says why first, and then all end.",
    ]
    if job.plan.chunks > 1:
        parts.insert(1, _about_chunks(job))
    if rule_of(job.plan.schedule).splits:
        parts.insert(1, _about_zero_bubble(job))
    if job.parts:
        parts.insert(1, _about_pipelines(job))
    return "\n\n".join(parts)


def _about_devices(job: Job) -> str:
    """Say what ranks run on, and how they reach each other."""
    devices = devices_of(job)
    runs = (f"{name} on {own.device} ({own.backend})" for name, own in devices.items())
    about = [f"Ranks of {', '.join(runs)}; a rank without its device ends at once."]
    about += [f"Assumed: {note}." for note in device_notes(used_clusters(job))]
    if len({own.group for own in devices.values()}) > 1:
        about.append(
            "What goes from one cluster to another goes through the memory of their "
            "hosts, over gloo, unless `job.json` has the same `group` for both."
        )
    if any(own.device == "npu" for own in devices.values()):
        about.append("The program was never tried on Ascend; it needs `torch_npu`.")
    about.append("`--cpu` runs all ranks on CPUs, for a trial.")
    return " ".join(about)


def _about_chunks(job: Job) -> str:
    """Say what stages of several chunks do."""
    last = [str(pipeline.stages[-1].resharding) for pipeline in job.plan.pipelines]
    return (
        f"Every stage holds {counted(job.plan.chunks, 'chunk')} of the model "
        "(interleaved 1F1B): a micro-batch goes through all stages of its pipeline for "
        "each of them, and from the last stage back to the first in between, resharded "
        f"by {' or '.join(dict.fromkeys(last))}. In `job.json` a stage's units are "
        "those of a chunk, as if there were no other (of all its chunks where they "
        "differ: `cuts` then has the end of each, the first chunks of all stages "
        "first), and its "
        "warm-up counts passes, each one micro-batch on one chunk."
    )


def _about_zero_bubble(job: Job) -> str:
    """Say what split backward passes do, and folded pipelines."""
    about = (
        f"Gradients of weights run later than those of inputs ({job.plan.schedule}): "
        "those of the program's own multiplications, and of every `nn.Linear` of a "
        "unit of yours. All else a unit has gets its gradients with those of inputs."
    )
    if not rule_of(job.plan.schedule).folded:
        return about
    return (
        f"{about} The pipeline is folded in two: a stage holds as many units from the "
        "head as from the embedding, both of which are on the first stage, and a "
        "micro-batch comes back up through the second ones. In `job.json` a stage's "
        "units are those on the way down."
    )


def _about_pipelines(job: Job) -> str:
    """Say what several pipelines do."""
    taken = " and ".join(str(part.problem.training.global_batch) for part in job.parts)
    return (
        f"{len(job.parts)} pipelines take {taken} of the "
        f"{counted(job.problem.training.global_batch, 'sequence')} of every batch. At "
        "the end of an iteration gradients are added up over them, in slices where "
        "their tensor-parallel degrees differ; the loss is that of the whole batch. A "
        "parameter of a unit of your own that tp cuts says which part it is "
        "(`parameter.box`)."
    )


def losses(job: Job) -> Iterator[Loss]:
    """Yield what the program cannot do of a plan."""
    yield from model_losses(job.problem.model)
    yield from unit_losses(job)
    yield from device_losses(job)
    zero = max(job.zero_stages)
    if zero > 1:
        yield Loss(
            what=f"ZeRO {zero}: the program shards optimizer states alone",
            instead="ZeRO 1, which needs more memory",
        )
    yield from _problem_losses(job.problem)


def launched(job: Job) -> Job:
    """Return the job with one strategy per stage, and ZeRO 0 or 1."""
    stages = tuple(
        replace(
            stage,
            strategy=replace(stage.strategy, zero=min(zero, 1)),
            unit_strategies=None,
        )
        for stage, zero in zip(job.stages, job.zero_stages, strict=True)
    )
    pipeline = replace(job.plan.pipeline, stages=stages)
    return replace(job, plan=replace(job.plan, pipelines=(pipeline,)))


def _search_losses(problem: Problem) -> Iterator[Loss]:
    """Yield what the program cannot do of a problem, or of some plans of it."""
    yield from _problem_losses(problem)
    yield from search_losses(problem)


def _problem_losses(problem: Problem) -> Iterator[Loss]:
    """Yield what the program cannot do of a problem under any plan."""
    model, training = problem.model, problem.training
    gelu = None if model.gated else "gelu"
    yield from architecture_losses(
        model, as_said(model, _ARCHITECTURE, activation=gelu)
    )
    yield from _expert_losses(problem)
    has = (UNFUSED_LOSS, NO_SEQUENCE_PARALLEL, GRADIENTS_BF16)
    yield from choice_losses(training, has)
    if 0 < model.positions < training.seq_len:
        yield Loss(
            what=f"a table of {model.positions} positions for sequences of "
            f"{training.seq_len}: it must be as long as a sequence",
            instead=f"{training.seq_len} positions",
        )
    if not model.positions and model.head_dim % 2:
        yield Loss(
            what=f"heads of width {model.head_dim} with rotary embeddings: these "
            "need an even width",
            instead=None,
        )


def _expert_losses(problem: Problem) -> Iterator[Loss]:
    """Yield what the program's routed experts cannot do."""
    model, experts = problem.model, problem.model.experts
    if experts is None:
        return
    if model.biases[2]:
        yield Loss(what="routed experts with biases", instead=None)
    if experts.weighted_input:
        yield Loss(
            what="experts.weighted_input: it weighs what experts return", instead=None
        )
    if experts.router_bias and experts.scores == "sigmoid":
        yield Loss(
            what="experts.router_bias of sigmoid scores, which balances loads by rules "
            "of its own",
            instead=None,
        )
    yield from dropless_losses(problem.training.moe)


def _head(job: Job) -> JobFile:
    """Return ``job.json`` without stages."""
    model, training = job.problem.model, job.problem.training
    schedule, experts = job.plan.schedule, model.experts
    sizes = {
        each.name: getattr(
            model.architecture if each.name in _ARCHITECTURE else model, each.name
        )
        for each in fields(JobModel)
    }
    sizes["experts"] = None if experts is None else asdict(experts)
    if model.positions:
        sizes["positions"] = max(model.positions, training.seq_len)
    return JobFile(
        tested_with={"torch": TESTED_WITH},
        plan_digest=job.plan.digest,
        model=JobModel(**sizes),
        clusters=devices_of(job),
        training=JobTraining(
            global_batch=training.global_batch,
            seq_len=training.seq_len,
            microbatches=None if job.parts else job.microbatches,
            chunks=job.plan.chunks,
            cuts=job.plan.cuts,
            zero_bubble=schedule if rule_of(schedule).splits else None,
            precision=training.precision,
            optimizer=training.optimizer,
            gradients=training.gradients,
            sequence_parallel=training.sequence_parallel,
            overlap_gradients=training.overlap_gradients,
        ),
    )


def _stages(job: Job) -> list[JobStage]:
    """Return every stage."""
    return [
        JobStage(
            cluster=stage.cluster,
            first=stage.first_unit,
            end=stage.end_unit,
            **{name: getattr(stage.strategy, name) for name in DEGREES},
            recompute=stage.strategy.recompute,
            zero=zero,
            warmup=stage.warmup,
            resharding=stage.resharding,
        )
        for stage, zero in zip(job.stages, job.zero_stages, strict=True)
    ]


def _job_json(job: Job) -> str:
    """Return ``job.json``, with one line for each stage."""
    head = json.dumps(_head(job).to_json(), indent=2).removesuffix("\n}")
    if not job.parts:
        return f"{head},\n{_stage_lines(job, 2)}\n}}\n"
    pipelines = ",\n".join(
        f'    {{\n      "batch": {part.problem.training.global_batch},\n'
        f'      "microbatches": {part.microbatches},\n{_stage_lines(part, 6)}\n    }}'
        for part in job.parts
    )
    return f'{head},\n  "pipelines": [\n{pipelines}\n  ]\n}}\n'


def _stage_lines(job: Job, indent: int) -> str:
    """Return the key and list of stages of a pipeline."""
    margin = " " * indent
    stages = (json.dumps(stage.to_json()) for stage in _stages(job))
    rows = ",\n".join(f"{margin}  {stage}" for stage in stages)
    return f'{margin}"stages": [\n{rows}\n{margin}]'


LAUNCHER = Launcher(
    name="torch",
    title="hetopt's program for PyTorch",
    losses=losses,
    launched=launched,
    files=files,
    commands=commands,
    limits=Limits(
        schedules=tuple(
            name for name in SCHEDULE_CHOICES if not rule_of(name).blocking
        ),
        resharding=RESHARDING,
        zero=(0, 1),
        parts=("experts",),
        blocks=True,
        cuts=True,
        losses=_search_losses,
        together=SideBySide(),
    ),
    side_by_side=device_losses,
    notes=device_notes,
    divides_hosts=True,
)
