"""Linear programs for moving states between devices in the least time.

Sets: demands D, what a device lacks and which devices have it; ways W_d of a demand,
one for each device that has it; limits L (``hetopt.cost.communication.migration``).

    x_dw  bytes of demand d that go way w, at least 0
    z     seconds

    (1)  sum_w x_dw = V_d              for every demand
    (2)  sum_(d, w over l) x_dw <= C_l z   for every limit

First z is minimised, whereas Hetu's fused batched-send-receive chooses one sender after
the other by rules (Hetu v2, 4.3). Second, among the choices of least time, the time of
all bytes one after the other is minimised, third the bytes of the largest sender.
These are the aims of Hetu's rules: prefer fast links and balance the load.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hetopt.formulations.linear_program import LinearProgram, total

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hetopt.formulations.linear_program import Terms

#: Bytes in a unit of x, so that volumes are near 1.
SCALE_BYTES = 1e9
#: Relative slack of an optimum while the next value is minimised: HiGHS's tolerance on
#: rows is 1e-9.
SLACK = 1e-7


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """Data that one device lacks and that the same devices have.

    Attributes
    ----------
    bytes
        V_d, above 0.
    senders
        The device at the beginning of each way, numbered by the caller.
    ways
        The limits of each way, by their numbers; as many as ``senders``.
    """

    bytes: int
    senders: tuple[int, ...]
    ways: tuple[tuple[int, ...], ...]


class MigrationProgram:
    """One of the three programs.

    Parameters
    ----------
    bytes_per_s
        C_l of each limit.
    most_s
        Upper bound on z; None: z is minimised.
    most_cost
        Upper bound on the sum that the second program minimises; None: that is
        minimised, if ``most_s`` is given.

    Attributes
    ----------
    linear
        The program itself.
    columns
        Columns of x_dw, by demand and way.
    """

    def __init__(
        self,
        demands: Sequence[Demand],
        bytes_per_s: Sequence[float],
        most_s: float | None = None,
        most_cost: float | None = None,
    ) -> None:
        self._demands, self._rates = demands, bytes_per_s
        self.linear = LinearProgram()
        self.columns = [
            [self.linear.column(f"x_{d}_{w}") for w in range(len(demand.ways))]
            for d, demand in enumerate(demands)
        ]
        self._meet_demands()
        self._keep_limits(most_s)
        if most_s is not None and most_cost is None:
            self.linear.minimize(self._cost())
        elif most_cost is not None:
            self.linear.row("cost", self._cost(), upper=most_cost * (1 + SLACK))
            self._balance()

    def _meet_demands(self) -> None:
        """Add the rows (1)."""
        for d, (demand, own) in enumerate(
            zip(self._demands, self.columns, strict=True)
        ):
            value = demand.bytes / SCALE_BYTES
            self.linear.equal(f"demand_{d}", total(own), value)

    def _keep_limits(self, most_s: float | None) -> None:
        """Add the rows (2), in seconds; z is a column or a constant."""
        used: dict[int, Terms] = defaultdict(dict)
        for demand, own in zip(self._demands, self.columns, strict=True):
            for column, way in zip(own, demand.ways, strict=True):
                for limit in way:
                    used[limit][column] = SCALE_BYTES / self._rates[limit]
        if most_s is not None:
            for limit, terms in used.items():
                self.linear.row(f"limit_{limit}", terms, upper=most_s * (1 + SLACK))
            return
        z = self.linear.column("z")
        self.linear.minimize({z: 1.0})
        for limit, terms in used.items():
            self.linear.row(f"limit_{limit}", {**terms, z: -1.0}, upper=0.0)

    def _cost(self) -> Terms:
        """Return the seconds that all bytes would take one after the other."""
        return {
            column: SCALE_BYTES / min(self._rates[limit] for limit in way)
            for demand, own in zip(self._demands, self.columns, strict=True)
            for column, way in zip(own, demand.ways, strict=True)
        }

    def _balance(self) -> None:
        """Minimise the bytes that the largest sender sends."""
        sent: dict[int, Terms] = defaultdict(dict)
        for demand, own in zip(self._demands, self.columns, strict=True):
            for column, sender in zip(own, demand.senders, strict=True):
                sent[sender][column] = 1.0
        most = self.linear.column("most")
        self.linear.minimize({most: 1.0})
        for sender, terms in sent.items():
            self.linear.row(f"sender_{sender}", {**terms, most: -1.0}, upper=0.0)
