"""Labels of simulated times: the excess of paths (``check.verify.simulated_bound``)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetopt.base.compiled import step
from hetopt.check.verify.labels.data import PS_PER_NS, At, Cost, Path

if TYPE_CHECKING:
    from hetopt.check.verify.labels.data import Facts, Ints

# Compiled code reads plain integers.
MASK, OPTION, UNITS, FILL = map(int, (At.MASK, At.OPTION, At.UNITS, At.FILL))
CARRY, OTHER = map(int, (At.CARRY, At.OTHER))
SYNC, PARENT, WARM = map(int, (At.SYNC, At.PARENT, At.WARMUP))
FORWARD, BACKWARD, STATE, ACTIVE, TEMPORARY, G, LATER, IN_FILL = map(int, Cost)
AHEAD, FREE, CHUNKED, TURNS, EVERY = map(int, Path)


@step
def fewest_warmups(facts: Facts, mask: int, stages: int) -> int:
    """Return the least warm-ups of the first of ``stages`` stages on some clusters."""
    clusters = 0
    for i in range(len(facts.opens)):
        clusters += mask >> i & 1
    inside, across = stages - clusters, clusters - 1
    return int(1 + inside * facts.steps[0] + across * facts.steps[1])


@step
def most_warmups(facts: Facts, mask: int, stages: int, o: int, held: Ints) -> int:
    """Return the most warm-ups of the first of ``stages`` stages on some clusters."""
    if facts.path[FREE]:
        # Only memory limits them.
        left = facts.room[o] - held[STATE] - held[TEMPORARY]
        return int(left // max(1, held[ACTIVE])) if stages > 1 else 1
    clusters = 0
    for i in range(len(facts.opens)):
        clusters += mask >> i & 1
    inside, across = stages - clusters, clusters - 1
    return int(1 + inside * facts.paces[0] + across * facts.paces[1])


@step
def _turns(
    facts: Facts, pool: Ints, new: int, row: int, forward: int, backward: int
) -> int:
    """Return the largest excess of paths that go round between a stage and another.

    With c micro-batches ahead on the other one, k, and s = W - c + 1, a turn leads the
    forward s micro-batches later to k and its gradient back, as often as there are
    micro-batches left. If not every label is kept, k is the last stage only, as others
    depend on more than the costs that labels are compared by.
    """
    label, q, most, at = pool[new], len(facts.weights) - 1, 0, new
    while at >= 0:
        last, inside = pool[at], label[FILL]
        after = row if at == new else last[PARENT]
        if after >= 0:
            cut = facts.cut[len(facts.kinds) - pool[after, UNITS]]
            a, b = facts.layout[last[OPTION]], facts.layout[pool[after, OPTION]]
            inside -= pool[after, FILL] + 2 * facts.kappa[cut, a, b]
        if after < 0 or facts.path[EVERY]:
            ahead, later = last[WARM], label[WARM] - last[WARM] + 1
            turns = (q - ahead) // later
            left = q - ahead - turns * later
            excess = (ahead - 1) * forward + turns * inside + left * backward
            most = max(most, excess)
        at = after
    return most


@step
def on_path(
    facts: Facts, pool: Ints, new: int, stages: int, held: Ints, tied: int,
    interval: tuple[int, int],
) -> bool:  # fmt: skip
    """Set the costs of a label of so many stages; False if it exceeds the interval.

    CARRY is the largest excess, SYNC by how much it exceeds the lower end of the
    interval, in ps, with the end of the path once the label is a whole plan.
    """
    label, most = pool[new], len(facts.weights) - 1
    o, row, opens = label[OPTION], label[PARENT], label[UNITS] == len(facts.kinds)
    fewest = fewest_warmups(facts, label[MASK], stages)
    many = most_warmups(facts, label[MASK], stages, o, held)
    late = facts.weights[min(fewest + facts.path[AHEAD], most)]
    by = facts.weights[max(0, min(many + facts.path[AHEAD], most))]
    forward, backward = held[FORWARD], held[BACKWARD] - held[LATER]
    if opens and facts.path[CHUNKED]:
        # There are passes without the embedding.
        forward -= facts.lead[o, FORWARD]
        backward -= facts.lead[o, BACKWARD] - facts.lead[o, LATER]
    own_end = facts.once[o] + held[G] + tied
    excess = by[0] * forward + by[1] * backward + late[2] * held[LATER]
    label[FILL], label[OTHER] = held[IN_FILL], 0
    label[WARM] = min(fewest, most)
    if row >= 0:
        before = pool[row]
        cut = facts.cut[len(facts.kinds) - before[UNITS]]
        a, b = facts.layout[o], facts.layout[before[OPTION]]
        label[FILL] += before[FILL] + 2 * facts.kappa[cut, a, b]
        excess = max(excess + by[3] * facts.kappa[cut, a, b], before[CARRY])
        j, others = facts.cluster[before[OPTION]], before[MASK]
        if j != facts.cluster[o] and others != 1 << j:
            # Its uplink carries both of its boundaries.
            many = most_warmups(facts, others, stages - 1, before[OPTION], held)
            by = facts.weights[min(many + facts.path[AHEAD], most)]
            excess = max(excess, (by[0] + by[1]) * facts.uplink[j])
    if facts.path[TURNS]:
        excess = max(excess, _turns(facts, pool, new, row, forward, backward))
    label[CARRY] = excess
    label[SYNC] = max(0, excess - interval[0] // PS_PER_NS)
    if opens:
        label[SYNC] += own_end
    return bool(excess * PS_PER_NS <= interval[1])
