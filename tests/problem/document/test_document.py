"""YAML that is no problem, and limits that hold while it is read."""

from __future__ import annotations

import time

import pytest

from hetopt.errors import InputError
from hetopt.problem.document.document import parse_document


def complaint(text: str) -> str:
    with pytest.raises(InputError) as caught:
        parse_document(text, "f")
    return str(caught.value)


def test_limits_hold_while_the_text_is_read() -> None:
    began = time.process_time()
    said = complaint("- 1\n" * 3_000_000)
    assert said.startswith("f:100000: holds more than 100000 values")
    assert complaint("- " * 5000 + "1").startswith("f:1: is nested too deeply")
    assert complaint("[" * 5000 + "]" * 5000).startswith("f:1: is nested too deeply")
    assert complaint("{a: " * 5000).startswith("f:1: is nested too deeply")
    # Thirty seconds where a whole text is composed before anything is counted.
    assert time.process_time() - began < 10


def test_a_long_comment_is_passed_over() -> None:
    began = time.process_time()
    assert parse_document("#" + "x" * 15_000_000 + "\na: 1\n", "f").data == {"a": 1}
    assert time.process_time() - began < 5


def test_numbers_of_many_digits() -> None:
    assert complaint("a:\n  b: " + "9" * 400) == (
        "f:2: a.b: is a number of more than 64 digits"
    )
    assert parse_document("a: " + "9" * 64, "f").data == {"a": int("9" * 64)}


def test_aliases_stand_for_values_with_places_of_their_own() -> None:
    document = parse_document("a: &x [1, {b: &y 2}]\nc: *x\nd: {e: *y}\n", "f")
    assert document.data == {"a": [1, {"b": 2}], "c": [1, {"b": 2}], "d": {"e": 2}}
    assert document.data["c"] is not document.data["a"]
    where = document.place(("c", 1, "b"))
    assert where is not None
    assert where.line == 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: &x [*x]\n", "f:1: a.0: contains itself through an alias"),
        ("a: *x\n", "f:1: a: is not valid YAML: found undefined alias 'x'"),
        ("a: &x 1\nb: &x 2\n", "f:2: b: is not valid YAML: found the anchor 'x' twice"),
        ("a: 1\n---\nb: 2\n", "f:2: is not valid YAML: expected a single document"),
        ("? [a]\n: 1\n", "f:1: has a key that is not text"),
        ("a: !!python/name:os 1\n", "f:1: a: has the tag "),
        ("# nothing\n", "f:1: is empty, expected a YAML mapping"),
        ("k" * 200 + ": 1\n" + "k" * 200 + ": 2\n", f"f:2: {'k' * 80}: is given twice"),
    ],
)
def test_what_is_no_document(text: str, said: str) -> None:
    assert complaint(text).startswith(said)


def test_laughter_ends() -> None:
    lines = ["a0: &a0 [1, 1]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]
    assert "holds more than 100000 values" in complaint("\n".join(lines))


QUESTIONS = """\
clusters:
  - name: a
    # QUESTION: which accelerator?
    # accelerator: A100-80GB
    # accelerator: A100-40GB
  - name: b
    # QUESTION: how fast is one network interface (NIC), per direction? Add
    #   nics_per_node unless a node has one per device
    # inter_node: {bandwidth: <such as 100 Gbps>}
    memory: <such as 80 GB>
"""


def test_questions_of_an_inventory() -> None:
    document = parse_document(QUESTIONS, "f")

    def said(*path: str | int) -> str:
        return str(document.error(path, "is missing, expected something"))

    assert said("clusters", 0, "accelerator") == (
        "f:2: clusters.0.accelerator: is missing: the question on line 3 is not "
        "answered"
    )
    assert said("clusters", 1, "inter_node") == (
        "f:6: clusters.1.inter_node: is missing: the question on line 7 is not answered"
    )
    # Nobody asked for these.
    assert said("clusters", 0, "inter_node").endswith("is missing, expected something")
    assert said("clusters", 1, "accelerator").endswith("is missing, expected something")
    assert said("clusters", 1, "memory") == (
        "f:10: clusters.1.memory: is not answered: put a value in place of "
        "<such as 80 GB>"
    )
