"""The closed form of several chunks a stage: the longest of some paths of events.

Derived for the checker alone, from the passes of every stage in their order. Symbols as
in MODEL.md, section 4: phi and beta of chunk c of stage i, kappa and omega.
"""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, NamedTuple

from hetopt.check.plan.schedule.orders import FORWARD, Position, in_groups

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hetopt.check.plan.schedule.times import ByChunk, Times


class _Stage(NamedTuple):
    """One stage: its passes in order, and the ways to it and from it.

    Attributes
    ----------
    ahead
        Forwards before its first backward.
    forwards, backwards
        Times of all its passes of a kind, in order.
    to_last, from_first
        From the start to its first forward of its last chunk, and from the end of its
        last gradient of that chunk to the end of the iteration, at least.
    turned, turning
        Until the first micro-batch comes back to it, and from the moment at which it
        has run the last micro-batch forward on its last chunk to the end.
    """

    ahead: int
    forwards: list[int]
    backwards: list[int]
    to_last: int
    from_first: int
    turned: int
    turning: int


def longest_path(times: Times) -> int:
    """Return T_A (MODEL.md, section 4) in nanoseconds."""
    p, v, q = len(times.sync), len(times.forward), times.microbatches
    kappa, _ = times.crossing
    to = _reached(times.forward, kappa, (0,) * p)
    left = _reached(times.backward, kappa, times.sync)
    last, stages = v - 1, []
    for i in range(p):
        behind = range(i + 1, p)
        over = sum(kappa[last][j - 1] for j in behind)
        down = sum(times.forward[last][j] for j in behind)
        up = sum(times.backward[last][j] for j in behind)
        ahead = 2 * (p - i - 1) + last * p + 1
        order = in_groups(Position(i, p, q, v, ahead))
        stages.append(
            _Stage(
                ahead=ahead,
                forwards=[times.forward[c][i] for k, c, _ in order if k == FORWARD],
                backwards=[times.backward[c][i] for k, c, _ in order if k != FORWARD],
                to_last=to[i, last],
                from_first=left[i, last],
                turned=to[p - 1, last] + times.forward[last][p - 1] + over + up,
                turning=down + over + times.backward[last][p - 1] + left[p - 1, last],
            )
        )
    ways = [*_of_stages(stages, last * p), *_of_boundaries(times, to, left, stages)]
    mean = sum(map(sum, (*times.forward, *times.backward))) / (p * v)
    if 2 * max(map(max, kappa)) > mean:
        ways += [*_between(times, stages), _round_trips(times, stages)]
    return max(ways)


def _reached(
    took: ByChunk, kappa: ByChunk, least: tuple[int, ...]
) -> dict[tuple[int, int], int]:
    """Return when the first pass of every stage and chunk can begin, at the earliest.

    Or, for gradients, counted backwards from the end: when the last one has to end.
    """
    p, found = len(least), dict[tuple[int, int], int]()
    for chunk, i in product(range(len(took)), range(p)):
        begins = [least[i]]
        visit = chunk * p + i - 1
        if visit >= 0:
            c, j = divmod(visit, p)
            begins.append(found[j, c] + took[c][j] + kappa[c][j])
        if chunk:
            begins.append(found[i, chunk - 1] + p * took[chunk - 1][i])
        found[i, chunk] = max(begins)
    return found


def _of_stages(stages: list[_Stage], skipped: int) -> Iterator[int]:
    """Yield paths through the passes of one stage.

    Parameters
    ----------
    skipped
        Passes of a kind that lie before the last chunk's first group.
    """
    for own in stages:
        n = len(own.forwards)
        begins = [(own.to_last, skipped), (own.turned, own.ahead)]
        ends = [(own.from_first, n - skipped)]
        if own.ahead < n:
            ends.append((own.turning, n - own.ahead))
        for (begin, first), (end, until) in product(begins, ends):
            yield begin + sum(own.forwards[first:]) + sum(own.backwards[:until]) + end


def _of_boundaries(
    times: Times,
    to: dict[tuple[int, int], int],
    left: dict[tuple[int, int], int],
    stages: list[_Stage],
) -> Iterator[int]:
    """Yield paths through all transfers of one boundary in one direction."""
    kappa, omega = times.crossing
    p, v, last = len(times.sync), len(times.forward), len(times.forward) - 1
    for i in range(p):
        below = (i + 1) % p
        used = range(v if below else last)
        waits = times.microbatches * sum(omega[c][i] for c in used)
        end = used[-1]
        yield (
            to[i, 0]
            + times.forward[0][i]
            + waits
            + (kappa[end][i] - omega[end][i])
            + times.forward[last][below]
            + stages[below].turning
        )
        yield (
            stages[below].turned
            + times.backward[last][below]
            + waits
            + (kappa[0][i] - omega[0][i])
            + times.backward[0][i]
            + left[i, 0]
        )
        if below:
            # Until the last gradient of the last chunk has crossed.
            others = (times.microbatches - p) * sum(omega[c][i] for c in range(last))
            yield (
                stages[below].turned
                + times.backward[last][below]
                + others
                + (times.microbatches - 1) * omega[last][i]
                + kappa[last][i]
                + times.backward[last][i]
                + left[i, last]
            )


def _between(times: Times, stages: list[_Stage]) -> Iterator[int]:
    """Yield paths that go to and fro between two stages, as often as they can."""
    kappa, _ = times.crossing
    p, v = len(stages), len(times.forward)
    chunk_of = [m for m in range(v) for _ in range(p)] * (times.microbatches // p)
    for i, upper in enumerate(stages):
        n = len(upper.forwards)
        if upper.ahead >= n:
            continue
        for k in range(i + 1, p):
            spent, at = 0, upper.ahead - 1
            every = 2 * (k - i) + 1
            while at + every < n:
                down = chunk_of[at]
                up = v - 1 - chunk_of[at + 1 - stages[k].ahead]
                spent += sum(times.forward[down][i : k + 1])
                spent += sum(times.backward[up][i : k + 1])
                spent += sum(kappa[down][i:k]) + sum(kappa[up][i:k])
                at += every
            ahead = upper.forwards[(v - 1) * p : upper.ahead - 1]
            rest = upper.forwards[at:]
            back = upper.backwards[at + 1 - upper.ahead : n - upper.ahead]
            yield upper.to_last + sum(ahead) + spent + sum(rest + back) + upper.turning


def _round_trips(times: Times, stages: list[_Stage]) -> int:
    """Return the path of one micro-batch of every other group, and what is between."""
    kappa, _ = times.crossing
    p, v = len(stages), len(times.forward)
    sent = [kappa[c][i] for c in range(v) for i in range(p)][:-1]
    trip = sum(map(sum, (*times.forward, *times.backward))) + 2 * sum(sent)
    rest, groups, spent = times.backward[0][0], times.microbatches // p, 0
    head = times.forward[-1][0]
    for group in range(0, groups, 2):
        spent += trip + (head + rest if group else 0)
    if groups % 2:
        return spent + (p - 1) * rest + times.sync[0]
    return spent + head + stages[0].turning
