from __future__ import annotations

from dataclasses import replace
from importlib import resources
from pathlib import Path

import numpy as np
import pytest

from benchmarks.modelled_profiles import SHIPPED, modelled_profile, path_of
from hetopt.cost.build import build_table
from hetopt.cost.profiles.file import parse_profile, profile_text
from hetopt.cost.profiles.units import shard_key
from hetopt.cost.shard_shape import ATTENTION_CORE
from hetopt.cost.sources.by_cluster import latency_sources
from hetopt.cost.sources.roofline import Roofline
from hetopt.problem.catalogue import accelerators, profile_files
from hetopt.problem.model.kinds import LAYER
from hetopt.problem.training.training import Training
from tests.cost.making import make_cluster, make_problem

#: How far a forest's layer times may be from the roofline it learnt from, on average.
CLOSE = 0.05


@pytest.mark.parametrize("name", SHIPPED)
def test_what_ships_is_what_the_roofline_says(name: str) -> None:
    profile = modelled_profile(accelerators()[name])
    shipped = profile_files()[f"{name.lower()}-modelled"].read_text("utf-8")
    assert shipped == profile_text(profile.header, profile.rows), (
        "run python -m benchmarks.modelled_profiles"
    )
    assert parse_profile(shipped, name) == profile


def test_rows_are_shards_once() -> None:
    profile = modelled_profile(accelerators()["A100-80GB"])
    assert profile.header["kind"] == "modelled"
    assert "sustained" in profile.header["source"]
    keys = [shard_key(row) for row in profile.rows]
    assert len(keys) == len(set(keys))
    assert {row.unit for row in profile.rows} == {LAYER, ATTENTION_CORE}
    assert 200 <= len(keys) <= 600


def test_the_files_stay_small() -> None:
    folder = resources.files("hetopt.data").joinpath("profiles")
    for name in SHIPPED:
        assert len(folder.joinpath(f"{name.lower()}-modelled.csv").read_bytes()) < 64e3
    assert path_of("H800").name == "h800-modelled.csv"


def test_auto_does_not_read_what_was_modelled() -> None:
    """The H2 chips have modelled profiles, and nothing measured."""
    problem = make_problem((make_cluster("a", "H2-Chip-A"),))
    sources = latency_sources(problem).by_cluster
    assert isinstance(sources["a"], Roofline)


def test_a_forest_learns_the_roofline_back(tmp_path: Path) -> None:
    problem = make_problem(
        (make_cluster(nodes=1),), training=Training(global_batch=16, seq_len=4096)
    )
    named = replace(problem, latency={"a": "a100-80gb-modelled"})
    forest = build_table(named, latency_sources(named, cache=tmp_path))
    table = build_table(replace(problem, latency={"a": "roofline"}))
    layer = table.kinds.index(LAYER)
    assert forest.sources == ("modelled",)
    for here, there in zip(forest.slices, table.slices, strict=True):
        ours = here.clusters[0].forward_ns[:, layer]
        ratio = ours / there.clusters[0].forward_ns[:, layer]
        assert np.abs(ratio - 1).mean() < CLOSE
