"""Reads jobs of TorchTitan: TOML files of 0.2, and Python configurations of 0.3.

Settings come from the file, then from ``--section.name value`` after the program of a
launch script; what neither says is TorchTitan's default. Python is parsed and never
run. Sources: TorchTitan 0.2.2 and 0.3.0 (``trainer.py``, ``train.py``,
``distributed/parallel_dims.py``, ``distributed/fsdp.py``,
``models/llama3/infra/parallelize.py``).
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hetopt.base.words import counted
from hetopt.export.launcher import Reader
from hetopt.export.pipeline import PipelineReadBack
from hetopt.export.pipeline import stages_of as rows_of
from hetopt.export.shared.hosts import even_places, rank_hosts
from hetopt.export.shared.shell.arguments import ShellArguments
from hetopt.export.shared.world import world_size
from hetopt.export.torchtitan.cut import by_stage, layers_of, schedule_of, stages_of
from hetopt.export.torchtitan.files import looks_like_torchtitan, read_job
from hetopt.export.torchtitan.models import flavor_says, masks_documents, model_says
from hetopt.export.torchtitan.program import Made
from hetopt.export.torchtitan.settings import TITAN, as_text
from hetopt.export.understood import not_priced

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from hetopt.errors import InputError
    from hetopt.export.shared.hosts import RankHosts
    from hetopt.export.torchtitan.files import Job
    from hetopt.export.torchtitan.settings import Settings
    from hetopt.problem.training.choices import Recompute
    from hetopt.results.reported import Reported

_MASK = "attention is within each document, hetopt prices it over whole sequences"
_REPLICATE = "parallelism.data_parallel_replicate_degree"
_SHARD = "parallelism.data_parallel_shard_degree"
_EXPERTS = "parallelism.expert_parallel_degree"
_RESHARD = "parallelism.fsdp_reshard_after_forward"
_GLOBAL = "training.global_batch_size"
_LOCAL = "training.local_batch_size"
_MICRO = "parallelism.pipeline_parallel_microbatch_size"
_MODE = "activation_checkpoint.mode"
#: Converters of linear layers -> the precision they make, and what to say of them.
_CONVERTERS = {
    "float8": ("fp8", ""),
    "quantize.linear.float8": ("fp8", ""),
    "Float8LinearConverter.Config": ("fp8", ""),
    "mx": ("mxfp8", ""),
    "quantize.linear.mx": ("mxfp8", ""),
    "MXFP8LinearConverter.Config": ("mxfp8", ""),
    "NVFP4LinearConverter.Config": ("nvfp4", ""),
    "LoRAConverter.Config": ("", "hetopt prices the whole model's training"),
}


class _Mesh:
    """Degrees of a job, and what follows from them."""

    def __init__(self, job: Job, places: RankHosts | None) -> None:
        settings = job.settings
        self.stages = stages_of(settings)
        self.tp = settings.whole("parallelism.tensor_parallel_degree", 1)
        self.cp = settings.whole("parallelism.context_parallel_degree", 1)
        self.replicas = settings.whole(_REPLICATE, 1)
        self.shards = settings.whole(_SHARD, -1, least=-1)
        others = self.stages * self.tp * self.cp * self.replicas
        world = _world(job, places, others * self.shards)
        if self.shards < 0:
            self.shards = world // others
        if self.shards * others != world or not world:
            msg = (
                f"{counted(world, 'rank')}, expected a multiple of stages * cp * tp * "
                f"replicas = {others}, times the shards"
            )
            raise settings.wrong(_SHARD, msg)

    def experts(self, settings: Settings) -> tuple[int, int]:
        """Return (ep, etp) of a model with experts.

        Raises
        ------
        InputError
            ep does not divide shards * cp * tp.
        """
        folded = self.shards * self.cp * self.tp
        ep = settings.whole(_EXPERTS, 1)
        if folded % ep:
            msg = f"is {ep}, expected a divisor of shards * cp * tp ({folded})"
            raise settings.wrong(_EXPERTS, msg)
        # With ep 1, tp cuts the experts.
        return (ep, 1) if ep > 1 else (1, self.tp)

    @property
    def dp(self) -> int:
        return self.replicas * self.shards

    @property
    def sharded(self) -> bool:
        """Whether FSDP shards anything."""
        return self.shards * self.cp > 1


def read_torchtitan(folder: Path) -> PipelineReadBack:
    """Read the job of a folder, and its launch scripts if there are any.

    Raises
    ------
    InputError
        The job is malformed, TorchTitan would refuse it, or hetopt cannot price its
        model or schedule; see ``hetopt.export.launcher.Reader``.
    """
    job = read_job(folder)
    settings, reported = job.settings, list(job.reported)
    says = _model(job, reported)
    places = rank_hosts(folder)
    mesh = _Mesh(job, places)
    parts = layers_of(settings, says.pop("layers"))
    layers, layout = by_stage(parts, mesh.stages)
    microbatches, batch = _batches(settings, mesh)
    schedule, warmups = schedule_of(settings, folder, mesh.stages, microbatches)
    if warmups is not None and min(warmups) >= microbatches > 1:
        schedule = "gpipe"
    says |= {"global_batch": batch, "seq_len": settings.whole("training.seq_len", 2048)}
    says |= _training(settings, mesh, says.pop("precision", None), reported)
    recompute = _recompute(settings)
    each = mesh.dp * mesh.cp * mesh.tp
    stages = rows_of(
        even_places(places, mesh.stages, each, str(folder)),
        layers,
        [(mesh.dp, mesh.cp, mesh.tp)] * mesh.stages,
        [recompute] * mesh.stages,
        mesh.experts(settings) if says["experts"] else (1, 1),
    )
    if warmups is not None:
        pairs = zip(stages, warmups, strict=True)
        stages = tuple(replace(stage, warmup=count) for stage, count in pairs)
    if (group := says.get("shard_group")) is not None:
        made = stages[0].strategy.shard_copies(group, experts=bool(says["experts"]))
        if {*made} != {mesh.replicas}:
            why = f"hetopt prices shards of experts over {group} ranks, or a divisor"
            reported.append(not_priced(_REPLICATE, why))
    return PipelineReadBack(
        microbatches=microbatches,
        schedule=schedule,
        chunks=len(parts) // mesh.stages,
        layout=layout,
        stages=stages,
        says=says,
        reported=(*reported, *TITAN.report(settings.texts.left())),
    )


def _world(job: Job, places: RankHosts | None, product: int) -> int:
    """Return the number of ranks; ``product`` if no file tells and it is positive."""
    if places is not None:
        return len(places)
    empty = ShellArguments(file=job.settings.file)
    scripts = job.scripts or [empty]
    told = scripts[0].names & {"nproc_per_node", "nnodes"}
    return product if product > 0 and not told else world_size(scripts)


def _model(job: Job, reported: list[Reported]) -> dict[str, Any]:
    """Return the fields of the model, with its layers and its converters' precision."""
    settings = job.settings
    if job.model is not None:
        reported.append(not_priced("model_spec", _MASK))
        return _built(job, job.model, reported)
    name = settings.text("model.name", "llama3")
    flavor = settings.text("model.flavor", "debugmodel")
    if name == "qwen3" and stages_of(settings) > 1:
        msg = "is more than 1: TorchTitan 0.2 has no pipelines of qwen3"
        raise settings.wrong("parallelism.pipeline_parallel_degree", msg)
    if masks_documents(name, flavor):
        reported.append(not_priced("model.flavor", _MASK))
    converters = settings.rows("model.converters") or []
    said = flavor_says(name, flavor, _under(settings, "model."), new=False)
    return said | _converted(converters, settings, reported)


