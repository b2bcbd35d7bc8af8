"""``scontrol show node``."""

from __future__ import annotations

import pytest

from hetopt.errors import InputError
from hetopt.inventory.reading import read_source
from hetopt.inventory.source import source_of
from tests.inventory.outcome import Case, check


def node(
    name: str,
    state: str,
    gres: str,
    partitions: str = "gpu",
    more: str = "",
    reason: str = "",
) -> str:
    """Return a record as Slurm 23.11 prints it."""
    return f"""\
NodeName={name} Arch=x86_64 CoresPerSocket=32
   CPUAlloc=0 CPUEfctv=128 CPUTot=128 CPULoad=0.03
   AvailableFeatures=ib,rack12
   ActiveFeatures=ib,rack12
   Gres={gres}
   {more}
   NodeAddr={name} NodeHostName={name} Version=23.11.4
   OS=Linux 5.15.0-91-generic #101-Ubuntu SMP Tue Nov 14 13:30:08 UTC 2023
   RealMemory=1031000 AllocMem=0 FreeMem=1002345 Sockets=2 Boards=1
   State={state} ThreadsPerCore=2 TmpDisk=0 Weight=1 Owner=N/A MCS_label=N/A
   Partitions={partitions}
   BootTime=2026-11-01T08:01:22 SlurmdStartTime=2026-11-01T08:03:11
   CapWatts=n/a
   CurrentWatts=0 AveWatts=0
   ExtSensorsJoules=n/a ExtSensorsWatts=0 ExtSensorsTemp=n/a
{f"   Reason={reason} [root@2026-11-02T10:00:00]" if reason else ""}

"""


A100 = "gpu:a100-sxm4-80gb:8(S:0-1)"

