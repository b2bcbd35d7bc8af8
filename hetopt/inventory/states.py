"""States of nodes in Slurm and Kubernetes, and which of them exclude a node from plans.

Only idle nodes are used, unless the user includes others. The names, short forms and
marks are those of sinfo's manual (NODE STATE CODES); in JSON, marks are further states
in words.
"""

from __future__ import annotations

from hetopt.base.words import suggest
from hetopt.errors import InputError
from hetopt.inventory.node import CORDONED, DOWN, DRAINED, NOT_READY, PARTLY_USED

_RESERVED = "reserved, in maintenance or planned for another job"
_POWER = "powered down or being powered up or down"
_REBOOT = "about to be rebooted"
_SILENT = "not responding"
_UNKNOWN = "in an unknown state"

#: Reason to leave a node out -> its states, each with its other forms and marks behind
#: it; the stronger reason first.
_REASONS: dict[str, tuple[str, ...]] = {
    DOWN: ("down error", "fail failg failing", "perfctrs npc"),
    DRAINED: ("drained drain", "draining drng"),
    _SILENT: ("not_responding no_respond *", "blocked block blk"),
    PARTLY_USED: ("allocated alloc", "mixed mix", "completing comp"),
    _RESERVED: ("reserved resv", "maint maintenance $", "planned plnd -"),
    _POWER: (
        *("powered_down poff power_saving ~", "powering_down pow_dn %"),
        *("power_down power_drain !", "powering_up pow_up power_up #"),
    ),
    _REBOOT: ("reboot_issued rebooting boot ^", "reboot_requested reboot @"),
    _UNKNOWN: ("unknown unk", "future futr dynamic_future", "inval invalid_reg"),
    # Of Kubernetes.
    NOT_READY: ("not_ready",),
    CORDONED: ("cordoned",),
}
#: Slurm's states that do not exclude a node.
_PASSED_OVER = frozenset({"idle", "cloud", "dynamic", "dynamic_norm", "external"})

_MARKS = "*~#!%$@^-"
#: Form of a state -> its name.
_NAMES = {
    form: state.split()[0]
    for states in _REASONS.values()
    for state in states
    for form in state.split()
}
#: The states of a node that jobs use.
USED = frozenset(state.split()[0] for state in _REASONS[PARTLY_USED])
#: Every name that a user can include.
STATES = tuple(dict.fromkeys(_NAMES.values()))
ALL = "all"


def is_state(text: str) -> bool:
    """Whether every word and mark of ``text`` is one of Slurm's."""
    words = _words(text)
    return bool(words) and words <= _PASSED_OVER.union(_NAMES)


def excluding(*states: str) -> frozenset[str]:
    """Return the names of those states that exclude a node; none if it is idle.

    States are written as in Slurm: ``idle*``, ``DOWN*+DRAIN``, ``mix-``.
    """
    words = {word for text in states for word in _words(text)}
    found = {_NAMES.get(word, "unknown") for word in words - _PASSED_OVER}
    return frozenset(found if found or "idle" in words else {"unknown"})


def reason_of(states: frozenset[str]) -> str | None:
    """Return the strongest reason to leave out a node in these states; None: none."""
    for reason, meaning in _REASONS.items():
        if any(state.split()[0] in states for state in meaning):
            return reason
    return None


def included(text: str | None) -> frozenset[str]:
    """Read ``--include``: names of states with commas between, or ``all``.

    Raises
    ------
    InputError
        A name is not that of a state.
    """
    if text is None or text == ALL:
        return frozenset(STATES if text else ())
    words = [word.strip().lower() for word in text.split(",")]
    for word in words:
        if word not in _NAMES:
            msg = f"there is no state {word!r}{suggest(word, STATES)}, expected {ALL}, "
            raise InputError(msg + ", ".join(STATES), field="--include")
    return frozenset(_NAMES[word] for word in words)


def _words(text: str) -> set[str]:
    words: set[str] = set()
    for part in text.strip().lower().split("+"):
        state = part.rstrip(_MARKS)
        words |= {state, *part[len(state) :]}
    return words - {""}
