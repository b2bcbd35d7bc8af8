"""Units of models that are not decoder-only, against formulas written out here."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from hetopt.cost.boundaries.slices import boundary_bytes, tied_bytes
from hetopt.cost.build import build_table
from hetopt.cost.memory import fixed_bytes, temporary_bytes
from hetopt.cost.model_flops import model_flops
from hetopt.cost.per_unit.layer_costs import layer_graph
from hetopt.cost.recompute import activation_bytes
from hetopt.cost.sources.by_cluster import latency_sources
from hetopt.cost.sources.forest_source import ForestSource
from hetopt.cost.table.slice import Layout
from hetopt.cost.units import unit_operations, unit_parameters
from hetopt.errors import InputError
from hetopt.problem.catalogue import profile_files
from hetopt.problem.model.kinds import EMBEDDING, HEAD, LAYER
from hetopt.problem.model.model import Model
from hetopt.problem.problem import Problem
from hetopt.problem.training.choices import RECOMPUTE, Recompute
from hetopt.problem.training.training import Training
from tests.cost.making import (
    make_cluster,
    make_model,
    make_problem,
    model_parameters,
    query,
    shape,
)

BERT = make_model(attention="bidirectional", gated=False, norm="layer", ffn=16384)
TRAINING = Training(global_batch=8, seq_len=512)
IMAGES = Training(global_batch=8, seq_len=3136)
ONE = np.array([1])


def preset(name: str) -> Model:
    return Model.of(name)


T5, SWIN, VIT = preset("t5-large"), preset("swin-huge"), preset("vit-huge")


def dense_flops(model: Model, training: Training, kind: str, b: int = 1) -> float:
    work = unit_operations(model, training, kind, shape((b, 1, 1)))
    return float(sum(part.flops[0] for part in work.multiplications))


def core_flops(model: Model, training: Training, kind: str, b: int = 1) -> float:
    return float(
        unit_operations(model, training, kind, shape((b, 1, 1))).attention_flops[0]
    )


@pytest.mark.parametrize(
    ("name", "millions", "within"),
    [
        ("bert-huge", 672, 0.005),
        ("t5-large", 737, 0.002),
        ("vit-huge", 632, 0.002),
        ("swin-huge", 1020, 0.005),
        # The paper rounds to whole billions.
        ("llama-7b", 7000, 0.05),
        ("llama-13b", 13000, 0.005),
    ],
)
def test_uniap_table_6_has_as_many_parameters(
    name: str, millions: float, within: float
) -> None:
    assert model_parameters(preset(name)) / 1e6 == pytest.approx(millions, rel=within)


def test_a_tied_table_counts_once_and_an_untied_one_twice() -> None:
    model = make_model(tied=True)
    untied = model_parameters(make_model())
    assert untied - model_parameters(model) == 32000 * 4096
    # T5's decoder looks its tokens up in the same table.
    untied = model_parameters(replace(T5, tied=False))
    assert untied - model_parameters(T5) == 2 * 32128 * 1024


def test_bidirectional_attention_has_twice_the_causal_core() -> None:
    causal = replace(BERT, attention="causal")
    assert core_flops(BERT, TRAINING, LAYER) == 4 * 512 * 512 * 4096
    assert core_flops(BERT, TRAINING, LAYER) == 2 * core_flops(causal, TRAINING, LAYER)
    assert dense_flops(BERT, TRAINING, LAYER) == dense_flops(causal, TRAINING, LAYER)


def test_model_flops_of_bert() -> None:
    b, s, layers, h, f, v = 8, 512, 32, 4096, 16384, 32000
    dense = layers * (2 * h * f + 4 * h * h) + h * v
    expected = 6 * b * s * dense + 2 * (6 * b * s * s * h * layers)
    assert model_flops(BERT, TRAINING) == pytest.approx(expected, rel=1e-12)


def test_a_layer_with_a_context_attends_twice() -> None:
    """Of T5: b = 2, s = 512 tokens on both sides, h = 1024, f = 4096."""
    tokens, h, f = 2 * 512, 1024, 4096
    encoder = 2 * tokens * (4 * h * h + 2 * h * f)
    cross = 2 * tokens * 4 * h * h
    assert dense_flops(T5, TRAINING, "encoder", 2) == encoder
    assert dense_flops(T5, TRAINING, "decoder", 2) == encoder + cross
    full = 4 * tokens * 512 * h
    assert core_flops(T5, TRAINING, "encoder", 2) == full
    # Causal over its own tokens, all of the encoder's.
    assert core_flops(T5, TRAINING, "decoder", 2) == full / 2 + full
    weights = unit_parameters(T5, "decoder", ONE) - unit_parameters(T5, "encoder", ONE)
    assert weights[0] == 4 * h * h + h


def test_the_first_decoder_layer_looks_up_its_tokens() -> None:
    first = unit_parameters(T5, "decoder-first", ONE)[0]
    assert first - unit_parameters(T5, "decoder", ONE)[0] == 32128 * 1024
    assert dense_flops(T5, TRAINING, "decoder-first") == dense_flops(
        T5, TRAINING, "decoder"
    )


def test_windows_attend_within_themselves_and_blocks_shrink() -> None:
    """49 tokens per window; every block has a quarter of the tokens, twice as wide."""
    for number, (tokens, h) in enumerate(
        [(3136, 320), (784, 640), (196, 1280), (49, 2560)], start=1
    ):
        kind = f"stage-{number}"
        assert core_flops(SWIN, IMAGES, kind) == 4 * tokens * 49 * h
        assert dense_flops(SWIN, IMAGES, kind) == 2 * tokens * 12 * h * h


def test_merging_belongs_to_the_first_layer_behind_it() -> None:
    merge = dense_flops(SWIN, IMAGES, "stage-2-first") - dense_flops(
        SWIN, IMAGES, "stage-2"
    )
    assert merge == 2 * 784 * (4 * 320) * 640
    weights = unit_parameters(SWIN, "stage-2-first", ONE) - unit_parameters(
        SWIN, "stage-2", ONE
    )
    # The matrix without bias, and a LayerNorm of four tokens.
    assert weights[0] == 4 * 320 * 640 + 2 * 4 * 320


def test_patches_are_projected_and_sequences_classified() -> None:
    images = Training(global_batch=8, seq_len=196)
    assert dense_flops(VIT, images, EMBEDDING, 3) == 2 * 3 * 196 * 768 * 1280
    assert dense_flops(VIT, images, HEAD, 3) == 2 * 3 * 1280 * 1000
    embedding = unit_parameters(VIT, EMBEDDING, np.array([1, 2]))
    assert embedding.tolist() == [1280 * (768 + 1 + 197)] * 2
    assert unit_parameters(VIT, HEAD, ONE)[0] == 1280 * 1000 + 1000 + 2 * 1280


def test_tokens_between_layers_are_padded_to_whole_shares() -> None:
    """The 49 tokens of Swin's last block do not split in two."""
    whole, half = (
        activation_bytes(SWIN, IMAGES, "stage-4", shape((1, 1, tp)), "full")[0]
        for tp in (1, 2)
    )
    assert whole == 2 * 49 * 2560
    assert half == 2 * 25 * 2560


