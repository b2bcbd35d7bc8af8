"""How the devices of a stage share its work."""

from __future__ import annotations

from dataclasses import dataclass
from math import lcm
from typing import TYPE_CHECKING, Any

from hetopt.base.least import ensure_least

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hetopt.problem.training.choices import Recompute

#: Degrees of a strategy, and those that only models with experts have.
DEGREES = ("dp", "cp", "tp", "ep", "etp")
EXPERT_DEGREES = DEGREES[3:]


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Strategy:
    """How the devices of a stage share its work: n = dp * cp * tp devices.

    Attributes
    ----------
    ep, etp
        Ranks over which the routed experts are spread, and ranks that split the
        matrices of each, among the same dp * cp * tp ranks: ep * etp divides their
        number.
    zero
        ZeRO stage over dp * cp; None: the problem's.

    Examples
    --------
    >>> import hetopt
    >>> strategy = hetopt.Strategy(dp=2, cp=1, tp=4, recompute="full")
    >>> strategy.devices, strategy.label
    (8, 'dp2-tp4-full')
    """

    dp: int
    cp: int
    tp: int
    # etp comes before ep in comparisons, so that whole experts, which are almost always
    # better, are reported if a stage without experts makes two strategies equally good.
    etp: int = 1
    ep: int = 1
    recompute: Recompute = "none"
    zero: int | None = None

    def __post_init__(self) -> None:
        ensure_least(self, 1, DEGREES)
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


def strategy_to_json(strategy: Strategy) -> dict[str, Any]:
    """Return a strategy as plain JSON data."""
    data: dict[str, Any] = {
        "dp": strategy.dp,
        "cp": strategy.cp,
        "tp": strategy.tp,
        **expert_degrees_to_json(strategy),
        "recompute": strategy.recompute,
    }
    if strategy.zero is not None:
        data["zero"] = strategy.zero
    return data


def expert_degrees_to_json(strategy: Strategy) -> dict[str, int]:
    """Return the degrees of experts that are not 1; files leave out a 1."""
    degrees = {name: getattr(strategy, name) for name in EXPERT_DEGREES}
    return {name: degree for name, degree in degrees.items() if degree > 1}


def strategy_from_json(data: Mapping[str, Any]) -> Strategy:
    """Read what was written; raises KeyError, TypeError or ValueError."""
    return Strategy(
        dp=data["dp"],
        cp=data["cp"],
        tp=data["tp"],
        ep=data.get("ep", 1),
        etp=data.get("etp", 1),
        recompute=data["recompute"],
        zero=data.get("zero"),
    )
