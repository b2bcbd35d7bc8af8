"""The files FlagScale starts from: an experiment, its training part, the hosts.

FlagScale joins ``system``, ``model`` and ``data`` of the training part to arguments of
Megatron-LM, whatever mappings they stand in; a null would become the text None, so what
does not apply is left out.
"""

from __future__ import annotations

from itertools import groupby, pairwise
from typing import TYPE_CHECKING, Any

import yaml

from hetopt.export.flagscale_losses import shards_optimizer
from hetopt.export.labels import labels
from hetopt.export.scripts import MASTER_PORT, visible_devices

if TYPE_CHECKING:
    from hetopt.export.job import Job
    from hetopt.export.placing import Node

#: Name of the experiment's file, without its ending.
EXPERIMENT = "experiment"

Data = dict[str, Any]


def mesh_labels(job: Job) -> tuple[str, ...]:
    """Return the device type of each run of stages.

    Ranks are sorted by the first place of their type, so neighbours of one cluster
    share a type, and a cluster that comes again later has another one.
    """
    spelled = labels(cluster.name for cluster in job.problem.clusters)
    used: list[str] = []
    found: list[str] = []
    clusters = [job.stages[first].cluster for first, _ in job.runs]
    for name, run in groupby(clusters):
        label, number = spelled[name], 1
        while label in used or (number > 1 and label in spelled.values()):
            number += 1
            label = f"{spelled[name]}.{number}"
        used.append(label)
        found += [label] * len(list(run))
    return tuple(found)


def uses_host(job: Job) -> bool:
    """Whether some neighbours reach each other through their hosts' memory."""
    return any(
        job.problem.links.between(before.cluster, after.cluster).staged == "host"
        for before, after in pairwise(job.stages)
        if before.cluster != after.cluster
    )


