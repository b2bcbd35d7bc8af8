"""Rules for a cluster's mesh and for a table, from the problem alone."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

from hetopt.base.words import counted
from hetopt.check.plan.packing import most_stages
from hetopt.problem.training.choices import RECOMPUTE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from hetopt.cost.table.table import CostTable
    from hetopt.plans.strategy import Strategy
    from hetopt.problem.cluster.cluster import Cluster
    from hetopt.problem.model.model import Model
    from hetopt.problem.problem import Problem
    from hetopt.problem.training.pins import Domain


def mesh_findings(
    problem: Problem, cluster: Cluster, strategy: Strategy, microbatches: int
) -> Iterator[str]:
    """Yield every rule of MODEL.md section 2 that a strategy breaks.

    Whether the cluster has enough devices for all its stages is checked elsewhere.
    """
    name = f"cluster {cluster.name!r}: {strategy}"
    model, training = problem.model, problem.training
    dp, cp, tp = strategy.dp, strategy.cp, strategy.tp
    devices = strategy.devices
    if devices <= cluster.devices and not most_stages(cluster, strategy):
        inside = f"tp {tp}" if strategy.etp == 1 else f"tp {tp} and etp {strategy.etp}"
        yield (
            f"{name}: {counted(devices, 'device')} per stage fit neither into one node "
            f"nor, with {inside} inside each node, evenly into several nodes"
        )
    if tp > cluster.max_tp:
        yield f"{name}: tp {tp} is more than max_tp {cluster.max_tp}"
    for part in model.blocks or (model,):
        if part.heads % tp:
            yield f"{name}: tp {tp} does not divide the {part.heads} attention heads"
        has_dense = model.experts is None or model.experts.dense_layers
        if part.ffn % tp and has_dense:
            yield f"{name}: tp {tp} does not divide the MLP width {part.ffn}"
        if part.kv_heads % tp and tp % part.kv_heads:
            yield (
                f"{name}: tp {tp} neither divides nor is a multiple of the "
                f"{part.kv_heads} key-value heads"
            )
    if cp > 1 and model.blocks:
        yield f"{name}: cp {cp}, several kinds of layers or sequence lengths need cp 1"
    if training.seq_len % cp or (cp > 1 and training.seq_len % (2 * cp)):
        yield (
            f"{name}: cp {cp} needs {counted(2 * cp, 'equal part')} of a sequence of "
            f"{training.seq_len} tokens"
        )
    if training.seq_len % (cp * tp):
        yield (
            f"{name}: cp * tp = {cp * tp} does not divide the sequence length "
            f"{training.seq_len}"
        )
    yield from _expert_findings(name, problem, cluster, strategy)
    if microbatches > 0 and training.global_batch % (microbatches * dp):
        yield (
            f"{name}: microbatches * dp = {microbatches} * {dp} does not divide the "
            f"global batch {training.global_batch}"
        )
    allowed = training.recompute.get(cluster.name, RECOMPUTE)
    if strategy.recompute not in allowed:
        yield (
            f"{name}: training.recompute permits {', '.join(allowed)} on this cluster"
        )
    pins = problem.pins.of(cluster.name)
    for decision in ("dp", "cp", "tp", "ep", "etp", "recompute"):
        value = getattr(strategy, decision)
        domain = getattr(pins, decision)
        yield from pin_findings(f"clusters.{cluster.name}.{decision}", domain, value)


def _expert_findings(
    name: str, problem: Problem, cluster: Cluster, strategy: Strategy
) -> Iterator[str]:
    """Yield rules on the ranks of routed experts that a strategy breaks."""
    ep, etp, tp = strategy.ep, strategy.etp, strategy.tp
    experts = problem.model.experts
    if experts is None:
        if (ep, etp) != (1, 1):
            yield f"{name}: ep {ep} and etp {etp}, but the model has no experts"
        return
    ranks = strategy.dp * strategy.cp * tp
    if ranks % (ep * etp):
        yield (
            f"{name}: ep * etp = {ep * etp} does not divide its "
            f"{counted(ranks, 'device')}"
        )
    if experts.number % ep:
        yield f"{name}: ep {ep} does not divide the {counted(experts.number, 'expert')}"
    if experts.ffn % etp:
        yield f"{name}: etp {etp} does not divide an expert's width {experts.ffn}"
    if etp > cluster.max_tp:
        yield f"{name}: etp {etp} is more than max_tp {cluster.max_tp}"
    if experts.shared_ffn % tp:
        yield (
            f"{name}: tp {tp} does not divide the shared expert's width "
            f"{experts.shared_ffn}"
        )
    if tp > 1 and not problem.training.sequence_parallel:
        yield f"{name}: tp {tp} with experts, but training.sequence_parallel is false"


def pin_findings(what: str, domain: Domain, value: Any) -> Iterator[str]:
    """Yield how a value violates the user's pin."""
    if value in domain.forbidden:
        yield f"pin {what}: {value} is forbidden"
    elif domain.allowed is not None and value not in domain.allowed:
        yield f"pin {what}: {value}, expected {_listed(domain.allowed)}"


