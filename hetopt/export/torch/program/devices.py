"""The device of a rank: one of its cluster's, as ``job.json`` says.

A rank without such a device ends. On a CPU it would train on, far slower than planned.
"""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

import torch

from .failure import Refused
from .job import ClusterPlan


def find_device(cluster: ClusterPlan, number: int) -> torch.device:
    """Return the device of a rank, and make it the current one.

    Parameters
    ----------
    number
        The rank's number among those of its node, from 0.

    Raises
    ------
    Refused
        There is no such device.
    """
    kind = cluster.device
    if kind == "cpu":
        return torch.device("cpu")
    if kind == "npu" and importlib.util.find_spec("torch_npu") is not None:
        # The import creates torch.npu and the backend hccl.
        importlib.import_module("torch_npu")
    api = getattr(torch, kind, None)
    found = api.device_count() if api is not None and api.is_available() else 0
    if number >= found:
        msg = (
            f"cluster {cluster.name} runs on {kind}, and PyTorch finds {found} of "
            f"these devices here, expected {number + 1} or more; --cpu tries the plan "
            "on CPUs"
        )
        raise Refused(msg)
    device = torch.device(kind, number)
    torch.get_device_module(device).set_device(device)
    if kind == "cuda":
        # hetopt prices 32-bit multiplications as TF32 where the device has it.
        torch.set_float32_matmul_precision("high")
    return device


def accelerator(device: torch.device) -> Any:
    """Return PyTorch's module of a device, such as ``torch.cuda``; None for a CPU."""
    return None if device.type == "cpu" else torch.get_device_module(device)
