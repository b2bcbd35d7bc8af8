"""Stands in for a bundle's train.py: times a layer's dispatch and combination.

Tokens choose their experts in turn, so that all experts get the same number. Everything
else (where each copy goes, sending it there and back) is the bundle's own program.
Arguments: the number of repetitions, and the file to which the first rank writes the
seconds of the slowest rank for each repetition.
"""

import json
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
from program.dispatch import Routes
from program.groups import Place
from program.job import Job


def main() -> None:
    """Dispatch and combine: once as a warm-up, then as often as asked."""
    torch.set_num_threads(1)
    read = Job.read(Path(__file__).with_name("job.json"))
    jobs = tuple(job.on_cpus() for job in read)
    dist.init_process_group("gloo")
    place = Place(jobs, dist.get_rank(), torch.device("cpu"))
    job = place.job
    experts = job.experts
    assert experts is not None
    tokens = len(place.sequences) * len(place.positions) // place.plan.tp
    number, copies = experts["number"], experts["per_token"]
    choice = (torch.arange(tokens * copies) % number).view(tokens, copies)
    rows = torch.ones(tokens * copies, job.model["hidden"], dtype=job.dtype)
    found = []
    for _ in range(1 + int(sys.argv[1])):
        routes = Routes.of(place, choice, number)
        dist.barrier()
        begun = time.perf_counter()
        back = routes.back(routes.there(rows))
        taken = torch.tensor(time.perf_counter() - begun, dtype=torch.float64)
        assert torch.equal(back, rows)
        dist.all_reduce(taken, op=dist.ReduceOp.MAX)
        found.append(taken.item())
    if dist.get_rank() == 0:
        Path(sys.argv[2]).write_text(json.dumps(found[1:]), "utf-8")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
