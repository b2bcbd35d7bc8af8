"""Verify a certificate claim by claim, by code that shares nothing with the solvers.

What follows from the problem, the table and the relaxation of ``check.bound`` is
settled here. What rests on a search is left over, to be searched again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hetopt.certificate import CERTIFICATE_SCHEMA, PS_S
from hetopt.check.bound import PS_PER_NS, unproven
from hetopt.check.plan import check_plan
from hetopt.check.reading import (
    choice,
    choices,
    items,
    mapping,
    read_plan,
    read_principles,
    text,
    whole,
)
from hetopt.cost.table import LONGEST_NS, LONGEST_S
from hetopt.cost.table_file import table_digest
from hetopt.errors import CheckError, DigestError, InputError
from hetopt.problem.digest import problem_digest
from hetopt.result import OPTIMALITY_GAP, How, Status

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from hetopt.cost.table import CostTable
    from hetopt.plan import Plan
    from hetopt.problem.problem import Problem
    from hetopt.result import Objective


#: What every plan of a program takes at least that has none, in ps.
_TOO_LONG = PS_PER_NS * LONGEST_NS + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A claim that does not hold; ``field`` leads to it, as in ``programs.3``."""

    field: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Doubt:
    """A claim that only a search can confirm.

    Attributes
    ----------
    bound_ps
        None when the program is claimed to have no plan at all.
    by_bound
        Whether a relaxation is said to prove it, though ours does not.
    """

    field: str
    stages: int
    microbatches: int
    bound_ps: int | None
    by_bound: bool


