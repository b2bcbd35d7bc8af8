"""Build a model's experts and latent attention from their fields."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from hetopt.problem.building.wrong import FieldError, fault_at, raised_at
from hetopt.problem.model.experts import Experts
from hetopt.problem.model.latent import Latent

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hetopt.problem.document.document import FieldPath


def build_experts(
    fields: Mapping[str, Any] | None, layers: int, path: FieldPath
) -> Experts | None:
    """Return the experts of a model of ``layers`` layers; None without fields.

    Raises
    ------
    FieldError
        The fields contradict each other or the number of layers.
    """
    if fields is None:
        return None
    own = dict(fields)
    path = (*path, "experts")
    dense = own.pop("dense_layers", ())
    first = range(dense) if isinstance(dense, int) else dense
    every = own.pop("every", 1)
    if every > layers:
        msg = (
            f"is {every}, but layers is {layers}: no layer would be routed, expected "
            f"at most {layers}"
        )
        raise FieldError((*path, "every"), msg)
    if every > 1:
        between = {layer for layer in range(layers) if (layer + 1) % every}
        first = sorted({*first, *between})
    own["dense_layers"] = tuple(first)
    experts = raised_at(path, partial(Experts, **own))
    if fault := experts.fault(layers):
        raise fault_at(path, fault)
    return experts


def build_latent(fields: Mapping[str, Any] | None, path: FieldPath) -> Latent | None:
    """Return the sizes of latent attention; None if no fields are given.

    Raises
    ------
    FieldError
        A field has a value that it cannot have.
    """
    if fields is None:
        return None
    return raised_at((*path, "latent"), partial(Latent, **fields))
