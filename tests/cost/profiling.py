"""Profiles made up from a formula, for tests of what learns from them."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np

from hetopt.cost.profiles.file import PROFILE_SCHEMA, Profile, ProfileRow, profile_text
from hetopt.cost.profiles.units import shard_key
from hetopt.cost.shard_shape import ATTENTION_CORE, UNITS
from hetopt.cost.sources.features import flops_and_bytes, shards_of_rows

#: Rates of the made-up device: FLOP/s of multiplications and of attention, bytes/s.
PEAK, ATTENTION_PEAK, BANDWIDTH, GAP_S = 1e11, 4e10, 2e10, 2e-5
DEGREES = ((1, 1), (1, 2), (2, 1))


def make_row(unit: str, **changes: Any) -> ProfileRow:
    values: dict[str, Any] = {
        "unit": unit,
        "gated": True,
        "dtype": "bf16",
        "hidden": 512,
        "heads": 8,
        "kv_heads": 8,
        "head_dim": 64,
        "ffn": 1536,
        "vocab": 8000,
        "cp": 1,
        "tp": 1,
        "microbatch": 1,
        "seq_len": 256,
        "forward_s": 1.0,
        "backward_s": 2.0,
        "forward_spread_s": 0.01,
        "backward_spread_s": 0.02,
        "repetitions": 10,
        "status": "ok",
    }
    values.update(changes)
    return ProfileRow(**values)


def seconds(unit: str, rows: list[ProfileRow]) -> np.ndarray[Any, Any]:
    """Return the made-up device's times, forward and backward; (R, 2)."""
    shards = shards_of_rows(unit, rows)
    passes = []
    for backward in (False, True):
        flops, attention, moved = flops_and_bytes(shards, backward=backward)
        efficiency = flops / (flops + 2e7)
        dense = np.where(flops > 0, flops / (PEAK * np.maximum(efficiency, 1e-9)), 0.0)
        passes.append(dense + attention / ATTENTION_PEAK + moved / BANDWIDTH + GAP_S)
    return np.stack(passes, axis=1)


# One keyword for each thing that a profile may differ in.
def make_profile(
    units: tuple[str, ...] = UNITS,
    *,
    noise: float = 0.02,
    accelerator: str = "a made-up device",
    dtype: str = "bf16",
    hidden: tuple[int, ...] = (256, 512, 1024),
    microbatch: tuple[int, ...] = (1, 2, 4),
    gated: bool = True,
    kind: str = "measured",
    factor: float = 1.0,
) -> Profile:
    """Return a profile with log-normal noise of relative size ``noise``."""
    random = np.random.default_rng(0)
    rows: list[ProfileRow] = []
    for unit in units:
        shards = [
            make_row(
                unit,
                gated=gated,
                dtype=dtype,
                hidden=h,
                head_dim=h // 8,
                ffn=3 * h,
                cp=cp,
                tp=tp,
                microbatch=b,
                seq_len=s,
            )
            for h, s, b, (cp, tp) in product(
                hidden, (128, 256, 512), microbatch, DEGREES
            )
        ]
        once = list({shard_key(row): row for row in shards}.values())
        times = seconds(unit, once) * factor
        times *= np.exp(noise * random.standard_normal(times.shape))
        rows += [
            make_row(
                **{
                    **{name: getattr(row, name) for name in SHAPE},
                    "forward_s": float(forward),
                    "backward_s": float(backward),
                    "forward_spread_s": 1.35 * noise * float(forward),
                    "backward_spread_s": 1.35 * noise * float(backward),
                }
            )
            for row, (forward, backward) in zip(once, times, strict=True)
        ]
    header = {"schema": PROFILE_SCHEMA, "kind": kind, "accelerator": accelerator}
    return Profile(header=header, rows=tuple(rows))


def make_text(*arguments: Any, **changes: Any) -> str:
    profile = make_profile(*arguments, **changes)
    return profile_text(profile.header, profile.rows)


SHAPE = (
    "unit",
    "gated",
    "dtype",
    "hidden",
    "heads",
    "kv_heads",
    "head_dim",
    "ffn",
    "vocab",
    "cp",
    "tp",
    "microbatch",
    "seq_len",
)
LAYER_UNITS = ("layer", "embedding", "head", ATTENTION_CORE)
