"""Shares of sequence lengths, as a problem file gives them."""

from __future__ import annotations

from typing import Any

from hetopt.base.fields import whole
from hetopt.base.record import Fault
from hetopt.base.words import describe
from hetopt.problem.training.lengths import HISTOGRAM_SUFFIX


def read_lengths(value: Any) -> dict[int, float] | str | None:
    """Read a mapping from tokens to shares, or the path of a histogram."""
    if value is None:
        return None
    if isinstance(value, str) and value.endswith(HISTOGRAM_SUFFIX):
        return value
    if not isinstance(value, dict) or not value:
        msg = (
            f"is {describe(value)}, expected shares such as {{4096: 0.8, 32768: 0.2}}, "
            f"or the path of a {HISTOGRAM_SUFFIX} file"
        )
        raise Fault(msg)
    shares: dict[int, float] = {}
    for key, share in value.items():
        if not (str(key).isascii() and str(key).isdigit()):
            msg = "is not a number of tokens, expected one such as 4096"
            raise Fault(msg, key)
        tokens = whole(1)(int(key))
        if isinstance(share, bool) or not isinstance(share, int | float):
            raise Fault(f"is {describe(share)}, expected a share", key)
        if not 0 < share <= 1:
            msg = f"is {share:g}, expected a share above 0 and at most 1"
            raise Fault(msg, key)
        if tokens in shares:
            raise Fault("is given twice", key)
        shares[tokens] = float(share)
    return shares
