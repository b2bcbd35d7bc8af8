"""One record per schedule: its rule for warm-up counts (MODEL.md section 4).

A new schedule is one more record here and its name in
``hetopt.problem.training.choices.ScheduleName``; the checker has a table of its own,
``hetopt.check.plan.schedule.schedules``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from hetopt.schedule.orders import FOLDS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hetopt.problem.training.choices import ScheduleName


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleRule:
    """How many warm-ups a boundary adds under a schedule, and what else it changes.

    A boundary adds ``delta = W_i - W_(i + 1)``; the last stage has W = 1.

    Attributes
    ----------
    inside, across
        The least delta of a boundary within a cluster, and of one between two
        clusters; the second is at least the first.
    thresholds
        If delta depends on times: delta is one more for each threshold t with
        ``t * kappa > lambda_0 = max(max tau, max kappa)``; the largest t first, which
        is 1 over the problem's ``warmup_epsilon`` (``rule_of``). ``inside`` and
        ``across`` are then equal.
    all_first
        Whether every stage runs all q forwards before its first backward: W = q. There
        is no steady state; the times per forward and per backward add up.
    free
        Whether the plan chooses the warm-up counts, which only the search of simulated
        times does: everything else has the least, W = 1.
    blocking
        How many consecutive transfers a boundary needs for an activation and a gradient
        while both of its stages wait (chi): 1 if they are exchanged at once, 2 if one
        follows the other; 0 if stages compute during transfers.
        Only with deltas of 1: with others the two stages' transfers would not match.
    interleaved
        Whether stages hold several chunks of the model (``hetopt.schedule.orders``):
        counts of micro-batches are then counts of passes, and the rule for W leaves out
        the passes that every stage runs ahead (``held_ahead``).
    splits
        Whether the backward pass is split into gradients of inputs and, later, those of
        weights (``hetopt.schedule.orders``). Only with deltas of 1.
    folded
        Whether stages hold two chunks, the second on the way back
        (``hetopt.schedule.orders``); ``splits`` is then true as well. W counts
        micro-batches on the first chunk, as the order has them; the closed form has
        deltas of 1.
    """

    name: ScheduleName
    inside: int
    across: int
    thresholds: tuple[int, ...] = ()
    all_first: bool = False
    free: bool = False
    blocking: int = 0
    interleaved: bool = False
    splits: bool = False
    folded: bool = False

    @property
    def fixed(self) -> bool:
        """Whether delta depends only on whether a boundary joins two clusters."""
        return not (self.thresholds or self.all_first)

    @property
    def is_plain(self) -> bool:
        """Whether stages run whole passes of one chunk, and compute while they send."""
        return not (self.blocking or self.interleaved or self.splits)

    @property
    def is_lean(self) -> bool:
        """Whether no stage has to hold more than under 1F1B."""
        if self.folded:
            return bool(FOLDS[self.name])
        most = self.most_across <= 1 and not self.all_first
        return most and not (self.interleaved or self.splits)

    @property
    def mixes(self) -> bool:
        """Whether micro-batches may have sequences of several lengths."""
        return self.fixed and self.is_plain and not self.free

    @property
    def most_inside(self) -> int:
        """The largest delta within a cluster."""
        return self.inside + len(self.thresholds)

    @property
    def most_across(self) -> int:
        """The largest delta between two clusters."""
        return self.across + len(self.thresholds)

    def delta(self, kappa: int, longest: int, *, crosses: bool) -> int:
        """Return the delta of a boundary; not for an ``all_first`` schedule.

        Parameters
        ----------
        kappa, longest
            kappa of the boundary and lambda_0, in one unit; exact if both are integers.
        crosses
            Whether the boundary joins two clusters.
        """
        delta = self.across if crosses else self.inside
        return delta + len([t for t in self.thresholds if t * kappa > longest])

    def bounds(self, other: ScheduleRule) -> bool:
        """Whether bounds under this rule hold for all plans under another one.

        They take the least that a boundary may add to what stages hold, and for windows
        of the period the most. Both counts include those of the other rule, transfers
        that block only lengthen its period, and all else is alike.
        """
        rules = (self, other)
        if any(
            rule.all_first or rule.free or rule.interleaved or rule.splits
            for rule in rules
        ):
            return False
        return (
            self.inside <= other.inside
            and self.across <= other.across
            and self.most_inside >= other.most_inside
            and self.most_across >= other.most_across
            and self.blocking <= other.blocking
        )

    def least_warmups(self, boundaries: int, crossings: int = 0) -> int:
        """Return the least W of a stage with ``boundaries`` boundaries after it."""
        return 1 + self.inside * boundaries + (self.across - self.inside) * crossings

    def most_warmups(self, boundaries: int, crossings: int) -> int:
        """Return the largest W of a stage with ``boundaries`` boundaries after it."""
        more = self.most_across - self.most_inside
        return 1 + self.most_inside * boundaries + more * crossings

    def in_flight(self, warmups: int, microbatches: int) -> int:
        """Return the most micro-batches that a stage of W = ``warmups`` holds."""
        return microbatches if self.all_first else min(warmups, microbatches)


_ALL = (
    ScheduleRule(name="1f1b", inside=1, across=1),
    ScheduleRule(name="1f1b-batched", inside=1, across=1, blocking=1),
    ScheduleRule(name="1f1b-blocking", inside=1, across=1, blocking=2),
    ScheduleRule(name="eager-1f1b", inside=2, across=2),
    ScheduleRule(name="virtual-1f1b", inside=1, across=2),
    # HAPT, Eq. 1, 2 and 10: 1 if kappa <= epsilon lambda_0, otherwise
    # ceil(1 + 2 kappa / lambda_0). HAPT assumes kappa <= max tau; here lambda_0 is at
    # least max kappa (a deviation that MODEL.md states), so that this is 2 or 3.
    # HAPT gives no epsilon ("a small positive constant"). Its case study (section 2.3)
    # launches {5, 2, 1} where kappa is 1/2 to 1 tau on 5 Gbps, and so 1/80 to 1/40 tau
    # for the same tensor on 200 Gbps: true for all of that if 1/40 <= epsilon <= 1/2,
    # for none of it if epsilon < 1/80. The default is 1/20 (MODEL.md, section 4).
    ScheduleRule(name="h-1f1b", inside=1, across=1, thresholds=(20, 2)),
    ScheduleRule(name="interleaved-1f1b", inside=2, across=2, interleaved=True),
    ScheduleRule(name="zb-h1", inside=1, across=1, splits=True),
    ScheduleRule(name="zb-v", inside=1, across=1, splits=True, folded=True),
    # Qi et al., "Pipeline Parallelism with Controllable Memory" (2024).
    ScheduleRule(name="v-half", inside=1, across=1, splits=True, folded=True),
    ScheduleRule(name="v-min", inside=1, across=1, splits=True, folded=True),
    ScheduleRule(name="gpipe", inside=0, across=0, all_first=True),
    ScheduleRule(name="free-1f1b", inside=0, across=0, free=True),
)
#: Every schedule by name, as in ``hetopt.problem.training.choices.ScheduleName``.
RULES: Mapping[str, ScheduleRule] = MappingProxyType({each.name: each for each in _ALL})
#: The largest delta of any schedule that prescribes warm-ups.
MAX_DELTA = max(max(each.most_inside, each.most_across) for each in _ALL)


def rule_of(schedule: str, epsilon: float | None = None) -> ScheduleRule:
    """Return the record of a schedule; ValueError if there is none.

    Parameters
    ----------
    epsilon
        ``warmup_epsilon`` of a schedule that has one, 1 / n; None: its default.
    """
    if schedule not in RULES:
        msg = f"unknown schedule {schedule!r}"
        raise ValueError(msg)
    rule = RULES[schedule]
    if epsilon is None:
        return rule
    return replace(rule, thresholds=(round(1 / epsilon), *rule.thresholds[1:]))
