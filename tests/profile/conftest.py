"""One thread: shards are then timed by CPU time, whatever else the machine does."""

import importlib.util

import pytest


@pytest.fixture(autouse=True, scope="session")
def single_thread() -> None:
    """Keep PyTorch, where it is installed, to one thread."""
    if importlib.util.find_spec("torch") is not None:
        import torch

        torch.set_num_threads(1)
