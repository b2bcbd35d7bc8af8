"""Forests of the operators that ship with hetopt, grown before they shipped.

Growing one takes a second, and loading scikit-learn another. ``data/forests`` holds one
file of arrays per operator profile and class, written by ``python -m
benchmarks.operator_forests``, each with a digest of what it was grown from: where a
profile, a device's rates or ``SETTINGS`` have changed, it is not taken.
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

#: The array, beside a forest's own, that holds the digest of what it was grown from.
_DIGEST = "digest"


def shipped_forest(part: Measured, widths: Widths) -> OperatorForest | None:
    """Return the forest that ships for measured operators; None if none does.

    Parameters
    ----------
    widths
        Of the kernels that it is asked about.
    """
    file = forest_files().get(file_stem(part))
    if file is None:
        return None
    try:
        with file.open("rb") as stream, np.load(stream, allow_pickle=False) as data:
            if str(data[_DIGEST]) != digest(part):
                return None
            return OperatorForest.kept(dict(data), widths)
    # An installation may be broken: then the forest is grown.
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error):
        return None


def content_of(part: Measured) -> bytes:
    """Return the file that ships for measured operators: their forest, grown anew."""
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
    """Return what the file of a forest is called, without its suffix."""
    return f"{part.name}-{part.op}"


def digest(part: Measured) -> str:
    """Return a SHA-256 over all that a forest is grown from, in hexadecimal."""
    known = part.op, astuple(part.rates), astuple(SETTINGS[part.op]), part.text
    return hashlib.sha256(repr(known).encode()).hexdigest()
