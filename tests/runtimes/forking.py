"""Forks the ranks of bundles from one process that has PyTorch: ``python forking.py``.

A line of the input is a list: the folder of a bundle, the arguments of its program, and
the variables of each rank as torchrun would set them. The answer is the list of the
ranks' exit codes. What rank R prints is in ``rank-R.txt`` of the folder.
"""

from __future__ import annotations

import gc
import json
import os
import runpy
import sys

# Optimizers import it, in twice the time that the rest takes.
import torch._dynamo
import torch.distributed  # noqa: F401


def main() -> None:
    gc.freeze()
    for line in sys.stdin:
        folder, arguments, ranks = json.loads(line)
        started = []
        for own in ranks:
            pid = os.fork()
            if not pid:
                run(folder, arguments, own)
                return
            started.append(pid)
        ended = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in started]
        print(json.dumps(ended), flush=True)


def run(folder: str, arguments: list[str], own: dict[str, str]) -> None:
    """Be a rank: run the bundle's program, and end as a Python of its own does."""
    os.environ.update(own)
    os.chdir(folder)
    sys.path[0] = folder
    sys.argv[1:] = arguments
    with open(f"rank-{own['RANK']}.txt", "w") as printed:
        os.dup2(printed.fileno(), 1)
        os.dup2(printed.fileno(), 2)
    runpy.run_path("train.py", run_name="__main__")


if __name__ == "__main__":
    main()
