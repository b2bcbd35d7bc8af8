"""A device's file in the catalogue: every fact with its kind and source.

A fact is ``{"value": ..., "kind": ..., "source": ...}``. The facts of ``FACTS`` and at
least one of ``peak_flops`` have to be there, so that nothing about a device is assumed
without saying so.

=========================  =====================================================
``peak_flops.FORMAT``      dense rate, by format; a missing one is unknown
``memory``                 as a program sees it; ``sold_as`` in the vendor's sheet
``overhead``               of memory, beyond what a framework allocates
``memory_bandwidth``       of the device's own memory
``intra_node.bandwidth``   to a device of the node, per direction; ``.latency``
``host_device.bandwidth``  to the host, per direction; ``.latency``
``intra_node_share``       share of a node's links that collectives reach
``roofline.*``             an ``Efficiency``
``operators.relatives``    measured devices whose operators it uses, nearest first
``operators.sustained``    a ``Sustained``: what iterations reach of operators' rates
``operators.grouped``      a ``Grouped``, where experts' layers were measured
``operators.accuracy``     an ``Accuracy``; null if no published iteration gives one
``visible_devices``        variable that limits a process to some devices
=========================  =====================================================
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from hetopt.base.faults import Fault, faults, first_error, inside
from hetopt.base.fields import choice
from hetopt.base.record import keys, read, read_field
from hetopt.base.words import describe, suggest
from hetopt.errors import InputError
from hetopt.problem.cluster.accelerator import ARITHMETIC, Accelerator, Link
from hetopt.problem.facts import Efficiency, Sustained
from hetopt.problem.files import NO_FILES
from hetopt.problem.quantity import parse_memory

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

#: Where a number comes from: measured by us or others, published by a vendor or a
#: paper, or modelled, which is our assumption.
KINDS = ("measured", "published", "modelled")

_EXPECTED = f"{{value, kind ({', '.join(KINDS)}), source}}"
_OPERATORS = "operators"
_RATES = "peak_flops"
#: Facts that stand alone, and groups of facts.
_ALONE = (
    *("memory", "overhead", "memory_bandwidth", "intra_node_share", "visible_devices"),
)
_GROUPS = {
    _RATES: ARITHMETIC,
    "intra_node": tuple(keys(Link)),
    "host_device": tuple(keys(Link)),
    "roofline": tuple(keys(Efficiency)),
    _OPERATORS: ("relatives", "sustained", "accuracy", "grouped"),
}
#: Facts that most devices leave out.
_OPTIONAL = (f"{_OPERATORS}.grouped",)
_KNOWN = (
    *_ALONE,
    *(f"{group}.{name}" for group, names in _GROUPS.items() for name in names),
)
#: Every fact that a file has to state.
FACTS = tuple(
    key for key in _KNOWN if not key.startswith(_RATES) and key not in _OPTIONAL
)


def read_accelerator(data: Any, file: str) -> Accelerator:
    """Return the device that a file describes.

    Parameters
    ----------
    data
        The file's JSON value.
    file
        Its name in errors.

    Raises
    ------
    InputError
        A fact is missing, is unknown, has no kind or source, or cannot be read.
    """
    try:
        return _accelerator(data)
    except Fault as fault:
        error = first_error([fault])
    except ValidationError as wrong:
        error = first_error(faults(wrong))
    raise InputError(error.message, file=file, field=error.field)


def _accelerator(data: Any) -> Accelerator:
    if not isinstance(data, dict):
        raise Fault(f"is {describe(data)}, expected a mapping of facts")
    name = data.get("name")
    if not isinstance(name, str) or not name.strip():
        raise Fault(f"is {describe(name)}, expected text", "name")
    facts = dict(_facts(data))
    for key in FACTS:
        if key not in facts:
            msg = f"is missing, expected {_EXPECTED}: say it of every accelerator"
            raise Fault(msg, key)
    values: dict[str, Any] = {}
    for key, fact in facts.items():
        group, _, last = key.rpartition(".")
        (values.setdefault(group, {}) if group else values)[last] = fact["value"]
    with inside(_OPERATORS):
        found = {
            key: read_field(Accelerator, key, value, NO_FILES)
            for key, value in values.pop(_OPERATORS).items()
        }
    # A device that is not in the catalogue has defaults.
    for key in keys(Sustained):
        if key not in facts["operators.sustained"]["value"]:
            raise Fault("is missing, expected a share", f"operators.sustained.{key}")
    for key in values.keys() - keys(Accelerator):
        found[key] = read_field(Accelerator, key, values.pop(key), NO_FILES)
    memory = facts["memory"]
    with inside("memory", "sold_as"):
        found["sold_as_bytes"] = parse_memory(memory.get("sold_as", memory["value"]))
    found["sources"] = {
        key: f"{fact['kind']}: {fact['source']}" for key, fact in facts.items()
    }
    device = read(Accelerator, {"name": name, **values}, NO_FILES)
    return replace(device, preset=name, **found)


def _facts(
    data: Mapping[str, Any], before: str = ""
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the facts of a mapping, each with a kind and a source, by dotted keys."""
    for name, fact in data.items():
        key = before + name
        if key in ("name", "note"):
            continue
        if key not in _KNOWN and key not in _GROUPS:
            known = sorted({*_KNOWN, "name", "note"})
            raise Fault(f"is not a fact of an accelerator{suggest(key, known)}", key)
        if not isinstance(fact, dict):
            raise Fault(f"is {describe(fact)}, expected {_EXPECTED}", key)
        if key in _GROUPS:
            yield from _facts(fact, f"{key}.")
            continue
        for part in ("value", "kind", "source"):
            if part not in fact:
                raise Fault(f"is missing, expected {_EXPECTED}", key, part)
        with inside(key, "kind"):
            choice(KINDS)(fact["kind"])
        source = fact["source"]
        if not isinstance(source, str) or not source.strip():
            msg = f"is {describe(source)}, expected where the value comes from"
            raise Fault(msg, key, "source")
        yield key, fact
