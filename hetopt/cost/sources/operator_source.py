"""Latencies of a cluster from measured operators: a unit's time is their sum.

The forward pass of a unit has its multiplications (layout TN), its attention cores and
its element-wise kernels; the backward pass has two products for each multiplication (NN
for the input, NT for the weight, which is added to an fp32 buffer), the cores' backward
kernels, and the element-wise kernels' gradients. Each class of operators has a forest
(``hetopt.cost.forests``). Whole iterations reach only a share of the rates of
single kernels: the accelerator's (``Accelerator.sustained``), or those of the problem's
software (``Training.software``).

In FP8 and NVFP4 only the layers' multiplications differ. Nobody published their times
kernel by kernel, so these have the efficiency that a multiplication in 16 bits with as
many seconds of work at the peak has: modelled, and judged on published iterations. What
casts their inputs is part of what iterations reach.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from hetopt.cost.forests.forest import Samples
from hetopt.cost.forests.kept import predicted_s
from hetopt.cost.operators import work
from hetopt.cost.operators.file import (
    GROUP_MATMUL,
    LAYOUTS,
    MATMUL,
    MEMORY,
    SDP_BACKWARD,
    SDP_FORWARD,
)
from hetopt.cost.operators.relatives import rates_of
from hetopt.cost.shapes import distinct_rows
from hetopt.cost.sources.forest_source import MEASURE_LAYERS
from hetopt.cost.sources.source import ShardQuery, ShardTimes, Sizes
from hetopt.cost.units import unit_operations
from hetopt.errors import InputError
from hetopt.problem.catalogue import accelerators
from hetopt.problem.model.kinds import END_KINDS
from hetopt.problem.training.choices import BESIDE_BF16
from hetopt.problem.training.dispatch import DISPATCH_RATES
from hetopt.problem.training.software import Reached

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping
    from pathlib import Path

    from hetopt.cost.operators.relatives import Measured
    from hetopt.cost.operators.work import Rates
    from hetopt.cost.pieces.operations import Operations
    from hetopt.cost.shapes import Floats, Shape
    from hetopt.cost.table.table import SourceKind
    from hetopt.problem.cluster.accelerator import Accelerator
    from hetopt.problem.cluster.cluster import Cluster
    from hetopt.problem.facts import Sustained
    from hetopt.problem.model.model import Model
    from hetopt.problem.training.training import Training

#: Classes of operators that every model needs, and models with experts.
NEEDED = (MATMUL, SDP_FORWARD, SDP_BACKWARD, MEMORY)
WITH_EXPERTS = (*NEEDED, GROUP_MATMUL)

#: Where the sizes of a kernel begin among its features: three, behind both bounds and
#: their ratio; and what they are, by class.
_AT = slice(3, 6)
_SIZES = {
    MATMUL: ("tokens", "input width", "output width"),
    SDP_FORWARD: ("rows of all heads", "keys of a row", "width of a head"),
}

#: What measures operators, as errors say it.
MEASURE = (
    "measure them with hetopt profile --operators, and write "
    "latency: {CLUSTER: operators.csv}"
)


class OperatorSource:
    """Latency source that adds up measured operators."""

    def __init__(
        self,
        accelerator: Accelerator,
        measured: Mapping[str, Measured],
        *,
        reached: Reached | None = None,
        own: Collection[str] = (),
        cache: Path | None = None,
    ) -> None:
        """Set measured operators.

        Parameters
        ----------
        measured
            Operators by class; at least multiplications.
        reached
            What iterations reach; by default what they do under the problem's software,
            or else the accelerator's shares.
        own
            Classes that the user measured: their times are not scaled by the
            accelerator's shares, which were fitted to other kernels.
        cache
            Folder of cached predictions; the user's cache by default.
        """
        self.accelerator = accelerator
        self.measured = measured
        self.own = own
        self._reached = reached
        self._cache = cache

    @property
    def name(self) -> str:
        """The user's file; empty for the operators that ship."""
        return next((self.measured[each].name for each in self.own), "")

    def source_kind(self, cluster: Cluster) -> SourceKind:
        """Return "modelled" if some class is modelled, else "operators"."""
        del cluster
        return "modelled" if self.modelled else "operators"

    @property
    def modelled(self) -> tuple[str, ...]:
        """Classes whose times were computed, not measured."""
        return tuple(
            name for name, part in self.measured.items() if part.kind == "modelled"
        )

    @property
    def borrowed(self) -> Mapping[str, str]:
        """Device whose efficiencies are used, by class, if it is another one."""
        return {
            name: self.measured[name].device
            for name in WITH_EXPERTS
            if name in self.measured
            and self.measured[name].device
            not in (self.accelerator.preset, self.accelerator.name)
        }

    def lacks(self, model: Model, training: Training) -> str | None:
        """Return why the operators do not cover a model; None if they do."""
        if training.precision == "fp32":
            what = "has no fp32 operators: write training: "
            return what + f"{{precision: bf16}}, or {MEASURE_LAYERS}"
        if self.accelerator.lacks(training.precision):
            return (
                f"{self.accelerator.name} has no {training.precision}: write training: "
                f"{{precision: {self.accelerator.peak_flops.known[0]}}}"
            )
        if training.attention == "unfused":
            return "has no unfused attention: write training: {attention: fused}"
        needed = NEEDED if model.experts is None else WITH_EXPERTS
        missing = [name for name in needed if name not in self.measured]
        return f"has no {missing[0]} operators: {MEASURE}" if missing else None

    def sizes(
        self, model: Model, training: Training, kinds: tuple[str, ...], shape: Shape
    ) -> Iterator[Sizes]:
        """Yield the sizes of the forward kernels of the user's classes."""
        units = [unit_operations(model, training, kind, shape) for kind in kinds]
        for name in filter(self.own.__contains__, _SIZES):
            rates = self._rates(name)
            rows = [r for r in self.measured[name].rows if r.layout in (None, "TN")]
            if not rows:
                # Only products of the backward pass were measured.
                continue
            known = work.samples_of_rows(name, rows, rates)
            for unit in units:
                wanted = [
                    work.product(part, "TN", rates)
                    for part in unit.multiplications
                    if part.groups is None
                ]
                if name == SDP_FORWARD:
                    wanted = [work.core(c, rates, backward=False) for c in unit.cores]
                for part in wanted:
                    pair = (np.exp(each.features[:, _AT]) for each in (known, part))
                    yield Sizes(name, _SIZES[name], *pair)

    def shard_times(self, query: ShardQuery) -> ShardTimes:
        """Return the compute times of a query.

        Raises
        ------
        InputError
            The operators do not cover the model; see ``lacks``.
        """
        reason = self.lacks(query.model, query.training)
        if reason is not None:
            raise InputError(reason)
        # What differs in experts' degrees only has equal kernels, but for experts'.
        first, where = distinct_rows(query.shape.columns[:3])
        units, few = (
            [
                unit_operations(query.model, query.training, k, shape)
                for k in query.kinds
            ]
            for shape in (query.shape, query.shape.take(first))
        )
        rates = {name: self._rates(name) for name in NEEDED}
        speed_up = [self._speed_up(query.training, kind) for kind in query.kinds]
        dense = [each[where] for each in self._products(few, speed_up, MATMUL)]
        grouped = self._products(units, speed_up, GROUP_MATMUL)
        cores = [core for unit in few for core in unit.cores]
        forward, gradients = (
            [
                each[where]
                for each in self._predicted(
                    name,
                    [work.core(core, rates[name], backward=backward) for core in cores],
                )
            ]
            for name, backward in ((SDP_FORWARD, False), (SDP_BACKWARD, True))
        )
        moved = self._predicted(
            MEMORY,
            [
                work.elementwise(part, rates[MEMORY], backward=backward)
                for unit in units
                for part in unit.elementwise
                for backward in (False, True)
            ],
        )
        reached = self.reached(query.model, query.training)
        times = self._times(
            units, (dense, grouped), (forward, gradients), moved, reached.sustained
        )
        return _as_run(query, times, reached)

    def reached(self, model: Model, training: Training) -> Reached:
        """Return what iterations reach under a problem's software, or else usually."""
        if self._reached is not None:
            return self._reached
        device, experts = self.accelerator, model.experts is not None
        found = training.reached(device.known_as, experts=experts)
        if found is None:
            usual = training.precision not in BESIDE_BF16
            accuracy = device.accuracy if usual and not training.software else None
            found = Reached(sustained=device.sustained, accuracy=accuracy)
        return replace(found, sustained=_as_measured(found.sustained, self.own))

    def _speed_up(self, training: Training, kind: str) -> float:
        """Return how often quicker a unit multiplies than in 16 bits, at the peak."""
        if training.precision not in BESIDE_BF16 or kind in END_KINDS:
            return 1.0
        device = self.accelerator
        return device.peak_flops_of(training.precision) / device.peak_flops_of("bf16")

    def _products(
        self,
        units: list[Operations],
        speed_up: list[float],
        name: str,
    ) -> list[Floats]:
        """Return seconds of the products of a class, three for each multiplication.

        Parameters
        ----------
        speed_up
            By unit; see ``_speed_up``.
        """
        parts = [
            (part, factor)
            for unit, factor in zip(units, speed_up, strict=True)
            for part in unit.multiplications
            if (name == GROUP_MATMUL) == (part.groups is not None)
        ]
        if not parts:
            return []
        usual = self._rates(name)
        products = [
            work.product(part, layout, replace(usual, flops=usual.flops * factor))
            for part, factor in parts
            for layout in LAYOUTS
        ]
        found = self._predicted(name, products)
        if name == MATMUL or name in self.own:
            return found
        known = self.accelerator.grouped
        gains = [known.bits_16 if f == 1 else known.bits_8 for _, f in parts]
        return [
            each / gain
            for each, gain in zip(found, np.repeat(gains, len(LAYOUTS)), strict=True)
        ]

    def _rates(self, name: str) -> Rates:
        """Return the rates by which times of a class are scaled.

        They are the accelerator's, which a problem may have changed: efficiencies are
        measured, rates are not. Times that the user measured on the device itself are
        not scaled; outside the catalogue, a user's file is of the user's device.
        """
        part, preset = self.measured[name], self.accelerator.preset
        outside = preset is None and part.device not in accelerators()
        as_measured = name in self.own and (outside or part.device == preset)
        return part.rates if as_measured else rates_of(self.accelerator)

    def _times(
        self,
        units: list[Operations],
        products: tuple[list[Floats], list[Floats]],
        cores: tuple[list[Floats], list[Floats]],
        moved: list[Floats],
        share: Sustained,
    ) -> ShardTimes:
        """Add up predictions, which are in the order of the units' operations.

        Parameters
        ----------
        products
            Seconds of dense multiplications, and of grouped ones.
        cores
            Seconds of the attention cores' forward and backward passes.
        share
            Shares of these rates that iterations reach.
        """
        times: tuple[list[Floats], ...] = ([], [], [], [], [])
        dense, grouped = map(iter, products)
        core = iter(zip(*cores, strict=True))
        kernel = iter(moved)
        for unit in units:
            nothing = np.zeros(len(unit.elementwise_bytes))
            computed, weights = [nothing, nothing], nothing
            for part in unit.multiplications:
                product = dense if part.groups is None else grouped
                forward, of_input, of_weight = (next(product) for _ in LAYOUTS)
                computed[0] = computed[0] + forward
                computed[1] = computed[1] + of_input + of_weight
                weights = weights + of_weight
            attention = [nothing, nothing]
            for _ in unit.cores:
                pair = next(core)
                attention = [a + b for a, b in zip(attention, pair, strict=True)]
            elementwise = [nothing, nothing]
            for kernels in unit.elementwise:
                elementwise = [a + kernels.kernels * next(kernel) for a in elementwise]
            for pass_ in (0, 1):
                inside = attention[pass_] / share.attention
                times[pass_].append(
                    computed[pass_] / share.multiplication
                    + inside
                    + elementwise[pass_] / share.elementwise
                )
                times[2 + pass_].append(inside)
            times[4].append(weights / share.multiplication)
        stacked = [np.stack(part, axis=1) for part in times]
        return ShardTimes(
            forward_s=stacked[0],
            backward_s=stacked[1],
            attention_core_s=stacked[2],
            attention_core_backward_s=stacked[3],
            weight_s=stacked[4],
            sharding=share.sharding,
        )

    def _predicted(self, name: str, asked: list[Samples]) -> list[Floats]:
        """Return the seconds of kernels of a class, R each."""
        if not asked:
            return []
        return predicted_s(self.measured[name].lesson, asked, self._cache)


