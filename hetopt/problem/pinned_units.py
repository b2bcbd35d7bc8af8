"""Check that pinned units are as many as the stages of a schedule hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetopt.base.faults import Fault
from hetopt.base.words import counted
from hetopt.problem.training.choices import ANY, FOLDED, INTERLEAVED

if TYPE_CHECKING:
    from hetopt.problem.model.model import Model
    from hetopt.problem.training.training import Training


def units_fault(
    units: tuple[int, ...], model: Model, training: Training
) -> Fault | None:
    """Return why ``pin.units`` is impossible under a schedule; None if it is not.

    None, too, if the schedule cannot divide the model: there is nothing to count.
    """
    total = len(model.units)
    is_folded = training.schedule in FOLDED
    if total % 2 if is_folded else (total - 2) % training.chunks:
        return None
    placed, what = _placed(total, training)
    if sum(units) != placed:
        msg = f"sums to {sum(units)}, expected {what} with schedule {training.schedule}"
        return Fault(msg, "units")
    if len(units) > 1:
        for index, what in ((0, "embedding"), (len(units) - 1, "head")):
            # The head of a folded model is on the first stage.
            if units[index] < 2 and not (is_folded and index):
                msg = f"is {units[index]}, expected more than the {what} alone"
                return Fault(msg, "units", index)
    return None


def cuts_fault(cuts: tuple[int, ...], model: Model, training: Training) -> str | None:
    """Return why chunks cannot end at these units; None if they can."""
    units, chunks = len(model.units), training.chunks
    if training.any_schedule or chunks == 1:
        schedule = ANY if training.any_schedule else training.schedule
        return (
            f"is of stages of several chunks, and the schedule is {schedule}: expected "
            f"schedule {INTERLEAVED}, and training.chunks"
        )
    stages, rest = divmod(len(cuts), chunks)
    if rest or stages < 2:
        return (
            f"has {counted(len(cuts), 'chunk')}, expected {chunks} (training.chunks) "
            "for each of at least 2 stages"
        )
    if sorted(cuts) != [*cuts] or cuts[-1] != units:
        said = ", ".join(map(str, cuts))
        return f"is {said}, expected ascending numbers up to the model's {units} units"
    if not cuts[0] or cuts[-2] == units:
        which, what = ("last", "head") if cuts[0] else ("first", "embedding")
        return f"leaves the {which} chunk without the {what}"
    held = [
        sum(cuts[i] - (cuts[i - 1] if i else 0) for i in range(own, len(cuts), stages))
        for own in range(stages)
    ]
    if 0 in held:
        return f"leaves stage {held.index(0)} without a unit, expected at least one"
    return None


def _placed(total: int, training: Training) -> tuple[int, str]:
    """Return how many units all stages hold together, and the same in words.

    Parameters
    ----------
    total
        Units of the model.
    """
    if training.schedule in FOLDED:
        pairs = total // 2
        return pairs, f"{pairs} pairs (embedding and head, {pairs - 1} of layers)"
    inside = (total - 2) // training.chunks
    whose = "the model's" if training.chunks == 1 else "a chunk's"
    words = (
        f"{whose} {counted(inside + 2, 'unit')} (embedding, {inside} in between, head)"
    )
    return inside + 2, words
