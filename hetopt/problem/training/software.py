"""Software that trains: what it reaches of a device, fitted to published iterations.

The same layout on the same device takes different times under different programs: they
fuse other kernels, hide other collectives, and reduce gradients in another precision.
Each stack that ships (``data/software``) states what was read off published iterations,
by devices and precisions, which runs these were, and how far it was off on runs that no
fit had seen (``benchmarks.published_runs``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BeforeValidator, ValidationInfo, WithJsonSchema

from hetopt.base.faults import Fault
from hetopt.base.fields import Flag, Name, Number, name, unknown
from hetopt.base.record import record
from hetopt.problem.facts import AS_MEASURED, Accuracy, Share, Sustained
from hetopt.problem.training.choices import Gradients, Precision
from hetopt.problem.training.dispatch import Dispatcher

if TYPE_CHECKING:
    from collections.abc import Mapping


@record
class Reached:
    """What a stack reaches on some devices in some precisions.

    Attributes
    ----------
    devices, precisions
        Devices of the catalogue, and values of ``training.precision``.
    experts
        Whether of models with experts, or of dense ones.
    sustained
        Shares of the rates of single kernels and of collectives that iterations reach.
    tensor_overlapped
        Share of the rate of tensor-parallel collectives with ``overlap_tensor``: above
        1 where multiplications hide a part of them. None: no run shows it.
    sharding_beside
        Whether ZeRO-2's and ZeRO-3's collectives run beside computation.
    dispatch
        Share of the rate of all-to-alls at which experts' tokens are dispatched.
    dispatcher
        With what they were in its runs.
    host_s
        Least seconds of a layer with experts, forward and backward: what a host takes
        to start its kernels. 0: whole iterations are graphs, or no run shows it.
    accuracy
        Errors on runs that the fit had not seen; None: there are none.
    source
        The runs, and how this was derived from them.
    """

    devices: tuple[Name, ...] = ()
    precisions: tuple[Precision, ...] = ()
    experts: Flag = False
    sustained: Sustained = AS_MEASURED
    tensor_overlapped: Share | None = None
    sharding_beside: Flag = False
    dispatch: Share = 1.0
    dispatcher: Dispatcher = "alltoall"
    host_s: Number = 0.0
    accuracy: Accuracy | None = None
    source: str = ""


@record
class Software:
    """A stack of training software, such as ``megatron-2026``.

    Attributes
    ----------
    name
        Its name in `hetopt catalog`.
    about
        What it is, in a sentence.
    reached
        What it reaches, by devices, precisions and models, which do not overlap.
    gradients
        Precision of gradients beside weights in 16 bits, where a problem does not give
        its own; None: fp32, as without software.
    overlap_tensor
        Whether tensor parallelism's collectives of dense models run beside
        multiplications, where a problem does not say it.
    launchers
        Those whose problems have this software unless they name another.
    casts_again
        Whether multiplications in FP8 and below keep inputs in 16 bits for the backward
        pass and cast them again there (torchao), and not what they multiplied.
    """

    name: Name
    about: str
    reached: tuple[Reached, ...]
    gradients: Gradients | None = None
    overlap_tensor: Flag = False
    launchers: tuple[Name, ...] = ()
    casts_again: Flag = False

    def on(
        self, device: str | None, precision: Precision, *, experts: bool
    ) -> Reached | None:
        """Return what it reaches on a device, and None if no published run shows it.

        Parameters
        ----------
        device
            ``Accelerator.known_as``.
        experts
            Whether the model has any.
        """
        return next(
            (
                each
                for each in self.reached
                if device in each.devices
                and precision in each.precisions
                and each.experts == experts
            ),
            None,
        )


def _named(value: Any, info: ValidationInfo) -> Any:
    """Return the stack of the catalogue that a file names."""
    if value is None or info.context is None or isinstance(value, Software):
        return value
    known: Mapping[str, Software] = info.context.software()
    wanted = name(value)
    if wanted not in known:
        raise Fault(unknown(wanted, "a software stack of the catalogue", known))
    return known[wanted]


def of_software(given: Mapping[str, Any], files: Any) -> dict[str, Any]:
    """Return what the software that a section names says where the section does not.

    Parameters
    ----------
    given
        The training section.
    files
        Readers of what it names: ``hetopt.problem.files.Files``.
    """
    named, precision = given.get("software"), given.get("precision", "bf16")
    stack = files.software().get(named) if isinstance(named, str) else None
    if stack is None or not stack.gradients or precision in ("fp16", "fp32"):
        return {}
    return {"gradients": stack.gradients}


#: The field of a file that names a stack.
NamedSoftware = Annotated[
    Software | None,
    BeforeValidator(_named),
    WithJsonSchema({"type": "string", "examples": ["megatron-2026"]}),
]