def _as_run(query: ShardQuery, times: ShardTimes, reached: Reached) -> ShardTimes:
    """Return times of kernels as a host starts them, with what collectives reach."""
    # A third of the host's time is the forward pass's, as of the kernels.
    host_s = np.array(
        [reached.host_s * query.model.has_experts(k) for k in query.kinds]
    )
    used = DISPATCH_RATES[query.training.moe.priced_as]
    quicker = used / DISPATCH_RATES[reached.dispatcher]
    tensor = reached.sustained.tensor
    if query.training.overlap_tensor:
        tensor = reached.tensor_overlapped or tensor
    return replace(
        times,
        forward_s=np.maximum(times.forward_s, host_s / 3),
        backward_s=np.maximum(times.backward_s, host_s * 2 / 3),
        tensor=tensor,
        dispatch=reached.dispatch * quicker,
        sharding_beside=reached.sharding_beside,
    )


def _as_measured(known: Sustained, own: Collection[str]) -> Sustained:
    """Return an accelerator's shares, but 1 for the classes that the user measured."""
    attention = SDP_FORWARD in own or SDP_BACKWARD in own
    return replace(
        known,
        multiplication=1.0 if MATMUL in own else known.multiplication,
        attention=1.0 if attention else known.attention,
        elementwise=1.0 if MEMORY in own else known.elementwise,
    )
