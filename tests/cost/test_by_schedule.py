"""Tables of one problem under several schedules are those that each has alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from hetopt.cost import by_schedule
from hetopt.cost.build import build_table, unplaced
from hetopt.cost.by_schedule import TablesBySchedule
from hetopt.cost.table_file.file import table_digest
from hetopt.problem.digest import problem_digest
from hetopt.problem.reading import read_problem_text
from hetopt.solvers.search.branchings.schedules import schedule_variants

if TYPE_CHECKING:
    from hetopt.problem.problem import Problem

TEXT = """\
model: {layers: 6, hidden: 512, heads: 4, ffn: 2048, vocab: 1000, %s}
clusters:
  - {name: a, accelerator: A100-80GB, nodes: 2, devices_per_node: 2,
     inter_node: {bandwidth: 100 Gbps, latency: 5 us}}
%s
training: {global_batch: 8, seq_len: 1024, schedule: %s, %s}
"""
TWO = """\
  - {name: b, accelerator: A40, nodes: 2, devices_per_node: 2, uplink: 40 Gbps,
     inter_node: {bandwidth: 50 Gbps, latency: 5 us}}
links: {default: {bandwidth: 20 Gbps, latency: 1 ms}}
"""
#: Digests of the tables that problems have alone, and what these say of the problem.
KNOWN: dict[str, tuple[str, str]] = {}
EXPERTS = "experts: {number: 4, per_token: 2, ffn: 1024}"


def digests(own: Problem) -> tuple[str, str]:
    """Return the digest of the table that a problem has alone, and of its problem."""
    key = problem_digest(own)
    if key not in KNOWN:
        table = build_table(own)
        KNOWN[key] = table_digest(table), table.problem_digest
    return KNOWN[key]


@pytest.mark.quick_cases(3)
@pytest.mark.parametrize("schedule", ["virtual-1f1b", "zb-h1", "zb-v", "gpipe"])
@pytest.mark.parametrize(
    ("clusters", "model", "training"),
    [
        (TWO, "tied: true", "zero: 1"),
        # A table by unit under gpipe.
        ("", "tied: false", "zero: 1"),
        # One more micro-batch in memory, but under gpipe.
        (TWO, EXPERTS, "moe: {overlap: 0.5}"),
    ],
)
def test_it_is_the_table_that_the_schedule_has_alone(
    schedule: str,
    clusters: str,
    model: str,
    training: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    problem = read_problem_text(TEXT % (model, clusters, schedule, training))
    asked = []

    def counted(*given: Any) -> Any:
        asked.append(given)
        return unplaced(*given)

    monkeypatch.setattr(by_schedule, "unplaced", counted)
    tables = TablesBySchedule(problem, build_table(problem))
    found = {
        each: (own, tables.of(own))
        for each in schedule_variants(problem, (2,))
        for own in (each.of(problem),)
    }
    assert len(found) > 12
    for own, table in found.values():
        assert (table_digest(table), table.problem_digest) == digests(own)
    # With or without gradients of weights, and with a table by unit.
    assert len(asked) <= 3
    if "overlap" not in training:
        first, *others = (
            table.slices
            for variant, (_, table) in found.items()
            if "1f1b" in variant.schedule and variant.chunks == 1
        )
        assert others
        assert all(slices is first for slices in others)
