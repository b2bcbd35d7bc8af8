"""Reads an experiment of FlagScale without meshes, as Megatron-LM's settings."""

from __future__ import annotations

from dataclasses import replace
from pathlib import PurePath
from typing import TYPE_CHECKING

from hetopt.export.shared.hosts import on_first_hosts, rank_hosts
from hetopt.export.shared.megatron.arguments import FLAGSCALE
from hetopt.export.shared.megatron.chunks import chunk_notes
from hetopt.export.shared.megatron.pipeline import pipeline_of
from hetopt.export.shared.megatron.says import notes
from hetopt.export.shared.shell.arguments import ShellArguments

if TYPE_CHECKING:
    from hetopt.export.flagscale.experiment import Experiment
    from hetopt.export.pipeline import PipelineReadBack
    from hetopt.export.shared.hosts import RankHosts


def read_one_mesh(found: Experiment) -> PipelineReadBack:
    """Read an experiment whose stages all have the same degrees.

    Raises
    ------
    InputError
        Megatron-LM would refuse it, hetopt cannot price it, or it does not tell how
        many ranks there are.
    """
    train = found.train
    values = train.texts()
    arguments = ShellArguments(file=train.file, values=values, complaint=train.wrong)
    train.number("num_layers")
    places = _places(found)
    world = len(places) if places is not None else _world(found)
    pipeline = pipeline_of(arguments, world, places, found.folder)
    reported = (
        *chunk_notes(arguments, pipeline),
        *notes(values, train.wrong),
        *FLAGSCALE.report(values.left()),
    )
    return replace(pipeline, reported=reported)


def _places(found: Experiment) -> RankHosts | None:
    """Return the hosts of ranks, on the first ``nnodes`` hosts if that is given."""
    name, nodes = found.hostfile(), found.nodes()
    places = rank_hosts(found.folder, None if name is None else PurePath(name).name)
    if places is None or nodes is None:
        return places
    return on_first_hosts(places, nodes)


def _world(found: Experiment) -> int:
    """Return the number of ranks that the runner's settings give."""
    runner = found.section("runner")
    visible = found.section("envs").get("CUDA_VISIBLE_DEVICES")
    each = runner.get("nproc_per_node")
    if each is None and visible is not None:
        each = len(str(visible).split(","))
    nodes = runner.get("nnodes", 1)
    if type(each) is int and type(nodes) is int and each * nodes > 0:
        return each * nodes
    msg = (
        "is left out, and the hostfile is not in the folder: hetopt cannot tell how "
        "many ranks there are (write experiment.runner.nproc_per_node)"
    )
    raise found.train.wrong("nproc_per_node", msg)
