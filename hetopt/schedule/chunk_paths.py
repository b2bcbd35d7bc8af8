"""The closed form of stages of several chunks: a lower bound on their simulated time.

Every path through the graph of events is a bound. With phi and beta of chunk c of stage
i, kappa and omega of its transfer if it shares no link, v chunks, b = v - 1, and W_i
passes ahead, the paths here (MODEL.md, section 4) lead

- E_ic, from the start to the first pass of chunk c on stage i, and D_ic, from the end
  of its last gradient to the end of the iteration;
- or with the first micro-batch through the last stage and back to stage i (X_i), or
  with the last one down to the last stage and back (Y_i);
- between them through all passes of stage i, or all transfers of one boundary.

Where a boundary is slow, also to and fro over several boundaries, and with one
micro-batch of each group the whole way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hetopt.schedule.times import PipelineTimes

    Grid = list[list[int]]

#: Longer transfers than this share of a mean chunk are slow.
_SLOW = 0.5


class _Ways(NamedTuple):
    """Times of a pipeline, and of the ways through it to and from each chunk.

    Attributes
    ----------
    phi, beta, kappa, omega
        By stage (of transfers, the boundary after it) and chunk.
    reached, left
        E and D, by stage and chunk.
    first, last
        X and Y, by stage.
    """

    p: int
    v: int
    q: int
    phi: Grid
    beta: Grid
    kappa: Grid
    omega: Grid
    sync: list[int]
    reached: Grid
    left: Grid
    first: list[int]
    last: list[int]

    def ahead(self, i: int) -> int:
        """Return W of a stage."""
        return 1 + 2 * (self.p - 1 - i) + (self.v - 1) * self.p


def path_bound_ns(times: PipelineTimes) -> int:
    """Return T_A: no simulated time of several chunks is below it.

    Nor are the paths of ``hetopt.schedule.paths`` above it if no links are shared.
    """
    ways = _ways(times)
    found = max(*_through_stages(ways), *_through_boundaries(ways))
    chunks = ways.p * ways.v
    mean = sum(map(sum, (*ways.phi, *ways.beta))) / chunks
    if max(map(max, ways.kappa)) > _SLOW * mean:
        found = max(found, *_to_and_fro(ways), _trips(ways))
    return found


def _ways(times: PipelineTimes) -> _Ways:
    p, v = times.stages, times.periods // times.microbatches
    passes = [times.durations_ns(stage) for stage in range(p)]
    phi, beta = ([own[kind] for own in passes] for kind in range(2))
    kappa, omega = ([list(row) for row in each] for each in times.crossings_ns)
    sync, b = list(times.sync_ns), v - 1
    reached = _from_start(phi, kappa, [0] * p)
    left = _from_start(beta, kappa, sync)
    back = _sums([beta[j][b] + kappa[j - 1][b] for j in range(1, p)])
    down = _sums([phi[j][b] + kappa[j - 1][b] for j in range(1, p)])
    return _Ways(
        p=p,
        v=v,
        q=times.microbatches,
        phi=phi,
        beta=beta,
        kappa=kappa,
        omega=omega,
        sync=sync,
        reached=reached,
        left=left,
        first=[reached[-1][b] + phi[-1][b] + rest for rest in back],
        last=[rest + beta[-1][b] + left[-1][b] for rest in down],
    )


def _sums(steps: list[int]) -> list[int]:
    """Return for each stage the sum of the steps after it."""
    return [sum(steps[i:]) for i in range(len(steps) + 1)]


def _from_start(took: Grid, kappa: Grid, least: list[int]) -> Grid:
    """Return E of passes that take so long; of gradients, from the end, D."""
    p, v = len(took), len(took[0])
    found = [[least[i]] * v for i in range(p)]
    for c in range(v):
        for i in range(p):
            before = (i - 1, c) if i else (p - 1, c - 1)
            if c:
                found[i][c] = max(found[i][c], found[i][c - 1] + p * took[i][c - 1])
            if min(before) >= 0:
                j, d = before
                way = found[j][d] + took[j][d] + kappa[j][d]
                found[i][c] = max(found[i][c], way)
    return found


def _through_stages(ways: _Ways) -> Iterator[int]:
    p, v, q = ways.p, ways.v, ways.q
    for i, (phi, beta) in enumerate(zip(ways.phi, ways.beta, strict=True)):
        own = (q - p) * (sum(phi) + sum(beta)) + p * (phi[-1] + beta[-1])
        start, end = ways.reached[i][-1], ways.left[i][-1]
        yield start + own + end
        ahead, held = ways.ahead(i), [0] * v
        for number in range((v - 1) * p, min(ahead, q * v)):
            held[number // p % v] += 1
        forward, backward = (
            sum(n * each for n, each in zip(held, took, strict=True))
            for took in (phi, beta)
        )
        yield ways.first[i] + own - forward + end
        if ahead < q * v:
            yield start + own - backward + ways.last[i]
            yield ways.first[i] + own - forward - backward + ways.last[i]


def _through_boundaries(ways: _Ways) -> Iterator[int]:
    """Yield paths through all transfers of one boundary, activations or gradients."""
    p, v, q = ways.p, ways.v, ways.q
    for i in range(p):
        # The way back is that of all chunks but the last.
        k, over = (i + 1) % p, ways.omega[i][: v if i + 1 < p else v - 1]
        kappa = ways.kappa[i]
        forward = ways.reached[i][0] + ways.phi[i][0] + q * sum(over)
        forward += kappa[len(over) - 1] - over[-1] + ways.phi[k][-1] + ways.last[k]
        backward = ways.first[k] + ways.beta[k][-1] + q * sum(over)
        backward += kappa[0] - over[0] + ways.beta[i][0] + ways.left[i][0]
        yield forward
        yield backward
        if i + 1 < p:
            # Up to the last gradient of the last chunk.
            count = (q - p) * sum(over) + (p - 1) * over[-1]
            backward = ways.first[k] + ways.beta[k][-1] + count
            yield backward + kappa[-1] + ways.beta[i][-1] + ways.left[i][-1]


def _to_and_fro(ways: _Ways) -> Iterator[int]:
    """Yield paths that go to and fro between two stages, then through one of them."""
    p, v, b, n = ways.p, ways.v, ways.v - 1, ways.q * ways.v
    for i in range(p - 1):
        ahead = ways.ahead(i)
        if ahead >= n:
            continue
        forward = [ways.phi[i][number // p % v] for number in range(n)]
        backward = [ways.beta[i][b - number // p % v] for number in range(n)]
        begin = ways.reached[i][b] + sum(forward[b * p : ahead - 1])
        for k in range(i + 1, p):
            long, at, number = begin, ahead - 1, ways.ahead(k) - 1
            while at + 2 * (k - i) + 1 < n:
                c, d = at // p % v, b - (at - number) // p % v
                long += sum(
                    ways.phi[j][c] + ways.beta[j][d] for j in range(i, k + 1)
                ) + sum(ways.kappa[j][c] + ways.kappa[j][d] for j in range(i, k))
                at += 2 * (k - i) + 1
            long += sum(forward[at:]) + sum(backward[at - ahead + 1 : n - ahead])
            yield long + ways.last[i]


def _trips(ways: _Ways) -> int:
    """Return the path of every other group's micro-batch the whole way and back."""
    groups, inside = ways.q // ways.p, ways.kappa[:-1]
    trip = sum(map(sum, (*ways.phi, *ways.beta))) + 2 * sum(map(sum, inside))
    trip += 2 * sum(ways.kappa[-1][: ways.v - 1])
    trips, last, first = (groups + 1) // 2, ways.phi[0][-1], ways.beta[0][0]
    whole = trips * trip + (trips - 1) * (last + first)
    if groups % 2:
        return whole + (ways.p - 1) * first + ways.sync[0]
    return whole + last + ways.last[0]
