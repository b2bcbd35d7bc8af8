"""What is wrong with a certificate, and what is left in doubt."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A claim that does not hold; ``field`` leads to it, as in ``programs.3``."""

    field: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Doubt:
    """A claim that only a search can confirm.

    Attributes
    ----------
    bound_ps
        None when the program is claimed to have no plan at all.
    always
        Whether no sample may leave it out: nobody is said to have searched it, or it
        is said to be solved.
    ranges
        The lambdas in ns, from and to, at which a plan may have a smaller value; None
        where the space or the objective is another one than that of
        ``check.verify.search``.
    """

    field: str
    stages: int
    microbatches: int
    bound_ps: int | None
    always: bool
    ranges: tuple[tuple[int, int], ...] | None = None
