"""A launcher as one record: what it can run, what it loses, its files, its reader."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from hetopt.export.job import Job
    from hetopt.export.pipeline import PipelineReadBack
    from hetopt.plans.strategy import Strategy
    from hetopt.problem.problem import Problem
    from hetopt.problem.training.choices import Recompute, Resharding, ScheduleName

Shared = Literal["dp", "cp", "tp", "ep", "etp", "recompute"]
#: What only some runtimes train: fields of a model.
Part = Literal["experts", "latent", "predictions"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """Something that a plan asks for and a runtime cannot do.

    Attributes
    ----------
    what
        What the plan asks for, with the values, and what the runtime allows.
    instead
        What the files say in its place if the user allows losses; None if the plan
        cannot be launched without it: it is refused whatever is allowed.
    """

    what: str
    instead: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The plans that a runtime runs without a loss.

    Attributes
    ----------
    schedules
        The first replaces a schedule of the problem that is not among them.
    shared
        What is the same on all stages.
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
        with sharded optimizer states, a dp that divides the other's.
    losses
        Yields what the runtime cannot do of a problem, whatever the plan.
    parts
        Which of routed experts, latent attention and layers that predict further
        tokens it trains.
    fits
        Whether a stage may have such degrees, as far as the other fields do not say.
    alike
        What is true of all stages of a plan with experts or of none.
    offload
        Whether the hosts may hold the optimizer's states, of all stages or of none.
    """

    schedules: tuple[ScheduleName, ...]
    shared: tuple[Shared, ...] = ()
    context_parallel: bool = True
    resharding: tuple[Resharding, ...] = ("p2p",)
    recompute: tuple[tuple[Recompute, ...], ...] = (("none", "selective", "full"),)
    zero: tuple[int, ...] = (0, 1, 2, 3)
    equal_ends: bool = False
    losses: Callable[[Problem], Iterable[Loss]] | None = None
    parts: tuple[Part, ...] = ()
    fits: Callable[[Strategy, Problem], bool] | None = None
    alike: Callable[[Strategy], bool] | None = None
    offload: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    """Reads a runtime's files, hetopt's bundle or files made by hand.

    Attributes
    ----------
    looks_like
        Whether a folder has this runtime's files; may raise InputError for no.
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
        A release, without its last part, with which bundles were tested; or the commit
        whose sources were read.
    module
        What has the ``__version__`` that start scripts check; None if the runtime does
        not say its version.
    """

    what: str
    module: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Launcher:
    """A runtime that plans are exported to.

    Attributes
    ----------
    name
        As in ``--to``.
    title
        The runtime's own name.
    losses
        Returns everything of a job that would be lost; nothing if it is exact.
    launched
        Returns the job with what its losses have ``instead``. Called only if every
        loss has an ``instead``.
    files
        Returns the bundle's files by relative path, of a job as ``launched`` returns
        it. Files whose name ends in ``.sh`` become executable. ``README.md``,
        ``ranks.csv``, ``hostfile`` and ``LOSSY.md`` are added for every launcher; a
        launcher's own file of one of these names replaces the added one.
    commands
        Returns in Markdown what to edit, where to copy the folder and what to run, of
        the same job as ``files``.
    limits
        The plans that ``hetopt plan --for`` searches, or what to do instead of
        ``--for``.
    reader
        Reads the launcher's files back; None if hetopt cannot.
    tested
        What bundles are for; None if they start a program of the user's, or look at
        the version themselves.
    side_by_side
        Yields what would be lost of several pipelines together: then ``files`` and
        ``commands`` may get a job with ``parts``, and ``losses`` and ``launched`` each
        of these. None if it runs one pipeline.
    no_split
        Why it cannot run gradients of weights later; said of a plan that has them
        apart and is not among ``limits``.
    """

    name: str
    title: str
    files: Callable[[Job], Mapping[str, str]]
    commands: Callable[[Job], str]
    losses: Callable[[Job], Iterable[Loss]] = lambda job: ()
    launched: Callable[[Job], Job] = lambda job: job
    limits: Limits | str = "it starts any plan: leave --for out"
    reader: Reader | None = None
    tested: Tested | None = None
    side_by_side: Callable[[Job], Iterable[Loss]] | None = None
    no_split: str = "it runs gradients of weights with the rest of the backward pass"
