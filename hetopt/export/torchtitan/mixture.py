"""Routed experts as TorchTitan 0.3 builds them, in the blocks of its Qwen3.

Expert parallelism uses the ranks of FSDP, cp and tp, the nearest first, as in hetopt.
With ep > 1 experts are whole; with ep 1, tp cuts them like any MLP. etp is no separate
degree. Sources: ``models/common/moe.py``, ``moe_sharding.py``, ``config_utils.py``,
``models/qwen3`` and ``distributed/parallel_dims.py`` of 0.3.0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetopt.export.launcher import Loss
from hetopt.export.shared.losses import dropless_losses, part_losses
from hetopt.export.shared.one_mesh import expert_degrees, expert_job_losses

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hetopt.export.job import Job
    from hetopt.export.launcher import Part
    from hetopt.problem.model.experts import Experts
    from hetopt.problem.model.model import Model

_TRAINED: tuple[Part, ...] = ("experts",)
#: The default coefficient of load balancing by a bias for each expert.
_COEFFICIENT = 1e-3

_FUNCTION = """

def mixture(deep):
    return make_moe_config(
        num_experts={number},
        load_balance_coeff={balance},
        router=make_router_config(
            dim=HIDDEN,
            num_experts={number},
            gate_param_init=normal(0.02),
            top_k={per_token},
            score_func={scores!r},
            route_norm={normalised},
            route_scale={scale!r},
            num_expert_groups={groups},
            num_limited_groups={groups_per_token},
            bias={bias},
        ),
        routed_experts=make_routed_experts_config(
            dim=HIDDEN,
            hidden_dim={ffn},
            num_experts={number},
            top_k={per_token},
            param_init={{
                "w1_EFD": normal(0.02)["weight"],
                "w2_EDF": deep["weight"],
                "w3_EFD": normal(0.02)["weight"],
            }},
            comm_backend="standard",
        ),
{shared}    )
"""
_SHARED = """\
        shared_experts=make_ffn_config(
            dim=HIDDEN,
            hidden_dim={width},
            w1_param_init=normal(0.02),
            w2w3_param_init=deep,
        ),
"""


def mixture_function(experts: Experts) -> str:
    """Return the function of a program that makes a layer's experts."""
    balanced = balances(experts)
    width = experts.shared_ffn
    return _FUNCTION.format(
        number=experts.number,
        balance=_COEFFICIENT if balanced else None,
        per_token=experts.per_token,
        scores=experts.scores,
        normalised=experts.normalised,
        scale=experts.scale,
        groups=experts.groups or None,
        groups_per_token=experts.groups_per_token or None,
        bias=experts.router_bias and not balanced,
        ffn=experts.ffn,
        shared=_SHARED.format(width=width) if width else "",
    )


def mlp_arguments(model: Model, dense: str) -> str:
    """Return the arguments of a layer that make its MLP.

    Parameters
    ----------
    dense
        The call that makes a dense MLP.
    """
    if model.experts is None:
        return f"        feed_forward={dense},\n"
    if not model.experts.dense_layers:
        return "        moe=mixture(deep),\n"
    return (
        f"        feed_forward={dense}\n        if number in DENSE\n"
        "        else None,\n"
        "        moe=None if number in DENSE else mixture(deep),\n"
    )


def balances(experts: Experts) -> bool:
    """Whether the router balances loads by a bias for each expert."""
    return experts.router_bias and experts.scores == "sigmoid"


def mixture_losses(job: Job) -> Iterator[Loss]:
    """Yield what TorchTitan cannot do of a plan with routed experts."""
    model, training = job.problem.model, job.problem.training
    yield from part_losses(model, _TRAINED)
    experts = model.experts
    if experts is None:
        return
    yield from expert_job_losses(job)
    yield from _degree_losses(job)
    if experts.shared_gate:
        yield Loss("experts.shared_gate: it adds the shared experts' result as it is")
    if experts.weighted_input:
        yield Loss("experts.weighted_input: it weighs what experts return")
    if experts.groups and experts.number // experts.groups < 2:
        yield Loss(
            f"experts.groups {experts.groups}: a group needs at least two experts"
        )
    yield from dropless_losses(training.moe)
    if training.precision in ("fp32", "fp8"):
        yield Loss(
            f"routed experts in {training.precision}: it multiplies theirs in bf16",
            instead="bf16 there",
        )


def _degree_losses(job: Job) -> Iterator[Loss]:
    """Yield (ep, etp) that its meshes do not have."""
    ep, etp = expert_degrees(job)
    strategy = job.stages[0].strategy
    if ep > 1 and etp > 1:
        yield Loss(
            f"experts that are spread (ep {ep}) and cut (etp {etp}): those that "
            "are spread are whole (to plan so, pin etp: 1)"
        )
    if ep == 1 and etp != strategy.tp:
        yield Loss(
            f"ep 1 and etp {etp} with tp {strategy.tp}: tp cuts experts that are "
            "not spread (to plan so, pin etp to tp, or ep to more than 1)"
        )
    inside = strategy.cp * strategy.tp
    if max(job.zero_stages) == 0 and inside % ep:
        yield Loss(
            f"ZeRO 0 with experts over {ep} ranks: they fold the ranks of FSDP, "
            f"cp and tp, and without FSDP these are {inside}"
        )
