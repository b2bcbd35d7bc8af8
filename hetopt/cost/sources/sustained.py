"""What whole iterations sustain of the rates that single kernels reach.

Iterations run slower than the same kernels one by one, because clocks fall under load,
kernels wait for the host and stragglers; and faster where software fuses what was
measured apart, or hides a part of what ZeRO-2 and -3 exchange. One share per class of
operators and one of those collectives, for each family of devices, are fitted on
published iterations by ``benchmarks/iterations.py``, which prints the shares
(``--fit``) and how far off models are that the fit has not seen. One share more is of
the collectives of tensor parallelism, which the B200 runs alone have: whatever makes
them slower than their links is no property of the kernels around them. The attention
core's share is that of the software that ran: llm-foundry's of 2023 on A100 and H100,
Megatron-LM's of 2025 on B200.

Of H20 and Ascend one iteration each is published (HetAuto, Table 1): their relatives'
shares of operators, times the one factor that explains it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hetopt.problem.cluster.cluster import Accelerator


@dataclass(frozen=True, slots=True, kw_only=True)
class Sustained:
    """Shares of the rates of measured kernels; above 1 where iterations are faster.

    Attributes
    ----------
    multiplication, attention, elementwise
        Of multiplications, of the fused attention core, of everything else.
    sharding
        Of the collectives of ZeRO-2 and -3 that every micro-batch waits for: above 1
        where computation hides a part of them.
    tensor
        Of the collectives of tensor parallelism.
    """

    multiplication: float
    attention: float
    elementwise: float
    sharding: float = 1.0
    tensor: float = 1.0


#: By beginning of the accelerator's name; the longest that fits counts.
SUSTAINED: Mapping[str, Sustained] = {
    "A100": Sustained(
        multiplication=1.054, attention=0.584, elementwise=1.105, sharding=1.861
    ),
    "H100": Sustained(
        multiplication=1.027, attention=0.428, elementwise=0.558, sharding=1.062
    ),
    "B200": Sustained(
        multiplication=0.987, attention=0.816, elementwise=0.94, tensor=0.579
    ),
    "H20": Sustained(
        multiplication=1.473, attention=0.613, elementwise=0.8, sharding=1.062
    ),
    "H200": Sustained(
        multiplication=1.027, attention=0.428, elementwise=0.558, sharding=1.062
    ),
    "Ascend": Sustained(
        multiplication=0.653, attention=0.362, elementwise=0.685, sharding=1.861
    ),
}

#: Of families without a published iteration: as measured.
AS_MEASURED = Sustained(multiplication=1.0, attention=1.0, elementwise=1.0)


def sustained_of(accelerator: Accelerator, relative: str) -> Sustained:
    """Return the shares of an accelerator, or of its relative's family."""
    for name in (accelerator.name, relative):
        fits = [known for known in SUSTAINED if name.startswith(known)]
        if fits:
            return SUSTAINED[max(fits, key=len)]
    return AS_MEASURED


def as_measured(
    known: Sustained, *, multiplication: bool, attention: bool, elementwise: bool
) -> Sustained:
    """Return shares with those of some classes 1."""
    return replace(
        known,
        multiplication=1.0 if multiplication else known.multiplication,
        attention=1.0 if attention else known.attention,
        elementwise=1.0 if elementwise else known.elementwise,
    )
