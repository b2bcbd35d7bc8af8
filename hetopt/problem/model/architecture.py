"""What a model computes beside its sizes: norms, positions, attention, activations.

The fields are those in which current dense decoders differ. Modules that read
configurations or write runtimes' settings map them to other names.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Annotated, Literal

from pydantic import Field

from hetopt.base.faults import Fault
from hetopt.base.fields import Count, Flag, Number, Positive, Wholes
from hetopt.base.record import record
from hetopt.problem.model.experts import ensure_among, ensure_ascending

Activation = Literal["silu", "gelu", "gelu-tanh", "quick-gelu", "relu", "squared-relu"]
NormPlace = Literal["before", "after", "both"]
QkNorm = Literal["none", "head", "all", "l2"]
ScalingKind = Literal["linear", "llama3", "dynamic", "yarn", "longrope"]


#: A share or a probability, less than 1.
Share = Annotated[Number, Field(ge=0, lt=1)]
#: A base of rotary frequencies.
Base = Annotated[Number, Field(gt=1)]


@record
class RotaryScaling:
    """How rotary frequencies are scaled for longer sequences.

    ``linear``: positions are divided by ``factor``. ``llama3``: low frequencies are,
    high ones are not (Llama 3.1): low are those whose wave is longer than
    ``original_positions / low_freq_factor`` tokens, high those whose wave is shorter
    than ``original_positions / high_freq_factor``. Others are known by name only: no
    launcher that hetopt writes for computes them.

    Attributes
    ----------
    kind
        linear, llama3, dynamic, yarn or longrope.
    factor
        How many times longer sequences become.
    low_freq_factor
        Of llama3; default: 1.
    high_freq_factor
        Of llama3; default: 4.
    original_positions
        Of llama3; default: 8192.
    """

    kind: ScalingKind
    factor: Positive
    low_freq_factor: Positive = 1.0
    high_freq_factor: Positive = 4.0
    original_positions: Count = 8192

    def __post_init__(self) -> None:
        if self.low_freq_factor > self.high_freq_factor:
            msg = (
                f"is {self.low_freq_factor:g}, expected at most high_freq_factor "
                f"({self.high_freq_factor:g})"
            )
            raise Fault(msg, "low_freq_factor")


@record
class Architecture:
    """What every layer of a model computes, and with which constants.

    Attributes
    ----------
    activation
        Of the MLP; default: silu if gated, else GELU in either form (gelu,
        gelu-tanh), as a runtime has it.
    gate_clamp
        Inputs of a gated activation are clamped to it, and 1 is added to the other
        factor (GPT-OSS); default: neither.
    norm_eps
        Added to the variance in norms; default: 1e-5.
    norm_zero_centred
        Norms multiply with 1 + weight (Gemma); default: false.
    norm_place
        Norms before attention and MLP (default), after them, ahead of the residual
        (OLMo-2), or both (Gemma-2, GLM-4).
    qk_norm
        Norm of queries and keys: of each head, of all heads together (OLMo-2), or
        l2, without weights, in layers with rotary embeddings (Llama-4); default:
        none.
    qkv_bias
        Biases of queries, keys and values; default: if norm is layer.
    out_bias
        Bias of attention's output; default: if norm is layer.
    mlp_bias
        Biases of the MLP; default: if norm is layer.
    parallel_mlp
        Attention and MLP read the same input, and both results are added to it
        (GPT-NeoX); default: false.
    rotary_base
        Base of rotary frequencies; default: 10000.
    rotary_fraction
        Share of a head that is rotated; default: 1.
    rotary_interleaved
        Neighbours form pairs (GLM-4), not a head's halves; default: false.
    rotary_local_base
        Base in layers with a sliding window (Gemma-3); default: rotary_base.
    rotary_scaling
        How frequencies are scaled; default: not.
    rotary_full_layers
        full_layers have rotary embeddings, too (not in Llama-4, SmolLM3); default:
        true.
    attention_scale
        Factor of scores; default: 1 / sqrt(head_dim).
    attention_softcap
        Scores become cap * tanh(scores / cap); default: no cap.
    logit_softcap
        The same of logits (Gemma-2); default: no cap.
    attention_sinks
        The sum of each head's softmax has a further, learned term (GPT-OSS);
        default: false.
    sliding_window
        Tokens that a token attends to, itself and those just before; default: all
        before it.
    attention_chunk
        Tokens of a chunk, whose tokens attend to those before them in it alone
        (Llama-4), not beside a sliding window; default: sequences are whole.
    full_layers
        Layers, counted from 0, without the window or chunks, or without rotary
        embeddings alone if there are neither (SmolLM3); default: none.
    attention_temperature
        Number of tokens after which queries without rotary embedding are scaled up
        another step: that at position i is multiplied with 1 + 0.1 log(1 + floor((i
        + 1) / this)) (Llama-4); default: they are not scaled up.
    hidden_dropout
        Of embeddings and the results of attention and MLP; default: 0. Above 0,
        memory includes its masks, a byte per token and channel each.
    attention_dropout
        Of attention's scores; default: 0. Above 0, unfused attention keeps its masks
        and results.
    embedding_scale
        What embeddings are multiplied with (Gemma: the root of hidden); default: 1.
    """

    activation: Activation | None = None
    gate_clamp: Positive | None = None
    norm_eps: Annotated[Positive, Field(lt=1)] = 1e-5
    norm_zero_centred: Flag = False
    norm_place: NormPlace = "before"
    qk_norm: QkNorm = "none"
    qkv_bias: Flag | None = None
    out_bias: Flag | None = None
    mlp_bias: Flag | None = None
    parallel_mlp: Flag = False
    rotary_base: Base = 10_000.0
    rotary_fraction: Annotated[Positive, Field(le=1)] = 1.0
    rotary_interleaved: Flag = False
    rotary_local_base: Base | None = None
    rotary_scaling: RotaryScaling | None = None
    rotary_full_layers: Flag = True
    attention_scale: Positive | None = None
    attention_softcap: Positive | None = None
    logit_softcap: Positive | None = None
    attention_sinks: Flag = False
    sliding_window: Count | None = None
    attention_chunk: Count | None = None
    full_layers: Wholes = ()
    attention_temperature: Count | None = None
    hidden_dropout: Share = 0.0
    attention_dropout: Share = 0.0
    embedding_scale: Positive = 1.0

    def __post_init__(self) -> None:
        if self.sliding_window and self.attention_chunk:
            msg = "is given beside sliding_window, expected one of them"
            raise Fault(msg, "attention_chunk")
        if self.rotary_local_base is not None and self.sliding_window is None:
            msg = "is given, but there is no sliding_window"
            raise Fault(msg, "rotary_local_base")
        if self.reach is None and bool(self.full_layers) == self.rotary_full_layers:
            given, lacks = "full_layers", "sliding_window or rotary_full_layers: false"
            if not self.full_layers:
                given, lacks = "rotary_full_layers", "sliding_window or full_layers"
            raise Fault(f"is given, but there is no {lacks}", given)
        if self.attention_temperature and self.rotary_full_layers:
            msg = "is given, but rotary_full_layers is not false"
            raise Fault(msg, "attention_temperature")
        ensure_ascending(self.full_layers, "full_layers")

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

    def ensure_fits(
        self, layers: int, head_dim: int, positions: int, decoder_only: bool, /
    ) -> None:
        """Raise Fault if a model's other fields contradict one."""
        turned = int(head_dim * self.rotary_fraction)
        if positions:
            for field in ARCHITECTURE_FIELDS:
                if field.startswith("rotary") and self.differs(field):
                    msg = (
                        "is given, but positions gives a learned position table: leave "
                        "one of them out"
                    )
                    raise Fault(msg, field)
        elif self.rotary_fraction < 1 and (turned < 2 or turned % 2):
            msg = (
                f"is {self.rotary_fraction:g}, which rotates {turned} of the "
                f"{head_dim} numbers of a head, expected an even number"
            )
            raise Fault(msg, "rotary_fraction")
        if self.reach is not None and not decoder_only:
            msg = (
                f"is {self.reach}, allowed only for a decoder-only model; blocks have "
                "windows of their own"
            )
            field = "sliding_window" if self.sliding_window else "attention_chunk"
            raise Fault(msg, field)
        ensure_among(self.full_layers, layers, "full_layers")

    def differs(self, field: str) -> bool:
        """Whether a field differs from its default."""
        return bool(getattr(self, field) != getattr(PLAIN, field))


#: The architecture of a model that gives none of its fields.
PLAIN = Architecture()
#: Names of all fields; a problem file has the same names.
ARCHITECTURE_FIELDS = tuple(field.name for field in fields(Architecture))
