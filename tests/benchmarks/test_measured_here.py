from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.measured_here import Judged, errors_of_passes, judged
from hetopt.cost.profiles.file import PROFILE_SCHEMA, Profile, ProfileRow, write_profile
from tests.cost.sources.test_operator_source import operators

ROW = ProfileRow(
    unit="layer",
    gated=True,
    dtype="bf16",
    hidden=1024,
    heads=16,
    kv_heads=16,
    head_dim=64,
    ffn=2816,
    vocab=32000,
    cp=1,
    tp=1,
    microbatch=2,
    seq_len=1024,
    forward_s=1.5e-3,
    backward_s=3e-3,
    forward_spread_s=0.0,
    backward_spread_s=0.0,
    repetitions=10,
    status="ok",
)


def test_layers_are_judged_by_the_operators_beside_them(tmp_path: Path) -> None:
    (tmp_path / "operators.csv").write_text(operators())
    header = {"schema": PROFILE_SCHEMA, "kind": "measured", "accelerator": "X1"}
    profile = Profile(header=header, rows=(ROW,))
    write_profile(str(tmp_path / "layers.csv"), profile)
    (found,) = judged(tmp_path)
    assert found.measured_s == (1.5e-3, 3e-3)
    flops = 2 * 2048 * 1024 * (4 * 1024 + 3 * 2816) + 2 * 2048 * 1024**2
    forward, backward = found.predicted_s
    assert forward > 2 * flops / 1e14
    assert 1.5 * forward < backward < 3 * forward


def test_errors_are_relative_and_absolute() -> None:
    rows = [
        Judged(row=ROW, measured_s=(1.0, 2.0), predicted_s=(1.1, 1.0)),
        Judged(row=ROW, measured_s=(1.0, 2.0), predicted_s=(0.7, 2.0)),
    ]
    assert errors_of_passes(rows) == pytest.approx([0.2, 0.25])
    assert rows[0].ratio == pytest.approx(2.1 / 3)
