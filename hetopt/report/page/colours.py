"""The colours of a page in light and dark mode, as variables of its style.

Text in ``ink``, ``muted`` and ``accent`` has a contrast of at least 4.5 on ``paper``
and ``surface``, and the marks of clusters one of at least 3 (WCAG 2.2, AA). Clusters
are also labelled with their names.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from hetopt.report.timeline.palette import ACTIVITIES

if TYPE_CHECKING:
    from collections.abc import Mapping

LIGHT: Mapping[str, str] = MappingProxyType(
    {
        "paper": "#ffffff",
        "surface": "#f4f6f8",
        "ink": "#15191e",
        "muted": "#56606b",
        "line": "#d3d9e0",
        "accent": "#0b5a9d",
        "cluster-0": "#2b6cb0",
        "cluster-1": "#b4550a",
        "cluster-2": "#1f7a55",
        "cluster-3": "#9b3f86",
        "cluster-4": "#7d6608",
        "cluster-5": "#5b53b5",
        "cluster-6": "#a83a3a",
        "cluster-7": "#48626f",
    }
)
DARK: Mapping[str, str] = MappingProxyType(
    {
        "paper": "#12161b",
        "surface": "#1b2027",
        "ink": "#e7eaee",
        "muted": "#a4adb8",
        "line": "#38404a",
        "accent": "#78b8f0",
        "cluster-0": "#6aa9e9",
        "cluster-1": "#e59550",
        "cluster-2": "#5cbd92",
        "cluster-3": "#d68bc4",
        "cluster-4": "#c9ae45",
        "cluster-5": "#a19af0",
        "cluster-6": "#e88a8a",
        "cluster-7": "#93b0be",
    }
)
#: Number of cluster colours; with more clusters, colours repeat.
CLUSTERS = sum(name.startswith("cluster-") for name in LIGHT)


def variables() -> str:
    """Return the style rules that define all colours; print uses light mode."""
    activities = {f"on-{name}": paint.colour for name, paint in ACTIVITIES.items()}
    light = _rule({"color-scheme": "light dark"} | _named({**LIGHT, **activities}))
    dark = _rule(_named(DARK))
    return f"{light}\n@media screen and (prefers-color-scheme: dark) {{ {dark} }}\n"


def cluster_colour(number: int) -> str:
    """Return a cluster's colour as a value in a style."""
    return f"var(--cluster-{number % CLUSTERS})"


def _named(colours: Mapping[str, str]) -> dict[str, str]:
    return {f"--{name}": value for name, value in colours.items()}


def _rule(values: Mapping[str, str]) -> str:
    inside = " ".join(f"{name}: {value};" for name, value in values.items())
    return f":root {{ {inside} }}"
