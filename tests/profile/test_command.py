"""``hetopt profile`` before anything is measured; needs no PyTorch."""

import importlib.util
from pathlib import Path

import pytest

from hetopt.cli import main

HAS_TORCH = importlib.util.find_spec("torch") is not None


@pytest.mark.skipif(HAS_TORCH, reason="PyTorch is installed")
@pytest.mark.parametrize(
    "arguments", [[], ["--quick"], ["--collectives"], ["--operators"]]
)
def test_without_pytorch_the_remedy_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    assert main(["profile", *arguments, "--out", str(tmp_path / "p.csv")]) == 2
    err = capsys.readouterr().err
    needed = "pip install '.[profile]' in hetopt's source"
    assert err == f"measuring needs PyTorch: {needed}\n"
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--degrees", "2"], "--degrees: '2', expected CPxTP such as 2x4"),
        (["--degrees", "0x1"], "--degrees: '0x1', expected CPxTP"),
        (["--units", "layer,lawyer"], "--units: 'lawyer', expected one of layer,"),
        (["--layers", "bert"], "--layers: 'bert', expected one of llama, gpt"),
        (["--hidden", "1024,wide"], "--hidden: 'wide' is not a whole number"),
        (["--microbatch", "0"], "--microbatch: '0' is not a whole number of at"),
        (["--threads", "0"], "--threads: '0' is not a whole number of at least 1"),
        (["--dtype", "int8"], "--dtype"),
    ],
)
def test_usage_errors_are_one_line(
    capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["profile", *arguments])
    assert stop.value.code == 2
    err = capsys.readouterr().err
    assert message in err
    assert err.count("\n") == 1


@pytest.mark.skipif(not HAS_TORCH, reason="PyTorch is asked for first")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--hidden", "64"], "--hidden: is for layers: --operators measures single"),
        (["--kv-heads", "4"], "--kv-heads: is for layers"),
        (["--layers", "gpt"], "--layers: is for layers"),
        (["--collectives"], "--operators: is not for --collectives"),
        (["--dtype", "fp32"], "--dtype: is fp32, expected bf16, fp16 with --operators"),
    ],
)
def test_operators_have_no_grid(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    message: str,
) -> None:
    out = tmp_path / "o.csv"
    assert main(["profile", "--operators", *arguments, "--out", str(out)]) == 2
    assert capsys.readouterr().err.startswith(message)
    assert not out.exists()
