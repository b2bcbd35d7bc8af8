"""The latency table as a JSON document: what ``hetopt table`` writes and reads.

Schema ``hetopt-table/1``. Times are whole nanoseconds, memory whole bytes. The
document is complete: a plan needs only the table, and users may replace any number by
a better measured one.

======================  ==========================================================
``problem_digest``      the problem for which the table was built
``schedule``            name of the pipeline schedule
``kinds``, ``body``     unit kinds; whether a kind is part of a transformer layer
``cut_classes``         classes of tensors that can cross a stage boundary
``units``               kind of every unit, in pipeline order, by name
``cuts``                cut class after every unit but the last, by name
``chunks``              with several chunks per stage: how many; ``units`` and ``cuts``
                        are then those of one chunk
``way_back``            likewise: cut class from the last stage back to the first
``tokens``              tokens per iteration
``model_flops``         of one iteration, without recomputation
``clusters``            per cluster: name, devices, usable_bytes per device, source
                        (measured, published, operators or modelled), peak_flops per
                        device
``slices``              per micro-batch count: see below
======================  ==========================================================

A slice has ``microbatches``; ``layouts`` (cluster by name, dp, shards = cp * tp);
matrices ``[cut class][layout][next layout]`` of ``transfer_ns`` (kappa),
``occupancy_ns`` (omega) and ``resharding`` (its name); ``tied_ns``
``[layout of first][layout of last]``, or null; if boundaries may share a link or an
uplink, ``shared`` with ``uplink_ns`` (by cluster) and ``link_ns`` (by both clusters),
the time for which one boundary occupies each; and ``clusters``, one entry per cluster
with a list ``strategies`` of

======================  ==========================================================
``dp cp tp recompute``  the strategy; also ``ep`` and ``etp`` if they are not 1
``microbatch``          sequences per replica and micro-batch
``devices``             devices of one stage; ``max_stages`` fit in the cluster
``layout``              position in ``layouts``
``fixed_bytes``         once per stage
``sync_ns``             once per stage and iteration
``forward_ns ...``      by kind: ``forward_ns``, ``backward_ns``, ``state_bytes``,
                        ``activation_bytes`` per in-flight micro-batch,
                        ``temporary_bytes`` (the largest counts), ``sync_unit_ns``;
                        with a schedule that splits the backward pass also
                        ``weight_ns``, the part of ``backward_ns`` for weight
                        gradients, at most half, and ``weight_bytes`` kept for them
======================  ==========================================================

If stages are folded (``zb-v``, ``v-half``, ``v-min``), ``units`` and ``cuts`` are those
of pairs: ``pairs`` names the two kinds that each of the last kinds stands for, whose
costs are added, and times of boundaries are those of both chunks in one direction
(``hetopt.cost.folding``).

Problems with one cluster and schedule gpipe also have ``per_unit``, for plans with one
strategy per unit: ``tensors``, the classes of tensors between units; ``edges``, each
with ``first`` and ``second`` unit and its ``tensor``; and ``slices`` as above, whose
strategies also have ``zero``, whose matrices are by tensor instead of cut class, and
which have one more matrix, ``within_ns``: the time in one direction between two layouts
on the same devices.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import fields
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from hetopt.base.files import write_text
from hetopt.base.reading import read_json
from hetopt.cost.chunks import placed_units
from hetopt.cost.ranges import ensure_sums_fit, slices_of
from hetopt.cost.table_file.records import (
    CLUSTER_COLUMNS,
    ClusterRow,
    ClusterRows,
    EdgeRow,
    LayoutRow,
    SharedRows,
    SliceRows,
    StrategyRow,
    TableFile,
    UnitRows,
)
from hetopt.errors import DigestError, InputError
from hetopt.plans.strategy import DEGREES
from hetopt.problem.digest import problem_digest
from hetopt.problem.training.choices import RECOMPUTE_OPTIONS, RESHARDING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from hetopt.cost.table.cluster import ClusterTable
    from hetopt.cost.table.slice import TableSlice
    from hetopt.cost.table.table import CostTable, UnitTable
    from hetopt.problem.problem import Problem

_DEGREES = attrgetter(*DEGREES)


def table_to_json(table: CostTable) -> dict[str, Any]:
    """Return the table as plain JSON data."""
    return _to_json(table, partial(_strategies, table.kinds))


def _to_json(
    table: CostTable, strategies: Callable[[ClusterTable], tuple[StrategyRow, ...]]
) -> dict[str, Any]:
    """Return the table as JSON data, with these rows for a cluster's strategies."""

    def slices(of: CostTable | UnitTable) -> tuple[SliceRows, ...]:
        return tuple(
            _slice(part, table.cluster_names, strategies) for part in of.slices
        )

    several, per_unit = table.way_back is not None, table.per_unit
    clusters = zip(
        *(getattr(table, name) for name in CLUSTER_COLUMNS.values()), strict=True
    )
    values: dict[str, Any] = {
        **{each.name: getattr(table, each.name, None) for each in fields(TableFile)},
        "units": _words(table.units, table.kinds),
        "cuts": _words(table.cuts, table.cut_classes),
        "chunks": table.chunks if several or table.layout is not None else None,
        "way_back": table.cut_classes[table.way_back or 0] if several else None,
        "pairs": table.pairs and [_words(own, table.kinds) for own in table.pairs],
        "clusters": [
            ClusterRow(**dict(zip(CLUSTER_COLUMNS, own, strict=True)))
            for own in clusters
        ],
        "slices": slices(table),
        "per_unit": per_unit
        and UnitRows(
            tensors=per_unit.tensors,
            edges=tuple(
                EdgeRow(first=first, second=second, tensor=per_unit.tensors[crossing])
                for first, second, crossing in per_unit.edges
            ),
            slices=slices(per_unit),
        ),
    }
    return TableFile(**values).to_json()


