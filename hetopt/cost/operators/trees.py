"""Extremely randomised trees as arrays: grown by scikit-learn, evaluated without it.

Importing scikit-learn takes longer than a prediction, so trees are saved as arrays
(``hetopt.cost.operators.shipped``, ``hetopt.cost.sources.prediction_cache``).
Predictions are equal to the library's in every bit: it compares 32-bit features with
64-bit thresholds; rounded down to 32 bits, a threshold splits such features equally.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from hetopt.cost.shapes import distinct_rows

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from hetopt.cost.shapes import Floats

#: Arrays saved of T trees with N nodes, S of which are splits, and their types.
_DTYPES = {
    # Depth of the deepest tree; ().
    "depth": np.int32,
    # Number of nodes of each tree; (T,).
    "nodes": np.int32,
    # Which nodes are splits; (N,).
    "is_split": np.bool_,
    # Of each split; (S,). ``left`` and ``right`` are offsets of the next node.
    "features": np.int8,
    "thresholds": np.float32,
    "left": np.int32,
    "right": np.int32,
    # Prediction of each leaf; (N - S,).
    "values": np.float64,
}


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
    """T trees with N nodes in total; arrays are (N,) except ``roots``.

    Attributes
    ----------
    roots
        Root node of each tree; (T,).
    depth
        Depth of the deepest tree: number of steps after which all rows are in leaves.
    features, thresholds
        Rows whose feature is at most the threshold go left. Rows in a leaf stay there.
    left, right
        The next node.
    values
        Predictions of leaves.
    """

    roots: NDArray[np.int32]
    depth: int
    features: NDArray[np.int8]
    thresholds: NDArray[np.float32]
    left: NDArray[np.int32]
    right: NDArray[np.int32]
    values: Floats

    def answers(self, rows: Floats) -> Floats:
        """Return the mean of the trees' predictions for R rows of F features; (R,)."""
        # Many rows are equal.
        wide = rows.astype(np.float32)
        first, asked = distinct_rows(wide.T)
        narrow = wide[first]
        number = np.arange(len(narrow))
        node = np.repeat(self.roots[:, None], len(narrow), axis=1)
        for _ in range(self.depth):
            to_left = narrow[number, self.features[node]] <= self.thresholds[node]
            node = np.where(to_left, self.left[node], self.right[node])
        # Tree by tree: the rounding of sums must not depend on the number of rows.
        total = np.zeros(len(narrow))
        for answers in self.values[node]:
            total += answers
        return total[asked] / len(self.roots)

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
        is_split, nodes = found["is_split"], found["nodes"]
        own = np.arange(len(is_split), dtype=np.int32)

        def of_splits(name: str, elsewhere: Any) -> NDArray[Any]:
            whole: NDArray[Any] = np.full(len(own), elsewhere, dtype=_DTYPES[name])
            whole[is_split] = found[name]
            return whole

        values = np.zeros(len(own))
        values[~is_split] = found["values"]
        return cls(
            roots=(np.cumsum(nodes) - nodes).astype(np.int32),
            depth=int(found["depth"]),
            features=of_splits("features", 0),
            thresholds=of_splits("thresholds", np.inf),
            left=own + of_splits("left", 0),
            right=own + of_splits("right", 0),
            values=values,
        )

    def arrays(self, prefix: str) -> dict[str, NDArray[Any]]:
        """Return the trees as arrays, whose names begin with ``prefix``."""
        own = np.arange(len(self.left))
        is_split = self.left != own
        found = {
            "depth": self.depth,
            "nodes": np.diff(self.roots, append=len(own)),
            "is_split": is_split,
            "features": self.features[is_split],
            "thresholds": self.thresholds[is_split],
            "left": (self.left - own)[is_split],
            "right": (self.right - own)[is_split],
            "values": self.values[~is_split],
        }
        return {
            prefix + name: np.asarray(found[name], dtype=dtype)
            for name, dtype in _DTYPES.items()
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
        or found["depth"].shape != ()
        or not 0 <= found["depth"] < sizes[0]
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
    from sklearn.ensemble import ExtraTreesRegressor

    grown = ExtraTreesRegressor(
        n_estimators=settings.trees,
        max_features=settings.max_features,
        min_samples_leaf=settings.min_samples_leaf,
        random_state=0,
        n_jobs=1,
    ).fit(rows, answers)
    trees = [each.tree_ for each in grown.estimators_]
    sizes = np.array([tree.node_count for tree in trees])
    roots = np.cumsum(sizes) - sizes
    own = np.arange(sizes.sum())
    first = np.repeat(roots, sizes)

    def whole(name: str) -> NDArray[np.generic]:
        return np.concatenate([getattr(tree, name) for tree in trees])

    left, right = whole("children_left"), whole("children_right")
    is_leaf = left == right
    return Trees(
        roots=roots.astype(np.int32),
        depth=max(tree.max_depth for tree in trees),
        features=np.where(is_leaf, 0, whole("feature")).astype(np.int8),
        thresholds=_not_above(np.where(is_leaf, np.inf, whole("threshold"))),
        left=np.where(is_leaf, own, left + first).astype(np.int32),
        right=np.where(is_leaf, own, right + first).astype(np.int32),
        values=np.where(is_leaf, whole("value")[:, 0, 0], 0.0),
    )


def _not_above(thresholds: Floats) -> NDArray[np.float32]:
    """Round down to numbers of 32 bits; infinity is unchanged."""
    nearest = thresholds.astype(np.float32)
    below = np.nextafter(nearest, np.float32(-np.inf))
    return np.where(nearest > thresholds, below, nearest)
