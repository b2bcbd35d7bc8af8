"""The data of a pipeline that schedules need: its times and warm-up counts."""

from __future__ import annotations

from dataclasses import dataclass
from operator import index
from typing import TYPE_CHECKING

from hetopt.base.words import counted
from hetopt.schedule.orders import FOLDED_CHUNKS, FOLDS, Orders, most_ahead
from hetopt.schedule.schedules import rule_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hetopt.problem.training.choices import ScheduleName
    from hetopt.schedule.shares import Sharing

#: By stage and chunk; shape (p, v).
ByChunk = tuple[tuple[int, ...], ...]

_PER_STAGE = ("forward_ns", "backward_ns", "sync_ns", "warmups")
_PER_BOUNDARY = ("transfer_ns", "occupancy_ns")


@dataclass(frozen=True, slots=True, kw_only=True)
class Uneven:
    """Times of p stages of v chunks that differ; shapes (p, v), by stage and chunk.

    Attributes
    ----------
    forward_ns, backward_ns
        Of one micro-batch on the chunk.
    transfer_ns, occupancy_ns
        kappa of the transfer of the chunk's activations, and of the gradients that come
        back, and omega if nothing is shared. Those of the last stage take the way back
        to the first stage's next chunk; its last chunk has 0.
    """

    forward_ns: ByChunk
    backward_ns: ByChunk
    transfer_ns: ByChunk
    occupancy_ns: ByChunk


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunks:
    """Further data of a pipeline whose stages hold several chunks.

    Attributes
    ----------
    count
        v, at least 2.
    way_back_ns, way_back_occupancy_ns
        kappa and omega from the last stage to the first, if it shares no link.
    lead_ns, trail_ns
        Forward and backward time of the units before the body, on the first stage, and
        of those after it, on the last. Mean times contain a v-th of them; in fact the
        first chunk runs the former and the last chunk the latter.
    uneven
        The times of each chunk if chunks differ; all other times are then means over
        chunks, rounded up, and of transfers the longest. None: all chunks are alike,
        but for the ends of the model.
    """

    count: int
    way_back_ns: int
    way_back_occupancy_ns: int
    lead_ns: tuple[int, int] = (0, 0)
    trail_ns: tuple[int, int] = (0, 0)
    uneven: Uneven | None = None

    def __post_init__(self) -> None:
        if self.count < 2:
            msg = f"{counted(self.count, 'chunk')}, expected at least 2"
            raise ValueError(msg)

    def durations_ns(
        self, mean_ns: int, kind: int, *, first: bool, last: bool
    ) -> list[int]:
        """Return the time of one pass on each chunk of a stage.

        Parameters
        ----------
        mean_ns
            Mean over the chunks.
        kind
            0 forward, 1 backward.
        first, last
            Whether the stage is the first, and the last, of the pipeline.
        """
        lead, trail = self.lead_ns[kind] * first, self.trail_ns[kind] * last
        body = mean_ns - lead // self.count - trail // self.count
        return [body + lead, *[body] * (self.count - 2), body + trail]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fold:
    """Further times of a folded pipeline of p stages, besides those of both chunks.

    Attributes
    ----------
    forward_ns, backward_ns, weight_ns
        Times of the stage's first chunk; length p.
    handed_on_ns
        What a stage adds to a window that begins before it (MODEL.md's h): the longer
        of forward and B, unit by unit; length p.
    fill_ns
        What a stage adds to the fill (``hetopt.cost.folding.fill_ns``); length p.
    """

    forward_ns: tuple[int, ...]
    backward_ns: tuple[int, ...]
    weight_ns: tuple[int, ...]
    handed_on_ns: tuple[int, ...]
    fill_ns: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineTimes:
    """Times of a pipeline of p stages, in whole nanoseconds (MODEL.md section 3).

    Entries may be of any integer type; they are kept as Python integers, so that
    no sum or product of them overflows.

    Attributes
    ----------
    schedule
        Decides the closed form, whether transfers block, and which of ``chunks``,
        ``weight_ns`` and ``fold`` are given; with ``warmups`` these order the passes.
    microbatches
        q, at least 1.
    forward_ns, backward_ns
        phi and beta of one micro-batch on each stage; with several chunks, of one pass,
        as the mean over the stage's chunks; length p.
    transfer_ns, occupancy_ns
        kappa and omega of each boundary, the same in both directions; length p - 1.
        If stages are folded, the sum over both chunks' transfers in one direction;
        each transfer takes half.
    sync_ns
        g of each stage, including tied embeddings; length p.
    warmups
        W of each stage, at least 1, as the schedule prescribes it: not cut to q.
    sharing
        Links and uplinks that boundaries share. With one chunk ``occupancy_ns`` then
        allows for it; in the simulation the transfers take turns instead.
    chunks
        Further data if every stage has several chunks; None if each has one.
    weight_ns
        The part of each backward time that computes gradients of weights later, at most
        half of it (MODEL.md's w); length p. None: backward passes are not split.
    fold
        The times of the first chunks if stages are folded; all other times are then
        sums over both chunks. None: not folded.
    mixed
        If sequences have several lengths, the times of the micro-batches of each
        length, the longest first; they run in this order. ``microbatches`` is then
        their total, and all other times are those of the longest. Empty: one length.

    Raises
    ------
    ValueError
        If an attribute has the wrong length, a time is negative or a count less than 1;
        if there are several chunks but one stage, or q is no multiple of p; if
        ``chunks``, ``weight_ns``, ``fold`` or ``mixed`` do not suit the schedule; if
        stages are folded and q <= p; if the entries of ``mixed`` differ in stages,
        warm-ups or schedule, or do not add up to the micro-batches.
    """

    schedule: ScheduleName
    microbatches: int
    forward_ns: tuple[int, ...]
    backward_ns: tuple[int, ...]
    transfer_ns: tuple[int, ...]
    occupancy_ns: tuple[int, ...]
    sync_ns: tuple[int, ...]
    warmups: tuple[int, ...]
    sharing: Sharing | None = None
    chunks: Chunks | None = None
    weight_ns: tuple[int, ...] | None = None
    fold: Fold | None = None
    mixed: tuple[PipelineTimes, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "microbatches", index(self.microbatches))
        for name in (*_PER_STAGE, *_PER_BOUNDARY, "weight_ns"):
            if (values := getattr(self, name)) is not None:
                object.__setattr__(self, name, tuple(map(index, values)))
        for fault in self._faults():
            raise ValueError(fault)

    def _faults(self) -> Iterator[str]:
        """Yield what does not fit, in order of importance."""
        rule, p, q = rule_of(self.schedule), self.stages, self.microbatches
        if q < 1:
            yield f"microbatches is {q}, expected at least 1"
        if not p:
            yield "a pipeline needs at least one stage"
        if rule.interleaved != (self.chunks is not None):
            several = "no" if self.chunks is None else "several"
            yield f"{self.schedule} with {several} chunks"
        if rule.splits != (self.weight_ns is not None):
            apart = "not apart" if self.weight_ns is None else "apart"
            yield f"{self.schedule} with gradients of weights {apart}"
        if rule.folded != (self.fold is not None):
            folded = "not folded" if self.fold is None else "folded"
            yield f"{self.schedule} with stages that are {folded}"
        if self.fold is not None and q <= p:
            yield (
                f"{p} folded stages and {q} micro-batches, expected more micro-batches "
                "than stages"
            )
        if self.chunks is not None and (p == 1 or q % p):
            yield (
                f"{p} stages of several chunks and {q} micro-batches, expected a "
                "multiple of at least 2 stages"
            )
        for name in (*_PER_STAGE, *_PER_BOUNDARY, "weight_ns"):
            values = getattr(self, name)
            count = p - (name in _PER_BOUNDARY)
            least = 1 if name == "warmups" else 0
            if values is None:
                continue
            if len(values) != count:
                yield (
                    f"{name} has {len(values)} entries, expected {count} for {p} stages"
                )
            if values and min(values) < least:
                yield f"{name} holds {min(values)}, expected at least {least}"
        for weight, backward in zip(self.later_ns, self.backward_ns, strict=True):
            if 2 * weight > backward:
                yield f"weight_ns holds {weight}, expected at most half of {backward}"
        if self.mixed and not rule.mixes:
            yield f"{self.schedule} with sequences of several lengths"
        for each in self.mixed:
            same = (each.schedule, each.warmups) == (self.schedule, self.warmups)
            if not same or each.mixed or each.sharing is not None:
                yield "lengths differ in their stages, warm-ups or schedule"
        total = sum(each.microbatches for each in self.mixed)
        if self.mixed and total != q:
            yield f"lengths have {total} micro-batches, expected {q}"

    @property
    def stages(self) -> int:
        """Number of stages, p."""
        return len(self.forward_ns)

    @property
    def passes(self) -> int:
        """How often a stage runs forward: once for every micro-batch and chunk."""
        return self.periods * (1 if self.fold is None else FOLDED_CHUNKS)

    @property
    def periods(self) -> int:
        """Multiples of ``round_trip_ns`` a stage computes: q, or q v with v chunks."""
        return self.microbatches * (1 if self.chunks is None else self.chunks.count)

    @property
    def lengths(self) -> tuple[PipelineTimes, ...]:
        """Times of the micro-batches of each length, the longest first."""
        return self.mixed or (self,)

    @property
    def busy_ns(self) -> tuple[int, ...]:
        """Computing time of each stage in an iteration, without g; length p."""
        if self.chunks is not None and (own := self.chunks.uneven) is not None:
            both = zip(own.forward_ns, own.backward_ns, strict=True)
            return tuple(self.microbatches * sum(map(sum, each)) for each in both)
        return tuple(
            sum(each.periods * each.round_trip_ns[stage] for each in self.lengths)
            for stage in range(self.stages)
        )

    @property
    def orders(self) -> Orders:
        """The passes of every stage, in order."""
        return Orders(
            warmups=self.warmups,
            microbatches=self.microbatches,
            chunks=self.passes // self.microbatches,
            folded=self.fold is not None,
            block=FOLDS.get(self.schedule, ""),
            splits=self.weight_ns is not None,
            blocking=bool(rule_of(self.schedule).blocking),
        )

    @property
    def merged(self) -> int:
        """How many transfers the times of a boundary are the sum of: 2 if folded."""
        return 1 if self.fold is None else FOLDED_CHUNKS

    @property
    def every_transfer_ns(self) -> tuple[int, ...]:
        """Kappa of each single transfer; with several chunks the way back's last."""
        back = () if self.chunks is None else (self.chunks.way_back_ns,)
        return tuple(kappa // self.merged for kappa in (*self.transfer_ns, *back))

    @property
    def alone_occupancy_ns(self) -> tuple[int, ...]:
        """Omega of each single transfer, if nothing is shared; the way back's last."""
        back = () if self.chunks is None else (self.chunks.way_back_occupancy_ns,)
        found = (*self.occupancy_ns, *back)
        if self.sharing is not None:
            found = self.sharing.occupancy_ns
        return tuple(omega // self.merged for omega in found)

    @property
    def crossings_ns(self) -> tuple[ByChunk, ByChunk]:
        """Kappa and omega as those of ``Uneven``, whether chunks differ or not."""
        assert self.chunks is not None
        if (own := self.chunks.uneven) is not None:
            return own.transfer_ns, own.occupancy_ns
        v = self.chunks.count
        kappa, omega = (
            (*((each,) * v for each in inside), (*(back,) * (v - 1), 0))
            for *inside, back in (self.every_transfer_ns, self.alone_occupancy_ns)
        )
        return kappa, omega

    @property
    def round_trip_ns(self) -> tuple[int, ...]:
        """Forward plus backward time of each stage (tau of MODEL.md); length p."""
        return tuple(map(sum, zip(self.forward_ns, self.backward_ns, strict=True)))

    @property
    def later_ns(self) -> tuple[int, ...]:
        """Part of each stage's backward time that runs later (w); 0 if none does."""
        return self.weight_ns or (0,) * self.stages

    def durations_ns(self, stage: int) -> tuple[list[int], list[int]]:
        """Return forward and backward time of each chunk of a stage.

        The backward times leave out the gradients of weights that run later.
        """
        backward_ns = self.backward_ns[stage] - self.later_ns[stage]
        means = self.forward_ns[stage], backward_ns
        if (fold := self.fold) is not None:
            return (
                _apart(fold.forward_ns[stage], means[0]),
                _apart(fold.backward_ns[stage] - fold.weight_ns[stage], means[1]),
            )
        if self.chunks is None:
            return [means[0]], [means[1]]
        if (own := self.chunks.uneven) is not None:
            return list(own.forward_ns[stage]), list(own.backward_ns[stage])
        ends = {"first": stage == 0, "last": stage == self.stages - 1}
        forward, backward = (
            self.chunks.durations_ns(mean, kind, **ends)
            for kind, mean in enumerate(means)
        )
        return forward, backward

    def weights_ns(self, stage: int) -> list[int]:
        """Return the times of later weight gradients; by chunk if stages are folded."""
        later_ns = self.later_ns[stage]
        if self.fold is None:
            return [later_ns]
        return _apart(self.fold.weight_ns[stage], later_ns)

    @property
    def has_steady_state(self) -> bool:
        """Whether stages alternate between forwards and backwards in a steady state.

        False if all q forwards come first: gpipe, or all W = q if they are free.
        """
        rule = rule_of(self.schedule)
        if rule.free:
            return min(self.warmups) < self.microbatches
        return not rule.all_first

    @property
    def inflight(self) -> tuple[int, ...]:
        """Most micro-batches (or passes) before their backward on a stage; length p.

        If stages are folded, micro-batches on the first chunk.
        """
        return tuple(min(warmup, self.periods) for warmup in self.warmups)

    @property
    def passes_held(self) -> tuple[int, ...]:
        """Most passes a stage holds at once: forwards whose backward has not run."""
        if self.fold is None:
            return self.inflight
        if block := self.orders.block:
            return tuple(passes for passes, _ in most_ahead(block, self.stages))
        return (FOLDED_CHUNKS * self.stages,) * self.stages


def _apart(first: int, both: int) -> list[int]:
    return [first, both - first]
