"""Write clusters and questions as a section of a problem file.

What the inventory tells is YAML; what it leaves open is a comment: a QUESTION, and
below it the field with a ``<placeholder>``, which no problem accepts, or one line per
answer.
"""

from __future__ import annotations

import json
import re
import textwrap
from typing import TYPE_CHECKING

from hetopt.base.words import counted
from hetopt.problem.document.document import QUESTION

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hetopt.inventory.grouping import Draft, Inventory

_WIDTH = 88
#: Most hosts that a comment names; it counts the others.
_NAMED = 8
#: Text that YAML reads as text even without quotes.
_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*|\d+(?:\.\d+){3}", re.ASCII)
_NOT_TEXT = frozenset({"null", "true", "false", "yes", "no", "on", "off", "y", "n"})

_OWN_NUMBERS = (
    "accelerator:",
    "  name: {label}",
    "  like: <the nearest of `hetopt catalog`>",
    "  peak_flops: <such as 312 TFLOPS, dense BF16>",
    "  memory: {memory}",
    "  memory_bandwidth: <such as 2039 GB/s>",
    "  intra_node: {{bandwidth: <such as 300 GB/s>, latency: <such as 3 us>}}",
    "  host_device: {{bandwidth: <such as 31.5 GB/s>, latency: <such as 10 us>}}",
)


def clusters_yaml(inventory: Inventory) -> str:
    """Return the text of a ``clusters:`` section, and a question about ``links:``."""
    lines = [*_head(inventory), "clusters:"]
    for draft in inventory.drafts:
        entry = list(_entry(draft, alone=len(inventory.drafts) == 1))
        if draft.optional:
            lines += _question(
                "its nodes hold several kinds of accelerator, and a node belongs to "
                "one cluster: uncomment the cluster of the kind to use"
            )
            entry = [f"# {line}" for line in entry]
        lines += entry
    if len(inventory.drafts) > 1:
        lines += [
            "",
            *_question(
                "how fast is the link between clusters, in all and per direction? Add "
                "per_node if a node gets less, and pairs if some links differ"
            ),
            "# links:",
            "#   default: {bandwidth: <such as 10 Gbps>, latency: <such as 1 ms>}",
        ]
    return "\n".join(lines) + "\n"


def summary(inventory: Inventory) -> list[str]:
    """Return what was read and what was left out, line by line."""
    used = sum(len(draft.hosts) for draft in inventory.drafts if not draft.optional)
    clusters = sum(not draft.optional for draft in inventory.drafts)
    lines = [
        f"{counted(inventory.nodes, 'node')} read, {used} of them in "
        f"{counted(clusters, 'cluster')}, {inventory.nodes - used} left out"
    ]
    lines += left_out(inventory)
    for remark, hosts in inventory.remarks.items():
        lines.append(f"{counted(len(hosts), 'node')} {remark}: {_some(hosts)}")
    for reading in inventory.readings:
        for unknown in reading.unknown:
            lines.append(f"{reading.file} ({reading.form}) does not say {unknown}")
    return [_printable(line) for line in lines]


def left_out(inventory: Inventory) -> Iterator[str]:
    """Yield for each reason which nodes it leaves out, and the option to keep them."""
    for reason, hosts in inventory.left_out.items():
        line = f"left out: {len(hosts)} {reason}: {_some(hosts)}"
        if reason in inventory.keepers:
            kept = "it" if len(hosts) == 1 else "them"
            states = ",".join(sorted(inventory.keepers[reason]))
            line += f"; --include {states} keeps {kept}"
        yield _printable(line)


def _head(inventory: Inventory) -> Iterator[str]:
    files = ", ".join(f"{item.file} ({item.form})" for item in inventory.readings)
    yield from _comment(f"Clusters of {files}, as `hetopt inventory` reads it.")
    yield "#"
    for line in summary(inventory):
        yield from _comment(line)
    yield "#"
    yield from _comment(
        "Each QUESTION is about something that the inventory does not tell: put the "
        "answer in place of <...>, or choose a line, and remove its '# '."
    )


def _entry(draft: Draft, *, alone: bool) -> Iterator[str]:
    """Yield the lines of one cluster."""
    yield f"  - name: {_text(draft.name)}"
    everywhere = len(draft.hosts)
    others = ", ".join(
        name if len(hosts) == everywhere else f"{name} ({_some(hosts)})"
        for name, hosts in sorted(draft.also.items())
    )
    places = ("in", draft.place), ("also in", others)
    origin = [draft.devices.label, *(f"{word} {it}" for word, it in places if it)]
    if any(origin):
        yield from _comment(", ".join(filter(None, origin)), "    ")
    yield from (f"    {line}" for line in _accelerator(draft))
    yield f"    nodes: {len(draft.hosts)}"
    if draft.devices.count is None:
        yield from _question("how many devices has a node?", "    ")
        yield "    # devices_per_node: <number>"
    else:
        yield f"    devices_per_node: {draft.devices.count}"
    hosts = ", ".join(_text(host) for host in draft.hosts)
    yield from textwrap.wrap(
        f"hosts: [{hosts}]",
        _WIDTH - 2,
        initial_indent="    ",
        subsequent_indent="      ",
        break_long_words=False,
        break_on_hyphens=False,
    )
    if not alone or len(draft.hosts) > 1:
        yield from _question(
            "how fast is one network interface (NIC), per direction? Add nics_per_node "
            "unless a node has one per device",
            "    ",
        )
        yield "    # inter_node: {bandwidth: <such as 100 Gbps>}"


def _accelerator(draft: Draft) -> Iterator[str]:
    match = draft.match
    if match.accelerator is not None:
        yield f"accelerator: {match.accelerator}"
        return
    label = draft.devices.label
    if match.candidates:
        yield from _question(f"which accelerator? {match.question}")
        yield from (f"# accelerator: {name}" for name in match.candidates)
    elif label is None:
        yield from _question(f"{match.question}; `hetopt catalog` lists names")
        yield "# accelerator: <name>"
    else:
        yield from _question(
            f"{match.question}: a name of it, or its own numbers "
            "and the device that it is like"
        )
        memory = draft.devices.memory_bytes
        known = f"{memory} B" if memory else "<such as 80 GB>"
        for line in _OWN_NUMBERS:
            yield f"# {line.format(label=_text(label), memory=known)}"


def _question(text: str, indent: str = "") -> list[str]:
    return _comment(f"{QUESTION}{text}", indent)


def _comment(text: str, indent: str = "") -> list[str]:
    start = f"{indent}# "
    return textwrap.wrap(
        _printable(text), _WIDTH, initial_indent=start, subsequent_indent=f"{start}  "
    )


def _printable(text: str) -> str:
    """Return text with a ? for each unprintable character, such as a line break."""
    return "".join(char if char.isprintable() else "?" for char in text)


def _text(value: str) -> str:
    plain = _PLAIN.fullmatch(value) and value.lower() not in _NOT_TEXT
    return value if plain else json.dumps(value)


def _some(hosts: tuple[str, ...]) -> str:
    rest = len(hosts) - _NAMED
    named = ", ".join(hosts[:_NAMED])
    return f"{named} and {rest} more" if rest > 0 else named
