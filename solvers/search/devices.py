"""Device time of a problem's nodes, which problems on the same nodes have in common."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from hetopt.cost.device_work import least_device_seconds
from hetopt.cost.sources.by_cluster import latency_sources
from hetopt.cost.sources.remembered import RememberedSource

if TYPE_CHECKING:
    from hetopt.cost.shapes import Floats
    from hetopt.problem.problem import Problem


class Devices:
    """The nodes of a problem, whatever its schedule.

    Plans on some of the nodes are plans of the problem, so that what is least here is
    no more there.
    """

    def __init__(self, problem: Problem) -> None:
        self._problem = problem

    @cached_property
    def source(self) -> RememberedSource:
        """Latencies on these nodes, each predicted once."""
        return RememberedSource(latency_sources(self._problem))

    @cached_property
    def seconds(self) -> Floats:
        """See ``least_device_seconds``; shape (J, B)."""
        return least_device_seconds(self._problem, self.source)
