from __future__ import annotations

import pytest

from hetopt.cost.operators.file import GROUP_MATMUL, MATMUL, MEMORY, SDP_FORWARD
from hetopt.cost.operators.relatives import by_class, shipped_operators
from hetopt.errors import InputError
from hetopt.problem.catalogue import accelerators, operator_files

HEADER = (
    "# schema: hetopt-operators/1\n# device: X1\n# kind: measured\n"
    "# source: a test\n# licence: none\n"
    "op,dtype,m,k,n,groups,layout,batch,seq,heads,kv_heads,qk_dim,v_dim,bytes,time_us\n"
    "memory,bf16,,,,,,,,,,,,1000,1.5\n"
)


def devices(name: str) -> dict[str, str]:
    found = shipped_operators(accelerators()[name])
    return {op: part.device for op, part in found.items()}


def test_own_operators_come_first_and_the_nearest_relative_lends_the_rest() -> None:
    assert devices("A100-80GB") == {
        MATMUL: "A100-80GB",
        MEMORY: "A100-80GB",
        GROUP_MATMUL: "A100-PCIe-80GB",
        SDP_FORWARD: "A100-PCIe-80GB",
        "sdp_bwd": "A100-PCIe-80GB",
    }
    assert devices("H20-96GB")[MATMUL] == "H100"
    assert devices("H20-96GB")[SDP_FORWARD] == "B200"
    assert set(devices("B200").values()) == {"B200"}


def test_nothing_is_lent_to_chips_that_nobody_describes() -> None:
    assert devices("H2-Chip-A") == devices("V100-32GB") == {}


def test_relatives_ship() -> None:
    shipped = [file.read_text("utf-8") for file in operator_files().values()]
    for device in accelerators().values():
        for name in device.relatives:
            assert any(f"# device: {name}\n" in text for text in shipped)


def test_a_device_outside_the_catalogue_states_its_rates() -> None:
    with pytest.raises(InputError, match=r"x\.csv: peak_flops: the header lacks it"):
        by_class(HEADER, "x.csv")
    rates = "# peak_flops: 100 TFLOPS\n# memory_bandwidth: 1 TB/s\n"
    found = by_class(rates + HEADER, "x.csv")
    assert (found[MEMORY].rates.flops, found[MEMORY].rates.bytes_per_s) == (1e14, 1e12)
    assert [row.time_us for row in found[MEMORY].rows] == [1.5]


@pytest.mark.parametrize("quote", ["", '"'])
def test_columns_may_be_in_any_order(quote: str) -> None:
    header = HEADER.partition("op,")[0]
    rates = "# peak_flops: 100 TFLOPS\n# memory_bandwidth: 1 TB/s\n"
    rows = f"dtype,op,bytes,time_us\nbf16,{quote}memory{quote},1000,1.5\n"
    columns = "m,k,n,groups,layout,batch,seq,heads,kv_heads,qk_dim,v_dim"
    rows = rows.replace("time_us\n", f"time_us,{columns}\n").replace(
        "1.5\n", "1.5" + "," * 11 + "\n"
    )
    assert set(by_class(rates + header + rows, "x.csv")) == {MEMORY}
