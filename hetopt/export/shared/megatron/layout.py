"""The text of Megatron-LM's ``--pipeline-model-parallel-layout``.

Stages are separated by ``|``; each is a run of ``E`` (embedding), ``t`` (transformer
layer), ``m`` (multi-token prediction) and ``L`` (loss). ``x*n`` repeats a letter,
``(...)*n`` a row of letters and bars; commas are ignored.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_GROUP = re.compile(r"\(([^()]+)\)\*([0-9]{1,6})")
_LETTER = re.compile(r"([EtmL|])\*([0-9]{1,6})")
#: The most letters that a layout may stand for.
_LONGEST = 1_000_000


def layout_text(layers: Sequence[int], chunks: int = 1, *, predictions: int = 0) -> str:
    """Return the layout of stages with the given numbers of layers.

    Parameters
    ----------
    chunks
        Chunks of every stage, with ``layers`` each: Megatron-LM's virtual stages. A
        layout lists the first ones of all stages, then the second ones, and so on.
    predictions
        Layers that predict further tokens, on the last stage.
    """
    stages = [_run("t", count) for count in layers] * chunks
    stages[0] = "E" + stages[0]
    stages[-1] += _run("m", predictions) + "L"
    return "|".join(stages)


def _run(letter: str, count: int) -> str:
    return f"{letter}*{count}" if count > 1 else letter * count


def layout_layers(text: str) -> tuple[int, ...]:
    """Return the layers of every stage of a layout.

    Raises
    ------
    ValueError
        As ``layout_predictions``.
    """
    return tuple(stage.count("t") for stage in _stages(text))


def layout_predictions(text: str) -> int:
    """Return the layers of a layout that predict further tokens.

    Raises
    ------
    ValueError
        The text breaks the grammar or the runtime's rules, or has multi-token
        prediction before the last stage, which hetopt cannot price.
    """
    return _stages(text)[-1].count("m")


def _stages(text: str) -> list[str]:
    """Return the letters of every stage of a layout that follows the rules."""
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
    letters, stages = plain.replace("|", ""), plain.split("|")
    if not re.fullmatch("Et*m*L", letters):
        msg = (
            "is not one embedding (E) first, one loss (L) last and layers (t, then m) "
            "between"
        )
        raise ValueError(msg)
    if any("m" in stage for stage in stages[:-1]):
        msg = "has multi-token prediction (m) before the last stage, which hetopt "
        raise ValueError(msg + "cannot price")
    return stages


def _repeated(match: re.Match[str]) -> str:
    return match.group(1) * int(match.group(2))
