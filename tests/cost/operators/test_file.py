from __future__ import annotations

from pathlib import Path

import pytest

from hetopt.cost.operators.file import parse_operators, write_operators
from hetopt.errors import InputError
from hetopt.problem.catalogue import operator_files

HEADER = """\
# schema: hetopt-operators/1
# device: H100
# kind: measured
# source: a test
# licence: none
op,dtype,m,k,n,groups,layout,batch,seq,heads,kv_heads,qk_dim,v_dim,bytes,time_us
"""
MATMUL = "matmul,bf16,4096,512,1024,1,NT,,,,,,,,25.5\n"
SDP = "sdp_bwd,bf16,,,,,,1,4096,32,8,128,128,,900\n"


def test_rows_are_read() -> None:
    rows = parse_operators(HEADER + MATMUL + SDP, "x.csv").rows
    assert (rows[0].m, rows[0].layout, rows[0].time_us) == (4096, "NT", 25.5)
    assert (rows[1].op, rows[1].kv_heads, rows[1].m) == ("sdp_bwd", 8, None)


def test_a_weight_gradient_reads_and_writes_fp32_unless_the_file_says_otherwise() -> (
    None
):
    header = HEADER.replace("time_us", "time_us,output")
    rows = [MATMUL, MATMUL.replace("\n", ",bf16\n"), MATMUL.replace("NT", "TN")]
    given = [row if row.count(",") == 15 else row.replace("\n", ",\n") for row in rows]
    found = parse_operators(header + "".join(given), "x.csv").rows
    assert [row.output_bytes for row in found] == [8, 4, 2]


MEMORY = "memory,bf16,,,4096,,,,,,,,,1000,1.5,{}\n"


def test_an_element_wise_row_may_say_which_kernel_it_is() -> None:
    header = HEADER.replace("time_us", "time_us,kernel")
    text = header + MEMORY.format("rmsnorm") + MEMORY.format("")
    rows = parse_operators(text, "x.csv").rows
    assert [(row.kernel, row.n) for row in rows] == [("rmsnorm", 4096), (None, 4096)]
    assert parse_operators(HEADER + SDP, "x.csv").rows[0].kernel is None


def test_only_memory_operators_have_kernels() -> None:
    header = HEADER.replace("time_us", "time_us,kernel")
    row = MATMUL.replace("\n", ",add\n")
    with pytest.raises(
        InputError, match=r"x\.csv:7: kernel: 'add', but only memory op"
    ):
        parse_operators(header + row, "x.csv")


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    profile = parse_operators(HEADER + MATMUL + SDP, "x.csv")
    path = tmp_path / "y.csv"
    write_operators(str(path), profile.header, profile.rows)
    assert parse_operators(path.read_text(), "y.csv").rows == profile.rows


def test_shipped_operators_say_where_they_come_from() -> None:
    assert len(operator_files()) == 5
    for name, file in operator_files().items():
        profile = parse_operators(file.read_text("utf-8"), name)
        assert profile.header["kind"] == "measured"
        assert len(profile.rows) > 200
