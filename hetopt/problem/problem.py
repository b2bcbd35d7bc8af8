"""The whole planning problem."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from itertools import permutations
from typing import Annotated, ClassVar

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    WithJsonSchema,
    WrapValidator,
)

from hetopt.base.fields import Name
from hetopt.base.record import record
from hetopt.base.shown import Shown
from hetopt.errors import InputError
from hetopt.problem.building.sections import (
    LATENCY_SOURCES,
    between_clusters,
    completed,
    different_clusters,
    fitting_pins,
    fitting_training,
    latency_sources,
    of_clusters,
    of_experts,
    several_clusters,
)
from hetopt.problem.calibration import NO_CALIBRATION, Calibration
from hetopt.problem.catalogue import profile_files
from hetopt.problem.cluster.cluster import Cluster
from hetopt.problem.cluster.links import ClusterLinks
from hetopt.problem.meshes import divisors
from hetopt.problem.model.model import Model
from hetopt.problem.pinned_units import cuts_fault, units_fault
from hetopt.problem.training.choices import FOLDED, ScheduleName
from hetopt.problem.training.pins import Pins
from hetopt.problem.training.training import Training

#: Sections that may also be given as another file.
SECTIONS = (
    *("model", "clusters", "links", "training", "pin", "latency", "calibration"),
)


@record
class Problem(Shown):
    """A hetopt problem: which model to train, on which clusters, how.

    Attributes
    ----------
    name
        Label; default: the file's name.
    model
        A preset, a Hugging Face config.json or a model's fields.
    clusters
        A list of clusters.
    links
        Between clusters; required when there are two or more.
    training
        A mapping with at least global_batch and seq_len.
    pins
        Decisions of the plan that are fixed or forbidden.
    latency
        Where a cluster's latencies come from: the name or path of a profile of
        layers, the path of one of operators, operators (those that ship with
        hetopt), roofline (modelled), or auto (default): the profile of its
        accelerator that ships with hetopt, measured before published, else
        operators, else roofline.
    calibration
        Corrections of the latency table: `hetopt calibrate`.
    launcher
        The launcher that plans are for, one of `hetopt catalog`: plans that it does
        not run as they are, are left out. Default: any.

    Examples
    --------
    >>> import hetopt
    >>> from dataclasses import replace
    >>> problem = hetopt.read_problem("problem.yaml")
    >>> print(problem)
    cluster  accelerator  nodes  devices per node  memory GB  latencies
    ───────────────────────────────────────────────────────────────────
    fast     A100-80GB        1                 2       85.1  auto
    slow     A40              1                 1       47.6  auto
    problem   problem
    model     model, 4 layers, 6 units
    training  4 sequences of 1024 tokens, bf16, adam, ZeRO 1, schedule virtual-1f1b
    >>> fast, slow = problem.clusters
    >>> larger = replace(problem, clusters=(replace(fast, nodes=2), slow))
    >>> [cluster.devices for cluster in larger.clusters]
    [4, 1]
    """

    elsewhere: ClassVar = ("name", "links")

    name: Name
    model: Model
    clusters: Annotated[
        tuple[Cluster, ...],
        AfterValidator(different_clusters),
        BeforeValidator(several_clusters),
    ]
    links: Annotated[ClusterLinks, WrapValidator(between_clusters)]
    training: Annotated[
        Training, AfterValidator(fitting_training), BeforeValidator(of_experts)
    ]
    pins: Annotated[Pins, WrapValidator(fitting_pins), Field(alias="pin")] = field(
        default_factory=Pins
    )
    latency: Annotated[
        Mapping[str, str],
        BeforeValidator(latency_sources),
        WithJsonSchema(
            {
                "type": "object",
                "additionalProperties": {
                    "type": "string",
                    "minLength": 1,
                    "examples": [*LATENCY_SOURCES, *profile_files()],
                },
            }
        ),
    ] = field(default_factory=dict)
    calibration: Annotated[Calibration, AfterValidator(of_clusters)] = NO_CALIBRATION
    launcher: Name | None = None

    completed = staticmethod(completed)
    __repr__ = Shown.__repr__

    @property
    def rules(self) -> Pins:
        """The pins, which also forbid clusters without a link as neighbours."""
        names = [cluster.name for cluster in self.clusters]
        apart = {
            (first, second)
            for first, second in permutations(names, 2)
            if self.links.between(first, second) is None
        }
        if not apart:
            return self.pins
        forbidden = self.pins.forbidden_next | apart
        return replace(self.pins, forbidden_next=frozenset(forbidden))

    @property
    def usable_clusters(self) -> tuple[Cluster, ...]:
        """The clusters that pins do not leave out."""
        pins, units = self.pins, len(self.model.units)
        return tuple(
            each
            for each in self.clusters
            if pins.of(each.name).may_host(each.devices, units)
            and (pins.order is None or each.name in pins.order)
        )

    @property
    def microbatch_counts(self) -> tuple[int, ...]:
        """Values of q that pins permit: divisors of the global batch, ascending."""
        return tuple(
            q
            for q in divisors(self.training.global_batch)
            if self.pins.microbatches.permits(q)
        )

    @property
    def stage_counts(self) -> tuple[int, ...]:
        """Values of p that the model's body, devices and pins permit, ascending.

        At least 2 with several chunks: these go on from the last stage to the first.
        """
        chunks = self.training.chunks
        if self.pins.cuts is not None:
            devices = sum(cluster.devices for cluster in self.clusters)
            stages = len(self.pins.cuts) // chunks
            return (stages,) if stages <= devices else ()
        parts = 2 if self.training.schedule in FOLDED else chunks
        body = (len(self.model.units) - 2) // parts
        devices = sum(cluster.devices for cluster in self.clusters)
        return tuple(
            p
            for p in range(min(chunks, 2), min(body, devices) + 1)
            if self.pins.stages.permits(p)
        )

    @property
    def programs(self) -> tuple[tuple[int, int], ...]:
        """Pairs (p, q) that a plan may have.

        With several chunks p divides q; if stages are folded, q is more than p.
        """
        return tuple(
            (p, q)
            for q in self.microbatch_counts
            for p in self.stage_counts
            if self.has_program(p, q)
        )

    def has_program(self, p: int, q: int) -> bool:
        """Whether a plan may have this p of ``stage_counts`` and q."""
        if self.training.schedule in FOLDED:
            return q > p
        return self.training.chunks == 1 or q % p == 0

    def with_every_cluster(self) -> Problem:
        """Return the problem with pins that give every cluster stages.

        HetAuto, Eq. 12. A cluster without stages by pins (``stages: 0``, or not in
        ``order``) stays unused.
        """
        pinned = {}
        for cluster in self.usable_clusters:
            own = self.pins.of(cluster.name)
            stages = replace(own.stages, forbidden=own.stages.forbidden | {0})
            pinned[cluster.name] = replace(own, stages=stages)
        clusters = {**self.pins.clusters, **pinned}
        return replace(self, pins=replace(self.pins, clusters=clusters))

    def under_any(self) -> Problem:
        """Return the problem with any schedule, the present one before equals."""
        return replace(self, training=self.training.under_any())

    def of_length(self, tokens: int) -> Problem:
        """Return the problem with sequences of this length only."""
        return replace(self, training=self.training.of_length(tokens))

    def under(
        self,
        schedule: ScheduleName,
        chunks: int | None = None,
        epsilon: float | None = None,
    ) -> Problem:
        """Return the problem with another schedule, under which its pins are possible.

        Parameters
        ----------
        schedule, chunks, epsilon
            As of ``Training.under``.

        Raises
        ------
        InputError
            The schedule does not allow so many chunks, or its stages do not hold as
            many units as are pinned; the error's field says which.
        """
        found = self.of_plan(schedule, chunks, epsilon)
        if self.pins.cuts is not None and found.pins.cuts is None:
            why = cuts_fault(self.pins.cuts, self.model, found.training)
            raise InputError(why or "", field=f"pin.{self.pins.cuts_key}")
        units = self.pins.units
        fault = units and units_fault(units, self.model, found.training)
        if fault:
            field = ".".join(map(str, ("pin", *fault.path)))
            raise InputError(fault.message, field=field)
        return found

    def of_plan(
        self,
        schedule: ScheduleName,
        chunks: int | None = None,
        epsilon: float | None = None,
        cuts: tuple[int, ...] | None = None,
    ) -> Problem:
        """Return the problem with the schedule of a plan, which may break any pin.

        Parameters
        ----------
        schedule, chunks, epsilon
            As of ``Training.under``.
        cuts
            Those of a plan whose chunks differ; None: those that are pinned, if the
            schedule can have them.

        Raises
        ------
        InputError
            The schedule does not allow so many chunks.
        """
        training, pins = self.training.under(schedule, chunks, epsilon), self.pins
        if cuts is not None and cuts != pins.cuts:
            pins = replace(pins, cuts=cuts, layout=None)
        elif pins.cuts is not None and cuts_fault(pins.cuts, self.model, training):
            pins = replace(pins, cuts=None, layout=None)
        return replace(self, training=training, pins=pins)

    def cluster_index(self, name: str) -> int:
        """Return the position of the cluster of this name; KeyError without one."""
        for index, cluster in enumerate(self.clusters):
            if cluster.name == name:
                return index
        raise KeyError(name)
