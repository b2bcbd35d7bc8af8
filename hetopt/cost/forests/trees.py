"""Extremely randomised trees as arrays: grown by scikit-learn, evaluated without it.

Importing scikit-learn takes longer than a prediction, so trees are saved as arrays
(``hetopt.cost.forests.kept``). Predictions are equal to the library's in every bit: it
compares 32-bit features with 64-bit thresholds; rounded down to 32 bits, a threshold
splits such features equally.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from hetopt.cost.shapes import distinct_rows

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from hetopt.cost.shapes import Floats


#: Rows times trees that are evaluated at once.
_AT_ONCE = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How trees grow.

    Attributes
    ----------
    trees
        Number of trees.
    max_features
        Share of the features from which a split is chosen.
    min_samples_leaf
        Least number of rows in a leaf.
    """

    trees: int
    max_features: float
    min_samples_leaf: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Trees:
    """T trees with N nodes in total, S of which are splits; these arrays are saved.

    Attributes
    ----------
    nodes
        Number of nodes of each tree, whose first one is its root; (T,).
    is_split
        Which nodes are splits; the others are leaves; (N,).
    features, thresholds
        Rows whose feature is at most the threshold go left; (S,).
    left, right
        Offsets of the next node; (S,).
    values
        Predictions of leaves; (N - S,).
    """

    nodes: NDArray[np.int32]
    is_split: NDArray[np.bool_]
    features: NDArray[np.int8]
    thresholds: NDArray[np.float32]
    left: NDArray[np.int32]
    right: NDArray[np.int32]
    values: Floats

    def answers(self, rows: Floats) -> Floats:
        """Return the mean of the trees' predictions for R rows of F features; (R,)."""
        wide = rows.astype(np.float32)
        # Many rows are between the same thresholds, and so in the same leaves.
        steps = _thresholds(self, wide.shape[1])
        first, asked = distinct_rows(
            [np.searchsorted(own, x) for own, x in zip(steps, wide.T, strict=True)]
        )
        narrow, count = wide[first].ravel(), len(first)
        roots, split = np.cumsum(self.nodes) - self.nodes, np.cumsum(self.is_split) - 1
        total = np.zeros(count)
        # So many trees at a time that their arrays stay in a processor's cache.
        some = max(1, _AT_ONCE // max(count, 1))
        for tree in range(0, len(roots), some):
            own = roots[tree : tree + some]
            # Every row in every tree, and which of them are not in a leaf yet.
            node = np.repeat(own, count)
            row = np.tile(np.arange(count) * wide.shape[1], len(own))
            moving = np.flatnonzero(self.is_split[node])
            while len(moving):
                here = node[moving]
                at = split[here]
                to_left = narrow[row[moving] + self.features[at]] <= self.thresholds[at]
                here += np.where(to_left, self.left[at], self.right[at])
                node[moving] = here
                moving = moving[self.is_split[here]]
            # As many leaves as nodes that are no splits are before one.
            each = self.values[node - split[node] - 1].reshape(len(own), count)
            # Tree by tree: the rounding of sums must not depend on the number of rows.
            for answers in each:
                total += answers
        return total[asked] / len(roots)

    @classmethod
    def kept(
        cls, arrays: Mapping[str, NDArray[Any]], prefix: str, *, width: int
    ) -> Self:
        """Return the trees saved as ``arrays``, which have ``width`` features.

        Raises
        ------
        ValueError
            The arrays are invalid: one is missing, or a node has no valid next node.
        """
        try:
            found = {name: arrays[prefix + name] for name in _DTYPES}
        except KeyError as error:
            raise ValueError(str(error)) from error
        if not _are_sound(found, width):
            msg = "trees whose nodes lead nowhere"
            raise ValueError(msg)
        return cls(**found)

    def arrays(self, prefix: str) -> dict[str, NDArray[Any]]:
        """Return the trees as arrays, whose names begin with ``prefix``."""
        return {prefix + name: getattr(self, name) for name in _DTYPES}


@lru_cache(maxsize=16)
def _thresholds(trees: Trees, width: int) -> list[NDArray[np.float32]]:
    """Return the thresholds of each of ``width`` features, ascending."""
    features = range(width)
    return [np.unique(trees.thresholds[trees.features == own]) for own in features]


#: Types of the arrays.
_DTYPES = {
    "nodes": np.int32,
    "is_split": np.bool_,
    "features": np.int8,
    "thresholds": np.float32,
    "left": np.int32,
    "right": np.int32,
    "values": np.float64,
}


def _are_sound(found: Mapping[str, NDArray[Any]], width: int) -> bool:
    """Whether the arrays of ``_DTYPES`` are valid trees with ``width`` features.

    The next nodes must be after a split and within its tree.
    """
    nodes, is_split = found["nodes"], found["is_split"]
    if any(found[name].dtype != dtype for name, dtype in _DTYPES.items()):
        return False
    sizes = int(nodes.sum()), int(is_split.sum())
    if (
        nodes.ndim != 1
        or not nodes.size
        or nodes.min() < 1
        or is_split.shape != sizes[:1]
        or found["values"].shape != (sizes[0] - sizes[1],)
    ):
        return False
    end = np.repeat(np.cumsum(nodes), nodes)[is_split]
    own = np.flatnonzero(is_split)
    features = found["features"]
    return bool(
        all(
            found[name].shape == own.shape
            and (found[name] > 0).all()
            and (own + found[name] < end).all()
            for name in ("left", "right")
        )
        and features.shape == found["thresholds"].shape == own.shape
        and (features >= 0).all()
        and (features < width).all()
        and np.isfinite(found["values"]).all()
    )


def grow(rows: Floats, answers: Floats, settings: Settings) -> Trees:
    """Grow trees on R rows of F features; deterministic.

    Parameters
    ----------
    rows
        (R, F), R at least 1, F at most 127.
    answers
        Values to predict; (R,).
    """
    # Importing scikit-learn takes a second or two.
    from sklearn import config_context
    from sklearn.tree import ExtraTreeRegressor

    # The trees of its ExtraTreesRegressor, which copies and checks the settings of each
    # for as long as one grows.
    random, most = np.random.RandomState(0), np.iinfo(np.int32).max
    narrow = np.ascontiguousarray(rows, dtype=np.float32)
    with config_context(skip_parameter_validation=True):
        trees = [
            ExtraTreeRegressor(
                max_features=settings.max_features,
                min_samples_leaf=settings.min_samples_leaf,
                random_state=random.randint(most),
            )
            .fit(narrow, answers, check_input=False)
            .tree_
            for _ in range(settings.trees)
        ]

    def whole(name: str) -> NDArray[Any]:
        return np.concatenate([getattr(tree, name) for tree in trees])

    own = np.concatenate([np.arange(tree.node_count) for tree in trees])
    left, right = whole("children_left"), whole("children_right")
    is_split = left != right
    found: dict[str, Any] = {
        "nodes": [tree.node_count for tree in trees],
        "is_split": is_split,
        "features": whole("feature")[is_split],
        "thresholds": _not_above(whole("threshold")[is_split]),
        "left": (left - own)[is_split],
        "right": (right - own)[is_split],
        "values": whole("value")[~is_split, 0, 0],
    }
    return Trees(**{k: np.asarray(found[k], dtype) for k, dtype in _DTYPES.items()})


def _not_above(thresholds: Floats) -> NDArray[np.float32]:
    """Round down to numbers of 32 bits."""
    nearest = thresholds.astype(np.float32)
    below = np.nextafter(nearest, np.float32(-np.inf))
    return np.where(nearest > thresholds, below, nearest)
