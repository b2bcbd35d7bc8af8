"""The measured operators that are used for an accelerator, class by class.

They are its own, or for a class that it lacks those of its nearest relative
(``Accelerator.relatives``), whose efficiencies are used: times relative to the measured
device's peak and bandwidth.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from hetopt.cost.forests.kept import Lesson
from hetopt.cost.operators.file import OperatorProfile, accelerator_of, parse_operators
from hetopt.cost.operators.work import SETTINGS, Rates, samples_of_rows
from hetopt.cost.profiles.csv_text import header_of
from hetopt.errors import InputError
from hetopt.problem.catalogue import accelerators, operator_files
from hetopt.problem.quantity import parse_bandwidth, parse_flops

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hetopt.cost.forests.forest import Samples
    from hetopt.cost.operators.file import OperatorRow
    from hetopt.cost.shapes import Floats
    from hetopt.problem.cluster.accelerator import Accelerator


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """Operators of one class, with their times.

    Attributes
    ----------
    op
        The class.
    device, rates
        The measured device and its peak rates.
    name, text
        The file's name in error messages, and its content, which is parsed on demand.
    """

    op: str
    device: str
    rates: Rates
    name: str
    text: str

    @property
    def kind(self) -> str:
        """Origin of the file's times: measured, published or modelled."""
        return header_of(self.text)["kind"]

    @property
    def rows(self) -> tuple[OperatorRow, ...]:
        """The kernels and their times."""
        return tuple(
            row for row in _parsed(self.text, self.name).rows if row.op == self.op
        )

    @property
    def lesson(self) -> Lesson:
        """What the forest of the class is grown from."""
        settings = SETTINGS[self.op]
        known = self.op, astuple(self.rates), astuple(settings), self.text
        return Lesson(
            stem=f"{self.name}-{self.op}",
            settings=settings,
            words=repr(known),
            known=self.known,
        )

    def known(self) -> tuple[Samples, Floats]:
        """Return the measured kernels, and their seconds; (R,)."""
        rows = self.rows
        seconds = np.array([row.time_us * 1e-6 for row in rows])
        return samples_of_rows(self.op, rows, self.rates), seconds


def rates_of(accelerator: Accelerator) -> Rates:
    """Return the 16-bit peak and the memory bandwidth of an accelerator.

    Raises
    ------
    ValueError
        The accelerator does not multiply in 16 bits.
    """
    flops = _flops_of_16_bits(accelerator)
    if flops is None:
        msg = f"{accelerator.name} multiplies in neither bf16 nor fp16"
        raise ValueError(msg)
    return Rates(
        flops=flops,
        bytes_per_s=accelerator.memory_bandwidth_bytes_per_s,
    )


def _flops_of_16_bits(accelerator: Accelerator) -> float | None:
    return accelerator.peak_flops.bf16 or accelerator.peak_flops.fp16


def shipped_operators(accelerator: Accelerator) -> Mapping[str, Measured]:
    """Return measured operators by class; empty if no relative was measured."""
    if _flops_of_16_bits(accelerator) is None:
        return {}
    found: dict[str, Measured] = {}
    for device in accelerator.relatives:
        for name, measured_on, text in _shipped():
            if measured_on == device:
                for op, measured in by_class(text, name).items():
                    found.setdefault(op, measured)
    return found


def by_class(text: str, name: str) -> Mapping[str, Measured]:
    """Return a file's operators by class.

    Raises
    ------
    InputError
        The device is not in the catalogue and the header lacks its rates, or the device
        does not multiply in 16 bits.
    """
    header = header_of(text)
    device, rates = accelerator_of(header), rates_of_header(header, name)
    return {
        op: Measured(op=op, device=device, rates=rates, name=name, text=text)
        for op in SETTINGS
        if _holds(text, name, op)
    }


def rates_of_header(header: Mapping[str, str], name: str) -> Rates:
    """Return the rates of a file's device, from the catalogue or else its header.

    Raises
    ------
    InputError
        As ``by_class``.
    """
    known = accelerators().get(accelerator_of(header))
    try:
        return _given_rates(header, name) if known is None else rates_of(known)
    except ValueError as error:
        raise InputError(str(error), file=name, field="accelerator") from error


def _given_rates(header: Mapping[str, str], name: str) -> Rates:
    values = []
    for key, parse in (
        ("peak_flops", parse_flops),
        ("memory_bandwidth", parse_bandwidth),
    ):
        text = header.get(key)
        if text is None:
            msg = (
                f"the header lacks it, and {accelerator_of(header)!r} is not in the "
                f"catalogue: add a line '# {key}: ...' with its unit"
            )
            raise InputError(msg, file=name, field=key)
        try:
            values.append(parse(text))
        except ValueError as error:
            raise InputError(str(error), file=name, field=key) from error
    return Rates(flops=values[0], bytes_per_s=values[1])


@cache
def _shipped() -> tuple[tuple[str, str, str], ...]:
    """Return name, device and text of the shipped files."""
    texts = {name: file.read_text("utf-8") for name, file in operator_files().items()}
    return tuple(
        (name, accelerator_of(header_of(text)), text) for name, text in texts.items()
    )


def _holds(text: str, name: str, op: str) -> bool:
    """Whether a file has rows of a class."""
    # Shipped files have the class in the first column: faster than parsing.
    if f"\n{op}," in text:
        return True
    plain = "\nop," in f"\n{text}" and '"' not in text
    return not plain and any(row.op == op for row in _parsed(text, name).rows)


@cache
def _parsed(text: str, name: str) -> OperatorProfile:
    return parse_operators(text, name)