def _slice(
    part: TableSlice,
    names: Sequence[str],
    strategies: Callable[[ClusterTable], tuple[StrategyRow, ...]],
) -> SliceRows:
    shared = part.shared
    values: dict[str, Any] = {
        **{each.name: getattr(part, each.name) for each in fields(SliceRows)},
        "layouts": [
            LayoutRow(cluster=names[own.cluster], dp=own.dp, shards=own.shards)
            for own in part.layouts
        ],
        "resharding": np.array(RESHARDING, dtype=object)[part.resharding],
        "clusters": [
            ClusterRows(name=name, strategies=strategies(own))
            for name, own in zip(names, part.clusters, strict=True)
        ],
        "shared": shared
        and SharedRows(uplink_ns=shared.uplink_ns, link_ns=shared.link_ns),
    }
    return SliceRows(**values)


def _strategies(kinds: Sequence[str], cluster: ClusterTable) -> tuple[StrategyRow, ...]:
    """Return a cluster's strategies and their numbers."""
    columns = {name: column.tolist() for name, column in cluster.columns().items()}
    for name, column in columns.items():
        if column and isinstance(column[0], list):
            columns[name] = [dict(zip(kinds, own, strict=True)) for own in column]
    rows = zip(*columns.values(), strict=True)
    return tuple(
        StrategyRow(strategy=strategy, **dict(zip(columns, own, strict=True)))
        for strategy, own in zip(cluster.strategies, rows, strict=True)
    )


def _words(places: Sequence[int], words: Sequence[str]) -> list[str]:
    return [words[place] for place in places]


def table_from_json(
    data: Any, *, file: str | None = None, problem: Problem | None = None
) -> CostTable:
    """Return the table in JSON data of ``table_to_json``, or of another program.

    Parameters
    ----------
    file
        Name of the file in error messages.
    problem
        The problem for which the table must have been built; None for any.

    Raises
    ------
    InputError
        Something is missing, of the wrong type or shape, negative, inconsistent or too
        large to be added up.
    DigestError
        The table was built for another problem.
    """
    from hetopt.cost.table_file.reading import read_document

    table = read_document(data, file)
    if problem is not None:
        ensure_made_for(table, problem, file)
        _check_problem(table, problem, file)
    ensure_sums_fit(table, file)
    return table


