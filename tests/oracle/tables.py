"""Draw a latency table that agrees with a problem."""

from __future__ import annotations

from math import lcm
from random import Random
from typing import TYPE_CHECKING

import numpy as np

from hetopt.cost.table.cluster import ClusterTable
from hetopt.cost.table.slice import Layout, TableSlice
from hetopt.cost.table.table import CostTable
from hetopt.plans.strategy import Strategy
from hetopt.problem.cluster.cluster import Cluster
from hetopt.problem.digest import problem_digest
from hetopt.problem.model.kinds import END_KINDS
from hetopt.problem.model.model import Model
from hetopt.problem.problem import Problem
from hetopt.problem.training.choices import RECOMPUTE, Recompute
from tests.oracle.nodes import room

if TYPE_CHECKING:
    from collections.abc import Container, Sequence

    from numpy.typing import NDArray


def allowed_strategies(
    problem: Problem, cluster: Cluster, q: int, sizes: Container[int] | None = None
) -> list[Strategy]:
    """Every strategy of a cluster at q that the rules and the pins permit.

    Parameters
    ----------
    sizes
        Devices that stages may have; None for those that divide a node or are whole
        nodes.
    """
    model, training = problem.model, problem.training
    pins = problem.pins.of(cluster.name)
    policies: Sequence[Recompute] = training.recompute.get(cluster.name, RECOMPUTE)
    found = []
    for dp in range(1, cluster.devices + 1):
        for cp in range(1, cluster.devices // dp + 1):
            for tp in range(1, cluster.devices // (dp * cp) + 1):
                n, node = dp * cp * tp, cluster.devices_per_node
                kv_fits = model.kv_heads % tp == 0 or tp % model.kv_heads == 0
                plain = (node % n == 0 or n % node == 0) and node % tp == 0
                fits = (
                    (plain if sizes is None else n in sizes)
                    and room(cluster, n, tp) > 0
                    and tp <= cluster.max_tp
                    and model.heads % tp == 0
                    and (_has_no_dense_layer(model) or model.ffn % tp == 0)
                    and (model.experts is None or model.experts.shared_ffn % tp == 0)
                    and kv_fits
                    and (cp == 1 or training.seq_len % (2 * cp) == 0)
                    and training.seq_len % (cp * tp) == 0
                    and training.global_batch % (q * dp) == 0
                    and pins.dp.permits(dp)
                    and pins.cp.permits(cp)
                    and pins.tp.permits(tp)
                )
                if fits:
                    found += [
                        Strategy(dp=dp, cp=cp, tp=tp, ep=ep, etp=etp, recompute=policy)
                        for ep, etp in _expert_degrees(model, cluster, n, tp)
                        if pins.ep.permits(ep) and pins.etp.permits(etp)
                        for policy in policies
                        if pins.recompute.permits(policy)
                    ]
    return sorted(found)


def _has_no_dense_layer(model: Model) -> bool:
    return model.experts is not None and not model.experts.dense_layers


def _expert_degrees(
    model: Model, cluster: Cluster, n: int, tp: int
) -> list[tuple[int, int]]:
    """Every (ep, etp) on n devices that the rules permit."""
    if model.experts is None:
        return [(1, 1)]
    return [
        (ep, etp)
        for ep in range(1, n + 1)
        for etp in range(1, n // ep + 1)
        if n % (ep * etp) == 0
        and model.experts.number % ep == 0
        and model.experts.ffn % etp == 0
        and room(cluster, n, lcm(tp, etp)) > 0
        and etp <= cluster.max_tp
    ]


class _Clock:
    """Draws times: unrelated large numbers, or a few multiples of one number."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.step = rng.choice((None, None, 1_000_000))
        self.scale = 10 ** rng.uniform(5.5, 7.5)

    def draw(self, share: float, spread: float = 0.5) -> int:
        """Return about ``share`` times the scale, at least one step."""
        value = share * self.scale * (1 + spread * self.rng.uniform(-1, 1))
        if self.step is None:
            return max(1, round(value))
        return self.step * max(1, round(4 * value / self.scale))


# In one piece: the order of the draws is what a seed stands for.
def draw_table(
    rng: Random,
    problem: Problem,
    *,
    size: float,
    sizes: Container[int] | None = None,
) -> CostTable:
    """Draw a table; ``sizes`` as of ``allowed_strategies``."""
    model = problem.model
    kinds: list[str] = list(dict.fromkeys(model.units))
    units = [kinds.index(kind) for kind in model.units]
    if model.experts is None and model.granularity == "layer" and rng.random() < 0.4:
        kinds.append("layer-wide")  # layers need not be identical
        units = [
            len(kinds) - 1 if 0 < u < len(units) - 1 and rng.random() < 0.4 else unit
            for u, unit in enumerate(units)
        ]
    cut_classes = list(dict.fromkeys(model.cuts))
    cuts = [cut_classes.index(cut) for cut in model.cuts]
    clock = _Clock(rng)
    twins = rng.random() < 0.3
    reserve = problem.training.reserve
    batch = problem.training.global_batch
    slices = []
    for q in range(1, batch + 1):
        if batch % q or not problem.pins.microbatches.permits(q):
            continue
        part = _draw_slice(
            rng,
            clock,
            problem,
            q,
            kinds,
            cut_classes,
            size=size,
            twins=twins,
            sizes=sizes,
        )
        if part is not None:
            slices.append(part)
    return CostTable(
        problem_digest=problem_digest(problem),
        schedule=problem.training.schedule,
        warmup_epsilon=problem.training.epsilon,
        kinds=tuple(kinds),
        cut_classes=tuple(cut_classes),
        units=tuple(units),
        cuts=tuple(cuts),
        body=tuple(kind not in END_KINDS for kind in kinds),
        cluster_names=tuple(cluster.name for cluster in problem.clusters),
        cluster_devices=tuple(cluster.devices for cluster in problem.clusters),
        usable_bytes=tuple(
            int(cluster.memory_bytes * (1 - reserve)) - cluster.overhead_bytes
            for cluster in problem.clusters
        ),
        sources=tuple("measured" for _ in problem.clusters),
        slices=tuple(slices),
        tokens=batch * problem.training.seq_len,
        model_flops=1e9 * batch,
        peak_flops=tuple(c.accelerator.peak_flops_of("bf16") for c in problem.clusters),
    )


# In one piece: the order of the draws is what a seed stands for.
def _draw_slice(
    rng: Random,
    clock: _Clock,
    problem: Problem,
    q: int,
    kinds: Sequence[str],
    cut_classes: Sequence[str],
    *,
    size: float,
    twins: bool,
    sizes: Container[int] | None,
) -> TableSlice | None:
    layouts: list[Layout] = []
    tables = []
    for index, cluster in enumerate(problem.clusters):
        allowed = allowed_strategies(problem, cluster, q, sizes)
        most = max(1, round(rng.randint(1, 4) * size))
        chosen = sorted(rng.sample(allowed, min(most, len(allowed))))
        tables.append(
            _draw_cluster(rng, clock, problem, index, q, chosen, kinds, layouts)
        )
        last = tables[-1]
        if twins and index and tables[-2].strategies == last.strategies:
            tables[-1] = _twin(tables[-2], last.layout, last.max_stages)
    if not any(own.strategies for own in tables):
        return None
    pairs = (len(cut_classes), len(layouts), len(layouts))
    transfer: NDArray[np.int64] = np.zeros(pairs, dtype=np.int64)
    occupancy = np.zeros(pairs, dtype=np.int64)
    slow = rng.choice((0.005, 0.03, 0.2, 1.0))
    for x in range(pairs[0]):
        for a in range(pairs[1]):
            for z in range(pairs[1]):
                far = layouts[a].cluster != layouts[z].cluster
                share = slow * (1 if far else 0.1) * (1 + x)
                transfer[x, a, z] = clock.draw(share / q, 0.9)
                kept = rng.choice((1.0, 0.5, 0.0, rng.random()))
                occupancy[x, a, z] = int(kept * int(transfer[x, a, z]))
    if rng.random() < 0.15:
        transfer[:] = occupancy[:] = 0
    tied = None
    if problem.model.tied:
        tied = np.array(
            [[clock.draw(0.3, 0.9) for _ in layouts] for _ in layouts], dtype=np.int64
        )
    return TableSlice(
        microbatches=q,
        clusters=tuple(tables),
        layouts=tuple(layouts),
        transfer_ns=transfer,
        occupancy_ns=occupancy,
        resharding=np.array(
            [
                [[rng.randrange(4) for _ in layouts] for _ in layouts]
                for _ in cut_classes
            ],
            dtype=np.int64,
        ),
        tied_ns=tied,
    )


def _draw_cluster(
    rng: Random,
    clock: _Clock,
    problem: Problem,
    index: int,
    q: int,
    strategies: Sequence[Strategy],
    kinds: Sequence[str],
    layouts: list[Layout],
) -> ClusterTable:
    cluster = problem.clusters[index]
    batch = problem.training.global_batch
    shape = (len(strategies), len(kinds))
    arrays = {
        name: np.zeros(shape, dtype=np.int64)
        for name in ("forward", "backward", "state", "activation", "temporary", "sync")
    }
    speed = rng.choice((0.5, 1.0, 1.0, 1.5))
    heavy = cluster.memory_bytes / rng.choice((1, 1.5, 2, 3, 6))
    scaling = rng.choice((0, 0.2, 0.7))  # poor scaling makes long pipelines pay
    again = {"none": 2.0, "selective": 2.2, "full": 3.0}
    kept = {"none": 1.0, "selective": 0.6, "full": 0.15}
    for k, strategy in enumerate(strategies):
        for n, kind in enumerate(kinds):
            weight = {"embedding": 0.1, "head": 0.6}.get(kind, 1.0)
            weight *= {"layer-wide": 1.7, "layer-experts": 1.4}.get(kind, 1)
            weight *= {"mlp-up": 0.5, "mlp-down": 0.4}.get(kind, 1)
            share = weight * speed / (q * strategy.devices**scaling)
            arrays["forward"][k, n] = clock.draw(share, 0.2)
            arrays["backward"][k, n] = clock.draw(share * again[strategy.recompute])
            bytes_ = heavy * weight * rng.uniform(0.6, 1.2)
            arrays["state"][k, n] = bytes_ / (strategy.tp * rng.choice((1, 2)))
            arrays["activation"][k, n] = (
                bytes_ * kept[strategy.recompute] / (q * strategy.devices) * 2
            )
            arrays["temporary"][k, n] = bytes_ * rng.random() / 4
            arrays["sync"][k, n] = clock.draw(0.1) if strategy.dp > 1 else 0
    own_layouts = _layouts_of(strategies, index, layouts)
    devices = [strategy.devices for strategy in strategies]
    most = [room(cluster, own.devices, own.inside) for own in strategies]
    per_unit = rng.random() < 0.5
    return ClusterTable(
        strategies=tuple(strategies),
        microbatch=_ints([batch // (q * strategy.dp) for strategy in strategies]),
        devices=_ints(devices),
        max_stages=_ints(most),
        layout=_ints(own_layouts),
        forward_ns=arrays["forward"],
        backward_ns=arrays["backward"],
        state_bytes=arrays["state"],
        activation_bytes=arrays["activation"],
        temporary_bytes=arrays["temporary"],
        fixed_bytes=_ints([rng.randint(0, int(heavy) // 4) for _ in strategies]),
        sync_ns=_ints([clock.draw(0.2, 0.9) for _ in strategies]),
        sync_unit_ns=arrays["sync"] * per_unit,
    )


def _layouts_of(
    strategies: Sequence[Strategy], index: int, layouts: list[Layout]
) -> list[int]:
    """Number the layouts of a cluster's strategies; new ones are added."""
    numbers = []
    for strategy in strategies:
        layout = Layout(cluster=index, dp=strategy.dp, shards=strategy.cp * strategy.tp)
        if layout not in layouts:
            layouts.append(layout)
        numbers.append(layouts.index(layout))
    return numbers


def _ints(values: Sequence[int]) -> NDArray[np.int64]:
    return np.array(values, dtype=np.int64)


def _twin(
    table: ClusterTable, layout: NDArray[np.int64], max_stages: NDArray[np.int64]
) -> ClusterTable:
    """Return the same costs for another cluster, whose layouts stay its own."""
    return ClusterTable(
        strategies=table.strategies,
        microbatch=table.microbatch,
        devices=table.devices,
        max_stages=max_stages,
        layout=layout,
        forward_ns=table.forward_ns,
        backward_ns=table.backward_ns,
        state_bytes=table.state_bytes,
        activation_bytes=table.activation_bytes,
        temporary_bytes=table.temporary_bytes,
        fixed_bytes=table.fixed_bytes,
        sync_ns=table.sync_ns,
        sync_unit_ns=table.sync_unit_ns,
    )
