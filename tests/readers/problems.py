"""Readers of problems, and of the files that problems name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hetopt.problem.digest import problem_digest
from hetopt.problem.document.document import Document
from hetopt.problem.reading import problem_of
from tests.readers.reader import Reader

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.mutations import Path

INTER_NODE = {"bandwidth": "100 Gbps", "latency": "5 us"}
CLUSTER = {
    "name": "fast",
    "accelerator": "A100-80GB",
    "nodes": 2,
    "devices_per_node": 8,
    "inter_node": INTER_NODE,
}
SMALL: dict[str, Any] = {
    "model": {"layers": 30, "hidden": 64, "heads": 4},
    "clusters": [CLUSTER],
    "training": {"global_batch": 64, "seq_len": 128},
}
BLOCK = {"name": "wide", "layers": 2, "hidden": 32, "heads": 2}


def read(data: Any) -> tuple[Any, str]:
    """Return a problem and its digest."""
    problem = problem_of(Document(data), "problem")
    return problem, problem_digest(problem)


def clusters() -> dict[str, Any]:
    """Return a problem with most fields of clusters and links."""
    link = {
        "bandwidth": "10 Gbps",
        "per_node": "20 Gbps",
        "per_connection": "5 Gbps",
        "per_message": "3 us",
        "latency": "1 ms",
        "staged": "host",
    }
    fast = {
        **CLUSTER,
        "memory": "70 GB",
        "overhead": "2 GB",
        "max_tp": 4,
        "intra_node": {"bandwidth": "600 GB/s", "latency": "3 us"},
        "host_device": {"bandwidth": "25 GB/s", "latency": "3 us"},
        "nics_per_node": 4,
        "uplink": "50 Gbps",
        "group": {"size": 4, "bandwidth": "300 GB/s", "latency": "3 us"},
        "offload": "optimizer",
        "host_memory_bandwidth": "20 GB/s",
        "price_per_hour": 3,
        "hosts": ["n0", "n1"],
    }
    odd = {
        "name": "odd",
        "accelerator": "H20-96GB",
        "nodes": [8, 7],
        "inter_node": INTER_NODE,
    }
    pair = {"between": ["fast", "odd"], "bandwidth": "5 Gbps", "staged": "device"}
    return {
        "name": "mine",
        **SMALL,
        "clusters": [fast, odd],
        "links": {"default": link, "pairs": [pair]},
    }


def devices() -> dict[str, Any]:
    """Return a problem with devices of one's own."""
    link = {"bandwidth": "30 GB/s", "latency": "3 us"}
    own = {
        "name": "mine",
        "peak_flops": {"bf16": "100 TFLOPS"},
        "memory": "40 GB",
        "overhead": "1 GB",
        "memory_bandwidth": "800 GB/s",
        "intra_node": link,
        "host_device": link,
    }
    like = {"name": "other", "like": "H20-96GB"}
    return {
        **SMALL,
        "clusters": [
            {**CLUSTER, "name": name, "accelerator": each}
            for name, each in (("a", own), ("b", like))
        ],
        "links": {"default": {"bandwidth": "none"}},
    }


def training() -> dict[str, Any]:
    """Return a problem with most fields of training, and every other section."""
    return {
        **SMALL,
        "model": {**SMALL["model"], "experts": EXPERTS, "preset": "llama-7b"},
        "training": {
            "seq_len": 4096,
            "global_batch": 64,
            "precision": "bf16",
            "optimizer": "adam",
            "zero": 1,
            "overlap_gradients": True,
            "recompute": {"fast": ["full", "none"]},
            "schedule": "h-1f1b",
            "chunks": 1,
            "warmup_epsilon": "1/30",
            "sequence_parallel": True,
            "attention": "fused",
            "cross_entropy": "fused",
            "gradients": "fp32",
            "moe": {
                "imbalance": 1.5,
                "capacity": 1.25,
                "node_dedup": True,
                "overlap": 0.5,
            },
            "reserve": "6%",
        },
        "latency": {"fast": "roofline"},
        "calibration": {
            "efficiency": {"fast": 0.9},
            "bandwidth": 0.8,
            "intra_node": 0.7,
            "overhead": {"fast": "2 GB"},
            "reserve": 0.1,
            "notes": "one run",
        },
        "launcher": "torch",
    }


def pins() -> dict[str, Any]:
    """Return a problem with every pin."""
    slow = {**CLUSTER, "name": "slow", "accelerator": "H20-96GB", "nodes": 1}
    return {
        **SMALL,
        "clusters": [CLUSTER, slow],
        "links": {"default": {"bandwidth": "10 Gbps", "latency": "1 ms"}},
        "pin": {
            "stages": [2, 3],
            "microbatches": [8, 16],
            "order": ["fast", "slow"],
            "units": [20, 12],
            "clusters": {
                "fast": {
                    "stages": 1,
                    "units": 20,
                    "dp": 8,
                    "cp": 1,
                    "tp": 2,
                    "recompute": "full",
                }
            },
            "resharding": ["p2p", "leader"],
            "forbid": {
                "stages": 4,
                "microbatches": 32,
                "clusters": {"slow": {"tp": [8]}},
                "resharding": "inner-dp",
                "next": [["slow", "fast"]],
            },
        },
    }


