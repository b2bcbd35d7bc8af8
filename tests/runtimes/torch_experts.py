"""Routed experts as textbooks have them: every expert on every token, then weighted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hetopt.plans.strategy import Strategy
    from hetopt.problem.model.model import Model

#: Matrices of routed experts; those of shared ones are ``mlp.shared.NAME``.
_MATRICES = ("mlp.gate", "mlp.up", "mlp.down")


def is_routed(name: str) -> bool:
    """Whether a parameter is one of routed experts."""
    return name.endswith(_MATRICES)


def whole_experts(name: str, parts: list[Any], strategy: Strategy) -> Any:
    """Put the experts of all ranks of a stage together, (experts, outputs, inputs)."""
    import torch

    ep, etp = strategy.ep, strategy.etp
    split = 2 if name.endswith("down") else 1
    once = [
        torch.cat(
            [
                torch.cat(parts[first + etp * own : first + etp * (own + 1)], split)
                for own in range(ep)
            ]
        )
        for first in range(0, len(parts), ep * etp)
    ]
    for other in once[1:]:
        torch.testing.assert_close(other, once[0])
    return once[0]


def mixture(x: Any, weights: dict[str, Any], at: str, model: Model) -> Any:
    """Return what a mixture of experts makes of (sequences, tokens, h)."""
    experts = model.experts
    assert experts is not None

    def mlp(up: Any, gate: Any, down: Any) -> Any:
        inner = x @ up.T
        if gate is not None:
            return (inner * (x @ gate.T) * (x @ gate.T).sigmoid()) @ down.T
        return (inner * 0.5 * (1 + (inner / 2**0.5).erf())) @ down.T

    logits = x @ weights[f"{at}.router"].T + weights.get(f"{at}.router_bias", 0)
    scores = logits.sigmoid() if experts.scores == "sigmoid" else logits.softmax(-1)
    open_to = scores.detach().clone()
    if experts.groups:
        each = experts.per_token // experts.groups_per_token
        size = experts.number // experts.groups
        ranked = open_to.unflatten(-1, (experts.groups, size)).sort(-1, descending=True)
        worth = ranked.values[..., :each].sum(-1)
        least = worth.sort(-1, descending=True).values
        least = least[..., experts.groups_per_token - 1 : experts.groups_per_token]
        open_to[(worth < least).repeat_interleave(size, -1)] = -1
    least = open_to.sort(-1, descending=True).values
    least = least[..., experts.per_token - 1 : experts.per_token]
    chosen = scores * (open_to >= least)
    if experts.normalised:
        chosen = chosen / chosen.sum(-1, keepdim=True)
    found = 0
    for number in range(experts.number):
        up, gate, down = (
            weights[f"{at}.{name}"][number] if f"{at}.{name}" in weights else None
            for name in ("up", "gate", "down")
        )
        found = found + experts.scale * chosen[..., number, None] * mlp(up, gate, down)
    if experts.shared_ffn:
        up, gate, down = (
            weights.get(f"{at}.shared.{name}") for name in ("up", "gate", "down")
        )
        all_pass = mlp(up, gate, down)
        if experts.shared_gate:
            all_pass = all_pass * (x @ weights[f"{at}.shared.weight"].T).sigmoid()
        found = found + all_pass
    return found