def ensure_made_for(
    table: CostTable, problem: Problem, file: str | None = None
) -> None:
    """Raise DigestError if a table was built for another problem."""
    expected = problem_digest(problem)
    if table.problem_digest != expected:
        msg = (
            f"the table was made for problem {table.problem_digest[:12]}, "
            f"this problem is {expected[:12]}; make a new table"
        )
        raise DigestError(msg, file=file, field="problem_digest")


def write_table(table: CostTable, path: str | Path) -> None:
    """Write the table to a file, completely or not at all."""
    write_text(str(path), json.dumps(table_to_json(table), allow_nan=False) + "\n")


def read_table(path: str | Path, problem: Problem | None = None) -> CostTable:
    """Read a table from a file; see ``table_from_json``."""
    data = read_json(path, "a table")
    return table_from_json(data, file=str(path), problem=problem)


def table_digest(table: CostTable) -> str:
    """Return the SHA-256 of the table's content, in hexadecimal.

    In the JSON document each cluster's strategies are replaced by a digest of their
    numbers: with experts there may be a million of them, and their text would take a
    minute.
    """
    return table.digest(_digest)


def _digest(table: CostTable) -> str:
    data = _to_json(table, lambda _: ())
    slices = (*table.slices, *(table.per_unit.slices if table.per_unit else ()))
    data["strategies"] = [
        [_strategies_digest(own) for own in part.clusters] for part in slices
    ]
    text = json.dumps(data, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _strategies_digest(cluster: ClusterTable) -> str:
    """Return the SHA-256 of a cluster's strategies and numbers; "" without any."""
    if not cluster.strategies:
        return ""
    said = [
        (
            *_DEGREES(strategy),
            RECOMPUTE_OPTIONS.index(strategy.recompute),
            -1 if strategy.zero is None else strategy.zero,
        )
        for strategy in cluster.strategies
    ]
    rows = len(said)
    columns = [np.array(said, dtype=np.int64), *cluster.columns().values()]
    whole = np.concatenate([part.reshape(rows, -1) for part in columns], axis=1)
    # Little-endian on every machine.
    return hashlib.sha256(whole.astype("<i8").tobytes()).hexdigest()


def _check_problem(table: CostTable, problem: Problem, file: str | None) -> None:
    """Refuse a table that contradicts the problem whose digest it has."""
    names = tuple(cluster.name for cluster in problem.clusters)
    devices = tuple(cluster.devices for cluster in problem.clusters)
    training = problem.training
    layout = problem.pins.cuts
    units, cuts = placed_units(
        problem.model, training.schedule, training.chunks, layout
    )
    for field, found, expected in (
        ("clusters", table.cluster_names, names),
        ("clusters.devices", table.cluster_devices, devices),
        ("units", tuple(table.kinds[u] for u in table.units), units),
        ("cuts", tuple(table.cut_classes[c] for c in table.cuts), cuts),
        ("schedule", table.schedule, training.schedule),
        ("chunks", table.chunks, training.chunks),
        ("layout", table.layout, layout),
        ("warmup_epsilon", table.warmup_epsilon, training.epsilon),
        ("tokens", table.tokens, training.tokens),
    ):
        if found != expected:
            msg = "differs from the problem: build the table again"
            raise InputError(msg, file=file, field=field)
    for field, part in slices_of(table):
        if training.global_batch % part.microbatches:
            msg = (
                f"is {part.microbatches}, which does not divide the global batch of "
                f"{training.global_batch}"
            )
            raise InputError(msg, file=file, field=f"{field}.microbatches")
        for number, cluster in enumerate(part.clusters):
            for row, strategy in enumerate(cluster.strategies):
                sequences = int(cluster.microbatch[row]) * strategy.dp
                if sequences * part.microbatches != training.global_batch:
                    msg = "microbatch * dp * microbatches is not the global batch"
                    where = f"{field}.clusters.{number}.strategies.{row}.microbatch"
                    raise InputError(msg, file=file, field=where)
