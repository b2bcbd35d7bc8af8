"""How the devices of a stage share its work."""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd, lcm
from typing import Annotated, ClassVar

from annotated_types import Ge, Le

from hetopt.base.fields import Count
from hetopt.base.file_record import ALWAYS, FileRecord
from hetopt.problem.training.choices import Recompute

#: Degrees of a strategy; only models with experts have the last two.
DEGREES = ("dp", "cp", "tp", "ep", "etp")


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Strategy(FileRecord):
    """How the devices of a stage share its work: n = dp * cp * tp devices.

    Attributes
    ----------
    ep
        Ranks over which the routed experts are spread.
    etp
        Ranks that split the matrices of each routed expert, among the same dp * cp * tp
        ranks: ep * etp divides their number.
    zero
        ZeRO stage over dp * cp, where it is not the problem's.

    Examples
    --------
    >>> import hetopt
    >>> strategy = hetopt.Strategy(dp=2, cp=1, tp=4, recompute="full")
    >>> strategy.devices, strategy.label
    (8, 'dp2-tp4-full')
    """

    KEYS: ClassVar[tuple[str, ...]] = (*DEGREES, "recompute", "zero")

    dp: Count
    cp: Count
    tp: Count
    # etp comes before ep in comparisons, so that whole experts, which are almost always
    # better, are reported if a stage without experts makes two strategies equally good.
    etp: Count = 1
    ep: Count = 1
    recompute: Annotated[Recompute, ALWAYS] = "none"
    zero: Annotated[int, Ge(0), Le(3)] | None = None

    def __post_init__(self) -> None:
        for name in DEGREES:
            if (degree := getattr(self, name)) < 1:
                msg = f"{name} is {degree}, expected at least 1"
                raise ValueError(msg)
        if self.devices % (self.ep * self.etp):
            msg = (
                f"ep * etp is {self.ep * self.etp}, expected a divisor of dp * cp * tp "
                f"({self.devices})"
            )
            raise ValueError(msg)

    @property
    def devices(self) -> int:
        """Devices of one stage."""
        return self.dp * self.cp * self.tp

    @property
    def inside(self) -> int:
        """Divisor of a stage's devices in each node: tp and etp groups stay inside."""
        return lcm(self.tp, self.etp)

    @property
    def has_expert_degrees(self) -> bool:
        """Whether experts are spread over ranks, or split."""
        return self.ep * self.etp > 1

    def shard_copies(self, group: int | None, *, experts: bool) -> tuple[int, ...]:
        """Return how many copies ZeRO's shards have: of dense weights, and of experts.

        Parameters
        ----------
        group
            Ranks that share shards (``Training.shard_group``); None: all that hold a
            weight.
        experts
            Whether the model has routed experts.
        """
        held = [self.dp * self.cp]
        if experts:
            held.append(self.devices // (self.ep * self.etp))
        return tuple(ranks // gcd(ranks, group or ranks) for ranks in held)

    @property
    def label(self) -> str:
        """Name as in UniAP: ``dp2-tp2``, or ``fsdp2-tp2`` if weights are sharded."""
        name = f"{'fsdp' if self.zero == 3 else 'dp'}{self.dp}"
        if self.cp > 1:
            name += f"-cp{self.cp}"
        name += f"-tp{self.tp}"
        if self.has_expert_degrees:
            name += f"-ep{self.ep}-etp{self.etp}"
        if self.recompute != "none":
            name += f"-{self.recompute}"
        return name

    def __str__(self) -> str:
        zero = "" if self.zero is None else f" zero {self.zero}"
        experts = f" ep {self.ep},{self.etp}" if self.has_expert_degrees else ""
        return f"({self.dp},{self.cp},{self.tp}){experts} {self.recompute}{zero}"
