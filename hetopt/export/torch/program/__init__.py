"""The training program that goes into a bundle as ``train.py``.

It is one file in the bundle and needs PyTorch alone. Here it is two, ``model`` and then
``training``, so that neither is too long to read.
"""

from __future__ import annotations

from pathlib import Path

#: What is above it in ``training`` is in ``model`` already.
_CUT = "# The exported program goes on from here.\n"


def program_text() -> str:
    """Return both parts as one program."""
    model, training = (
        Path(__file__).with_name(name).read_text("utf-8")
        for name in ("model.py", "training.py")
    )
    return model + training.partition(_CUT)[2]
