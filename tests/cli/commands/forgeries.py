"""What forgers do to certificates, and what ``hetopt verify`` says of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    Data = dict[str, Any]


def _program(data: Data, how: str) -> Data:
    found: Data = next(claim for claim in data["programs"] if claim["how"] == how)
    return found


def settle_all(data: Data) -> None:
    """Make the sums fit the programs again, as a careful forger would."""
    least: dict[int, int] = {}
    for claim in data["programs"]:
        q, bound = claim["microbatches"], claim["bound_ps"]
        if bound is not None:
            least[q] = min(least.get(q, bound), bound)
    for entry in data["microbatches"]:
        entry["bound_ps"] = least.get(entry["microbatches"])
    data["lower_bound_ps"] = min([*least.values(), data["value_ps"]])


def _raise(how: str, factor: float) -> Callable[[Data], None]:
    def forge(data: Data) -> None:
        claim = _program(data, how)
        claim["bound_ps"] = int(claim["bound_ps"] * factor)
        settle_all(data)

    return forge


def _stage(**changes: Any) -> Callable[[Data], None]:
    def forge(data: Data) -> None:
        data["plan"]["pipelines"][0]["stages"][0].update(changes)

    return forge


def _set(**changes: Any) -> Callable[[Data], None]:
    return lambda data: data.update(changes)


def _claim(how: str, /, **changes: Any) -> Callable[[Data], None]:
    def forge(data: Data) -> None:
        _program(data, how).update(changes)

    return forge


def _none_at_last(data: Data) -> None:
    """Claim that the last program with a bound has no plan."""
    known = [claim for claim in data["programs"] if claim["bound_ps"] is not None]
    known[-1].update(how="infeasible", bound_ps=None)


def _to_the_value(data: Data) -> None:
    """Claim of every program that it has no better plan."""
    for each in data["programs"]:
        if each["bound_ps"] is not None:
            each["bound_ps"] = data["value_ps"]
    for each in data["microbatches"]:
        if each["bound_ps"] is not None:
            each["bound_ps"] = data["value_ps"]
    data["lower_bound_ps"] = data["value_ps"]


def _never(data: Data) -> None:
    _program(data, "refuted-by-bound").update(how="infeasible", bound_ps=None)
    settle_all(data)


def _below(data: Data) -> None:
    """Claim less of a program, and that the answer is not optimal after all."""
    claim = _program(data, "refuted-by-bound")
    claim["bound_ps"] = data["value_ps"] // 2
    data["status"] = "feasible"
    settle_all(data)


def _worse(data: Data) -> None:
    data["value_ps"] = int(data["value_ps"] * 1.01)
    for claim in data["programs"]:
        if claim["bound_ps"] is not None:
            claim["bound_ps"] = max(claim["bound_ps"], data["value_ps"])
    settle_all(data)


def _no_plan(data: Data) -> None:
    data.update(plan=None, value_ps=None, lower_bound_ps=None, status="infeasible")
    for claim in data["programs"]:
        claim.update(how="infeasible", bound_ps=None)
    for entry in data["microbatches"]:
        entry["bound_ps"] = None


#: Name -> what a forger does to a certificate, and a part of the line that says so.
FORGERIES: dict[str, tuple[Callable[[Data], None], str]] = {
    "problem digest": (_set(problem_digest="0" * 64), "problem_digest"),
    "table digest": (_set(table_digest="0" * 64), "table_digest"),
    "schema": (_set(schema="hetopt-certificate/9"), "schema"),
    "objective": (_set(objective="simulated"), "objective"),
    "unknown status": (_set(status="perfect"), "status"),
    "status without plan": (_set(status="infeasible"), "status"),
    "stage's cluster": (_stage(cluster="slow"), "plan"),
    "stage's units": (_stage(end_unit=5), "plan"),
    "stage's tp": (_stage(tp=2), "plan"),
    "stage's dp": (_stage(dp=1), "plan"),
    "stage's recomputation": (_stage(recompute="full"), "plan"),
    "stage's warm-up": (_stage(warmup=2), "plan"),
    "plan's micro-batches": (
        lambda data: data["plan"]["pipelines"][0].update(microbatches=2),
        "plan",
    ),
    "plan's schedule": (lambda data: data["plan"].update(schedule="gpipe"), "plan"),
    "plan's digest": (lambda data: data["plan"].update(table_digest="0"), "plan"),
    "no plan": (_no_plan, "plan"),
    "plan left out": (_set(plan=None), "plan"),
    "value left out": (_set(value_ps=None), "value_ps"),
    "lower value": (
        lambda data: data.update(value_ps=data["value_ps"] - 10**6),
        "value_ps",
    ),
    "worse value": (_worse, "value_ps"),
    "negative value": (_set(value_ps=-1), "value_ps"),
    "value as text": (_set(value_ps="13730747000"), "value_ps"),
    "higher bound": (
        lambda data: data.update(lower_bound_ps=data["lower_bound_ps"] + 1),
        "lower_bound_ps",
    ),
    "lower bound": (_set(lower_bound_ps=1), "lower_bound_ps"),
    "bound left out": (_set(lower_bound_ps=None), "lower_bound_ps"),
    "bound of one q": (
        lambda data: data["microbatches"][0].update(bound_ps=99),
        "microbatches.0",
    ),
    "q left out": (lambda data: data["microbatches"].pop(), "microbatches"),
    "unknown q": (
        lambda data: data["microbatches"][0].update(microbatches=3),
        "microbatches.0",
    ),
    "program left out": (lambda data: data["programs"].pop(), "programs"),
    "program twice": (
        lambda data: data["programs"].append(data["programs"][0]),
        "programs.9",
    ),
    "foreign program": (
        lambda data: data["programs"][0].update(stages=77),
        "programs.0",
    ),
    "unknown how": (_claim("solved", how="believed"), "programs.0.how"),
    "infeasible with a bound": (_claim("refuted-by-bound", how="infeasible"), "prog"),
    "refuted without a bound": (_claim("refuted-by-bound", bound_ps=None), "programs"),
    "said to have no plan": (_never, "claimed to be infeasible"),
    "searched bound too high": (_raise("refuted-by-search", 1.5), "has a plan below"),
    "relaxed bound too high": (_raise("refuted-by-bound", 2.0), "has a plan below"),
    "solved above the value": (_raise("solved", 1.01), "the plan belongs to it"),
    "another one solved": (_claim("refuted-by-search", how="solved"), "is solved"),
    "another solver": (_set(solver="mcts"), "solver: mcts, but the plan file says"),
    "optimal with an open program": (
        _claim("refuted-by-search", how="unsettled"),
        "is unsettled, but the plan is optimal",
    ),
    "refuted below the plan": (_below, "below the plan"),
    "unknown key": (_set(proof="none"), "proof: is not a known field"),
    "unknown key of a claim": (
        _claim("solved", proof="none"),
        "programs.0.proof: is not a known field",
    ),
}
#: As ``FORGERIES``, where warm-up counts are free.
FREE_FORGERIES: dict[str, tuple[Callable[[Data], None], str]] = {
    "nothing": (lambda data: None, "verified"),
    "stage's warm-up": (_stage(warmup=3), "plan"),
    "plan's schedule": (lambda data: data["plan"].update(schedule="1f1b"), "plan"),
    "said to have no plan": (_never, "claimed to be infeasible"),
    "relaxed bound too high": (_raise("refuted-by-bound", 2.0), "has a plan below"),
}
#: As ``FORGERIES``, where P4 is relaxed.
WIDE_FORGERIES: dict[str, tuple[Callable[[Data], None], str]] = {
    "nothing": (lambda data: None, "verified"),
    "wider than it was": (_set(relaxed=["p3", "p4"]), "relaxed: p3, p4, but the plan"),
    "narrower than it was": (_set(relaxed=[]), "relaxed: none, but the plan"),
    "other principle": (_set(relaxed=["p4-falling-tp"]), "relaxed: p4-falling-tp"),
    "no such principle": (_set(relaxed=["p9"]), "relaxed"),
    "principles as text": (_set(relaxed="p4"), "relaxed"),
    "principles left out": (lambda data: data.pop("relaxed"), "relaxed"),
    "said to have no plan": (_never, "claimed to be infeasible"),
    "relaxed bound too high": (_raise("refuted-by-bound", 2.0), "has a plan below"),
}
#: As ``WIDE_FORGERIES``, of simulated times.
WIDELY_SIMULATED: dict[str, tuple[Callable[[Data], None], str]] = {
    "nothing": (lambda data: None, "all of them confirmed"),
    "narrower than it was": (_set(relaxed=[]), "relaxed: none, but the plan"),
    "closed form": (_set(objective="closed"), "objective: closed, but the plan"),
    "said to have no plan": (_none_at_last, "claimed to be infeasible"),
    "all bounds too high": (_to_the_value, "follows"),
}
#: As ``FORGERIES``, of simulated times.
SIMULATED_FORGERIES: dict[str, tuple[Callable[[Data], None], str]] = {
    "nothing": (lambda data: None, "verified"),
    "objective": (_set(objective="uniap"), "objective"),
    "wider space": (_set(relaxed=["p4"]), "relaxed"),
    "worse value": (_worse, "value_ps"),
    "said to have no plan": (_never, "claimed to be infeasible"),
    "bound too high": (_raise("refuted-by-bound", 2.0), "has a plan below"),
    "solved above the value": (_raise("solved", 1.01), "the plan belongs to it"),
}
