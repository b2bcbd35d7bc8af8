from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hetopt.cli import main
from hetopt.cost.build import build_table
from hetopt.cost.profiles.file import profile_text, read_profile
from hetopt.cost.profiles.foreign import Target
from hetopt.cost.profiles.metis import BACKWARD_SHARE, read_metis
from hetopt.cost.profiles.sailor import read_sailor
from hetopt.cost.sources.forest_source import ForestSource
from hetopt.cost.table.table import CostTable
from hetopt.cost.units import unit_parameters
from hetopt.errors import InputError
from hetopt.plans.strategy import Strategy
from hetopt.problem.model.model import Model
from hetopt.problem.training.training import Training
from tests.cost.making import make_cluster, make_model, make_problem

MODEL = make_model(
    layers=3,
    hidden=256,
    heads=4,
    kv_heads=4,
    head_dim=64,
    ffn=1024,
    vocab=1000,
    gated=False,
    norm="layer",
)
TRAINING = Training(global_batch=4, seq_len=512, precision="fp16")
TARGET = Target(model=MODEL, training=TRAINING, accelerator="A100-80GB")
#: Sailor's files do not say what they include.
TOLD = replace(TARGET, communication="excluded")

PROBLEM = """\
model: {layers: 3, hidden: 256, heads: 4, ffn: 1024, vocab: 1000, gated: false,
        norm: layer}
clusters:
  - {name: a, accelerator: A100-80GB, nodes: 1, devices_per_node: 8,
     inter_node: {bandwidth: 100 Gbps, latency: 5 us}}
training: {global_batch: 4, seq_len: 512, precision: fp16}
"""

LAYERS_MS = [0.5, 9.0, 10.0, 11.0, 2.0]


def metis(folder: Path, device: str = "A100", scale: float = 1.0) -> Path:
    folder.mkdir(exist_ok=True)
    for tp, bs in ((1, 1), (1, 2), (2, 1), (2, 10)):
        times = [ms * bs / tp * scale for ms in LAYERS_MS]
        text = json.dumps({"execution_time": {"layer_compute_total_ms": times}})
        (folder / f"DeviceType.{device}_tp{tp}_bs{bs}.json").write_text(text)
    (folder / "README.md").write_text("not a profile")
    return folder


def whole(folder: Path, **changed: float) -> Path:
    """Metis's files with what they say of a whole iteration."""
    metis(folder)
    for path in folder.glob("*_tp*.json"):
        data = json.loads(path.read_text())
        execution = data["execution_time"]
        total = sum(execution["layer_compute_total_ms"])
        # Logits and loss: a quarter more than the layers, as they scale.
        execution["forward_backward_time_ms"] = 1.25 * total
        tp = int(path.name.partition("_tp")[2].partition("_")[0])
        execution["optimizer_time_ms"] = 6.0 / tp
        path.write_text(json.dumps({"execution_time": {**execution, **changed}}))
    return folder


def sailor() -> dict[str, Any]:
    layers = {
        str(number): [ms * 1e-3, 2 * ms * 1e-3, 0.1]
        for number, ms in enumerate(LAYERS_MS)
    }
    # Not in order, as Sailor's own files are not.
    return {"OPT": {"GH": {"2": {"1": layers}, "1": {"2": layers, "1": layers}}}}


def write(folder: Path, data: Any) -> str:
    path = folder / "profile.json"
    path.write_text(json.dumps(data))
    return str(path)


