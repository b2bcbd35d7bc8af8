"""Find the accelerator of the catalogue that a vendor, driver or site names.

A name is split into words. Each must be known as the device's own, its maker's, its
form's (SXM5, HBM3) or its memory's. Another word (PCIe for an SXM device, NVL, a site's
own) may mean another device, so it becomes a question.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

from hetopt.problem.catalogue import DATA, accelerators

if TYPE_CHECKING:
    from hetopt.problem.cluster.accelerator import Accelerator

#: Drivers report up to 7% more than the vendor's decimal figure.
_MEMORY_TOLERANCE = 0.1

_WORD = re.compile(r"[a-z0-9]+")
_MEMORY = re.compile(r"(\d{1,4})g(?:i?b)?", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """The accelerator that a name means, or a question.

    Attributes
    ----------
    accelerator
        Its name in the catalogue; None if it is uncertain.
    candidates
        Devices of the catalogue that it may be, if ``accelerator`` is None.
    question
        Why it is uncertain; empty if it is not.
    """

    accelerator: str | None = None
    candidates: tuple[str, ...] = ()
    question: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Name:
    words: frozenset[str]
    forms: frozenset[str]
    accelerators: tuple[str, ...]


@cache
def _names() -> tuple[frozenset[str], tuple[_Name, ...], dict[str, str]]:
    """Return ignored words, names, and whole labels, from the data file."""
    file = resources.files(DATA).joinpath("accelerator_names.json")
    data: dict[str, Any] = json.loads(file.read_text("utf-8"))
    names = tuple(
        _Name(
            words=frozenset(item["words"]),
            forms=frozenset(item["forms"]),
            accelerators=tuple(item["accelerators"]),
        )
        for item in data["names"]
    )
    labels = {item["label"]: item["accelerator"] for item in data["labels"]}
    labels |= {name.lower(): name for name in accelerators()}
    return frozenset(data["passed_over"]["words"]), names, labels


def match_accelerator(label: str | None, memory_bytes: int | None = None) -> Match:
    """Return the catalogue's accelerator of this name, or a question.

    Parameters
    ----------
    label
        Name in the inventory, such as ``NVIDIA-A100-SXM4-80GB`` or ``a100``.
    memory_bytes
        Memory of one device as its driver reports it; None: unknown.
    """
    if label is None:
        return Match(question="the inventory does not say which accelerator it is")
    passed_over, names, labels = _names()
    whole = labels.get(label.strip().lower())
    if whole is not None:
        return _of_memory(label, (whole,), [memory_bytes] if memory_bytes else [])
    words = set(_WORD.findall(label.lower()))
    sizes = [memory_bytes] if memory_bytes else []
    for word in sorted(words):
        size = _MEMORY.fullmatch(word)
        if size:
            words.remove(word)
            sizes.append(int(size[1]) * 10**9)
    words -= passed_over
    fitting = [name for name in names if name.words <= words]
    if not fitting:
        return Match(question=f"{label!r} is not in the catalogue")
    name = min(fitting, key=lambda item: (_unexplained(item, words), -len(item.words)))
    match = _of_memory(label, name.accelerators, sizes)
    rest = sorted(words - name.words - name.forms)
    if rest:
        candidates = match.candidates or tuple(filter(None, [match.accelerator]))
        what = f"{label!r}: {', '.join(rest)} may make it another device"
        return Match(candidates=candidates, question=what)
    return match


def _unexplained(name: _Name, words: set[str]) -> int:
    return len(words - name.words - name.forms)


def _sold_as(accelerator: Accelerator) -> int:
    return accelerator.sold_as_bytes or accelerator.memory_bytes


def _of_memory(label: str, names: tuple[str, ...], sizes: list[int]) -> Match:
    """Return the one of ``names`` with a memory near all ``sizes``, or a question."""
    known = accelerators()
    near = tuple(
        name
        for name in names
        if all(
            abs(size / _sold_as(known[name]) - 1) <= _MEMORY_TOLERANCE for size in sizes
        )
    )
    if len(near) == 1:
        return Match(accelerator=near[0])
    if near:
        return Match(candidates=near, question=f"{label!r} is {' or '.join(near)}")
    has = " and ".join(f"{size / 1e9:.0f} GB" for size in sizes)
    expected = ", ".join(f"{_sold_as(known[name]) / 1e9:.0f} GB" for name in names)
    return Match(
        question=f"{label!r} has {has} of memory, the catalogue's has {expected}"
    )
