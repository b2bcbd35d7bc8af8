"""One plain problem with round numbers, to be changed in one place at a time."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from hetopt.cost.table.cluster import ClusterTable
from hetopt.cost.table.slice import Layout, TableSlice
from hetopt.cost.table.table import CostTable
from hetopt.cost.table_file.file import table_digest
from hetopt.plans.plan import Pipeline, Plan, Stage
from hetopt.plans.strategy import Strategy
from hetopt.problem.cluster.accelerator import Accelerator, Link, PeakFlops
from hetopt.problem.cluster.cluster import Cluster
from hetopt.problem.cluster.links import ClusterLink, ClusterLinks
from hetopt.problem.digest import problem_digest
from hetopt.problem.model.kinds import EMBEDDING, HEAD, LAYER
from hetopt.problem.model.model import Model
from hetopt.problem.problem import Problem
from hetopt.problem.training.pins import Pins
from hetopt.problem.training.training import Training
from hetopt.schedule.schedules import rule_of
from tests.oracle.nodes import room

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

LINK = Link(latency_s=1e-6, bandwidth_bytes_per_s=1e10)
LINK_BETWEEN = ClusterLink(latency_s=1e-6, connection_bytes_per_s=1e10)
USABLE_BYTES = 1000

ACCELERATOR = Accelerator(
    name="toy",
    peak_flops=PeakFlops.dense_16_bit(1e12),
    memory_bytes=USABLE_BYTES,
    memory_bandwidth_bytes_per_s=1e11,
    intra_node=LINK,
    host_device=LINK,
)

MODEL = Model(
    name="toy",
    layers=6,
    hidden=64,
    heads=8,
    kv_heads=8,
    head_dim=8,
    ffn=256,
    vocab=100,
)

TRAINING = Training(global_batch=8, seq_len=64, reserve=0.0)


def cluster(name: str, nodes: int, devices_per_node: int, **changes: Any) -> Cluster:
    """A cluster whose ``max_tp`` is its node unless given."""
    fields: dict[str, Any] = {
        "name": name,
        "accelerator": ACCELERATOR,
        "nodes": nodes,
        "devices_per_node": devices_per_node,
        "memory_bytes": USABLE_BYTES,
        "max_tp": devices_per_node,
        "intra_node": LINK,
        "inter_node": LINK,
        "host_device": LINK,
        "nics_per_node": 1,
    }
    return Cluster(**{**fields, **changes})


def problem(**changes: Any) -> Problem:
    """Two clusters of 8 and 4 devices, six layers, eight sequences."""
    fields: dict[str, Any] = {
        "name": "plain",
        "model": MODEL,
        "clusters": (cluster("a", 2, 4), cluster("b", 1, 4)),
        "links": ClusterLinks(default=LINK_BETWEEN),
        "training": TRAINING,
        "pins": Pins(),
    }
    return Problem(**{**fields, **changes})


def _weights(
    of: Problem, per_unit: NDArray[np.int64], activation_bytes: int
) -> dict[str, NDArray[np.int64]]:
    """What gradients of weights take, where the schedule has them apart."""
    if not rule_of(of.training.schedule).splits:
        return {}
    return {
        "weight_ns": per_unit * (20, 700, 60),
        "weight_bytes": per_unit * (activation_bytes // 2),
    }


# A table written out.
def table(
    of: Problem,
    strategies: Sequence[Strategy],
    *,
    transfer_ns: int = 100,
    activation_bytes: int = 10,
    **changes: Any,
) -> CostTable:
    """A table in which every cluster has all of ``strategies`` at every q.

    One micro-batch of one layer takes 1000 ns forward and 2000 ns backward
    whatever the strategy; embedding and head take a tenth of it. A unit keeps 100
    bytes of state.
    """
    kinds = (EMBEDDING, LAYER, HEAD)
    chosen = tuple(sorted(strategies))
    rows, columns = len(chosen), len(kinds)
    layouts: list[Layout] = []
    slices = []
    batch = of.training.global_batch
    for q in (q for q in range(1, batch + 1) if batch % q == 0):
        layouts = []
        tables = []
        for j, own in enumerate(of.clusters):
            index = []
            for strategy in chosen:
                layout = Layout(
                    cluster=j, dp=strategy.dp, shards=strategy.cp * strategy.tp
                )
                if layout not in layouts:
                    layouts.append(layout)
                index.append(layouts.index(layout))
            per_unit = np.ones((rows, columns), dtype=np.int64)
            devices = np.array([strategy.devices for strategy in chosen])
            tables.append(
                ClusterTable(
                    strategies=chosen,
                    microbatch=np.array(
                        [batch // (q * strategy.dp) for strategy in chosen]
                    ),
                    devices=devices,
                    max_stages=np.array(
                        [room(own, each.devices, each.inside) for each in chosen]
                    ),
                    layout=np.array(index),
                    forward_ns=per_unit * (100, 1000, 100),
                    backward_ns=per_unit * (200, 2000, 200),
                    state_bytes=per_unit * 100,
                    activation_bytes=per_unit * activation_bytes,
                    temporary_bytes=per_unit * (0, 5, 50),
                    fixed_bytes=np.full(rows, 20),
                    sync_ns=np.full(rows, 50),
                    sync_unit_ns=per_unit * 0,
                    **_weights(of, per_unit, activation_bytes),
                )
            )
        square = np.ones((1, len(layouts), len(layouts)), dtype=np.int64)
        slices.append(
            TableSlice(
                microbatches=q,
                clusters=tuple(tables),
                layouts=tuple(layouts),
                transfer_ns=square * transfer_ns,
                occupancy_ns=square * (transfer_ns // 2),
                resharding=square * 0,
                tied_ns=None,
            )
        )
    fields: dict[str, Any] = {
        "problem_digest": problem_digest(of),
        "schedule": of.training.schedule,
        "warmup_epsilon": of.training.epsilon,
        "kinds": kinds,
        "cut_classes": ("hidden",),
        "units": (0, *(1 for _ in range(of.model.layers)), 2),
        "cuts": (0,) * (of.model.layers + 1),
        "body": (False, True, False),
        "cluster_names": tuple(own.name for own in of.clusters),
        "cluster_devices": tuple(own.devices for own in of.clusters),
        "usable_bytes": (USABLE_BYTES,) * len(of.clusters),
        "sources": ("measured",) * len(of.clusters),
        "slices": tuple(slices),
        "tokens": batch * of.training.seq_len,
        "model_flops": 1e6,
        "peak_flops": (1e12,) * len(of.clusters),
    }
    return CostTable(**{**fields, **changes})


def without_waiting() -> tuple[Problem, CostTable]:
    """Three stages of two layers, whose devices, all that there are, never wait."""
    of = problem()
    costs = table(of, (Strategy(dp=1, cp=1, tp=4),), transfer_ns=0)
    slices = tuple(
        replace(
            part,
            clusters=tuple(
                replace(
                    own,
                    forward_ns=own.forward_ns * costs.body,
                    backward_ns=own.backward_ns * costs.body,
                )
                for own in part.clusters
            ),
        )
        for part in costs.slices
    )
    return of, replace(costs, slices=slices)


def plan(
    of: Problem, costs: CostTable, stages: Sequence[Stage], *, microbatches: int = 2
) -> Plan:
    """A plan of one pipeline with the right digests."""
    return Plan(
        schedule=of.training.schedule,
        warmup_epsilon=of.training.epsilon,
        pipelines=(Pipeline(microbatches=microbatches, stages=tuple(stages)),),
        problem_digest=problem_digest(of),
        table_digest=table_digest(costs),
    )
