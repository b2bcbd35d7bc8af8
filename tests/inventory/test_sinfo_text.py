"""``sinfo -h --Node -o "%N %t %G %c %m %P"``."""

from __future__ import annotations

import pytest

from hetopt.errors import InputError
from hetopt.inventory.reading import read_source
from hetopt.inventory.source import source_of
from tests.inventory.outcome import Case, check

HEAD = "NODELIST STATE GRES CPUS MEMORY PARTITION\n"

CASES = [
    Case(
        id="one kind, memory in its name",
        text="""\
dgx01 idle gpu:a100-sxm4-80gb:8 256 2063000 batch*
dgx02 idle gpu:a100-sxm4-80gb:8 256 2063000 batch*
""",
        clusters=("a100-80gb: 2 x 8 A100-80GB",),
        left_out={},
    ),
    Case(
        id="which A100 it does not say",
        text="g1 idle gpu:a100:4(S:0-1) 64 515000 gpu\n",
        clusters=("a100: 1 x 4 ? A100-40GB A100-80GB",),
        left_out={},
    ),
    Case(
        id="drained, draining, down, not responding",
        text="""\
n1 idle gpu:h100:8 192 2000000 p
n2 drain gpu:h100:8 192 2000000 p
n3 drng gpu:h100:8 192 2000000 p
n4 drain* gpu:h100:8 192 2000000 p
n5 down* gpu:h100:8 192 2000000 p
n6 idle* gpu:h100:8 192 2000000 p
n7 fail gpu:h100:8 192 2000000 p
""",
        clusters=("h100: 1 x 8 H100",),
        left_out={"drained": 3, "down": 2, "not responding": 1},
    ),
    Case(
        id="allocated, mixed, completing, planned, reserved",
        text="""\
n1 alloc gpu:h200:8 192 2000000 p
n2 mix gpu:h200:8 192 2000000 p
n3 mix- gpu:h200:8 192 2000000 p
n4 comp gpu:h200:8 192 2000000 p
n5 alloc+ gpu:h200:8 192 2000000 p
n6 resv gpu:h200:8 192 2000000 p
n7 plnd gpu:h200:8 192 2000000 p
n8 maint gpu:h200:8 192 2000000 p
n9 idle gpu:h200:8 192 2000000 p
""",
        clusters=("h200: 1 x 8 H200",),
        left_out={"partly": 5, "reserved": 3},
    ),
    Case(
        id="powered down, rebooting, states of no use",
        text="""\
c1 idle~ gpu:l40s:4 64 500000 cloud
c2 idle# gpu:l40s:4 64 500000 cloud
c3 idle% gpu:l40s:4 64 500000 cloud
c4 idle@ gpu:l40s:4 64 500000 cloud
c5 boot^ gpu:l40s:4 64 500000 cloud
c6 unk gpu:l40s:4 64 500000 cloud
c7 futr gpu:l40s:4 64 500000 cloud
c8 frobnicating gpu:l40s:4 64 500000 cloud
c9 idle gpu:l40s:4 64 500000 cloud
""",
        clusters=("l40s: 1 x 4 L40S",),
        left_out={"powered": 3, "about to be rebooted": 2, "in an unknown state": 3},
    ),
    Case(
        id="untyped and without devices",
        text="""\
g[01-02] idle gpu:2 32 128000 small
c[001-100] idle (null) 128 256000 cpu*
""",
        clusters=("devices: 2 x 2 ?",),
        left_out={"without an accelerator": 100},
    ),
    Case(
        id="MIG",
        text="""\
m1 idle gpu:a100_1g.5gb:14 64 500000 mig
m2 idle gpu:nvidia_a100_3g.20gb:4(S:0),gpu:a100-40gb:2(S:1) 64 500000 mig
m3 idle gpu:1g.10gb:28 64 500000 mig
w1 idle gpu:a100-40gb:4 64 500000 mig
""",
        clusters=("a100-40gb: 1 x 4 A100-40GB",),
        left_out={"with devices cut into MIG": 3},
    ),
    Case(
        id="two kinds in one node",
        text="""\
x1 idle gpu:v100-32gb:2(S:0),gpu:a40:2(S:1) 48 384000 mixed
x2 idle gpu:v100-32gb:2(S:0),gpu:a40:2(S:1) 48 384000 mixed
y1 idle gpu:a40:4,nvme:2 48 384000 mixed
""",
        clusters=(
            "a40-mixed-x4: 1 x 4 A40",
            "or v100-32gb: 2 x 2 V100-32GB",
            "or a40-mixed-x2: 2 x 2 A40",
        ),
        left_out={"with several kinds": 2},
    ),
    Case(
        id="node lists, a header, padding and spaces in a field",
        text="""\
NODELIST       STATE GRES                CPUS  MEMORY PARTITION
gpu[01-04,07]  idle  gpu:h100:8 (S:0-1)   192 2000000 train*
gpu[05-06]     down* gpu:h100:8 (S:0-1)   192 2000000 train*
""",
        clusters=("h100: 5 x 8 H100",),
        left_out={"down": 2},
    ),
    Case(
        id="a header in another order",
        text="PARTITION STATE NODELIST GRES\n"
        "hpc idle amd[1-3] gpu:mi300x:8,shard:64\n"
        "hpc mix amd4 gpu:mi300x:8,shard:64\n",
        clusters=("mi300x: 3 x 8 MI300X",),
        left_out={"partly": 1},
    ),
    Case(
        id="a node in several partitions is one node",
        text="""\
n1 idle gpu:h800:8 128 1000000 all
n1 idle gpu:h800:8 128 1000000 long*
n2 idle gpu:h800:8 128 1000000 all
n3 idle gpu:h800:8 128 1000000 debug
""",
        clusters=("h800-all: 2 x 8 H800", "h800-debug: 1 x 8 H800"),
        left_out={},
    ),
    Case(
        id="as many devices per node make a cluster",
        text="""\
a1 idle gpu:v100-16gb:4 40 190000 gpu
a2 idle gpu:v100-16gb:8 40 380000 gpu
a3 idle gpu:v100-16gb:4 40 190000 gpu
""",
        clusters=(
            "v100-16gb-gpu-x4: 2 x 4 V100-16GB",
            "v100-16gb-gpu-x8: 1 x 8 V100-16GB",
        ),
        left_out={},
    ),
    Case(
        id="devices the catalogue does not have, and NPUs",
        text="""\
r1 idle gpu:rtx_a6000:4 64 256000 gpu
s1 idle npu:ascend910b:8 192 1500000 npu
s2 idle npu:ascend910b4:8 192 1500000 npu
""",
        clusters=(
            "rtx-a6000: 1 x 4 ?",
            "ascend-a2-64gb: 1 x 8 Ascend-A2-64GB",
            "ascend910b4: 1 x 8 ?",
        ),
        left_out={},
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_inventories(case: Case) -> None:
    check(case, "sinfo")


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (
            "n1 idle gpu:a100:4\n",
            "f:1: has 3 fields (n1 idle gpu:a100:4), expected 6 (NODELIST, STATE",
        ),
        (
            HEAD + "n1 idle gpu:2 8 9\n",
            "f:2: has 5 fields (n1 idle gpu:2 8 9), expected 6",
        ),
        ("n[1-2 idle gpu:2 8 9 p\n", "f:1: NODELIST: is 'n[1-2', expected hosts"),
        ("n1 idle gpu:a:b:c:2 8 9 p\n", "f:1: GRES: is 'gpu:a:b:c:2', expected"),
        ("n;1 idle gpu:2 8 9 p\n", "f:1: NODELIST: is 'n;1', expected a host name"),
        (
            "PARTITION AVAIL TIMELIMIT NODES STATE NODELIST\ngpu* up 1 2 idle n[1-2]\n",
            "f:1: has the columns PARTITION, AVAIL, TIMELIMIT, NODES, STATE, NODELIST "
            "but not GRES, expected NODELIST, STATE, GRES, PARTITION, as of sinfo -h",
        ),
        (
            "Thu Nov 26 10:00:00 2026\nNODELIST NODES PARTITION STATE CPUS REASON\n",
            "f:2: has the columns NODELIST, NODES, PARTITION, STATE, CPUS, REASON but "
            "not GRES, expected",
        ),
        (
            "PARTITION AVAIL TIMELIMIT NODES(A/I/O/T) NODELIST\ngpu up 1 1/1/0/2 n1\n",
            "f:1: has the columns PARTITION, AVAIL, TIMELIMIT, NODES(A/I/O/T), "
            "NODELIST but not STATE, GRES, expected",
        ),
        (
            "gpu* up infinite 2 idle n[1-2]\n",
            "f:1: has 6 fields (gpu* up infinite 2 idle n[1-2]), expected 6 (NODELIST",
        ),
        (HEAD, "f: holds no node (sinfo)"),
    ],
)
def test_malformed(text: str, error: str) -> None:
    with pytest.raises(InputError) as caught:
        read_source(source_of(text, "f"))
    assert str(caught.value).startswith(error)