def test_metis(tmp_path: Path) -> None:
    profile = read_metis(str(metis(tmp_path / "m")), TARGET)
    assert profile.header["kind"] == "measured"
    assert profile.header["accelerator"] == "A100-80GB"
    assert "2.45 times forward" in profile.header["notes"]
    assert profile.header["communication"] == "included"
    assert [(row.unit, row.tp, row.microbatch) for row in profile.rows] == [
        (unit, tp, bs)
        for tp, bs in ((1, 1), (1, 2), (2, 1), (2, 10))
        for unit in ("embedding", "layer", "head")
    ]
    layer = profile.rows[1]
    assert layer.forward_s is not None
    assert layer.backward_s is not None
    assert layer.forward_s + layer.backward_s == pytest.approx(10e-3)
    assert layer.backward_s / layer.forward_s == pytest.approx(BACKWARD_SHARE)
    assert layer.forward_spread_s == pytest.approx(1e-3 / (1 + BACKWARD_SHARE))
    assert layer.repetitions == 3
    assert (layer.hidden, layer.seq_len, layer.dtype) == (256, 512, "fp16")


def test_sailor_at_every_depth(tmp_path: Path) -> None:
    data = sailor()
    whole = read_sailor(write(tmp_path, data), TOLD)
    assert [(row.microbatch, row.tp) for row in whole.rows[::3]] == [
        (1, 1),
        (1, 2),
        (2, 1),
    ]
    assert whole.rows[1].forward_s == pytest.approx(10e-3)
    assert whole.rows[1].backward_s == pytest.approx(20e-3)
    assert whole.rows[2].forward_s == pytest.approx(2e-3)
    assert "OPT/GH" in whole.header["notes"]
    for inner in (data["OPT"], data["OPT"]["GH"]):
        assert read_sailor(write(tmp_path, inner), TOLD).rows == whole.rows
        with pytest.raises(InputError, match=r"--model: is 'OPT', but the file is of"):
            read_sailor(write(tmp_path, inner), TOLD, "OPT")
    with pytest.raises(InputError, match=r"--device: is 'GH', but the file is of one"):
        read_sailor(write(tmp_path, data["OPT"]["GH"]), TOLD, None, "GH")


def test_all_of_a_pass_is_charged(tmp_path: Path) -> None:
    """What a pass takes beyond its layers goes to the head, at every tp and bs."""
    layers = read_metis(str(metis(tmp_path / "m")), TARGET)
    profile = read_metis(str(whole(tmp_path / "w")), TARGET)
    for own, bare in zip(profile.rows, layers.rows, strict=True):
        beyond = 0.25 * sum(LAYERS_MS) * 1e-3 * own.microbatch / own.tp
        total = (own.forward_s or 0) + (own.backward_s or 0)
        before = (bare.forward_s or 0) + (bare.backward_s or 0)
        assert total == pytest.approx(before + beyond * (own.unit == "head"))
    with pytest.raises(InputError, match="is 3, less than its layers take together"):
        read_metis(str(whole(tmp_path / "x", forward_backward_time_ms=3)), TARGET)


def table_of(folder: Path, source: Path, communication: str | None = None) -> CostTable:
    target = replace(TARGET, communication=communication)
    profile = read_metis(str(source), target)
    text = profile_text(profile.header, profile.rows)
    problem = make_problem((make_cluster(nodes=1),), MODEL, TRAINING)
    return build_table(problem, ForestSource(text, "metis", cache=folder))


def test_communication_is_not_counted_twice(tmp_path: Path) -> None:
    """Nor left out at degrees that nobody timed."""
    source = metis(tmp_path / "m")
    included = table_of(tmp_path, source)
    excluded = table_of(tmp_path, source, "excluded")
    parts = zip(included.slices, excluded.slices, strict=True)
    tables = [(a.clusters[0], b.clusters[0]) for a, b in parts]
    degrees = set()
    for own, other in tables:
        assert own.strategies == other.strategies
        for k, strategy in enumerate(own.strategies):
            for one, two in (
                (own.forward_ns[k], other.forward_ns[k]),
                (own.backward_ns[k], other.backward_ns[k]),
            ):
                degrees.add(strategy.tp)
                if strategy.tp == 2:
                    assert (one < two).all()
                else:
                    assert (one == two).all()
    assert degrees == {1, 2, 4}


