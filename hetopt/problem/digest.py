"""The digest of a problem, which changes whenever its meaning does."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import MISSING, Field, fields, is_dataclass, replace
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from hetopt.problem.catalogue import PROFILE_SUFFIX
from hetopt.problem.training.choices import BESIDE_BF16

if TYPE_CHECKING:
    from hetopt.problem.problem import Problem

#: Labels and provenance: (class, field) that change no plan. What a device is like is
#: one of them, as the facts that it takes from there count. Hosts are, too: costs
#: depend on the sizes of a cluster's nodes, but not on which node is which.
_LABELS = frozenset(
    {
        ("Problem", "name"),
        ("Pins", "layout"),
        ("Model", "name"),
        ("Accelerator", "name"),
        ("Accelerator", "like"),
        ("Accelerator", "accuracy"),
        ("Accelerator", "visible_devices"),
        ("Accelerator", "sources"),
        ("Accelerator", "sold_as_bytes"),
        ("Reached", "devices"),
        ("Reached", "precisions"),
        ("Reached", "experts"),
        ("Reached", "accuracy"),
        ("Reached", "source"),
        ("Cluster", "hosts"),
        ("Calibration", "overheads"),
        ("Calibration", "reserve"),
    }
)


def problem_digest(problem: Problem) -> str:
    """Return the SHA-256 of the problem's canonical JSON, in hexadecimal.

    Labels, hosts and sources do not count; names of clusters do, because plans use
    them. Of a profile's path only the file's name counts, so that the digest does not
    depend on folders; the digest of the latency table covers the profile's content.
    Fields with their default are left out, so that a new one changes no digest of a
    problem without it; a default whose meaning changes needs another field.
    """
    latency = {
        cluster: PurePath(source).name if source.endswith(PROFILE_SUFFIX) else source
        for cluster, source in problem.latency.items()
    }
    training = replace(
        problem.training,
        warmup_epsilon=problem.training.epsilon,
        overlap_tensor=problem.training.overlap_tensor or None,
        software=None,
    )
    meaning = _canonical(replace(problem, latency=latency, training=training))
    if problem.training.software is not None:
        experts = problem.model.experts is not None
        meaning["software"] = [
            _canonical(
                problem.training.reached(each.accelerator.known_as, experts=experts)
            )
            for each in problem.clusters
        ]
        narrow = problem.training.precision in BESIDE_BF16
        if problem.training.software.casts_again and narrow:
            meaning["casts_again"] = True
    text = _text(meaning)
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _canonical(value: Any) -> Any:
    if is_dataclass(value):
        kind = type(value).__name__
        return {
            field.name: _canonical(getattr(value, field.name))
            for field in fields(value)
            if (kind, field.name) not in _LABELS and not _is_default(value, field)
        }
    if isinstance(value, Mapping):
        items = [[_canonical(key), _canonical(item)] for key, item in value.items()]
        return sorted(items, key=_text)
    if isinstance(value, frozenset):
        return sorted((_canonical(item) for item in value), key=_text)
    if isinstance(value, tuple):
        return [_canonical(item) for item in value]
    return value


def _is_default(value: Any, field: Field[Any]) -> bool:
    """Whether a record's field is what it is if nobody gives it."""
    default = field.default
    if field.default_factory is not MISSING:
        default = field.default_factory()
    return bool(getattr(value, field.name) == default)
