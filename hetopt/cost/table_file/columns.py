"""Columns of a latency table's strategies: their names and largest values."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetopt.cost.table.ticks import TOO_LONG_NS
from hetopt.cost.table_file.values import LARGEST
from hetopt.problem.quantity import TOO_MANY_BYTES
from hetopt.schedule.schedules import rule_of

if TYPE_CHECKING:
    from hetopt.problem.training.choices import ScheduleName

#: Fields of a strategy with one number, and with one number per kind.
STRATEGY_NUMBERS = (
    "microbatch",
    "devices",
    "max_stages",
    "layout",
    "fixed_bytes",
    "sync_ns",
)
KIND_NUMBERS = (
    "forward_ns",
    "backward_ns",
    "state_bytes",
    "activation_bytes",
    "temporary_bytes",
    "sync_unit_ns",
)
#: Further fields per kind if the schedule splits the backward pass.
WEIGHT_NUMBERS = ("weight_ns", "weight_bytes")


def kind_numbers(schedule: ScheduleName) -> tuple[str, ...]:
    """Return the fields of a strategy with one number per kind of unit."""
    return KIND_NUMBERS + WEIGHT_NUMBERS * rule_of(schedule).splits


def most_of(name: str) -> int:
    """Return the largest number in a field of this name."""
    if name.endswith("_ns"):
        return TOO_LONG_NS
    return TOO_MANY_BYTES if name.endswith("_bytes") else LARGEST
