"""Shares of the rates of single kernels that whole iterations reach.

Iterations run slower than the same kernels one by one, because clocks fall under load,
kernels wait for the host and stragglers; they run faster if programs fuse kernels that
were measured separately, or hide a part of the collectives of ZeRO-2 and -3. For each
family of devices, one share per class of operators and one for those collectives are
fitted to published iterations by ``benchmarks/iterations.py``, which prints the shares
(``--fit``) and the errors on models that the fit did not use. Another share is that of
tensor-parallel collectives, which only the B200 runs have: they may be slower than
their links for reasons that do not affect the kernels. The attention core's share
depends on the program: llm-foundry of 2023 on A100 and H100, Megatron-LM of 2025 on
B200.

For H20 and Ascend one iteration each is published (HetAuto, Table 1): they have their
relatives' shares of operators, times the one factor that fits it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hetopt.problem.cluster.cluster import Accelerator


@dataclass(frozen=True, slots=True, kw_only=True)
class Sustained:
    """Shares of the rates of measured kernels; above 1 if iterations are faster.

    Attributes
    ----------
    multiplication, attention, elementwise
        Shares of multiplications, the fused attention core, and element-wise kernels.
    sharding
        Share of ZeRO-2's and -3's collectives in every micro-batch: above 1 if
        computation hides a part of them.
    tensor
        Share of tensor-parallel collectives.
    """

    multiplication: float
    attention: float
    elementwise: float
    sharding: float = 1.0
    tensor: float = 1.0


#: By prefix of the accelerator's name; the longest matching one is used.
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

#: For families without a published iteration: kernels' times as measured.
AS_MEASURED = Sustained(multiplication=1.0, attention=1.0, elementwise=1.0)


def sustained_of(accelerator: Accelerator, relative: str) -> Sustained:
    """Return the shares of an accelerator's family, or of its relative's."""
    for name in (accelerator.name, relative):
        fits = [known for known in SUSTAINED if name.startswith(known)]
        if fits:
            return SUSTAINED[max(fits, key=len)]
    return AS_MEASURED


def as_measured(
    known: Sustained, *, multiplication: bool, attention: bool, elementwise: bool
) -> Sustained:
    """Return ``known`` with share 1 for some classes."""
    return replace(
        known,
        multiplication=1.0 if multiplication else known.multiplication,
        attention=1.0 if attention else known.attention,
        elementwise=1.0 if elementwise else known.elementwise,
    )
