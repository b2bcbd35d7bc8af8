"""The ``job.json`` that hetopt's training program for PyTorch reads."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from hetopt.errors import InputError
from hetopt.export.shared.torch_modules import module_names
from hetopt.words import describe

if TYPE_CHECKING:
    from hetopt.export.job import Job

_SIZES = (
    "layers",
    "hidden",
    "heads",
    "kv_heads",
    "head_dim",
    "ffn",
    "vocab",
    "gated",
    "tied",
    "norm",
    "positions",
)


def torch_job(job: Job) -> dict[str, Any]:
    """Return the content of ``job.json``.

    Parameters
    ----------
    job
        One whose stages have the same (dp, cp, tp).
    """
    model, training, layers = job.problem.model, job.problem.training, job.layers
    strategy = job.stages[0].strategy
    assert layers is not None
    sizes = {name: getattr(model, name) for name in _SIZES}
    if model.positions:
        sizes["positions"] = max(model.positions, training.seq_len)
    return {
        "model": sizes,
        "training": {
            "global_batch": training.global_batch,
            "seq_len": training.seq_len,
            "microbatches": job.microbatches,
            "precision": "fp32" if training.precision == "fp32" else "bf16",
            "optimizer": training.optimizer,
            "zero": min(max(job.zero_stages), 1),
        },
        "mesh": {
            "pp": len(job.stages),
            "dp": strategy.dp,
            "cp": strategy.cp,
            "tp": strategy.tp,
        },
        "recompute": [stage.strategy.recompute for stage in job.stages],
        "modules": module_names(layers),
    }


def job_text(job: Job) -> str:
    """Return ``job.json``, with one line of modules for each stage."""
    content = torch_job(job)
    modules = ",\n".join(f"    {json.dumps(part)}" for part in content.pop("modules"))
    head = json.dumps(content, indent=2).removesuffix("\n}")
    return f'{head},\n  "modules": [\n{modules}\n  ]\n}}\n'


def stage_layers(modules: Any, layers: int, file: str) -> tuple[int, ...]:
    """Return the layers of every stage from the names of its modules.

    Raises
    ------
    InputError
        The stages do not hold all of ``tok_embeddings``, ``layers.0`` and so on,
        ``norm``, ``output`` in this order, at least one layer each.
    """
    field = "modules"
    if not isinstance(modules, list) or not all(isinstance(m, list) for m in modules):
        raise InputError("is no list of lists of names", file=file, field=field)
    names = [name for part in modules for name in part]
    # There are at most as many layers as names, whatever the file says.
    expected = module_names([min(layers, len(names))])[0]
    for place, name in enumerate(expected):
        if names[place : place + 1] != [name]:
            found = describe(names[place]) if place < len(names) else "nothing"
            msg = f"has {found} where {name!r} is expected"
            raise InputError(msg, file=file, field=field)
    if len(names) > len(expected):
        msg = f"has {describe(names[len(expected)])} after all modules of the model"
        raise InputError(msg, file=file, field=field)
    counts = tuple(
        sum(1 for name in part if name.startswith("layers.")) for part in modules
    )
    if not all(counts):
        msg = f"stage {counts.index(0)} has no layer, expected at least one"
        raise InputError(msg, file=file, field=field)
    return counts
