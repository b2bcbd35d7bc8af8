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


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--operators", "--hidden", "64"], "--hidden: does not go with --operators, "),
        (["--operators", "--kv-heads", "4"], "--kv-heads: does not go with --operat"),
        (["--operators", "--layers", "gpt"], "--layers: does not go with --operators"),
        (["--operators", "--collectives"], "--operators: does not go with --collect"),
        (["--collectives", "--quick"], "--quick: does not go with --collectives"),
        (["--operators", "--dtype", "fp32"], "--dtype: is fp32, expected bf16, fp16 w"),
        (["--for", "a.yaml", "--operators"], "--operators: does not go with --for, w"),
        (["--for", "a.yaml", "--collectives"], "--collectives: does not go with --for"),
        (["--for", "a.yaml", "--quick"], "--quick: does not go with --for, which"),
        (["--for", "a.yaml", "--dtype", "fp32"], "--dtype: does not go with --for, "),
        (["--for", "a.yaml", "--seq-len", "64"], "--seq-len: does not go with --for"),
        (["--cluster", "a"], "--cluster: goes with --for PROBLEM alone"),
        (["--time-limit", "9"], "--time-limit: goes with --for PROBLEM alone"),
    ],
)
def test_options_that_do_not_go_together_are_refused(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    message: str,
) -> None:
    out = tmp_path / "o.csv"
    assert main(["profile", *arguments, "--out", str(out)]) == 2
    err = capsys.readouterr().err
    assert err.startswith(message)
    assert err.count("\n") == 1
    assert not out.exists()
