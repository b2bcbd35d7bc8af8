"""What Megatron-LM's settings recompute, under today's names and older ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetopt.base.words import describe
from hetopt.export.shared.megatron.numbers import whole

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hetopt.export.shared.megatron.numbers import Wrong
    from hetopt.problem.training.choices import Recompute

#: Names of the method and the number of layers: today's, then older ones.
_NAMES = (
    ("recompute_method", "recompute_num_layers"),
    ("activations_checkpoint_method", "activations_checkpoint_num_layers"),
)


def recompute_of(settings: Mapping[str, str], largest: int, wrong: Wrong) -> Recompute:
    """Return what every layer recomputes.

    Parameters
    ----------
    settings
        Names with underscores; settings that are off are left out.
    largest
        Layers of the largest stage.

    Raises
    ------
    InputError
        Some layers or other parts of a layer are recomputed, which hetopt cannot
        price, or Megatron-LM would refuse it.
    """
    name, modules = "recompute_granularity", "recompute_modules"
    old = _NAMES[1][0]
    given = settings.get(name)
    selective = given == "selective" or (
        given is None and "recompute_activations" in settings
    )
    if selective and settings.get(modules, "core_attn") != "core_attn":
        msg = f"is {describe(settings[modules])}, hetopt can price core_attn alone"
        raise wrong(modules, msg)
    if given == "full" or (given is None and old in settings):
        _check_whole(settings, largest, wrong)
        return "full"
    if given is not None and not selective:
        raise wrong(name, f"is {describe(given)}, expected full or selective")
    if "checkpoint_activations" in settings:
        # DeepSpeed's own way to do the same: looking it up keeps it out of the reports.
        settings.get("deepspeed_activation_checkpointing")
        number = whole(settings, "checkpoint_num_layers", wrong, 1)
        if number > 1:
            msg = f"is {number}: hetopt can price each layer from its own input alone"
            raise wrong("checkpoint_num_layers", msg)
        return "full"
    return "selective" if selective else "none"


def _check_whole(settings: Mapping[str, str], largest: int, wrong: Wrong) -> None:
    """Raise InputError unless every layer is recomputed from its own input."""
    names = next((pair for pair in _NAMES if pair[0] in settings), _NAMES[0])
    method = settings.get(names[0])
    if method not in ("uniform", "block"):
        what = "missing" if method is None else describe(method)
        raise wrong(names[0], f"is {what}, expected uniform or block")
    number = whole(settings, names[1], wrong, 1 if names is _NAMES[1] else None)
    if (method == "uniform" and number == 1) or (
        method == "block" and number >= largest
    ):
        return
    msg = (
        f"{method} {number} does not recompute every layer from its own input: hetopt "
        f"can price only uniform 1 and block {largest}"
    )
    raise wrong(names[1], msg)
