"""The model to train: a sequence of units of named kinds (MODEL.md section 1)."""

from __future__ import annotations

from dataclasses import InitVar
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from hetopt.base.faults import FLAT, Fault, inside
from hetopt.base.fields import Count, Flag, Name, Whole
from hetopt.base.record import derived, read, record
from hetopt.problem.files import NO_FILES, Files
from hetopt.problem.model.architecture import PLAIN, Architecture
from hetopt.problem.model.block import (
    SIZES,
    Attention,
    Block,
    LayerCount,
    ensure_groups,
    ensure_in_order,
    inner_size,
    starts,
)
from hetopt.problem.model.crossings import crossings, edges
from hetopt.problem.model.experts import Experts
from hetopt.problem.model.given import (
    completed,
    of_first,
    routed_experts,
    usual_head,
    usual_vocabulary,
)
from hetopt.problem.model.kinds import (
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
    PREDICTION,
    WITHOUT_EXPERTS,
    Cut,
)
from hetopt.problem.model.latent import Latent

Granularity = Literal["layer", "block"]
Norm = Literal["rms", "layer"]


@record
class Model:
    """A transformer, decoder-only by default: a preset, a config.json, or its fields.

    Fields beside ``preset`` or ``hf_config`` override what that gives.

    Attributes
    ----------
    preset
        Name from `hetopt catalog`.
    hf_config
        Hugging Face config.json, relative to this file.
    name
        Label for reports.
    blocks
        Layers of several kinds in pipeline order; the sizes, gated and attention
        are their defaults, and those of the model are then the first block's.
    layers
        Transformer layers.
    hidden
        Hidden size.
    heads
        Attention heads.
    kv_heads
        Key-value heads (GQA), which divide heads; default: heads.
    latent
        Sizes of multi-head latent attention; default: heads have keys and values of
        their own.
    head_dim
        Size of a head; default: hidden / heads.
    gated
        true: an MLP of three matrices (default); false: of two.
    ffn
        Inner size of the MLP; default: 4 hidden, or for a gated MLP Llama's rule,
        8/3 hidden rounded up to a multiple of 256.
    patch
        Numbers in an image patch (its area times channels), which is projected to a
        token (ViT, Swin); default: 0, tokens are looked up in a table.
    classes
        Outputs of a classifier of whole sequences; default: 0, a vocabulary, and a
        loss for every token.
    vocab
        Vocabulary size; default: 32000, none (0) with patch and classes.
    tied
        Embedding table is also the output head; default: false.
    norm
        rms (one vector per norm) or layer (two); default: rms if gated, else layer.
    positions
        Length of a learned position table; default: 0, rotary.
    granularity
        What the pipeline is cut into; layer (default): whole layers (HetAuto,
        Principle 1); block: attention, first and second MLP matrix are units of
        their own (HAPT).
    attention
        causal (default): tokens attend to those before them; bidirectional: to all
        of the sequence.
    architecture
        What its layers compute beside their sizes.
    experts
        Routed experts in place of the MLP; default: none.
    predictions
        Layers that predict further tokens, behind the last one and of its kind, not
        counted in layers (DeepSeek-V3, section 2.2); default: 0.
    """

    preset: InitVar[Name | None] = None
    hf_config: InitVar[Name | None] = None
    name: Name = "model"
    blocks: tuple[Block, ...] = ()
    layers: LayerCount = of_first("layers")
    hidden: Count = of_first("hidden")
    heads: Count = of_first("heads")
    kv_heads: Count = of_first("kv_heads", lambda model: model["heads"])
    latent: Latent | None = None
    head_dim: Count = of_first("head_dim", usual_head)
    gated: Flag = of_first("gated", lambda _: True)
    ffn: Count = of_first("ffn", inner_size)
    patch: Whole = 0
    classes: Whole = 0
    vocab: Whole = derived(factory=usual_vocabulary)
    tied: Flag = False
    norm: Norm = "rms"
    positions: Whole = 0
    granularity: Granularity = "layer"
    attention: Attention = of_first("attention", lambda _: "causal")
    architecture: Annotated[Architecture, Field(alias=FLAT)] = PLAIN
    experts: Annotated[Experts | None, BeforeValidator(routed_experts)] = None
    predictions: Whole = 0

    completed = staticmethod(completed)

    @classmethod
    def of(cls, section: Any, files: Files = NO_FILES) -> Model:
        """Return the model that a section or a preset's name gives: see ``read``."""
        return read(cls, section, files)

    def __post_init__(self, *_: object) -> None:
        _ensure_consistent(self)

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
        return tuple(cut.name for cut in crossings(self.blocks, self.units))

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
        known = {name: Cut.of(name) for name in sizes}
        for each in crossings(self.blocks, self.units):
            known |= {one.name: one for one in (each, each.first)}
        known |= {one.name: one for one in map(Cut.inside, sizes)}
        names = known[cut].within if within else known[cut].across
        return tuple(size for name in names for size in sizes[name])

    @property
    def edges(self) -> tuple[tuple[int, int, str], ...]:
        """(u, v, class): unit u sends a tensor of a cut class to unit v > u; ascending.

        Every unit sends its output to the next, and the last layer of a context sends
        it to every layer of the blocks with that context. Between two stages, the
        context crosses once, with the output of the layer before: not on each of its
        edges.
        """
        return edges(self.blocks, crossings(self.blocks, self.units))