EXPERTS = {
    "number": 8,
    "per_token": 2,
    "ffn": 32,
    "shared_ffn": 16,
    "shared_gate": True,
    "groups": 4,
    "groups_per_token": 2,
    "router_bias": True,
    "scores": "softmax",
    "normalised": True,
    "scale": 2.5,
    "weighted_input": False,
    "dense_layers": [0, 1],
    "every": 1,
}


def experts() -> dict[str, Any]:
    """Return a problem with routed experts and latent attention."""
    latent = {"kv_lora": 16, "qk_dim": 12, "rope_dim": 4, "v_dim": 16, "q_lora": 8}
    model = {
        "name": "mine",
        "layers": 4,
        "hidden": 64,
        "heads": 4,
        "latent": latent,
        "experts": EXPERTS,
        "predictions": 1,
    }
    return {**SMALL, "model": model}


def sizes() -> dict[str, Any]:
    """Return a problem whose model has all sizes, and the fields of rotations."""
    scaling = {
        "kind": "llama3",
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_positions": 8192,
    }
    model = {
        "layers": 4,
        "hidden": 64,
        "heads": 4,
        "kv_heads": 2,
        "head_dim": 16,
        "gated": True,
        "ffn": 128,
        "vocab": 1000,
        "tied": False,
        "norm": "rms",
        "granularity": "layer",
        "attention": "causal",
        "activation": "gelu",
        "gate_clamp": 7.0,
        "norm_eps": 1e-6,
        "norm_zero_centred": True,
        "norm_place": "both",
        "qk_norm": "head",
        "qkv_bias": True,
        "out_bias": True,
        "mlp_bias": True,
        "parallel_mlp": True,
        "rotary_base": 5e5,
        "rotary_fraction": 0.5,
        "rotary_interleaved": True,
        "rotary_local_base": 2e4,
        "rotary_scaling": scaling,
        "rotary_full_layers": False,
        "attention_scale": 0.25,
        "attention_softcap": 50.0,
        "logit_softcap": 30.0,
        "attention_sinks": True,
        "sliding_window": 16,
        "full_layers": [1, 3],
        "attention_temperature": 64,
        "hidden_dropout": 0.1,
        "attention_dropout": 0.1,
        "embedding_scale": 8.0,
    }
    return {**SMALL, "model": model}


def text() -> dict[str, Any]:
    """Return a problem with an encoder and a decoder."""
    encoder = {"name": "encoder", "layers": 3, "attention": "bidirectional"}
    decoder = {
        "name": "decoder",
        "layers": 2,
        "hidden": 64,
        "heads": 4,
        "kv_heads": 2,
        "head_dim": 16,
        "gated": False,
        "ffn": 128,
        "attention": "causal",
        "context": "encoder",
    }
    model = {"hidden": 64, "heads": 4, "blocks": [encoder, decoder]}
    return {**SMALL, "model": model}


def images() -> dict[str, Any]:
    """Return a problem with a classifier of images."""
    deep = {**BLOCK, "name": "deep", "hidden": 64, "heads": 4, "window": 4, "merge": 4}
    model = {
        "attention": "bidirectional",
        "patch": 48,
        "classes": 10,
        "blocks": [{**BLOCK, "window": 4}, deep],
    }
    return {**SMALL, "model": model, "training": {"global_batch": 8, "seq_len": 64}}


#: Names that other fields refer to, and what they need.
ELSEWHERE = {
    "name": r"expected (a cluster of this problem|the block before)",
    "nodes": r"devices_per_node: is missing",
    "clusters": r"between\.1: is 'odd', expected a cluster of this problem",
    "default": r"links\.pairs\.0\.latency: is missing",
    "order": r"pin\.clusters: pins 1 stages in all, but 2",
    "blocks": r"model\.layers: is missing",
}
#: Each document with where it is changed.
DOCUMENTS: tuple[tuple[Callable[[], Any], tuple[Path, ...]], ...] = (
    (clusters, ((),)),
    (devices, tuple(("clusters", number, "accelerator") for number in (0, 1))),
    (training, (("training",), ("latency",), ("calibration",), ("launcher",))),
    (pins, (("pin",),)),
    (experts, (("model",),)),
    (sizes, (("model",),)),
    (text, (("model",),)),
    (images, (("model",),)),
)
READERS = tuple(
    Reader(
        name=f"problem-{make.__name__}",
        document=make,
        read=read,
        within=within,
        elsewhere=ELSEWHERE,
    )
    for make, within in DOCUMENTS
)
