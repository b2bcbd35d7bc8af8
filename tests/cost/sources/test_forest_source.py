"""Latencies from profiles, and what fills in for what a profile lacks."""

from __future__ import annotations

import io
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from hetopt.cost.build import build_table
from hetopt.cost.forests import kept
from hetopt.cost.forests.forest import Forest
from hetopt.cost.profiles.file import profile_text
from hetopt.cost.shard_shape import ATTENTION_CORE
from hetopt.cost.sources import by_cluster
from hetopt.cost.sources.by_cluster import latency_sources
from hetopt.cost.sources.coverage import coverage_notes, extrapolated
from hetopt.cost.sources.forest_source import ForestSource
from hetopt.cost.sources.operator_source import OperatorSource
from hetopt.cost.sources.roofline import Roofline
from hetopt.cost.sources.source import ShardTimes
from hetopt.errors import InputError
from hetopt.plans.plan import Pipeline, Plan, Stage
from hetopt.plans.strategy import Strategy
from hetopt.problem.model.architecture import Architecture
from hetopt.problem.model.model import Model
from hetopt.problem.problem import Problem
from hetopt.problem.training.pins import ClusterPins, Pins
from hetopt.problem.training.training import Training
from tests.cost.making import (
    make_cluster,
    make_links,
    make_model,
    make_problem,
    only,
    query,
    shape,
)
from tests.cost.profiling import LAYER_UNITS, make_profile, make_row, make_text, seconds

TRAINING = Training(global_batch=8, seq_len=256)
ROWS = shape((1, 1, 1), (2, 1, 2), (4, 2, 1))
CLUSTER = make_cluster()
KINDS = ("embedding", "layer", "head")
#: Hidden sizes of profiles without that of ``small_model``.
OTHERS = (256, 1024)
BLOCK_KINDS = ("embedding", "attention", "mlp-up", "mlp-down", "head")


def small_model(**changes: object) -> Model:
    fields = {
        "layers": 4,
        "hidden": 512,
        "heads": 8,
        "kv_heads": 8,
        "head_dim": 64,
        "ffn": 1536,
        "vocab": 8000,
        **changes,
    }
    return make_model(**fields)


def times_of(
    tmp_path: Path,
    text: str,
    kinds: tuple[str, ...] = KINDS,
    training: Training = TRAINING,
) -> ShardTimes:
    source = ForestSource(text, "made-up", cache=tmp_path)
    return source.shard_times(query(small_model(), training, CLUSTER, kinds, ROWS))


def true_seconds(unit: str) -> np.ndarray:
    rows = [
        make_row(unit, microbatch=b, cp=c, tp=t)
        for b, c, t in ((1, 1, 1), (2, 1, 2), (4, 2, 1))
    ]
    return seconds(unit, rows)


def roofline(kinds: tuple[str, ...]) -> ShardTimes:
    return Roofline().shard_times(query(small_model(), TRAINING, CLUSTER, kinds, ROWS))


