"""Units in the interval program: P1, capacities and memory by position."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetopt.formulations.linear_program import combine, total

if TYPE_CHECKING:
    from hetopt.formulations.intervals.sets import Host, Room
    from hetopt.formulations.intervals.variables import IntervalVariables
    from hetopt.formulations.linear_program import Terms


def place_units(v: IntervalVariables) -> None:
    """P1: all body units lie on stages; if they are unlike, cuts say on which.

    ``sum_s units(s) = L`` if they are alike; otherwise one cut at each boundary, each
    behind the previous one.
    """
    sets, program = v.sets, v.program
    if sets.chain.is_uniform:
        program.equal("all_units", total(v.units.values()), sets.chain.length)
        return
    for r, columns in v.cut.items():
        program.equal(f"one_cut({r})", total(columns.values()), 1)
        for c in columns if r > 1 else ():
            behind = total(column for d, column in columns.items() if d <= c)
            before = total(column for d, column in v.cut[r - 1].items() if d < c)
            terms = combine([(1, before), (-1, behind)])
            program.row(f"in_order({r},{c})", terms, lower=0)


def hold_units(v: IntervalVariables) -> None:
    """Put units on the host of their stage, within its capacity.

    ``on(h,s) <= sum_f held(h,s,f) <= capacity(h,s) on(h,s)``, and the units of a host
    are at most those that its arc can hold. If capacity drops by ``drop`` once W
    reaches w: ``.. - drop (at_least(s,w) + on(h,s) - 1)``.
    """
    sets, program = v.sets, v.program
    for (host, stage), columns in v.held.items():
        name, on = f"({v.name(host)},{stage})", v.on[host, stage]
        held = total(columns.values())
        most = sets.rooms[host][stage].most
        program.row(f"least{name}", combine([(1, held), (-1, {on: 1})]), lower=0)
        drops: Terms = {}
        left = most
        for w, room in sets.tighter.get((host, stage), {}).items():
            drops[v.at_least[stage, w]] = left - max(0, room.most)
            left = max(0, room.most)
        limited = combine([(1, held), (1, drops), (-left, {on: 1})])
        program.row(f"most{name}", limited, upper=most - left)
    held_by: dict[Host, list[int]] = {host: [] for host in sets.hosts}
    for (host, _), columns in v.held.items():
        held_by[host] += columns.values()
    limit: dict[Host, Terms] = {host: {} for host in sets.hosts}
    for arc, most in sets.arcs.items():
        limit[arc.host][v.hosts[arc]] = most
    for host, held_columns in held_by.items():
        terms = combine([(1, total(held_columns)), (-1, limit[host])])
        program.row(f"most({v.name(host)})", terms, upper=0)


def follow_chain(v: IntervalVariables) -> None:
    """Make a stage hold the units between its cuts.

    ``sum_h held(h,s,f) = units(s)``, or ``prefix[cut after s][f] - prefix[cut before
    s][f]`` with unlike units.
    """
    for stage in range(v.sets.stages):
        for f in v.sets.chain.kinds:
            held = total(v.held[host, stage][f] for host in v.hosts_at(stage))
            name = f"units({stage},kind{f})"
            if v.sets.chain.is_uniform:
                units: Terms = {v.units[stage]: 1}
                v.program.equal(name, combine([(1, held), (-1, units)]), 0)
                continue
            after, before = _before(v, stage + 1, f), _before(v, stage, f)
            terms = combine([(1, held), (-1, after[0]), (1, before[0])])
            v.program.equal(name, terms, after[1] - before[1])


def _before(v: IntervalVariables, r: int, f: int) -> tuple[Terms, int]:
    """Return the units of kind f before boundary r: columns, and a number."""
    prefix = v.sets.chain.prefix
    if r in (0, v.sets.stages):
        return {}, int(prefix[0 if r == 0 else -1, f])
    return {column: int(prefix[c, f]) for c, column in v.cut[r].items()}, 0


def fit_memory(v: IntervalVariables) -> None:
    """Keep stages of unlike units within memory; capacities do so for alike ones.

    With ``used = sum_f unit_bytes[f] held(h,s,f)`` and ``holds(s,f)`` = 1 if a unit
    of kind f is present: ``used <= left[f]`` if it is, otherwise ``used <= max left``:
    ``used <= max_left on(h,s) - (max_left - left[f]) (holds(s,f) + on(h,s) - 1)``.
    A limit that holds only once W reaches w is relaxed by the most that ``used`` may
    exceed it by, times ``1 - at_least(s,w)``.
    """
    holds: dict[tuple[int, int], int] = {}
    for host, stage in v.held:
        rooms: list[tuple[int | None, Room]] = [(None, v.sets.rooms[host][stage])]
        rooms += v.sets.tighter.get((host, stage), {}).items()
        for w, room in rooms:
            if room.left:
                _fit(v, host, stage, w, room, holds)


def _fit(
    v: IntervalVariables,
    host: Host,
    stage: int,
    w: int | None,
    room: Room,
    holds: dict[tuple[int, int], int],
) -> None:
    most, usable = max(room.left.values()), v.sets.data.usable_bytes[host.cluster]
    for f, left in room.left.items():
        name = f"memory({v.name(host)},{stage},kind{f}"
        spare, give = most - left, 0
        terms: Terms = {
            column: room.unit_bytes[g] for g, column in v.held[host, stage].items()
        }
        terms[v.on[host, stage]] = -left
        if spare:
            if (stage, f) not in holds:
                holds[stage, f] = _holds(v, stage, f)
            terms[holds[stage, f]] = spare
        if w is not None:
            units = v.sets.rooms[host][stage].most
            give = max(0, units * max(room.unit_bytes.values()) - left)
            terms[v.at_least[stage, w]] = give
            name += f",at_least{w}"
        # 1 is the whole memory of the device.
        terms = {column: value / usable for column, value in terms.items()}
        v.program.row(f"{name})", terms, upper=(spare + give) / usable)


def _holds(v: IntervalVariables, stage: int, f: int) -> int:
    """Add a binary that is 1 if the stage has a unit of kind f."""
    column = v.program.column(f"holds({stage},kind{f})", upper=1, integer=True)
    held = total(v.held[host, stage][f] for host in v.hosts_at(stage))
    most = max(v.sets.rooms[host][stage].most for host in v.hosts_at(stage))
    most = min(most, v.sets.chain.body.count(f))
    terms = combine([(1, held), (-most, {column: 1})])
    v.program.row(f"holds({stage},kind{f})", terms, upper=0)
    return column
