"""A launcher as one record: what it can run, what it loses, its files, its reader."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from hetopt.problem.training.choices import INTERLEAVED, RECOMPUTE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from hetopt.export.job import Job
    from hetopt.export.pipeline import PipelineReadBack
    from hetopt.plans.strategy import Strategy
    from hetopt.problem.cluster.cluster import Cluster
    from hetopt.problem.problem import Problem
    from hetopt.problem.training.choices import Recompute, Resharding, ScheduleName
    from hetopt.problem.training.pins import Domain

Shared = Literal["dp", "cp", "tp", "ep", "etp", "recompute"]
#: Parts of a model, by field, that only some runtimes train.
Part = Literal["experts", "latent", "predictions"]
#: Why a runtime does not offload the optimizer, unless it says another reason.
ON_DEVICES = "it keeps its states on devices"


@dataclass(frozen=True, slots=True)
class Loss:
    """Something that a plan asks for and a runtime cannot do.

    Attributes
    ----------
    what
        What the plan asks for, with the values, and what the runtime allows.
    instead
        What the files ask for instead if the user allows losses; None if nothing can
        replace it: the plan is then refused even if losses are allowed.
    """

    what: str
    instead: str | None = None


def any_number(problem: Problem) -> Domain:
    """Return the domain of stages without a limit."""
    from hetopt.problem.training.pins import ANY

    return ANY


@dataclass(frozen=True, slots=True, kw_only=True)
class SideBySide:
    """Which plans a runtime runs as pipelines side by side; by default any.

    Attributes
    ----------
    values
        Returns what may be common to all pipelines, each value by its name; empty: they
        need have nothing in common.
    has
        Whether a stage of a pipeline, whose problem is given, has one of these values
        with q micro-batches and a strategy.
    """

    values: Callable[[Problem], tuple[str, ...]] = lambda problem: ()
    has: Callable[[Problem, int, Strategy, str], bool] = lambda *_: True


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The plans that a runtime runs without a loss.

    Attributes
    ----------
    schedules
        The first replaces the problem's schedule if that is not among them.
    shared
        What must be the same on all stages.
    shared_by_chunks
        What else must be if stages hold several chunks.
    context_parallel
        Whether cp may exceed 1.
    resharding
        How tensors may get from one stage to the next.
    recompute
        Sets of policies that stages of one plan may mix.
    zero
        ZeRO stages that the runtime has.
    equal_ends
        Whether tied embeddings need the same tp on the first and the last stage and,
        with sharded optimizer states, that the dp of one divides that of the other.
    losses
        Yields what the runtime cannot do of a problem under any plan.
    parts
        Which of routed experts, latent attention and layers that predict further
        tokens it trains.
    fits
        Whether a stage may have a strategy, by rules that no other field states.
    alike
        A test that all strategies of a plan with experts pass, or all fail.
    spread
        Returns how many stages a plan that spreads experts may have (ep > 1).
    no_offload
        Returns why host memory cannot hold the optimizer's states; None: it can, of all
        stages or of none.
    blocks
        Whether stages may begin and end inside a layer.
    cuts
        Whether the chunks of a stage may differ.
    copies
        Whether shards may have copies (``training.shard_group``), all equally many.
    together
        Which of these plans it runs as pipelines side by side; None: it runs one.
    """

    schedules: tuple[ScheduleName, ...]
    shared: tuple[Shared, ...] = ()
    shared_by_chunks: tuple[Shared, ...] = ()
    context_parallel: bool = True
    resharding: tuple[Resharding, ...] = ("p2p",)
    recompute: tuple[tuple[Recompute, ...], ...] = (RECOMPUTE,)
    zero: tuple[int, ...] = (0, 1, 2, 3)
    equal_ends: bool = False
    losses: Callable[[Problem], Iterable[Loss]] | None = None
    parts: tuple[Part, ...] = ()
    fits: Callable[[Strategy, Problem], bool] | None = None
    alike: Callable[[Strategy], bool] | None = None
    spread: Callable[[Problem], Domain] = any_number
    no_offload: Callable[[Problem], str | None] = lambda problem: ON_DEVICES
    blocks: bool = False
    cuts: bool = False
    copies: bool = False
    together: SideBySide | None = None

    def shared_under(self, schedule: ScheduleName) -> tuple[Shared, ...]:
        """Return what must be the same on all stages under a schedule."""
        return self.shared + self.shared_by_chunks * (schedule == INTERLEAVED)

    @property
    def recomputes(self) -> tuple[Recompute, ...]:
        """What stages may recompute, of any set."""
        return tuple(dict.fromkeys(each for some in self.recompute for each in some))


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    """Reads a runtime's files: a bundle of hetopt's, or files written by hand.

    Attributes
    ----------
    looks_like
        Whether a folder has this runtime's files; an InputError also means no.
    read
        Reads a folder. Raises InputError that names the file and the field if a file
        is missing, malformed, or against the runtime's rules.
    """

    looks_like: Callable[[Path], bool]
    read: Callable[[Path], PipelineReadBack]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tested:
    """The version of a runtime that its bundles are for.

    Attributes
    ----------
    what
        The release, without its last part, that bundles were tested with; or the
        commit whose sources were read.
    module
        The module whose ``__version__`` start scripts check; None if they cannot.
    """

    what: str
    module: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Launcher:
    """A runtime that plans are exported to.

    Attributes
    ----------
    name
        As users write it after ``--to``.
    title
        The runtime's own name.
    losses
        Returns everything of a job that the runtime cannot do.
    launched
        Returns the job as it is launched, with the ``instead`` of every loss. Called
        only if every loss has an ``instead``.
    files
        Returns the bundle's files by relative path, of a job as ``launched`` returns
        it. Files whose name ends in ``.sh`` become executable. ``README.md``,
        ``ranks.csv``, ``hostfile`` and ``LOSSY.md`` are added for every launcher; a
        launcher's own file of one of these names replaces the added one.
    commands
        Returns in Markdown what to edit, where to copy the folder and what to run, for
        the same job as ``files``.
    limits
        The plans that ``hetopt plan --for`` searches; None: it starts any plan; or a
        text that says which launcher to name instead.
    schedules
        What it runs of those that not every launcher does, if ``limits`` are a text.
    reader
        Reads the files of a user's launcher back, if it can; those of hetopt's are in
        modules of their own (see ``registry``).
    tested
        The version that bundles are for; None if they start the user's program, or
        check the version themselves.
    side_by_side
        Yields what the runtime cannot do of several pipelines together. ``files`` and
        ``commands`` then accept a job with ``parts``; ``losses`` and ``launched`` get
        each part. None if the runtime runs one pipeline.
    notes
        Yields what it assumes of the clusters of a plan.
    no_split
        Why it cannot run weight gradients later: the loss of a schedule that splits
        backward passes and is not among ``limits``.
    recomputes
        What stages may recompute, unless ``limits`` say it; None: anything, as it
        starts the user's program.
    copies
        Whether shards may have copies, unless ``limits`` say it.
    divides_hosts
        Whether its files can start a host's ranks in several groups. A plan with
        relaxed principles may need it: its stages on one node may stand apart.
    """

    name: str
    title: str
    files: Callable[[Job], Mapping[str, str]]
    commands: Callable[[Job], str]
    losses: Callable[[Job], Iterable[Loss]] = lambda job: ()
    launched: Callable[[Job], Job] = lambda job: job
    limits: Limits | str | None = None
    schedules: tuple[ScheduleName, ...] = ()
    reader: Reader | None = None
    tested: Tested | None = None
    side_by_side: Callable[[Job], Iterable[Loss]] | None = None
    notes: Callable[[Sequence[Cluster]], Iterable[str]] = lambda clusters: ()
    no_split: str = "it runs gradients of weights with the rest of the backward pass"
    recomputes: tuple[Recompute, ...] | None = None
    copies: bool = False
    divides_hosts: bool = False
