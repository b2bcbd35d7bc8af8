"""The devices of this machine that each node of a bundle gets."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING

from hetopt.base.words import counted
from hetopt.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Variables that drivers read; scripts of a bundle keep the values set here.
_VISIBLE = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES")


def ensure_torch() -> None:
    """Raise InputError, with how to install it, unless PyTorch is installed."""
    if importlib.util.find_spec("torch") is None:
        msg = "running needs PyTorch: pip install '.[profile]' in hetopt's source"
        raise InputError(msg)


def has_gpus() -> bool:
    """Whether PyTorch finds GPUs here; if not, ranks run on the CPU."""
    import torch

    return bool(torch.cuda.device_count())


def devices_of(slots: Sequence[int]) -> list[dict[str, str]]:
    """Return the variables to set for each node, so that no two nodes share a GPU.

    Parameters
    ----------
    slots
        Number of ranks of each node.

    Raises
    ------
    InputError
        There are GPUs, but fewer than ranks.
    """
    import os

    import torch

    here = torch.cuda.device_count()
    if not here:
        # Not an empty text, which the scripts would replace by devices.
        return [dict.fromkeys(_VISIBLE, "-1") for _ in slots]
    if here < sum(slots):
        msg = (
            f"the plan has {counted(sum(slots), 'rank')}, and this machine "
            f"{counted(here, 'GPU')}: run on one with more, or set "
            "CUDA_VISIBLE_DEVICES= to run on its CPUs"
        )
        raise InputError(msg)
    seen = next(filter(None, map(os.environ.get, _VISIBLE)), None)
    names = seen.split(",") if seen else list(map(str, range(here)))
    found, first = [], 0
    for count in slots:
        own = ",".join(names[first : first + count])
        found.append(dict.fromkeys(_VISIBLE, own))
        first += count
    return found