CASES = [
    Case(
        id="two nodes",
        text=node("a1", "IDLE", A100) + node("a2", "IDLE", A100),
        clusters=("a100-80gb: 2 x 8 A100-80GB",),
        left_out={},
    ),
    Case(
        id="on one line each (-o)",
        text="".join(
            " ".join(node(name, state, "gpu:h100:4", reason=reason).split()) + "\n"
            for name, state, reason in (
                ("h1", "IDLE", ""),
                ("h2", "DOWN*+DRAIN", "Not responding Gres=gpu:h100:9 State=IDLE"),
            )
        ),
        clusters=("h100: 1 x 4 H100",),
        left_out={"down": 1},
    ),
    Case(
        id="drained, with reasons full of spaces and equals signs",
        text=node("a1", "IDLE+DRAIN", A100, reason="Kill task failed; RMA=4711 gpu 3")
        + node("a2", "MIXED+DRAIN", A100, reason="State=IDLE is a lie")
        + node("a3", "IDLE", A100),
        clusters=("a100-80gb: 1 x 8 A100-80GB",),
        left_out={"drained": 2},
    ),
    Case(
        id="used, by state, by GresUsed, by AllocTRES",
        text=node("n1", "ALLOCATED", "gpu:h800:8")
        + node("n2", "MIXED", "gpu:h800:8")
        + node("n3", "IDLE", "gpu:h800:8", more="GresUsed=gpu:h800:3(IDX:0-2)")
        + node("n4", "IDLE", "gpu:h800:8", more="AllocTRES=cpu=4,gres/gpu=1")
        + node("n5", "IDLE", "gpu:h800:8", more="GresUsed=gpu:h800:0(IDX:N/A)"),
        clusters=("h800: 1 x 8 H800",),
        left_out={"partly": 4},
    ),
    Case(
        id="reserved, maintenance, rebooting, powered down",
        text=node("n1", "IDLE+RESERVED", A100)
        + node("n2", "IDLE+MAINTENANCE+RESERVED", A100)
        + node("n3", "IDLE+REBOOT_REQUESTED", A100)
        + node("n4", "IDLE+CLOUD+POWERED_DOWN", A100)
        + node("n5", "IDLE+PLANNED", A100)
        + node("n6", "IDLE+CLOUD", A100),
        clusters=("a100-80gb: 1 x 8 A100-80GB",),
        left_out={"reserved": 3, "about to be": 1, "powered": 1},
    ),
    Case(
        id="untyped in GRES, typed in TRES",
        text=node(
            "n1",
            "IDLE",
            "gpu:4(S:0-1)",
            more="CfgTRES=cpu=64,mem=503G,billing=64,gres/gpu=4,gres/gpu:l40s=4",
        ),
        clusters=("l40s: 1 x 4 L40S",),
        left_out={},
    ),
    Case(
        id="only TRES",
        text="NodeName=n1 State=IDLE CfgTRES=cpu=64,gres/gpu=8,gres/gpu:h20-96gb=8\n"
        "NodeName=n2 State=IDLE Partitions=p CfgTRES=cpu=64\n",
        clusters=("h20-96gb: 1 x 8 H20-96GB",),
        left_out={"without": 1},
    ),
    Case(
        id="untyped",
        text=node("n1", "IDLE", "gpu:2", more="CfgTRES=cpu=64,mem=503G,gres/gpu=2")
        + node("n2", "IDLE", "gpu:2"),
        clusters=("devices: 2 x 2 ?",),
        left_out={},
    ),
    Case(
        id="no devices, or no GRES at all",
        text=node("c1", "IDLE", "(null)", "cpu") + node("c2", "ALLOCATED", "", "cpu")
        + node("g1", "IDLE", "gpu:a40:8"),
        clusters=("a40: 1 x 8 A40",),
        left_out={"without": 2},
    ),
    Case(
        id="MIG",
        text=node("m1", "IDLE", "gpu:a100_2g.10gb:12,gpu:a100-40gb:1", "mig")
        + node("m2", "IDLE", "gpu:nvidia_h100_80gb_hbm3_1g.10gb:56(S:0-1)", "mig")
        + node("g1", "IDLE", "gpu:a100-40gb:4", "mig"),
        clusters=("a100-40gb: 1 x 4 A100-40GB",),
        left_out={"with devices cut into MIG": 2},
    ),
    Case(
        id="two kinds in one node",
        text=node("x1", "IDLE", "gpu:tesla_v100-sxm2-16gb:2(S:0),gpu:titanxp:2(S:1)"),
        clusters=("or v100-16gb: 1 x 2 V100-16GB", "or titan-xp: 1 x 2 TITAN-Xp"),
        left_out={"with several kinds": 1},
    ),
    Case(
        id="several partitions, spaces inside a field",
        text=node("n1", "IDLE", "gpu:h20-96gb:8 (S:0-1)", "train,all")
        + node("n2", "IDLE", "gpu:h20-96gb:8 (S:0-1)", "all")
        + node("n3", "IDLE", "gpu:h20-96gb:8", "lab"),
        clusters=("h20-96gb-all: 2 x 8 H20-96GB", "h20-96gb-lab: 1 x 8 H20-96GB"),
        left_out={},
    ),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_inventories(case: Case) -> None:
    check(case, "scontrol show node")


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("NodeName=n1 Gres=gpu:2\n", "f:1: State: is missing from the node"),
        ("NodeName=n1 State=IDLE\n", "f:1: Gres: is missing from the node, and so"),
        ("\nNodeName= State=IDLE\n", "f:2: NodeName: is missing from the node"),
        (
            node("n1", "IDLE", A100) + "NodeName=n2 State=IDLE Gres=gpu:a:b:2",
            "f:18: Gres: is 'gpu:a:b:2', expected entries such as gpu:a100:4",
        ),
        (
            "NodeName=n1 State=IDLE Gres=gpu:2 CfgTRES=gres/gpu=many",
            "f:1: CfgTRES: is 'gres/gpu=many', expected entries such as gres/gpu:",
        ),
        ("NodeName=n`1 State=IDLE Gres=gpu:2", "f:1: NodeName: is 'n`1', expected a"),
    ],
)
def test_malformed(text: str, error: str) -> None:
    with pytest.raises(InputError) as caught:
        read_source(source_of(text, "f"))
    assert str(caught.value).startswith(error)
