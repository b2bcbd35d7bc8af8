"""Ten ways to forge the certificate of a plan; see ``benchmarks.verifying``."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from hetopt.results.certificate import PS_S

if TYPE_CHECKING:
    from collections.abc import Callable

    Data = dict[str, Any]
    #: Plan file, certificate, and the best other plan as a result lists it.
    Forge = Callable[[Data, Data, Data], None]


def forged(kind: str, plan: Data, certificate: Data, other: Data) -> tuple[Data, Data]:
    """Return a plan file and a certificate with a false claim.

    Parameters
    ----------
    kind
        One of ``KINDS``.
    other
        The second-best plan: an entry of a result's ``alternatives``.
    """
    plan, certificate = copy.deepcopy(plan), copy.deepcopy(certificate)
    KINDS[kind](plan, certificate, other)
    return plan, certificate


def settle(certificate: Data) -> None:
    """Make the sums fit the programs again, as a careful forger would."""
    least: dict[int, int] = {}
    for claim in certificate["programs"]:
        q, bound = claim["microbatches"], claim["bound_ps"]
        if bound is not None:
            least[q] = min(least.get(q, bound), bound)
    for entry in certificate["microbatches"]:
        entry["bound_ps"] = least.get(entry["microbatches"])
    certificate["lower_bound_ps"] = min([*least.values(), certificate["value_ps"]])


def _lift(certificate: Data, value: int) -> None:
    """Raise all bounds to a value."""
    certificate["value_ps"] = value
    for claim in certificate["programs"]:
        if claim["bound_ps"] is not None:
            claim["bound_ps"] = max(claim["bound_ps"], value)
    settle(certificate)


def _program(plan: Data) -> tuple[int, int]:
    (pipeline,) = plan["pipelines"]
    return len(pipeline["stages"]), pipeline["microbatches"]


def _next_to_the_plan(certificate: Data) -> Data:
    """Return the claim that is probably closest to false if its bound is raised."""
    p, q = _program(certificate["plan"])
    near: Data = min(
        (
            claim
            for claim in certificate["programs"]
            if claim["bound_ps"] is not None and claim["how"] != "solved"
        ),
        key=lambda claim: (
            claim["how"] != "refuted-by-search",
            claim["bound_ps"],
            abs(claim["stages"] - p) + abs(claim["microbatches"] - q),
        ),
    )
    return near


def _second_best(plan: Data, certificate: Data, other: Data) -> None:
    plan["plan"] = certificate["plan"] = other["plan"]
    program = _program(other["plan"])
    for claim in certificate["programs"]:
        if claim["how"] == "solved":
            claim["how"] = "refuted-by-search"
        if (claim["stages"], claim["microbatches"]) == program:
            claim["how"] = "solved"
    _lift(certificate, round(other["closed_form_s"] / PS_S))


def _raised(plan: Data, certificate: Data, other: Data) -> None:
    claim = _next_to_the_plan(certificate)
    claim["bound_ps"] = 4 * certificate["value_ps"]
    settle(certificate)


def _infeasible(plan: Data, certificate: Data, other: Data) -> None:
    _next_to_the_plan(certificate).update(how="infeasible", bound_ps=None)
    settle(certificate)


def _wrong_value(plan: Data, certificate: Data, other: Data) -> None:
    value = certificate["value_ps"]
    for claim in certificate["programs"]:
        if claim["how"] == "solved":
            claim["bound_ps"] = value - value // 100
    certificate["value_ps"] = value - value // 100
    settle(certificate)


def _missing(plan: Data, certificate: Data, other: Data) -> None:
    certificate["programs"].remove(_next_to_the_plan(certificate))
    settle(certificate)


def _other_space(plan: Data, certificate: Data, other: Data) -> None:
    certificate["relaxed"] = [] if certificate["relaxed"] else ["p3", "p4"]
    plan["relaxed"] = certificate["relaxed"]
    # Permits only the plan's own number of micro-batches.
    _, q = _program(certificate["plan"])
    for key in ("programs", "microbatches"):
        certificate[key] = [
            entry for entry in certificate[key] if entry["microbatches"] == q
        ]
    settle(certificate)


def _other_problem(plan: Data, certificate: Data, other: Data) -> None:
    for data in (plan["plan"], certificate["plan"], certificate):
        digest = data["problem_digest"]
        data["problem_digest"] = digest[::-1]


def _other_order(plan: Data, certificate: Data, other: Data) -> None:
    """Exchange the first and the last cluster's stages, with their strategies."""
    for data in (plan["plan"], certificate["plan"]):
        stages = data["pipelines"][0]["stages"]
        moved = [{**stage} for stage in reversed(stages)]
        for stage, source in zip(stages, moved, strict=True):
            for key in ("cluster", "dp", "cp", "tp", "recompute"):
                stage[key] = source[key]
        if stages == [*reversed(moved)]:
            # One cluster hosts all stages: reversed, their units are out of order.
            stages.reverse()
        if len(stages) == 1:
            stages[0]["first_unit"] = 1


def _smaller_gap(plan: Data, certificate: Data, other: Data) -> None:
    """Claim the second-best plan, and its value as the bound of all programs."""
    plan["plan"] = certificate["plan"] = other["plan"]
    certificate["value_ps"] = round(other["closed_form_s"] / PS_S)
    certificate["lower_bound_ps"] = certificate["value_ps"]


def _rounded_up(plan: Data, certificate: Data, other: Data) -> None:
    value = certificate["value_ps"]
    _lift(certificate, value + value // 10**6 + 10**5)


#: Forgeries by name.
KINDS: dict[str, Forge] = {
    "second-best plan, bounds raised": _second_best,
    "bound raised": _raised,
    "said to be infeasible": _infeasible,
    "lower value": _wrong_value,
    "program missing": _missing,
    "other space": _other_space,
    "other problem": _other_problem,
    "other order": _other_order,
    "smaller gap": _smaller_gap,
    "value and bounds rounded up": _rounded_up,
}