def _built(job: Job, model: Made, reported: list[Reported]) -> dict[str, Any]:
    """Return the fields of a model of 0.3, given by a flavor or written out."""
    settings, given = job.settings, dict(model.fields)
    wrong = _under(settings, "model_spec.")
    registry = model.name.endswith("model_registry")
    if not registry and model.name != "ModelSpec":
        msg = f"is {model.name}, expected ModelSpec or TorchTitan's model_registry"
        raise settings.wrong("model_spec", msg)
    converters, built = given.pop("converters", None) or [], given.pop("model", None)
    flavor = as_text(given.pop("flavor", None))
    name = job.family if registry else as_text(given.pop("name", None))
    if registry:
        flavor = as_text(model.given[0]) if model.given else flavor
        said = flavor_says(name, flavor, wrong, new=True)
    elif isinstance(built, Made):
        while built.name == "convert" and built.base and built.given:
            converters = [built.base.base, *converters]
            built = built.given[0]
        said, left = model_says(built, wrong)
        given |= dict.fromkeys(left, "")
    else:
        raise wrong("model", "is not a call that hetopt can follow")
    texts = {f"model_spec.{each}": as_text(value) for each, value in given.items()}
    reported += TITAN.report(texts)
    return said | _converted(converters, settings, reported)


def _under(settings: Settings, home: str) -> Callable[[str, str], InputError]:
    """Return a function that makes the error about a setting of a section."""
    return lambda name, message: settings.wrong(home + name, message)


