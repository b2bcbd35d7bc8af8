"""The training program that goes into a bundle as ``train.py``.

It is one file in the bundle and needs PyTorch alone. Here it is in parts, so that none
is too long to read, and each is checked by itself.
"""

from __future__ import annotations

from pathlib import Path

#: In each part but the first, what stands above is for this package alone.
_CUT = "# The exported program goes on below.\n"


def program_text() -> str:
    """Return the parts as one program."""
    head, *parts = (
        Path(__file__).with_name(f"{name}.py").read_text("utf-8")
        for name in ("head", "model", "training")
    )
    return head + "".join(part.partition(_CUT)[2] for part in parts)
