"""The measured iterations in ``data/iterations``, and the models that they trained."""

from __future__ import annotations

import csv
from dataclasses import replace
from importlib import resources
from typing import TYPE_CHECKING, Any

from hetopt.problem.catalogue import DATA
from hetopt.problem.model.model import Model

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from hetopt.problem.training.choices import Recompute

#: llm-foundry's names of devices -> the catalogue's.
FOUNDRY_DEVICES = {
    "h100_80gb": "H100",
    "a100_80gb": "A100-80GB",
    "a100_40gb": "A100-40GB",
}


def rows(name: str) -> Iterator[dict[str, str]]:
    """Yield the rows of one of the files."""
    text = resources.files(DATA).joinpath("iterations", name).read_text("utf-8")
    yield from csv.DictReader(
        line for line in text.splitlines() if not line.startswith("#")
    )


def llama_rows() -> Iterator[tuple[dict[str, str], Model]]:
    """Yield SimuMax's rows of Llama-3-70B on B200, each with its model."""
    for row in rows("simumax-b200.csv"):
        if row["model"] == "llama3-70b":
            yield (
                row,
                Model(
                    name="llama-3-70b",
                    layers=int(row["layers"]),
                    hidden=8192,
                    heads=64,
                    kv_heads=8,
                    head_dim=128,
                    ffn=28672,
                    vocab=128256,
                ),
            )


def deepseek_rows() -> Iterator[tuple[dict[str, str], Model]]:
    """Yield SimuMax's rows of DeepSeek-V2 on B200: its first layers, one of them dense.

    Nothing in hetopt is fitted to them.
    """
    preset = Model.of("deepseek-v2")
    for row in rows("simumax-b200.csv"):
        if row["model"] == "deepseekv2":
            yield row, replace(preset, layers=int(row["layers"]))


def foundry_model(row: Mapping[str, str]) -> Model:
    """Return the model of one of llm-foundry's rows: GPT with its head tied."""
    return gpt(
        row["model"],
        layers=int(row["layers"]),
        hidden=int(row["hidden"]),
        heads=int(row["heads"]),
        ffn=int(row["ffn"]),
        vocab=int(row["vocab"]),
        positions=int(row["seq_len"]),
    )


def foundry_strategy(row: Mapping[str, str]) -> tuple[int, Recompute]:
    """Return ZeRO stage and recomputation of one of llm-foundry's rows."""
    return (
        3 if row["sharding"] == "FULL_SHARD" else 2,
        "full" if row["activation_checkpointing"] == "True" else "none",
    )


def gpt(name: str, *, layers: int, hidden: int, heads: int, **sizes: Any) -> Model:
    """Return a GPT of Megatron-LM's papers; ``sizes`` override its own."""
    usual: dict[str, Any] = {"ffn": 4 * hidden, "vocab": 51200, "positions": 2048}
    return Model(
        name=name,
        layers=layers,
        hidden=hidden,
        heads=heads,
        kv_heads=heads,
        head_dim=hidden // heads,
        gated=False,
        tied=True,
        norm="layer",
        **{**usual, **sizes},
    )
