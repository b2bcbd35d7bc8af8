"""The times and memory of a plan's run: the content of ``measured.json``."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import dataclass, replace
from statistics import fmean, median
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from annotated_types import Ge, MinLen

from hetopt.base.fields import Digest, Positive, Seconds, Whole
from hetopt.base.file_record import LATER, FileRecord
from hetopt.base.reading import named, read_json
from hetopt.errors import InputError
from hetopt.running.conditions import Conditions, noise_of
from hetopt.schedule.orders import FOLDED_CHUNKS, chunk_and_microbatch
from hetopt.version import __version__

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hetopt.running.records import Iteration, Span

#: What ``peak_bytes`` counts: all that PyTorch allocated on a GPU, or, on CPUs, what
#: autograd kept from forward to backward passes.
MemoryKind = Literal["allocated", "activations"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredStage(FileRecord):
    """One stage: mean seconds of a micro-batch's passes, and of its synchronisation g.

    Attributes
    ----------
    sync_s
        From the end of the stage's last pass to that of the optimizer's step.
    peak_bytes
        Peak of its fullest rank.
    weight_s
        The part of ``backward_s`` in W passes; None if backward passes are not split.
    first_chunk_s
        The first chunk's part of the forward, backward and W times of a folded stage;
        None for other stages.
    by_chunk_s
        Forward and backward seconds of a pass on each chunk, where chunks differ; the
        stage's are their means. Empty for other stages.
    """

    forward_s: Seconds
    backward_s: Seconds
    sync_s: Seconds
    peak_bytes: Whole
    weight_s: Seconds | None = None
    first_chunk_s: tuple[Seconds, Seconds, Seconds] | None = None
    by_chunk_s: tuple[tuple[Seconds, Seconds], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredChunks(FileRecord):
    """Additional measurements of a run whose stages have several chunks.

    Attributes
    ----------
    count
        Chunks of every stage, v.
    way_back_s
        As ``boundaries_s``, for the boundary between the last stage and the first.
    lead_s, trail_s
        Forward and backward: by how much the passes of the first stage's first chunk,
        which has the embedding, and of the last stage's last chunk, which has the head,
        are longer than those of the stage's other chunks.
    """

    count: Annotated[int, Ge(2)]
    way_back_s: Seconds
    lead_s: tuple[Seconds, Seconds]
    trail_s: tuple[Seconds, Seconds]


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured(FileRecord):
    """What ``hetopt run`` writes, and ``hetopt calibrate --run`` reads.

    Attributes
    ----------
    plan_digest
        Digest of the plan as it was launched (``job.json``).
    iteration_s
        Of each timed iteration, from a common start of all ranks to the end of the last
        one's optimizer step.
    loss
        Mean per token, of each timed iteration.
    stages, boundaries_s
        Means over an iteration's passes, medians over iterations; of boundaries,
        seconds of a transfer, averaged over both directions; lengths p and p - 1.
    memory
        What ``peak_bytes`` of stages counts.
    devices
        Names of the devices that the ranks ran on.
    units
        FILE:FUNCTION that made the model's units; None for the plan's own model.
    chunks
        None if stages hold one chunk.
    conditions
        None if they are not known: of a bundle that an older hetopt wrote.
    noise
        Why the times are unreliable: iterations that differ by more than 10% of their
        median, or a load above the cores by more than 10%. Older files do not say it.
    """

    SCHEMA: ClassVar[str] = "hetopt-measured/1"

    plan_digest: Digest
    iteration_s: Annotated[tuple[Positive, ...], MinLen(1)]
    loss: Annotated[tuple[float, ...], MinLen(1)]
    stages: Annotated[tuple[MeasuredStage, ...], MinLen(1)]
    boundaries_s: tuple[Seconds, ...]
    memory: MemoryKind
    devices: Annotated[tuple[str, ...], MinLen(1)]
    versions: Mapping[Literal["hetopt", "torch", "python"], str]
    units: str | None
    chunks: MeasuredChunks | None = None
    conditions: Conditions | None = None
    noise: Annotated[tuple[str, ...], LATER] = ()

    @property
    def time_s(self) -> float:
        """Median of the iteration times, in seconds."""
        return median(self.iteration_s)

    def under(self, conditions: Conditions | None) -> Measured:
        """Return the run with what else the machine did, and whether that matters."""
        noise = noise_of(self.iteration_s, conditions)
        return replace(self, conditions=conditions, noise=noise)

    @property
    def on_cpu(self) -> bool:
        """Whether all ranks ran on CPUs."""
        return self.devices == ("CPU",)


def measured_of(
    plan_digest: str,
    ranks: Sequence[dict[str, Any]],
    iterations: Sequence[Iteration],
    units: str | None,
    chunks: int = 1,
    *,
    folded: bool = False,
    uneven: bool = False,
) -> Measured:
    """Summarise what ranks wrote; stages hold ``chunks`` chunks, or uneven ones."""
    apart = FOLDED_CHUNKS if folded else chunks if uneven else 1
    stages = [
        _stage_of(
            number,
            [rank["peak_bytes"] for rank in ranks if rank["stage"] == number],
            iterations,
            apart,
            folded,
        )
        for number in range(len(iterations[0].forward))
    ]
    times_s = tuple(each.time_s for each in iterations)
    return Measured(
        plan_digest=plan_digest,
        iteration_s=times_s,
        loss=tuple(each.loss for each in iterations),
        stages=tuple(stages),
        boundaries_s=tuple(
            median(each.boundary_s(number) for each in iterations)
            for number in range(len(stages) - 1)
        ),
        memory=ranks[0]["memory"],
        devices=tuple(dict.fromkeys(rank["device"] for rank in ranks)),
        versions={
            "hetopt": __version__,
            "torch": ranks[0]["torch"],
            "python": platform.python_version(),
        },
        units=units,
        chunks=None if chunks == 1 else _chunks_of(iterations, chunks),
        noise=noise_of(times_s, None),
    )


def _stage_of(
    number: int,
    peaks: Sequence[int],
    iterations: Sequence[Iteration],
    apart: int,
    folded: bool,
) -> MeasuredStage:
    """Return the measurements of a stage.

    Parameters
    ----------
    peaks
        The bytes of its ranks.
    apart
        Chunks whose passes are told apart.
    """
    p, splits = len(iterations[0].forward), bool(iterations[0].weight[number])

    def of(kind: Literal["forward", "backward", "weight"]) -> list[float]:
        passes = [getattr(each, kind)[number] for each in iterations]
        found = [_by_chunk(each, p, apart, folded=folded) for each in passes]
        return [median(each) for each in zip(*found, strict=True)]

    forward, backward = of("forward"), of("backward")
    weight = of("weight") if splits else []
    # A folded stage has both chunks' times.
    parts = 1 if folded else apart
    return MeasuredStage(
        forward_s=sum(forward) / parts,
        backward_s=(sum(backward) + sum(weight)) / parts,
        sync_s=median(each.sync[number].length_s for each in iterations),
        peak_bytes=max(peaks),
        weight_s=sum(weight) if splits else None,
        first_chunk_s=(forward[0], backward[0] + weight[0], weight[0])
        if folded
        else None,
        by_chunk_s=tuple(zip(forward, backward, strict=True)) if parts > 1 else (),
    )


def _chunks_of(iterations: Sequence[Iteration], count: int) -> MeasuredChunks:
    """Return the additional measurements of stages with several chunks."""
    stages = len(iterations[0].forward)

    def more(stage: int, chunk: int) -> tuple[float, float]:
        forward, backward = (
            median(_longer(each[stage], stages, count, chunk) for each in passes)
            for passes in (
                [each.forward for each in iterations],
                [each.backward for each in iterations],
            )
        )
        return forward, backward

    return MeasuredChunks(
        count=count,
        way_back_s=median(each.boundary_s(stages - 1) for each in iterations),
        lead_s=more(0, 0),
        trail_s=more(stages - 1, count - 1),
    )


def _longer(spans: Sequence[Span], stages: int, chunks: int, chunk: int) -> float:
    """Return by how much a chunk's passes are longer than others; at least 0."""
    others = _by_chunk(spans, stages, chunks, folded=False)
    return max(0.0, others.pop(chunk) - fmean(others))


def _by_chunk(
    spans: Sequence[Span], stages: int, chunks: int, *, folded: bool
) -> list[float]:
    """Return the mean seconds of a stage's passes on each chunk."""
    found: list[list[float]] = [[] for _ in range(chunks)]
    for number, span in enumerate(spans):
        chunk, _ = chunk_and_microbatch(number, stages, chunks, folded)
        found[chunk].append(span.length_s)
    return [fmean(each) for each in found]


def read_measured(path: str, plan_digest: str) -> Measured:
    """Return a run from a file that ``hetopt run`` wrote.

    Raises
    ------
    InputError
        The file is not of this kind, or of another plan.
    """
    data = read_json(path, "what `hetopt run` wrote")
    with named(path):
        found = Measured.from_json(data)
    if found.plan_digest != plan_digest:
        msg = "is of another plan: name the one that was run"
        raise InputError(msg, file=path, field="plan_digest")
    return found
