"""Numbers as reports print them: times to their error, differences to be told apart."""

from __future__ import annotations

from math import floor, log10
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Digits of a time whose error is unknown, and the most and least of any time.
_DIGITS, _LEAST_DIGITS = 3, 2
#: Most decimals of a percentage.
_MOST_DECIMALS = 4
#: Decimals of shares that are told apart; what is below is rounding of sums.
_PLACES = 6
_LARGE = (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3))


def digits_of(value: float, error: float | None) -> int:
    """Return how many digits of a value an error leaves.

    Parameters
    ----------
    error
        As a share of the value; None if it is unknown.

    Returns
    -------
    The most digits, up to 3, whose last one stands for no more than the error; at
    least 2. The digits of a value of unknown error are 3.

    Examples
    --------
    >>> digits_of(3.6364, 0.02), digits_of(9.89, 0.02), digits_of(3.6364, None)
    (3, 2, 3)
    """
    if not error or not value:
        return _DIGITS
    own = floor(log10(abs(value))) - floor(log10(abs(value) * error)) + 1
    return min(max(own, _LEAST_DIGITS), _DIGITS)


def rounded(value: float, digits: int = _DIGITS) -> str:
    """Return a number with so many significant digits, and no exponent.

    Examples
    --------
    >>> rounded(3.6364), rounded(9.996), rounded(10016.2, 2), rounded(0.00123456)
    ('3.64', '10.0', '10,000', '0.00123')
    """
    if not value:
        return "0"
    value = float(f"{value:.{digits - 1}e}")
    decimals = digits - 1 - floor(log10(abs(value)))
    return f"{value:,.{max(decimals, 0)}f}"


def large(value: float, digits: int = _DIGITS) -> str:
    """Return a large number with a prefix of the SI, without zeros at the end.

    Examples
    --------
    >>> large(71990.0), large(508213.0), large(1_234_000.0, 2), large(12.0)
    ('72k', '508k', '1.2M', '12')
    >>> large(424_600.0, 2), large(999_900.0)
    ('420k', '1M')
    """
    value = float(f"{value:.{digits - 1}e}")
    sign, unit = next(((s, u) for s, u in _LARGE if value >= u), ("", 1.0))
    # Up to three digits are before the point, and with fewer there is an exponent.
    return f"{value / unit:.{max(digits, 3)}g}{sign}"


def percent(share: float) -> str:
    """Return a share as a percentage of two digits or more, without a sign.

    Examples
    --------
    >>> percent(0.3), percent(0.0672), percent(-0.00012), percent(1.234)
    ('30%', '6.7%', '0.012%', '123%')
    """
    share = abs(share)
    return f"{share:.{_decimals(share)}%}"


def at_least(share: float) -> str:
    """Return a share as a percentage that is not above it.

    Examples
    --------
    >>> at_least(0.3069), at_least(0.0678), at_least(1.239)
    ('30%', '6.7%', '123%')
    """
    decimals = _decimals(share)
    scale: float = 10**decimals
    return f"{floor(share * 100 * scale) / scale:.{decimals}f}%"


def _decimals(share: float) -> int:
    """Return the decimals of a percentage."""
    if share < 10**-_PLACES:
        return 0
    return min(max(1 - floor(log10(share * 100)), 0), _MOST_DECIMALS)


def differences(values: Sequence[float | None], base: float | None) -> list[str]:
    """Return by how many percent values differ from a base, told apart.

    All have the same decimals: the fewest, at least 1, at which different values have
    different texts.

    Parameters
    ----------
    values
        None is a ``-``.
    base
        Without it, all are.

    Examples
    --------
    >>> differences([8.2530, 8.2609, 8.2667, None], 8.2530)
    ['+0.0%', '+0.1%', '+0.2%', '-']
    >>> differences([1.0, 1.00012, 1.00013], 1.0)
    ['+0.000%', '+0.012%', '+0.013%']
    """
    if not base:
        return ["-"] * len(values)
    shares = [None if v is None else round(v / base - 1, _PLACES) + 0.0 for v in values]
    known = {share for share in shares if share is not None}
    decimals = next(
        number
        for number in range(1, _MOST_DECIMALS + 1)
        if number == _MOST_DECIMALS
        or len({f"{share:+.{number}%}" for share in known}) == len(known)
    )
    return ["-" if share is None else f"{share:+.{decimals}%}" for share in shares]
