"""Run the stages of a label by themselves, as if all forwards arrived at time 0.

No pass ends earlier if others arrive later, so with X the end of the last backward on
the first of these stages, a plan takes at least X and the fill and end of the stages
before them.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

from hetopt.base.compiled import step
from hetopt.check.verify.labels.data import At

if TYPE_CHECKING:
    from hetopt.check.verify.labels.data import Facts, Ints


class Own(IntEnum):
    """Columns of a stage's state while it runs.

    Passes that it has run, forwards and gradients that have come, the end of its last
    pass, when its next transfers may start to the next stage and back; its times of a
    forward, of gradients of inputs and of weights, its W and by how many micro-batches
    the latter come later; kappa and omega to the next stage.
    """

    DONE, CAME, BACK, CLOCK, SEND, RETURN = range(6)
    PHI, BETA, LATER, WARM, LATE, KAPPA, OMEGA = range(6, 13)


# Compiled code reads plain integers.
_DONE, _CAME, _BACK, _CLOCK, _SEND, _RETURN = map(int, [*Own][:6])
_PHI, _BETA, _LATER, _WARM, _LATE, _KAPPA, _OMEGA = map(int, [*Own][6:])
_PARENT, _OPTION, _UNITS, _WARMUP = map(
    int, (At.PARENT, At.OPTION, At.UNITS, At.WARMUP)
)
_FORWARD, _BACKWARD, _LAST_W = map(int, (At.FORWARD, At.BACKWARD, At.LATER))


@step
def end_of(facts: Facts, pool: Ints, row: int, stages: int, run: Ints) -> int:
    """Return X of a label, in ns.

    Parameters
    ----------
    stages
        p.
    run
        When forwards and gradients arrive by stage and micro-batch, and states; shape
        (3, p, at least q).
    """
    q, count, at = len(facts.weights) - 1, 0, row
    while at >= 0:
        label, own = pool[at], run[2, count]
        own[:_PHI] = 0
        own[_PHI], own[_BETA], own[_LATER] = (
            label[_FORWARD],
            label[_BACKWARD],
            label[_LAST_W],
        )
        own[_WARM], own[_LATE] = min(label[_WARMUP], q), stages - label[_WARMUP]
        at = label[_PARENT]
        if at >= 0:
            cut = facts.cut[len(facts.kinds) - pool[at, _UNITS]]
            a, b = facts.layout[label[_OPTION]], facts.layout[pool[at, _OPTION]]
            own[_KAPPA], own[_OMEGA] = facts.kappa[cut, a, b], facts.omega[cut, a, b]
        count += 1
    run[0, 0, :q] = 0
    run[2, 0, _CAME] = q
    while run[2, 0, _DONE] < 2 * q:
        for i in range(count):
            _advance(run, i, count, q)
    return int(run[2, 0, _CLOCK])


@step
def _advance(run: Ints, i: int, count: int, q: int) -> None:
    """Run passes of a stage until it has to wait for another one."""
    own = run[2, i]
    while own[_DONE] < 2 * q:
        ahead = own[_DONE] - own[_WARM]
        forward, m = True, own[_DONE]
        if ahead >= 2 * (q - own[_WARM]):
            forward, m = False, own[_DONE] - q
        elif ahead >= 0:
            forward, m = ahead % 2 == 1, ahead // 2
            if forward:
                m += own[_WARM]
        if m >= own[_CAME if forward else _BACK]:
            return
        own[_CLOCK] = max(own[_CLOCK], run[0 if forward else 1, i, m])
        own[_CLOCK] += own[_PHI if forward else _BETA]
        own[_DONE] += 1
        if forward and i + 1 == count:
            run[1, i, m], own[_BACK] = own[_CLOCK], m + 1
        elif forward:
            start = max(own[_CLOCK], own[_SEND])
            own[_SEND] = start + own[_OMEGA]
            run[0, i + 1, m], run[2, i + 1, _CAME] = start + own[_KAPPA], m + 1
        elif i > 0:
            before = run[2, i - 1]
            start = max(own[_CLOCK], own[_RETURN])
            own[_RETURN] = start + before[_OMEGA]
            run[1, i - 1, m], before[_BACK] = start + before[_KAPPA], m + 1
        if not forward and m >= own[_LATE] and m + 1 < q:
            own[_CLOCK] += own[_LATER]