def _converted(
    converters: Any, settings: Settings, reported: list[Reported]
) -> dict[str, Any]:
    """Return the precision that converters of layers make."""
    path = "model_spec.converters" if settings.new else "model.converters"
    if not isinstance(converters, list):
        raise settings.wrong(path, f"is {str(converters)[:60]}, expected a list")
    found: dict[str, Any] = {}
    for each in converters:
        name = each.name if isinstance(each, Made) else str(each)
        if name not in _CONVERTERS:
            msg = f"has {name[:60]}, which hetopt cannot price"
            raise settings.wrong(path, msg)
        precision, why = _CONVERTERS[name]
        if precision:
            found["precision"] = precision
        skipped = each.fields.get("filter_fqns") if isinstance(each, Made) else None
        if skipped not in (None, [], ["lm_head"]):
            why = "hetopt prices one kind of FP8, in every layer"
        if why:
            reported.append(not_priced(path, why))
    return found


def _batches(settings: Settings, mesh: _Mesh) -> tuple[int, int]:
    """Return micro-batches and sequences of an iteration.

    Raises
    ------
    InputError
        Sizes do not divide, or a pipeline runs empty several times an iteration.
    """
    local = settings.whole(_LOCAL, 8)
    batch = settings.whole(_GLOBAL, -1, least=-1)
    micro = settings.whole(_MICRO, 1)
    if batch < 0:
        batch = local * mesh.dp
    steps, rest = divmod(batch, local * mesh.dp)
    if rest or not steps:
        msg = (
            f"is {batch}, no multiple of {_LOCAL} {local} * "
            f"{counted(mesh.dp, 'replica')}"
        )
        raise settings.wrong(_GLOBAL, msg)
    if mesh.stages == 1:
        return steps, batch
    if local % micro:
        msg = f"is {local}, no multiple of {_MICRO} {micro}"
        raise settings.wrong(_LOCAL, msg)
    if steps > 1:
        msg = (
            f"is {batch}: the pipeline runs empty {steps} times an iteration, hetopt "
            f"prices once, with {_LOCAL} {batch // mesh.dp}"
        )
        raise settings.wrong(_GLOBAL, msg)
    return local // micro, batch


def _training(
    settings: Settings, mesh: _Mesh, converted: str | None, reported: list[Reported]
) -> dict[str, Any]:
    """Return the fields of the training, except its sizes."""
    says: dict[str, Any] = {
        "optimizer": _optimizer(settings),
        "precision": _precision(settings, mesh, reported),
        "gradients": "fp32",
        "attention": "fused",
    }
    if converted is not None:
        says["precision"] = converted
    if mesh.tp > 1:
        split = settings.flag("parallelism.enable_sequence_parallel", default=True)
        says["sequence_parallel"] = split
    policy = settings.choice(_RESHARD, "default", ("default", "always", "never"))
    if mesh.dp * mesh.cp > 1:
        says["zero"] = _zero(settings, mesh, policy, reported)
        if mesh.sharded and mesh.replicas > 1:
            says["shard_group"] = mesh.shards * mesh.cp
    balancer = "parallelism.context_parallel_load_balancer"
    if settings.texts.get(balancer) == "none" and mesh.cp > 1:
        why = "hetopt prices ranks that share causal attention evenly"
        reported.append(not_priced(balancer, why))
    if settings.text("loss").startswith("ChunkedLossWrapper"):
        why = "hetopt prices the logits of a whole micro-batch at once"
        reported.append(not_priced("loss", why))
    if settings.new and not settings.flag(
        "training.disable_cuda_graphs", default=False
    ):
        path = "training.disable_cuda_graphs"
        if mesh.stages > 1:
            msg = "is not true: TorchTitan has no CUDA graphs of pipelines"
            raise settings.wrong(path, msg)
        why = "hetopt prices kernels that are launched one by one"
        reported.append(not_priced(path, why))
    return says


