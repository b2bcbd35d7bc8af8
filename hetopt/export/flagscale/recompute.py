"""What FlagScale's recomputation settings say of each stage."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from hetopt.base.words import counted, describe

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hetopt.export.shared.settings import Settings

GRANULARITY = "recompute_granularity"
METHOD = "recompute_method"
LAYERS = "recompute_num_layers"
PER_STAGE = "_per_stage_micro_batch"

#: A row that is written as text must have fewer characters.
_LONGEST_ROW = 10_000


def full_recompute(
    train: Settings, layers: Sequence[int], microbatches: int
) -> list[bool]:
    """Return whether each stage recomputes all its layers in full.

    Parameters
    ----------
    layers
        Of each stage; length p.

    Raises
    ------
    InputError
        A setting is malformed, or only some layers or micro-batches of a stage are
        recomputed, which no plan can express.
    """
    for old in (GRANULARITY, METHOD, LAYERS):
        if train.has(f"{old}_per_stage"):
            msg = f"is of an older FlagScale, expected {old}{PER_STAGE}"
            raise train.wrong(f"{old}_per_stage", msg)
    granularity = train.text(GRANULARITY, "none")
    if granularity not in ("none", "selective", "full"):
        raise train.wrong(
            GRANULARITY, f"is {describe(granularity)}, expected full or selective"
        )
    stages = len(layers)
    on = _per_stage(train, GRANULARITY, stages, microbatches)
    method = _per_stage(train, METHOD, stages, microbatches)
    number = _per_stage(train, LAYERS, stages, microbatches)
    for key, flags in ((GRANULARITY, on), (METHOD, method)):
        if flags is not None and not set(flags) <= {0, 1}:
            raise train.wrong(key + PER_STAGE, "holds flags other than 0 and 1")
    if on is not None and granularity != "full":
        msg = (
            f"is {describe(granularity)}, expected full beside {GRANULARITY}{PER_STAGE}"
        )
        raise train.wrong(GRANULARITY, msg)
    if granularity != "full":
        return [False] * stages
    named = train.text(METHOD, "none")
    if named not in ("uniform", "block"):
        raise train.wrong(METHOD, f"is {describe(named)}, expected uniform or block")
    # 0: uniform, all layers in groups of ``number``; 1: block, the first ``number``.
    blocks = method or [int(named == "block")] * stages
    counts = number or [train.number(LAYERS, 1)] * stages
    full = [
        bool(flag and count)
        for flag, count in zip(on or [1] * stages, counts, strict=True)
    ]
    for held, block, count, used in zip(layers, blocks, counts, full, strict=True):
        if used and block and count < held:
            msg = (
                f"recomputes {count} of the {counted(held, 'layer')} of a stage: a "
                "plan recomputes all or none"
            )
            raise train.wrong(LAYERS, msg)
    return full


def _per_stage(
    train: Settings, name: str, stages: int, microbatches: int
) -> list[int] | None:
    """Return a setting's value on each stage; None if it is left out."""
    key = name + PER_STAGE
    rows = train.rows(key)
    if rows is None:
        return None
    values: list[int] = []
    for item in rows:
        row = _row(train, key, item)
        counts, settings = row[1::2], row[2::2]
        if sum(counts) != microbatches:
            msg = (
                f"has a row of {counted(sum(counts), 'micro-batch', 'es')}, expected "
                f"{microbatches}"
            )
            raise train.wrong(key, msg)
        used = {value for n, value in zip(counts, settings, strict=True) if n}
        if len(used) != 1:
            msg = (
                "differs between the micro-batches of a stage, which no plan can "
                "express"
            )
            raise train.wrong(key, msg)
        if len(values) + row[0] > stages:
            raise train.wrong(
                key, f"describes more than the {counted(stages, 'stage')}"
            )
        values += [used.pop()] * row[0]
    if len(values) != stages:
        raise train.wrong(
            key, f"describes {counted(len(values), 'stage')}, expected {stages}"
        )
    return values


def _row(train: Settings, key: str, item: Any) -> list[int]:
    """Return a row: stages, then pairs of a number of micro-batches and a value."""
    if isinstance(item, str) and len(item) < _LONGEST_ROW:
        try:
            item = ast.literal_eval(item)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            item = None
    numbers = list(item) if isinstance(item, list | tuple) else []
    whole = all(isinstance(n, int) and not isinstance(n, bool) for n in numbers)
    if len(numbers) < 3 or len(numbers) % 2 == 0 or not whole or min(numbers) < 0:
        msg = "holds a row other than stages, n0, v0, n1, v1, ..."
        raise train.wrong(key, msg)
    return numbers
