"""The digest of a problem, which changes whenever its meaning does."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from hetopt.problem.catalogue import PROFILE_SUFFIX
from hetopt.problem.cluster.cluster import HOST_MEMORY_BYTES_PER_S
from hetopt.problem.model.architecture import PLAIN
from hetopt.problem.training.choices import first_name
from hetopt.problem.training.dispatch import EVEN
from hetopt.problem.training.pins import ANY
from hetopt.problem.training.training import FORMER_EPSILON

if TYPE_CHECKING:
    from hetopt.problem.problem import Problem

#: Labels and provenance: (class, field) that change no plan. What a device is like is
#: one of them, as the facts that it takes from there count. Hosts are, too: costs
#: depend on the sizes of a cluster's nodes, but not on which node is which.
_LABELS = frozenset(
    {
        ("Problem", "name"),
        ("Model", "name"),
        ("Accelerator", "name"),
        ("Accelerator", "like"),
        ("Accelerator", "accuracy"),
        ("Accelerator", "visible_devices"),
        ("Accelerator", "sources"),
        ("Accelerator", "sold_as_bytes"),
        ("Cluster", "hosts"),
        ("Calibration", "overheads"),
        ("Calibration", "reserve"),
    }
)

#: Fields that were added later, and their defaults: a field with its default is left
#: out, so that older problems keep their digests.
_LATER: Mapping[tuple[str, str], Any] = {
    ("Cluster", "price_per_hour"): None,
    ("Cluster", "unequal"): None,
    ("Cluster", "offload"): None,
    ("Cluster", "host_memory_bytes_per_s"): HOST_MEMORY_BYTES_PER_S,
    ("Problem", "launcher"): None,
    ("Training", "any_schedule"): False,
    ("Training", "emulate"): None,
    ("Training", "lengths"): None,
    ("Training", "sequence_parallel"): True,
    ("Training", "attention"): "fused",
    ("Training", "cross_entropy"): "fused",
    ("Training", "gradients"): "fp32",
    ("Training", "chunks"): 1,
    ("Training", "warmup_epsilon"): None,
    ("Training", "moe"): EVEN,
    ("Dispatch", "overlap"): 0.0,
    ("ClusterPins", "ep"): ANY,
    ("ClusterPins", "etp"): ANY,
    ("Model", "attention"): "causal",
    ("Model", "patch"): 0,
    ("Model", "classes"): 0,
    ("Model", "blocks"): (),
    ("Model", "architecture"): PLAIN,
    ("Model", "experts"): None,
    ("Model", "latent"): None,
    ("Model", "predictions"): 0,
    ("Architecture", "attention_sinks"): False,
    ("Architecture", "gate_clamp"): None,
    ("Architecture", "rotary_full_layers"): True,
    ("Architecture", "attention_chunk"): None,
    ("Architecture", "attention_temperature"): None,
    ("Experts", "weighted_input"): False,
    ("Calibration", "intra_node"): 1.0,
    ("Calibration", "speed"): {},
}


def problem_digest(problem: Problem) -> str:
    """Return the SHA-256 of the problem's canonical JSON, in hexadecimal.

    Labels, hosts and sources do not count; names of clusters do, because plans use
    them. Of a profile's path only the file's name counts, so that the digest does not
    depend on folders; the digest of the latency table covers the profile's content.
    """
    latency = {
        cluster: PurePath(source).name if source.endswith(PROFILE_SUFFIX) else source
        for cluster, source in problem.latency.items()
    }
    epsilon = problem.training.epsilon
    if epsilon == FORMER_EPSILON:
        epsilon = None
    training = replace(problem.training, warmup_epsilon=epsilon)
    canonical = _canonical(replace(problem, latency=latency, training=training))
    canonical["training"]["schedule"] = first_name(training.schedule)
    text = _text(canonical)
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _canonical(value: Any) -> Any:
    if is_dataclass(value):
        kind = type(value).__name__
        return {
            field.name: _canonical(getattr(value, field.name))
            for field in fields(value)
            if _counts((kind, field.name), getattr(value, field.name))
        }
    if isinstance(value, Mapping):
        items = [[_canonical(key), _canonical(item)] for key, item in value.items()]
        return sorted(items, key=_text)
    if isinstance(value, frozenset):
        return sorted((_canonical(item) for item in value), key=_text)
    if isinstance(value, tuple):
        return [_canonical(item) for item in value]
    return value


def _counts(place: tuple[str, str], value: Any) -> bool:
    """Whether a field changes the digest."""
    return place not in _LABELS and (place not in _LATER or value != _LATER[place])
