"""A certificate: a claim about every (p, q), so that anyone can verify it.

Times are whole picoseconds. The *value* of a plan is its closed form, with the period
lambda and the rest rounded up to whole picoseconds, or its simulated time if that is
the objective. No plan of a program has a smaller value than the program's bound. In one
certificate

- ``solved`` is the program of the plan, bounded by the plan's value;
- ``refuted-by-bound`` follows from the relaxation of each cluster alone;
- ``refuted-by-search`` is a claim of ``solver`` (for simulated times: of the search of
  ``--objective simulated``): to verify it, the program has to be solved again;
- ``infeasible`` programs have no plan at all, and no bound;
- ``unsettled`` programs have a bound only.

For the same problem, table and optimal plan the certificate is always the same, even if
programs were settled in another order.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from hetopt.base.fields import Count, Digest, Whole
from hetopt.base.file_record import ALWAYS, As, FileRecord
from hetopt.plans.plan import Plan
from hetopt.problem.training.principles import Relaxable
from hetopt.results.claims import Json, Node, Over
from hetopt.results.result import Status, Time
from hetopt.results.settlement import How

CERTIFICATE_SCHEMA = "hetopt-certificate/1"
#: Of a search that branched: its tree of claims (``hetopt.results.claims``), in which
#: claims without children have, instead of a bound, the certificate of their problem.
#: Without one, only device time counts.
TREE_SCHEMA = "hetopt-certificate/2"
#: Seconds in a picosecond, the unit of every claim.
PS_S = 1e-12
#: Data that needs more characters is divided into lines.
_LONGEST_LINE = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim(FileRecord):
    """The claim about one (p, q).

    Attributes
    ----------
    bound_ps
        Lower bound on the value of its plans; None if it has none.
    """

    stages: Count
    microbatches: Count
    how: How
    bound_ps: Whole | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LeastBound(FileRecord):
    """The least bound of a micro-batch count; None if it has no plan."""

    microbatches: Count
    bound_ps: Whole | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate(FileRecord):
    """What is claimed of every (p, q), for ``hetopt verify``.

    Attributes
    ----------
    solver
        Solver of the programs for which a bound did not suffice.
    relaxed
        Principles that plans need not keep; every claim holds for the space without
        them.
    plan, value_ps
        The best plan found and its value; None if there is none.
    lower_bound_ps
        Least bound of all programs, at most the value; None if all are infeasible.
    programs
        One claim per (p, q) of the problem, ascending by q, then p.
    """

    SCHEMA: ClassVar[str] = CERTIFICATE_SCHEMA
    KEYS: ClassVar[tuple[str, ...]] = (
        *("problem_digest", "table_digest", "solver", "objective", "relaxed"),
        *("status", "value_ps", "lower_bound_ps", "plan", "microbatches", "programs"),
    )

    problem_digest: Digest
    table_digest: Digest
    solver: str
    objective: Annotated[Time, ALWAYS] = "closed"
    relaxed: Annotated[tuple[Relaxable, ...], ALWAYS] = ()
    status: Status
    value_ps: Whole | None
    lower_bound_ps: Whole | None
    plan: Plan | None
    programs: tuple[Claim, ...]

    def to_text(self) -> str:
        """Return the text of its file."""
        return certificate_text(self.to_json()) + "\n"

    @property
    def microbatches(self) -> tuple[LeastBound, ...]:
        """The least bound by micro-batch count."""
        least: dict[int, int | None] = {}
        for claim in self.programs:
            known = least.setdefault(claim.microbatches, None)
            if claim.bound_ps is not None:
                least[claim.microbatches] = (
                    claim.bound_ps if known is None else min(known, claim.bound_ps)
                )
        return tuple(
            LeastBound(microbatches=count, bound_ps=bound)
            for count, bound in least.items()
        )


class CertifiedClaim(Node, total=False):
    """What is claimed of a node; see ``Claim``.

    Attributes
    ----------
    certificate
        Of this problem, whose lower bound is claimed; without one only device time
        counts.
    """

    certificate: Certificate
    children: list[CertifiedClaim]
    parts: list[CertifiedClaim]


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeCertificate(FileRecord):
    """What the bound of a result follows from, for ``hetopt verify``.

    Attributes
    ----------
    over
        What the search branched over, from the root of ``claims`` down.
    """

    SCHEMA: ClassVar[str] = TREE_SCHEMA

    problem_digest: Digest
    table_digest: Digest
    over: Over
    plan: Plan | None
    claims: Annotated[Json, As(CertifiedClaim)] | None

    def to_text(self) -> str:
        """Return the text of its file."""
        return certificate_text(self.to_json()) + "\n"


def certificate_text(value: Any, indent: str = "") -> str:
    """Return a certificate as JSON text, so that every claim is on a line of its own.

    Parameters
    ----------
    indent
        Spaces before the line that it begins in.
    """
    line = json.dumps(value, allow_nan=False)
    if not isinstance(value, (list, dict)) or (indent and len(line) <= _LONGEST_LINE):
        return line
    inner = indent + " "
    if isinstance(value, list):
        (begin, end), parts = "[]", [certificate_text(item, inner) for item in value]
    else:
        begin, end = "{}"
        parts = [
            f"{json.dumps(key)}: {certificate_text(item, inner)}"
            for key, item in value.items()
        ]
    return f",\n{inner}".join(parts).join((f"{begin}\n{inner}", f"\n{indent}{end}"))