def _optimizer(settings: Settings) -> str:
    """Return the optimizer's name as a problem has it."""
    names = {settings.text("optimizer.name", "AdamW")}
    groups = settings.rows("optimizer.param_groups")
    names = set(map(str, groups)) if groups else names
    names = {"adam" if name in ("Adam", "AdamW") else name.lower() for name in names}
    return " and ".join(sorted(names))


def _precision(settings: Settings, mesh: _Mesh, reported: list[Reported]) -> str:
    """Return the precision of weights in the layers' multiplications."""
    kinds = {"bfloat16": "bf16", "float32": "fp32"}
    path = "training.mixed_precision_param"
    mixed = kinds[settings.choice(path, "bfloat16", tuple(kinds))]
    whole = kinds[settings.choice("training.dtype", "float32", tuple(kinds))]
    if whole == "bf16":
        why = "hetopt prices 32-bit copies of the weights, and gradients and states"
        reported.append(not_priced("training.dtype", why))
        return "bf16"
    if not settings.new and not mesh.sharded and max(mesh.tp, mesh.stages) > 1:
        # 0.2 then ignores the setting, with a warning, and multiplies in 32 bits.
        return "fp32"
    return mixed


def _zero(
    settings: Settings, mesh: _Mesh, policy: str, reported: list[Reported]
) -> Any:
    """Return the ZeRO stage that FSDP corresponds to, or a frozenset of several.

    Raises
    ------
    InputError
        TorchTitan refuses replicas together with other parallelism.
    """
    piped = mesh.stages > 1
    if not mesh.sharded:
        if not settings.new and max(mesh.tp, mesh.stages) > 1:
            msg = "is more than 1: TorchTitan 0.2 has no DDP beside other parallelism"
            raise settings.wrong(_REPLICATE, msg)
        return 0
    if policy == "always" and piped:
        why = "gradients stay whole until the last micro-batch, hetopt shards them"
        reported.append(not_priced(_RESHARD, why))
    if policy == "always" or (policy == "default" and not piped):
        return 3
    # In a pipeline gradients stay whole. Otherwise each micro-batch's are scattered:
    # that is ZeRO 2, or ZeRO 1 with less memory.
    return 1 if piped else frozenset({1, 2})


def _recompute(settings: Settings) -> Recompute:
    """Return what layers recompute.

    Raises
    ------
    InputError
        Only some layers recompute, or a memory budget decides how much.
    """
    option = settings.text("activation_checkpoint.selective_ac_option", "2")
    known = ("none", "selective", "full", "memory_budget")
    # Here ``none`` is a mode, not a missing value.
    mode = settings.texts.get(_MODE, "selective")
    if mode not in known:
        msg = f"is {json.dumps(mode)}, expected {', '.join(known)}"
        raise settings.wrong(_MODE, msg)
    if mode == "memory_budget":
        raise settings.wrong(_MODE, "is memory_budget, which hetopt cannot price")
    if mode == "none":
        return "none"
    if mode == "full":
        return "full"
    if settings.new or option == "op":
        return "per-operator"
    if option == "1":
        return "full"
    msg = (
        f"is {json.dumps(option)}, which recomputes some layers alone: hetopt prices "
        "op, 1 and the modes none and full"
    )
    raise settings.wrong("activation_checkpoint.selective_ac_option", msg)


READER = Reader(looks_like=looks_like_torchtitan, read=read_torchtitan)