def test_times_without_tensor_parallelism_hold_no_communication(
    tmp_path: Path,
) -> None:
    source = metis(tmp_path / "m")
    for path in source.glob("*_tp2_*"):
        path.unlink()
    assert read_metis(str(source), TARGET).header["communication"] == "excluded"


def test_layers_may_add_up_to_the_pass(tmp_path: Path) -> None:
    """In binary these sums are a little more than the pass that is written."""
    folder = tmp_path / "m"
    folder.mkdir()
    layers = [4.8, 6.0, 1.6, 1.6, 3.9]
    execution = {
        "layer_compute_total_ms": layers,
        "forward_backward_time_ms": sum(layers) * (1 - 1e-15),
    }
    text = json.dumps({"execution_time": execution})
    (folder / "DeviceType.A100_tp1_bs1.json").write_text(text)
    assert len(read_metis(str(folder), TARGET).rows) == 3


def test_the_optimizer_takes_what_it_took(tmp_path: Path) -> None:
    """6 ms for the whole model on one device, in the part of g that units add."""
    table = table_of(tmp_path, whole(tmp_path / "w"))
    modelled = table_of(tmp_path, metis(tmp_path / "m"))
    alone = Strategy(dp=1, cp=1, tp=1, recompute="none")
    (own, other) = (
        one.at(4).clusters[0].sync_unit_ns[one.at(4).clusters[0].row(alone)]
        for one in (table, modelled)
    )
    counts = [table.units.count(kind) for kind in range(len(table.kinds))]
    assert own @ counts == pytest.approx(6e6, rel=1e-3)
    assert other @ counts < 1e6


def test_layers_of_another_model(tmp_path: Path) -> None:
    other = replace(TARGET, model=replace(MODEL, layers=32, name="mine"))
    message = "has 3 layers between embedding and head, .* model mine has 32"
    with pytest.raises(InputError, match=message):
        read_metis(str(metis(tmp_path / "m")), other)
    with pytest.raises(InputError, match=message):
        read_sailor(write(tmp_path, sailor()), other)


def test_sailor_has_to_be_told(tmp_path: Path) -> None:
    path = write(tmp_path, sailor())
    with pytest.raises(InputError, match="--communication: is required, because the"):
        read_sailor(path, replace(TARGET, communication=None))
    for said in ("included", "excluded"):
        profile = read_sailor(path, replace(TARGET, communication=said))
        assert profile.communicates == (said == "included")
    # Updates: 0.1 s of every layer, on devices that hold all or half of it.
    assert profile.optimizer_s_per_parameter == pytest.approx(
        5 * 0.1 / parameters(MODEL), rel=1e-3
    )
    data = sailor()["OPT"]["GH"]["2"]
    alone = read_sailor(write(tmp_path, {"2": data}), replace(TARGET))
    assert alone.rows


def parameters(model: Model) -> float:
    one = np.array([1])
    return sum(float(unit_parameters(model, kind, one)[0]) for kind in model.units)


def test_nothing_to_convert(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="has no file named like DeviceType"):
        read_metis(str(tmp_path), TARGET)
    broken = tmp_path / "sailor.json"
    broken.write_text('{"a":\n}')
    with pytest.raises(InputError, match=r"sailor\.json:2: is not JSON"):
        read_sailor(str(broken), TARGET)


