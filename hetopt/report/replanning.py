"""The report of ``hetopt replan``: the next plan, its moves, and when they pay."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, ClassVar

from hetopt.base.fields import Count, NotNegative, Positive, Seconds, Whole
from hetopt.base.file_record import FileRecord
from hetopt.base.words import counted
from hetopt.plans.plan import Plan
from hetopt.replanning.layouts import device_names, layout_of
from hetopt.replanning.moves import CHECKPOINT
from hetopt.report.drawing.sheet import labelled, sheet
from hetopt.report.plan_report import stage_table
from hetopt.report.summary import gap_text, share_line
from hetopt.results.result import Status

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hetopt.problem.cluster.nodes import Device
    from hetopt.replanning.replan import Candidate, Change, Replanned
    from hetopt.report.drawing.sheet import Part

_GB = 1e9


def replan_report(found: Replanned, change: Change) -> list[Part]:
    """Return what ``hetopt replan`` prints if there is a next plan."""
    best = found.candidates[0]
    plan = best.priced.plan
    parts: list[Part] = []
    for number, pipeline in enumerate(plan.pipelines):
        if len(plan.pipelines) > 1:
            parts.append(share_line(number, pipeline))
        parts.append(stage_table(plan.alone(number)))
        parts.append(
            sheet(
                ("stage", "runs on"),
                (
                    (str(stage), _spelled(devices))
                    for stage, devices in enumerate(best.layout[number])
                ),
                left=("runs on",),
            )
        )
    if best.moves.rows:
        parts.append(
            sheet(
                ("sender", "in its node GB", "beyond GB"),
                (
                    (name, f"{inside / _GB:.3f}", f"{beyond / _GB:.3f}")
                    for name, (inside, beyond) in best.moves.sent.items()
                ),
                left=("sender",),
            )
        )
    parts.append(labelled(_lines(found, change, best)))
    return parts


def _lines(
    found: Replanned, change: Change, best: Candidate
) -> Iterator[tuple[str, str]]:
    time_s = best.priced.closed_form_s
    yield (
        "next plan",
        f"{time_s:.4f} s an iteration in closed form, "
        f"{best.priced.iteration_time_s:.4f} s simulated",
    )
    yield "moves", _moved(best, change)
    pays = found.pays_after
    after = "at once" if pays <= 1 else f"from {counted(pays, 'iteration')} on"
    others = len(found.candidates) - 1
    if others:
        yield "pays", f"{after}, compared with {counted(others, 'other plan')}"
    if found.checkpoint_s is not None:
        whole = found.checkpoint_s + change.restart_s
        yield (
            "restart instead",
            f"{whole:.3f} s to read everything from the checkpoint, "
            f"{(whole - best.change_s) / time_s:.1f} iterations more than these moves; "
            "iterations since the checkpoint are lost, too",
        )
    yield (
        "in all",
        f"{best.total_s:.3f} s for {counted(change.iterations, 'iteration')} and the "
        "change",
    )
    if found.bound_s is not None and found.gap is not None:
        yield (
            "lower bound",
            f"{found.bound_s:.3f} s: no plan saves more than {gap_text(found.gap)}",
        )
    first = (
        "" if found.first_s is None else f", the first plan in {found.first_s:.1f} s"
    )
    yield "search", f"{found.result.search_time_s:.1f} s{first}"


def _moved(best: Candidate, change: Change) -> str:
    moves = best.moves
    if not moves.rows:
        return "none: every device has what it needs"
    text = f"{moves.bytes / _GB:.1f} GB in at least {moves.seconds:.3f} s"
    if change.restart_s:
        text += f", and {change.restart_s:g} s for the change itself"
    stored = sum(moves.sent.get(CHECKPOINT, ()))
    if stored:
        text += (
            f"; {stored / _GB:.1f} GB are on no remaining device and are read from the "
            "checkpoint, which has to be of the last iteration"
        )
    return text


def _spelled(devices: Sequence[Device]) -> str:
    """Return the devices of a stage host by host, such as ``a:0-3, b:0,2``."""
    parts = []
    for host, own in groupby(devices, key=lambda device: device.host):
        numbers = [device.number for device in own]
        runs: list[list[int]] = []
        for number in numbers:
            if runs and number == runs[-1][-1] + 1:
                runs[-1].append(number)
            else:
                runs.append([number])
        spelled = ",".join(
            str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs
        )
        parts.append(f"{host}:{spelled}")
    return ", ".join(parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedPlan(FileRecord):
    """A plan that was compared, and what its moves take."""

    closed_form_s: Positive
    iteration_time_s: Positive
    move_s: Seconds
    moved_bytes: Whole
    total_s: Positive


@dataclass(frozen=True, slots=True, kw_only=True)
class Sender(FileRecord):
    """Bytes that a device, or the checkpoint, sends within its node and beyond."""

    sender: str
    inside_bytes: Whole
    beyond_bytes: Whole


#: By pipeline and stage, the device of every rank.
_Ranks = tuple[tuple[tuple[str, ...], ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NextPlan(FileRecord):
    """What ``hetopt replan --json`` prints: the next plan, its moves.

    Attributes
    ----------
    status
        Of the plan's iteration time, as in its result.
    total_s
        All iterations, the moves and the restart.
    lower_bound_s
        Of the total of every plan.
    pays_after
        Iterations from which on no other candidate is better.
    checkpoint_s
        To read everything from the checkpoint instead.
    first_s
        Until the first candidate was known.
    candidates
        Plans that were compared, best first.
    senders
        Bytes that each device sends within its node and beyond; ``checkpoint`` is one
        of them.
    ranks_before
        As ``ranks``, of the plan that ran.
    ranks
        By pipeline and stage, the device of every rank.
    """

    SCHEMA: ClassVar[str] = "hetopt-replan/1"

    status: Status
    reason: str | None
    iterations: Count
    restart_s: Seconds
    total_s: Positive | None
    lower_bound_s: Seconds | None
    gap: NotNegative | None
    pays_after: Whole | None
    checkpoint_s: Seconds | None
    first_s: Seconds | None
    search_time_s: Seconds
    candidates: tuple[ComparedPlan, ...]
    senders: tuple[Sender, ...]
    ranks_before: _Ranks
    ranks: _Ranks
    plan: Plan | None

    @classmethod
    def of(cls, found: Replanned, change: Change) -> NextPlan:
        """Return the answer for a file."""
        best = found.candidates[0] if found.candidates else None
        sent = {} if best is None else best.moves.sent
        before = layout_of(change.problem, change.plan, change.before)
        return cls(
            status=found.result.status,
            reason=found.result.reason,
            iterations=change.iterations,
            restart_s=change.restart_s,
            total_s=None if best is None else best.total_s,
            lower_bound_s=found.bound_s,
            gap=found.gap,
            pays_after=None if best is None else found.pays_after,
            checkpoint_s=found.checkpoint_s,
            first_s=found.first_s,
            search_time_s=found.result.search_time_s,
            candidates=tuple(
                ComparedPlan(
                    closed_form_s=each.priced.closed_form_s,
                    iteration_time_s=each.priced.iteration_time_s,
                    move_s=each.moves.seconds,
                    moved_bytes=each.moves.bytes,
                    total_s=each.total_s,
                )
                for each in found.candidates
            ),
            senders=tuple(
                Sender(sender=name, inside_bytes=inside, beyond_bytes=beyond)
                for name, (inside, beyond) in sent.items()
            ),
            ranks_before=device_names(before),
            ranks=() if best is None else device_names(best.layout),
            plan=None if best is None else best.priced.plan,
        )
