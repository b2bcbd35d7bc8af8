"""List devices, models, problems, solvers and launchers."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from hetopt.cli.flag import Flag
from hetopt.cli.output import emit
from hetopt.export.registry import launcher_names

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

    from hetopt.report.drawing.sheet import Part

#: The parameters that the table of models counts.
_COUNTED = (
    "parameters include the input and output token tables (once if tied) and exclude "
    "multi-token-prediction layers; active: those used per token"
)


#: What this command takes.
TAKES: tuple[Flag, ...] = ()


def run(options: argparse.Namespace) -> int:
    """Print everything that ships with hetopt."""
    from hetopt.report.drawing.console import draw

    sections: list[tuple[str, Part]] = [
        ("Accelerators", _accelerators()),
        (f"Models ({_COUNTED})", _models()),
        ("Software (errors on published runs that its fit had not seen)", _software()),
        ("Recomputation (values of training.recompute)", _recomputation()),
        ("Problems", _problems()),
        ("Latency profiles", _profiles()),
        ("Solvers", _solvers()),
        ("Launchers", ", ".join(launcher_names())),
    ]
    parts: list[Part] = []
    for title, body in sections:
        parts += [title, body, ""]
    emit(draw(parts[:-1], sys.stdout))
    return 0


def _accelerators() -> Part:
    from hetopt.problem.catalogue import accelerators
    from hetopt.problem.cluster.accelerator import ARITHMETIC
    from hetopt.report.drawing.sheet import sheet

    return sheet(
        (
            "name",
            *(f"{name} TFLOP/s" for name in ARITHMETIC),
            "memory GB",
            "memory GB/s",
            "intra-node GB/s",
        ),
        (
            (
                item.name,
                *(_tera(getattr(item.peak_flops, name)) for name in ARITHMETIC),
                f"{item.memory_bytes / 1e9:.1f}",
                f"{item.memory_bandwidth_bytes_per_s / 1e9:g}",
                f"{item.intra_node.bandwidth_bytes_per_s / 1e9:g}",
            )
            for item in accelerators().values()
        ),
        left=("name",),
    )


def _tera(rate: float | None) -> str:
    return "" if rate is None else f"{rate / 1e12:g}"


def _models() -> Part:
    from hetopt.cost.parameter_counts import parameter_counts
    from hetopt.problem.catalogue import model_presets
    from hetopt.problem.model.model import Model
    from hetopt.report.drawing.sheet import sheet

    fields = ("layers", "hidden", "heads", "kv_heads", "ffn", "vocab")
    rows = []
    for name, preset in model_presets().items():
        sizes = [_of_blocks(preset["fields"], field) for field in fields]
        experts = preset["fields"].get("experts")
        chosen = f"{experts['per_token']}/{experts['number']}" if experts else ""
        counts = parameter_counts(Model.of(name))
        active = f"{counts.active / 1e9:.2f}" if experts else ""
        rows.append((name, *sizes, chosen, f"{counts.total / 1e9:.2f}", active))
    columns = (*fields, "experts", "10^9 parameters", "active")
    return sheet(("name", *columns), rows, left=("name",))


def _of_blocks(fields: Mapping[str, Any], name: str) -> str:
    """Return a field of a preset; if blocks differ, their values joined by ``/``."""
    blocks = fields.get("blocks", ())
    values = [str(block.get(name, fields.get(name, ""))) for block in blocks]
    if len(set(values)) > 1 or (values and name == "layers"):
        return "/".join(values)
    return values[0] if values else str(fields.get(name, ""))


def _software() -> Part:
    from hetopt.problem.catalogue import software
    from hetopt.report.drawing.sheet import sheet

    rows = []
    for stack in software().values():
        named = (stack.name, stack.about)
        for each in stack.reached:
            known = each.accuracy
            errors = ("", "", "")
            if known is not None:
                errors = (str(known.runs), f"{known.median:.0%}", f"{known.worst:.0%}")
            models = "experts" if each.experts else "dense"
            devices, precisions = map(", ".join, (each.devices, each.precisions))
            rows.append((*named, devices, precisions, models, *errors))
            named = ("", "")
    columns = ("what", "devices", "precisions", "models", "runs", "median", "worst")
    left = ("name", "what", "devices", "precisions", "models")
    return sheet(("name", *columns), rows, left=left)


def _recomputation() -> Part:
    from hetopt.cost.recompute import OPTIONS
    from hetopt.report.drawing.sheet import sheet

    columns = ("name", "runs again in backward", "in launchers")
    rows = ((name, own.repeats, own.launchers) for name, own in OPTIONS.items())
    return sheet(columns, rows, left=columns)


def _problems() -> Part:
    from hetopt.problem.catalogue import problem_summaries
    from hetopt.report.drawing.sheet import labelled

    return labelled(problem_summaries().items())


def _profiles() -> Part:
    from hetopt.cost.profiles.csv_text import header_of
    from hetopt.problem.catalogue import operator_files, profile_files
    from hetopt.report.drawing.sheet import sheet

    rows = []
    for of, files in (("layers", profile_files()), ("operators", operator_files())):
        for name, file in files.items():
            header = header_of(file.read_text("utf-8"))
            device = header.get("accelerator", header.get("device", ""))
            rows.append((name, of, header.get("kind", ""), device))
    columns = ("name", "of", "kind", "accelerator")
    return sheet(columns, rows, left=columns)


def _solvers() -> Part:
    from hetopt.solvers.registry import solver_names

    return "\n".join(solver_names())
