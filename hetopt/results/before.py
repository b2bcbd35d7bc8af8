"""Results and fronts of the release before, which had no tree of claims.

They are read for one release. Before, a search branched over one thing at most: nodes
to rent (``spent``), divisions (``several``) or schedules (``schedules``).
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from hetopt.errors import InputError
from hetopt.problem.training.epsilon import written_epsilon
from hetopt.results.front import FRONT_SCHEMA

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hetopt.results.claims import Json


def renewed(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return a result or a front in today's form; anything else as it is.

    Raises
    ------
    InputError
        What it claims is not in the form of the release before.
    """
    rules = {"spent": _fleets, "several": _divisions, "schedules": _schedules}
    kept = {key: value for key, value in data.items() if key not in rules}
    if "over" in data:
        return dict(data)
    for key in (key for key in rules if key in data):
        try:
            return {**kept, **rules[key](data)}
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            msg = f"is not what releases before wrote: {error!r}"
            raise InputError(msg, field=key) from error
    return kept


def _fleets(data: Mapping[str, Any]) -> Json:
    spent = data["spent"]
    measure = "cost" if data["objective"] == "cost" else "time"
    if data["schema"] == FRONT_SCHEMA:
        measure = "front"
    limits = {name: spent[name] for name in ("budget", "min_tokens_per_s")}
    children = [
        {"at": each["nodes"], "bound_s": each["bound_s"]} for each in spent["fleets"]
    ]
    cost = spent["lower_bound"]
    return {
        "over": [{"fleets": {"measure": measure, **limits}}],
        "claims": {"by": "fleets", "of": spent["choices"], "children": children},
        **({} if cost is None else {"lower_cost": cost}),
    }


def _divisions(data: Mapping[str, Any]) -> Json:
    several = data["several"]
    children: dict[str, dict[str, Any]] = {}
    for each in several["bounds"]:
        at, bound = each["division"], {"bound_s": each["bound_s"]}
        child = children.setdefault(json.dumps(at, sort_keys=True), {"at": at})
        if len(at) == 1 or each.get("pipeline") is None:
            child.update(bound)
        else:
            part = {"pipeline": each["pipeline"], "batch": each["batch"], **bound}
            child.setdefault("parts", []).append(part)
    claims = {
        "by": "divisions",
        "of": several["divisions"],
        "children": [*children.values()],
    }
    return {"over": [{"divisions": {"most": several["most"]}}], "claims": claims}


def _schedules(data: Mapping[str, Any]) -> Json:
    """Return the claims about schedules, without those that were passed over.

    Some of these the solver could not search; that was no reason of the problem.
    """
    variants, children = [], []
    for each in data["schedules"]:
        if each["status"] == "passed-over":
            continue
        at = {
            "schedule": each["schedule"],
            "chunks": each.get("chunks", 1),
            "warmup_epsilon": written_epsilon(each),
        }
        variants.append(at)
        best, bound = each["objective_s"], each["lower_bound_s"]
        if bound is not None or each["status"] == "infeasible":
            found = {} if best is None else {"best_s": best}
            children.append({"at": at, "bound_s": bound, **found})
    claims = {"by": "schedules", "of": len(variants), "children": children}
    return {"over": [{"schedules": variants}], "claims": claims}
