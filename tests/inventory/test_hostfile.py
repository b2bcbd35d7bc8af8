"""Hostfiles."""

from __future__ import annotations

import pytest

from hetopt.errors import InputError
from hetopt.inventory.reading import read_source
from hetopt.inventory.source import source_of
from tests.inventory.outcome import Case, check

CASES = [
    Case(
        id="DeepSpeed",
        text="worker-1 slots=8\nworker-2 slots=8\n",
        clusters=("devices: 2 x 8 ?",),
        left_out={},
    ),
    Case(
        id="FlagScale",
        text="10.0.0.1 slots=8 type=A800\n10.0.0.2 slots=8 type=H20-96GB\n",
        clusters=("a800-80gb: 1 x 8 A800-80GB", "h20-96gb: 1 x 8 H20-96GB"),
        left_out={},
    ),
    Case(
        id="comments and empty lines",
        text="# rack 3\n\nn1 slots=4 type=h100  # new\n  n2 slots=4 type=h100\n",
        clusters=("h100: 2 x 4 H100",),
        left_out={},
    ),
    Case(
        id="hosts alone",
        text="node1.example.org\nnode2.example.org\n",
        clusters=("devices: 2 x ? ?",),
        left_out={},
    ),
    Case(
        id="MPICH",
        text="node1:4\nnode2:4\nnode3:2\n",
        clusters=("devices-x4: 2 x 4 ?", "devices-x2: 1 x 2 ?"),
        left_out={},
    ),
    Case(
        id="Open MPI, with a maximum",
        text="n1 slots = 4 max_slots = 4\nn2 slots=4 max-slots=8\n",
        clusters=("devices: 2 x 4 ?",),
        left_out={},
    ),
    Case(
        id="a host for each process",
        text="n1\nn1\nn2\nn2\n",
        clusters=("devices: 2 x ? ?",),
        left_out={},
    ),
    Case(
        id="ranges",
        text="gpu[01-03] slots=8 type=H200\nlogin1 slots=0\n",
        clusters=("h200: 3 x 8 H200",),
        left_out={"without": 1},
    ),
    Case(
        id="spaces in a type",
        text='n1 slots=8 type=NVIDIA H100 80GB HBM3\nn2 slots=8 type="NVIDIA H100 80GB '
        'HBM3"\n',
        clusters=("h100: 2 x 8 H100",),
        left_out={},
    ),
    Case(
        id="a type without slots, and an ambiguous one",
        text="n1 type=MI300X\nn2 slots=8 type=a100\n",
        clusters=("mi300x: 1 x ? MI300X", "a100: 1 x 8 ? A100-40GB A100-80GB"),
        left_out={},
    ),
    Case(
        id="an address of IPv6",
        text="fd00::1:2 slots=8 type=B200\nfd00::1:3 slots=8 type=B200\n",
        clusters=("b200: 2 x 8 B200",),
        left_out={},
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_inventories(case: Case) -> None:
    check(case, "hostfile")


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("a slots=8\nb 8\n", "f:2: b: is '8', expected slots=8 or type=A800"),
        ("a slots=8\nb gpus=8\n", "f:2: gpus: is not known, expected max-slots, max_"),
        ("a slots=8\na slots=4\n", "f:2: host: is 'a' again, first on line 1"),
        ("a slots=8\n$(b) slots=4\n", "f:2: host: is '$(b)', expected a host name"),
        ("a slots=8\nb[1- slots=4\n", "f:2: host: is 'b[1-', expected hosts such as"),
        ("a b c d\n", "f:1: is no inventory that hetopt knows, expected the output"),
        ("clusters:\n  - name: a\n", "f:1: is no inventory that hetopt knows"),
        ("# nothing\n", "f: is no inventory that hetopt knows"),
        (" \n", "f: is empty, expected an inventory"),
        ("{", "f:1: is not JSON: Expecting property name"),
        ("[" * 100_000, "f: is nested too deeply, expected an inventory"),
        ('{"a": 1}', "f: is no inventory that hetopt knows"),
    ],
)
def test_malformed(text: str, error: str) -> None:
    with pytest.raises(InputError) as caught:
        read_source(source_of(text, "f"))
    assert str(caught.value).startswith(error)