class CertificateCheck:
    """One certificate against its problem, table and plan.

    Parameters
    ----------
    data
        A certificate's JSON.
    plan
        The plan that the certificate is said to be about; None if there is none.
    relaxed
        The principles that it need not keep, where its file says so.
    sought
        What its file says was minimised, where it says so.

    Attributes
    ----------
    doubts
        What is left after ``findings`` was exhausted.

    Raises
    ------
    InputError
        The data is not a certificate; the field names the key.
    """

    def __init__(
        self,
        problem: Problem,
        table: CostTable,
        data: Mapping[str, Any],
        plan: Plan | None,
        relaxed: tuple[str, ...] | None = None,
        sought: Objective | None = None,
    ) -> None:
        self.problem = problem
        self.table = table
        self.plan = plan
        self.doubts: list[Doubt] = []
        choice(data, "schema", (CERTIFICATE_SCHEMA,), "")
        chosen = choice(data, "objective", ("closed", "simulated"), "")
        self.objective: Objective = "closed" if chosen == "closed" else "simulated"
        self.solver = text(data, "solver", "")
        self.principles = read_principles(data)
        self.relaxed = relaxed
        self.sought = sought
        if self.objective == "simulated" and self.principles.relaxed:
            msg = "the least simulated time is sought with all principles kept"
            raise InputError(msg, field="relaxed")
        self.status = choice(data, "status", choices(Status), "")
        self.digests = {
            key: text(data, key, "") for key in ("problem_digest", "table_digest")
        }
        self.value = _ps(data, "value_ps", "")
        self.lower_bound = _ps(data, "lower_bound_ps", "")
        claimed = data.get("plan")
        self.claimed = None if claimed is None else read_plan(claimed, "plan")
        self.by_count: list[tuple[str, int, int | None]] = []
        for place, item in items(data, "microbatches", ""):
            entry = mapping(item, place)
            count = whole(entry, "microbatches", place)
            self.by_count.append((place, count, _ps(entry, "bound_ps", place)))
        self.claims: list[tuple[str, int, int, str, int | None]] = []
        for place, item in items(data, "programs", ""):
            entry = mapping(item, place)
            self.claims.append(
                (
                    place,
                    whole(entry, "stages", place),
                    whole(entry, "microbatches", place),
                    choice(entry, "how", choices(How), place),
                    _ps(entry, "bound_ps", place),
                )
            )

    def findings(self) -> Iterator[Finding]:
        """Yield every claim that does not hold."""
        yield from self._digests()
        yield from self._value()
        yield from self._coverage()
        yield from self._sums()
        yield from self._bounds()

    # --- each family of claims ------------------------------------------------------

    def _digests(self) -> Iterator[Finding]:
        expected = {
            "problem_digest": problem_digest(self.problem),
            "table_digest": table_digest(self.table),
        }
        for key, digest in expected.items():
            if self.digests[key] != digest:
                what = key.removesuffix("_digest")
                yield Finding(
                    field=key,
                    message=f"{self.digests[key]}, but the {what} has {digest}",
                )
        if self.sought is not None and self.objective != self.sought:
            yield Finding(
                field="objective",
                message=f"{self.objective}, but the plan file says {self.sought}",
            )
        claimed = self.principles.relaxed
        if self.relaxed is not None and claimed != self.relaxed:
            yield Finding(
                field="relaxed",
                message=f"{_listed(claimed)}, but the plan file says "
                f"{_listed(self.relaxed)}",
            )

    def _value(self) -> Iterator[Finding]:
        if self.claimed != self.plan:
            yield Finding(field="plan", message="is not the plan of the plan file")
        if self.claimed is None:
            if self.value is not None:
                yield Finding(
                    field="value_ps", message=f"{self.value}, but there is no plan"
                )
            return
        if self.value is None:
            yield Finding(field="value_ps", message="is null, but there is a plan")
            return
        try:
            checked = check_plan(
                self.problem, self.table, self.claimed, self.principles
            )
        except CheckError as error:
            for finding in error.findings:
                yield Finding(field="plan", message=finding)
            return
        except (DigestError, InputError) as error:
            yield Finding(field="plan", message=error.message)
            return
        simulated = self.objective == "simulated"
        time_s = checked.iteration_time_s if simulated else checked.closed_form_s
        exact = time_s / PS_S
        # Each of q - 1 periods and the rest were rounded up to a whole one.
        slack = self.claimed.pipeline.microbatches + 1 + 1e-9 * exact
        if abs(self.value - exact) > slack:
            yield Finding(
                field="value_ps",
                message=f"{self.value}, but the plan takes {exact:.0f}",
            )

    def _coverage(self) -> Iterator[Finding]:
        expected = {
            (p, q)
            for q in self.problem.microbatch_counts
            for p in self.problem.stage_counts
        }
        seen: set[tuple[int, int]] = set()
        for place, p, q, how, bound in self.claims:
            if (p, q) in seen:
                yield Finding(field=place, message=f"({p}, {q}) stands here again")
            seen.add((p, q))
            if (p, q) not in expected:
                yield Finding(
                    field=place, message=f"({p}, {q}) is no (p, q) of the problem"
                )
            if (bound is None) != (how == "infeasible"):
                yield Finding(
                    field=place, message=f"({p}, {q}) is {how} with bound {bound}"
                )
        missing = sorted(expected - seen)
        for p, q in missing[:3]:
            yield Finding(field="programs", message=f"({p}, {q}) is missing")
        if len(missing) > 3:
            yield Finding(field="programs", message=f"{len(missing)} are missing")

    def _sums(self) -> Iterator[Finding]:
        """Check what follows from the claims one by one."""
        least: dict[int, int | None] = {}
        for _, _, q, _, bound in self.claims:
            known = least.setdefault(q, None)
            least[q] = min((b for b in (known, bound) if b is not None), default=None)
        for place, q, bound in self.by_count:
            if least.pop(q, -1) != bound:
                yield Finding(
                    field=place, message=f"{bound} is not the least bound of q = {q}"
                )
        for q in least:
            yield Finding(field="microbatches", message=f"{q} is missing")
        bounds = [bound for *_, bound in self.claims if bound is not None]
        expected = min(
            [*bounds, *([] if self.value is None else [self.value])], default=None
        )
        if self.lower_bound != expected:
            yield Finding(
                field="lower_bound_ps",
                message=f"{self.lower_bound}, but the programs give {expected}",
            )
        yield from self._status()

    def _status(self) -> Iterator[Finding]:
        open_ = [how for _, _, _, how, _ in self.claims if how != "infeasible"]
        if self.value is None:
            if self.status in ("optimal", "feasible"):
                yield Finding(
                    field="status", message=f"{self.status}, but there is no plan"
                )
            elif self.status == "infeasible" and open_:
                yield Finding(
                    field="status",
                    message=f"infeasible, but {len(open_)} programs are not",
                )
            return
        gap = (self.value - (self.lower_bound or 0)) / max(self.value, 1)
        if self.status not in ("optimal", "feasible"):
            yield Finding(field="status", message=f"{self.status}, but there is a plan")
        elif self.status == "optimal" and gap > OPTIMALITY_GAP:
            yield Finding(
                field="status", message=f"optimal, but the bounds leave {gap:.2%}"
            )

    def _bounds(self) -> Iterator[Finding]:
        """Derive bounds again; what a search claims goes to the doubts."""
        solved = None
        if self.claimed is not None:
            pipeline = self.claimed.pipeline
            solved = (len(pipeline.stages), pipeline.microbatches)
        weak = self._weak()
        for place, p, q, how, bound in self.claims:
            if (p, q) == solved and (
                how == "infeasible"
                or (bound is not None and self.value is not None and bound > self.value)
            ):
                yield Finding(
                    field=place, message=f"({p}, {q}) is {how}, but the plan is of it"
                )
            elif how == "solved" and (p, q) != solved and self.status == "optimal":
                yield Finding(
                    field=place, message=f"({p}, {q}) is solved, but has no plan here"
                )
            elif place in weak:
                self.doubts.append(
                    Doubt(
                        field=place,
                        stages=p,
                        microbatches=q,
                        bound_ps=bound,
                        by_bound=how not in ("solved", "refuted-by-search"),
                    )
                )

    def _weak(self) -> set[str]:
        """Return the places of claims that the relaxation does not prove."""
        known = {part.microbatches for part in self.table.slices}
        length = sum(self.table.body[kind] for kind in self.table.units)
        by_count: dict[int, dict[int, int]] = {}
        places: dict[tuple[int, int], str] = {}
        for place, p, q, _, bound in self.claims:
            # More stages than body units, or no strategy at all: there is no plan.
            if q in known and p <= length and bound != 0:
                by_count.setdefault(q, {})[p] = _TOO_LONG if bound is None else bound
                places[p, q] = place
        weak = set()
        for q, bounds in by_count.items():
            for group in _alike(bounds):
                # What has no plan is too slow in closed form, whatever is minimised.
                never = min(group.values()) >= _TOO_LONG
                failed = unproven(
                    self.problem,
                    self.table,
                    q,
                    group,
                    self.principles,
                    "closed" if never else self.objective,
                )
                weak |= {places[p, q] for p in failed}
        return weak


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names) or "none"


def _alike(bounds: Mapping[int, int]) -> list[dict[int, int]]:
    """Split into those with a bound and those without a plan."""
    finite = {p: bound for p, bound in bounds.items() if bound < _TOO_LONG}
    never = {p: bound for p, bound in bounds.items() if bound >= _TOO_LONG}
    return [group for group in (finite, never) if group]


def _ps(data: Mapping[str, Any], key: str, field: str) -> int | None:
    """Return a number of picoseconds, or None."""
    place = f"{field}.{key}" if field else key
    if key not in data:
        raise InputError("is missing", field=place)
    value = data[key]
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise InputError(
            f"{value!r} is not a whole number of picoseconds or null", field=place
        )
    if value >= _TOO_LONG:
        raise InputError(
            f"is more than {_TOO_LONG - 1}, the {LONGEST_S} s that an iteration may "
            "take",
            field=place,
        )
    return value
