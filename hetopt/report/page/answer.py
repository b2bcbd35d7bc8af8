"""The head of a page: the result in a sentence and a few numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetopt.base.words import counted
from hetopt.report.head import errors_text, meant
from hetopt.report.page.markup import tag, words
from hetopt.report.rounding import large, percent, rounded
from hetopt.report.summary import FORMS, amount, headline
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
        tag("dl", *figures, _launch(best), class_="figures"),
    )


def fastest(contents: Contents) -> ReportedPlan:
    """Return the plan with the shortest simulated iteration."""
    return min(contents.plans, key=lambda each: each.price.iteration_time_s)


def sentence(contents: Contents) -> str:
    """Return the result in a sentence, with what is proven about it."""
    best = fastest(contents)
    pipeline = best.plan.pipeline
    which = f"With {best.name}, the fastest of {len(contents.plans)} plans, an"
    text = (
        f"{which if len(contents.plans) > 1 else 'An'} iteration takes "
        f"{rounded(best.time_s, best.digits)} s{meant(best.objective)} on "
        f"{_devices(best)}, with "
        f"{counted(len(pipeline.stages), 'pipeline stage')} and "
        f"{counted(pipeline.microbatches, 'micro-batch', 'es')}"
    )
    sure = "a plan that fits; its file says nothing about other plans"
    if best.result is not None:
        sure = headline(best.result)
    off = "" if any(best.errors.values()) else f"; {errors_text(best.errors)}"
    return f"{text}: {sure}{off}."


def _launch(plan: ReportedPlan) -> str:
    """Return the tile with the command that launches a plan."""
    label = "Check" if plan.launcher is None else f"Launch with {plan.launcher}"
    command = tag("dd", words("code", plan.launch))
    return tag("div", words("dt", label), command, class_="launch")


def _devices(plan: ReportedPlan) -> str:
    offered = sum(cluster.devices for cluster in plan.problem.clusters)
    used = plan.plan.devices
    if used == offered:
        return f"all {counted(offered, 'device')}" if offered > 1 else "the only device"
    return f"{used} of {offered} devices"


def _figures(plan: ReportedPlan) -> Iterator[tuple[str, str, str]]:
    """Yield label, number, and a remark on it."""
    price, result, digits = plan.price, plan.result, plan.digits
    form = FORMS[plan.objective]
    yield "Iteration", f"{rounded(plan.time_s, digits)} s", form
    tokens = plan.tokens / plan.time_s
    yield "Throughput", large(tokens, digits), "tokens a second"
    if result is not None:
        if result.mfu is not None:
            mfu = result.mfu * price.iteration_time_s / plan.time_s
            wrong = beyond_peak(result)
            about = "" if wrong is None else f"; {wrong}"
            yield "MFU", f"{mfu:.0%}", f"of all devices{about}"
        if result.status == "optimal":
            yield "Proven", "optimal", f"in {form}"
        elif result.gap is not None:
            yield "Gap", percent(result.gap), f"at most, to the best possible {form}"
    known = [each for each in plan.errors.values() if each is not None]
    if known:
        worst = max(known, key=lambda each: each.median)
        runs = f"median of {counted(worst.runs, 'published run')}, worst "
        about = f"{runs}{worst.worst:.0%}"
        unknown = [name for name, each in plan.errors.items() if each is None]
        if unknown:
            about += f"; not known for {', '.join(unknown)}"
        yield "Times are off by", f"{worst.median:.0%}", about
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
