"""States that move from the old plan to this one, so that training resumes.

Every rank reads what its device held from the last checkpoint of the old plan, sends
what the file of moves says, and then has the states of its new stage. Where the sender
is the checkpoint, or a device that has no rank any more, the receiver reads the data
itself: it needs that device's file.
"""

from __future__ import annotations

import copy
import json
from collections import defaultdict
from itertools import islice
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor

from .buckets import Bucket
from .checkpoints import newest
from .held import Arriving, Held, Move, name_of, read_moves
from .optimizer import Optimizer, parts_of
from .ordering import Order, Part

#: The sender, in files of moves, of what is read from the checkpoint.
CHECKPOINT = "checkpoint"
SHARDED = (
    "optimizer states are sharded (ZeRO 1), which files of moves do not support: plan "
    "and replan with `zero: 0`"
)


class Moving:
    """One rank's part in the moves.

    Parameters
    ----------
    before
        Checkpoints of the old plan: one shared folder, or one on each host.
    answer, moves
        Files: the output of ``hetopt replan --json``, and that of its ``--moves``.
    """

    def __init__(
        self, before: Path, answer: Path, moves: Path, optimizer: Optimizer
    ) -> None:
        self.folder, self.optimizer = before, optimizer
        content = json.loads(answer.read_text("utf-8"))
        self.before, self.after = (
            [name for stages in content[key] for own in stages for name in own]
            for key in ("ranks_before", "ranks")
        )
        if len(self.after) != dist.get_world_size():
            msg = f"{answer} has {len(self.after)} ranks: is it about this plan?"
            raise ValueError(msg)
        self.device = self.after[dist.get_rank()]
        self.moves = read_moves(moves)

    def run(self) -> int:
        """Move the states; return the step at which training resumes.

        Raises
        ------
        ValueError
            A file is missing, or files do not fit each other.
        """
        own = self.device if self.device in self.before else None
        absent = {move.sender for move in self._of_no_rank()} & {*self.before}
        names = absent if own is None else {own, *absent}
        step = newest(self.folder, map(self._file, names))
        if not step:
            msg = f"{self.folder} has no step of which every device has its file"
            raise ValueError(msg)
        files = self._read(step, own)
        if any(bucket.sharded for bucket in self.optimizer.buckets):
            raise ValueError(SHARDED)
        new = parts_of(self.optimizer.buckets)
        known: list[Any] = [None] * len(self.after)
        mine = next((Common.of(each) for each in files.values()), None)
        parts = [_parts(each) for each in files.values()]
        dist.all_gather_object(known, ([new, *parts], mine))
        order = Order(each for ranks, _ in known for each in ranks)
        common = next(each for _, each in known if each is not None)
        olds = {name: _held(order, content) for name, content in files.items()}
        arriving = Arriving(Held(order, new), common.samples())
        if own is not None:
            arriving.keep(olds[own])
        moved = self._exchange(arriving, olds)
        arriving.ensure_all()
        self.optimizer.load(common.state(self.optimizer, arriving.held))
        total = torch.tensor(moved, device=self.optimizer.place.device)
        self.optimizer.place.world.total(total)
        if dist.get_rank() == 0:
            print(f"step {step}: {int(total)} bytes have moved", flush=True)
        return step

    def _file(self, device: str) -> str:
        return f"rank-{self.before.index(device)}.pt"

    def _of_no_rank(self) -> list[Move]:
        """Return moves to this device from senders without a rank in this plan.

        This rank reads their files.
        """
        return [
            move
            for move in self.moves
            if move.receiver == self.device and move.sender not in self.after
        ]

    def _read(self, step: int, own: str | None) -> dict[str, dict[str, Any]]:
        """Read the files of a step's checkpoint that this rank needs, by device."""
        names = [] if own is None else [own]
        if self._of_no_rank():
            names += [name for name in self.before if name not in self.after]
        paths = {
            name: self.folder / f"step-{step}" / self._file(name) for name in names
        }
        return {
            name: torch.load(path, map_location="cpu", weights_only=True)
            for name, path in paths.items()
            if path.is_file()
        }

    def _exchange(self, arriving: Arriving, olds: dict[str, Held]) -> int:
        """Send and receive; return the bytes that this rank received."""
        out: dict[int, list[Tensor]] = defaultdict(list)
        into: dict[int, list[Move]] = defaultdict(list)
        ranks = {name: rank for rank, name in enumerate(self.after)}
        moved, device = 0, self.optimizer.place.device
        for move in self.moves:
            if move.sender == self.device:
                out[ranks[move.receiver]].append(olds[self.device].take(move))
            if move.receiver != self.device:
                continue
            moved += move.bytes
            if move.sender in ranks:
                into[ranks[move.sender]].append(move)
            else:
                arriving.add(move, _holder(move, olds).take(move))
        sizes = {rank: [move.bytes for move in own] for rank, own in into.items()}
        rows = {
            rank: torch.empty(sum(own), dtype=torch.uint8, device=device)
            for rank, own in sizes.items()
        }
        leaving = [(n, torch.cat(out[n]).to(device)) for n in sorted(out)]
        self.optimizer.place.world.exchange(leaving, sorted(rows.items()))
        for rank, own in into.items():
            for move, data in zip(
                own, rows[rank].cpu().split(sizes[rank]), strict=True
            ):
                arriving.add(move, data)
        return moved


