"""The unit in which the latency table counts time, and the longest time it holds."""

from __future__ import annotations

#: Seconds per tick of every time in the table.
TICK_S = 1e-9

#: No iteration may take longer, in seconds: a bit more than a day. Programs count in
#: thousandths of a tick, so that the longest is 10**17 of them, a ninetieth of what 64
#: bits hold: sums of a few such times, and one time of each of 20,000 units in ticks,
#: stay within them (``hetopt.cost.ranges`` refuses more).
LONGEST_S = 10**5
LONGEST_NS = LONGEST_S * 10**9
#: Stands for every time above ``LONGEST_NS``. An iteration takes at least as long as
#: each of its parts, so a plan that is priced with it is found to be too slow.
TOO_LONG_NS = LONGEST_NS + 1
