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
``operators.accuracy``     an ``Accuracy``; null if no published iteration gives one
``visible_devices``        variable that limits a process to some devices
=========================  =====================================================
"""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

from hetopt.base.words import describe, suggest
from hetopt.errors import InputError
from hetopt.problem.cluster.accelerator import ARITHMETIC, Accelerator, Link, PeakFlops
from hetopt.problem.facts import Accuracy, Efficiency, Sustained
from hetopt.problem.quantity import (
    parse_bandwidth,
    parse_flops,
    parse_memory,
    parse_time,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

#: Where a number comes from: measured by us or others, published by a vendor or a
#: paper, or modelled, which is our assumption.
KINDS = ("measured", "published", "modelled")

_EXPECTED = f"{{value, kind ({', '.join(KINDS)}), source}}"


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
    if not isinstance(data, dict):
        raise InputError(f"is {describe(data)}, expected a mapping of facts", file=file)
    name = data.get("name")
    if not isinstance(name, str) or not name.strip():
        raise InputError(f"is {describe(name)}, expected text", file=file, field="name")
    facts = dict(_facts(data, "", file))
    for key in FACTS:
        if key not in facts:
            msg = f"is missing, expected {_EXPECTED}: say it of every accelerator"
            raise InputError(msg, file=file, field=key)
    found = {key: _value(key, fact, file) for key, fact in facts.items()}
    memory = facts["memory"]
    sold_as = memory.get("sold_as", memory["value"])
    found["memory.sold_as"] = _read(parse_memory, sold_as, file, "memory.sold_as")
    sources = {key: f"{fact['kind']}: {fact['source']}" for key, fact in facts.items()}
    try:
        return _accelerator(name, found, sources)
    except ValueError as error:
        raise InputError(str(error), file=file) from None


def _accelerator(
    name: str, found: Mapping[str, Any], sources: Mapping[str, str]
) -> Accelerator:
    """Return a device with values by dotted key; ValueError if one is impossible."""
    rates = {
        key.partition(".")[2]: value
        for key, value in found.items()
        if key.startswith("peak_flops.")
    }
    return Accelerator(
        name=name,
        preset=name,
        peak_flops=PeakFlops(**rates),
        memory_bytes=found["memory"],
        memory_bandwidth_bytes_per_s=found["memory_bandwidth"],
        intra_node=_link(found, "intra_node"),
        host_device=_link(found, "host_device"),
        overhead_bytes=found["overhead"],
        roofline=Efficiency(
            ramp_s=found["roofline.ramp"],
            **{share: found[f"roofline.{share}"] for share in _SHARES},
        ),
        relatives=found["operators.relatives"],
        sustained=found["operators.sustained"],
        accuracy=found["operators.accuracy"],
        intra_node_share=found["intra_node_share"],
        visible_devices=found["visible_devices"],
        sold_as_bytes=found["memory.sold_as"],
        sources=sources,
    )


def _facts(
    data: Mapping[str, Any], before: str, file: str
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the facts of a mapping by their dotted keys."""
    groups = {key.partition(".")[0] for key in _READERS if "." in key}
    for name, value in data.items():
        key = before + name
        if key in ("name", "note"):
            continue
        if key not in _READERS and key not in groups:
            known = sorted({*_READERS, "name", "note"})
            msg = f"is not a fact of an accelerator{suggest(key, known)}"
            raise InputError(msg, file=file, field=key)
        if not isinstance(value, dict):
            msg = f"is {describe(value)}, expected {_EXPECTED}"
            raise InputError(msg, file=file, field=key)
        if key in groups:
            yield from _facts(value, f"{key}.", file)
        else:
            yield key, value


def _value(key: str, fact: Mapping[str, Any], file: str) -> Any:
    """Return a fact's value, in base units, after checking that it has a source."""
    for part in ("value", "kind", "source"):
        if part not in fact:
            msg = f"is missing, expected {_EXPECTED}"
            raise InputError(msg, file=file, field=f"{key}.{part}")
    kind, source = fact["kind"], fact["source"]
    if kind not in KINDS:
        msg = f"is {describe(kind)}, expected one of {', '.join(KINDS)}"
        raise InputError(msg, file=file, field=f"{key}.kind")
    if not isinstance(source, str) or not source.strip():
        msg = f"is {describe(source)}, expected where the value comes from"
        raise InputError(msg, file=file, field=f"{key}.source")
    return _read(_READERS[key], fact["value"], file, key)


def _read(read: Callable[[Any], Any], value: Any, file: str, key: str) -> Any:
    try:
        return read(value)
    except ValueError as error:
        raise InputError(str(error), file=file, field=key) from None


def _link(found: Mapping[str, Any], name: str) -> Link:
    return Link(
        latency_s=found[f"{name}.latency"],
        bandwidth_bytes_per_s=found[f"{name}.bandwidth"],
    )


def _share(value: Any) -> float:
    """Read a share; one of kernels' rates may be above 1."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not 0 < value <= _MOST:
        msg = f"is {describe(value)}, expected a share from 0 to {_MOST:g}"
        raise ValueError(msg)
    return float(value)


def _names(value: Any) -> tuple[str, ...]:
    listed = isinstance(value, list)
    if not listed or not all(isinstance(item, str) and item for item in value):
        msg = f"is {describe(value)}, expected a list of measured devices"
        raise ValueError(msg)
    return tuple(value)


def _sustained(value: Any) -> Sustained:
    names = [field.name for field in fields(Sustained)]
    _ensure_keys(value, names)
    return Sustained(**{name: _share(value[name]) for name in names})


def _accuracy(value: Any) -> Accuracy | None:
    if value is None:
        return None
    _ensure_keys(value, ["runs", "median", "worst"])
    runs = value["runs"]
    if not isinstance(runs, int) or isinstance(runs, bool) or runs < 1:
        raise ValueError(f"runs is {describe(runs)}, expected a number of at least 1")
    return Accuracy(
        runs=runs, median=_share(value["median"]), worst=_share(value["worst"])
    )


def _ensure_keys(value: Any, names: list[str]) -> None:
    if not isinstance(value, dict) or {*value} != {*names}:
        has = ", ".join(value) if isinstance(value, dict) else describe(value)
        raise ValueError(f"is {has or 'empty'}, expected {', '.join(names)}")


def _variable(value: Any) -> str:
    if not isinstance(value, str) or not value.isidentifier():
        raise ValueError(f"is {describe(value)}, expected a variable's name")
    return value


#: Largest share of a rate.
_MOST = 10.0

#: The shares of an ``Efficiency``.
_SHARES = ("multiplication", "attention", "elementwise", "sustained")

#: The reader of every fact that a file has to state, by its dotted key.
FACTS: Mapping[str, Callable[[Any], Any]] = {
    "memory": parse_memory,
    "overhead": parse_memory,
    "memory_bandwidth": parse_bandwidth,
    "intra_node.bandwidth": parse_bandwidth,
    "intra_node.latency": parse_time,
    "intra_node_share": _share,
    "host_device.bandwidth": parse_bandwidth,
    "host_device.latency": parse_time,
    **{f"roofline.{name}": _share for name in _SHARES},
    "roofline.ramp": parse_time,
    "operators.relatives": _names,
    "operators.sustained": _sustained,
    "operators.accuracy": _accuracy,
    "visible_devices": _variable,
}

_READERS = {**FACTS, **{f"peak_flops.{name}": parse_flops for name in ARITHMETIC}}
