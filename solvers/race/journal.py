"""A file that keeps every settled program and every plan of a race.

One JSON object per line. The first one identifies the race; a later one is a plan
(``decision``, ``value``) or a settled program (``stages``, ``microbatches``, ``how``,
``bound``); values and bounds are whole picoseconds. A line is appended as soon as it is
known, so a race that is killed leaves at most one incomplete line, which the next run
cuts off. A bound is valid whichever solver proved it, so a race may be resumed with
another solver, seed or number of jobs.

For human readers, every later line also has the progress of the race: ``elapsed_s``
including earlier runs, and ``incumbent_s`` and ``lower_bound_s`` of the objective.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, get_args

from hetopt.base.line_file import LineFile
from hetopt.base.reading import MIB
from hetopt.base.words import describe
from hetopt.cost.table_file.file import table_digest
from hetopt.errors import HetoptError, InputError
from hetopt.formulations.decision import Decision
from hetopt.plans.strategy import Strategy
from hetopt.pricing.price import pipeline_times
from hetopt.results.settlement import How
from hetopt.solvers.decisions.assembly import plan_of, value_of
from hetopt.solvers.race.messages import Found

if TYPE_CHECKING:
    from hetopt.base.deadline import Deadline
    from hetopt.cost.table.table import CostTable
    from hetopt.problem.training.choices import Recompute
    from hetopt.problem.training.principles import Principles
    from hetopt.solvers.race.ledger import Ledger, Program

JOURNAL_SCHEMA = "hetopt-journal/1"

_WHAT = "a journal"
#: About a hundred thousand lines.
MOST_BYTES = 32 * MIB


class Journal:
    """The journal of one race, open for appending.

    Parameters
    ----------
    path
        Created if it does not exist.
    ledger
        Gets the plans and bounds in the file.
    deadline
        Its clock times the race.

    Raises
    ------
    InputError
        The file is the journal of another race, or no journal.
    """

    def __init__(
        self,
        path: str,
        ledger: Ledger,
        table: CostTable,
        principles: Principles,
        deadline: Deadline,
    ) -> None:
        self._path = path
        self._table = table
        self._ledger = ledger
        self._deadline = deadline
        #: Seconds that earlier runs took.
        self._before_s = 0.0
        header = {
            "schema": JOURNAL_SCHEMA,
            "problem_digest": table.problem_digest,
            "table_digest": table_digest(table),
            "top": ledger.top,
            "relaxed": list(principles.relaxed),
            "limit": ledger.limit,
        }
        self._file = LineFile(path, _WHAT, MOST_BYTES)
        try:
            self._resume(header, ledger)
        except BaseException:
            self.close()
            raise

    def found(self, found: Found) -> None:
        """Append a plan."""
        self._append({"decision": _to_json(found.decision), "value": found.value})

    def settled(self, program: Program) -> None:
        """Append how a program was settled, unless it is unsettled."""
        if program.how not in (None, "unsettled"):
            self._append(
                {
                    "stages": program.stages,
                    "microbatches": program.microbatches,
                    "how": program.how,
                    "bound": program.bound,
                }
            )

    def _append(self, entry: dict[str, Any]) -> None:
        """Append a line, with the progress of the race."""
        now = self._ledger.progress(self._before_s + self._deadline.elapsed_s())
        self._file.append(
            {
                **entry,
                "elapsed_s": round(now.elapsed_s, 3),
                "incumbent_s": now.incumbent_s,
                "lower_bound_s": now.bound_s,
            }
        )

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    @property
    def failure(self) -> InputError | None:
        """Why no more lines can be written, or None; the race goes on without them."""
        return self._file.failure

    def _resume(self, header: dict[str, Any], ledger: Ledger) -> None:
        for number, entry in self._file.resume(header):
            try:
                self._take(entry, ledger)
            except (
                HetoptError,
                ArithmeticError,
                AttributeError,
                LookupError,
                TypeError,
                ValueError,
            ) as error:
                raise self._file.wrong(number, error) from error

    def _take(self, entry: Any, ledger: Ledger) -> None:
        """Put the content of a line into the ledger."""
        self._before_s = float(entry.get("elapsed_s", self._before_s))
        if "decision" in entry:
            decision = _from_json(entry["decision"])
            value = value_of(
                pipeline_times(plan_of(decision, self._table, ""), self._table)
            )
            if value != entry["value"]:
                msg = (
                    f"the plan has value {value}, but the line says {entry['value']!r}"
                )
                raise ValueError(msg)
            ledger.find(Found(decision=decision, value=value))
            return
        program = ledger.programs[entry["stages"], entry["microbatches"]]
        bound = entry["bound"]
        whole = isinstance(bound, int) and 0 <= bound < 2**63
        if entry["how"] not in get_args(How) or not whole:
            msg = f"how {describe(entry['how'])} with bound {describe(bound)}"
            raise ValueError(msg)
        program.how, program.bound = entry["how"], max(program.bound, bound)


def _to_json(decision: Decision) -> dict[str, Any]:
    return {
        "microbatches": decision.microbatches,
        "order": list(decision.order),
        "strategies": [
            [
                *(strategy.dp, strategy.cp, strategy.tp, strategy.recompute),
                *((strategy.ep, strategy.etp) if strategy.has_expert_degrees else ()),
            ]
            for strategy in decision.strategies
        ],
        "hosted": list(decision.hosted),
        "units": list(decision.units),
    }


def _from_json(data: dict[str, Any]) -> Decision:
    return Decision(
        microbatches=data["microbatches"],
        order=tuple(data["order"]),
        strategies=tuple(
            _strategy_from_json(*numbers) for numbers in data["strategies"]
        ),
        hosted=tuple(data["hosted"]),
        units=tuple(data["units"]),
    )


def _strategy_from_json(
    dp: int, cp: int, tp: int, recompute: Recompute, ep: int = 1, etp: int = 1
) -> Strategy:
    """Return a strategy; its expert degrees are given only if one of them is not 1."""
    return Strategy(dp=dp, cp=cp, tp=tp, ep=ep, etp=etp, recompute=recompute)