def test_several_devices_need_a_name(tmp_path: Path) -> None:
    folder = str(metis(metis(tmp_path / "m"), "V100", 2.0))
    with pytest.raises(InputError, match="has A100, V100; name the DeviceType"):
        read_metis(folder, TARGET)
    with pytest.raises(InputError, match="has no DeviceType 'T4'; it has A100, V100"):
        read_metis(folder, TARGET, "T4")
    first, second = (read_metis(folder, TARGET, name) for name in ("A100", "V100"))
    assert first.rows[0].forward_s is not None
    assert second.rows[0].forward_s == pytest.approx(2 * first.rows[0].forward_s)
    data = sailor()
    data["GPT"] = data["OPT"]
    path = write(tmp_path, data)
    with pytest.raises(InputError, match="has OPT, GPT; name the model to convert"):
        read_sailor(path, TOLD)
    assert "GPT/GH" in read_sailor(path, TOLD, "GPT", "GH").header["notes"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "is not JSON"),
        (
            '{"execution_time": {"layer_compute_total_ms": [1, 2]}}',
            "has 2 layers, expected an embedding, layers and a head",
        ),
    ],
)
def test_malformed_metis(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "DeviceType.A_tp1_bs1.json").write_text(content)
    with pytest.raises(InputError, match=message):
        read_metis(str(tmp_path), TARGET)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"1": {"1": {"0": [1, 2, 3], "1": [1, 2], "2": [1, 2, 3]}}}, r"1\.1\.1: is n"),
        ({"1": {"x": {"0": [1, 2, 3]}}}, "1: 'x' is not a whole number"),
        ({"1": {"1": {"0": [1, 2, 3]}}}, "has 1 layer,"),
    ],
)
def test_malformed_sailor(tmp_path: Path, data: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_sailor(write(tmp_path, data), TARGET)


def test_what_does_not_fit_the_model(tmp_path: Path) -> None:
    text = json.dumps({"execution_time": {"layer_compute_total_ms": LAYERS_MS}})
    (tmp_path / "DeviceType.A_tp3_bs1.json").write_text(text)
    with pytest.raises(InputError, match="micro-batch 1 at tp 3 does not fit"):
        read_metis(str(tmp_path), TARGET)
    with pytest.raises(InputError, match="is not a directory"):
        read_metis(str(tmp_path / "none"), TARGET)
    with pytest.raises(InputError, match="no such file"):
        read_sailor(str(tmp_path / "none"), TARGET)


def test_a_table_from_a_converted_profile(tmp_path: Path) -> None:
    profile = read_metis(str(metis(tmp_path / "m")), TARGET)
    text = profile_text(profile.header, profile.rows)
    problem = make_problem((make_cluster(nodes=1),), MODEL, TRAINING)
    table = build_table(problem, ForestSource(text, "metis", cache=tmp_path))
    assert table.sources == ("measured",)
    assert table.slices


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, out = str(metis(tmp_path / "m")), str(tmp_path / "mine.csv")
    arguments = ["convert-profile", folder, "--from", "metis", "--out", out]
    (tmp_path / "problem.yaml").write_text(PROBLEM)
    problem = str(tmp_path / "problem.yaml")
    named = ["--problem", problem, "--accelerator", "A100-80GB"]
    assert main([*arguments, *named]) == 0
    printed = capsys.readouterr().out
    assert "12 rows" in printed
    # Later options win.
    assert main([*arguments, *named, "--accelerator", " "]) == 2
    assert capsys.readouterr().err.startswith("--accelerator: is empty")
    assert main([*arguments, *named, "--model", "OPT"]) == 2
    assert capsys.readouterr().err.startswith("--model: is for --from sailor or vidur")
    assert "assumed: from Metis" in printed
    assert read_profile(out).rows[1].hidden == 256
    assert read_profile(out).communicates
    assert main([*arguments, *named, "--communication", "excluded"]) == 0
    assert not read_profile(out).communicates
    assert main([*arguments, "--problem", "hapt-gpt39b", *named[2:]]) == 2
    assert "model gpt-39b has 48: it is another" in capsys.readouterr().err
    sailors = write(tmp_path, sailor())
    arguments = ["convert-profile", sailors, "--from", "sailor", "--out", out]
    assert main([*arguments, *named, "--device", "V100"]) == 2
    assert "has no GPU 'V100'; it has GH" in capsys.readouterr().err
    assert main([*arguments, *named, "--device", "GH"]) == 2
    assert "--communication: is required" in capsys.readouterr().err
    told = ["--device", "GH", "--communication", "included"]
    assert main([*arguments, *named, *told]) == 0
