"""Extremely randomised trees as arrays: grown by scikit-learn, asked without it.

Loading scikit-learn takes longer than asking, so what it has grown is kept as arrays
(``hetopt.cost.sources.prediction_cache``). Answers are those of the library, to the
last bit: it compares features of 32 bits with thresholds of 64.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from hetopt.cost.shapes import Floats

#: What is kept of trees.
_DTYPES = {
    "roots": np.int32,
    "depth": np.int32,
    "features": np.int8,
    "thresholds": np.float64,
    "left": np.int32,
    "right": np.int32,
    "values": np.float64,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How trees grow.

    Attributes
    ----------
    trees
        How many.
    max_features
        Share of the features a split chooses from.
    min_samples_leaf
        Rows of a leaf, at least.
    """

    trees: int
    max_features: float
    min_samples_leaf: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Trees:
    """T trees of N nodes together; arrays are (N,) but for ``roots``.

    Attributes
    ----------
    roots
        Node that each tree begins with; (T,).
    depth
        Of the deepest tree: so many steps lead from any root to a leaf.
    features, thresholds
        Rows whose feature is at most the threshold go left. A leaf sends all rows
        to itself.
    left, right
        The next node.
    values
        What a leaf answers.
    """

    roots: NDArray[np.int32]
    depth: int
    features: NDArray[np.int8]
    thresholds: Floats
    left: NDArray[np.int32]
    right: NDArray[np.int32]
    values: Floats

    def answers(self, rows: Floats) -> Floats:
        """Return the mean of the trees' answers to R rows of F features; (R,)."""
        narrow = rows.astype(np.float32)
        number = np.arange(len(narrow))
        node = np.repeat(self.roots[:, None], len(narrow), axis=1)
        for _ in range(self.depth):
            to_left = narrow[number, self.features[node]] <= self.thresholds[node]
            node = np.where(to_left, self.left[node], self.right[node])
        mean: Floats = np.mean(self.values[node], axis=0)
        return mean

    @classmethod
    def kept(
        cls, arrays: Mapping[str, NDArray[Any]], prefix: str, *, width: int
    ) -> Self:
        """Return the trees that ``arrays`` made, which ask for ``width`` features.

        Raises
        ------
        ValueError
            They are no trees: something lacks, or leads nowhere.
        """
        try:
            found = {name: arrays[prefix + name] for name in _DTYPES}
        except KeyError as error:
            raise ValueError(str(error)) from error
        roots, nodes = found.pop("roots"), len(found["left"])
        depth = int(found.pop("depth").sum())
        sound = (
            all(found[name].shape == (nodes,) for name in found)
            and all(arrays[prefix + name].dtype == t for name, t in _DTYPES.items())
            and roots.ndim == 1
            and all(
                part.min(initial=0) >= 0 and part.max(initial=0) < nodes
                for part in (roots, found["left"], found["right"])
            )
            and 0 <= depth < nodes
            and len(roots) > 0
            and (found["features"] >= 0).all()
            and (found["features"] < width).all()
            and np.isfinite(found["values"]).all()
        )
        if not sound:
            msg = "trees whose nodes lead nowhere"
            raise ValueError(msg)
        return cls(roots=roots, depth=depth, **found)

    def arrays(self, prefix: str) -> dict[str, NDArray[Any]]:
        """Return the trees as arrays, whose names begin with a prefix."""
        return {
            prefix + name: np.asarray(getattr(self, name), dtype=dtype)
            for name, dtype in _DTYPES.items()
        }


def grow(rows: Floats, answers: Floats, settings: Settings) -> Trees:
    """Grow trees that answer R rows of F features; the same whenever asked.

    Parameters
    ----------
    rows
        (R, F), R at least 1, F at most 127.
    answers
        (R,).
    """
    # Loading scikit-learn takes a second or two.
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
        thresholds=np.where(is_leaf, np.inf, whole("threshold")),
        left=np.where(is_leaf, own, left + first).astype(np.int32),
        right=np.where(is_leaf, own, right + first).astype(np.int32),
        values=whole("value")[:, 0, 0].astype(np.float64),
    )
