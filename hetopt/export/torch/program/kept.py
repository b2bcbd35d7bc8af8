"""The bytes that autograd keeps from forward to backward."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks


class Kept:
    """Bytes kept now and at their peak: every storage counts once, parameters never.

    Within ``watching`` all that a forward pass keeps is counted until autograd frees
    it.
    """

    def __init__(self, stage: nn.Module) -> None:
        self.known = {p.untyped_storage().data_ptr() for p in stage.parameters()}
        self.uses: dict[int, int] = {}
        self.now = self.peak = 0

    def watching(self) -> saved_tensors_hooks:
        """Count what is kept inside a ``with`` block of this thread."""
        return saved_tensors_hooks(self._pack, _unpack)

    def _pack(self, x: Tensor) -> Any:
        storage = x.untyped_storage()
        if storage.data_ptr() in self.known or not storage.nbytes():
            return x
        return _Use(self, x)


class _Use:
    """One saved tensor, until autograd frees it."""

    def __init__(self, kept: Kept, x: Tensor) -> None:
        self.kept, self.x = kept, x
        storage = x.untyped_storage()
        self.key, self.bytes = storage.data_ptr(), storage.nbytes()
        if not kept.uses.setdefault(self.key, 0):
            kept.now += self.bytes
            kept.peak = max(kept.peak, kept.now)
        kept.uses[self.key] += 1

    def __del__(self) -> None:
        self.kept.uses[self.key] -= 1
        if not self.kept.uses[self.key]:
            self.kept.now -= self.bytes


def _unpack(x: Any) -> Tensor:
    found: Tensor = x.x if isinstance(x, _Use) else x
    return found
