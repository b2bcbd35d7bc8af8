"""Cache of predictions and of forests, in the user's cache folder.

Growing a forest takes seconds, so its predictions are cached: plain JSON, one file per
query, named by a digest of everything on which the prediction depends. Forests of
operators can be used for any model, so they are cached too, as plain arrays. An invalid
file is ignored and written again.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import math
import zipfile
import zlib
from functools import cache
from importlib import metadata
from typing import TYPE_CHECKING, Any

import numpy as np

from hetopt.base.files import write_bytes, write_text
from hetopt.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from hetopt.cost.shapes import Floats

CACHE_SCHEMA = "hetopt-predictions/1"

#: Libraries on whose versions a prediction depends.
_LIBRARIES = ("numpy", "scikit-learn", "scipy")

#: Larger files are ignored: a prediction has a few thousand numbers.
MOST_BYTES = 64 * 2**20

#: Most files in the cache; the oldest are deleted first.
MOST_FILES = 256


@cache
def versions() -> tuple[str, ...]:
    """Return the libraries with their versions; cached, as metadata is slow to read."""
    return tuple(f"{library} {metadata.version(library)}" for library in _LIBRARIES)


def cache_folder() -> Path:
    """Return the folder for predictions in the user's cache."""
    from platformdirs import user_cache_path

    return user_cache_path("hetopt", appauthor=False) / "forest"


def digest(*parts: bytes) -> str:
    """Return a SHA-256 over parts, each with its length, in hexadecimal."""
    whole = hashlib.sha256()
    for part in parts:
        whole.update(len(part).to_bytes(8, "big"))
        whole.update(part)
    return whole.hexdigest()


def load(
    folder: Path, key: str, sizes: Mapping[str, int], *, columns: int = 2
) -> dict[str, Floats] | None:
    """Return the predictions stored under a key; None if there is no valid file.

    Parameters
    ----------
    sizes
        Number of rows by name, with which the stored predictions must agree.
    columns
        Times per row: forward and backward for a shard, one for an operator.

    Returns
    -------
    Seconds by name; (R, columns).
    """
    path = folder / f"{key}.json"
    try:
        if path.stat().st_size > MOST_BYTES:
            return None
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(data, dict) or data.get("schema") != CACHE_SCHEMA:
        return None
    seconds = data.get("seconds")
    if data.get("key") != key or not isinstance(seconds, dict):
        return None
    if seconds.keys() != sizes.keys():
        return None
    if not all(
        _are_times(seconds[unit], size, columns) for unit, size in sizes.items()
    ):
        return None
    return {
        unit: np.array(seconds[unit], dtype=np.float64).reshape(size, columns)
        for unit, size in sizes.items()
    }


def store(folder: Path, key: str, seconds: Mapping[str, Floats]) -> None:
    """Store predictions; it is no error if the cache cannot be written."""
    data = {
        "schema": CACHE_SCHEMA,
        "key": key,
        "seconds": {unit: times.tolist() for unit, times in seconds.items()},
    }
    with contextlib.suppress(OSError, InputError):
        folder.mkdir(parents=True, exist_ok=True)
        write_text(str(folder / f"{key}.json"), json.dumps(data))
        _forget_oldest(folder)


def load_arrays(folder: Path, key: str) -> dict[str, NDArray[Any]] | None:
    """Return the arrays stored under a key, by name; None if there is no valid file."""
    path = folder / f"{key}.npz"
    try:
        if path.stat().st_size > MOST_BYTES:
            return None
        # numpy does not close a file that it opened itself and cannot read.
        with path.open("rb") as file, np.load(file, allow_pickle=False) as data:
            return dict(data)
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, zlib.error):
        return None


def store_arrays(folder: Path, key: str, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Store arrays by name; it is no error if the cache cannot be written."""
    data = io.BytesIO()
    np.savez(data, allow_pickle=False, **arrays)
    with contextlib.suppress(OSError, InputError):
        folder.mkdir(parents=True, exist_ok=True)
        write_bytes(str(folder / f"{key}.npz"), data.getvalue())
        _forget_oldest(folder)


def _are_times(rows: Any, size: int, columns: int) -> bool:
    """Whether ``rows`` are ``size`` rows of positive, finite seconds."""
    if not isinstance(rows, list) or len(rows) != size:
        return False
    return all(
        isinstance(row, list)
        and len(row) == columns
        and all(
            type(time) is float and math.isfinite(time) and time > 0 for time in row
        )
        for row in rows
    )


def _forget_oldest(folder: Path) -> None:
    ours = (path for path in folder.iterdir() if path.suffix in (".json", ".npz"))
    files = sorted(ours, key=lambda path: path.stat().st_mtime)
    for path in files[:-MOST_FILES]:
        path.unlink(missing_ok=True)
