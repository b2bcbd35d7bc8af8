"""Whether mixing is worth it, as a table and sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetopt.report.drawing.sheet import sheet
from hetopt.report.rounding import large, rounded
from hetopt.report.summary import FORMS, gap_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hetopt.report.drawing.sheet import Part
    from hetopt.whatif.mixing import Alone, Mixing

TITLE = "Is mixing worth it?"
#: Also if the plan is one for a launcher, or one that relaxes principles.
UNLIMITED = "Each cluster alone is planned for any launcher, with all principles kept."


def mixing_report(mixing: Mixing) -> Iterator[Part]:
    """Yield each cluster alone, their sum and the plan, and what follows from them."""
    form, alone = FORMS[mixing.objective], mixing.alone
    devices = sum(each.devices for each in alone)
    rates = [each.tokens_per_s for each in alone]
    total = "-" if None in rates else large(sum(each or 0.0 for each in rates))
    time_s, rate = rounded(mixing.time_s), large(mixing.tokens_per_s)
    yield sheet(
        ("alone", "devices", f"{form} s", "tokens/s", "proof"),
        [
            *map(_row, alone),
            ("sum of these", devices, "", total, ""),
            ("this plan", mixing.devices, time_s, rate, ""),
        ],
        left=("alone", "proof"),
    )
    for each in alone:
        if each.time_s is None:
            yield f"No plan of {each.cluster} alone: {each.reason}."
    yield from _sentences(mixing)
    yield balance_text(mixing.balance)


def balance_text(share: float) -> str:
    """Return HAPT's load balance of a plan in a sentence."""
    return (
        f"On average the devices in use compute {share:.1%} of the slowest stage's "
        "time for a micro-batch, weighted by their peak FLOP/s (load balance of HAPT, "
        "Eq. 25)."
    )


def _row(each: Alone) -> tuple[str, int, str, str, str]:
    if each.time_s is None or each.tokens_per_s is None:
        proof = "no plan" if each.status == "infeasible" else "none found"
        if (each.reason or "").startswith("memory"):
            proof = "does not fit"
        return each.cluster, each.devices, "-", "-", proof
    proof = "optimal" if each.status == "optimal" else f"gap {gap_text(each.gap)}"
    time_s, rate = rounded(each.time_s), large(each.tokens_per_s)
    return each.cluster, each.devices, time_s, rate, proof


def _sentences(mixing: Mixing) -> Iterator[str]:
    """Yield how the plan compares with the fastest cluster, and with all of them."""
    ratio = mixing.hetero_speedup_ratio
    settled = all(each.status in ("optimal", "infeasible") for each in mixing.alone)
    most = "" if settled else "at most "
    if mixing.over_fastest is not None:
        fastest = max(mixing.alone, key=lambda each: each.tokens_per_s or 0.0)
        planned = all(each.time_s is not None for each in mixing.alone)
        compared = "the clusters" if planned else "those with a plan"
        yield (
            f"The plan trains {most}{mixing.over_fastest:.2f} times as fast as "
            f"{fastest.cluster} alone, the fastest of {compared}."
        )
    if ratio is not None:
        yield (
            f"It trains {most}{ratio:.1%} of the tokens that "
            "all of them train apart, each a model of its own (HeteroSpeedupRatio of "
            "H2, section 6.2)."
        )
