"""Published iterations of ``data/iterations`` as plans that hetopt can price."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from benchmarks.iterations import on_b200, problem_of
from benchmarks.measured_runs import deepseek_rows, llama_rows, rows
from benchmarks.published import Figure
from hetopt.base.fields import choice
from hetopt.plans.strategy import Strategy
from hetopt.problem.catalogue import model_presets
from hetopt.problem.cluster.nearby import FastDomain
from hetopt.problem.model.model import Model
from hetopt.problem.training.choices import RECOMPUTE_OPTIONS
from hetopt.problem.training.dispatch import Dispatch, Dispatcher
from hetopt.problem.training.training import Training

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from hetopt.problem.training.choices import Recompute

FILES = ("megatron-bridge", "mindspeed", "torchtitan", "internevo", "fms-fsdp")

#: Names that the sources have for devices of the catalogue.
_DEVICES = {"Ascend-910B": "Ascend-910B2-64GB"}

#: Devices of a node, and nodes of a domain, of racks of 72 devices: runs use 16 of the
#: 18 nodes, so that domains hold equally many.
_RACKS = {72: (4, 16)}

#: First release of Megatron-Bridge whose recipes run mixtures of experts under graphs
#: of whole iterations.
_GRAPHS = "26.06"

#: How a row's ``recompute_detail`` names Megatron-core's modules.
_MODULES = re.compile(r"modules \[(\w+)\]")

#: What sends tokens in runs of Megatron-Bridge with experts (its guide to dispatchers,
#: docs.nvidia.com/nemo/megatron-bridge, nemo-mbridge-perf-moe-dispatcher-selection);
#: all-to-alls on other devices.
_DISPATCHERS: dict[str, Dispatcher] = {
    "H100": "deepep",
    "GB200": "hybridep",
    "GB300": "hybridep",
}

#: Rows that are printed apart from all others, and why.
APART = {
    "megatron-bridge-116": "printed without virtual stages, which its recipe has",
    "torchtitan-008": "contradicts its neighbours at 32k and 128k tokens",
    "mindspeed-008": "its attention is not fused, of which there are no operators",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A published iteration.

    Attributes
    ----------
    figure
        The run, and its time.
    stack
        Name of the software, as ``training.software`` has it.
    family
        Devices that are fitted together.
    layout
        Rows of one layout are left out together.
    layers
        Layers that recompute, and all of them.
    """

    figure: Figure
    stack: str
    family: str
    layout: str
    layers: tuple[float, float] = (1, 1)

    @property
    def device(self) -> str:
        """The device's name in the catalogue."""
        return self.figure.problem.clusters[0].accelerator.name

    @property
    def experts(self) -> bool:
        """Whether the model has any."""
        return self.figure.problem.model.experts is not None

    @property
    def precision(self) -> str:
        """The precision of training."""
        return self.figure.problem.training.precision


def published_rows() -> Iterator[Row]:
    """Yield every row of a model that hetopt knows, those of ``APART`` among them."""
    for name in FILES:
        for row in rows(f"{name}.csv"):
            if row["preset"] in ("", *model_presets()):
                yield _row(row)
    for row, model in (*llama_rows(), *deepseek_rows()):
        figure = on_b200(row, model)
        yield Row(
            figure=figure,
            stack="megatron-2025",
            family="Blackwell, 16 bits",
            layout=f"simumax tp{row['tp']}" if model.experts is None else row["case"],
        )


