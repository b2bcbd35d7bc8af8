"""Writes a timeline as the picture and the trace that options ask for."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hetopt.report.timeline.timeline import Timeline


def write_pictures(timeline: Timeline, svg: str | None, trace: str | None) -> list[str]:
    """Write the picture and the trace if their paths are given; return the paths."""
    from hetopt.base.files import write_text

    if svg is not None:
        from hetopt.report.timeline.picture import picture

        write_text(svg, picture(timeline))
    if trace is not None:
        from hetopt.report.timeline.trace import trace_json

        write_text(trace, trace_json(timeline))
    return [name for name in (svg, trace) if name is not None]
