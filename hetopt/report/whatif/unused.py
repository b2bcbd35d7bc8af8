"""Why a plan leaves a cluster unused, in sentences."""

from __future__ import annotations

from math import isinf
from typing import TYPE_CHECKING

from hetopt.report.rounding import at_least, percent, rounded

if TYPE_CHECKING:
    from hetopt.whatif.unused import Unused


def unused_text(each: Unused) -> str:
    """Return why a cluster is unused, in a sentence or two; empty if it is unknown."""
    name = each.cluster
    if each.more is None:
        return ""
    if each.proven:
        how = f"takes {percent(each.more)} more" if each.more else "takes as long"
        text = f"{name} is not used: the best plan with it {how}."
    else:
        text = f"{name} is not used: a plan with it takes at least "
        text += f"{at_least(each.more)} more."
    if not each.explained:
        return text
    if isinf(each.link_s):
        text += " It has no link to another cluster"
    else:
        text += f" Its links to {each.partner} need {rounded(each.link_s)} s for the "
        text += "activations of an iteration"
    return f"{text}, and alone it computes for {rounded(each.alone_s)} s."
