"""How near a device comes to its nominal rates, and how far that is known.

Nominal rates are in vendors' sheets; these facts are read off kernels and iterations
that others measured, or assumed. Each device of the catalogue states all of them with
their sources (``data/accelerators``). A device outside the catalogue has those of the
device that it is like, or else the defaults here.
"""

from __future__ import annotations

from typing import Annotated

from annotated_types import Gt, Le
from pydantic import Field

from hetopt.base.fields import Count, Expected, Read, number
from hetopt.base.record import record
from hetopt.problem.fields import Latency

#: Of a rate; one of kernels may be above 1.
Share = Annotated[
    float, Gt(0), Le(10), Read(number), Expected("a share above 0, at most 10")
]

#: The name of one of a process's environment variables.
Variable = Annotated[
    str, Field(pattern=r"^[A-Za-z_]\w*$"), Expected("a variable's name")
]


@record
class Efficiency:
    """Shares of its nominal rates that a device reaches in the roofline.

    The defaults are assumed for a device of which nothing is known.

    Attributes
    ----------
    multiplication
        e_max: share of peak FLOP/s of a very large multiplication.
    attention
        Share of peak FLOP/s of the fused attention core.
    elementwise
        Share of the memory bandwidth that norms, activations and the like reach.
    ramp_s
        Time constant of the efficiency curve.
    sustained
        Share of these rates that whole iterations reach. Default: close to A100's, the
        best documented.
    """

    multiplication: Share = 0.70
    attention: Share = 0.45
    elementwise: Share = 0.50
    ramp_s: Annotated[Latency, Field(alias="ramp")] = 5e-6
    sustained: Share = 0.95


#: For devices of which nothing is known.
UNKNOWN_EFFICIENCY = Efficiency()


@record
class Sustained:
    """Shares of the rates of single kernels that whole iterations reach.

    Iterations run slower than the same kernels one by one, because clocks fall under
    load, kernels wait for the host and stragglers; they run faster if programs fuse
    kernels that were measured separately, or hide a part of the collectives of ZeRO-2
    and -3. ``benchmarks/iterations.py`` fits the shares to published iterations and
    prints them (``--fit``) with the errors on models that the fit did not use. The
    attention core's share depends on the program: llm-foundry of 2023 on A100 and H100,
    Megatron-LM of 2025 on B200.

    Attributes
    ----------
    multiplication, attention, elementwise
        Shares of multiplications, the fused attention core, and element-wise kernels;
        above 1 if iterations are faster.
    sharding
        Share of ZeRO-2's and -3's collectives in every micro-batch: above 1 if
        computation hides a part of them.
    tensor
        Share of tensor-parallel collectives, which only B200's runs have: they may be
        slower than their links for reasons that do not affect the kernels.
    """

    multiplication: Share = 1.0
    attention: Share = 1.0
    elementwise: Share = 1.0
    sharding: Share = 1.0
    tensor: Share = 1.0


#: Kernels' times as measured: for devices without a published iteration.
AS_MEASURED = Sustained()


@record
class Grouped:
    """Rates of experts' grouped multiplications over those that relatives' kernels say.

    Attributes
    ----------
    bits_16, bits_8
        In bf16 or fp16, and in any of the FP8 family with its casts.
    """

    bits_16: Share = 1.0
    bits_8: Share = 1.0


#: For devices whose grouped multiplications were measured, or of no known layer.
AS_RELATIVES = Grouped()


@record
class Accuracy:
    """Errors of iteration times, as shares of the measured time.

    Attributes
    ----------
    runs
        Number of measured iterations.
    median, worst
        Median and largest absolute error.
    """

    runs: Count
    median: Share
    worst: Share

    def __str__(self) -> str:
        """Return the errors as reports print them."""
        return (
            f"off by {self.median:.0%} (median of {self.runs} published runs, "
            f"worst {self.worst:.0%})"
        )


#: Share of the nominal link inside a node that collectives reach on a device of which
#: nothing is known: as on A100.
UNKNOWN_INTRA_NODE_SHARE = 0.58

#: The variable that limits a process to some devices, where nothing else is known.
CUDA_VISIBLE_DEVICES = "CUDA_VISIBLE_DEVICES"
