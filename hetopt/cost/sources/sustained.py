"""What whole iterations sustain of the rates that single kernels reach.

Iterations run slower than the same kernels one by one, because clocks fall under load,
kernels wait for the host and stragglers; and faster where software fuses what was
measured apart. One share per class of operators and family of devices, fitted on
published iterations by ``benchmarks/iterations.py``, which prints the shares
(``--fit``) and how far off models are that the fit has not seen. The attention core's
share is that of the software that ran: llm-foundry's of 2023 on A100 and H100,
Megatron-LM's of 2025 on B200.

Of H20 and Ascend one iteration each is published (HetAuto, Table 1): their relatives'
shares, times the one factor that explains it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hetopt.problem.cluster import Accelerator


@dataclass(frozen=True, slots=True, kw_only=True)
class Sustained:
    """Shares of the rates of measured kernels; above 1 where iterations are faster.

    Attributes
    ----------
    multiplication, attention, elementwise
        Of multiplications, of the fused attention core, of everything else.
    """

    multiplication: float
    attention: float
    elementwise: float


#: By beginning of the accelerator's name; the longest that fits counts.
SUSTAINED: Mapping[str, Sustained] = {
    "A100": Sustained(multiplication=1.11, attention=0.62, elementwise=1.37),
    "H100": Sustained(multiplication=1.02, attention=0.46, elementwise=0.72),
    "B200": Sustained(multiplication=1.15, attention=0.63, elementwise=0.355),
    "H20": Sustained(multiplication=1.41, attention=0.635, elementwise=0.99),
    "H200": Sustained(multiplication=1.02, attention=0.46, elementwise=0.72),
    "Ascend": Sustained(multiplication=0.65, attention=0.36, elementwise=0.80),
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
