"""The sliding minimum finds what looking at every beginning finds."""

from __future__ import annotations

import numba
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from hetopt.solvers.arrays.windows import INFINITE, slide

_slide = numba.njit(
    lambda before, tau, shortest, longest, whole, scratch: slide(
        before, tau, shortest, longest, whole, scratch
    )
)


@settings(max_examples=200, deadline=None)
@given(
    costs=st.lists(
        st.one_of(st.just(INFINITE), st.integers(0, 50)), min_size=2, max_size=12
    ),
    times=st.lists(st.integers(0, 9), min_size=12, max_size=12),
    shortest=st.integers(1, 4),
    more=st.integers(0, 6),
    whole=st.booleans(),
)
def test_the_best_beginning_of_every_end(
    costs: list[int], times: list[int], shortest: int, more: int, whole: bool
) -> None:
    # Only no stages have no units.
    before = np.array([INFINITE, *costs], dtype=np.int64)
    length = len(costs)
    tau = np.cumsum([0, *times[:length]]).astype(np.int64)
    scratch = np.zeros((3, length + 1), dtype=np.int64)
    longest = shortest + more
    start, stop = _slide(before, tau, shortest, longest, whole, scratch)
    for end in [length] if whole else range(1, length):
        least = min(
            (
                int(before[y] - tau[y])
                for y in range(max(0, end - longest), end - shortest + 1)
                if before[y] < INFINITE
            ),
            default=None,
        )
        y = int(scratch[2, end]) if start <= end <= stop else -1
        assert least == (None if y < 0 else int(before[y] - tau[y]))
