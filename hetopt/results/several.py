"""What a search found about pipelines side by side."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Several:
    """A search over pipelines side by side.

    Attributes
    ----------
    most
        Most pipelines of a plan.
    divisions
        Number of ways to divide the nodes among up to ``most`` pipelines.
    searched
        Number of pipelines, or of whole divisions, that were searched.
    """

    most: int
    divisions: int
    searched: int
