"""Pipelines whose chunks differ, and the longest path through their events."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hetopt.schedule.times import Chunks, PipelineTimes, Uneven
from tests.oracle import chunks as oracle

if TYPE_CHECKING:
    from collections.abc import Sequence
    from random import Random

    Grid = Sequence[Sequence[int]]

#: Tables of hetopt for published models (MODEL3.md, section A), of one micro-batch
#: count: their own units, with today's times of another day.
TABLES = Path(__file__).parent / "tables"
#: How the chunks of a drawn pipeline differ.
KINDS = ("equal", "ends", "one more", "two devices", "any")


def uneven(
    forward: Grid,
    backward: Grid,
    kappa: Grid,
    omega: Grid,
    sync: Sequence[int],
    groups: int,
) -> PipelineTimes:
    """Return a pipeline of q = groups * p micro-batches; grids by stage and chunk."""
    p, v = len(forward), len(forward[0])
    forward, backward, kappa, omega = (
        tuple(map(tuple, each)) for each in (forward, backward, kappa, omega)
    )
    return PipelineTimes(
        schedule="interleaved-1f1b",
        microbatches=groups * p,
        forward_ns=tuple(-(-sum(each) // v) for each in forward),
        backward_ns=tuple(-(-sum(each) // v) for each in backward),
        transfer_ns=tuple(map(max, kappa[:-1])),
        occupancy_ns=tuple(map(max, omega[:-1])),
        sync_ns=tuple(sync),
        warmups=tuple(1 + 2 * (p - 1 - i) + (v - 1) * p for i in range(p)),
        chunks=Chunks(
            count=v,
            way_back_ns=max(kappa[-1]),
            way_back_occupancy_ns=max(omega[-1]),
            uneven=Uneven(
                forward_ns=forward,
                backward_ns=backward,
                transfer_ns=kappa,
                occupancy_ns=omega,
            ),
        ),
    )


def draw(
    rng: Random, kind: str, slow: float, *, most: tuple[int, int, int] = (6, 4, 5)
) -> PipelineTimes:
    """Draw a pipeline.

    Parameters
    ----------
    slow
        Longest transfer, as a share of a mean chunk.
    most
        Stages, chunks and groups of micro-batches.
    """
    p, v = rng.randint(2, most[0]), rng.randint(2, most[1])
    groups, faster = rng.randint(1, most[2]), rng.randint(0, p)

    def units(i: int, c: int) -> float:
        match kind:
            case "equal":
                return 2
            case "ends":
                first = -2 * rng.random() if (i, c) == (0, 0) else 0
                last = 4 * rng.random() - 1.9 if (i, c) == (p - 1, v - 1) else 0
                return 2 + first + last
            case "one more":
                return rng.randint(2, 3)
            case "two devices":
                return rng.randint(1, 3) if i < faster else rng.randint(0, 2) * 1.7
            case _:
                return rng.randint(0, 4)

    held = [[units(i, c) for c in range(v)] for i in range(p)]
    forward = [[round(340 * n) for n in own] for own in held]
    backward = [[round(rng.choice((660, 661)) * n) for n in own] for own in held]
    longest = slow * sum(map(sum, (*forward, *backward))) / (p * v)
    alike = rng.random() < 0.5
    kappa = [[round(rng.random() * longest)] * v for _ in range(p)]
    if not alike:
        kappa = [[round(rng.random() * longest) for _ in range(v)] for _ in range(p)]
    kappa[-1][-1] = 0
    share = rng.random()
    omega = [[round(share * each) for each in own] for own in kappa]
    sync = [rng.randint(0, 2000) for _ in range(p)]
    return uneven(forward, backward, kappa, omega, sync, groups)


def longest_path(times: PipelineTimes) -> int:
    """Return the makespan: the longest path through the explicit graph of events."""
    assert times.chunks is not None
    assert times.chunks.uneven is not None
    own, p, v, q = times.chunks.uneven, times.stages, times.chunks.count, 0
    q = times.microbatches
    took = {"F": own.forward_ns, "B": own.backward_ns}
    #: Of every event, those that it starts after, and by how much.
    after: dict[Any, list[tuple[Any, int]]] = {}
    for i in range(p):
        before: tuple[Any, int] | None = None
        sent: dict[str, Any] = {"F": None, "B": None}
        for ahead, c, m in oracle.operations(p, q, v, i):
            kind = "F" if ahead else "B"
            event, spent = (kind, i, c, m), took[kind][i][c]
            after.setdefault(event, [])
            if before is not None:
                after[event].append(before)
            before = event, spent
            visit = c * p + i + (1 if ahead else -1)
            if not 0 <= visit < p * v:
                continue
            chunk, to = divmod(visit, p)
            place = (i, c) if ahead else (to, chunk)
            transfer: Any = ("sent", *event)
            after[transfer] = [(event, spent)]
            if sent[kind] is not None:
                after[transfer].append(sent[kind])
            sent[kind] = transfer, own.occupancy_ns[place[0]][place[1]]
            kappa = own.transfer_ns[place[0]][place[1]]
            after.setdefault((kind, to, chunk, m), []).append((transfer, kappa))
        assert before is not None
        after["end", i] = [(before[0], before[1] + times.sync_ns[i])]
    starts = dict[Any, int]()
    for root in [("end", i) for i in range(p)]:
        waiting = [root]
        while waiting:
            last = waiting[-1]
            missing = [each for each, _ in after[last] if each not in starts]
            waiting += missing
            if not missing:
                waiting.pop()
                starts[last] = max([0, *(starts[e] + gap for e, gap in after[last])])
    return max(starts["end", i] for i in range(p))


def of_table(
    name: str, policy: str, held: Sequence[Sequence[int]], groups: int
) -> PipelineTimes:
    """Return a pipeline on a table's first cluster.

    Parameters
    ----------
    held
        Layers by stage and chunk; embedding and head are in the first and last chunk.
    """
    table = json.loads((TABLES / name).read_text())
    row = next(row for row in table["rows"] if row["strategy"].endswith(policy))
    p, v = len(held), len(held[0])
    ends = {(0, 0): "embedding", (p - 1, v - 1): "head"}

    def spent(column: str, i: int, c: int) -> int:
        more: int = row[column][ends[i, c]] if (i, c) in ends else 0
        return held[i][c] * int(row[column]["layer"]) + int(more)

    def grid(column: str) -> list[list[int]]:
        return [[spent(column, i, c) for c in range(v)] for i in range(p)]

    kappa, omega = (
        [[table[each][0][0][0]] * v for _ in range(p)] for each in ("transfer", "occ")
    )
    kappa[-1][-1] = omega[-1][-1] = 0
    sync = [row["sync"] + sum(each) for each in grid("sync_unit")]
    return uneven(grid("fwd"), grid("bwd"), kappa, omega, sync, groups)
