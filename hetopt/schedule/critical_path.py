"""The longest chain of events of an iteration, which explains its duration."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, get_args, overload

from hetopt.schedule.times import EventKind

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


#: Kinds by their numbers in ``CriticalPath.rows``.
KINDS: tuple[EventKind, ...] = get_args(EventKind)


class CriticalEvent(NamedTuple):
    """One step of the critical path.

    Attributes
    ----------
    kind
        ``forward`` and ``backward`` are computation; ``send-*`` is a whole transfer
        (kappa) and ``occupy-*`` only the part of it for which the next transfer in
        the same direction has to wait (omega); ``sync`` is a stage's g; ``weight`` is
        the gradient of weights if it is not part of ``backward``.
    stage
        Counted from 0; for a transfer, the sending stage.
    microbatch
        Counted from 0; for ``sync``, the last one. With several chunks a stage, the
        number of the pass (``hetopt.schedule.chunks``, ``hetopt.schedule.folding``).
    start_ns, end_ns
        The next event of the path starts at ``end_ns``.
    """

    kind: EventKind
    stage: int
    microbatch: int
    start_ns: int
    end_ns: int


@dataclass(frozen=True, slots=True, eq=False)
class CriticalPath(Sequence[CriticalEvent]):
    """Events from time 0 to the makespan without a gap, the earliest first.

    Each starts when the one before it ends.

    Attributes
    ----------
    rows
        Kind, stage, micro-batch, start and end of each; shape (events, 5).
    """

    rows: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.rows)

    @overload
    def __getitem__(self, index: int) -> CriticalEvent: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[CriticalEvent, ...]: ...
    def __getitem__(
        self, index: int | slice
    ) -> CriticalEvent | tuple[CriticalEvent, ...]:
        if isinstance(index, slice):
            return tuple(self[at] for at in range(*index.indices(len(self))))
        kind, *numbers = self.rows[index].tolist()
        return CriticalEvent(KINDS[kind], *numbers)

    def duration_ns(self) -> dict[EventKind, int]:
        """Return the total time of the path's events of each kind."""
        lengths = self.rows[:, 4] - self.rows[:, 3]
        return {
            kind: int(lengths[self.rows[:, 0] == number].sum())
            for number, kind in enumerate(KINDS)
        }