class Common(NamedTuple):
    """What the files of all ranks have in common.

    Attributes
    ----------
    states
        Names of the optimizer's states that have one value per weight, sorted.
    others
        Its other states, by name.
    wide
        Whether there are 32-bit masters beside the weights.
    dtype
        Type of the weights.
    scale
        Factor and number of good steps, see ``LossScale``.
    """

    states: list[str]
    others: dict[str, Any]
    wide: bool
    dtype: torch.dtype
    scale: tuple[float, int]

    @classmethod
    def of(cls, content: dict[str, Any]) -> Common:
        """Read these from the content of one file."""
        weights, states = content["weights"][0], content["states"]["state"][0]
        by_number = {
            name
            for name, each in states.items()
            if isinstance(each, Tensor) and each.shape == content["masters"][0].shape
        }
        return cls(
            states=sorted(by_number),
            others={n: each for n, each in states.items() if n not in by_number},
            wide=weights.dtype != torch.float32,
            dtype=weights.dtype,
            scale=content["scale"],
        )

    def samples(self) -> dict[str, Tensor]:
        """Return an empty tensor of each state, for its type and shape."""
        columns = len(self.states) + self.wide
        return {
            "weights": torch.empty(0, dtype=self.dtype),
            "optimizer": torch.empty(0, columns),
        }

    def state(self, optimizer: Optimizer, held: Held) -> dict[str, Any]:
        """Return the state for the optimizer to load."""
        weights, columns = held.tensors("weights"), held.tensors("optimizer")
        state = optimizer.state()
        state["states"]["state"] = {}
        for number, bucket in enumerate(optimizer.buckets):
            mine = state["weights"][number].detach().cpu().clone()
            _put(bucket, mine, weights)
            state["weights"][number] = mine
            rows = []
            for column in range(len(self.states) + self.wide):
                row = torch.zeros(len(mine))
                _put(bucket, row, {n: x[..., column] for n, x in columns.items()})
                rows.append(row)
            state["masters"][number] = rows.pop(0) if self.wide else mine
            state["states"]["state"][number] = {
                # A copy each: the optimizer counts steps in place.
                **copy.deepcopy(self.others),
                **dict(zip(self.states, rows, strict=True)),
            }
        state["scale"] = self.scale
        return state


def _put(bucket: Bucket, row: Tensor, tensors: dict[str, Tensor]) -> None:
    for number, name in enumerate(bucket.names):
        bucket.view(row, number).copy_(tensors[name])


def _parts(content: dict[str, Any]) -> list[Part]:
    return [Part.of(each) for each in content["parts"]]


def _held(order: Order, content: dict[str, Any]) -> Held:
    """Return what the rank of a checkpoint file holds."""
    parts = _parts(content)
    held = Held(order, parts)
    common, left = Common.of(content), iter(parts)
    weights: dict[str, Tensor] = {}
    columns: dict[str, Tensor] = {}
    for number, own in enumerate(content["weights"]):
        master = content["masters"][number]
        if len(master) < len(own):
            raise ValueError(SHARDED)
        states = content["states"]["state"][number]
        rows = [master] * common.wide + [states[name] for name in common.states]
        first = 0
        for part in islice(left, content["counts"][number]):
            end = first + prod(part.shape)
            weights[part.name] = own[first:end].view(part.shape)
            columns[part.name] = torch.stack(
                [row[first:end].view(part.shape) for row in rows], -1
            )
            first = end
    held.fill({"weights": weights, "optimizer": columns})
    return held


def _holder(move: Move, olds: dict[str, Held]) -> Held:
    """Return the states of a device without a rank that holds what moves.

    Raises
    ------
    ValueError
        No file that was read has it.
    """
    names = [move.sender] if move.sender != CHECKPOINT else list(olds)
    for name in names:
        if name in olds and olds[name].has(move):
            return olds[name]
    msg = (
        f"{name_of(move.key)}: {move.sender} sends {move.begin} to {move.end}, and "
        "has no rank in this plan: copy the files of such devices to all hosts"
    )
    raise ValueError(msg)
