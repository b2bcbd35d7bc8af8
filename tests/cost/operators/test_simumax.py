from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hetopt.cli import main
from hetopt.cost.operators.file import parse_operators
from hetopt.cost.operators.simumax import read_simumax
from hetopt.errors import InputError
from hetopt.problem.catalogue import operator_files

FACTORS = "accurate_efficient_factor"
GROUPED = "ng=40, M=616, N=3072, K=5120, stage={}, grad=True, accumulate=False"


def system() -> dict[str, Any]:
    """Return some of SimuMax's system of A100-PCIe, as SimuMax has it."""
    shapes = {
        "matmul": {
            "b=1, m=4096, k=5120, n=1536, layout=TN, accumulate=False, "
            "out_dtype=bf16": 0.7876672065615554,
            "b=1, m=1536, k=4096, n=5120, layout=NT, accumulate=True, "
            "out_dtype=fp32": 0.6244545650481178,
        },
        "sdp_fwd": {
            "batch=1, seq_len=4096, head_num=32, kv_head_num=8, qk_head_dim=128, "
            "v_head_dim=128, qkv_contiguous=True": 1.1319724660210262,
        },
        "sdp_bwd": {
            "batch=1, seq_len=4096, head_num=32, kv_head_num=8, qk_head_dim=128, "
            "v_head_dim=128, qkv_contiguous=True": 0.9763861054324198,
        },
        "group_matmul": {
            GROUPED.format("fwd"): 0.6313438865579614,
            GROUPED.format("bwd_grad_act"): 0.6790978664070304,
            GROUPED.format("bwd_grad_w"): 0.5196854178569805,
        },
    }
    operators = {op: {"tflops": 312, FACTORS: part} for op, part in shapes.items()}
    default = {"efficient_factor": 0.91, "gbps": 1600, "latency_us": 40}
    return {
        "accelerator": {
            "op": {"fp8_matmul": {"tflops": 624}, **operators},
            "bandwidth": {"default": default},
        }
    }


def write(folder: Path, data: Any) -> str:
    path = folder / "a100_pcie.json"
    path.write_text(json.dumps(data))
    return str(path)


def test_what_ships_is_what_simumaxs_file_converts_to(tmp_path: Path) -> None:
    rows, header = read_simumax(write(tmp_path, system()))
    assert header == {"peak_flops": "312 TFLOPS", "memory_bandwidth": "1600 GB/s"}
    name, file = next(item for item in operator_files().items() if "pcie" in item[0])
    shipped = parse_operators(file.read_text("utf-8"), name).rows

    def key(row: Any) -> tuple[object, ...]:
        return tuple(
            getattr(row, column) for column in row.__slots__ if column != "time_us"
        )

    times = {key(row): row.time_us for row in shipped}
    assert len(rows) == 11
    for row in rows:
        # The shares that ship were rounded to five digits.
        assert times[key(row)] == pytest.approx(row.time_us, rel=2e-5)


def test_backward_cores_count_five_products_of_the_mean_width(tmp_path: Path) -> None:
    """As SimuMax measures them, whatever the widths of queries and values."""
    data = system()
    core = data["accelerator"]["op"]["sdp_bwd"]
    core[FACTORS] = {
        "batch=2, seq_len=1024, head_num=16, kv_head_num=16, qk_head_dim=192, "
        "v_head_dim=128": 0.5
    }
    rows, _ = read_simumax(write(tmp_path, data))
    row = next(row for row in rows if row.op == "sdp_bwd")
    flops = 5 * 2 * 16 * 1024**2 * (192 + 128)
    assert row.time_us == pytest.approx(flops / (0.5 * 312e6), rel=1e-5)


@pytest.mark.parametrize(
    ("where", "value", "message"),
    [
        (f"op.matmul.{FACTORS}", {}, r"op\.matmul: has no measured shape"),
        (f"op.matmul.{FACTORS}", {"m=1": 2}, r"factor: k: missing, in 'm=1'"),
        (f"op.sdp_fwd.{FACTORS}", {"batch=x": 2}, "batch: 'x' is not a whole number"),
        (
            f"op.group_matmul.{FACTORS}",
            {GROUPED.format("sideways"): 0.5},
            "stage: 'sideways', expected fwd, bwd_grad_act, bwd_grad_w, in 'ng=40",
        ),
    ],
)
def test_what_is_wrong_is_named(
    tmp_path: Path, where: str, value: Any, message: str
) -> None:
    data = system()
    part = data["accelerator"]
    *path, last = where.split(".")
    for key in path:
        part = part[key]
    part[last] = value
    with pytest.raises(InputError, match=rf"a100_pcie\.json: .*{message}"):
        read_simumax(write(tmp_path, data))


def test_the_command_writes_operators(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "x1.csv"
    command = ["convert-profile", write(tmp_path, system()), "--from", "simumax"]
    assert main([*command, "--accelerator", "X1", "--out", str(out)]) == 0
    assert f"wrote {out}: 11 rows" in capsys.readouterr().out
    header = parse_operators(out.read_text(), "x1.csv").header
    assert header["memory_bandwidth"] == "1600 GB/s"
    assert header["licence"] == "not stated: the source's licence applies"
    assert main([*command, "--accelerator", "H100", "--out", str(out)]) == 0
    assert "peak_flops" not in parse_operators(out.read_text(), "x1.csv").header


def test_bad_input_leaves_the_old_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "x1.csv"
    out.write_text("mine\n")
    source = write(tmp_path, [])
    command = ["convert-profile", source, "--from", "simumax", "--accelerator", "X1"]
    assert main([*command, "--out", str(out)]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert out.read_text() == "mine\n"
