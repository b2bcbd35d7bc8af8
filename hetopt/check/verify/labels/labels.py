"""Plans stage by stage from the pipeline's end: one more stage before each label.

A *label* is the last s stages of a plan. It stores the clusters used, the strategy of
the first of its stages, the number of body units, the fill F and the largest g in ns,
and what it requires of the stages before it: E of MODEL.md section 4 in ps, or under
gpipe the slowest forward and backward (or transfer) in ns. Of two labels with the same
clusters, strategy and units one is dropped if it is nowhere better; E counts only
beyond what every boundary hides (``left_to_pay.calm``). F plus the least remaining cost
must keep to a budget.

All labels are for one upper limit on lambda. If warm-ups depend on times (``h-1f1b``),
memory is for the fewest possible and E for the most, and tied embeddings add the least
possible g: every plan has its label, so what no label reaches, no plan does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetopt.base.compiled import kernel, step
from hetopt.check.verify.fills import NEVER
from hetopt.check.verify.labels.data import PS_PER_NS, At, Cost, Path, Rule
from hetopt.check.verify.labels.left_to_pay import reckon
from hetopt.check.verify.labels.paths import fewest_warmups, on_path

if TYPE_CHECKING:
    from hetopt.check.verify.labels.data import Facts, Ints, Left

# Compiled code reads plain integers.
(
    MASK,
    OPTION,
    IN_RUN,
    UNITS,
    FILL,
    CARRY,
    OTHER,
    SYNC,
    PARENT,
    HELD,
    NEXT,
    STAYS,
    AFTER,
) = map(int, [*At][: At.WARMUP])
FORWARD, BACKWARD, STATE, ACTIVE, TEMPORARY, G, LATER, IN_FILL = map(int, Cost)
EVERY = int(Path.EVERY)
STEADY, ALL_FIRST, ONCE, PATHS = map(int, Rule)


@kernel
def extend(
    facts: Facts, left: Left, pool: Ints, at: Ints, placed: int, high_ps: int
) -> bool:
    """Put one more stage before every label of a layer; False if labels are too many.

    Parameters
    ----------
    pool
        Labels, one a row; columns as in ``At``.
    at
        First row of the layer, first row of the next one, and the row after that one.
    placed
        Stages of the layer's labels; 0 if there are none yet and ``at`` is (0, 0, 0).
    """
    left.heads[: left.used[0]] = -1
    options = len(facts.cluster)
    if placed == 0:
        for o in range(options):
            if facts.closes[facts.cluster[o]] and not _place(
                facts, left, pool, at, -1, o, 0, high_ps
            ):
                return False
        return True
    if not facts.path[EVERY]:
        _mark(facts, left, pool, at, high_ps)
    for row in range(at[0], at[1]):
        label = pool[row]
        if label[FILL] >= NEVER or label[UNITS] == len(facts.kinds):
            continue
        own = label[OPTION]
        j = facts.cluster[own]
        if label[IN_RUN] < facts.stages[own] and not _place(
            facts, left, pool, at, row, own, placed, high_ps
        ):
            return False
        if label[STAYS] and not facts.path[EVERY]:
            continue
        for o in range(options):
            i = facts.cluster[o]
            if (
                not label[MASK] >> i & 1
                and facts.follows[i, j]
                and not _place(facts, left, pool, at, row, o, placed, high_ps)
            ):
                return False
    return True


@step
def _mark(facts: Facts, left: Left, pool: Ints, at: Ints, high_ps: int) -> None:
    """Mark labels that stay on their cluster, as another one leaves it no worse."""
    left.leaving[:] = -1
    for row in range(at[0], at[1]):
        new = pool[row]
        new[STAYS] = 1
        if new[FILL] >= NEVER:
            continue
        leaving = left.leaving[new[MASK], facts.cluster[new[OPTION]]]
        new[STAYS] = 0
        last, number = -1, leaving[new[UNITS]]
        while number >= 0:
            other = pool[number]
            if _leaves_no_worse(facts, other, new, high_ps):
                new[STAYS] = 1
                break
            after = other[AFTER]
            if _leaves_no_worse(facts, new, other, high_ps):
                other[STAYS] = 1
                if last < 0:
                    leaving[new[UNITS]] = after
                else:
                    pool[last, AFTER] = after
            else:
                last = number
            number = after
        if not new[STAYS]:
            new[AFTER] = leaving[new[UNITS]]
            leaving[new[UNITS]] = row


@step
def _leaves_no_worse(facts: Facts, one: Ints, other: Ints, high_ps: int) -> bool:
    """Whether ``one`` is no worse if a stage of another cluster comes before."""
    a, b = facts.layout[one[OPTION]], facts.layout[other[OPTION]]
    more, slowest = 2 * facts.dearer[a, b], facts.slower[a, b]
    if one[FILL] + more > other[FILL]:
        return False
    if one[FILL] + one[SYNC] + more > other[FILL] + other[SYNC]:
        return False
    if facts.rule == ALL_FIRST:
        asks_no_more = one[CARRY] <= other[CARRY] and one[OTHER] <= other[OTHER]
        return bool(slowest == 0 and asks_no_more)
    if facts.rule == ONCE:
        return True
    if facts.rule == PATHS:
        # Stages that wait for transfers also do so at the boundary before.
        waits = facts.blocking > 0 and more > 0
        return bool(not waits and one[CARRY] <= other[CARRY])
    if slowest * PS_PER_NS > high_ps:
        return False
    if facts.blocking:
        return bool(more <= 0 and one[CARRY] <= other[CARRY])
    # E makes no difference up to what the boundary hides.
    hidden = facts.paces[1] * high_ps - 2 * facts.dearest[a] * PS_PER_NS
    return bool(one[CARRY] <= max(hidden, other[CARRY] - more * PS_PER_NS))


@step
def _place(
    facts: Facts, left: Left, pool: Ints, at: Ints, row: int, o: int, placed: int,
    high_ps: int,
) -> bool:  # fmt: skip
    """Put a stage of one strategy before a label, with 1, 2, ... body units."""
    length, j = len(facts.kinds), facts.cluster[o]
    mask, units, in_run, paid = 1 << j, 0, 1, 0
    if row >= 0:
        before = pool[row]
        mask, units = mask | before[MASK], before[UNITS]
        in_run = before[IN_RUN] + 1 if before[OPTION] == o else 1
        a, b = facts.layout[o], facts.layout[before[OPTION]]
        paid = before[FILL] + 2 * facts.kappa[facts.cut[length - units], a, b]
    number = _place_of(facts, left, mask, o)
    if number < 0:
        return False
    slack = left.slack[number, placed + 1]
    if placed + 1 == len(left.budgets) - 1:
        # The first stage has to hold all remaining units.
        time = left.run[o, length - units] + facts.first_end[o]
        if paid + time > slack[length] or _too_slow(facts, time, high_ps):
            return True
    warmup = fewest_warmups(facts, mask, placed + 1)
    # Costs of the stage, summed from its last unit to its first.
    held = left.held
    for c in range(len(held)):
        held[c] = facts.trail[o, c] if row < 0 else 0
    summed = 0
    for n in range(1, length - units + 1):
        if _too_slow(facts, left.run[o, n], high_ps):
            return True
        if paid + left.run[o, n] > slack[units + n]:
            continue
        if at[2] == len(pool):
            return False
        while summed < n:
            summed += 1
            _hold(held, facts.unit[o, facts.kinds[length - units - summed]])
        if units + n == length:
            if not facts.opens[j] or facts.needed & ~mask:
                return True
            _hold(held, facts.lead[o])
        label = pool[at[2]]
        label[MASK], label[OPTION], label[IN_RUN] = mask, o, in_run
        label[UNITS], label[PARENT], label[HELD] = units + n, row, n
        one_end = (row < 0) != (units + n == length)
        tied = facts.tied[1 if row < 0 else 0, o] if one_end else 0
        if facts.rule == PATHS:
            ends = left.low_ps[0], high_ps
            priced = on_path(facts, pool, at[2], placed + 1, held, tied, ends)
        else:
            priced = _priced(facts, pool, at[2], row, o, held, tied, high_ps)
        if not priced or not _fits(facts, o, held, warmup):
            return True
        if label[FILL] + label[SYNC] <= slack[units + n]:
            _keep(facts, left, pool, at, number)
    return True


@step
def _place_of(facts: Facts, left: Left, mask: int, o: int) -> int:
    """Return the number of a set and a strategy, a new one if need be; -1: too many."""
    if left.place[mask, o] < 0:
        number = left.used[0]
        if number == len(left.slack):
            return -1
        left.place[mask, o] = number
        left.used[0] += 1
        left.heads[number] = -1
        reckon(facts, left, number, mask, o)
    return int(left.place[mask, o])


@step
def _too_slow(facts: Facts, time: int, high_ps: int) -> bool:
    """Whether a time exceeds the upper limit on lambda."""
    limits = facts.rule == STEADY or facts.rule == ALL_FIRST
    return bool(limits and time * PS_PER_NS > high_ps)


@step
def _fits(facts: Facts, o: int, held: Ints, warmup: int) -> bool:
    """Whether the fewest micro-batches that a stage may hold fit into its memory."""
    flight = facts.flights
    if facts.rule != ALL_FIRST:
        flight = min(warmup, flight)
    bytes_ = held[STATE] + flight * held[ACTIVE] + held[TEMPORARY]
    return bool(bytes_ <= facts.room[o])


@step
def _hold(held: Ints, unit: Ints) -> None:
    """Add the costs of one more unit to those that a stage holds."""
    for c in range(len(held)):
        if c == TEMPORARY:
            held[c] = max(held[c], unit[c])
        else:
            held[c] += unit[c]


@step
def _priced(
    facts: Facts,
    pool: Ints,
    new: int,
    row: int,
    o: int,
    held: Ints,
    tied: int,
    high_ps: int,
) -> bool:
    """Set the costs of a label with a new stage; False if it is too slow."""
    label = pool[new]
    both, later = held[FORWARD] + held[BACKWARD], held[LATER]
    label[FILL] = held[IN_FILL]
    label[SYNC] = facts.once[o] + held[G] + tied
    label[CARRY], label[OTHER] = (both - later) * PS_PER_NS, 0
    once = facts.rule == ONCE
    # Gradients of weights count in lambda, but no stage before waits for them.
    room_ps = high_ps - later * PS_PER_NS
    if not once and label[CARRY] > room_ps:
        return False
    forward, backward = held[FORWARD], held[BACKWARD]
    if row >= 0:
        before = pool[row]
        cut = facts.cut[len(facts.kinds) - before[UNITS]]
        a, b = facts.layout[o], facts.layout[before[OPTION]]
        kappa, omega = facts.kappa[cut, a, b], facts.omega[cut, a, b]
        label[FILL] += before[FILL] + 2 * kappa
        label[SYNC] = max(label[SYNC], before[SYNC])
        if not once and omega * PS_PER_NS > high_ps:
            return False
        if facts.rule == STEADY and facts.blocking:
            # Both stages wait during the boundary's transfers.
            blocked = facts.blocking * kappa * PS_PER_NS
            if before[CARRY] + blocked > high_ps:
                return False
            label[CARRY] += blocked
            if label[CARRY] > high_ps:
                return False
        elif facts.rule == STEADY:
            across = facts.cluster[o] != facts.cluster[before[OPTION]]
            pace = facts.paces[1 if across else 0]
            more = before[CARRY] + 2 * kappa * PS_PER_NS - pace * high_ps
            label[CARRY] += max(0, more)
            if label[CARRY] > room_ps:
                return False
        forward = max(forward, omega, before[CARRY])
        backward = max(backward, omega, before[OTHER])
    if facts.rule == ALL_FIRST:
        label[CARRY], label[OTHER] = forward, backward
        return bool((forward + backward) * PS_PER_NS <= high_ps)
    if facts.rule == ONCE:
        label[CARRY] = 0
    return True


@step
def _calm_down(facts: Facts, left: Left, label: Ints) -> None:
    """Raise E of a label to what every boundary before it hides."""
    body = len(facts.kinds) - label[UNITS]
    if facts.rule == STEADY and body:
        label[CARRY] = max(label[CARRY], left.calm[facts.cut[body], label[OPTION]])


@step
def _keep(facts: Facts, left: Left, pool: Ints, at: Ints, number: int) -> None:
    """Keep the label past the pool's end unless another one is nowhere worse."""
    new = pool[at[2]]
    if facts.path[EVERY]:
        at[2] += 1
        return
    units = new[UNITS]
    _calm_down(facts, left, new)
    last, row = -1, left.heads[number, units]
    while row >= 0:
        other = pool[row]
        after = other[NEXT]
        if _no_worse(other, new):
            # To the front, as it is likely to replace the next label, too.
            if last >= 0:
                pool[last, NEXT] = after
                other[NEXT] = left.heads[number, units]
                left.heads[number, units] = row
            return
        if _no_worse(new, other):
            other[FILL] = NEVER
            if last < 0:
                left.heads[number, units] = after
            else:
                pool[last, NEXT] = after
        else:
            last = row
        row = after
    new[NEXT] = left.heads[number, units]
    left.heads[number, units] = at[2]
    at[2] += 1


@step
def _no_worse(one: Ints, other: Ints) -> bool:
    """Whether all that completes ``other`` completes ``one`` at no higher cost."""
    return bool(
        one[IN_RUN] <= other[IN_RUN]
        and one[FILL] <= other[FILL]
        and one[FILL] + one[SYNC] <= other[FILL] + other[SYNC]
        and one[CARRY] <= other[CARRY]
        and one[OTHER] <= other[OTHER]
    )