def _row(row: Mapping[str, str]) -> Row:
    device = _DEVICES.get(row["device"], row["device"])
    whole = {
        key: int(row[key] or 1)
        for key in ("tp", "pp", "chunks", "cp", "ep", "dp", "microbatch")
    }
    devices, domain = int(row["devices"]), int(row["domain"])
    per_node, nodes_of_domain = _RACKS.get(domain, (min(devices, domain), 1))
    training = Training(
        global_batch=int(row["global_batch"]),
        seq_len=int(row["seq_len"]),
        zero=int(row["zero"]),
        shard_group=int(row["shard_group"] or 0) or None,
        precision=row["precision"],  # type: ignore[arg-type]
        schedule="1f1b",
        gradients="fp32" if row["gradients"] == "fp32" else "bf16",
        overlap_tensor=row["tp_overlap"] == "yes",
        moe=_dispatch(row["source"], device),
    )
    problem = problem_of(_model(row), training, device, (devices // per_node, per_node))
    (cluster,) = problem.clusters
    gbps = float(row["nic_gbps"])
    link = replace(cluster.inter_node, bandwidth_bytes_per_s=gbps / 8 * 1e9)
    nics = int(row["nics_per_node"] or per_node)
    fast = None
    if nodes_of_domain > 1:
        fast = FastDomain(nodes=nodes_of_domain, link=cluster.intra_node)
    cluster = replace(cluster, inter_node=link, nics_per_node=nics, domain=fast)
    return Row(
        figure=Figure(
            name=row["id"],
            source=row["source"],
            problem=replace(problem, clusters=(cluster,)),
            stages=whole["pp"],
            microbatches=training.global_batch // (whole["microbatch"] * whole["dp"]),
            strategy=Strategy(
                dp=whole["dp"],
                cp=whole["cp"],
                tp=whole["tp"],
                ep=whole["ep"],
                recompute=_recompute(row),
            ),
            published_s=float(row["iteration_s"]),
            chunks=whole["chunks"],
        ),
        stack=_stack(row),
        family=_family(row, device),
        layout=_layout(row),
        layers=(float(row["recompute_share"] or 1), 1),
    )


def _recompute(row: Mapping[str, str]) -> Recompute:
    """Return the option of ``hetopt.cost.recompute`` that a row names."""
    named = row["recompute"]
    if named == "modules":
        found = _MODULES.search(row["recompute_detail"])
        assert found is not None, row["id"]
        named = found[1]
    return "full" if named == "partial" else choice(RECOMPUTE_OPTIONS)(named)


def _dispatch(source: str, device: str) -> Dispatch:
    sender = _DISPATCHERS.get(device) if source == "megatron-bridge" else None
    return Dispatch(dispatcher=sender, node_dedup=sender is not None)


def _model(row: Mapping[str, str]) -> Model:
    if row["preset"]:
        return Model.of(row["preset"])
    hidden, heads = int(row["hidden"]), int(row["heads"])
    return Model(
        name=row["model"],
        layers=int(row["layers"]),
        hidden=hidden,
        heads=heads,
        kv_heads=int(row["kv_heads"]),
        head_dim=int(row["head_dim"] or hidden // heads),
        ffn=int(row["ffn"]),
        vocab=int(row["vocab"]),
        gated=row["gated"] == "true",
        tied=row["tied"] == "true",
    )


def _stack(row: Mapping[str, str]) -> str:
    """Return the name of a row's software."""
    source = row["source"]
    if source == "megatron-bridge":
        return "megatron-2026" if row["release"] >= _GRAPHS else "megatron-2025"
    if source == "torchtitan":
        kind = "-eager" if "eager" in row["stack"] else ""
        return "torchtitan-rowwise" if row["fp8_recipe"] == "rowwise" else source + kind
    if source == "mindspeed":
        return source if "swiglu" in row["fused_kernels"] else f"{source}-unfused"
    return "fsdp-compile" if source == "fms-fsdp" else source


def _family(row: Mapping[str, str], device: str) -> str:
    """Return the devices whose rows are fitted together, apart from one precision."""
    if row["source"] == "megatron-bridge":
        family = "Hopper" if device == "H100" else "Blackwell"
        kind = "experts" if row["preset"] else "dense"
        return f"{family}, {kind}, {_stack(row)}" if row["preset"] else family
    return "Hopper" if device.startswith(("H100", "H200")) else device


def _layout(row: Mapping[str, str]) -> str:
    """Return what rows of one layout have in common; whole shapes on Ascend."""
    if row["source"] == "mindspeed":
        return f"shape {row['layers']} {row['hidden']} {row['ffn']}"
    return row["same_layout"]
