"""The files FlagScale starts from: an experiment, its training settings, the hosts.

FlagScale turns the keys below ``system``, ``model`` and ``data`` of the training
settings, at any depth, into arguments of Megatron-LM. A null would become the text
None, so settings that do not apply are left out.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import groupby, pairwise
from typing import TYPE_CHECKING

import yaml

from hetopt.export.flagscale.losses import shards_optimizer
from hetopt.export.job import MASTER_PORT
from hetopt.export.shared.megatron.architecture import flagscale_model
from hetopt.export.shared.megatron.common import one_mesh_settings
from hetopt.export.shared.megatron.model import (
    kernel_settings,
    model_settings,
    stored_precision,
)
from hetopt.export.shared.megatron.recompute import recompute_settings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hetopt.export.job import Job
    from hetopt.export.shared.megatron.model import Arguments

_LAUNCH = """\
#!/usr/bin/env bash
# Run FlagScale on this folder: ./launch.sh dryrun|run|stop
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
# As Hydra reads it between its own quotes.
quoted=${here//\\'/\\\\\\'}
cd "${FLAGSCALE:?is the folder of run.py of FlagScale}"
exec python run.py --config-path="$here/conf" --config-name=experiment \\
  "experiment.runner.hostfile='$quoted/hostfile'" \\
  "experiment.exp_dir='$quoted/outputs'" action="${1:-dryrun}"
"""


def files(job: Job) -> Mapping[str, str]:
    """Return both YAML files, hosts with device types, and a script."""
    return {
        "conf/experiment.yaml": _experiment(job),
        "conf/train/plan.yaml": _text(
            "What to train and how. Yours to change: data, optimizer.lr and its "
            "schedule, train_iters.",
            {"system": _system(job), "model": _model(job), "data": _data(job)},
        ),
        "hostfile": "".join(
            f"{node.host} slots={node.slots} type={label}\n"
            for node, label in zip(job.placement.nodes, _node_labels(job), strict=True)
        ),
        "launch.sh": _LAUNCH,
    }


def uses_host(job: Job) -> bool:
    """Whether some neighbouring stages communicate through host memory."""
    links = [
        job.problem.links.between(before.cluster, after.cluster)
        for before, after in pairwise(job.stages)
        if before.cluster != after.cluster
    ]
    return any(link is not None and link.staged == "host" for link in links)


def _stage_labels(job: Job) -> list[str]:
    """Return the device type of each stage.

    FlagScale sorts ranks by where their type first occurs. So neighbours on one
    cluster share a type, and a cluster that occurs again later gets another type.
    """
    spelled = job.cluster_labels
    found: list[str] = []
    for name, run in groupby(stage.cluster for stage in job.stages):
        label, number = spelled[name], 1
        while label in found or (number > 1 and label in spelled.values()):
            number += 1
            label = f"{spelled[name]}.{number}"
        found += [label] * len(list(run))
    return found


def _experiment(job: Job) -> str:
    """Return the YAML of the experiment."""
    largest = max(node.slots for node in job.placement.nodes)
    envs: Arguments = {
        "CUDA_VISIBLE_DEVICES": _devices(largest),
        "CUDA_DEVICE_MAX_CONNECTIONS": 1,
    }
    # FlagScale starts at most as many processes on a host as this list has devices.
    others: Arguments = {}
    for node, label in zip(job.placement.nodes, _node_labels(job), strict=True):
        variable = job.visible_devices(node)
        each = job.cluster_of(node).devices_per_node
        if variable not in envs or each < largest:
            others[label] = {variable: _devices(each)}
    if others:
        envs["device_type_specific"] = others
    return _text(
        "FlagScale experiment; see README.md for how to start it.",
        {
            "defaults": ["_self_", {"train": "plan"}],
            "experiment": {
                "exp_name": job.label,
                "exp_dir": "outputs",
                "task": {
                    "type": "train",
                    "backend": "megatron",
                    "entrypoint": "./flagscale/train/train_gpt.py",
                },
                "runner": {
                    "backend": "torchrun",
                    "nnodes": len(job.placement.nodes),
                    "hostfile": "hostfile",
                    "rdzv_backend": "static",
                    "master_addr": job.placement.nodes[0].host,
                    "master_port": MASTER_PORT,
                    "ssh_port": 22,
                },
                "envs": envs,
            },
            "action": "run",
            "hydra": {"run": {"dir": "${experiment.exp_dir}/hydra"}},
        },
    )


def _system(job: Job) -> Arguments:
    training, first = job.problem.training, job.stages[0].strategy
    data: Arguments = {
        "tensor_model_parallel_size": first.tp,
        "pipeline_model_parallel_size": len(job.stages),
        "context_parallel_size": 1,
        "sequence_parallel": training.sequence_parallel
        and any(stage.strategy.tp > 1 for stage in job.stages),
        "use_distributed_optimizer": shards_optimizer(job),
        "overlap_grad_reduce": training.overlap_gradients,
        "use_flash_attn": training.attention == "fused",
        **kernel_settings(training, max(stage.strategy.tp for stage in job.stages)),
        **(_meshes(job) if job.plan.chunks == 1 else one_mesh_settings(job)),
    }
    if training.precision != "fp32":
        data["precision"] = {
            stored_precision(training): True,
            "attention_softmax_in_fp32": True,
            "accumulate_allreduce_grads_in_fp32": training.gradients == "fp32",
        }
    if recompute := _recompute(job):
        data["recompute"] = recompute
    data["logging"] = {"log_interval": 1, "log_throughput": True}
    data["checkpoint"] = {"save_interval": 1000}
    return data


def _meshes(job: Job) -> Arguments:
    """Return a process mesh for each run of stages."""
    labels, first = _stage_labels(job), job.stages[0].strategy
    types = [labels[begin] for begin, _ in job.runs]
    used = [job.stages[begin].strategy for begin, _ in job.runs]
    meshes: list[int] = []
    for (begin, end), each in zip(job.runs, used, strict=True):
        meshes += [each.tp, each.cp, each.ep, each.dp, end - begin]
    hetero: Arguments = {
        "enable_hetero": True,
        "hetero_process_meshes": meshes,
        "hetero_pipeline_layer_split": list(job.layers or ()),
        "hetero_device_types": types,
        "hetero_current_device_type": types[0],
        "hetero_use_cpu_communication": uses_host(job),
        "standalone_embedding_stage": False,
    }
    if job.problem.model.tied and shards_optimizer(job):
        hetero["use_partial_reduce_for_shared_embedding"] = (
            first.dp != job.stages[-1].strategy.dp
        )
    if job.problem.model.experts is None:
        return {"hetero": hetero}
    hetero["expert_tensor_parallel_size_per_process_mesh"] = [each.etp for each in used]
    return {
        "expert_model_parallel_size": first.ep,
        "expert_tensor_parallel_size": first.etp,
        "hetero": hetero,
    }


def _recompute(job: Job) -> Arguments:
    used = [stage.strategy.recompute for stage in job.stages]
    if len(set(used)) == 1:
        return recompute_settings(used[0])
    rows = [(policy, len(list(run))) for policy, run in groupby(used)]
    q = job.microbatches
    return recompute_settings("full") | {
        "recompute_granularity_per_stage_micro_batch": [
            [stages, q, int(policy == "full")] for policy, stages in rows
        ],
        # 0: uniform, each layer by itself.
        "recompute_method_per_stage_micro_batch": [[n, q, 0] for _, n in rows],
        "recompute_num_layers_per_stage_micro_batch": [[n, q, 1] for _, n in rows],
    }


def _model(job: Job) -> Arguments:
    training = job.problem.training
    # FlagScale sends all copies of a token, even if the problem says otherwise.
    moe = replace(training.moe, node_dedup=False, dispatcher=None)
    sent = replace(job.problem, training=replace(training, moe=moe))
    settings = model_settings(sent, flagscale_model)
    if "moe_layer_freq" in settings:
        # FlagScale starts the program through a shell, which would read parentheses.
        settings["moe_layer_freq"] = settings["moe_layer_freq"].strip("()")
    return {
        **settings,
        "global_batch_size": training.global_batch,
        "micro_batch_size": job.microbatch_size(job.stages[0]),
        "train_iters": 100,
        "eval_iters": 0,
        "seed": 1234,
        "optimizer": {"optimizer": training.optimizer, "lr": 0.0001, "clip_grad": 1.0},
    }


def _data(job: Job) -> Arguments:
    dp = [stage.strategy.dp for stage in (job.stages[0], job.stages[-1])]
    tied = job.problem.model.tied and shards_optimizer(job)
    return {
        "mock_data": True,
        "tokenizer": {
            "tokenizer_type": "NullTokenizer",
            # It adds one token, the end of a document.
            "vocab_size": job.problem.model.vocab - 1,
            # Each replica reduces its share of the rows of a tied table.
            "make_vocab_size_divisible_by": max(dp) if tied else 1,
        },
    }


def _node_labels(job: Job) -> list[str]:
    """Return the device type of each host."""
    labels, ranks = _stage_labels(job), job.placement.ranks
    return [labels[ranks[node.first_rank].stage] for node in job.placement.nodes]


def _devices(count: int) -> str:
    return ",".join(map(str, range(count)))


def _text(head: str, data: Arguments) -> str:
    body = yaml.safe_dump(
        data, sort_keys=False, default_flow_style=None, width=88, allow_unicode=True
    )
    return f"# {head}\n{body}"
