from __future__ import annotations

from pathlib import Path

import pytest

from hetopt.cli import main
from hetopt.cost.operators.file import parse_operators
from hetopt.cost.operators.vidur import read_vidur
from hetopt.errors import InputError
from hetopt.problem.catalogue import operator_files

TIMES = {
    "input_layernorm": "0.021",
    "attn_pre_proj": "0.209",
    "attn_rope": "0.066",
    "attn_post_proj": "0.0845",
    "mlp_up_proj": "0.295",
    "mlp_act": "0.068",
    "mlp_down_proj": "0.3345",
    "add": "0.04",
}
SIZES = {
    "n_head": "32",
    "n_kv_head": "32",
    "n_embd": "2560",
    "n_expanded_embd": "10240",
    "vocab_size": "51200",
    "use_gated_mlp": "False",
    "num_tokens": "4096",
    "num_tensor_parallel_workers": "1",
}


def cells(**changed: str) -> dict[str, str]:
    """Return a line of vidur's H100 profile of phi-2, as vidur has it."""
    times = {f"time_stats.{name}.median": time for name, time in TIMES.items()}
    found = {"time_stats.emb.median": "0.073", **times, **SIZES}
    for name, text in changed.items():
        found[name if name in found else f"time_stats.{name}.median"] = text
    return found


def write(folder: Path, *lines: dict[str, str], model: str = "microsoft/phi-2") -> str:
    path = folder / "h100" / model / "mlp.csv"
    path.parent.mkdir(parents=True)
    rows = [",".join(lines[0]), *(",".join(line.values()) for line in lines)]
    path.write_text("\n".join(rows) + "\n")
    return str(folder / "h100")


def test_what_ships_is_what_vidurs_file_converts_to(tmp_path: Path) -> None:
    between = cells(num_tokens="4064")
    rows = read_vidur(write(tmp_path, cells(), between))
    name, file = next(item for item in operator_files().items() if "h100" in item[0])
    shipped = parse_operators(file.read_text("utf-8"), name).rows
    assert rows == [row for row in shipped if row.model == "phi-2"][: len(rows)]
    assert [row.kernel for row in rows[4:]] == [
        *("layernorm", "rope", "gelu", "add", "embedding")
    ]
    # phi-2 sums attention, MLP and residual at once.
    assert rows[-2].bytes == 2 * 4096 * 6 * 2560
    assert len(rows) == 9


def test_a_device_has_its_share_of_heads_and_of_the_inner_width(
    tmp_path: Path,
) -> None:
    line = cells(
        n_kv_head="4",
        use_gated_mlp="True",
        num_tensor_parallel_workers="8",
        mlp_act="",
        post_attention_layernorm="0.021",
    )
    rows = read_vidur(write(tmp_path, line))
    assert [(row.k, row.n) for row in rows[:4]] == [
        (2560, 320 + 2 * 80),
        (320, 2560),
        (2560, 2 * 1280),
        (1280, 2560),
    ]
    moved = [2 * 2560, 2 * 2560, 2 * (320 + 80), 3 * 2560, 2 * 2560]
    assert [row.bytes for row in rows[4:]] == [2 * 4096 * part for part in moved]
    assert [(row.kernel, row.n) for row in rows[4:]] == [
        ("rmsnorm", 2560),
        ("rmsnorm", 2560),
        ("rope", 320 + 80),
        ("add", 2560),
        ("embedding", 2560),
    ]


def test_models_are_chosen_by_their_folders(tmp_path: Path) -> None:
    write(tmp_path, cells())
    folder = write(tmp_path, cells(), model="meta/Llama")
    assert {row.model for row in read_vidur(folder)} == {"Llama", "phi-2"}
    assert {row.model for row in read_vidur(folder, ["phi-2"])} == {"phi-2"}
    with pytest.raises(InputError, match="has no model 'gpt'; it has Llama, phi-2"):
        read_vidur(folder, ["gpt"])


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"n_head": "48"}, r":2: n_head: 48 does not divide n_embd 2560"),
        ({"num_tokens": "33"}, r"num_tokens: has no line of 128, 256, 512 or a mult"),
    ],
)
def test_what_is_wrong_is_named(
    tmp_path: Path, changed: dict[str, str], message: str
) -> None:
    folder = write(tmp_path, cells(**changed))
    with pytest.raises(InputError, match=message):
        read_vidur(folder)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--accelerator", "X1"],
            "--peak-flops: is needed: 'X1' is not in `hetopt cat",
        ),
        (
            ["--accelerator", "X1", "--peak-flops", "1 GB"],
            "--peak-flops: is '1 GB', which is a memory size",
        ),
        (
            ["--accelerator", "H100", "--memory-bandwidth", "3 TB/s"],
            "--memory-bandwidth: has no effect: 'H100' is in `hetopt catalog`",
        ),
        (["--accelerator", "H100", "--problem", "p.yaml"], "--problem: is for --from"),
        (["--accelerator", " "], "--accelerator: is empty"),
    ],
)
def test_usage_errors_write_nothing(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    message: str,
) -> None:
    out = tmp_path / "out.csv"
    source = write(tmp_path, cells())
    command = ["convert-profile", source, "--from", "vidur", "--out", str(out)]
    assert main([*command, *arguments]) == 2
    assert message in capsys.readouterr().err
    assert not out.exists()


def test_a_problem_takes_what_was_converted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A device's own rates go into the header, and its path into the problem."""
    folder, out = write(tmp_path, cells()), tmp_path / "x1.csv"
    rates = ("--peak-flops", "900 TFLOPS", "--memory-bandwidth", "3 TB/s")
    names = ("--from", "vidur", "--accelerator", "X1", "--licence", "MIT")
    assert main(["convert-profile", folder, *names, *rates, "--out", str(out)]) == 0
    assert capsys.readouterr().out.startswith(f"wrote {out}: 9 rows\nassumed: ")
    header = parse_operators(out.read_text(), "x1.csv").header
    assert (header["licence"], header["peak_flops"]) == ("MIT", "900 TFLOPS")
    problem = tmp_path / "problem.yaml"
    problem.write_text(
        "model: {preset: llama-7b}\n"
        "clusters: [{name: a, accelerator: H100, nodes: 1, devices_per_node: 8}]\n"
        "training: {global_batch: 16, seq_len: 4096}\n"
        "latency: {a: x1.csv}\n"
    )
    assert main(["table", str(problem), "--out", str(tmp_path / "t.json")]) == 0
