"""The head of a page: the result in a sentence and a few numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetopt.base.words import counted
from hetopt.report.balance import balance
from hetopt.report.page.markup import tag, words
from hetopt.report.summary import FORMS, amount, bound, gap_text, headline
from hetopt.report.utilisation import beyond_peak

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hetopt.report.page.contents import Contents, ReportedPlan


def answer(contents: Contents) -> str:
    """Return the head, which is about the fastest of several plans."""
    best = fastest(contents)
    figures = (
        tag("div", words("dt", label), words("dd", value), words("dd", about))
        for label, value, about in _figures(best)
    )
    return tag(
        "header",
        words("p", "hetopt: training plan", class_="kind"),
        words("h1", best.problem.name),
        words("p", sentence(contents), class_="answer"),
        tag("dl", *figures, class_="figures"),
    )


def fastest(contents: Contents) -> ReportedPlan:
    """Return the plan with the shortest simulated iteration."""
    return min(contents.plans, key=lambda each: each.price.iteration_time_s)


def sentence(contents: Contents) -> str:
    """Return the result in a sentence, with what is proven about it."""
    best = fastest(contents)
    pipeline = best.plan.pipeline
    which = (
        f"With {best.name}, the fastest of {counted(len(contents.plans), 'plan')}, an"
    )
    text = (
        f"{which if len(contents.plans) > 1 else 'An'} iteration takes "
        f"{best.price.iteration_time_s:.4g} s on {_devices(best)}, with "
        f"{counted(len(pipeline.stages), 'pipeline stage')} and "
        f"{counted(pipeline.microbatches, 'micro-batch', 'es')}"
    )
    if best.result is None:
        return f"{text}: a plan that fits; its file says nothing about other plans."
    return f"{text}: {headline(best.result)}."


def _devices(plan: ReportedPlan) -> str:
    offered = sum(cluster.devices for cluster in plan.problem.clusters)
    used = plan.plan.devices
    if used == offered:
        return f"all {counted(offered, 'device')}" if offered > 1 else "the only device"
    return f"{used} of {counted(offered, 'device')}"


def _figures(plan: ReportedPlan) -> Iterator[tuple[str, str, str]]:
    """Yield label, number, and a remark on it."""
    price, result = plan.price, plan.result
    closed = f"{price.closed_form_s:.4f} s in closed form"
    yield "Iteration", f"{price.iteration_time_s:.4g} s", f"simulated; {closed}"
    yield "Throughput", f"{plan.tokens_per_s:,.0f}", "tokens a second"
    if result is not None:
        if result.mfu is not None and result.mfu_used is not None:
            used = f"of all devices; {result.mfu_used:.1%} of those used"
            if (wrong := beyond_peak(result)) is not None:
                used = f"{used}; {wrong}"
            yield "MFU", f"{result.mfu:.1%}", used
        if result.status == "optimal":
            yield "Proven", "optimal", f"in {FORMS[result.objective]}"
        elif result.gap is not None:
            yield "Gap", gap_text(result.gap), f"lower bound {bound(result)}"
    if plan.error is not None:
        off = f"{plan.error.median:.0%}"
        about = f"median of {counted(plan.error.runs, 'published run')}, worst "
        about += f"{plan.error.worst:.0%}"
        if plan.untold:
            about = f"for {plan.untold}; elsewhere {off} ({about})"
        yield "Times are off by", "unknown" if plan.untold else off, about
    if len(plan.plan.pipeline.stages) > 1:
        even = balance(plan.problem, plan.plan, price)
        about = "mean time of the devices in use over the slowest's, by peak FLOP/s"
        yield "Balance", f"{even:.1%}", f"{about} (HAPT, Eq. 25)"
    share, most = max(
        (need / usable, number)
        for number, (need, usable) in enumerate(
            zip(price.memory_bytes, price.usable_bytes, strict=True)
        )
    )
    yield "Fullest memory", f"{share:.0%}", f"of a device of stage {most}"
    if plan.cost is not None and plan.cost.per_trillion_tokens is not None:
        money = amount(plan.cost.per_trillion_tokens)
        yield "Cost", money, "for a trillion tokens, in the problem's currency"