def _ensure_consistent(model: Model) -> None:
    """Raise Fault for a field of a model that another one contradicts."""
    ensure_groups(model.heads, model.kv_heads)
    _ensure_vocabulary(model)
    if model.blocks:
        _ensure_blocks(model)
    sizes = (model.layers, model.head_dim, model.positions)
    model.architecture.ensure_fits(*sizes, model.is_decoder_only)
    _ensure_experts(model)
    if model.latent is not None:
        qkv_bias, out_bias, _ = model.biases
        given = {
            "qk_norm": model.architecture.qk_norm != "none",
            "qkv_bias": qkv_bias,
            "out_bias": out_bias,
        }
        model.latent.ensure_fits(model.head_dim, model.heads, model.kv_heads, given)


def _ensure_experts(model: Model) -> None:
    """Raise Fault if experts, latent or predictions cannot be."""
    given = {
        "experts": model.experts is not None,
        "latent": model.latent is not None,
        "predictions": model.predictions > 0,
    }
    for field, is_given in given.items():
        if is_given and not model.is_decoder_only:
            raise Fault("is given, allowed only for a decoder-only model", field)
        if is_given and model.granularity != "layer":
            msg = f"is given, but granularity is {model.granularity!r}"
            raise Fault(f"{msg}, expected 'layer'", field)
    if model.predictions > model.layers:
        # They are one unit, whose costs are added up layer by layer.
        msg = f"is {model.predictions}, expected at most layers ({model.layers})"
        raise Fault(msg, "predictions")
    if model.experts is not None:
        with inside("experts"):
            model.experts.ensure_fit(model.layers)


def _ensure_vocabulary(model: Model) -> None:
    needs = not (model.patch and model.classes)
    if not model.vocab and needs:
        raise Fault(f"is {model.vocab}, expected at least 1", "vocab")
    if model.vocab and not needs:
        msg = f"is {model.vocab}, but patch and classes leave no use for it"
        raise Fault(msg, "vocab")
    if model.tied and (model.patch or model.classes):
        raise Fault("is true, but patch or classes leaves no second table", "tied")


def _ensure_blocks(model: Model) -> None:
    """Raise Fault if the blocks contradict the model or each other."""
    first, last = model.blocks[0], model.blocks[-1]
    ensure_in_order(model.blocks)
    for field in (*SIZES, "gated", "attention"):
        if getattr(model, field) != getattr(first, field):
            raise Fault("is not that of the first block, expected the same", field)
    if model.granularity != "layer":
        msg = (
            f"is {model.granularity!r}, expected 'layer': blocks of several kinds "
            "are cut between layers"
        )
        raise Fault(msg, "granularity")
    if model.tied and last.hidden != first.hidden:
        msg = f"is true, but hidden goes from {first.hidden} to {last.hidden}"
        raise Fault(msg, "tied")
    if model.patch and last.context:
        msg = f"is {model.patch}, but block {last.name!r} needs a token table"
        raise Fault(msg, "patch")