def test_profiled_shapes_take_their_measured_times(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exactly; no forest is grown for them."""
    monkeypatch.setattr(Forest, "predict_s", None)
    times = times_of(tmp_path, make_text(LAYER_UNITS, noise=0.0))
    for number, kind in enumerate(KINDS):
        true = true_seconds(kind)
        assert times.forward_s[:, number] == pytest.approx(true[:, 0], rel=1e-12)
        assert times.backward_s[:, number] == pytest.approx(true[:, 1], rel=1e-12)


def test_other_shapes_of_profiled_units_are_predicted(tmp_path: Path) -> None:
    text = make_text(LAYER_UNITS, noise=0.0, microbatch=(1, 3, 5))
    times = times_of(tmp_path, text)
    for number, kind in enumerate(KINDS):
        true = true_seconds(kind)
        assert times.forward_s[:, number] == pytest.approx(true[:, 0], rel=0.1)
        assert times.backward_s[:, number] == pytest.approx(true[:, 1], rel=0.1)
    core = true_seconds(ATTENTION_CORE)
    assert times.attention_core_s[:, 1] == pytest.approx(core[:, 0], rel=0.1)
    assert times.attention_core_backward_s[:, 1] == pytest.approx(core[:, 1], rel=0.1)
    assert not times.attention_core_s[:, [0, 2]].any()


def test_ends_that_were_not_profiled_come_from_the_roofline(tmp_path: Path) -> None:
    times = times_of(tmp_path, make_text(("layer",)))
    modelled = roofline(KINDS)
    assert (times.forward_s[:, [0, 2]] == modelled.forward_s[:, [0, 2]]).all()
    assert (times.backward_s[:, [0, 2]] == modelled.backward_s[:, [0, 2]]).all()
    share = modelled.attention_core_s[:, 1] / modelled.forward_s[:, 1]
    assert times.attention_core_s[:, 1] == pytest.approx(times.forward_s[:, 1] * share)


@pytest.mark.parametrize("communication", ["included", "excluded"])
def test_communication_is_in_the_times_of_profiled_degrees(
    tmp_path: Path, communication: str
) -> None:
    """Of all blocks, where these make up the layer; never where nothing was timed."""
    profile = make_profile(("attention", "mlp-up", "mlp-down", "head"))
    rows = [row for row in profile.rows if row.unit != "mlp-up" or row.tp == 1]
    header = {**profile.header, "communication": communication}
    source = ForestSource(profile_text(header, rows), "made-up", cache=tmp_path)
    degrees = shape((1, 1, 1), (1, 1, 2), (1, 2, 2), (1, 1, 4), (1, 1, 8))
    kinds = ("embedding", "layer", "attention", "mlp-up", "head")
    wanted = query(small_model(), TRAINING, CLUSTER, kinds, degrees)
    found = source.shard_times(wanted).communicates
    held = {"layer": {1}, "attention": {1, 2}, "mlp-up": {1}, "head": {1, 2}}
    assert found.tolist() == [
        [communication == "included" and tp in held.get(kind, ()) for kind in kinds]
        for tp in (1, 2, 2, 4, 8)
    ]


def test_a_degree_beyond_the_profile_pays_for_its_collectives(tmp_path: Path) -> None:
    """As much as with times that hold no communication, at tp 4 and 8 of 1 and 2."""
    profile = make_profile(LAYER_UNITS, noise=0.0)
    problem = make_problem((make_cluster(nodes=1),), small_model(), TRAINING)
    tables = {}
    for communication in ("included", "excluded"):
        header = {**profile.header, "communication": communication}
        text = profile_text(header, profile.rows)
        source = ForestSource(text, communication, cache=tmp_path)
        tables[communication] = build_table(problem, source).at(1).clusters[0]
    included, excluded = tables["included"], tables["excluded"]
    tp = np.array([strategy.tp for strategy in included.strategies])
    assert set(tp) == {1, 2, 4, 8}
    for name in ("forward_ns", "backward_ns"):
        less = (getattr(included, name) < getattr(excluded, name)).all(axis=1)
        same = (getattr(included, name) == getattr(excluded, name)).all(axis=1)
        assert (less == (tp == 2)).all()
        assert (same == (tp != 2)).all()


def test_a_layer_is_the_sum_of_its_blocks(tmp_path: Path) -> None:
    blocks = BLOCK_KINDS[1:4]
    text = make_text(blocks)
    layer = times_of(tmp_path, text, ("layer",))
    parts = times_of(tmp_path, text, blocks)
    assert layer.forward_s[:, 0] == pytest.approx(parts.forward_s.sum(axis=1))
    assert layer.backward_s[:, 0] == pytest.approx(parts.backward_s.sum(axis=1))


def test_blocks_share_out_a_layer(tmp_path: Path) -> None:
    text = make_text(("layer",))
    layer = times_of(tmp_path, text, ("layer",))
    parts = times_of(tmp_path, text, BLOCK_KINDS[1:4])
    assert parts.forward_s.sum(axis=1) == pytest.approx(layer.forward_s[:, 0])
    assert parts.attention_core_s[:, 0] == pytest.approx(layer.attention_core_s[:, 0])


@pytest.mark.parametrize("units", [("layer",), BLOCK_KINDS[1:4]])
def test_a_window_takes_its_share_of_what_was_profiled(
    tmp_path: Path, units: tuple[str, ...]
) -> None:
    """Profiles have no windows: the roofline says what one leaves of a unit."""
    text = make_text(units)
    model = small_model(architecture=Architecture(sliding_window=16))
    kinds = ("layer", "layer-window")
    source = ForestSource(text, "made-up", cache=tmp_path)
    times, modelled = (
        each.shard_times(query(model, TRAINING, CLUSTER, kinds, ROWS))
        for each in (source, Roofline())
    )
    for told, expected in (
        (times.forward_s, modelled.forward_s),
        (times.backward_s, modelled.backward_s),
    ):
        share = expected[:, 1] / expected[:, 0]
        assert np.all(share < 1)
        assert told[:, 1] == pytest.approx(told[:, 0] * share)
    cut = ("attention", "attention-window")
    parts = source.shard_times(query(model, TRAINING, CLUSTER, cut, ROWS))
    assert np.all(parts.forward_s[:, 1] < parts.forward_s[:, 0])


def test_the_core_is_never_longer_than_what_holds_it(tmp_path: Path) -> None:
    text = make_text(("layer",))
    slow = make_text((ATTENTION_CORE,), factor=1e3)
    text += slow[slow.index("\nattention-core") + 1 :]
    times = times_of(tmp_path, text)
    assert (times.attention_core_s[:, 1] == times.forward_s[:, 1]).all()
    assert (times.attention_core_backward_s[:, 1] == times.backward_s[:, 1]).all()


@pytest.mark.parametrize(
    ("text", "training", "message"),
    [
        (make_text(("head",)), TRAINING, "has no bf16 rows of unit 'layer'"),
        (make_text(dtype="fp32"), TRAINING, "has no bf16 rows"),
        (make_text(), replace(TRAINING, precision="fp32"), "has no fp32 rows"),
        (make_text(), replace(TRAINING, precision="fp8"), "has no fp8 rows"),
        (
            make_text(),
            replace(TRAINING, attention="unfused"),
            "only covers fused attent",
        ),
        (
            make_text(),
            replace(TRAINING, sequence_parallel=False),
            "only covers fused attention with sequence parallelism",
        ),
    ],
)
def test_a_profile_without_the_unit_or_precision_is_refused(
    tmp_path: Path, text: str, training: Training, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        times_of(tmp_path, text, training=training)


def test_half_precisions_learn_from_each_other(tmp_path: Path) -> None:
    training = replace(TRAINING, precision="fp16")
    times = times_of(tmp_path, make_text(noise=0.0), training=training)
    assert times.forward_s[:, 1] == pytest.approx(true_seconds("layer")[:, 0], rel=0.1)


def test_a_second_run_answers_from_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = make_text(LAYER_UNITS, hidden=OTHERS)
    first = times_of(tmp_path, text)
    monkeypatch.setattr(Forest, "predict_s", None)
    again = times_of(tmp_path, text)
    assert first.forward_s.tobytes() == again.forward_s.tobytes()
    assert first.attention_core_s.tobytes() == again.attention_core_s.tobytes()


def test_another_profile_query_or_version_is_another_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def files() -> int:
        return len(list(tmp_path.glob("times-*.npz")))

    text = make_text(("layer",), hidden=OTHERS)
    times_of(tmp_path, text)
    times_of(tmp_path, make_text(("layer",), hidden=OTHERS, factor=2.0))
    assert files() == 2
    longer = replace(TRAINING, seq_len=512)
    times_of(tmp_path, text, training=longer)
    assert files() == 3
    monkeypatch.setattr(kept, "versions", lambda: ("numpy 0",))
    times_of(tmp_path, text)
    assert files() == 4


def saved(**arrays: np.ndarray) -> bytes:
    """Return the content of a file of arrays."""
    data = io.BytesIO()
    np.savez(data, allow_pickle=True, **arrays)
    return data.getvalue()


@pytest.mark.parametrize(
    "damaged",
    [
        b"",
        b"\x80",
        saved(seconds=np.ones(6))[:-40],
        saved(),
        saved(times=np.ones(6)),
        saved(seconds=np.ones(5)),
        saved(seconds=np.ones(6, dtype=np.int64)),
        saved(seconds=-np.ones(6)),
        saved(seconds=np.full(6, np.nan)),
        saved(seconds=np.array([None] * 6)),
    ],
)
def test_a_damaged_cache_is_ignored_and_written_again(
    tmp_path: Path, damaged: bytes
) -> None:
    text = make_text(("layer",), hidden=OTHERS)
    first = times_of(tmp_path, text)
    (file,) = tmp_path.glob("times-*.npz")
    good = kept._arrays(file)
    file.write_bytes(damaged)
    again = times_of(tmp_path, text)
    assert first.forward_s.tobytes() == again.forward_s.tobytes()
    assert good is not None
    assert len(good["seconds"]) == 6
    written = kept._arrays(file)
    assert written is not None
    assert written["seconds"].tobytes() == good["seconds"].tobytes()


def test_a_cache_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    text = make_text(("layer",), hidden=OTHERS)
    times_of(tmp_path / "file" / "folder", text)


def test_the_user_s_cache_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    if sys.platform != "linux":
        pytest.skip("where a cache lies is the system's business")
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    folder = kept.cache_folder()
    assert folder == Path("/somewhere/hetopt/forest")


# The latency field ---------------------------------------------------------------


@pytest.fixture
def shipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Path]:
    """Ship nothing but what a test puts here, and keep the cache in ``tmp_path``."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    files: dict[str, Path] = {}
    monkeypatch.setattr(
        by_cluster,
        "profile_contents",
        lambda: {name: file.read_bytes() for name, file in files.items()},
    )
    return files


def ship(files: dict[str, Path], folder: Path, name: str, text: str) -> None:
    path = folder / f"{name}.csv"
    path.write_text(text)
    files[name] = path


def problem_of(**latency: str) -> Problem:
    clusters = (make_cluster("a"), make_cluster("b", "H20-96GB"))
    problem = make_problem(
        clusters,
        small_model(),
        Training(global_batch=8, seq_len=256),
        None,
        make_links(),
    )
    return replace(problem, latency=latency)


def kinds_of(problem: Problem) -> tuple[str, ...]:
    found = latency_sources(problem)
    return tuple(found.source_kind(cluster) for cluster in problem.clusters)


def test_auto_prefers_measured_over_published_over_operators(
    tmp_path: Path, shipped: dict[str, Path]
) -> None:
    problem = problem_of(a="auto")
    assert kinds_of(problem) == ("operators", "operators")
    for kind in ("published", "measured"):
        text = make_text(("layer",), kind=kind, accelerator="A100-80GB")
        ship(shipped, tmp_path, f"a100-{kind}", text)
        assert kinds_of(problem) == (kind, "operators")
        assert isinstance(latency_sources(problem).by_cluster["a"], ForestSource)
    assert isinstance(latency_sources(problem).by_cluster["b"], OperatorSource)
    assert kinds_of(problem_of(a="roofline")) == ("modelled", "operators")


def test_auto_passes_over_a_profile_of_another_precision(
    tmp_path: Path, shipped: dict[str, Path]
) -> None:
    text = make_text(("layer",), dtype="fp32", accelerator="A100-80GB")
    ship(shipped, tmp_path, "a100-measured", text)
    assert kinds_of(problem_of()) == ("operators", "operators")
    write = r"has no bf16 rows: write training: \{precision: fp32\}, or measure layers"
    with pytest.raises(InputError, match=write):
        build_table(problem_of(a="a100-measured"))


def test_a_profile_by_name_and_by_path(
    tmp_path: Path, shipped: dict[str, Path]
) -> None:
    ship(shipped, tmp_path, "mine", make_text(LAYER_UNITS))
    by_name = build_table(problem_of(a="mine"))
    by_path = build_table(problem_of(a=str(tmp_path / "mine.csv")))
    modelled = build_table(problem_of())
    assert by_name.sources == by_path.sources == ("measured", "operators")
    for named, pathed, other in zip(
        by_name.slices, by_path.slices, modelled.slices, strict=True
    ):
        first, second = named.clusters
        assert (first.forward_ns == pathed.clusters[0].forward_ns).all()
        assert (first.forward_ns > other.clusters[0].forward_ns).any()
        assert (second.forward_ns == other.clusters[1].forward_ns).all()


def test_unknown_sources_and_files_are_refused(shipped: dict[str, Path]) -> None:
    assert not shipped
    with pytest.raises(InputError, match=r"latency\.a: is 'magic', expected auto"):
        latency_sources(problem_of(a="magic"))
    with pytest.raises(InputError, match=r"nowhere\.csv: no such file"):
        latency_sources(problem_of(a="nowhere.csv"))


# Outside -------------------------------------------------------------------------


def plan_of() -> Plan:
    strategy = Strategy(dp=1, cp=1, tp=1, recompute="none")
    stages = tuple(
        Stage(cluster=name, first_unit=first, end_unit=end, strategy=strategy, warmup=1)
        for name, first, end in (("a", 0, 3), ("b", 3, 6))
    )
    return Plan(
        problem_digest="",
        table_digest="",
        schedule="1f1b",
        pipelines=(Pipeline(microbatches=8, stages=stages),),
    )


def warnings_of(problem: Problem, most_batch: int = 4) -> list[str]:
    """Return the warnings on a problem whose micro-batches are limited on ``a``."""
    own = ClusterPins(cp=only(1), tp=only(1, 2))
    counts = only(*(q for q in (1, 2, 4, 8) if 8 // q <= most_batch))
    problem = replace(problem, pins=Pins(microbatches=counts, clusters={"a": own}))
    table = build_table(problem, Roofline())
    return extrapolated(problem, table, plan_of(), "my problem.yaml")


def test_a_problem_inside_its_profile_is_not_warned_about(
    tmp_path: Path, shipped: dict[str, Path]
) -> None:
    ship(shipped, tmp_path, "mine", make_text(LAYER_UNITS))
    assert warnings_of(problem_of(a="mine")) == []
    assert warnings_of(problem_of()) == []


def test_a_plan_outside_its_profile_is_warned_about(
    tmp_path: Path, shipped: dict[str, Path]
) -> None:
    """A third beyond the range: no factor of two is needed."""
    ship(shipped, tmp_path, "mine", make_text(LAYER_UNITS))
    problem = problem_of(a="mine")
    wide = replace(problem, model=small_model(hidden=1280, head_dim=160))
    (warning,) = warnings_of(wide)
    assert warning.startswith("cluster 'a': the plan uses shapes outside of mine, ")
    assert "(hidden size 1280, measured 256 to 1024)" in warning
    assert warning.endswith("them with `hetopt profile --for 'my problem.yaml'`")
    gpt = replace(problem, model=small_model(gated=False, norm="layer"))
    (warning,) = warnings_of(gpt)
    assert "gated (1: as in Llama, 0: as in GPT) 0, measured 1 to 1" in warning


def test_shapes_that_the_plan_was_compared_with_are_warned_about(
    tmp_path: Path, shipped: dict[str, Path]
) -> None:
    ship(shipped, tmp_path, "mine", make_text(LAYER_UNITS))
    (warning,) = warnings_of(problem_of(a="mine"), most_batch=8)
    assert "'a': 2 of 8 shapes that were compared are outside of mine, " in warning
    assert "micro-batch 8, measured 1 to 4" in warning


def test_a_hole_in_a_profile_is_outside(
    tmp_path: Path, shipped: dict[str, Path]
) -> None:
    ship(shipped, tmp_path, "mine", make_text(LAYER_UNITS, hidden=(64, 8192)))
    (warning,) = warnings_of(problem_of(a="mine"))
    assert "factor from the nearest shape 8, measured 1 to 2" in warning


def test_a_report_says_what_was_measured(
    tmp_path: Path, shipped: dict[str, Path]
) -> None:
    ship(shipped, tmp_path, "mine", make_text(LAYER_UNITS))
    problem = problem_of(a="mine")
    own = ClusterPins(cp=only(1), tp=only(1, 2))
    small = replace(
        problem,
        training=replace(problem.training, global_batch=4),
        pins=Pins(clusters={"a": own}),
    )
    (note,) = coverage_notes(small, build_table(small, Roofline()))
    assert note == "a: all 6 shapes that were compared are measured (mine)"
    (note,) = coverage_notes(problem, build_table(problem, Roofline()))
    assert "shapes that were compared are measured, a forest predicts the oth" in note
