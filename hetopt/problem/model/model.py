"""The model to train: a sequence of units of named kinds (MODEL.md section 1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from hetopt.base.checked import checked
from hetopt.problem.model.architecture import PLAIN, Architecture
from hetopt.problem.model.block import (
    SIZES,
    Attention,
    Block,
    block_fault,
    check_sizes,
    starts,
)
from hetopt.problem.model.experts import Experts
from hetopt.problem.model.kinds import (
    ACROSS,
    AND,
    ATTENTION_WINDOW,
    BLOCKS,
    CUT_FFN,
    CUT_HIDDEN,
    CUT_PREDICTIONS,
    EMBEDDING,
    FIRST,
    HEAD,
    LAYER,
    LAYER_EXPERTS,
    LAYER_WINDOW,
    LAYER_WINDOW_EXPERTS,
    MLP_UP,
    PREDICTION,
    WITHOUT_EXPERTS,
)
from hetopt.problem.model.latent import Latent

Granularity = Literal["layer", "block"]
Norm = Literal["rms", "layer"]


@checked
@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A transformer, decoder-only by default.

    Attributes
    ----------
    name
        Label used in reports.
    layers, hidden, heads, kv_heads, head_dim, ffn
        Architecture; ``heads`` is a multiple of ``kv_heads``.
    vocab
        Rows of the token table and of the output head; 0: there is neither.
    gated
        True for a gated MLP (three matrices), False for a plain one (two).
    tied
        True if the embedding table is also the output head.
    norm
        ``rms`` (one vector per norm) or ``layer`` (two).
    positions
        Length of a learned position table, 0 for rotary embeddings.
    granularity
        ``layer``: one unit per transformer layer (HetAuto, Principle 1).
        ``block``: attention, first and second MLP matrix are three units (HAPT).
    attention
        ``causal``: a token attends to those before it; ``bidirectional``: to all.
    patch
        Numbers in an image patch, each of which is projected to a token (ViT, Swin);
        0: tokens are looked up in a table.
    classes
        Outputs of a classifier of whole sequences; 0: a vocabulary, with a loss for
        every token.
    blocks
        Layers of several kinds in pipeline order. The fields from ``layers`` to
        ``ffn``, ``gated`` and ``attention`` then repeat the first block's. Empty:
        all layers are alike.
    architecture
        What its layers compute beside their sizes.
    experts
        Experts of all layers but ``experts.dense_layers``, whose MLP has width ``ffn``.
        None: no layer is routed.
    latent
        Sizes of multi-head latent attention, which gives ``head_dim``. None: attention
        is multi-head or grouped-query.
    predictions
        Layers that predict one further token each, after the last layer and of its kind
        (DeepSeek-V3, section 2.2); not counted in ``layers``.
    """

    name: str
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    vocab: int
    gated: bool = True
    tied: bool = False
    norm: Norm = "rms"
    positions: int = 0
    granularity: Granularity = "layer"
    attention: Attention = "causal"
    patch: int = 0
    classes: int = 0
    blocks: tuple[Block, ...] = ()
    architecture: Architecture = PLAIN
    experts: Experts | None = None
    latent: Latent | None = None
    predictions: int = 0

    def __post_init__(self) -> None:
        check_sizes({field: getattr(self, field) for field in SIZES})
        for field in ("positions", "patch", "classes", "predictions"):
            if getattr(self, field) < 0:
                msg = f"{field} is {getattr(self, field)}, expected 0 or more"
                raise ValueError(msg)
        self._check_vocabulary()
        if self.blocks:
            self._check_blocks()
        sizes = (self.layers, self.head_dim, self.positions)
        if fault := self.architecture.fault(*sizes, self.is_decoder_only):
            raise ValueError(fault)
        if fault := self._experts_fault() or self._latent_fault():
            raise ValueError(fault)

    def _experts_fault(self) -> str:
        """Return why experts, latent or predictions cannot be; empty if they can."""
        given = {
            "experts": self.experts is not None,
            "latent": self.latent is not None,
            "predictions": self.predictions > 0,
        }
        for field, is_given in given.items():
            if is_given and not self.is_decoder_only:
                return f"{field} is given, allowed only for a decoder-only model"
            if is_given and self.granularity != "layer":
                return (
                    f"{field} is given, but granularity is {self.granularity!r}, "
                    "expected 'layer'"
                )
        if self.predictions > self.layers:
            # They are one unit, whose costs are added up layer by layer.
            return (
                f"predictions is {self.predictions}, expected at most layers "
                f"({self.layers})"
            )
        if self.experts is not None and (fault := self.experts.fault(self.layers)):
            return f"experts: {fault}"
        return ""

    def _latent_fault(self) -> str:
        """Return what contradicts latent attention; empty if nothing does."""
        if self.latent is None:
            return ""
        if self.head_dim != self.latent.head_dim:
            return (
                f"head_dim is {self.head_dim}, expected qk_dim + rope_dim of latent "
                f"({self.latent.head_dim})"
            )
        qkv_bias, out_bias, _ = self.biases
        given = {
            "qk_norm": self.architecture.qk_norm != "none",
            "qkv_bias": qkv_bias,
            "out_bias": out_bias,
        }
        for field, is_given in given.items():
            if is_given:
                return f"{field} is given, expected none of latent attention"
        if self.kv_heads != self.heads:
            return (
                f"kv_heads is {self.kv_heads}, expected heads ({self.heads}): latent "
                "attention has keys and values for every head"
            )
        return ""

    def _check_vocabulary(self) -> None:
        needs = not (self.patch and self.classes)
        if self.vocab < (1 if needs else 0):
            msg = f"vocab is {self.vocab}, expected at least 1"
            raise ValueError(msg)
        if self.vocab and not needs:
            msg = f"vocab is {self.vocab}, but patch and classes leave no use for it"
            raise ValueError(msg)
        if self.tied and (self.patch or self.classes):
            msg = "tied is true, but patch or classes leaves no second table"
            raise ValueError(msg)

    def _check_blocks(self) -> None:
        """Raise ValueError if the blocks contradict the model or each other."""
        first, last = self.blocks[0], self.blocks[-1]
        for field in (*SIZES, "gated", "attention"):
            if getattr(self, field) != getattr(first, field):
                msg = f"{field} is not that of the first block, expected the same"
                raise ValueError(msg)
        if self.granularity != "layer":
            msg = (
                f"granularity is {self.granularity!r}, expected 'layer': blocks of "
                "several kinds are cut between layers"
            )
            raise ValueError(msg)
        if self.tied and last.hidden != first.hidden:
            msg = f"tied is true, but hidden goes from {first.hidden} to {last.hidden}"
            raise ValueError(msg)
        for index, block in enumerate(self.blocks):
            fault = block_fault(self.blocks, index)
            if fault:
                msg = f"block {block.name!r}: {fault}"
                raise ValueError(msg)
        if self.patch and last.context:
            msg = f"patch is {self.patch}, but block {last.name!r} needs a token table"
            raise ValueError(msg)

    @property
    def is_decoder_only(self) -> bool:
        """Whether this is one causal stack over tokens, as profiles measure it."""
        return not (
            self.blocks or self.patch or self.classes or self.attention != "causal"
        )

    @property
    def biases(self) -> tuple[bool, bool, bool]:
        """Biases of queries, keys and values; of attention's output; of the MLP."""
        own, gpt = self.architecture, self.norm == "layer"
        given = own.qkv_bias, own.out_bias, own.mlp_bias
        qkv, out, mlp = (gpt if each is None else each for each in given)
        return qkv, out, mlp

    @property
    def parts(self) -> tuple[Block, ...]:
        """The blocks; all layers as one block if they are alike."""
        if self.blocks:
            return self.blocks
        sizes = {field: getattr(self, field) for field in SIZES}
        return (Block(name=LAYER, gated=self.gated, attention=self.attention, **sizes),)

    def starts(self, index: int) -> bool:
        """Whether a block starts from its own tokens; False for the first block."""
        return starts(self.blocks, index)

    def tokens(self, index: int, seq_len: int) -> int:
        """Return the tokens of a block per sequence of ``seq_len`` tokens."""
        tokens = seq_len
        for place in range(len(self.blocks[: index + 1])):
            merged = tokens // self.blocks[place].merge
            tokens = seq_len if self.starts(place) else merged
        return tokens

    def sequence_fault(self, seq_len: int) -> str:
        """Return why sequences of ``seq_len`` tokens do not fit; empty if they do."""
        for index, block in enumerate(self.blocks):
            before = self.tokens(index - 1, seq_len) if index else seq_len
            if before % block.merge:
                return (
                    f"is {seq_len}, which leaves {before} tokens before block "
                    f"{block.name!r}, expected a multiple of merge ({block.merge})"
                )
            tokens = self.tokens(index, seq_len)
            if block.window and tokens % block.window:
                return (
                    f"is {seq_len}, which leaves {tokens} tokens in block "
                    f"{block.name!r}, expected a multiple of window ({block.window})"
                )
        return ""

    def place_of(self, kind: str) -> tuple[int, bool]:
        """Return the block of a kind, and whether it is the kind of a first layer.

        Raises
        ------
        ValueError
            No layer is of this kind.
        """
        first = kind.endswith(FIRST)
        name = kind.removesuffix(FIRST)
        for index, block in enumerate(self.parts):
            if block.name == name and (not first or self._enters(index)):
                return index, first
        msg = f"unknown unit kind {kind!r}"
        raise ValueError(msg)

    def _enters(self, index: int) -> bool:
        """Whether a block's first layer merges tokens or looks them up."""
        return bool(self.blocks) and (
            self.blocks[index].merge > 1 or self.starts(index)
        )

    @property
    def units(self) -> tuple[str, ...]:
        """Kind of every unit in pipeline order: embedding, body, head."""
        body: list[str] = []
        for index, block in enumerate(self.blocks):
            body += [block.name] * block.layers
            if self._enters(index):
                body[-block.layers] = block.name + FIRST
        if not self.blocks:
            plain, window = [LAYER], [LAYER_WINDOW]
            if self.granularity == "block":
                plain, window = [*BLOCKS], [ATTENTION_WINDOW, *BLOCKS[1:]]
            for has_window, routed in zip(
                self.architecture.windows(self.layers), self.routed, strict=True
            ):
                if routed:
                    body.append(LAYER_WINDOW_EXPERTS if has_window else LAYER_EXPERTS)
                else:
                    body += window if has_window else plain
        if self.predictions:
            body.append(PREDICTION)
        return (EMBEDDING, *body, HEAD)

    @property
    def routed(self) -> tuple[bool, ...]:
        """For each layer, whether its MLP is routed experts."""
        if self.experts is None:
            return (False,) * self.layers
        return self.experts.routed(self.layers)

    def has_experts(self, kind: str) -> bool:
        """Whether units of a kind have routed experts."""
        return kind in WITHOUT_EXPERTS or (kind == PREDICTION and self.routed[-1])

    @property
    def shares_table(self) -> bool:
        """Whether the last stage of several has a copy of the embedding's table.

        A tied head has one, and layers that predict further tokens: the gradients of
        all copies are added up.
        """
        return self.tied or self.predictions > 0

    @property
    def cuts(self) -> tuple[str, ...]:
        """Cut class after each unit but the last, length ``len(units) - 1``."""
        if not self.blocks:
            wider = {MLP_UP: CUT_FFN, PREDICTION: CUT_PREDICTIONS}
            return tuple(wider.get(kind, CUT_HIDDEN) for kind in self.units[:-1])
        cuts = [CUT_HIDDEN]
        for block in self.blocks:
            both = block.name + AND + block.context if block.context else block.name
            cuts += [both] * block.layers
        if self.blocks[-1].context:
            # No unit after the last layer attends to the context.
            cuts[-1] = self.blocks[-1].name
        return tuple(cuts)

    def cut_tensors(
        self, cut: str, seq_len: int, *, within: bool = False
    ) -> tuple[tuple[int, int], ...]:
        """Return tokens per sequence and width of the tensors of a cut class.

        Between the two matrices of the MLP, the residual goes with the inner
        activations: two tensors, of five times the hidden size in a plain MLP (HAPT,
        section 6.5).

        Parameters
        ----------
        within
            Whether to return tensors that stay within a stage, not those that leave it.
        """
        widths = {
            CUT_HIDDEN: (self.hidden,),
            CUT_FFN: (self.ffn, self.hidden),
            CUT_PREDICTIONS: (self.hidden * (1 + self.predictions),),
        }
        sizes = {
            name: tuple((seq_len, width) for width in own)
            for name, own in widths.items()
        }
        for index, block in enumerate(self.blocks):
            sizes[block.name] = ((self.tokens(index, seq_len), block.hidden),)
        names = cut.split(ACROSS)[0 if within else -1].split(AND)
        return tuple(size for name in names if name for size in sizes[name])

    @property
    def edges(self) -> tuple[tuple[int, int, str], ...]:
        """(u, v, class): unit u sends a tensor of a cut class to unit v > u; ascending.

        Every unit sends its output to the next, and the last layer of a context sends
        it to every layer of the blocks with that context. Between two stages, the
        context crosses once, with the output of the layer before: not on each of its
        edges.
        """
        edges = []
        for unit, cut in enumerate(self.cuts):
            name = cut.split(AND)[0]
            edges.append((unit, unit + 1, cut if name == cut else name + ACROSS + cut))
        unit, last = 1, {}
        for block in self.blocks:
            start, unit = unit, unit + block.layers
            last[block.name] = unit - 1
            if block.context:
                source = last[block.context]
                edges += [
                    (source, layer, block.context + ACROSS)
                    for layer in range(max(start, source + 2), unit)
                ]
        return tuple(sorted(edges))