def table_findings(problem: Problem, table: CostTable) -> Iterator[str]:
    """Yield where a table does not match the problem."""
    names = tuple(cluster.name for cluster in problem.clusters)
    if table.cluster_names != names:
        yield (
            f"table: clusters {', '.join(table.cluster_names)}, expected "
            f"{', '.join(names)}"
        )
        return
    if table.schedule != problem.training.schedule:
        yield (
            f"table: schedule {table.schedule}, the problem says "
            f"{problem.training.schedule}"
        )
    chunks = problem.training.chunks
    if table.chunks != chunks:
        yield (
            f"table: {counted(table.chunks, 'chunk')} a stage, the problem says "
            f"{chunks}"
        )
        return
    if table.layout != problem.pins.cuts:
        yield "table: other cuts of chunks than the problem pins"
        return
    if table.warmup_epsilon != (epsilon := problem.training.epsilon):
        yield f"table: epsilon {table.warmup_epsilon}, the problem says {epsilon}"
    body = [
        kind for kind, inside in zip(table.kinds, table.body, strict=True) if inside
    ]
    if table.pairs is not None:
        placed, whole = len(table.units), len(problem.model.units)
        if 2 * placed != whole:
            yield (
                f"table: {placed} pairs of units, the model has "
                f"{counted(whole, 'unit')}"
            )
    elif (
        units := _units_of_chunk(problem.model, body, chunks, table.layout)
    ) is None or (len(table.units) != len(units)):
        model = "no equal chunks" if units is None else f"{len(units)}"
        yield f"table: {counted(len(table.units), 'unit')}, the model has {model}"
    for cluster, devices, usable in zip(
        problem.clusters, table.cluster_devices, table.usable_bytes, strict=True
    ):
        if devices != cluster.devices:
            yield (
                f"table: {counted(devices, 'device')} in cluster {cluster.name!r}, the "
                f"problem has {cluster.devices}"
            )
        yield from _capacity_findings(problem, table, cluster)
        # one more byte, as the product may be rounded up
        limit = cluster.memory_bytes * (1 - Fraction(problem.training.reserve))
        limit = max(limit - cluster.overhead_bytes, Fraction(0))
        if usable > limit + 1:
            yield (
                f"table: {usable} usable bytes on {cluster.name!r}, the problem "
                f"leaves {int(limit)} after overhead and reserve"
            )


def _units_of_chunk(
    model: Model,
    body: Sequence[str],
    chunks: int,
    layout: tuple[int, ...] | None,
) -> list[str] | None:
    """Return the units of one chunk of the model; None if it has no v equal chunks.

    If chunks differ, the whole model's.

    Parameters
    ----------
    body
        Kinds of units that belong to transformer layers.
    """
    inner = [kind for kind in model.units if kind in body]
    if layout is not None:
        return [*model.units]
    length = len(inner) // chunks
    if inner[:length] * chunks != inner:
        return None
    first = model.units.index(inner[0])
    ends = model.units[:first], model.units[first + len(inner) :]
    return [*ends[0], *inner[:length], *ends[1]]


def _capacity_findings(
    problem: Problem, table: CostTable, cluster: Cluster
) -> Iterator[str]:
    """Yield where a table's number of stages differs from what the nodes hold."""
    j = problem.clusters.index(cluster)
    room: dict[tuple[int, int, int], int] = {}
    for part in table.slices:
        own = part.clusters[j]
        for strategy, said in zip(own.strategies, own.max_stages.tolist(), strict=True):
            key = strategy.devices, strategy.tp, strategy.etp
            if key not in room:
                room[key] = most_stages(cluster, strategy)
            if said != room[key]:
                yield (
                    f"table: {counted(said, 'stage')} of {strategy} on "
                    f"{cluster.name!r}, its nodes hold {room[key]}"
                )
                return


def _listed(values: Iterable[Any]) -> str:
    """Return the values in a fixed order."""
    return " or ".join(sorted(map(str, values), key=lambda text: (len(text), text)))
