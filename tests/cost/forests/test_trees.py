from __future__ import annotations

import numpy as np
import pytest
from sklearn.ensemble import ExtraTreesRegressor

from hetopt.cost.forests.trees import Settings, Trees, grow


def drawn(rows: int, features: int = 5) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(rows)
    known = rng.normal(size=(rows, features))
    # Features of one value each, and rows that are the same.
    known[:, 0] = np.round(known[:, 0])
    return known, rng.normal(size=rows)


@pytest.mark.parametrize("rows", [1, 2, 7, 200])
@pytest.mark.parametrize("leaf", [1, 5])
def test_answers_are_those_of_the_library(rows: int, leaf: int) -> None:
    known, answers = drawn(rows)
    settings = Settings(trees=20, max_features=0.5, min_samples_leaf=leaf)
    library = ExtraTreesRegressor(
        n_estimators=20, max_features=0.5, min_samples_leaf=leaf, random_state=0
    ).fit(known, answers)
    asked = np.concatenate([known, drawn(300)[0]])
    each = [tree.predict(asked.astype(np.float32)) for tree in library.estimators_]
    found = grow(known, answers, settings).answers(asked)
    assert found.tolist() == np.mean(each, axis=0).tolist()


def kept() -> tuple[Trees, dict[str, np.ndarray]]:
    known, answers = drawn(50)
    trees = grow(known, answers, Settings(trees=3, max_features=1, min_samples_leaf=1))
    return trees, trees.arrays("a.")


def test_trees_are_kept_as_arrays() -> None:
    trees, arrays = kept()
    asked = drawn(300)[0]
    again = Trees.kept(arrays, "a.", width=5)
    assert again.answers(asked).tolist() == trees.answers(asked).tolist()


@pytest.mark.parametrize("features", [np.float32, np.float64])
def test_thresholds_of_32_bits_part_features_as_those_of_64_do(
    features: type[np.floating],
) -> None:
    """Features lie on thresholds, or next to them."""
    known = np.arange(64, dtype=np.float64)[:, None] / 7
    settings = Settings(trees=50, max_features=1, min_samples_leaf=1)
    library = ExtraTreesRegressor(
        n_estimators=50, max_features=1.0, min_samples_leaf=1, random_state=0
    ).fit(known, known[:, 0])
    limits = np.concatenate([each.tree_.threshold for each in library.estimators_])
    exact = np.unique(limits).astype(features).astype(np.float64)
    near = [np.nextafter(exact.astype(np.float32), to) for to in (-np.inf, np.inf)]
    asked = np.concatenate([exact, *near])[:, None]
    each = [tree.predict(asked.astype(np.float32)) for tree in library.estimators_]
    found = grow(known, known[:, 0], settings).answers(asked)
    assert found.tolist() == np.mean(each, axis=0).tolist()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("left", 0),
        ("left", -1),
        ("right", 10**6),
        ("nodes", 0),
        ("nodes", 10**6),
        ("features", -1),
        ("features", 5),
        ("values", np.nan),
        ("is_split", True),
    ],
)
def test_what_leads_nowhere_is_refused(name: str, value: float) -> None:
    arrays = kept()[1]
    changed = arrays["a." + name].copy()
    changed[-1] = value
    with pytest.raises(ValueError, match="nowhere"):
        Trees.kept({**arrays, "a." + name: changed}, "a.", width=5)


@pytest.mark.parametrize("name", ["left", "nodes", "values"])
def test_what_lacks_something_is_refused(name: str) -> None:
    arrays = kept()[1]
    short = {key: value for key, value in arrays.items() if key != "a." + name}
    with pytest.raises(ValueError, match=name):
        Trees.kept(short, "a.", width=5)
    with pytest.raises(ValueError, match="nowhere"):
        Trees.kept({**arrays, "a." + name: np.array([1.5, 2.5])}, "a.", width=5)
