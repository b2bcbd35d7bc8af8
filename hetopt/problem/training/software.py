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

from hetopt.base.fields import Flag, Name, OneOf, Positive, name, unknown
from hetopt.base.record import Fault, record
from hetopt.problem.facts import AS_MEASURED, Accuracy, Sustained
from hetopt.problem.training.choices import Precision

if TYPE_CHECKING:
    from collections.abc import Mapping


@record
class Reached:
    """What a stack reaches on some devices in some precisions."""

    devices: tuple[Name, ...] = ()
    """Devices of the catalogue."""
    precisions: tuple[OneOf[Precision], ...] = ()
    """Those of ``training.precision``."""
    experts: Flag = False
    """Whether of models with experts, or of dense ones."""
    sustained: Sustained = AS_MEASURED
    """Shares of the rates of single kernels and of collectives that iterations reach.
    """
    tensor_overlapped: Positive | None = None
    """Share of the rate of tensor-parallel collectives with ``overlap_tensor``: above 1
    where multiplications hide a part of them. None: no run shows it."""
    sharding_beside: Flag = False
    """Whether ZeRO-2's and ZeRO-3's collectives run beside computation."""
    dispatch: Positive = 1.0
    """Share of the rate of all-to-alls at which experts' tokens are dispatched."""
    accuracy: Accuracy | None = None
    """Errors on runs that the fit had not seen; None: there are none."""
    source: str = ""
    """The runs, and how this was derived from them."""


@record
class Software:
    """A stack of training software, such as ``megatron-2026``."""

    name: Name
    """Its name in `hetopt catalog`."""
    about: str
    """What it is, in a sentence."""
    reached: tuple[Reached, ...]
    """What it reaches, by devices and precisions, which do not overlap."""

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


#: The field of a file that names a stack.
NamedSoftware = Annotated[
    Software | None,
    BeforeValidator(_named),
    WithJsonSchema({"type": "string", "examples": ["megatron-2026"]}),
]
