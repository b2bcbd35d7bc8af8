"""The profile's format: what is written is read back, what is wrong is named."""

from dataclasses import replace
from pathlib import Path

import pytest

from hetopt.cost.profiles.file import (
    COLUMNS,
    PROFILE_SCHEMA,
    Profile,
    ProfileRow,
    append_row,
    read_profile,
    write_profile,
)
from hetopt.cost.profiles.units import shard_key
from hetopt.cost.shard_shape import ATTENTION_CORE, UNITS
from hetopt.errors import InputError

HEADER = {"schema": PROFILE_SCHEMA, "kind": "measured", "accelerator": "CPU"}
ROW = ProfileRow(
    unit="layer",
    gated=True,
    dtype="fp32",
    hidden=256,
    heads=8,
    kv_heads=4,
    head_dim=32,
    ffn=768,
    vocab=1000,
    cp=2,
    tp=2,
    microbatch=3,
    seq_len=128,
    forward_s=0.0123456,
    backward_s=2.5e-5,
    forward_spread_s=0.0,
    backward_spread_s=None,
    repetitions=10,
    status="ok",
)
OOM = replace(
    ROW,
    seq_len=4096,
    forward_s=None,
    backward_s=None,
    forward_spread_s=None,
    repetitions=0,
    status="oom",
)


def written(folder: Path, *changes: tuple[str, str]) -> str:
    """Write a profile of two rows, change its text, and return its path."""
    path = folder / "p.csv"
    write_profile(str(path), Profile(header=HEADER, rows=(ROW, OOM)))
    text = path.read_text()
    for old, new in changes:
        assert old in text
        text = text.replace(old, new, 1)
    path.write_text(text)
    return str(path)


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    path = written(tmp_path)
    append_row(path, replace(ROW, unit="mlp-up", gated=False))
    profile = read_profile(path)
    assert dict(profile.header) == HEADER
    assert profile.rows == (ROW, OOM, replace(ROW, unit="mlp-up", gated=False))
    assert [item.name for item in tmp_path.iterdir()] == ["p.csv"]


def test_columns_may_stand_in_any_order_beside_others(tmp_path: Path) -> None:
    path = Path(written(tmp_path))
    head = [line for line in path.read_text().split("\n") if line.startswith("#")]
    names, first, second = path.read_text().split("\n")[len(head) : len(head) + 3]
    turned = [
        ",".join(["x", *reversed(line.split(","))]) for line in (names, first, second)
    ]
    path.write_bytes("\r\n".join([*head, *turned, "", ""]).encode("utf-8-sig"))
    assert read_profile(str(path)).rows == (ROW, OOM)


def test_header_values_stay_on_their_line(tmp_path: Path) -> None:
    path = str(tmp_path / "p.csv")
    header = {**HEADER, "notes": "two\nlines,  and: a colon"}
    write_profile(path, Profile(header=header, rows=()))
    assert read_profile(path).header["notes"] == "two lines, and: a colon"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("# kind: measured", "# kind", "p.csv:2: is not a header line"),
        (",8,4,", ",8,3,", "p.csv:5: heads: 8 is not a multiple of kv_heads (3)"),
        (",768,", ",769,", "p.csv:5: ffn: 769 is not a multiple of tp (2)"),
        (",128,0.01", ",130,0.01", "p.csv:5: seq_len: 130 is not a multiple of cp *"),
        (",10,ok", ",10,oom", "p.csv:5: forward_s: 0.0123456, expected nothing"),
    ],
)
def test_what_is_wrong_is_named(
    tmp_path: Path, old: str, new: str, message: str
) -> None:
    with pytest.raises(InputError) as caught:
        read_profile(written(tmp_path, (old, new)))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\xff\xfe", "is not UTF-8 text"),
        (b"", "schema: the header lacks it"),
        (
            f"# schema: {PROFILE_SCHEMA}\n# kind: measured\n# accelerator: x".encode(),
            "the table's line of column names is missing",
        ),
    ],
)
def test_files_that_are_no_profile(
    tmp_path: Path, content: bytes, message: str
) -> None:
    path = tmp_path / "p.csv"
    path.write_bytes(content)
    with pytest.raises(InputError, match=message):
        read_profile(str(path))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"nothing\.csv: no such file"):
        read_profile(str(tmp_path / "nothing.csv"))


def test_a_shard_is_what_the_device_computes() -> None:
    # Half the sequence twice as often, or twice the sequence on two devices.
    for unit in ("mlp-up", "mlp-down", "embedding", "head"):
        one = replace(ROW, unit=unit, cp=1, microbatch=1, seq_len=128)
        two = replace(ROW, unit=unit, cp=2, microbatch=2, seq_len=128)
        assert shard_key(one) == shard_key(two)
    # Keys and values of more tokens make another shard of attention.
    for unit in ("layer", "attention", ATTENTION_CORE):
        one = replace(ROW, unit=unit, cp=1, microbatch=1, seq_len=128)
        two = replace(ROW, unit=unit, cp=2, microbatch=2, seq_len=128)
        assert shard_key(one) != shard_key(two)
    # A head of keys and values cannot be divided: more ranks hold copies of it.
    row = replace(ROW, unit=ATTENTION_CORE, heads=16, kv_heads=2, ffn=1024)
    assert shard_key(replace(row, tp=4)) == shard_key(replace(row, tp=4, kv_heads=4))
    assert replace(row, tp=4).shard_kv_heads == 1
    # The core alone does not see the hidden size, nor whether the MLP is gated.
    assert shard_key(row) == shard_key(replace(row, hidden=512, gated=False))


def test_every_kind_has_a_key_of_its_own() -> None:
    keys = {shard_key(replace(ROW, unit=unit)) for unit in UNITS}
    assert len(keys) == len(UNITS)


def test_columns_are_those_of_the_documentation() -> None:
    import hetopt.cost.profiles.file as module

    assert module.__doc__ is not None
    assert all(column in module.__doc__ for column in COLUMNS)
