"""Readers of files with measured times, hetopt's own and other programs'."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hetopt.cost.operators.file import parse_operators
from hetopt.cost.operators.simumax import read_simumax
from hetopt.cost.operators.vidur import read_vidur
from hetopt.cost.profiles.file import parse_profile
from hetopt.cost.profiles.metis import read_metis
from hetopt.cost.profiles.sailor import read_sailor
from hetopt.problem.accelerator_file import read_accelerator
from hetopt.problem.training.lengths import read_histogram
from tests.cost.operators.test_simumax import system
from tests.cost.operators.test_vidur import cells
from tests.cost.profiles.test_foreign import LAYERS_MS, TOLD, sailor
from tests.mutations import csv_mutations
from tests.problem.test_accelerator_file import DATA
from tests.readers.reader import Reader

if TYPE_CHECKING:
    from pathlib import Path

PROFILE = """\
# schema: hetopt-profile/1
# kind: measured
# accelerator: CPU
# communication: excluded
# optimizer_s_per_parameter: 1e-9
unit,gated,dtype,hidden,heads,kv_heads,head_dim,ffn,vocab,cp,tp,microbatch,seq_len,\
forward_s,backward_s,forward_spread_s,backward_spread_s,repetitions,status
layer,1,fp32,256,8,4,32,768,1000,2,2,3,128,0.01,0.02,0.001,0.002,10,ok
layer,1,fp32,256,8,4,32,768,1000,2,2,3,4096,,,,,0,oom
"""
OPERATORS = """\
# schema: hetopt-operators/1
# accelerator: H100
# kind: measured
# source: a test
# licence: none
op,dtype,m,k,n,groups,layout,batch,seq,heads,kv_heads,qk_dim,v_dim,bytes,time_us,\
output,kernel
matmul,bf16,4096,512,1024,1,NT,,,,,,,,25.5,bf16,
sdp_bwd,bf16,,,,,,1,4096,32,8,128,128,,900,,
memory,bf16,,,4096,,,,,,,,,1000,1.5,,add
"""
LENGTHS = "tokens,count\n4096,3\n512,5\n"
METIS = {
    "execution_time": {
        "layer_compute_total_ms": LAYERS_MS,
        "forward_backward_time_ms": 50.0,
        "optimizer_time_ms": 6.0,
    }
}
#: Facts of an accelerator, one of each type.
FACTS = (
    *("name", "peak_flops.bf16", "memory", "intra_node.bandwidth"),
    *("intra_node.latency", "intra_node_share", "roofline.attention"),
    *("operators.relatives", "operators.sustained", "operators.accuracy"),
    "visible_devices",
)
SHARES = ("multiplication", "attention", "elementwise", "sharding", "tensor")


def vidur() -> str:
    """Return a line of vidur's H100 profile."""
    line = cells()
    return f"{','.join(line)}\n{','.join(line.values())}\n"


def of_metis(path: Path) -> Any:
    return read_metis(str(path.parent), TOLD)


READERS = (
    Reader(
        name="profile",
        document=lambda: PROFILE,
        read=lambda text: parse_profile(text, "p.csv"),
        changes=csv_mutations,
    ),
    Reader(
        name="operators",
        document=lambda: OPERATORS,
        read=lambda text: parse_operators(text, "o.csv"),
        changes=csv_mutations,
    ),
    Reader(
        name="lengths",
        document=lambda: LENGTHS,
        read=read_histogram,
        file="lengths.csv",
        changes=csv_mutations,
    ),
    Reader(
        name="vidur",
        document=vidur,
        read=lambda path: read_vidur(str(path.parents[2])),
        file="h100/microsoft/phi-2/mlp.csv",
        changes=csv_mutations,
    ),
    Reader(
        name="metis",
        document=lambda: METIS,
        read=of_metis,
        file="DeviceType.A100_tp1_bs1.json",
        elsewhere={"layer_compute_total_ms": "less than its layers take together"},
    ),
    Reader(
        name="sailor",
        document=lambda: sailor()["OPT"]["GH"],
        read=lambda path: read_sailor(str(path), TOLD),
        file="profile.json",
        # Keys are numbers; without one there are too few of what it counts.
        elsewhere=dict.fromkeys("0124", r"has 2 layers between|2: is not a mapping"),
    ),
    Reader(
        name="simumax",
        document=system,
        read=lambda path: read_simumax(str(path)),
        file="a100_pcie.json",
    ),
    Reader(
        name="accelerator",
        document=lambda: DATA,
        read=lambda data: read_accelerator(data, "mine.json"),
        within=tuple(tuple(path.split(".")) for path in FACTS),
        # A fact is named, not the part of it that is wrong.
        elsewhere=dict.fromkeys(
            (*("value", "runs", "median", "worst"), *SHARES), r"^[\w.]+: "
        ),
    ),
)
