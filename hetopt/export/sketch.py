"""What a launcher's files say of a plan, before it is one."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from hetopt.plan import Strategy
    from hetopt.problem.training import ScheduleName

#: No pipeline has more stages.
MOST_STAGES = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class StageSketch:
    """One pipeline stage as a runtime's files tell it.

    Attributes
    ----------
    cluster
        Name of the cluster, or what the files call it or its accelerator; None where
        they name neither.
    hosts
        Hosts of the stage's ranks in rank order, as far as the files name them.
    layers
        Transformer layers.
    warmup
        Forward passes before the first backward pass; None where the schedule
        prescribes them.
    """

    cluster: str | None
    hosts: tuple[str, ...]
    layers: int
    strategy: Strategy
    warmup: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sketch:
    """A pipeline as a runtime's files tell it.

    Attributes
    ----------
    schedule
        The runtime's; where stages have ``warmup`` of their own, the one they make.
    says
        What the files say of the job itself, by the names of ``Model`` and
        ``Training``: ``hidden``, ``heads``, ``kv_heads``, ``ffn``, ``vocab``,
        ``tied``, ``gated``, ``seq_len``, ``global_batch``, ``zero``, ``precision``, as
        far as they do. Where the problem says otherwise, the files are of another job.
    """

    microbatches: int
    schedule: ScheduleName
    stages: tuple[StageSketch, ...]
    says: Mapping[str, int | bool | str] = field(default_factory=dict)


class Reader(Protocol):
    """A launcher whose files can be read back."""

    def recognises(self, folder: Path) -> bool:
        """Whether a folder looks like this runtime's; raises nothing."""
        ...

    def read(self, folder: Path) -> Sketch:
        """Read a folder, hetopt's bundle or one made by hand.

        Raises
        ------
        InputError
            A file is missing, malformed, or against the runtime's rules; it names the
            file and the field.
        """
        ...
