"""What moves from Hetu's C1 to its C2, against its Table 2."""

from __future__ import annotations

import pytest

from benchmarks.replanning import (
    FUSED,
    QUARTER_MB,
    largest_sender,
    moves,
    quarter_bytes,
)


def test_as_much_moves_as_published() -> None:
    found, states = moves()
    published = sum(map(sum, FUSED.values())) / QUARTER_MB
    assert found.bytes / quarter_bytes(states) == pytest.approx(published, rel=0.02)
    layers, head = largest_sender(found, states)
    # Theirs: 15 quarters of layers and a part of the head, whose width is not known.
    assert layers == pytest.approx(int(max(map(sum, FUSED.values())) / QUARTER_MB))
    assert head == pytest.approx(1)
