"""A random forest that predicts the compute time of a shard (HetAuto, section 4.2).

There is one forest per unit and profile, for forward and backward together. Its errors
depend on what it predicts, its *target*: a tree predicts averages of training values,
so a forest of latencies cannot predict values outside their range. Targets are

``latency``               seconds,
``log-latency``           their logarithm,
``log-time-per-flop``     the logarithm of seconds per FLOP (per byte of an embedding),
``log-time-per-work``     the logarithm of seconds per second of a linear cost model
                          (``features.work_terms``), whose rates, each at least 0,
                          are fitted to the training rows by relative errors.

The default is the last one, from ``shard`` features. Mean absolute errors on test
shards of ``data/profiles/cpu-measured.csv`` (1,040 shards, all units, both passes;
repeat noise 5.2% median, 11% mean), by ``hetopt forest evaluate --compare``:

target             features  80/20  (c, t)  hidden  seq_len  larger batch
latency            shard     14.1%   14.9%   17.0%    22.9%         17.0%
latency            table-6   39.4%   40.4%   39.2%    48.1%         25.3%
log-latency        shard     12.2%   13.1%   14.5%    18.7%         16.0%
log-latency        table-6   33.7%   29.9%   31.7%    37.6%         20.5%
log-time-per-flop  shard      9.5%   11.2%   10.5%    12.3%          9.4%
log-time-per-flop  table-6   12.4%   19.0%   13.2%    14.7%          9.6%
log-time-per-work  shard      8.2%    9.3%    8.6%     9.1%          7.9%
log-time-per-work  table-6    9.1%   10.8%    8.8%     9.7%          7.7%
(a fitted roofline           26.4%   28.7%   27.4%    33.4%         31.4%)
(nearest neighbour           15.5%   17.0%   16.1%    19.0%         15.1%)

Trees are grown in one thread and averaged in their order, so that the same rows always
give the same bits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from hetopt.cost.linear_rates import LOG_DECIMALS, linear_rates
from hetopt.cost.sources.features import Shards, features, work_terms

if TYPE_CHECKING:
    from hetopt.cost.shapes import Floats

Target = Literal["latency", "log-latency", "log-time-per-flop", "log-time-per-work"]
FeatureSet = Literal["shard", "table-6"]

#: Percentiles of the trees' predictions that bound a prediction interval.
INTERVAL = (5.0, 95.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ForestParams:
    """How a forest is grown.

    Attributes
    ----------
    target, features
        What it predicts, and from which features.
    trees
        Number of trees.
    max_features
        Share of the features from which a split is chosen.
    min_samples_leaf
        Least number of rows in a leaf.
    seed
        Seed of the bootstrap samples and of the features that a split may use.
    """

    target: Target = "log-time-per-work"
    features: FeatureSet = "shard"
    trees: int = 100
    max_features: float = 0.5
    min_samples_leaf: int = 1
    seed: int = 0


DEFAULT_PARAMS = ForestParams()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Prediction:
    """Seconds of forward (column 0) and backward (column 1); (R, 2).

    Attributes
    ----------
    low_s, high_s
        Bounds of 90% of the trees' predictions.
    """

    seconds: Floats
    low_s: Floats
    high_s: Floats


class Forest:
    """A forest for the shards of one unit."""

    def __init__(
        self, shards: Shards, seconds: Floats, params: ForestParams = DEFAULT_PARAMS
    ) -> None:
        """Grow a forest.

        Parameters
        ----------
        seconds
            Measured forward and backward times; (R, 2), R at least 1.
        """
        # Importing scikit-learn takes a second or two.
        from sklearn.ensemble import RandomForestRegressor

        self.params = params
        self._rates = np.stack(
            [
                linear_rates(
                    work_terms(shards, backward=bool(pass_)), seconds[:, pass_]
                )
                for pass_ in (0, 1)
            ]
        )
        scaled = seconds / self._scale(shards)
        is_log = params.target != "latency"
        target = np.log(scaled).round(LOG_DECIMALS) if is_log else scaled
        self._trees: list[Any] = (
            RandomForestRegressor(
                n_estimators=params.trees,
                max_features=params.max_features,
                min_samples_leaf=params.min_samples_leaf,
                random_state=params.seed,
                n_jobs=1,
            )
            .fit(features(shards, params.features), target)
            .estimators_
        )

    def predict(self, shards: Shards) -> Prediction:
        """Predict the times of R shards."""
        if not len(shards):
            nothing = np.empty((0, 2))
            return Prediction(seconds=nothing, low_s=nothing, high_s=nothing)
        rows = features(shards, self.params.features).astype(np.float32)
        answers = np.stack([tree.predict(rows) for tree in self._trees])
        low, high = np.percentile(answers, INTERVAL, axis=0)
        scale = self._scale(shards)
        return Prediction(
            seconds=self._seconds(answers.mean(axis=0), scale),
            low_s=self._seconds(low, scale),
            high_s=self._seconds(high, scale),
        )

    def _seconds(self, answers: Floats, scale: Floats) -> Floats:
        seconds: Floats = (
            answers if self.params.target == "latency" else np.exp(answers)
        )
        return seconds * scale

    def _scale(self, shards: Shards) -> Floats:
        """Return the scale by which times are divided to get the target; (R, 2)."""
        if self.params.target == "log-time-per-work":
            return np.stack(
                [
                    work_terms(shards, backward=bool(pass_)) @ self._rates[pass_]
                    for pass_ in (0, 1)
                ],
                axis=1,
            )
        if self.params.target == "log-time-per-flop":
            return np.repeat(shards.flops()[:, None], 2, axis=1)
        return np.ones((len(shards), 2))