@pytest.mark.parametrize("policy", RECOMPUTE)
def test_a_layer_with_a_context_keeps_and_needs_more(policy: Recompute) -> None:
    rows = shape((2, 1, 1), (2, 1, 4))
    for evaluate in (activation_bytes, temporary_bytes):
        plain, more, first = (
            evaluate(T5, TRAINING, kind, rows, policy)
            for kind in ("encoder", "decoder", "decoder-first")
        )
        assert (more >= plain).all()
        assert (first >= more).all() or policy == "full"
    kept = activation_bytes(T5, TRAINING, "decoder", rows, "full")
    # Its input and the context.
    assert kept.tolist() == [2 * 2 * 512 * 1024 * 2, 2 * 2 * 512 * 1024 * 2 / 4]


def of(model: Model, training: Training, accelerator: str = "A100-80GB") -> Problem:
    cluster = make_cluster(accelerator=accelerator, nodes=1)
    return make_problem((cluster,), model, training)


def test_cuts_of_the_decoder_carry_the_context_too() -> None:
    problem = of(T5, TRAINING)
    one = 4 * 512 * 1024 * 2
    assert boundary_bytes(problem, 2, "encoder") == one
    assert boundary_bytes(problem, 2, "decoder+encoder") == 2 * one
    rows = shape((4, 1, 1))
    assert fixed_bytes(T5, TRAINING, rows)[0] == 4 * 2 * one


