"""Which shards are measured; needs no PyTorch."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import hetopt
from hetopt.cost.profiles.units import estimated_bytes, forward_flops, shard_key
from hetopt.cost.shard_shape import UNITS
from hetopt.profile.grid import distinct_shapes, hetauto_grid, quick_grid


def test_the_default_grid_is_hetautos() -> None:
    shapes = distinct_shapes(hetauto_grid("bf16"))
    layers = [shape for shape in shapes if shape.unit == "layer"]
    assert {shape.hidden for shape in layers} >= {1024, 2048, 4096}
    assert {shape.heads for shape in layers} == {8, 16, 32}
    assert {shape.microbatch for shape in layers} == {1, 2, 4, 8, 16}
    assert {shape.seq_len for shape in layers} == {1024, 2048, 4096, 8192}
    degrees = {(shape.cp, shape.tp) for shape in layers}
    assert len(degrees) == 15
    assert max(cp * tp for cp, tp in degrees) == 16
    # "We skip invalid combinations", such as 16 ranks for 8 heads.
    assert all(shape.heads >= shape.tp for shape in layers)


def test_no_shard_is_there_twice() -> None:
    grid = hetauto_grid("bf16")
    shapes = distinct_shapes(grid)
    assert len({shard_key(shape) for shape in shapes}) == len(shapes)
    heads = [shape for shape in shapes if shape.unit == "head"]
    # 5 x 4 x 15 combinations for each hidden size, but tokens and tp make the shard.
    assert len(heads) < 4 * 5 * 4 * 15 / 4


def test_the_quick_grid_teaches_every_dimension() -> None:
    shapes = distinct_shapes(quick_grid("fp32"))
    assert len(shapes) <= 600
    for unit in UNITS:
        part = [shape for shape in shapes if shape.unit == unit]
        assert len(part) >= 40
        for field in ("hidden", "microbatch", "seq_len", "tp"):
            assert len({getattr(shape, field) for shape in part}) >= 2, (unit, field)
    layers = [shape for shape in shapes if shape.unit == "layer"]
    assert len({(shape.cp, shape.tp) for shape in layers}) == 6
    assert len({shape.hidden for shape in layers}) == 5
    assert max(forward_flops(shape) for shape in shapes) < 1.3e9
    assert max(estimated_bytes(shape) for shape in shapes) < 1e9


def test_a_part_of_the_order_covers_every_kind() -> None:
    shapes = distinct_shapes(quick_grid("fp32"))
    assert {shape.unit for shape in shapes[:60]} == set(UNITS)


def test_the_order_does_not_depend_on_hashing() -> None:
    code = (
        "from hetopt.cost.profiles.units import shard_key\n"
        "from hetopt.profile.grid import *\n"
        "print([shard_key(shape) for shape in distinct_shapes(quick_grid('fp32'))])"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            check=True,
            env={
                "PYTHONPATH": str(Path(hetopt.__file__).parent.parent),
                "PYTHONHASHSEED": seed,
            },
        ).stdout
        for seed in ("1", "2")
    }
    assert len(outputs) == 1


def test_widths_follow_the_family() -> None:
    grid = replace(
        hetauto_grid("bf16"),
        families=("llama", "gpt"),
        hidden=(4096,),
        units=("layer",),
    )
    widths = {(shape.gated, shape.ffn) for shape in distinct_shapes(grid)}
    assert widths == {(True, 11008), (False, 16384)}
    chosen = replace(grid, ffn=(14336,), kv_heads=(8,), families=("llama",))
    assert {(s.ffn, s.kv_heads) for s in distinct_shapes(chosen)} == {(14336, 8)}


@pytest.mark.parametrize("unit", UNITS)
def test_more_of_anything_is_more_work(unit: str) -> None:
    grid = replace(hetauto_grid("bf16"), units=(unit,), degrees=((1, 1),))
    for shape in distinct_shapes(grid):
        twice = replace(shape, microbatch=2 * shape.microbatch)
        assert forward_flops(twice) >= forward_flops(shape)
        assert estimated_bytes(twice) > estimated_bytes(shape)
