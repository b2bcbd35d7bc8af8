"""What a model computes beside its sizes: norms, positions, attention, activations.

The fields are those in which current dense decoders differ. Modules that read
configurations or write runtimes' settings map them to other names.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Literal

from hetopt.base.checked import checked
from hetopt.base.least import ensure_least

Activation = Literal["silu", "gelu", "gelu-tanh", "quick-gelu", "relu", "squared-relu"]
NormPlace = Literal["before", "after", "both"]
QkNorm = Literal["none", "head", "all", "l2"]
ScalingKind = Literal["linear", "llama3", "dynamic", "yarn", "longrope"]


def _check_above_zero(of: object, field: str) -> None:
    value = getattr(of, field)
    if not 0 < value < math.inf:
        msg = f"{field} is {value:g}, expected more than 0"
        raise ValueError(msg)


@checked
@dataclass(frozen=True, slots=True, kw_only=True)
class RotaryScaling:
    """How rotary frequencies are scaled for longer sequences.

    Attributes
    ----------
    kind
        ``linear``: positions are divided by ``factor``. ``llama3``: low frequencies
        are, high ones are not (Llama 3.1). Others are known by name only: no launcher
        that hetopt writes for computes them.
    factor
        Above 0.
    low_freq_factor, high_freq_factor, original_positions
        Of ``llama3``: frequencies whose wave is longer than ``original_positions /
        low_freq_factor`` tokens are low, those shorter than ``original_positions /
        high_freq_factor`` high. Other kinds do not use them.
    """

    kind: ScalingKind
    factor: float
    low_freq_factor: float = 1.0
    high_freq_factor: float = 4.0
    original_positions: int = 8192

    def __post_init__(self) -> None:
        for field in ("factor", "low_freq_factor", "high_freq_factor"):
            _check_above_zero(self, field)
        ensure_least(self, 1, ("original_positions",))
        if self.low_freq_factor > self.high_freq_factor:
            msg = (
                f"low_freq_factor is {self.low_freq_factor:g}, expected at most "
                f"high_freq_factor ({self.high_freq_factor:g})"
            )
            raise ValueError(msg)


@checked
@dataclass(frozen=True, slots=True, kw_only=True)
class Architecture:
    """What every layer of a model computes, and with which constants.

    Attributes
    ----------
    activation
        Activation of the MLP. None: SiLU if the MLP is gated, otherwise GELU in the one
        of its two forms that a runtime has.
    gate_clamp
        Limit to which inputs of a gated activation are clamped; 1 is then added to its
        other factor (GPT-OSS); above 0; None: neither.
    norm_eps
        Added to the variance in every norm; between 0 and 1.
    norm_zero_centred
        Whether a norm multiplies with 1 + its weight (Gemma).
    norm_place
        ``before`` attention and MLP; ``after`` them, ahead of the residual (OLMo-2);
        ``both`` (Gemma-2, GLM-4).
    qk_norm
        Norm of queries and keys: of each ``head``, or of ``all`` heads together
        (OLMo-2); ``l2``: of each head, without weights, in layers with rotary
        embeddings (Llama-4); ``none``.
    qkv_bias, out_bias, mlp_bias
        Biases of queries, keys and values; of attention's output; of the MLP. None:
        all of them if norms are LayerNorm, none if they are RMSNorm.
    parallel_mlp
        Whether attention and MLP read the same input, and both results are added to it
        (GPT-NeoX).
    rotary_base, rotary_fraction, rotary_interleaved
        Base of the frequencies, above 1; share of a head that is rotated, above 0 and
        at most 1; whether neighbours form pairs (GLM-4) rather than the two halves.
    rotary_local_base
        Base in layers with a sliding window (Gemma-3), above 1; None: the same.
    rotary_scaling
        None: frequencies are not scaled.
    rotary_full_layers
        Whether ``full_layers`` have rotary embeddings too (not in Llama-4, SmolLM3).
    attention_scale
        Scores are multiplied with it; above 0; None: ``head_dim ** -0.5``.
    attention_softcap, logit_softcap
        Scores, or logits, x become ``cap * tanh(x / cap)``; above 0; None: no cap.
    attention_sinks
        Whether the sum of each head's softmax has a further, learned term (GPT-OSS).
    sliding_window
        Tokens that a token attends to: itself and those just before; None: itself and
        all before it.
    attention_chunk
        Tokens of a chunk: a token attends to itself and those before it in its chunk
        (Llama-4); None: no chunks. Not beside ``sliding_window``.
    full_layers
        Layers without window or chunks, counted from 0 and ascending. If no layer has
        either: those without rotary embeddings (SmolLM3).
    attention_temperature
        In layers without rotary embeddings, the query at position i is multiplied with
        1 + 0.1 log(1 + floor((i + 1) / this)) (Llama-4); None: it is not.
    hidden_dropout, attention_dropout
        Probabilities, at least 0 and less than 1: of embeddings and the results of
        attention and MLP; of scores. Memory includes the masks of dropout even if these
        are 0, as hetopt's published sources count it.
    embedding_scale
        Factor of the embeddings (Gemma: the root of the hidden size).
    """

    activation: Activation | None = None
    gate_clamp: float | None = None
    norm_eps: float = 1e-5
    norm_zero_centred: bool = False
    norm_place: NormPlace = "before"
    qk_norm: QkNorm = "none"
    qkv_bias: bool | None = None
    out_bias: bool | None = None
    mlp_bias: bool | None = None
    parallel_mlp: bool = False
    rotary_base: float = 10_000.0
    rotary_fraction: float = 1.0
    rotary_interleaved: bool = False
    rotary_local_base: float | None = None
    rotary_scaling: RotaryScaling | None = None
    rotary_full_layers: bool = True
    attention_scale: float | None = None
    attention_softcap: float | None = None
    logit_softcap: float | None = None
    attention_sinks: bool = False
    sliding_window: int | None = None
    attention_chunk: int | None = None
    full_layers: tuple[int, ...] = ()
    attention_temperature: int | None = None
    hidden_dropout: float = 0.0
    attention_dropout: float = 0.0
    embedding_scale: float = 1.0

    def __post_init__(self) -> None:
        for field in (
            "gate_clamp",
            "norm_eps",
            "attention_scale",
            "attention_softcap",
            "logit_softcap",
            "embedding_scale",
            "rotary_fraction",
        ):
            if getattr(self, field) is not None:
                _check_above_zero(self, field)
        for field in ("norm_eps", "hidden_dropout", "attention_dropout"):
            if not 0 <= getattr(self, field) < 1:
                msg = f"{field} is {getattr(self, field):g}, expected 0 to less than 1"
                raise ValueError(msg)
        if self.rotary_fraction > 1:
            msg = f"rotary_fraction is {self.rotary_fraction:g}, expected at most 1"
            raise ValueError(msg)
        for field in ("rotary_base", "rotary_local_base"):
            base = getattr(self, field)
            if base is not None and not 1 < base < math.inf:
                msg = f"{field} is {base:g}, expected more than 1"
                raise ValueError(msg)
        self._check_reach()

    def _check_reach(self) -> None:
        """Raise ValueError if fields of windows, chunks or full layers are wrong."""
        for field in ("sliding_window", "attention_chunk", "attention_temperature"):
            count = getattr(self, field)
            if count is not None and count < 1:
                msg = f"{field} is {count}, expected at least 1"
                raise ValueError(msg)
        if self.sliding_window and self.attention_chunk:
            msg = "attention_chunk is given beside sliding_window, expected one of them"
            raise ValueError(msg)
        if self.rotary_local_base is not None and self.sliding_window is None:
            msg = "rotary_local_base is given, but there is no sliding_window"
            raise ValueError(msg)
        if self.reach is None and bool(self.full_layers) == self.rotary_full_layers:
            given, lacks = "full_layers", "sliding_window or rotary_full_layers: false"
            if not self.full_layers:
                given, lacks = "rotary_full_layers", "sliding_window or full_layers"
            msg = f"{given} is given, but there is no {lacks}"
            raise ValueError(msg)
        if self.attention_temperature and self.rotary_full_layers:
            msg = "attention_temperature is given, but rotary_full_layers is not false"
            raise ValueError(msg)
        ascending = sorted({layer for layer in self.full_layers if layer >= 0})
        if list(self.full_layers) != ascending:
            msg = "full_layers is not ascending from 0, expected each layer once"
            raise ValueError(msg)

    @property
    def reach(self) -> int | None:
        """Tokens of a window or a chunk; None if there is neither."""
        return self.sliding_window or self.attention_chunk

    def windows(self, layers: int) -> tuple[bool, ...]:
        """Return for each layer whether it has the sliding window or the chunks.

        If no layer has either, but some lack rotary embeddings: whether it has these.
        """
        if self.reach is None and self.rotary_full_layers:
            return (False,) * layers
        full = frozenset(self.full_layers)
        return tuple(layer not in full for layer in range(layers))

    def fault(
        self, layers: int, head_dim: int, positions: int, decoder_only: bool, /
    ) -> str:
        """Return which field a model's other fields contradict; empty if none.

        The text begins with the name of the wrong field.
        """
        turned = int(head_dim * self.rotary_fraction)
        if positions:
            for field in ARCHITECTURE_FIELDS:
                if field.startswith("rotary") and self.differs(field):
                    return (
                        f"{field} is given, but positions gives a learned position "
                        "table: leave one of them out"
                    )
        elif self.rotary_fraction < 1 and (turned < 2 or turned % 2):
            return (
                f"rotary_fraction is {self.rotary_fraction:g}, which rotates {turned} "
                f"of the {head_dim} numbers of a head, expected an even number"
            )
        if self.reach is not None and not decoder_only:
            field = "sliding_window" if self.sliding_window else "attention_chunk"
            return (
                f"{field} is {self.reach}, allowed only for a decoder-only model; "
                "blocks have windows of their own"
            )
        if self.full_layers and self.full_layers[-1] >= layers:
            return (
                f"full_layers is up to {self.full_layers[-1]}, expected layers from 0 "
                f"to {layers - 1}"
            )
        return ""

    def differs(self, field: str) -> bool:
        """Whether a field differs from its default."""
        return bool(getattr(self, field) != getattr(PLAIN, field))


#: The architecture of a model that gives none of its fields.
PLAIN = Architecture()
#: Names of all fields; a problem file has the same names.
ARCHITECTURE_FIELDS = tuple(field.name for field in fields(Architecture))