def test_cuts_of_swin_shrink() -> None:
    problem = of(SWIN, IMAGES)
    sizes = [boundary_bytes(problem, 8, f"stage-{n}") for n in (1, 2, 3, 4)]
    assert sizes == [2 * 3136 * 320 / 2**n for n in range(4)]


def test_three_copies_of_a_table_are_reduced_around_a_ring() -> None:
    problem = of(T5, TRAINING)
    assert tied_bytes(problem) == pytest.approx(4 / 3 * 32128 * 1024 * 4)


def test_no_context_parallelism_and_every_block_divides() -> None:
    for model, training, widest in ((T5, TRAINING, 8), (SWIN, IMAGES, 2)):
        table = build_table(of(model, training))
        strategies = table.at(1).clusters[0].strategies
        assert {strategy.cp for strategy in strategies} == {1}
        assert max(strategy.tp for strategy in strategies) == widest


def test_the_graph_of_t5_hands_the_context_to_every_layer() -> None:
    problem = of(T5, replace(TRAINING, schedule="gpipe", precision="fp32"))
    table = build_table(problem)
    graph = layer_graph(table, 2, 4)
    assert graph is not None
    edges = {(edge.first, edge.second): edge for edge in graph.edges}
    # Units: embedding, 24 encoder, 24 decoder, head.
    assert {first for first, second in edges if second == first + 1} == set(range(49))
    skips = sorted(pair for pair in edges if pair[1] > pair[0] + 1)
    assert skips == [(24, layer) for layer in range(26, 49)]
    context, chain = edges[24, 40], edges[30, 31]
    # Within a stage each is resharded; both are as large as an encoder's output.
    assert context.within_ns == edges[3, 4].within_ns == chain.within_ns
    assert max(map(max, context.within_ns)) > 0
    # Between stages the context crosses once, beside the decoder's own tensor.
    assert max(map(max, context.across_ns)) == 0
    both = table.cut_classes.index("decoder+encoder")
    layout = table.at(4).layouts.index(Layout(cluster=0, dp=1, shards=4))
    once = 2 * int(table.at(4).transfer_ns[both, layout, layout])
    names = graph.layers[0].strategies
    place = names.index("dp1-tp4")
    assert chain.across_ns[place][place] == once


def test_profiles_know_decoder_only_models_alone(tmp_path: Path) -> None:
    name, file = next(iter(profile_files().items()))
    source = ForestSource(file.read_text("utf-8"), name, cache=tmp_path)
    for model in (BERT, T5, VIT):
        with pytest.raises(InputError, match="only covers decoder-only models, but"):
            source.shard_times(
                query(
                    model, TRAINING, make_cluster(), model.units[:2], shape((1, 1, 1))
                )
            )


def test_automatic_sources_fall_back_to_operators() -> None:
    problem = of(T5, TRAINING)
    sources = latency_sources(problem)
    assert sources.source_kind(problem.clusters[0]) == "operators"
    named = replace(problem, latency={"a": "cpu-measured"})
    with pytest.raises(InputError, match=r"write latency: \{CLUSTER: auto\}"):
        build_table(named)


def test_unknown_kinds_are_refused() -> None:
    for model, kind in ((T5, "layer"), (T5, "encoder-first"), (BERT, "encoder")):
        with pytest.raises(ValueError, match=f"unknown unit kind '{kind}'"):
            unit_operations(model, TRAINING, kind, shape((1, 1, 1)))
