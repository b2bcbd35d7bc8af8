"""The device of a rank: one of its cluster's, as ``job.json`` says.

A rank without such a device ends. On a CPU it would train on, far slower than planned.
"""

from __future__ import annotations

import importlib
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
    if kind == "npu":
        try:
            # This creates torch.npu and the backend hccl.
            importlib.import_module("torch_npu")
        except ImportError as error:
            raise _without(cluster, str(error)) from None
    device = torch.device(kind, number)
    api = torch.get_device_module(device)
    found = api.device_count() if api.is_available() else 0
    if number >= found:
        reason = f"PyTorch finds {found} of these here, expected {number + 1} or more"
        raise _without(cluster, reason)
    api.set_device(device)
    if kind == "cuda":
        # hetopt prices 32-bit multiplications as TF32 where the device has it.
        torch.set_float32_matmul_precision("high")
    return device


def _without(cluster: ClusterPlan, reason: str) -> Refused:
    msg = (
        f"cluster {cluster.name} runs on {cluster.device} devices, and {reason}; "
        "--cpu tries the plan on CPUs"
    )
    return Refused(msg)


def accelerator(device: torch.device) -> Any:
    """Return PyTorch's module of a device, such as ``torch.cuda``; None for a CPU."""
    return None if device.type == "cpu" else torch.get_device_module(device)
