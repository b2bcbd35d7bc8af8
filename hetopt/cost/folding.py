"""Tables of schedules that fold the model in two (``hetopt.schedule.orders``).

Unit u of U and unit U - 1 - u, which is as far from the head as unit u is from the
embedding, are always on one stage: a plan places such *pairs*, the first of which is
embedding and head. ``folded`` adds their kinds to a table, after those of the model's
own units, which the simulation and the memory check need. A pair costs the sum of its
units, and a boundary's transfer is that of both chunks in one direction.

What a stage holds at once follows from its order of passes: so many micro-batches of
either chunk wait for their B, with bytes of activations, so many for their w, with
those of pending weight gradients, and one may be in its B, with the larger of both. A
pair counts the most of them (``with_both_chunks``): M_i on stage i. This is not tight
if in some of a stage's pairs one count takes most and in others another one.

Under ``zb-v`` stage i, whose warm-up is W, runs min(W, q - p) further micro-batches
ahead on its first chunk. Let D be how much more a micro-batch takes on the first chunk
than on the second, each with the larger of its bytes. With p known, the most of
M_i - min(W, q - p) D over all stages counts as state, and D for each further one.
Under schedules that repeat a building block all of M_i is state.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from hetopt.base.words import counted
from hetopt.cost.table.cluster import ClusterTable
from hetopt.cost.table.ticks import TOO_LONG_NS
from hetopt.errors import InputError
from hetopt.problem.quantity import TOO_MANY_BYTES
from hetopt.schedule.orders import FOLDED_CHUNKS, FOLDS
from hetopt.schedule.shares import SharedLinks
from hetopt.schedule.warmup import held_at_ends, held_together

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from hetopt.cost.table.slice import TableSlice
    from hetopt.cost.table.table import CostTable
    from hetopt.problem.training.choices import ScheduleName

    Ints = NDArray[np.int64]

#: Joins the kinds of a pair's units.
_WITH = "+"
#: Columns that are summed over a pair; temporary bytes are the larger of both.
_ADDED = (
    "forward_ns",
    "backward_ns",
    "weight_ns",
    "sync_unit_ns",
    "state_bytes",
    "activation_bytes",
    "weight_bytes",
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PairTable(ClusterTable):
    """Coefficients of one cluster, whose last kinds are pairs of units."""

    @property
    def handed_on_ns(self) -> Ints:
        """Part of tau in other stages' windows: the longer of forward and B; (K, N)."""
        assert self.weight_ns is not None
        passed = self.backward_ns - self.weight_ns
        longer: Ints = np.maximum(self.forward_ns, passed)
        return longer

    @property
    def fill_ns(self) -> Ints:
        """Time that a pair adds to the fill (MODEL.md section 4); (K, N).

        The longest of B / 2, B - w and forward - B / 2.
        """
        assert self.weight_ns is not None
        passed = self.backward_ns - self.weight_ns
        before = np.maximum(passed - self.weight_ns, (passed + 1) // 2)
        longest: Ints = np.maximum(before, self.forward_ns - passed // 2)
        return longest


def as_pair_table(own: ClusterTable) -> PairTable:
    """Return coefficients whose last kinds are pairs as a ``PairTable``."""
    return PairTable(strategies=own.strategies, **own.columns())


def pairs_of(units: Sequence[str], cuts: Sequence[str]) -> list[tuple[str, str]]:
    """Return the kinds of a model's pairs, embedding and head first.

    Parameters
    ----------
    units, cuts
        As those of ``Model``.

    Raises
    ------
    InputError
        The model cannot be folded in two.
    """
    half = len(units) // 2
    if len(units) % 2 or half < FOLDED_CHUNKS:
        _refuse(
            f"which has {counted(len(units) - 2, 'unit')} between embedding and head, "
            "expected an even number of them"
        )
    found = [(units[u], units[-1 - u]) for u in range(half)]
    for u in range(1, half - 1):
        down, up = cuts[u], cuts[-1 - u]
        if down != up:
            _refuse(
                f"but a boundary is crossed by {down} on the way down and by {up} on "
                "the way up: set granularity: layer"
            )
    return found


def _refuse(fault: str) -> None:
    msg = f"the schedule folds the model in two, {fault}; or use another schedule"
    raise InputError(msg, field="training.schedule")


def pair_name(first: str, second: str) -> str:
    """Return the name of a pair's kind."""
    return f"{first}{_WITH}{second}"


def folded(table: CostTable) -> CostTable:
    """Return the table of pairs, from that of the model's units.

    Raises
    ------
    InputError
        As ``pairs_of``.
    """
    kinds, cuts = table.kinds, table.cut_classes
    found = pairs_of([kinds[u] for u in table.units], [cuts[c] for c in table.cuts])
    pairs = tuple(dict.fromkeys(found))
    numbers = tuple((kinds.index(one), kinds.index(other)) for one, other in pairs)
    inside = [table.body[one] and table.body[other] for one, other in numbers]
    own = len(kinds)
    return replace(
        table,
        kinds=(*kinds, *(pair_name(*pair) for pair in pairs)),
        body=(*table.body, *inside),
        units=tuple(own + pairs.index(pair) for pair in found),
        cuts=table.cuts[: len(found) - 1],
        slices=tuple(_slice(part, numbers, table.schedule) for part in table.slices),
        pairs=numbers,
    )


def _slice(
    part: TableSlice, pairs: tuple[tuple[int, int], ...], schedule: ScheduleName
) -> TableSlice:
    shared = part.shared
    if shared is not None:
        shared = SharedLinks(
            uplink_ns=_twice(shared.uplink_ns), link_ns=_twice(shared.link_ns)
        )
    return replace(
        part,
        clusters=tuple(_with_pairs(own, pairs) for own in part.clusters),
        transfer_ns=_twice(part.transfer_ns),
        occupancy_ns=_twice(part.occupancy_ns),
        # Embedding and head are on the first stage: nothing is sent for a tied table.
        tied_ns=None,
        shared=shared,
        pairs=pairs,
        folds=schedule,
    )


def _twice(times: Ints) -> Ints:
    """Return the time of both chunks, at most ``TOO_LONG_NS``."""
    return np.minimum(FOLDED_CHUNKS * times, TOO_LONG_NS)


def _with_pairs(own: ClusterTable, pairs: tuple[tuple[int, int], ...]) -> ClusterTable:
    """Return a cluster's coefficients with columns for pairs, after all others."""
    columns = own.columns()
    added = {
        name: np.hstack([columns[name], column])
        for name, column in pair_columns(own, pairs).items()
    }
    return PairTable(strategies=own.strategies, **{**columns, **added})


def pair_columns(
    own: ClusterTable, pairs: tuple[tuple[int, int], ...]
) -> dict[str, Ints]:
    """Return the columns of pairs by name; each (K, pairs)."""
    first, second = np.array(pairs).T
    columns = own.columns()
    found = {}
    for name in _ADDED:
        most = TOO_LONG_NS if name.endswith("_ns") else TOO_MANY_BYTES
        both = columns[name][:, first] + columns[name][:, second]
        found[name] = np.minimum(both, most)
    once = own.temporary_bytes
    found["temporary_bytes"] = np.maximum(once[:, first], once[:, second])
    return found


def with_both_chunks(
    part: TableSlice, ends: NDArray[np.bool_], stages: int
) -> TableSlice:
    """Return the slice for p stages, with passes that every stage holds as state.

    Parameters
    ----------
    ends
        Which kinds are at the ends of the model; shape (N,). They are on the first
        stage, whose order of passes determines what they hold.
    stages
        p, less than q.
    """
    assert part.pairs is not None
    assert part.folds is not None
    first, second = np.array(part.pairs).T
    at_ends, q = ends[-len(first) :], part.microbatches
    down, up = held_at_ends(part.folds, stages, q, FOLDED_CHUNKS)
    block = FOLDS[part.folds]
    together = held_together(part.folds, stages, q)

    def hold(own: ClusterTable) -> ClusterTable:
        assert own.weight_bytes is not None
        kept, waits = own.activation_bytes, own.weight_bytes
        either = kept, waits, np.maximum(kept, waits)
        # Of both chunks, in the order of the counts; (6, K, pairs).
        each = np.stack([size[:, unit] for unit in (first, second) for size in either])
        here, back = each[2], each[5]
        more = np.zeros_like(here) if block else np.maximum(here - back, 0)
        both = np.maximum.reduce(
            [
                np.tensordot(counts, each, 1).max(axis=0)
                - min(stages - stage, q - stages) * more
                for stage, counts in enumerate(together)
            ]
        )
        rest = np.where(at_ends, down * here + up * back, both)
        more = np.where(at_ends, 0, more)
        state, activation = own.state_bytes.copy(), own.activation_bytes.copy()
        state[:, -len(first) :] += rest
        activation[:, -len(first) :] = more
        return replace(
            own,
            state_bytes=state,
            activation_bytes=activation,
            weight_bytes=np.zeros_like(own.weight_bytes),
        )

    # All that a block holds counts as state, whatever the warm-ups.
    ahead = 0 if block else stages
    return replace(part, clusters=tuple(map(hold, part.clusters)), ahead=ahead)


def at_any_stages(part: TableSlice) -> TableSlice:
    """Return the slice for bounds over all p: folded stages hold at least as much.

    Without p a stage counts W times a pair's activations. Under ``zb-v`` it holds those
    of 2 p passes, which may all be of the chunk with fewer bytes. If the order repeats
    a block, it is sure to hold one micro-batch on both chunks, when this turns back.
    """
    if part.pairs is None or part.folds is None:
        return part
    first, second = np.array(part.pairs).T
    block = FOLDS[part.folds]

    def hold(own: ClusterTable) -> ClusterTable:
        state, activation = own.state_bytes.copy(), own.activation_bytes.copy()
        here, back = activation[:, first], activation[:, second]
        if block:
            state[:, -len(first) :] += here + back
            activation[:, -len(first) :] = 0
        else:
            activation[:, -len(first) :] = FOLDED_CHUNKS * np.minimum(here, back)
        return replace(own, state_bytes=state, activation_bytes=activation)

    return replace(part, clusters=tuple(map(hold, part.clusters)))
