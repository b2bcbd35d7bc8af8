from __future__ import annotations

import numpy as np
import pytest

from hetopt.cost.linear_rates import linear_rates
from hetopt.cost.sources.features import known_samples
from tests.cost.profiling import make_profile


def test_rates_are_found_and_never_negative() -> None:
    samples, _ = known_samples("layer", list(make_profile(("layer",)).rows))
    terms = samples.at(samples.names == "forward").terms
    rates = np.array([1e-11, 3e-11, 1e-10, 5e-11, 2e-11, 1e-5])
    assert linear_rates(terms, terms @ rates) == pytest.approx(rates, rel=1e-6)
    falling = 1 / terms[:, 0]
    fitted = linear_rates(terms, falling)
    assert (fitted >= 0).all()
    assert (terms @ fitted > 0).all()
