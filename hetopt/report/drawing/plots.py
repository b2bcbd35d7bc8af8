"""Plots, drawn without a display and without global state.

Series differ in shape and in lightness, not only in colour: they can be told apart in
black and white and by the colour-blind (Okabe and Ito's palette).
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from hetopt.cost.forests.judging import METHODS
from hetopt.cost.sources.features import PASSES

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from hetopt.cost.forests.judging import Judged
    from hetopt.cost.sources.evaluation import Evaluation

#: Marker, face and edge of each pass: dark filled circles, light open triangles.
_STYLES = {
    PASSES[0]: ("o", "#0072B2", "#0072B2"),
    PASSES[1]: ("^", "none", "#E69F00"),
}
#: Relative half width of the shaded band around the diagonal.
_BAND = 0.10
_COLUMNS = 3
#: With more points in a panel, an SVG embeds them as an image.
_MOST_VECTORS = 500


def predicted_versus_measured(evaluation: Evaluation, title: str) -> Figure:
    """Draw every prediction against its measurement, one panel per split."""
    names = [*evaluation.judged]
    rows = -(-(len(names) + 1) // _COLUMNS)
    figure = Figure(figsize=(4 * _COLUMNS, 3.8 * rows), layout="constrained")
    axes = figure.subplots(rows, _COLUMNS, squeeze=False).flat
    figure.suptitle(title)
    for axis, split in zip(axes, names, strict=False):
        _panel(axis, evaluation.judged[split], len(evaluation.rows))
        errors = ", ".join(
            f"{name} {evaluation.score(split, name).mape:.1%}" for name in METHODS
        )
        axis.set_title(f"{split}\nMAPE: {errors}", fontsize=9)
    legend = axes[len(names)]
    for axis in list(axes)[len(names) :]:
        axis.set_axis_off()
    handles, labels = axes[0].get_legend_handles_labels()
    legend.legend(handles, labels, loc="center", frameon=False)
    return figure


def png(figure: Figure) -> bytes:
    """Return a figure as PNG."""
    stream = io.BytesIO()
    figure.savefig(stream, format="png", metadata={"Software": None})
    return stream.getvalue()


def svg(figure: Figure) -> bytes:
    """Return a figure as SVG, the same bytes for the same figure."""
    stream = io.BytesIO()
    with mpl.rc_context({"svg.hashsalt": "hetopt", "svg.fonttype": "none"}):
        figure.savefig(stream, format="svg", metadata={"Date": None})
    return stream.getvalue()


def _panel(axis: Axes, judged: Judged, shards: int) -> None:
    """Draw one split of a profile with so many shards."""
    forest, *_, low, high = judged.predicted_s * 1e3
    every_ms = judged.measured_s * 1e3
    many = len(every_ms) > _MOST_VECTORS
    both = np.concatenate([every_ms, forest])
    ends = np.array([both.min() / 1.5, both.max() * 1.5])
    axis.fill_between(
        ends,
        ends * (1 - _BAND),
        ends * (1 + _BAND),
        color="0.85",
        linewidth=0,
        label=f"within {_BAND:.0%}",
    )
    axis.plot(ends, ends, color="black", linewidth=0.8, zorder=2, label="as measured")
    for pass_, (direction, (marker, face, edge)) in enumerate(_STYLES.items()):
        own = judged.index // shards == pass_
        measured = every_ms[own]
        axis.vlines(
            measured,
            low[own],
            high[own],
            color="0.6",
            linewidth=0.4,
            rasterized=many,
            zorder=1,
        )
        axis.scatter(
            measured,
            forest[own],
            s=10,
            marker=marker,
            facecolors=face,
            edgecolors=edge,
            linewidths=0.7,
            rasterized=many,
            zorder=3,
            label=f"forest, {direction} (line: 90% of its trees)",
        )
    axis.set_xscale("log")
    axis.set_yscale("log")
    axis.set_xlim(*ends)
    axis.set_ylim(*ends)
    axis.set_aspect("equal")
    axis.set_xlabel("measured, ms")
    axis.set_ylabel("predicted, ms")
