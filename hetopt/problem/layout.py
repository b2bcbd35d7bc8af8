"""Layouts of chunks as Megatron-LM's ``--pipeline-model-parallel-layout`` says them.

Chunks are separated by ``|``; each is a run of ``E`` (embedding), ``t`` (transformer
layer), ``m`` (multi-token prediction) and ``L`` (loss). ``x*n`` repeats a letter,
``(...)*n`` a row of letters and bars; commas are ignored. The first chunks of all
stages come first, then the second ones.
"""

from __future__ import annotations

import re
from itertools import accumulate, groupby, pairwise
from typing import TYPE_CHECKING

from hetopt.base.words import counted
from hetopt.problem.model.kinds import EMBEDDING, HEAD, PREDICTION

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hetopt.problem.model.model import Model

_GROUP = re.compile(r"\(([^()]+)\)\*([0-9]{1,6})")
_LETTER = re.compile(r"([EtmL|])\*([0-9]{1,6})")
#: The most letters that a layout may stand for.
_LONGEST = 1_000_000
_LETTERS = {EMBEDDING: "E", PREDICTION: "m", HEAD: "L"}


def layout_of(cuts: Sequence[int], model: Model) -> str:
    """Return the layout of chunks that end at these units of a model.

    Raises
    ------
    ValueError
        A chunk ends inside a layer, of which a layout has no letter.
    """
    each, kinds = _units_per_layer(model), model.units
    chunks = []
    for first, end in pairwise((0, *cuts)):
        runs = [(k, len([*run])) for k, run in groupby(map(_letter, kinds[first:end]))]
        if any(count % each for letter, count in runs if letter == "t"):
            msg = "cuts inside a layer, which no layout of Megatron-LM can say"
            raise ValueError(msg)
        counts = {"t": each, "m": 1 / (model.predictions or 1)}
        chunks.append("".join(_run(k, round(n / counts.get(k, 1))) for k, n in runs))
    return _joined(chunks)


def layout_text(layers: Sequence[int], predictions: int = 0) -> str:
    """Return the layout of chunks of this many layers, ends and further tokens apart.

    The embedding is in the first chunk; what predicts further tokens, and the loss, in
    the last.
    """
    chunks = [_run("t", count) for count in layers]
    chunks[0] = f"E{chunks[0]}"
    chunks[-1] += _run("m", predictions) + "L"
    return _joined(chunks)


def cuts_of(text: str, model: Model) -> tuple[int, ...]:
    """Return where the chunks of a layout end, in units of a model.

    Raises
    ------
    ValueError
        The text breaks the grammar or the runtime's rules, or is of another model.
    """
    chunks = layout_chunks(text)
    layers, expected = sum(each.count("t") for each in chunks), model.layers
    if layers != expected:
        msg = f"has {counted(layers, 'layer')}, expected {expected} as the model has"
        raise ValueError(msg)
    further = [each.count("m") for each in chunks if "m" in each]
    if sum(further) != model.predictions:
        msg = (
            f"has {counted(sum(further), 'layer')} of multi-token prediction, expected "
            f"{model.predictions} as the model has"
        )
        raise ValueError(msg)
    each = _units_per_layer(model)
    return tuple(
        accumulate(
            chunk.count("E")
            + each * chunk.count("t")
            + ("m" in chunk)
            + chunk.count("L")
            for chunk in chunks
        )
    )


def layout_chunks(text: str) -> list[str]:
    """Return the letters of every chunk of a layout that follows the rules.

    Raises
    ------
    ValueError
        The text breaks the grammar or the runtime's rules.
    """
    plain = text.replace(",", "")
    for repetition in (_GROUP, _LETTER):
        found = repetition.finditer(plain)
        if sum(len(match[1]) * int(match[2]) for match in found) > _LONGEST:
            msg = f"stands for more than {_LONGEST} letters"
            raise ValueError(msg)
        plain = repetition.sub(_repeated, plain)
    strange = sorted(set(plain) - set("EtmL|"))
    if strange:
        msg = f"has {' '.join(map(repr, strange))}, expected E, t, m, L, |, ()*n or *n"
        raise ValueError(msg)
    letters, chunks = plain.replace("|", ""), plain.split("|")
    if not re.fullmatch("Et*m*L", letters):
        msg = (
            "is not one embedding (E) first, one loss (L) last and layers (t, then m) "
            "between"
        )
        raise ValueError(msg)
    if not (chunks[0] and chunks[-1]):
        # Megatron-LM has the embedding in the first chunk and the loss in the last,
        # wherever their letters are.
        msg = "has an empty chunk before the embedding (E) or after the loss (L)"
        raise ValueError(msg)
    if len([chunk for chunk in chunks if "m" in chunk]) > 1:
        msg = "has multi-token prediction (m) in several chunks, expected one"
        raise ValueError(msg)
    return chunks


def predictions_fault(chunks: Sequence[str], stages: int) -> str | None:
    """Return why Megatron-LM refuses the chunk that predicts further tokens, if so.

    Parameters
    ----------
    chunks
        The letters of each, as ``layout_chunks`` returns them.
    stages
        p, which divides their number.
    """
    for place, chunk in enumerate(chunks[:-stages]):
        if "m" in chunk:
            return (
                f"has multi-token prediction (m) in chunk {place // stages} of stage "
                f"{place % stages}, expected it in the last chunk of a stage"
            )
    return None


def _joined(chunks: Sequence[str]) -> str:
    """Return chunks with bars between them, runs of equal ones in short."""
    text = ""
    for chunk, run in groupby(chunks[:-1]):
        count = len([*run])
        plain, grouped = f"{chunk}|" * count, f"({chunk}|)*{count},"
        text += min(plain, grouped, key=len)
    return text + chunks[-1]


def _letter(kind: str) -> str:
    return _LETTERS.get(kind, "t")


def _run(letter: str, count: int) -> str:
    return f"{letter}*{count}" if count > 2 else letter * count


def _units_per_layer(model: Model) -> int:
    return sum(_letter(kind) == "t" for kind in model.units) // model.layers


def _repeated(match: re.Match[str]) -> str:
    return match.group(1) * int(match.group(2))
