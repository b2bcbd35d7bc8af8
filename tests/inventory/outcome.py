"""What an inventory came to, in a form that a test can write down in a line or two."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hetopt.inventory.grouping import group_nodes
from hetopt.inventory.reading import read_source
from hetopt.inventory.source import source_of
from hetopt.inventory.writing import clusters_yaml, summary
from hetopt.problem.document.document import parse_document

if TYPE_CHECKING:
    from hetopt.inventory.grouping import Draft


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """An inventory and what it comes to.

    Attributes
    ----------
    clusters
        ``name: nodes x devices_per_node accelerator``, where ``?`` is a question,
        followed by the catalogue's devices it may be; ``or`` begins a cluster that is
        left out unless the user chooses it.
    left_out
        Number of nodes by the first words of the reason.
    """

    id: str
    text: str
    clusters: tuple[str, ...] = ()
    left_out: dict[str, int]


def check(case: Case, form: str) -> None:
    """Read, group and write the inventory, and compare."""
    reading = read_source(source_of(case.text, "file"))
    assert reading.form == form
    inventory = group_nodes([reading])
    assert tuple(_line(draft) for draft in inventory.drafts) == case.clusters
    left_out = {reason: len(hosts) for reason, hosts in inventory.left_out.items()}
    assert len(left_out) == len(case.left_out), left_out
    for words, count in case.left_out.items():
        assert [n for reason, n in left_out.items() if reason.startswith(words)] == [
            count
        ], left_out
    used = [d for d in inventory.drafts if not d.optional]
    total = sum(len(draft.hosts) for draft in used) + sum(left_out.values())
    assert total == inventory.nodes == len(reading.nodes)
    text = clusters_yaml(inventory)
    for line in summary(inventory)[:1]:
        assert line in text
    written: Any = parse_document(text, "clusters.yaml").data["clusters"] or []
    assert [item["name"] for item in written] == [draft.name for draft in used]
    for item, draft in zip(written, used, strict=True):
        assert tuple(item["hosts"]) == draft.hosts
        assert item["nodes"] == len(draft.hosts)
        assert item.get("devices_per_node") == draft.devices.count
        assert item.get("accelerator") == draft.match.accelerator


def _line(draft: Draft) -> str:
    accelerator = draft.match.accelerator
    if accelerator is None:
        accelerator = " ".join(("?", *draft.match.candidates))
    count = "?" if draft.devices.count is None else draft.devices.count
    start = "or " if draft.optional else ""
    return f"{start}{draft.name}: {len(draft.hosts)} x {count} {accelerator}"
