"""Stands in for a bundle's train.py: iterations are watched, and what is seen is kept.

Everything else is the bundle's own program, started by the bundle's own scripts.
"""

import json
import os
import time
import traceback
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from program import crossing
from program.dispatch import Routes
from program.job import Job, cluster_of, ranks_reached
from program.kept import Kept
from program.training import Trainer, leave

HERE = Path(__file__).parent


def parts(trainer: Any, *, gradients: bool) -> dict[str, Any]:
    """Return weights or reduced gradients by name, as this rank has them."""
    found = {}
    for bucket in trainer.optimizer.buckets:
        row = bucket.weights
        if gradients:
            row = bucket.gradients.clone()
            if bucket.sharded:
                row = bucket.gathered(row)
        for number, name in enumerate(bucket.names):
            found[name] = bucket.view(row, number).clone()
    return found


def watch_rows(trainer: Trainer) -> list[list[int]]:
    """Return the rows that experts get, by forward pass and layer, as passes run."""
    passes: list[list[int]] = []
    is_forward = False
    route = Routes.of

    def enter(*_: Any) -> None:
        nonlocal is_forward
        is_forward = True
        passes.append([])

    def leave(*_: Any) -> None:
        nonlocal is_forward
        is_forward = False

    def routed(*arguments: Any) -> Routes:
        routes = route(*arguments)
        if is_forward:
            passes[-1].append(sum(routes.shares))
        return routes

    trainer.stage.register_forward_pre_hook(enter)
    trainer.stage.register_forward_hook(leave)
    Routes.of = routed
    return passes


def watch_gradients(trainer: Trainer) -> list[tuple[str, int, list[str]]]:
    """Return which gradients every pass added to, as passes run."""
    found: list[tuple[str, int, list[str]]] = []
    buckets, note = trainer.optimizer.buckets, trainer.executor._note
    before = [bucket.gradients.clone() for bucket in buckets]

    def noted(kind: str, number: int, start: float) -> None:
        names = []
        for bucket, row in zip(buckets, before, strict=True):
            changed = bucket.gradients != row
            row.copy_(bucket.gradients)
            for index, name in enumerate(bucket.names):
                if bucket.view(changed, index).any():
                    names.append(name)
        found.append((kind, number, names))
        note(kind, number, start)

    trainer.executor._note = noted
    return found


class Libraries:
    """A collective library for each group of clusters, as vendors have.

    This rank knows only its own, and no message may leave its group but through hosts.

    Attributes
    ----------
    jobs
        The jobs with these libraries.
    staged
        Receiver and bytes of every message that went through the hosts, in order.
    """

    def __init__(self, jobs: tuple[Job, ...]) -> None:
        own = cluster_of(jobs, int(os.environ["RANK"])).group
        self.near = {*ranks_reached(jobs, own)}
        self.staged: list[tuple[int, int]] = []
        self.jobs = tuple(
            replace(
                job,
                clusters={
                    name: replace(each, backend=f"library{each.group}")
                    for name, each in job.clusters.items()
                },
            )
            for job in jobs
        )
        dist.Backend.register_backend(
            f"library{own}",
            lambda store, rank, size, timeout: dist.ProcessGroupGloo(
                store, rank, size, timeout=timeout
            ),
            devices=["cpu"],
        )
        self.post, crossing._post = crossing._post, self.posted
        self.like, crossing._host_like = crossing._host_like, self.copied
        self.copies: set[int] = set()

    def copied(self, x: Any) -> Any:
        """Return memory of the host for a copy, and note which."""
        found = self.like(x)
        self.copies.add(found.data_ptr())
        return found

    def posted(self, leaving: Any, arriving: Any, group: Any, tag: int) -> list[Any]:
        """Post messages, of which those on gloo have to be copies on the hosts."""
        others = [*leaving, *arriving]
        if others and dist.get_backend(group) == "gloo":
            assert all(x.data_ptr() in self.copies for _, x in others)
            self.staged += [(to, x.nbytes) for to, x in leaving]
        else:
            assert all(peer in self.near for peer, _ in others)
        found: list[Any] = self.post(leaving, arriving, group, tag)
        return found


def watched(jobs: tuple[Job, ...]) -> dict[str, Any]:
    """Train, and return what was seen."""
    asked = json.loads((HERE / "asked.json").read_text())
    watch = Libraries(jobs) if jobs[0].is_mixed else None
    dist.init_process_group("gloo", timeout=timedelta(seconds=60))
    if watch:
        jobs = watch.jobs
    trainer = Trainer(jobs, torch.device("cpu"), lr=asked["lr"])
    place, batch = trainer.place, torch.load(HERE / "batch.pt")
    kept = Kept(trainer.stage)
    seen: dict[str, Any] = {
        "pipeline": place.pipeline,
        "where": (place.stage, place.dp, place.cp, place.tp),
        "weights": parts(trainer, gradients=False),
    }
    rows = watch_rows(trainer)
    added = watch_gradients(trainer) if place.job.passes.splits else []
    with kept.watching():
        seen["losses"] = [trainer.backward(batch)]
    seen["order"] = [(each.kind, each.number) for each in trainer.executor.ran]
    seen["bytes"], seen["left"] = kept.peak, kept.now
    seen["rows"], seen["added"] = rows[:], added[:]
    seen["messages"] = [
        (each.kind, each.number, each.sent_bytes, each.received_bytes)
        for each in trainer.boundaries.transfers
    ]
    seen["staged"] = watch.staged[:] if watch else []
    seen["gradients"] = parts(trainer, gradients=True)
    seen["states"] = sum(each.numel() for each in trainer.optimizer.masters)
    trainer.optimizer.step()
    seen["after"] = parts(trainer, gradients=False)
    for _ in range(asked["steps"]):
        seen["losses"].append(trainer.backward(batch))
        trainer.optimizer.step()
    trainer.close()
    return seen


def threads() -> int:
    """Return how many threads of this process run works of Gloo."""
    found = 0
    for each in Path("/proc/self/task").iterdir():
        # It may end meanwhile.
        with suppress(OSError):
            found += (each / "comm").read_text().strip() == "pt_gloo_runloop"
    return found


def left() -> int:
    """Return the same once no more of them end; the system takes its time."""
    for _ in range(50):
        if not threads():
            break
        time.sleep(0.1)
    return threads()


def main() -> None:
    torch.set_num_threads(1)
    seen = watched(tuple(job.on_cpus() for job in Job.read(HERE / "job.json")))
    assert threads()
    leave()
    seen["threads"] = left()
    torch.save(seen, HERE / f"rank-{os.environ['RANK']}.pt")


if __name__ == "__main__":
    try:
        main()
    except BaseException:
        traceback.print_exc()
        os._exit(1)
