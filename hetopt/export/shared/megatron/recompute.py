"""What Megatron-LM's settings recompute, under today's names and older ones."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING

from hetopt.base.words import describe
from hetopt.export.shared.megatron.numbers import whole
from hetopt.problem.training.choices import MODULES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hetopt.errors import InputError
    from hetopt.export.shared.megatron.numbers import Wrong
    from hetopt.export.shared.shell.arguments import ShellArguments
    from hetopt.plans.strategy import Strategy
    from hetopt.problem.problem import Problem
    from hetopt.problem.training.choices import Recompute

#: Names of the method and the number of layers: today's, then older ones.
_NAMES = (
    ("recompute_method", "recompute_num_layers"),
    ("activations_checkpoint_method", "activations_checkpoint_num_layers"),
)
#: The module that Megatron-core recomputes unless it is told otherwise.
_CORE = "core_attn"


def recompute_of(arguments: ShellArguments, largest: int) -> Recompute:
    """Return what every layer recomputes.

    Parameters
    ----------
    arguments
        Those that are off are left out.
    largest
        Layers of the largest stage.

    Raises
    ------
    InputError
        Some layers or several modules are recomputed, which hetopt cannot price, or
        Megatron-LM would refuse it.
    """
    settings, wrong = arguments.values, arguments.wrong
    name, modules = "recompute_granularity", "recompute_modules"
    old = _NAMES[1][0]
    given = settings.get(name)
    selective = given == "selective" or (
        given is None and "recompute_activations" in settings
    )
    if selective:
        listed = arguments.lists.get(modules, ())
        given = " ".join(listed) or settings.get(modules, _CORE)
        return _module(given, partial(wrong, modules))
    if given == "full" or (given is None and old in settings):
        _check_whole(settings, largest, wrong)
        return "full"
    if given is not None:
        raise wrong(name, f"is {describe(given)}, expected full or selective")
    if "checkpoint_activations" in settings:
        # DeepSpeed's own way to do the same: looking it up keeps it out of the reports.
        settings.get("deepspeed_activation_checkpointing")
        number = whole(settings, "checkpoint_num_layers", wrong, 1)
        if number > 1:
            msg = f"is {number}: hetopt can price each layer from its own input alone"
            raise wrong("checkpoint_num_layers", msg)
        return "full"
    return "none"


def recompute_fits(strategy: Strategy, problem: Problem) -> bool:
    """Whether Megatron-core recomputes so: not in FP8 whose scales are delayed."""
    delayed = problem.training.precision == "fp8"
    return not (delayed and strategy.recompute in ("layernorm", "moe_act"))


def recompute_settings(policy: Recompute) -> dict[str, str | int]:
    """Return the settings of one recomputation policy for all stages."""
    if policy == "none":
        return {}
    granularity = "full" if policy == "full" else "selective"
    settings: dict[str, str | int] = {"recompute_granularity": granularity}
    if policy == "full":
        # Every layer by itself.
        settings |= {"recompute_method": "uniform", "recompute_num_layers": 1}
    elif policy != "selective":
        settings["recompute_modules"] = policy
    return settings


def _module(given: str, wrong: Callable[[str], InputError]) -> Recompute:
    """Return what a list of modules recomputes, which has to have one."""
    known: dict[str, Recompute] = {_CORE: "selective", **{m: m for m in MODULES}}
    # Words of the shell, such as "$@", may follow.
    named = [word for word in re.split(r"[\s,]+", given) if word.isidentifier()]
    if len(named) == 1 and named[0] in known:
        return known[named[0]]
    raise wrong(f"is {describe(given)}, hetopt can price one of {', '.join(known)}")


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
