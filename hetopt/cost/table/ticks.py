"""The unit of time of the latency table, and its longest time."""

from __future__ import annotations

#: Seconds per tick of every time in the table.
TICK_S = 1e-9

#: Longest iteration in seconds, a little more than a day. Programs count in thousandths
#: of a tick, so it is 10**17 of them, a ninetieth of the largest 64-bit number: sums of
#: a few such times, and of one time in ticks for each of 20,000 units, fit in 64 bits
#: (``ranges`` refuses more).
LONGEST_S = 10**5
LONGEST_NS = LONGEST_S * 10**9
#: Replaces every time above ``LONGEST_NS``. An iteration takes at least as long as each
#: of its parts, so a plan with such a time is too slow.
TOO_LONG_NS = LONGEST_NS + 1
