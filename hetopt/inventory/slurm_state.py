"""Slurm's node states, and which of them exclude a node from plans.

Only idle nodes are used. The names, short forms and marks are those of sinfo's manual
(NODE STATE CODES); in JSON, marks are further states in words.
"""

from __future__ import annotations

from hetopt.inventory.node import DOWN, DRAINED, PARTLY_USED

_RESERVED = "reserved, in maintenance or planned for another job"
_POWER = "powered down or being powered up or down"
_REBOOT = "about to be rebooted"
_SILENT = "not responding"
_UNKNOWN = "in an unknown state"

#: Reason to leave a node out -> its states and marks, the stronger reason first.
_REASONS: dict[str, frozenset[str]] = {
    DOWN: frozenset({"down", "error", "fail", "failg", "failing", "perfctrs", "npc"}),
    DRAINED: frozenset({"drain", "drained", "draining", "drng"}),
    _SILENT: frozenset(
        {"*", "no_respond", "not_responding", "blocked", "block", "blk"}
    ),
    PARTLY_USED: frozenset(
        {"alloc", "allocated", "mix", "mixed", "comp", "completing"}
    ),
    _RESERVED: frozenset(
        {"resv", "reserved", "maint", "maintenance", "plnd", "planned", "$", "-"}
    ),
    _POWER: frozenset(
        {
            *("pow_dn", "pow_up", "powering_down", "powering_up", "powered_down"),
            *("power_down", "power_up", "power_saving", "dynamic_future"),
            *("power_drain", "poff", "~", "#", "!", "%"),
        }
    ),
    _REBOOT: frozenset(
        {"boot", "rebooting", "reboot", "reboot_requested", "reboot_issued", "@", "^"}
    ),
    _UNKNOWN: frozenset(
        {"unk", "unknown", "futr", "future", "inval", "invalid", "invalid_reg"}
    ),
}
#: States that do not exclude a node.
_PASSED_OVER = frozenset({"idle", "cloud", "dynamic", "dynamic_norm", "external"})

_MARKS = "*~#!%$@^-"
_KNOWN = _PASSED_OVER.union(*_REASONS.values())


def is_state(text: str) -> bool:
    """Whether every word and mark of ``text`` is one of Slurm's."""
    words = _words(text)
    return bool(words) and words <= _KNOWN


def reason_to_leave_out(*states: str) -> str | None:
    """Return why a node in these states cannot be planned on; None: it is idle.

    States are written as in Slurm: ``idle*``, ``DOWN*+DRAIN``, ``mix-``.
    """
    words = {word for text in states for word in _words(text)}
    for reason, meaning in _REASONS.items():
        if words & meaning:
            return reason
    return None if "idle" in words and words <= _KNOWN else _UNKNOWN


def _words(text: str) -> set[str]:
    words: set[str] = set()
    for part in text.strip().lower().split("+"):
        state = part.rstrip(_MARKS)
        words |= {state, *part[len(state) :]}
    return words - {""}
