"""Predictions and forests that are kept: shipped, or in the user's cache folder.

Growing a forest takes a second, and importing scikit-learn another. Every class of
operators that ships with hetopt has its forest in ``data/forests``, a file of arrays
written by ``python -m benchmarks.operator_forests``, with a digest of what it was grown
from: if a profile, a device's rates or settings have changed, the file is not used.

All other forests, and what any forest predicted, are kept in the user's cache, as files
of arrays named by a digest of everything on which they depend. An invalid file is
ignored and written again.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import zipfile
import zlib
from dataclasses import dataclass, field
from functools import cache as remembered
from importlib import metadata
from typing import TYPE_CHECKING, Any

import numpy as np

from hetopt.base.files import write_bytes
from hetopt.cost.forests.forest import Forest, Samples
from hetopt.cost.forests.trees import Settings
from hetopt.cost.shapes import distinct_rows
from hetopt.errors import InputError
from hetopt.problem.catalogue import forest_files
from hetopt.version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from importlib.resources.abc import Traversable
    from pathlib import Path

    from numpy.typing import NDArray

    from hetopt.cost.shapes import Floats

#: Libraries on whose versions a prediction depends.
_LIBRARIES = ("numpy", "scikit-learn", "scipy")

#: Larger files are ignored: a forest has a few hundred thousand nodes.
MOST_BYTES = 64 * 2**20

#: Most files in the cache; the oldest are deleted first.
MOST_FILES = 256

#: Names of the arrays with a shipped forest's digest, and with predictions.
_DIGEST, _SECONDS = "digest", "seconds"


@dataclass(frozen=True, slots=True, kw_only=True)
class Lesson:
    """What a forest is grown from.

    Attributes
    ----------
    stem
        Name of the shipped file of the forest, without its suffix, if there is one.
    settings
        How its trees grow.
    words
        Everything on which the samples depend.
    known
        Returns the measured samples and their seconds, (R,); called if needed.
    """

    stem: str
    settings: Settings
    words: str
    known: Callable[[], tuple[Samples, Floats]] = field(compare=False)

    @property
    def digest(self) -> str:
        """A SHA-256 of what the forest is grown from, in hexadecimal."""
        return hashlib.sha256(self.words.encode()).hexdigest()

    def grown(self) -> Forest:
        """Return the forest, grown anew."""
        return Forest.grown(*self.known(), self.settings)

    def content(self) -> bytes:
        """Return the content of the file that ships, grown anew."""
        data = io.BytesIO()
        arrays = {**self.grown().arrays(), _DIGEST: np.array(self.digest)}
        np.savez_compressed(data, allow_pickle=False, **arrays)
        return data.getvalue()

    def shipped(self, widths: tuple[int, int]) -> Forest | None:
        """Return the forest that ships; None if there is none or it is outdated."""
        file = forest_files().get(self.stem)
        arrays = None if file is None else _arrays(file)
        if arrays is None or str(arrays.get(_DIGEST)) != self.digest:
            return None
        with contextlib.suppress(ValueError):
            return Forest.kept(arrays, widths)
        return None


def predicted_s(
    lesson: Lesson, asked: Sequence[Samples], cache: Path | None
) -> list[Floats]:
    """Return the seconds of samples, from the cache if possible; (R,) for each part.

    Parameters
    ----------
    asked
        Parts of one name each.
    cache
        Folder of the cache; the user's by default.
    """
    if not any(map(len, asked)):
        return [np.empty(0) for _ in asked]
    # Shards that differ only in experts' degrees often have equal kernels.
    different = [distinct_rows((*each.terms.T, *each.features.T)) for each in asked]
    wanted = Samples.joined(
        each.at(first) for each, (first, _) in zip(asked, different, strict=True)
    )
    folder = cache or cache_folder()
    path = folder / f"times-{_key(lesson.words, wanted)}.npz"
    found = (_arrays(path) or {}).get(_SECONDS)
    if found is None or not _are_times(found, len(wanted)):
        found = _forest(lesson, folder, wanted.widths).predict_s(wanted)
        _keep(path, {_SECONDS: found})
    ends = np.cumsum([len(first) for first, _ in different])
    parts = zip(np.split(found, ends[:-1]), different, strict=True)
    return [seconds[where] for seconds, (_, where) in parts]


@remembered
def _forest(lesson: Lesson, folder: Path, widths: tuple[int, int]) -> Forest:
    """Return a forest: the shipped one, a cached one, or one grown now; all equal."""
    forest = lesson.shipped(widths)
    if forest is not None:
        return forest
    samples, seconds = lesson.known()
    key = _key(repr(lesson.settings), samples, seconds.tobytes())
    path = folder / f"forest-{key}.npz"
    with contextlib.suppress(ValueError):
        return Forest.kept(_arrays(path) or {}, widths)
    forest = Forest.grown(samples, seconds, lesson.settings)
    _keep(path, forest.arrays())
    return forest


@remembered
def versions() -> tuple[str, ...]:
    """Return the libraries with their versions; cached, as metadata is slow to read."""
    return tuple(f"{library} {metadata.version(library)}" for library in _LIBRARIES)


def cache_folder() -> Path:
    """Return the folder for forests and predictions in the user's cache."""
    from platformdirs import user_cache_path

    return user_cache_path("hetopt", appauthor=False) / "forest"


def _key(words: str, samples: Samples, *more: bytes) -> str:
    """Return the key of what depends on words, samples, hetopt and the libraries."""
    whole = hashlib.sha256()
    known = "\n".join((words, "hetopt " + __version__, *versions()))
    arrays = (samples.terms, samples.features, samples.names)
    for part in (known.encode(), *(array.tobytes() for array in arrays), *more):
        whole.update(len(part).to_bytes(8, "big"))
        whole.update(part)
    return whole.hexdigest()


def _arrays(file: Path | Traversable) -> dict[str, NDArray[Any]] | None:
    """Return the arrays of a file by name; None if it is missing or broken."""
    try:
        with file.open("rb") as stream:
            data = io.BytesIO(stream.read(MOST_BYTES))
        with np.load(data, allow_pickle=False) as arrays:
            return dict(arrays)
    # A file with a single array is none of ours, and has no names.
    except (OSError, ValueError, TypeError, EOFError, zipfile.BadZipFile, zlib.error):
        return None


def _keep(path: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Store arrays by name; it is no error if the cache cannot be written."""
    data = io.BytesIO()
    np.savez(data, allow_pickle=False, **arrays)
    with contextlib.suppress(OSError, InputError):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_bytes(str(path), data.getvalue())
        kept = path.parent.glob("*.npz")
        files = sorted(kept, key=lambda file: file.stat().st_mtime)
        for file in files[:-MOST_FILES]:
            file.unlink(missing_ok=True)


def _are_times(seconds: NDArray[Any], size: int) -> bool:
    """Whether an array is ``size`` positive, finite seconds."""
    return (
        seconds.shape == (size,)
        and seconds.dtype == np.float64
        and bool((np.isfinite(seconds) & (seconds > 0)).all())
    )
