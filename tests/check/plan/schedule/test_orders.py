"""The checker's orders of passes, by hand and as Megatron-LM and PyTorch count them."""

from __future__ import annotations

import pytest

from hetopt.check.plan.schedule import orders
from hetopt.check.plan.schedule.orders import Position
from hetopt.check.plan.schedule.schedules import STEPS
from tests.oracle import chunks as interleaved
from tests.oracle import folding

#: Letters of kinds: messages to (a, g) and from (A, G) another stage.
LETTERS = "FBWaAgG"


def shown(listed: list[orders.Pass]) -> str:
    """Return the passes of one chunk as words: F0 F1 B0 ..."""
    return " ".join(f"{LETTERS[kind]}{m}" for kind, _, m in listed)


@pytest.mark.parametrize(
    ("warm", "order"),
    [
        (1, "F0 B0 F1 B1 F2 B2 F3 B3"),
        (3, "F0 F1 F2 B0 F3 B1 B2 B3"),
        (4, "F0 F1 F2 F3 B0 B1 B2 B3"),
        (9, "F0 F1 F2 F3 B0 B1 B2 B3"),
    ],
)
def test_one_by_one(warm: int, order: str) -> None:
    assert shown(orders.one_by_one(Position(0, 4, 4, 1, warm))) == order


@pytest.mark.parametrize(
    ("i", "order"),
    [
        (0, "F0 F1 F2 B0 W0 F3 B1 W1 B2 W2 B3 W3"),
        (1, "F0 F1 B0 F2 B1 W0 F3 B2 W1 B3 W2 W3"),
        (2, "F0 B0 F1 B1 F2 B2 W0 F3 B3 W1 W2 W3"),
    ],
)
def test_weights_later(i: int, order: str) -> None:
    assert shown(orders.weights_later(Position(i, 3, 4, 1, 3 - i))) == order


def test_weights_of_few_microbatches_come_last() -> None:
    assert shown(orders.weights_later(Position(3, 4, 2, 1, 1))) == "F0 B0 F1 B1 W0 W1"


@pytest.mark.parametrize("v", [2, 3, 4])
@pytest.mark.parametrize(("p", "q"), [(2, 2), (2, 6), (3, 3), (4, 8), (5, 15)])
def test_in_groups_is_megatrons(p: int, q: int, v: int) -> None:
    for i, warm in enumerate(interleaved.warmups(p, v)):
        listed = orders.in_groups(Position(i, p, q, v, warm))
        found = [(kind == orders.FORWARD, chunk, m) for kind, chunk, m in listed]
        assert found == interleaved.operations(p, q, v, i)
        for chunk in range(v):
            most = interleaved.most_held(p, q, v, i, chunk)
            assert orders.most_held(p, q, v, i, chunk) == most


@pytest.mark.parametrize("p", range(1, 7))
def test_folded_is_pytorchs(p: int) -> None:
    for q in (p + 1, 2 * p, 3 * p + 1, 5 * p):
        for i in range(p):
            listed = orders.folded(Position(i, p, q, 2, 2 * p - i))
            found = [(LETTERS[kind], chunk, m) for kind, chunk, m in listed]
            assert found == folding.operations(p, q, i)


MESSAGES = {
    # The gradient of the activation's exchange comes along with it.
    "1f1b-batched": (
        "F0 a0 F1 a1 F2 a2 B0 F3 a3 B1 G2 B2 G3 B3",
        "A0 F0 a0 A1 F1 a1 B0 A2 F2 a2 B1 A3 F3 a3 B2 g2 G3 B3 g3",
        "A0 F0 B0 A1 F1 B1 A2 F2 B2 A3 F3 B3 g3",
    ),
    "1f1b-blocking": (
        "F0 a0 F1 a1 F2 a2 G0 B0 F3 a3 G1 B1 G2 B2 G3 B3",
        "A0 F0 a0 A1 F1 a1 G0 B0 A2 g0 F2 a2 G1 B1 A3 g1 F3 a3 G2 B2 g2 G3 B3 g3",
        "A0 F0 B0 A1 g0 F1 B1 A2 g1 F2 B2 A3 g2 F3 B3 g3",
    ),
}


@pytest.mark.parametrize("schedule", MESSAGES)
def test_messages(schedule: str) -> None:
    found = [
        shown(STEPS[schedule].order(Position(i, 3, 4, 1, 3 - i))) for i in range(3)
    ]
    assert tuple(found) == MESSAGES[schedule]
    # With fewer micro-batches than stages all forwards come first.
    found = [
        shown(STEPS[schedule].order(Position(i, 3, 1, 1, 3 - i))) for i in range(3)
    ]
    assert found == ["F0 a0 G0 B0", "A0 F0 a0 G0 B0 g0", "A0 F0 B0 g0"]
    assert shown(STEPS[schedule].order(Position(0, 1, 2, 1, 1))) == "F0 B0 F1 B1"
