"""Where the machine code of compiled functions is kept, and whether it is intact.

Compiling takes seconds, so machine code is kept on disk. The package may be in a
read-only folder, so the code is in the user's cache, unless ``NUMBA_CACHE_DIR`` names
another folder.

A kernel contains the functions it calls and the constants it reads, of other modules
as well. So every module with kernels has its own folder, whose name contains a digest
of that module, of all modules that it imports, directly or not, of the versions that
matter, and of the processor: another copy of the same hetopt finds the same code.

Every file begins with a digest of its content. A file that is cut, overwritten or empty
is no machine code: the function is compiled again.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import sys
import time
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import llvmlite
import llvmlite.binding
import numba
import numpy
from platformdirs import user_cache_path

from hetopt.base.files import write_bytes
from hetopt.errors import InputError
from hetopt.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterable

#: An import at the start of a line: a module of the package, and the imported names.
_IMPORT = re.compile(
    rb"^(?:from|import)[ ]+(hetopt[\w.]*)(?:[ ]+import[ ]+(\([^)]*\)|.*))?",
    re.MULTILINE,
)
_NAME = re.compile(rb"\b[a-z]\w*")
#: A function whose machine code is kept; see ``hetopt.base.compiled``.
_KERNEL = re.compile(rb"^@(?:compiled|kernel)\ndef (\w+)\(", re.MULTILINE)

#: Machine code is removed after this time without use; use is noted once a day.
_UNUSED_S, _TOUCH_S = 60 * 86400.0, 86400.0

_SUFFIX = ".code"
_DIGEST_BYTES = hashlib.sha256().digest_size


class Kept(NamedTuple):
    """What is kept of some modules' kernels.

    Attributes
    ----------
    missing
        Full names of the kernels without intact machine code.
    damaged
        Files that are cut, overwritten or empty.
    kernels
        Number of all kernels.
    """

    missing: list[str]
    damaged: list[Path]
    kernels: int


def kept_of(modules: Iterable[str]) -> Kept:
    """Look at the machine code of some modules; they need not be loaded.

    Parameters
    ----------
    modules
        Their full names.
    """
    missing, damaged, count = [], [], 0
    for module in modules:
        for name in kernel_names(module):
            count += 1
            files = list(folder_of(module).glob(f"{name}-*{_SUFFIX}"))
            broken = [path for path in files if read_code(path) is None]
            damaged += broken
            if len(broken) == len(files):
                missing.append(f"{module}.{name}")
    return Kept(missing=missing, damaged=damaged, kernels=count)


def kernel_names(module: str) -> list[str]:
    """Return the names of a module's kernels."""
    return [name.decode() for name in _KERNEL.findall(_source(module))]


def code_path(module: str, name: str, signature: str) -> Path:
    """Return the file of a kernel's machine code for arguments of some types."""
    types = hashlib.sha256(signature.encode()).hexdigest()[:16]
    return folder_of(module) / f"{name}-{types}{_SUFFIX}"


def read_code(path: Path) -> bytes | None:
    """Return the machine code in a file; None if there is none or it is damaged."""
    try:
        data = path.read_bytes()
    except OSError:
        return None
    digest, code = data[:_DIGEST_BYTES], data[_DIGEST_BYTES:]
    return code if hashlib.sha256(code).digest() == digest else None


def write_code(path: Path, code: bytes) -> bool:
    """Keep machine code in a file, whole or not at all; return whether it is kept."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_bytes(str(path), hashlib.sha256(code).digest() + code)
    except (OSError, InputError):
        return False
    return True


def kept_folder() -> Path:
    """Return the folder that all machine code is kept in; it need not exist."""
    own = os.environ.get("NUMBA_CACHE_DIR")
    return (Path(own) / "hetopt") if own else user_cache_path("hetopt") / "numba"


def folder_of(module: str) -> Path:
    """Return where a module's machine code is kept."""
    return _folder(kept_folder(), module)


@cache
def _folder(kept: Path, module: str) -> Path:
    folder = kept / f"{module}-{_digest(module)}"
    # What cannot be removed, or is being removed by another process, may stay.
    with suppress(OSError):
        if not folder.exists():
            _remove_unused(kept)
        elif time.time() - folder.stat().st_mtime > _TOUCH_S:
            os.utime(folder)
    return folder


def _remove_unused(kept: Path) -> None:
    """Remove the machine code that has not been used for ``_UNUSED_S``.

    If another process needs it after all, numba compiles it again.
    """
    for folder in kept.iterdir():
        if time.time() - folder.stat().st_mtime > _UNUSED_S:
            shutil.rmtree(folder, ignore_errors=True)


@cache
def _digest(module: str) -> str:
    """Return a digest of everything that a module's kernels may contain."""
    digest = hashlib.sha256()
    libraries = numba.__version__, llvmlite.__version__, numpy.__version__
    digest.update(repr((__version__, sys.version, *libraries, *_processor())).encode())
    for name in sorted(_imported(module)):
        digest.update(name.encode() + hashlib.sha256(_source(name)).digest())
    return digest.hexdigest()[:16]


@cache
def _processor() -> tuple[str, str]:
    """Return the processor that code is made for, and its features."""
    own = numba.config.CPU_NAME, numba.config.CPU_FEATURES
    if own[0] is not None:
        return own[0], own[1] or ""
    features = llvmlite.binding.get_host_cpu_features().flatten()
    return llvmlite.binding.get_host_cpu_name(), features


@cache
def _imported(module: str) -> frozenset[str]:
    """Return a module and those of the package that it imports, directly or not.

    Kernels are made when a module is loaded, so only imports at that time count, not
    those within functions, nor those for type checkers.
    """
    found, waiting = {module}, [module]
    while waiting:
        new = _imports(waiting.pop()) - found
        found |= new
        waiting += new
    return frozenset(found)


@cache
def _imports(module: str) -> frozenset[str]:
    """Return the modules of the package that a module imports itself."""
    found = set()
    for source, names in _IMPORT.findall(_source(module)):
        package = source.decode()
        found.add(package)
        # An imported name may be a module, too; modules are in lower case.
        found |= {f"{package}.{name.decode()}" for name in _NAME.findall(names)}
    return frozenset(name for name in found if _path(name) is not None)


@cache
def _source(module: str) -> bytes:
    path = _path(module)
    return b"" if path is None else path.read_bytes()


def _path(module: str) -> Path | None:
    """Return the file of a module of the package; None if there is none."""
    stem = Path(__file__).parents[2].joinpath(*module.split("."))
    for path in (stem.with_suffix(".py"), stem / "__init__.py"):
        if path.is_file():
            return path
    return None
