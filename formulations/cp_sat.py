"""The CP-SAT program of one (p, q): HetAuto's nested problem under P1-P4.

Symbols (MODEL.md): clusters j, strategies k of a cluster, slots r = 0, 1, ... for
the consecutive stages a cluster may host, unit kinds f, cut classes x, layouts a.

====================  =====================================================
``takes[j, k]``       cluster j uses strategy k (P4: at most one)
``uses[j]``           cluster j hosts stages
``live[j][r]``        cluster j hosts at least r + 1 stages (P3: consecutive)
``units[j][r][f]``    body units of kind f on slot r (P1: whole units, one or more)
``opens[j, k]``       cluster j hosts the first stage, with strategy k
``closes[j, k]``      cluster j hosts the last stage, with strategy k
``hops[a, b]``        a boundary from layout a to layout b of another cluster
``period``            lambda, in 1 / PERIOD_SCALE ticks
``lag[j][r]``         E of MODEL.md section 4, in 1 / PERIOD_SCALE ticks
====================  =====================================================

All coefficients are the table's integers. The only rounding is lambda's: it is a
ratio of integers, and the program rounds it up to a whole 1 / PERIOD_SCALE tick. A
program's optimum therefore exceeds the closed form of its plan by less than
``(q - 1) / PERIOD_SCALE`` ticks, and its bounds less that much are valid.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ortools.sat.python import cp_model

from hetopt.formulations.decision import Decision
from hetopt.formulations.program import PERIOD_SCALE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from hetopt.cost.table import ClusterTable
    from hetopt.formulations.program import ProgramData

#: Warm-ups a stage adds at a boundary inside and across clusters, where fixed.
_DELTAS = {"1f1b": (1, 1), "eager-1f1b": (2, 2), "virtual-1f1b": (1, 2)}
#: HAPT's epsilon (Eq. 2) is the inverse of this.
_FREE_TRANSFER = 100


class PipelineProgram:
    """Variables and constraints of one (p, q); building it solves nothing."""

    def __init__(self, data: ProgramData) -> None:
        self.data = data
        self.model = cp_model.CpModel()
        self.stages = data.stages
        self.microbatches = data.part.microbatches
        self.chain = data.chain
        self.steady = self.microbatches > 1
        self.period_max = min(
            data.cutoff // max(1, self.microbatches - 1),
            data.cutoff if data.period_max is None else data.period_max,
        )
        self._capacities()
        self._choose_strategies()
        self._order_clusters()
        self._count_stages()
        self._place_units()
        self._cross_boundaries()
        self._time_stages()
        if self.steady:
            self._bound_period()
        self.present: dict[tuple[int, int, int], cp_model.IntVar] = {}
        self.needs: dict[object, list[tuple[int, _Need]]] = {}
        self._fit_memory()
        self._synchronise()
        self._pin()
        self._minimise()

    # ------------------------------------------------------------------ sets

    def _capacities(self) -> None:
        """Largest number of body units a stage of (j, k) can hold within the cutoff.

        From lambda's upper bound and memory at one micro-batch in flight; a
        strategy that cannot hold one unit is not offered.
        """
        self.capacity: dict[tuple[int, int], int] = {}
        for j, cluster in enumerate(self.data.part.clusters):
            hosted = self.data.pins.of(self.data.names[j]).stages
            if not any(hosted.permits(m) for m in range(1, self.stages + 1)):
                continue
            for k in range(len(cluster.strategies)):
                capacity = self._capacity(j, k)
                if capacity >= 1 and min(cluster.max_stages[k], self.stages) >= 1:
                    self.capacity[j, k] = capacity
        self.clusters = sorted({j for j, _ in self.capacity})
        self.options = {
            j: [k for i, k in self.capacity if i == j] for j in self.clusters
        }
        self.slots = {
            j: min(
                self.stages,
                max(int(self._table(j).max_stages[k]) for k in self.options[j]),
            )
            for j in self.clusters
        }

    def _capacity(self, j: int, k: int) -> int:
        table = self._table(j)
        length = self.chain.length - (self.stages - 1)
        if self.steady:
            time = self.chain.shortest(self._tau(j, k)) * PERIOD_SCALE
            length = min(length, int((time <= self.period_max).sum()) - 1)
        warmup = self.microbatches if self.data.schedule == "gpipe" else 1
        return min(length, self._memory_capacity(table, k, warmup, self._room(j, k)))

    def _table(self, j: int) -> ClusterTable:
        return self.data.part.clusters[j]

    def _tau(self, j: int, k: int) -> NDArray[np.int64]:
        table = self._table(j)
        return table.forward_ns[k] + table.backward_ns[k]

    def _room(self, j: int, k: int) -> int:
        """Bytes left for units on one device of a stage of (j, k)."""
        return self.data.usable_bytes[j] - int(self._table(j).fixed_bytes[k])

    def _memory_capacity(
        self, table: ClusterTable, k: int, warmup: int, room: int
    ) -> int:
        """Most body units that may fit, over all places in the chain."""
        bytes_ = table.state_bytes[k] + warmup * table.activation_bytes[k]
        need = self.chain.shortest(bytes_)
        need[1:] += min(int(table.temporary_bytes[k][f]) for f in self.chain.kinds)
        return int((need <= room).sum()) - 1

    # ----------------------------------------------------- P2, P3, P4, order

    def _choose_strategies(self) -> None:
        """P4: a used cluster takes exactly one (d, c, t) and recomputation."""
        model = self.model
        self.uses = {j: model.new_bool_var(f"uses[{j}]") for j in self.clusters}
        self.takes = {
            (j, k): model.new_bool_var(f"takes[{j},{k}]") for j, k in self.capacity
        }
        self.opens = {
            (j, k): model.new_bool_var(f"opens[{j},{k}]") for j, k in self.capacity
        }
        self.closes = {
            (j, k): model.new_bool_var(f"closes[{j},{k}]") for j, k in self.capacity
        }
        self.first = {j: model.new_bool_var(f"first[{j}]") for j in self.clusters}
        self.last = {j: model.new_bool_var(f"last[{j}]") for j in self.clusters}
        for j in self.clusters:
            for whole, parts in (
                (self.uses[j], self.takes),
                (self.first[j], self.opens),
                (self.last[j], self.closes),
            ):
                model.add(sum(parts[j, k] for k in self.options[j]) == whole)
            for k in self.options[j]:
                model.add_implication(self.opens[j, k], self.takes[j, k])
                model.add_implication(self.closes[j, k], self.takes[j, k])
        model.add(sum(self.first.values()) == 1)
        model.add(sum(self.last.values()) == 1)

    def _order_clusters(self) -> None:
        """Eq. 12: the used clusters form one path, left to right."""
        model = self.model
        self.follows = {
            (i, j): model.new_bool_var(f"follows[{i},{j}]")
            for i in self.clusters
            for j in self.clusters
            if i != j
        }
        arcs = [(i + 1, j + 1, arc) for (i, j), arc in self.follows.items()]
        for j in self.clusters:
            arcs += [
                (0, j + 1, self.first[j]),
                (j + 1, 0, self.last[j]),
                (j + 1, j + 1, ~self.uses[j]),
            ]
        if arcs:
            model.add_circuit(arcs)
        else:
            model.add_bool_or([])

    def _count_stages(self) -> None:
        """P2, P3 and Eq. 4: consecutive slots, within the cluster's devices."""
        model = self.model
        self.live: dict[int, list[cp_model.IntVar]] = {}
        self.hosted: dict[int, cp_model.LinearExprT] = {}
        self.hosts: dict[tuple[int, int], cp_model.IntVar] = {}
        for j in self.clusters:
            live = [model.new_bool_var(f"live[{j},{r}]") for r in range(self.slots[j])]
            self.live[j] = live
            model.add(live[0] == self.uses[j])
            for before, after in zip(live, live[1:], strict=False):
                model.add_implication(after, before)
            self.hosted[j] = sum(live)
            for k in self.options[j]:
                most = min(self.stages, int(self._table(j).max_stages[k]))
                hosts = model.new_int_var(0, most, f"hosts[{j},{k}]")
                model.add(hosts <= most * self.takes[j, k])
                model.add(hosts >= self.takes[j, k])
                if most < self.slots[j]:
                    model.add_implication(self.takes[j, k], ~live[most])
                self.hosts[j, k] = hosts
            model.add(sum(self.hosts[j, k] for k in self.options[j]) == sum(live))
        model.add(sum(self.hosted.values()) == self.stages)

    # ------------------------------------------------------------- P1: units

    def _place_units(self) -> None:
        """P1: every body unit on one stage, in order; at least one per stage."""
        model, chain = self.model, self.chain
        uniform = chain.is_uniform
        self.units: dict[int, list[dict[int, cp_model.IntVar]]] = {}
        self.cut: dict[int, list[cp_model.IntVar]] = {}
        self.start: dict[int, cp_model.IntVar] = {}
        self.held: dict[tuple[int, int, int], cp_model.IntVar] = {}
        self.cut_class: dict[tuple[int, int, int], cp_model.IntVar] = {}
        for j in self.clusters:
            most = max(self.capacity[j, k] for k in self.options[j])
            start = model.new_int_var(0, chain.length, f"start[{j}]")
            self.start[j] = start
            self.units[j], self.cut[j] = [], []
            before = start
            for r, live in enumerate(self.live[j]):
                units = {
                    f: model.new_int_var(0, most, f"units[{j},{r},{f}]")
                    for f in chain.kinds
                }
                cut = model.new_int_var(0, chain.length, f"cut[{j},{r}]")
                total = sum(units.values())
                model.add(total >= live)
                model.add(total <= most * live)
                model.add(cut == before + total)
                for k in self.options[j]:
                    if self.capacity[j, k] < most:
                        model.add(total <= self.capacity[j, k]).only_enforce_if(
                            self.takes[j, k]
                        )
                if not uniform:
                    self._follow_chain(j, r, units, before, cut)
                self.units[j].append(units)
                self.cut[j].append(cut)
                before = cut
            model.add(start == 0).only_enforce_if(self.first[j])
            model.add(start == 0).only_enforce_if(~self.uses[j])
            model.add(before == chain.length).only_enforce_if(self.last[j])
            for f in chain.kinds:
                for k in self.options[j]:
                    limit = self.capacity[j, k]
                    held = model.new_int_var(0, chain.length, f"held[{j},{k},{f}]")
                    model.add(held <= limit * self.hosts[j, k])
                    self.held[j, k, f] = held
                model.add(
                    sum(self.held[j, k, f] for k in self.options[j])
                    == sum(units[f] for units in self.units[j])
                )
            for k in self.options[j]:
                total = sum(self.held[j, k, f] for f in chain.kinds)
                model.add(total >= self.hosts[j, k])
                model.add(total <= self.capacity[j, k] * self.hosts[j, k])
        for (i, j), arc in self.follows.items():
            model.add(self.start[j] == self.cut[i][-1]).only_enforce_if(arc)
        for f in chain.kinds:
            model.add(
                sum(held for (_, _, kind), held in self.held.items() if kind == f)
                == chain.body.count(f)
            )

    def _follow_chain(
        self,
        j: int,
        r: int,
        units: dict[int, cp_model.IntVar],
        before: cp_model.IntVar,
        cut: cp_model.IntVar,
    ) -> None:
        """Tie a slot's units of each kind to the chain between its two cuts."""
        model, chain = self.model, self.chain
        counts = {}
        for f in chain.kinds:
            column = [int(n) for n in chain.prefix[:, f]]
            for name, position in (("before", before), ("after", cut)):
                value = model.new_int_var(0, column[-1], f"{name}[{j},{r},{f}]")
                model.add_element(position, column, value)
                counts[name, f] = value
            model.add(units[f] == counts["after", f] - counts["before", f])

    def _class_at(self, j: int, r: int, x: int) -> cp_model.IntVar | None:
        """Literal: the cut after slot r is of class x; None when all cuts are."""
        if len(self.chain.cut_classes) <= 1:
            return None
        key = (j, r, x)
        if key not in self.cut_class:
            literal = self.model.new_bool_var(f"class[{j},{r},{x}]")
            # No boundary lies at the ends of the body: any class will do there.
            column = [0, *(int(cut == x) for cut in self.chain.cuts), 0]
            self.model.add_element(self.cut[j][r], column, literal)
            self.cut_class[key] = literal
        return self.cut_class[key]

    # ------------------------------------------------------------ boundaries

    def _cross_boundaries(self) -> None:
        """Kappa and omega of boundaries across clusters, by both layouts."""
        model, part = self.model, self.data.part
        flow_in: dict[int, list[cp_model.IntVar]] = {}
        flow_out: dict[int, list[cp_model.IntVar]] = {}
        arcs: dict[tuple[int, int], list[cp_model.IntVar]] = {
            pair: [] for pair in self.follows
        }
        layouts = {
            j: sorted({int(self._table(j).layout[k]) for k in self.options[j]})
            for j in self.clusters
        }
        self.hops: dict[tuple[int, int], cp_model.IntVar] = {}
        #: kappa and omega into cluster j from the cluster before it, 0 if first.
        longest = int(part.transfer_ns.max(initial=0))
        self.kappa_in = {
            j: model.new_int_var(0, longest, f"kappa_in[{j}]") for j in self.clusters
        }
        for i, j in self.follows:
            for a in layouts[i]:
                for b in layouts[j]:
                    hop = model.new_bool_var(f"hops[{a},{b}]")
                    self.hops[a, b] = hop
                    arcs[i, j].append(hop)
                    flow_out.setdefault(a, []).append(hop)
                    flow_in.setdefault(b, []).append(hop)
        for pair, hops in arcs.items():
            model.add(sum(hops) == self.follows[pair])
        for j in self.clusters:
            for a in layouts[j]:
                of = [k for k in self.options[j] if self._table(j).layout[k] == a]
                taken = sum(self.takes[j, k] for k in of)
                opened = sum(self.opens[j, k] for k in of)
                closed = sum(self.closes[j, k] for k in of)
                model.add(sum(flow_in.get(a, [])) == taken - opened)
                model.add(sum(flow_out.get(a, [])) == taken - closed)
        self._price_hops()

    def _price_hops(self) -> None:
        model, part = self.model, self.data.part
        classes = self.chain.cut_classes
        for j in self.clusters:
            into = {
                (i, a, b): hop
                for (a, b), hop in self.hops.items()
                for i in [part.layouts[a].cluster]
                if part.layouts[b].cluster == j
            }
            if len(classes) <= 1:
                x = classes[0] if classes else 0
                model.add(
                    self.kappa_in[j]
                    == sum(
                        int(part.transfer_ns[x, a, b]) * hop
                        for (_, a, b), hop in into.items()
                    )
                )
                continue
            model.add(self.kappa_in[j] == 0).only_enforce_if(self.first[j])
            for (i, a, b), hop in into.items():
                for x in classes:
                    literals = [hop, self._class_at(i, self.slots[i] - 1, x)]
                    model.add(
                        self.kappa_in[j] == int(part.transfer_ns[x, a, b])
                    ).only_enforce_if(literals)

    # ----------------------------------------------------------- stage times

    def _time_stages(self) -> None:
        """tau, phi, beta of every slot and kappa of every boundary inside."""
        self.tau: dict[tuple[int, int], cp_model.IntVar] = {}
        self.kappa: dict[tuple[int, int], cp_model.LinearExprT] = {}
        gpipe = self.data.schedule == "gpipe"
        if self.steady and not gpipe:
            self.tau = self._slot_times("tau", self._tau)
        for j in self.clusters:
            for r in range(self.slots[j] - 1):
                self.kappa[j, r] = self._inner_kappa(j, r)

    def _ends_slot(self, j: int, r: int) -> list[cp_model.IntVar]:
        """Literals that say: slot r is the last of cluster j."""
        after = self.live[j][r + 1 : r + 2]
        return [self.live[j][r], *(~literal for literal in after)]

    def _slot_times(
        self, name: str, cost: Callable[[int, int], NDArray[np.int64]]
    ) -> dict[tuple[int, int], cp_model.IntVar]:
        """One time per slot: the cost of its units, ends included; 0 if not live."""
        model, chain = self.model, self.chain
        bound = self.period_max // PERIOD_SCALE
        times = {}
        for j in self.clusters:
            costs = {k: [int(value) for value in cost(j, k)] for k in self.options[j]}
            for r, units in enumerate(self.units[j]):
                time = model.new_int_var(0, bound, f"{name}[{j},{r}]")
                times[j, r] = time
                ends = []
                if r == 0:
                    ends.append((self.opens, [], chain.lead))
                ends.append((self.closes, self._ends_slot(j, r), chain.trail))
                for k, per_unit in costs.items():
                    body = sum(per_unit[f] * units[f] for f in chain.kinds)
                    model.add(time >= body).only_enforce_if(self.takes[j, k])
                    for role, where, counts in ends:
                        extra = _dot(counts, per_unit)
                        if extra:
                            model.add(time >= body + extra).only_enforce_if(
                                [role[j, k], *where]
                            )
                    if self.stages == 1:
                        extra = _dot(chain.lead, per_unit) + _dot(chain.trail, per_unit)
                        model.add(time >= body + extra).only_enforce_if(
                            self.takes[j, k]
                        )
                if self.data.schedule == "h-1f1b":
                    self._exact_time(j, r, time, costs)
        return times

    def _exact_time(
        self,
        j: int,
        r: int,
        time: cp_model.IntVar,
        costs: dict[int, list[int]],
    ) -> None:
        """h-1f1b needs tau itself: both a larger and a smaller one move W."""
        model, chain = self.model, self.chain
        first = self.first[j] if r == 0 else None
        ends = self._ends_slot(j, r)
        is_end = model.new_bool_var(f"is_end[{j},{r}]")
        model.add_bool_and([*ends, self.last[j]]).only_enforce_if(is_end)
        model.add_bool_or([is_end, *(~literal for literal in ends), ~self.last[j]])
        for k, per_unit in costs.items():
            body = sum(per_unit[f] * self.units[j][r][f] for f in chain.kinds)
            lead, trail = _dot(chain.lead, per_unit), _dot(chain.trail, per_unit)
            total = body + trail * is_end
            if first is not None:
                total = total + lead * first
            model.add(time == total).only_enforce_if(
                [self.takes[j, k], self.live[j][r]]
            )
        model.add(time == 0).only_enforce_if(~self.live[j][r])

    def _inner_kappa(self, j: int, r: int) -> cp_model.LinearExprT:
        """Kappa of the boundary after slot r, when slot r + 1 is live; else 0."""
        model, part = self.model, self.data.part
        classes = self.chain.cut_classes
        layout = self._table(j).layout
        values = {
            (k, x): int(part.transfer_ns[x, layout[k], layout[k]])
            for k in self.options[j]
            for x in classes
        }
        kappa = model.new_int_var(0, max(values.values(), default=0), f"kappa[{j},{r}]")
        after = self.live[j][r + 1]
        model.add(kappa == 0).only_enforce_if(~after)
        for (k, x), value in values.items():
            literals = [self.takes[j, k], after]
            is_class = self._class_at(j, r, x)
            if is_class is not None:
                literals.append(is_class)
            model.add(kappa == value).only_enforce_if(literals)
        return kappa

    # ---------------------------------------------------------------- period

    def _bound_period(self) -> None:
        """lambda: at least every omega, and E <= lambda on every slot."""
        data, model = self.data, self.model
        self.period = model.new_int_var(
            min(data.period_min, self.period_max), self.period_max, "period"
        )
        if data.schedule == "gpipe":
            self._bound_gpipe()
        else:
            self._bound_occupancy(self.period, PERIOD_SCALE)
            self._count_deltas()
            self._bound_lags()
        self._cut_device_time()

    def _bound_gpipe(self) -> None:
        """All forwards, then all backwards: their two paces add up."""
        model = self.model
        paces = []
        for name in ("forward_ns", "backward_ns"):
            pace = model.new_int_var(0, self.period_max // PERIOD_SCALE, f"pace_{name}")
            times = self._slot_times(
                name, lambda j, k, name=name: getattr(self._table(j), name)[k]
            )
            for time in times.values():
                model.add(pace >= time)
            self._bound_occupancy(pace, 1)
            paces.append(pace)
        model.add(self.period == PERIOD_SCALE * sum(paces))

    def _bound_occupancy(self, pace: cp_model.IntVar, scale: int) -> None:
        """No boundary passes micro-batches faster than its slowest step."""
        model, part = self.model, self.data.part
        classes = self.chain.cut_classes
        for (a, b), hop in self.hops.items():
            i = part.layouts[a].cluster
            for x in classes:
                is_class = self._class_at(i, self.slots[i] - 1, x)
                model.add(
                    pace >= scale * int(part.occupancy_ns[x, a, b])
                ).only_enforce_if([hop] if is_class is None else [hop, is_class])
        for j, k in self.capacity:
            a = self._table(j).layout[k]
            for x in classes:
                omega = scale * int(part.occupancy_ns[x, a, a])
                if len(classes) == 1:
                    if self.slots[j] > 1:
                        model.add(pace >= omega).only_enforce_if(
                            [self.takes[j, k], self.live[j][1]]
                        )
                    continue
                for r in range(self.slots[j] - 1):
                    model.add(pace >= omega).only_enforce_if(
                        [
                            self.takes[j, k],
                            self.live[j][r + 1],
                            self._class_at(j, r, x),
                        ]
                    )

    def _count_deltas(self) -> None:
        """Delta of every boundary: a number, or under h-1f1b three literals."""
        self.delta_inner: dict[tuple[int, int], _Delta] = {}
        self.delta_in: dict[int, _Delta] = {}
        fixed = _DELTAS.get(self.data.schedule)
        if fixed is not None:
            inner, across = fixed
            self.delta_inner = {key: _Delta.fixed(inner) for key in self.kappa}
            self.delta_in = {j: _Delta.fixed(across) for j in self.clusters}
            return
        model = self.model
        longest = model.new_int_var(
            0, max(self.period_max // PERIOD_SCALE, 1) * 4, "longest"
        )
        model.add_max_equality(
            longest,
            [*self.tau.values(), *self.kappa.values(), *self.kappa_in.values()],
        )
        self.delta_inner = {
            key: self._adaptive_delta(kappa, longest)
            for key, kappa in self.kappa.items()
        }
        self.delta_in = {
            j: self._adaptive_delta(kappa, longest)
            for j, kappa in self.kappa_in.items()
        }

    def _adaptive_delta(
        self, kappa: cp_model.LinearExprT, longest: cp_model.IntVar
    ) -> _Delta:
        """HAPT Eq. 2 with lambda_0 = max(max tau, max kappa): 1, 2 or 3."""
        model = self.model
        literals = []
        for factor in (_FREE_TRANSFER, 2):
            within = model.new_bool_var("")
            model.add(factor * kappa <= longest).only_enforce_if(within)
            model.add(factor * kappa > longest).only_enforce_if(~within)
            literals.append(within)
        free, half = literals
        model.add_implication(free, half)
        two = model.new_bool_var("")
        model.add_bool_and([~free, half]).only_enforce_if(two)
        model.add_bool_or([free, ~half, two])
        return _Delta(cases=((1, [free]), (2, [two]), (3, [~half])))

    def _bound_lags(self) -> None:
        """MODEL.md section 4: E_(k+1) = tau + max(0, E_k + 2 kappa - delta lambda)."""
        model = self.model
        self.lag: dict[tuple[int, int], cp_model.IntVar] = {}
        inherited = {}
        for j in self.clusters:
            inherited[j] = model.new_int_var(0, self.period_max, f"inherited[{j}]")
            for r, live in enumerate(self.live[j]):
                lag = model.new_int_var(0, self.period_max, f"lag[{j},{r}]")
                self.lag[j, r] = lag
                tau = PERIOD_SCALE * self.tau[j, r]
                model.add(lag <= self.period)
                if r == 0:
                    model.add(lag >= tau + inherited[j])
                    continue
                model.add(lag >= tau)
                before = self.lag[j, r - 1] + 2 * PERIOD_SCALE * self.kappa[j, r - 1]
                for delta, literals in self.delta_inner[j, r - 1].cases:
                    model.add(
                        lag >= tau + before - delta * self.period
                    ).only_enforce_if([live, *literals])
        for (i, j), arc in self.follows.items():
            for delta, literals in self.delta_in[j].cases:
                for r in range(self.slots[i]):
                    model.add(
                        inherited[j]
                        >= self.lag[i, r]
                        + 2 * PERIOD_SCALE * self.kappa_in[j]
                        - delta * self.period
                    ).only_enforce_if([arc, *self._ends_slot(i, r), *literals])

    def _cut_device_time(self) -> None:
        """Valid: a cluster cannot give more device time than devices * lambda.

        Also for a whole cluster's window: its stages and the boundaries between
        them fit into the period times the window's shift.
        """
        model, data = self.model, self.data
        fixed = _DELTAS.get(data.schedule)
        for j in self.clusters:
            table = self._table(j)
            work = []
            for k in self.options[j]:
                tau = self._tau(j, k)
                devices = int(table.devices[k])
                held = sum(int(tau[f]) * self.held[j, k, f] for f in self.chain.kinds)
                ends = (
                    _dot(self.chain.lead, tau) * self.opens[j, k]
                    + _dot(self.chain.trail, tau) * self.closes[j, k]
                )
                work.append(devices * (held + ends))
                if fixed is not None and self.chain.is_uniform:
                    self._cut_window(j, k, held + ends, fixed[0])
            model.add(PERIOD_SCALE * sum(work) <= data.devices[j] * self.period)

    def _cut_window(
        self, j: int, k: int, work: cp_model.LinearExprT, delta: int
    ) -> None:
        """All stages of (j, k) are one window; lambda at most its upper bound."""
        classes = self.chain.cut_classes
        if not classes:
            return
        part = self.data.part
        a = self._table(j).layout[k]
        kappa = int(part.transfer_ns[classes[0], a, a])
        hosts, takes = self.hosts[j, k], self.takes[j, k]
        self.model.add(
            PERIOD_SCALE * (work + 2 * kappa * (hosts - takes))
            <= self.period_max * (delta * hosts - (delta - 1) * takes)
        )

    # ---------------------------------------------------------------- memory

    def _fit_memory(self) -> None:
        """Eq. 7 by stage position: W micro-batches in flight on every slot."""
        if self.data.schedule == "gpipe" or not self.steady:
            most = self.microbatches
            for j in self.clusters:
                for r in range(self.slots[j]):
                    self._fit_slot(j, r, {most: None})
            return
        self._count_warmups()
        for j in self.clusters:
            for r in range(self.slots[j]):
                self._fit_slot(j, r, self._warmup_literals(j, r))

    def _count_warmups(self) -> None:
        """W of every slot: 1 on the last stage, delta more at every boundary."""
        model = self.model
        most = 3 * self.stages
        self.warmup: dict[tuple[int, int], cp_model.LinearExprT] = {}
        last_warmup = {
            j: model.new_int_var(1, most, f"warmup_end[{j}]") for j in self.clusters
        }
        fixed = _DELTAS.get(self.data.schedule)
        for j in self.clusters:
            model.add(last_warmup[j] == 1).only_enforce_if(self.last[j])
            for r in range(self.slots[j]):
                if fixed is not None:
                    after = self.hosted[j] - 1 - r
                    self.warmup[j, r] = last_warmup[j] + fixed[0] * after
                    continue
                warmup = model.new_int_var(1, most, f"warmup[{j},{r}]")
                self.warmup[j, r] = warmup
                model.add(warmup == last_warmup[j]).only_enforce_if(
                    self._ends_slot(j, r)
                )
            if fixed is None:
                for r in range(self.slots[j] - 1):
                    for delta, literals in self.delta_inner[j, r].cases:
                        model.add(
                            self.warmup[j, r] == self.warmup[j, r + 1] + delta
                        ).only_enforce_if([self.live[j][r + 1], *literals])
        for (i, j), arc in self.follows.items():
            for delta, literals in self.delta_in[j].cases:
                model.add(last_warmup[i] == self.warmup[j, 0] + delta).only_enforce_if(
                    [arc, *literals]
                )

    def _warmup_literals(self, j: int, r: int) -> _AtLeast:
        return _AtLeast(self.model, self.warmup[j, r], f"warmup[{j},{r}]")

    def _fit_slot(self, j: int, r: int, at_least: dict[int, None] | _AtLeast) -> None:
        """One slot's memory for each strategy, each warm-up count that matters."""
        chain = self.chain
        none = (0,) * len(chain.lead)
        final = {self.microbatches if self.data.schedule == "gpipe" else 1: None}
        for k in self.options[j]:
            if self.stages == 1:
                both = tuple(
                    a + b for a, b in zip(chain.lead, chain.trail, strict=True)
                )
                self._fit(j, k, r, at_least, both, [self.takes[j, k]])
                continue
            self._fit(j, k, r, at_least, none, [self.takes[j, k], self.live[j][r]])
            if r == 0:
                self._fit(j, k, r, at_least, chain.lead, [self.opens[j, k]])
            where = [self.closes[j, k], *self._ends_slot(j, r)]
            self._fit(j, k, r, final, chain.trail, where)

    def _fit(
        self,
        j: int,
        k: int,
        r: int,
        at_least: dict[int, None] | _AtLeast,
        ends: tuple[int, ...],
        where: list[cp_model.IntVar],
    ) -> None:
        """Memory of slot r under k with these end units, for every W it may have."""
        for warmup, need in self._needs(j, k, ends, at_least):
            literal = at_least[warmup]
            literals = where if literal is None else [*where, literal]
            units = self.units[j][r]
            if need.most is not None:
                if need.most < 1:
                    self.model.add_bool_or([~one for one in literals])
                else:
                    (count,) = units.values()
                    self.model.add(count <= need.most).only_enforce_if(literals)
                continue
            used = sum(need.unit_bytes[f] * units[f] for f in units)
            most = max(need.left.values())
            self.model.add(used <= most).only_enforce_if(literals)
            for f, left in need.left.items():
                if left < most:
                    self.model.add(used <= left).only_enforce_if(
                        [*literals, self._holds(j, r, f)]
                    )

    def _needs(
        self,
        j: int,
        k: int,
        ends: tuple[int, ...],
        at_least: dict[int, None] | _AtLeast,
    ) -> list[tuple[int, _Need]]:
        """Warm-up counts from which on memory binds harder, with what then fits."""
        warmups = (
            list(at_least)
            if isinstance(at_least, dict)
            else list(range(1, min(self.microbatches, 3 * self.stages) + 1))
        )
        key = (j, k, ends, warmups[0], warmups[-1])
        if key not in self.needs:
            self.needs[key] = [
                (warmup, need)
                for warmup in warmups
                for need in [self._need(j, k, ends, warmup)]
                if need is not None
            ]
            if self.chain.is_uniform:
                self.needs[key] = _where_falling(self.needs[key])
        return self.needs[key]

    def _need(self, j: int, k: int, ends: tuple[int, ...], warmup: int) -> _Need | None:
        """What fits beside the end units at this W; None if everything does."""
        table, kinds = self._table(j), self.chain.kinds
        bytes_ = [
            int(state) + warmup * int(activation)
            for state, activation in zip(
                table.state_bytes[k], table.activation_bytes[k], strict=True
            )
        ]
        temporary = [int(value) for value in table.temporary_bytes[k]]
        room = self._room(j, k) - _dot(ends, bytes_)
        at_ends = max((temporary[f] for f, n in enumerate(ends) if n), default=0)
        left = {f: room - max(at_ends, temporary[f]) for f in kinds}
        capacity = self.capacity[j, k]
        if capacity * max(bytes_[f] for f in kinds) <= min(left.values()):
            return None
        if len(kinds) == 1:
            (f,) = kinds
            return _Need(most=left[f] // bytes_[f] if bytes_[f] else 0)
        return _Need(left=left, unit_bytes={f: bytes_[f] for f in kinds})

    def _holds(self, j: int, r: int, f: int) -> cp_model.IntVar:
        """Literal: slot r holds at least one unit of kind f."""
        model = self.model
        key = (j, r, f)
        if key not in self.present:
            literal = model.new_bool_var(f"holds[{j},{r},{f}]")
            model.add(self.units[j][r][f] == 0).only_enforce_if(~literal)
            self.present[key] = literal
        return self.present[key]

    # ------------------------------------------------- synchronisation, pins

    def _synchronise(self) -> None:
        """Max g: what gradient synchronisation and the optimizer add at the end."""
        model, part = self.model, self.data.part
        self.sync = model.new_int_var(0, self.data.cutoff // PERIOD_SCALE, "sync")
        tied = self._tied_time()
        for j, k in self.capacity:
            table = self._table(j)
            base = int(table.sync_ns[k])
            unit = [int(value) for value in table.sync_unit_ns[k]]
            for r, units in enumerate(self.units[j]):
                body = base + sum(unit[f] * units[f] for f in self.chain.kinds)
                takes = self.takes[j, k]
                if self.stages == 1:
                    ends = _dot(self.chain.lead, unit) + _dot(self.chain.trail, unit)
                    model.add(self.sync >= body + ends).only_enforce_if(takes)
                    continue
                model.add(self.sync >= body).only_enforce_if(takes)
                if r == 0:
                    model.add(
                        self.sync >= body + _dot(self.chain.lead, unit) + tied
                    ).only_enforce_if(self.opens[j, k])
                model.add(
                    self.sync >= body + _dot(self.chain.trail, unit) + tied
                ).only_enforce_if([self.closes[j, k], *self._ends_slot(j, r)])

    def _tied_time(self) -> cp_model.LinearExprT:
        """Time to add up a tied embedding's gradients on first and last stage."""
        part, model = self.data.part, self.model
        if part.tied_ns is None or self.stages == 1:
            return 0
        tied = model.new_int_var(0, int(part.tied_ns.max(initial=0)), "tied")
        for (i, k), opens in self.opens.items():
            for (j, l), closes in self.closes.items():
                a, b = self._table(i).layout[k], self._table(j).layout[l]
                model.add(tied >= int(part.tied_ns[a, b])).only_enforce_if(
                    [opens, closes]
                )
        return tied

    def _pin(self) -> None:
        """The user's pins on order, stages and units."""
        model, data = self.model, self.data
        pins = data.pins
        index = {name: j for j, name in enumerate(data.names)}
        for before, after in sorted(pins.forbidden_next):
            arc = self.follows.get((index[before], index[after]))
            if arc is not None:
                model.add(arc == 0)
        if pins.order is not None:
            self._pin_order([index[name] for name in pins.order])
        for j, name in enumerate(data.names):
            self._pin_cluster(j, name)
        if pins.units is not None:
            self._pin_units(pins.units)

    def _pin_order(self, order: list[int]) -> None:
        model = self.model
        if any(j not in self.uses for j in order):
            model.add_bool_or([])
            return
        for j in self.clusters:
            model.add(self.uses[j] == (j in order))
        model.add(self.first[order[0]] == 1)
        for i, j in zip(order, order[1:], strict=False):
            model.add(self.follows[i, j] == 1)

    def _pin_cluster(self, j: int, name: str) -> None:
        model = self.model
        pins = self.data.pins.of(name)
        if j not in self.uses:
            if not (pins.stages.permits(0) and pins.units.permits(0)):
                model.add_bool_or([])
            return
        chain = self.chain
        total = (
            sum(sum(units.values()) for units in self.units[j])
            + sum(chain.lead) * self.first[j]
            + sum(chain.trail) * self.last[j]
        )
        length = chain.length + sum(chain.lead) + sum(chain.trail)
        for domain, amount, most in (
            (pins.stages, self.hosted[j], self.slots[j]),
            (pins.units, total, length),
        ):
            permitted = [value for value in range(most + 1) if domain.permits(value)]
            if len(permitted) <= most:
                model.add_linear_expression_in_domain(
                    amount, cp_model.Domain.from_values(permitted)
                )

    def _pin_units(self, pinned: tuple[int, ...]) -> None:
        """Units per stage are given, so every cut is."""
        model, chain = self.model, self.chain
        if len(pinned) != self.stages:
            model.add_bool_or([])
            return
        body = list(pinned)
        body[0] -= sum(chain.lead)
        body[-1] -= sum(chain.trail)
        cuts = [sum(body[: i + 1]) for i in range(len(body))]
        starts = cp_model.Domain.from_values([0, *cuts])
        for j in self.clusters:
            model.add_linear_expression_in_domain(self.start[j], starts)
            before: cp_model.IntVar = self.start[j]
            for r, cut in enumerate(self.cut[j]):
                # The next pinned cut after the one before, when the slot is live.
                steps = [(0, cuts[0]), *zip(cuts, cuts[1:], strict=False)]
                literals = []
                for low, high in steps:
                    step = model.new_bool_var("")
                    model.add(before == low).only_enforce_if(step)
                    model.add(cut == high).only_enforce_if(step)
                    literals.append(step)
                model.add(sum(literals) == self.live[j][r])
                before = cut

    # ------------------------------------------------------------- objective

    def _minimise(self) -> None:
        """Closed form: sum (tau + 2 kappa) + (q - 1) lambda + max g."""
        model, chain = self.model, self.chain
        fill: list[cp_model.LinearExprT] = []
        for j, k in self.capacity:
            tau = self._tau(j, k)
            fill += [int(tau[f]) * self.held[j, k, f] for f in chain.kinds]
            fill.append(_dot(chain.lead, tau) * self.opens[j, k])
            fill.append(_dot(chain.trail, tau) * self.closes[j, k])
        fill += [2 * kappa for kappa in self.kappa_in.values()]
        fill += self._inner_fill()
        self.objective = PERIOD_SCALE * (sum(fill) + self.sync)
        if self.steady:
            self.objective = self.objective + (self.microbatches - 1) * self.period
        model.add(self.objective <= self.data.cutoff)
        if self.data.objective_min:
            model.add(self.objective >= self.data.objective_min)
        model.minimize(self.objective)

    def _inner_fill(self) -> Iterable[cp_model.LinearExprT]:
        """Both ways across every boundary inside clusters."""
        if not self.chain.is_uniform:
            return [2 * kappa for kappa in self.kappa.values()]
        classes, part = self.chain.cut_classes, self.data.part
        terms = []
        for j, k in self.capacity:
            if classes:
                a = self._table(j).layout[k]
                kappa = int(part.transfer_ns[classes[0], a, a])
                terms.append(2 * kappa * (self.hosts[j, k] - self.takes[j, k]))
        return terms

    # ----------------------------------------------------------- in and out

    def exclude(self, decision: Decision) -> None:
        """Rule out every plan of the same shape as ``decision``."""
        model = self.model
        literals = []
        order = decision.order
        literals.append(self.first[order[0]])
        literals += [self.follows[i, j] for i, j in zip(order, order[1:], strict=False)]
        literals.append(self.last[order[-1]])
        for j, strategy, hosted in zip(
            order, decision.strategies, decision.hosted, strict=True
        ):
            k = self._table(j).strategies.index(strategy)
            literals.append(self.takes[j, k])
            literals.append(self.live[j][hosted - 1])
            literals += [~literal for literal in self.live[j][hosted : hosted + 1]]
        model.add_bool_or([~literal for literal in literals])

    def extract(self, value: Callable[[cp_model.LinearExprT], int]) -> Decision:
        """Read the decision off a solution.

        Parameters
        ----------
        value
            The value a solution gives an expression.
        """
        order = [j for j in self.clusters if value(self.first[j])]
        while not value(self.last[order[-1]]):
            order.append(
                next(
                    j
                    for (i, j), arc in self.follows.items()
                    if i == order[-1] and value(arc)
                )
            )
        strategies, hosted, units = [], [], []
        for j in order:
            k = next(k for k in self.options[j] if value(self.takes[j, k]))
            strategies.append(self._table(j).strategies[k])
            hosted.append(sum(value(live) for live in self.live[j]))
            units += [
                sum(value(count) for count in slot.values())
                for slot in self.units[j][: hosted[-1]]
            ]
        units[0] += sum(self.chain.lead)
        units[-1] += sum(self.chain.trail)
        return Decision(
            microbatches=self.microbatches,
            order=tuple(order),
            strategies=tuple(strategies),
            hosted=tuple(hosted),
            units=tuple(units),
        )

    def tie_digits(self) -> list[tuple[cp_model.LinearExprT, int]]:
        """The tie rule as digits, most significant first, each with its largest value.

        Devices; the cluster at each place of the pipeline (counted from 1, 0 for
        none); the strategy and the stages at each place; units per stage.
        """
        model = self.model
        devices = sum(
            int(self._table(j).devices[k]) * hosts
            for (j, k), hosts in self.hosts.items()
        )
        digits = [(devices, sum(self.data.devices))]
        most = len(self.clusters)
        place = {j: model.new_int_var(0, most, f"place[{j}]") for j in self.clusters}
        at = {}
        for j in self.clusters:
            model.add(place[j] == 1).only_enforce_if(self.first[j])
            model.add(place[j] == 0).only_enforce_if(~self.uses[j])
            for i in range(1, most + 1):
                at[i, j] = model.new_bool_var(f"at[{i},{j}]")
            model.add(place[j] == sum(i * at[i, j] for i in range(1, most + 1)))
            model.add(sum(at[i, j] for i in range(1, most + 1)) == self.uses[j])
        for (i, j), arc in self.follows.items():
            model.add(place[j] == place[i] + 1).only_enforce_if(arc)
        places = range(1, most + 1)
        for i in places:
            digits.append(
                (sum((j + 1) * at[i, j] for j in self.clusters), len(self.data.names))
            )
        for name, amount, top in (
            ("strategy", self._strategy_rank(), max(map(len, self.options.values()))),
            ("hosted", self.hosted, self.stages),
        ):
            for i in places:
                digit = model.new_int_var(0, top, f"{name}_at[{i}]")
                for j in self.clusters:
                    model.add(digit == amount[j]).only_enforce_if(at[i, j])
                digits.append((digit, top))
        digits += self._unit_digits()
        return digits

    def _strategy_rank(self) -> dict[int, cp_model.LinearExprT]:
        return {
            j: sum(rank * self.takes[j, k] for rank, k in enumerate(self.options[j]))
            for j in self.clusters
        }

    def _unit_digits(self) -> list[tuple[cp_model.LinearExprT, int]]:
        """Body units of every stage by its position in the pipeline."""
        model, stages, length = self.model, self.stages, self.chain.length
        start = {
            j: model.new_int_var(0, stages, f"start_stage[{j}]") for j in self.clusters
        }
        for j in self.clusters:
            model.add(start[j] == 0).only_enforce_if(self.first[j])
        for (i, j), arc in self.follows.items():
            model.add(start[j] == start[i] + self.hosted[i]).only_enforce_if(arc)
        digits: list[tuple[cp_model.LinearExprT, int]] = []
        for position in range(stages):
            digit = model.new_int_var(0, length, f"units_at[{position}]")
            for j in self.clusters:
                for r, units in enumerate(self.units[j]):
                    here = model.new_bool_var("")
                    model.add(start[j] == position - r).only_enforce_if(here)
                    below = model.new_bool_var("")
                    above = model.new_bool_var("")
                    model.add(start[j] < position - r).only_enforce_if(below)
                    model.add(start[j] > position - r).only_enforce_if(above)
                    model.add_exactly_one([here, below, above])
                    model.add(digit == sum(units.values())).only_enforce_if(
                        [here, self.live[j][r]]
                    )
            digits.append((digit, length))
        return digits


@dataclass(frozen=True, slots=True)
class _Delta:
    """Extra warm-ups at a boundary: each value with the literals that say so."""

    cases: tuple[tuple[int, list[cp_model.IntVar]], ...]

    @classmethod
    def fixed(cls, value: int) -> _Delta:
        return cls(cases=((value, []),))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Need:
    """What memory leaves on a stage: a number of units, or bytes by kind present."""

    most: int | None = None
    left: dict[int, int] = field(default_factory=dict)
    unit_bytes: dict[int, int] = field(default_factory=dict)


def _where_falling(needs: list[tuple[int, _Need]]) -> list[tuple[int, _Need]]:
    """Keep the first warm-up count of every value of ``most``."""
    kept: list[tuple[int, _Need]] = []
    for warmup, need in needs:
        if not kept or need.most != kept[-1][1].most:
            kept.append((warmup, need))
        if need.most is not None and need.most < 1:
            break
    return kept


class _AtLeast:
    """Literals 'W >= w' of one slot, made when asked for."""

    def __init__(
        self, model: cp_model.CpModel, warmup: cp_model.LinearExprT, name: str
    ) -> None:
        self._model = model
        self._warmup = warmup
        self._name = name
        self._literals: dict[int, cp_model.IntVar] = {}

    def __getitem__(self, count: int) -> cp_model.IntVar | None:
        if count <= 1:
            return None
        if count not in self._literals:
            literal = self._model.new_bool_var(f"{self._name}>={count}")
            self._model.add(self._warmup <= count - 1).only_enforce_if(~literal)
            self._literals[count] = literal
        return self._literals[count]


def _dot(counts: Sequence[int], values: Sequence[int] | NDArray[np.int64]) -> int:
    return sum(int(n) * int(value) for n, value in zip(counts, values, strict=True))
