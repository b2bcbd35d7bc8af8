"""When work has to end."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from math import inf

#: Seconds after the end in which a first plan is still looked for.
GRACE_S = 1.0


class Stopped(Exception):
    """The time is up."""


class Interrupted(Exception):
    """A search ended before it was done: out of time or memory, or told to stop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deadline:
    """The start of timed work, and the seconds that it may take.

    It is valid on one machine only: send another machine the seconds that are left.

    Attributes
    ----------
    limit_s
        Seconds that the work may take; None: no limit.
    began
        Start, by ``time.monotonic``.
    """

    limit_s: float | None = None
    began: float = field(default_factory=time.monotonic)

    @classmethod
    def after(cls, limit_s: float | None) -> Deadline:
        """Return the deadline of work that begins now."""
        return cls(limit_s=limit_s)

    def elapsed_s(self) -> float:
        """Return the seconds since the work began."""
        return time.monotonic() - self.began

    def left_s(self) -> float | None:
        """Return the seconds left, negative when late; None without a limit."""
        return None if self.limit_s is None else self.limit_s - self.elapsed_s()

    def is_over(self) -> bool:
        """Whether the time is up."""
        left_s = self.left_s()
        return left_s is not None and left_s <= 0

    def is_long_over(self) -> bool:
        """Whether not even a first plan may be looked for any longer."""
        left_s = self.left_s()
        return left_s is not None and left_s <= -GRACE_S

    def until(self, more_s: float) -> Deadline:
        """Return the same work with a limit: ``more_s`` seconds from now."""
        return Deadline(limit_s=self.elapsed_s() + more_s, began=self.began)

    def within(
        self, limit_s: float | None = None, *, least_s: float = -inf
    ) -> Deadline:
        """Return the deadline of a part of the work, which begins now.

        Parameters
        ----------
        limit_s
            Seconds that the part may take, if that many are left.
        least_s
            Seconds that it gets at least, if there is a limit.
        """
        known = [each for each in (self.left_s(), limit_s) if each is not None]
        return Deadline.after(max(min(known), least_s) if known else None)
