"""Modules of pipeline stages by TorchTitan's names."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def module_names(layers: Sequence[int]) -> list[list[str]]:
    """Return the modules of each stage by TorchTitan's names."""
    parts: list[list[str]] = []
    done = 0
    for count in layers:
        parts.append([f"layers.{layer}" for layer in range(done, done + count)])
        done += count
    parts[0].insert(0, "tok_embeddings")
    parts[-1] += ["norm", "output"]
    return parts
