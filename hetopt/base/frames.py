"""Where an exception from outside, of a timer or of a signal, would do damage."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import FrameType


def must_go_on(frame: FrameType | None) -> bool:
    """Whether an exception at this point would break numba or LLVM, or leak a file.

    numba uses generators to register what it can compile. A generator that an exception
    ends stays ended, and no kernel can be loaded any more. LLVM passes compiled code to
    a callback: an exception there is dropped together with the kernel, which causes an
    error later; so does code that LLVM has, but numba no more. A file that was just
    opened is not yet one that ``with`` closes.
    """
    while frame is not None:
        code = frame.f_code
        path = Path(code.co_filename)
        packages = (*path.parts, path.stem)
        if (
            "llvmlite" in packages
            or "pathlib" in packages
            or (
                "numba" in packages
                and (code.co_name == "refresh" or path.stem == "codegen")
            )
            or (code.co_name == "get_data" and "importlib" in code.co_filename)
        ):
            return True
        frame = frame.f_back
    return False
