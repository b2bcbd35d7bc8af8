"""The pins that heuristics cannot keep."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetopt.errors import InputError
from hetopt.problem.training.pins import ANY

if TYPE_CHECKING:
    from hetopt.problem.training.pins import Pins


def ensure_free_units(solver: str, pins: Pins) -> None:
    """Raise InputError for pins on units, which the heuristic decides itself."""
    counted = [name for name, own in pins.clusters.items() if own.units != ANY]
    if pins.units is not None or counted:
        field = "pin.units" if pins.units else f"pin.clusters.{counted[0]}.units"
        msg = (
            f"solver {solver} decides the units itself: use --solver dp, or remove "
            "this pin"
        )
        raise InputError(msg, field=field)
