"""Stands in for a bundle's train.py: times a layer's dispatch and combination.

Tokens choose their experts in turn, so that every expert gets as many. Otherwise it is
the bundle's own program that finds the way of each copy, sends it there and back.
Arguments: how often, and the file that the first rank writes the seconds to, those of
the slowest rank each time.
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
    """Dispatch and combine, as often as asked after once to warm up."""
    torch.set_num_threads(1)
    jobs = Job.read(Path(__file__).with_name("job.json"))
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