def experiment(job: Job) -> str:
    """Return the experiment's YAML."""
    largest = max(node.slots for node in job.placement.nodes)
    envs: Data = {
        "CUDA_VISIBLE_DEVICES": _devices(largest),
        "CUDA_DEVICE_MAX_CONNECTIONS": 1,
    }
    # FlagScale starts no more processes on a host than the first list has devices.
    others: Data = {}
    for node, label in zip(job.placement.nodes, _node_labels(job), strict=True):
        variable = visible_devices(job, node)
        each = _cluster_devices(job, node)
        if variable not in envs or each < largest:
            others[label] = {variable: _devices(each)}
    if others:
        envs["device_type_specific"] = others
    return _text(
        "FlagScale experiment; see README.md for how to start it.",
        {
            "defaults": ["_self_", {"train": "plan"}],
            "experiment": {
                "exp_name": labels([job.problem.name])[job.problem.name],
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


def train(job: Job) -> str:
    """Return the training part's YAML."""
    return _text(
        "What to train and how. Yours to change: data, optimizer.lr and its schedule, "
        "train_iters.",
        {"system": _system(job), "model": _model(job), "data": _data(job)},
    )


def hostfile(job: Job) -> str:
    """Return hosts in rank order with their processes and device types."""
    return "".join(
        f"{node.host} slots={node.slots} type={label}\n"
        for node, label in zip(job.placement.nodes, _node_labels(job), strict=True)
    )


def launch_script() -> str:
    """Return the script that hands this folder to FlagScale's ``run.py``."""
    return (
        "#!/usr/bin/env bash\n"
        "# Run FlagScale on this folder: ./launch.sh dryrun|run|stop\n"
        "set -euo pipefail\n"
        'here="$(cd "$(dirname "$0")" && pwd)"\n'
        # Hydra reads quotes of its own, which paths with spaces need.
        "# As Hydra reads it between its own quotes.\n"
        'quoted="$(sed "s/\'/\\\\\\\\\'/g" <<< "$here")"\n'
        'cd "${FLAGSCALE:?is the folder of run.py of FlagScale}"\n'
        'exec python run.py --config-path="$here/conf" '
        f"--config-name={EXPERIMENT} \\\n"
        "  \"experiment.runner.hostfile='$quoted/hostfile'\" \\\n"
        '  "experiment.exp_dir=\'$quoted/outputs\'" action="${1:-dryrun}"\n'
    )


def _system(job: Job) -> Data:
    training, first = job.problem.training, job.stages[0].strategy
    types = mesh_labels(job)
    meshes: list[int] = []
    for begin, end in job.runs:
        strategy = job.stages[begin].strategy
        meshes += [strategy.tp, strategy.cp, 1, strategy.dp, end - begin]
    data: Data = {
        "tensor_model_parallel_size": first.tp,
        "pipeline_model_parallel_size": len(job.stages),
        "context_parallel_size": 1,
        "sequence_parallel": any(stage.strategy.tp > 1 for stage in job.stages),
        "use_distributed_optimizer": shards_optimizer(job),
        "overlap_grad_reduce": training.overlap_gradients,
        "use_flash_attn": True,
        "hetero": {
            "enable_hetero": True,
            "hetero_process_meshes": meshes,
            "hetero_pipeline_layer_split": list(job.layers or ()),
            "hetero_device_types": list(types),
            "hetero_current_device_type": types[0],
            "hetero_use_cpu_communication": uses_host(job),
            "standalone_embedding_stage": False,
        },
    }
    if job.problem.model.tied and shards_optimizer(job):
        data["hetero"]["use_partial_reduce_for_shared_embedding"] = (
            first.dp != job.stages[-1].strategy.dp
        )
    if training.precision != "fp32":
        data["precision"] = {
            training.precision: True,
            "attention_softmax_in_fp32": True,
            "accumulate_allreduce_grads_in_fp32": True,
        }
    if recompute := _recompute(job):
        data["recompute"] = recompute
    data["logging"] = {"log_interval": 1, "log_throughput": True}
    data["checkpoint"] = {"save_interval": 1000}
    return data


def _recompute(job: Job) -> Data:
    used = [stage.strategy.recompute for stage in job.stages]
    if set(used) == {"none"}:
        return {}
    if set(used) == {"selective"}:
        return {"recompute_granularity": "selective"}
    data: Data = {
        "recompute_granularity": "full",
        "recompute_method": "uniform",
        "recompute_num_layers": 1,
    }
    if set(used) == {"full"}:
        return data
    rows = [(policy, len(list(run))) for policy, run in groupby(used)]
    q = job.microbatches
    return data | {
        "recompute_granularity_per_stage_micro_batch": [
            [stages, q, int(policy == "full")] for policy, stages in rows
        ],
        # 0: uniform, each layer by itself.
        "recompute_method_per_stage_micro_batch": [[n, q, 0] for _, n in rows],
        "recompute_num_layers_per_stage_micro_batch": [[n, q, 1] for _, n in rows],
    }


def _model(job: Job) -> Data:
    model, training = job.problem.model, job.problem.training
    data: Data = {
        "num_layers": model.layers,
        "hidden_size": model.hidden,
        "ffn_hidden_size": model.ffn,
        "num_attention_heads": model.heads,
        "kv_channels": model.head_dim,
    }
    if model.kv_heads != model.heads:
        data |= {"group_query_attention": True, "num_query_groups": model.kv_heads}
    data |= {
        "seq_length": training.seq_len,
        "max_position_embeddings": max(model.positions, training.seq_len),
        "position_embedding_type": "learned_absolute" if model.positions else "rope",
        "normalization": "RMSNorm" if model.norm == "rms" else "LayerNorm",
        # Models with RMSNorm have no biases, as hetopt counts them.
        "disable_bias_linear": model.norm == "rms",
        "swiglu": model.gated,
        "untie_embeddings_and_output_weights": not model.tied,
        "attention_dropout": 0.0,
        "hidden_dropout": 0.0,
        "global_batch_size": training.global_batch,
        "micro_batch_size": job.microbatch_size(job.stages[0]),
        "train_iters": 100,
        "eval_iters": 0,
        "seed": 1234,
        "optimizer": {"optimizer": training.optimizer, "lr": 0.0001, "clip_grad": 1.0},
    }
    return data


def _data(job: Job) -> Data:
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
    types = mesh_labels(job)
    of_stage = {
        number: types[run]
        for run, (first, end) in enumerate(job.runs)
        for number in range(first, end)
    }
    ranks = job.placement.ranks
    return [of_stage[ranks[node.first_rank].stage] for node in job.placement.nodes]


def _cluster_devices(job: Job, node: Node) -> int:
    cluster = job.problem.clusters[job.problem.cluster_index(node.cluster)]
    return cluster.devices_per_node


def _devices(count: int) -> str:
    return ",".join(map(str, range(count)))


def _text(head: str, data: Data) -> str:
    body = yaml.safe_dump(
        data, sort_keys=False, default_flow_style=None, width=88, allow_unicode=True
    )
    return f"# {head}\n{body}"
