"""Check whether a plan, or a whole result, is what it claims to be.

Everything is derived again from the problem and the latency table by code that
shares nothing with solvers, formulations, ``hetopt.pricing`` or
``hetopt.schedule``, so that an error in one of them is found.
"""

from __future__ import annotations

from hetopt.check.claims.result import check_result
from hetopt.check.plan.plan import CheckedPlan, check_plan

__all__ = ["CheckedPlan", "check_plan", "check_result"]
