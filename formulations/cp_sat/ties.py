"""The tie rule in the CP-SAT program, as numbers to minimise one after another."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetopt.formulations.cp_sat.terms import total, weighted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ortools.sat.python import cp_model

    from hetopt.formulations.cp_sat.terms import Expression
    from hetopt.formulations.cp_sat.variables import Variables

    #: An expression and its largest value; the smallest is 0.
    Digit = tuple[Expression, int]
    #: Literals by place in the pipeline, from 1, and cluster: the cluster is there.
    At = Mapping[tuple[int, int], cp_model.IntVar]


def tie_digits(v: Variables) -> list[Digit]:
    """Return the tie rule as digits, most significant first; adds their variables.

    Devices; the cluster at each place of the pipeline (counted from 1, 0 for none);
    the strategy and the stages at each place; units per stage.
    """
    sets = v.sets
    keys = list(v.hosts)
    devices = weighted(
        [v.hosts[key] for key in keys],
        [int(sets.table(j).devices[k]) for j, k in keys],
    )
    at = _places(v)
    places = range(1, len(sets.clusters) + 1)
    names = [total((j + 1) * at[place, j] for j in sets.clusters) for place in places]
    rank = {
        j: weighted(
            [v.takes[j, k] for k in sets.options[j]], range(len(sets.options[j]))
        )
        for j in sets.clusters
    }
    ranks = max(map(len, sets.options.values()), default=0)
    return [
        (devices, sum(sets.data.devices)),
        *((name, len(sets.data.names)) for name in names),
        *_by_place(v, at, "strategy", rank, ranks),
        *_by_place(v, at, "hosted", v.hosted, sets.stages),
        *_units(v),
    ]


def _places(v: Variables) -> At:
    """Return ``at[i, j]``: cluster j is the i-th of the pipeline."""
    model, clusters = v.model, v.sets.clusters
    places = range(1, len(clusters) + 1)
    place = {j: model.new_int_var(0, len(clusters), f"place[{j}]") for j in clusters}
    at = {(i, j): model.new_bool_var(f"at[{i},{j}]") for j in clusters for i in places}
    for j in clusters:
        model.add(place[j] == 1).only_enforce_if(v.first[j])
        model.add(place[j] == 0).only_enforce_if(~v.uses[j])
        model.add(place[j] == total(i * at[i, j] for i in places))
        model.add(total(at[i, j] for i in places) == v.uses[j])
    for (i, j), arc in v.follows.items():
        model.add(place[j] == place[i] + 1).only_enforce_if(arc)
    return at


def _by_place(
    v: Variables, at: At, name: str, amount: Mapping[int, Expression], most: int
) -> list[Digit]:
    """Return an amount of the cluster at every place; free if there is none."""
    digits: list[Digit] = []
    for place in range(1, len(v.sets.clusters) + 1):
        digit = v.model.new_int_var(0, most, f"{name}_at[{place}]")
        for j in v.sets.clusters:
            v.model.add(digit == amount[j]).only_enforce_if(at[place, j])
        digits.append((digit, most))
    return digits


def _units(v: Variables) -> list[Digit]:
    """Return body units of every stage by its position in the pipeline."""
    model, sets = v.model, v.sets
    start = {
        j: model.new_int_var(0, sets.stages, f"start_stage[{j}]") for j in sets.clusters
    }
    for j in sets.clusters:
        model.add(start[j] == 0).only_enforce_if(v.first[j])
    for (i, j), arc in v.follows.items():
        model.add(start[j] == start[i] + v.hosted[i]).only_enforce_if(arc)
    digits: list[Digit] = []
    for position in range(sets.stages):
        digit = model.new_int_var(0, sets.chain.length, f"units_at[{position}]")
        for j, r in v.slots:
            here, below, above = (model.new_bool_var("") for _ in range(3))
            model.add(start[j] == position - r).only_enforce_if(here)
            model.add(start[j] < position - r).only_enforce_if(below)
            model.add(start[j] > position - r).only_enforce_if(above)
            model.add_exactly_one([here, below, above])
            model.add(digit == total(v.units[j, r].values())).only_enforce_if(
                [here, v.live[j][r]]
            )
        digits.append((digit, sets.chain.length))
    return digits
