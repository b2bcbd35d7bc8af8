"""Forests of the operators that ship with hetopt, grown in advance.

Growing a forest takes a second, and importing scikit-learn another. ``data/forests``
has one file of arrays per operator profile and class, written by ``python -m
benchmarks.operator_forests``, each with a digest of its inputs: if a profile, a
device's rates or ``SETTINGS`` have changed, the file is not used.
"""

from __future__ import annotations

import hashlib
import io
import zipfile
import zlib
from dataclasses import astuple
from typing import TYPE_CHECKING

import numpy as np

from hetopt.cost.operators import work
from hetopt.cost.operators.forest import SETTINGS, OperatorForest, Widths
from hetopt.problem.catalogue import forest_files

if TYPE_CHECKING:
    from hetopt.cost.operators.relatives import Measured

#: Name of the array with the digest of the forest's inputs.
_DIGEST = "digest"


def shipped_forest(part: Measured, widths: Widths) -> OperatorForest | None:
    """Return the shipped forest of measured operators; None if there is none.

    Parameters
    ----------
    widths
        Those of the kernels to predict.
    """
    file = forest_files().get(file_stem(part))
    if file is None:
        return None
    try:
        with file.open("rb") as stream, np.load(stream, allow_pickle=False) as data:
            if str(data[_DIGEST]) != digest(part):
                return None
            return OperatorForest.kept(dict(data), widths)
    # A file may be broken: then the caller grows the forest.
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error):
        return None


def content_of(part: Measured) -> bytes:
    """Return the content of the file that ships for measured operators, grown anew."""
    data = io.BytesIO()
    arrays = grown(part).arrays()
    np.savez_compressed(
        data, allow_pickle=False, **arrays, **{_DIGEST: np.array(digest(part))}
    )
    return data.getvalue()


def grown(part: Measured) -> OperatorForest:
    """Return the forest of measured operators, grown anew."""
    known = work.work_of_rows(part.op, part.rows, part.rates)
    seconds = np.array([row.time_us * 1e-6 for row in part.rows])
    return OperatorForest.grown(known, seconds, SETTINGS[part.op])


def file_stem(part: Measured) -> str:
    """Return the name of a forest's file, without its suffix."""
    return f"{part.name}-{part.op}"


def digest(part: Measured) -> str:
    """Return a SHA-256 of a forest's profile, rates and settings, in hexadecimal."""
    known = part.op, astuple(part.rates), astuple(SETTINGS[part.op]), part.text
    return hashlib.sha256(repr(known).encode()).hexdigest()
