"""Training settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from typing import Annotated, Any, ClassVar

from pydantic import BeforeValidator, Field, ValidationInfo, WithJsonSchema

from hetopt.base.faults import Fault, inside
from hetopt.base.fields import Count, Flag, by_key, choice, several, whole
from hetopt.base.record import INTERNAL, record
from hetopt.errors import InputError
from hetopt.problem.fields import AUTO, Fraction
from hetopt.problem.training.choices import (
    ADAPTIVE,
    ANY,
    INTERLEAVED,
    RECOMPUTE,
    RECOMPUTE_OPTIONS,
    SCHEDULE_CHOICES,
    Emulated,
    Gradients,
    Kernel,
    Optimizer,
    Precision,
    Recompute,
    ScheduleName,
)
from hetopt.problem.training.dispatch import EVEN, Dispatch, or_even
from hetopt.problem.training.epsilon import EPSILONS, epsilon_fault, read_epsilon
from hetopt.problem.training.lengths import (
    HISTOGRAM_SUFFIX,
    LENGTHS_SCHEMA,
    Lengths,
    lengths_fault,
    read_shares,
    sequences_of,
)
from hetopt.problem.training.software import NamedSoftware, Reached, of_software
from hetopt.problem.training.token_budget import tokens_of

#: Share of device memory kept free besides the overhead (MODEL.md section 5).
DEFAULT_RESERVE = 0.0
DEFAULT_SCHEDULE: ScheduleName = "virtual-1f1b"


def chunks_fault(schedule: ScheduleName, chunks: int) -> str | None:
    """Return why a schedule cannot have this number of chunks per stage, or None."""
    interleaved = schedule == INTERLEAVED
    if chunks > 1 if interleaved else chunks == 1:
        return None
    expected = "2 or more" if interleaved else f"1, or schedule {INTERLEAVED}"
    return f"is {chunks} with schedule {schedule}, expected {expected}"


def _ensure(fault: str | None, field: str) -> None:
    if fault is not None:
        raise Fault(fault, field)


def _batch(value: Any, info: ValidationInfo) -> int:
    """Read a number of sequences, or a text that counts tokens."""
    if not isinstance(value, str) or info.context is None:
        return whole(1)(value)
    tokens, seq_len = tokens_of(value), info.data.get("seq_len", 1)
    if tokens % seq_len:
        msg = (
            f"is {value!r} ({tokens} tokens; K, M, G are powers of 1024), expected a "
            f"multiple of seq_len ({seq_len})"
        )
        raise Fault(msg)
    return int(tokens // seq_len)


def _lengths(value: Any, info: ValidationInfo) -> Any:
    """Read shares by tokens, or the file of a histogram."""
    if value is None or info.context is None:
        return value
    is_file = isinstance(value, str) and value.endswith(HISTOGRAM_SUFFIX)
    shares = info.context.shares(value) if is_file else read_shares(value)
    return tuple(sorted(shares.items()))


#: In place of the name of a cluster: those of every cluster without its own.
EVERY = ""


def _policies(value: Any) -> tuple[Recompute, ...]:
    """Read ``auto``, a policy, or a list of them; in a fixed order."""
    chosen = several(choice((AUTO, *RECOMPUTE_OPTIONS)))(value)
    chosen += RECOMPUTE if AUTO in chosen else ()
    return tuple(each for each in RECOMPUTE_OPTIONS if each in chosen)


def _recompute(value: Any, info: ValidationInfo) -> Any:
    """Read policies, of every cluster or by its name."""
    if info.context is None:
        return value
    if not isinstance(value, dict):
        return {EVERY: _policies(value)}
    return by_key(_policies, value, "from cluster names")


def _numbers(*types: str, examples: list[Any]) -> WithJsonSchema:
    return WithJsonSchema({"type": list(types), "examples": examples})


@record
class Training:
    """How the model is trained.

    Attributes
    ----------
    seq_len
        The tokens per sequence; of the longest where lengths differ.
    global_batch
        The sequences per iteration; or tokens: '2M tokens' are 2 * 2**20, '2000000
        tokens' exactly that; they must make whole sequences.
    lengths
        The share of sequences by their tokens, which add up to 1; or the path of a
        CSV file with the columns tokens and count. Without it all sequences have
        seq_len tokens.
    precision
        Precision in which models multiply, and of what is stored and sent.
    emulate
        Precision in which devices that lack the given one multiply, at its rate;
        without it they are refused. What is stored and sent keeps the given one.
    optimizer
        Its states are part of the memory.
    zero
        1 shards optimizer states, 2 gradients too, 3 weights too.
    shard_group
        Consecutive ranks that share ZeRO's shards, each group with a copy of all:
        hybrid sharding, such as 8 for shards inside nodes. Where it does not divide the
        ranks that hold a weight, its largest divisor that does. Default: all of them.
    overlap_gradients
        true (default): gradients are reduced during the backward pass; false: after
        it, as Megatron-LM does unless told otherwise.
    recompute
        Activation recomputation: a row of `hetopt catalog`, a list to choose from, auto
        (default) for none, selective and full, or any of these per cluster name.
    schedule
        auto: the best of all of these but free-1f1b, whose warm-up counts are
        decisions.
    any_schedule
        Whether the plan may have any schedule that prescribes its warm-ups. Then
        ``schedule`` only comes first among equals, and ``chunks``, if above 1, and
        ``warmup_epsilon`` are for the schedules that have them.
    chunks
        Parts of the model that every stage holds, virtual stages a device: 2 or
        more with interleaved-1f1b, 1 with any other schedule; with auto, a number
        to try before 2 and 4.
    warmup_epsilon
        Of h-1f1b: a boundary whose transfer takes at most this share of the longest
        stage or transfer adds one warm-up, a slower one two or three (HAPT, Eq. 2).
        Default: 0.05; with schedule auto also 0.1 and 0.01.
    sequence_parallel
        Whether tensor parallelism splits norms and residuals by tokens.
    attention
        unfused: separate operations that keep every score, and no context
        parallelism.
    cross_entropy
        unfused: separate operations on logits in 32 bits.
    gradients
        Precision in which gradients are accumulated and reduced; default: that of
        software, where weights have 16 bits, else fp32.
    overlap_tensor
        Whether tensor parallelism's collectives run beside the multiplications that
        need them: MC2, async tensor parallelism, Transformer Engine's user buffers.
        What it gains is known of some software only. Default: what the software does
        with dense models, else false.
    software
        What trains: a name from `hetopt catalog`, such as megatron-2026; default: what
        the problem's launcher starts, if a stack says so. Without any, or with null,
        times are those of the software that each device's shares were fitted to.
    moe
        How tokens reach routed experts; of models with experts alone.
    reserve
        Share of device memory that stays free besides the overhead: at least 0, less
        than 1.
    """

    empty_is_wrong: ClassVar = True

    seq_len: Count
    global_batch: Annotated[
        int,
        BeforeValidator(_batch),
        _numbers("integer", "string", examples=[128, "2M tokens"]),
    ]
    lengths: Annotated[
        Lengths | None, BeforeValidator(_lengths), WithJsonSchema(LENGTHS_SCHEMA)
    ] = None
    precision: Precision = "bf16"
    emulate: Emulated | None = None
    optimizer: Optimizer = "adam"
    zero: Annotated[int, Field(ge=0, le=3), BeforeValidator(choice((0, 1, 2, 3)))] = 1
    shard_group: Count | None = None
    overlap_gradients: Flag = True
    recompute: Annotated[
        Mapping[str, tuple[Recompute, ...]],
        BeforeValidator(_recompute),
        WithJsonSchema(
            {
                "anyOf": [
                    {"enum": [AUTO, *RECOMPUTE_OPTIONS]},
                    {"type": "array", "items": {"enum": list(RECOMPUTE_OPTIONS)}},
                    {"type": "object"},
                ],
                "default": AUTO,
            }
        ),
    ] = field(default_factory=dict)
    schedule: Annotated[
        ScheduleName,
        BeforeValidator(choice((*SCHEDULE_CHOICES, ANY))),
        WithJsonSchema({"enum": [*SCHEDULE_CHOICES, ANY]}),
    ] = DEFAULT_SCHEDULE
    any_schedule: Annotated[bool, INTERNAL] = False
    chunks: Count = 1
    warmup_epsilon: Annotated[
        float | None,
        BeforeValidator(read_epsilon),
        _numbers("number", "string", examples=[0.05, "1/20"]),
    ] = None
    sequence_parallel: Flag = True
    attention: Kernel = "fused"
    cross_entropy: Kernel = "fused"
    gradients: Gradients = "fp32"
    overlap_tensor: Flag | None = None
    software: NamedSoftware = None
    moe: Annotated[Dispatch, BeforeValidator(or_even)] = EVEN
    reserve: Fraction = DEFAULT_RESERVE

    @staticmethod
    def completed(given: dict[str, Any], files: Any) -> dict[str, Any]:
        """Return what a file gives, with what its software says, and any schedule."""
        batch = given.get("global_batch")
        if isinstance(batch, str) and given.get("lengths") is not None:
            with inside("global_batch"):
                tokens_of(batch)
                msg = f"is {batch!r}, expected a number of sequences: lengths differ"
                raise Fault(msg)
        given = {"recompute": AUTO, **given}
        if given.get("schedule") == ANY:
            given |= {"schedule": DEFAULT_SCHEDULE, "any_schedule": True}
        return {**of_software(given, files), **given}

    def __post_init__(self) -> None:
        if self.overlap_tensor and not self.sequence_parallel:
            msg = "is true, expected sequence_parallel: true with it"
            raise Fault(msg, "overlap_tensor")
        if self.shard_group and not self.zero:
            msg = f"is {self.shard_group}, expected zero: 1, 2 or 3 with it"
            raise Fault(msg, "shard_group")
        if self.lengths is not None:
            shares = self.lengths, self.global_batch, self.seq_len
            _ensure(lengths_fault(*shares), "lengths")
        if not self.any_schedule:
            _ensure(chunks_fault(self.schedule, self.chunks), "chunks")
        adaptive = ADAPTIVE if self.any_schedule else self.schedule
        _ensure(epsilon_fault(adaptive, self.warmup_epsilon), "warmup_epsilon")

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

    def reached(self, device: str | None, *, experts: bool) -> Reached | None:
        """Return what the software reaches on a device; None if nothing is known.

        Parameters
        ----------
        device
            ``Accelerator.known_as``.
        experts
            Whether the model has any.
        """
        if self.software is None:
            return None
        return self.software.on(device, self.precision, experts=experts)

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
