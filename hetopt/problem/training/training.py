"""Training settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from hetopt.base.checked import checked
from hetopt.base.words import describe
from hetopt.errors import InputError
from hetopt.problem.training.choices import (
    ADAPTIVE,
    INTERLEAVED,
    Emulated,
    Gradients,
    Kernel,
    Optimizer,
    Precision,
    Recompute,
    ScheduleName,
)
from hetopt.problem.training.dispatch import EVEN, Dispatch
from hetopt.problem.training.lengths import Lengths, lengths_fault, sequences_of

#: Share of device memory kept free besides the overhead (MODEL.md section 5).
DEFAULT_RESERVE = 0.0
DEFAULT_SCHEDULE: ScheduleName = "virtual-1f1b"
#: HAPT's epsilon (Eq. 2), first the default: MODEL.md section 4 argues for it. A search
#: for the best schedule tries all of them.
EPSILONS = (0.05, 0.1, 0.01)
#: What h-1f1b had before it could be chosen: files without the field have it.
FORMER_EPSILON = 0.01
#: Epsilon is 1 / n; the largest n.
MOST_PARTS = 1000
EPSILON_EXPECTED = (
    f"expected 1/n with a whole n from 3 to {MOST_PARTS}, such as 0.05 or 1/30"
)


def chunks_fault(schedule: ScheduleName, chunks: int) -> str | None:
    """Return why a schedule cannot have this number of chunks per stage, or None."""
    interleaved = schedule == INTERLEAVED
    if chunks > 1 if interleaved else chunks == 1:
        return None
    expected = "2 or more" if interleaved else f"1, or schedule {INTERLEAVED}"
    return f"is {chunks} with schedule {schedule}, expected {expected}"


def is_epsilon(value: object) -> bool:
    """Whether a value is 1 / n, n whole: times are compared with it exactly.

    It is below 1 / 2, as otherwise HAPT's Eq. 2 has no second case.
    """
    if isinstance(value, int | float) and 1 / (MOST_PARTS + 1) < value < 0.4:
        return abs(value * round(1 / value) - 1) < 1e-9
    return False


def epsilon_fault(schedule: ScheduleName, epsilon: object) -> str | None:
    """Return why a schedule cannot have this ``warmup_epsilon``, or None."""
    given = f"is {describe(epsilon)}"
    if epsilon is not None and schedule != ADAPTIVE:
        given += f" with schedule {schedule}"
        return f"{given}, expected schedule {ADAPTIVE}, or leave it out"
    good = epsilon is None or is_epsilon(epsilon)
    return None if good else f"{given}, {EPSILON_EXPECTED}"


def written_epsilon(
    data: Mapping[str, Any], where: str = "", file: str | None = None
) -> float | None:
    """Return ``warmup_epsilon`` of a plan, table or other record in JSON.

    Parameters
    ----------
    where, file
        Field of the record, and its file, for error messages.

    Raises
    ------
    InputError
        The record's schedule cannot have it.
    """
    schedule, epsilon = data["schedule"], data.get("warmup_epsilon")
    fault = epsilon_fault(schedule, epsilon)
    if fault is not None:
        field = f"{where}.warmup_epsilon".lstrip(".")
        raise InputError(fault, file=file, field=field)
    if epsilon is None and schedule == ADAPTIVE:
        return FORMER_EPSILON
    return epsilon


@checked
@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """How the model is trained.

    Attributes
    ----------
    global_batch
        Sequences per iteration (B).
    seq_len
        Tokens per sequence (s); of the longest sequences if lengths differ.
    lengths
        Tokens and share of the sequences of each length, ascending; None: all
        sequences have ``seq_len`` tokens.
    emulate
        Precision in which devices that lack ``precision`` multiply; None: they are
        refused. Stored and sent tensors keep ``precision``.
    zero
        ZeRO stage: 1 shards optimizer states, 2 gradients too, 3 weights too.
    overlap_gradients
        Whether gradients are reduced during the last micro-batch's backward pass, or
        only after it.
    recompute
        Cluster name -> policies that the plan may choose from.
    any_schedule
        Whether the plan may have any schedule that prescribes its warm-ups. Then
        ``schedule`` only comes first among equals, and ``chunks``, if above 1, and
        ``warmup_epsilon`` are for the schedules that have them.
    chunks
        Parts of the model that every stage holds (v): virtual stages per device. 2 or
        more with ``interleaved-1f1b``, 1 with any other schedule.
    warmup_epsilon
        Of ``h-1f1b`` alone, HAPT's epsilon (Eq. 2): a boundary whose transfer takes at
        most this share of the longest stage or transfer adds one warm-up. It is 1 / n
        with a whole n. None: not chosen (``epsilon``).
    sequence_parallel
        Whether tensor parallelism also splits norms and residuals, by tokens.
    attention, cross_entropy
        Whether one kernel computes it, or separate operations.
    gradients
        Precision in which gradients are accumulated and reduced.
    moe
        Assumptions about how tokens reach routed experts.
    reserve
        Fraction of device memory that stays free besides the overhead.
    """

    global_batch: int
    seq_len: int
    lengths: Lengths | None = None
    precision: Precision = "bf16"
    emulate: Emulated | None = None
    optimizer: Optimizer = "adam"
    zero: int = 1
    overlap_gradients: bool = True
    recompute: Mapping[str, tuple[Recompute, ...]] = field(default_factory=dict)
    schedule: ScheduleName = DEFAULT_SCHEDULE
    any_schedule: bool = False
    chunks: int = 1
    warmup_epsilon: float | None = None
    sequence_parallel: bool = True
    attention: Kernel = "fused"
    cross_entropy: Kernel = "fused"
    gradients: Gradients = "fp32"
    moe: Dispatch = EVEN
    reserve: float = DEFAULT_RESERVE

    def __post_init__(self) -> None:
        for name in ("global_batch", "seq_len"):
            if getattr(self, name) < 1:
                msg = f"{name} is {getattr(self, name)}, expected at least 1"
                raise ValueError(msg)
        if self.lengths is not None:
            fault = lengths_fault(self.lengths, self.global_batch, self.seq_len)
            if fault is not None:
                msg = f"lengths {fault}"
                raise ValueError(msg)
        fault = None
        if not self.any_schedule:
            fault = chunks_fault(self.schedule, self.chunks)
        if fault is not None:
            msg = f"chunks {fault}"
            raise ValueError(msg)
        adaptive = ADAPTIVE if self.any_schedule else self.schedule
        fault = epsilon_fault(adaptive, self.warmup_epsilon)
        if fault is not None:
            msg = f"warmup_epsilon {fault}"
            raise ValueError(msg)
        if self.zero not in range(4):
            msg = f"zero is {self.zero}, expected 0, 1, 2 or 3"
            raise ValueError(msg)
        if not 0 <= self.reserve < 1:
            msg = f"reserve is {self.reserve}, expected at least 0 and less than 1"
            raise ValueError(msg)

    @property
    def epsilon(self) -> float | None:
        """``warmup_epsilon``, or its default; None with schedules that have none."""
        default = EPSILONS[0] if self.schedule == ADAPTIVE else None
        return self.warmup_epsilon or default

    @property
    def sequences(self) -> Mapping[int, int]:
        """Sequences of an iteration by their tokens, the longest first."""
        if self.lengths is None:
            return {self.seq_len: self.global_batch}
        return sequences_of(self.lengths, self.global_batch)

    @property
    def tokens(self) -> int:
        """Tokens of an iteration."""
        return sum(tokens * number for tokens, number in self.sequences.items())

    def of_length(self, tokens: int) -> Training:
        """Return the settings with sequences of this length only."""
        return replace(self, seq_len=tokens, lengths=None)

    def under(
        self,
        schedule: ScheduleName,
        chunks: int | None = None,
        epsilon: float | None = None,
    ) -> Training:
        """Return the settings with this schedule alone.

        Parameters
        ----------
        chunks
            Chunks of every stage; None: the present ones with ``interleaved-1f1b``,
            otherwise 1.
        epsilon
            Its ``warmup_epsilon``; None: the present one with ``h-1f1b``.

        Raises
        ------
        InputError
            The schedule cannot have so many chunks.
        """
        if chunks is None:
            chunks = self.chunks if schedule == INTERLEAVED else 1
        fault = chunks_fault(schedule, chunks)
        if fault is not None:
            raise InputError(fault, field="training.chunks")
        if schedule == ADAPTIVE:
            epsilon = epsilon or self.warmup_epsilon
        return replace(
            self,
            schedule=schedule,
            any_schedule=False,
            chunks=chunks,
            warmup_epsilon=epsilon,
        )

    def under_any(self) -> Training:
        """Return the settings with any schedule, the present one before equals."""
        return replace(self, any_schedule=True)
