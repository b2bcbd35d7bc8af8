"""The colours of timelines: Okabe and Ito's, which the colour-blind can tell apart.

Forward, recomputation and backward, and the two parts of memory, also differ in
lightness, so that they can be told apart in black and white.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hetopt.report.timeline.timeline import Activity


class Paint(NamedTuple):
    """A style class: its name, its colour, and its meaning in the legend."""

    name: str
    colour: str
    meaning: str


#: Activities in lanes.
ACTIVITIES: Mapping[Activity, Paint] = MappingProxyType(
    {
        "forward": Paint("f", "#0072b2", "forward"),
        "recompute": Paint("r", "#f0e442", "recomputation"),
        "backward": Paint("b", "#e69f00", "backward"),
        "weight": Paint("k", "#8c6100", "gradients of weights"),
        "sync": Paint("g", "#cc79a7", "gradient synchronisation, optimizer"),
        "send-forward": Paint("s", "#56b4e9", "send activations"),
        "send-backward": Paint("t", "#d55e00", "send gradients"),
    }
)
#: Activities on which numbers are white.
DARK: frozenset[Activity] = frozenset({"forward", "weight"})
IDLE = Paint("i", "#e8e8e8", "idle")
FREE = Paint("l", "#f5f5f5", "link not used")
BASE = Paint("w", "#b4b4b4", "weights, gradients, optimizer states, buffers")
ACTIVATIONS = Paint("a", "#009e73", "activations in flight")

#: Classes of text: h, bold; e, ends at its position; m, centred; q, centred in white.
#: Classes of lines: x, all; d, dashed.
STYLE = "".join(
    (
        "text{font-family:'DejaVu Sans',Verdana,Arial,sans-serif;fill:#1a1a1a}",
        ".h{font-weight:bold}.e{text-anchor:end}.m{text-anchor:middle}",
        ".q{fill:#fff;text-anchor:middle}",
        ".x{stroke:#1a1a1a;fill:none}.d{stroke-dasharray:4 3}",
        *(
            f".{paint.name}{{fill:{paint.colour}}}"
            for paint in (*ACTIVITIES.values(), IDLE, FREE, BASE, ACTIVATIONS)
        ),
    )
)
