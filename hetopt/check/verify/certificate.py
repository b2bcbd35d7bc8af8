"""Verify a certificate claim by claim, by code that shares nothing with the solvers.

Claims that follow from the problem, the table and the relaxation of
``check.verify.bound`` are settled here. All others are doubts, to be searched again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hetopt.base.words import counted
from hetopt.check.plan.plan import check_plan
from hetopt.check.plan.reading import (
    choice,
    choices,
    items,
    mapping,
    read_plan,
    read_principles,
    text,
    whole,
)
from hetopt.check.plan.schedule.schedules import STEPS
from hetopt.check.verify.bound import OutOfTime
from hetopt.check.verify.chunks import is_sized, of_paths
from hetopt.check.verify.findings import Doubt, Finding
from hetopt.check.verify.picoseconds import picoseconds
from hetopt.check.verify.tasks import TOO_LONG_PS, BoundsTask, Verified, make
from hetopt.cost.boundaries.places import may_share, searched_table
from hetopt.cost.table_file.file import table_digest
from hetopt.errors import CheckError, DigestError, InputError
from hetopt.problem.digest import problem_digest
from hetopt.results.certificate import CERTIFICATE_SCHEMA, PS_S
from hetopt.results.result import Objective, Status
from hetopt.results.settlement import OPTIMALITY_GAP, How

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from hetopt.check.verify.said import Said
    from hetopt.check.verify.tasks import Weak
    from hetopt.cost.table.table import CostTable
    from hetopt.problem.problem import Problem
    from hetopt.problem.training.principles import Principles

    #: Runs tasks, and yields each with its result, None after the deadline.
    Perform = Callable[[Sequence[BoundsTask]], Iterator[tuple[BoundsTask, Weak | None]]]


def not_covered(
    table: CostTable, objective: Objective, principles: Principles
) -> InputError | None:
    """Return why no certificate covers an objective; None: one does.

    Principles are relaxed, but memory depends on p, or boundaries of blocked transfers
    may share a link; or warm-up counts are free, but the time is that in closed form.
    """
    simulated = objective == "simulated"
    if STEPS[table.schedule].free and not simulated:
        msg = (
            f"no certificate covers this with {table.schedule}: plan again for the "
            "simulated time"
        )
        return InputError(msg, field="objective")
    blocked = STEPS[table.schedule].blocking and may_share(table, principles)
    if principles.relaxed and (blocked or is_sized(table)):
        msg = (
            f"no certificate covers this with {table.schedule}: plan again with all "
            "principles kept"
        )
        return InputError(msg, field="relaxed")
    return None


class CertificateCheck:
    """One certificate against its problem, table and plan.

    Parameters
    ----------
    data
        A certificate's JSON.
    said
        What the plan file says.

    Attributes
    ----------
    doubts
        Claims that need a search; complete when ``findings`` is exhausted.

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
        said: Said,
    ) -> None:
        #: Deadline on the clock of ``time.monotonic``; the function that is told the
        #: progress; and the one that runs the tasks.
        self.end: float | None = None
        self.on_progress: Callable[[int, str], None] = lambda done, what: None
        self.perform: Perform = self._perform
        self.problem = problem
        self.table = table
        self.said = said
        self.doubts: list[Doubt] = []
        choice(data, "schema", (CERTIFICATE_SCHEMA,), "")
        chosen = choice(data, "objective", ("closed", "simulated"), "")
        self.objective: Objective = "closed" if chosen == "closed" else "simulated"
        #: Whether bounds follow from paths alone.
        self.of_paths = of_paths(table, self.objective)
        self.solver = text(data, "solver", "")
        self.principles = read_principles(data)
        #: Plans are priced by ``table``; bounds and searches use this one.
        self.searched = self._searched_table()
        self.status = choice(data, "status", choices(Status), "")
        self.digests = {
            key: text(data, key, "") for key in ("problem_digest", "table_digest")
        }
        self.value = picoseconds(data, "value_ps", "")
        self.lower_bound = picoseconds(data, "lower_bound_ps", "")
        claimed = data.get("plan")
        self.claimed = None if claimed is None else read_plan(claimed, "plan")
        if self.claimed is not None and len(self.claimed.pipelines) > 1:
            there_are = counted(len(self.claimed.pipelines), "pipeline")
            msg = f"has {there_are}, expected one"
            raise InputError(msg, field="plan.pipelines")
        self.by_count: list[tuple[str, int, int | None]] = []
        for place, item in items(data, "microbatches", ""):
            entry = mapping(item, place)
            count = whole(entry, "microbatches", place)
            self.by_count.append((place, count, picoseconds(entry, "bound_ps", place)))
        self.claims: list[tuple[str, int, int, str, int | None]] = []
        for place, item in items(data, "programs", ""):
            entry = mapping(item, place)
            self.claims.append(
                (
                    place,
                    whole(entry, "stages", place),
                    whole(entry, "microbatches", place),
                    choice(entry, "how", choices(How), place),
                    picoseconds(entry, "bound_ps", place),
                )
            )

    def _searched_table(self) -> CostTable:
        """Return ``searched``; raises InputError if no certificate covers the table."""
        uncovered = not_covered(self.table, self.objective, self.principles)
        if uncovered is not None:
            raise uncovered
        if self.table.layout is not None:
            return self.table
        simulated = self.objective == "simulated"
        return searched_table(self.table, self.principles, simulated=simulated)

    def findings(self) -> Iterator[Finding]:
        """Yield every claim that does not hold.

        Cheap checks come first; if one of them fails, no bound is derived.
        """
        cheap = [
            *self._digests(),
            *self._beside_the_plan_file(),
            *self._value(),
            *self._coverage(),
            *self._sums(),
            *self._plans_program(),
        ]
        yield from cheap
        if not cheap:
            self._bounds()

    # --- each family of claims ------------------------------------------------------

    def _digests(self) -> Iterator[Finding]:
        expected = {
            "problem_digest": problem_digest(self.problem),
            "table_digest": table_digest(self.table),
        }
        for key, digest in expected.items():
            if self.digests[key] != digest:
                what = key.removesuffix("_digest")
                yield Finding(key, f"{self.digests[key]}, but the {what} has {digest}")

    def _beside_the_plan_file(self) -> Iterator[Finding]:
        """Compare with what the plan file says of the same answer."""
        said = self.said
        if self.claimed != said.plan:
            yield Finding("plan", "is not the plan of the plan file")
        relaxed = None if said.relaxed is None else _listed(said.relaxed)
        for field, claimed, other in (
            ("objective", self.objective, said.objective),
            ("relaxed", _listed(self.principles.relaxed), relaxed),
            ("solver", self.solver, said.solver),
            ("status", self.status, said.status),
        ):
            if other is not None and claimed != other:
                yield Finding(field, f"{claimed}, but the plan file says {other}")
        if said.lower_bound_s is None:
            return
        bound_ps = said.lower_bound_s / PS_S
        if self.lower_bound is None or bound_ps > self.lower_bound * (1 + 1e-9) + 2:
            yield Finding(
                "lower_bound_ps",
                f"{self.lower_bound}, but the plan file claims {said.lower_bound_s} s",
            )

    def _value(self) -> Iterator[Finding]:
        if self.claimed is None:
            if self.value is not None:
                yield Finding("value_ps", f"{self.value}, but there is no plan")
            return
        if self.value is None:
            yield Finding("value_ps", "is null, but there is a plan")
            return
        try:
            checked = check_plan(
                self.problem, self.table, self.claimed, self.principles
            )
        except CheckError as error:
            for finding in error.findings:
                yield Finding("plan", finding)
            return
        except (DigestError, InputError) as error:
            yield Finding("plan", error.message)
            return
        simulated = self.objective == "simulated"
        time_s = checked.iteration_time_s if simulated else checked.closed_form_s
        exact = time_s / PS_S
        # Each of q v - 1 periods, and the rest, were rounded up to whole picoseconds.
        passes = self.claimed.pipeline.microbatches * self.table.chunks
        slack = passes + 1 + 1e-9 * exact
        if abs(self.value - exact) > slack:
            yield Finding("value_ps", f"{self.value}, but the plan takes {exact:.0f}")

    def _coverage(self) -> Iterator[Finding]:
        expected = {
            (p, q)
            for q in self.problem.microbatch_counts
            for p in self.problem.stage_counts
            if (self.table.chunks == 1 or (p > 1 and q % p == 0))
            and (self.table.pairs is None or q > p)
        }
        seen: set[tuple[int, int]] = set()
        for place, p, q, how, bound in self.claims:
            if (p, q) in seen:
                yield Finding(place, f"({p}, {q}) is listed twice")
            seen.add((p, q))
            if (p, q) not in expected:
                yield Finding(place, f"({p}, {q}) is not a (p, q) of the problem")
            if (bound is None) != (how == "infeasible"):
                yield Finding(place, f"({p}, {q}) is {how} with bound {bound}")
        missing = sorted(expected - seen)
        for p, q in missing[:3]:
            yield Finding("programs", f"({p}, {q}) is missing")
        if len(missing) > 3:
            yield Finding("programs", f"{len(missing)} are missing")

    def _sums(self) -> Iterator[Finding]:
        """Check the least bounds, by q and of all, and the status."""
        least: dict[int, int | None] = {}
        for _, _, q, _, bound in self.claims:
            known = least.setdefault(q, None)
            least[q] = min((b for b in (known, bound) if b is not None), default=None)
        for place, q, bound in self.by_count:
            if least.pop(q, -1) != bound:
                yield Finding(place, f"{bound} is not the least bound of q = {q}")
        for q in least:
            yield Finding("microbatches", f"{q} is missing")
        bounds = [bound for *_, bound in self.claims if bound is not None]
        expected = min(
            [*bounds, *([] if self.value is None else [self.value])], default=None
        )
        if self.lower_bound != expected:
            yield Finding(
                "lower_bound_ps",
                f"{self.lower_bound}, but the programs give {expected}",
            )
        yield from self._status()

    def _status(self) -> Iterator[Finding]:
        open_ = [how for _, _, _, how, _ in self.claims if how != "infeasible"]
        if self.value is None:
            if self.status in ("optimal", "feasible"):
                yield Finding("status", f"{self.status}, but there is no plan")
            elif self.status == "infeasible" and open_:
                yield Finding(
                    "status", f"infeasible, but not {counted(len(open_), 'program')}"
                )
            return
        gap = (self.value - (self.lower_bound or 0)) / max(self.value, 1)
        if self.status not in ("optimal", "feasible"):
            yield Finding("status", f"{self.status}, but there is a plan")
        elif self.status == "optimal" and gap > OPTIMALITY_GAP:
            yield Finding("status", f"optimal, but the bounds leave {gap:.2%}")

    def _plans_program(self) -> Iterator[Finding]:
        """Check the claims about programs against the plan."""
        solved = None
        if self.claimed is not None:
            pipeline = self.claimed.pipeline
            solved = (len(pipeline.stages), pipeline.microbatches)
        for place, p, q, how, bound in self.claims:
            if (p, q) == solved and (
                how == "infeasible"
                or (bound is not None and self.value is not None and bound > self.value)
            ):
                message = f"({p}, {q}) is {how}, but the plan belongs to it"
                yield Finding(place, message)
            elif how == "solved" and (p, q) != solved and self.status == "optimal":
                yield Finding(place, f"({p}, {q}) is solved, but has no plan here")
            elif self.value is not None:
                yield from self._label(place, (p, q), how, bound)

    def _label(
        self, place: str, program: tuple[int, int], how: str, bound: int | None
    ) -> Iterator[Finding]:
        """Yield a finding if a bound contradicts how the program was settled."""
        assert self.value is not None
        below = bound is not None and bound < self.value * (1 - OPTIMALITY_GAP) - 2
        if how == "unsettled" and self.status == "optimal":
            message = f"{program} is unsettled, but the plan is optimal"
            yield Finding(place, message)
        elif how not in ("unsettled", "infeasible") and below:
            message = f"{program} is {how}, but bounded by {bound}, below the plan"
            yield Finding(place, message)

    def _bounds(self) -> None:
        """Derive bounds again; claims that do not follow become doubts."""
        known = {part.microbatches for part in self.table.slices}
        length = sum(self.table.body[kind] for kind in self.table.units)
        by_count: dict[int, dict[int, int]] = {}
        for _, p, q, _, bound in self.claims:
            # No plan has more stages than body units, but where cuts are pinned, or a q
            # without any strategy.
            most = p if self.table.layout is not None else length
            if q in known and p <= most and bound != 0:
                by_count.setdefault(q, {})[p] = TOO_LONG_PS if bound is None else bound
        weak: dict[tuple[int, int], tuple[tuple[int, int], ...] | None] = {}
        tasks = [
            BoundsTask(q, group)
            for q, bounds in by_count.items()
            for group in _alike(bounds)
        ]
        done = 0
        for task, found in self.perform(tasks):
            if found is None:
                raise OutOfTime
            q = task.microbatches
            weak |= {(p, q): ranges for p, ranges in found.items()}
            done += len(task.bounds)
            self.on_progress(done, "bounds derived again")
        for place, p, q, how, bound in self.claims:
            if (p, q) in weak:
                self.doubts.append(
                    Doubt(
                        field=place,
                        stages=p,
                        microbatches=q,
                        bound_ps=bound,
                        always=how != "refuted-by-search",
                        ranges=weak[p, q],
                    )
                )

    def verified(self) -> Verified:
        """Return what all tasks need."""
        return Verified(
            problem=self.problem,
            table=self.table,
            searched=self.searched,
            principles=self.principles,
            objective=self.objective,
            end=self.end,
        )

    def _perform(
        self, tasks: Sequence[BoundsTask]
    ) -> Iterator[tuple[BoundsTask, Weak | None]]:
        run = make([self.verified()], None, lambda content: None)
        return ((task, run((0, task))) for task in tasks)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names) or "none"


def _alike(bounds: Mapping[int, int]) -> list[dict[int, int]]:
    """Split bounds into finite ones and those that claim that there is no plan."""
    finite = {p: bound for p, bound in bounds.items() if bound < TOO_LONG_PS}
    never = {p: bound for p, bound in bounds.items() if bound >= TOO_LONG_PS}
    return [group for group in (finite, never) if group]
