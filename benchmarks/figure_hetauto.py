"""HetAuto's figures as tables, compared with the values in its text.

The paper prints most points only as pictures, from which we read no values.
"""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

from benchmarks.figure_runs import EXPERIMENTS, LONG, WEIGHTS
from benchmarks.figure_tables import MODELLED, Table, above_optimum

if TYPE_CHECKING:
    from collections.abc import Mapping

    from benchmarks.figure_runs import Campaign, Shot
    from benchmarks.figure_tables import Cell

#: HetAuto, sections 7.3 and 7.7: throughput over Uniform's.
AMP_OVER_UNIFORM = "about 1.1"
HETAUTO_OVER_UNIFORM = "1.19 to 1.57 over exp1-exp3"
PUBLISHED_7: Mapping[tuple[str, str], str] = {
    **{(name, "amp, every cluster"): AMP_OVER_UNIFORM for name in EXPERIMENTS},
    **{(name, "mcts"): HETAUTO_OVER_UNIFORM for name in EXPERIMENTS},
    ("hetauto-exp3", "mcts"): "up to 1.57",
    ("hetauto-exp3", "metis"): "0.70",
}
#: HetAuto, section 7.2: time limits of its search, in minutes.
BUDGETS_MIN = dict(zip(EXPERIMENTS, (2, 25, 150), strict=True))


def throughput(campaign: Campaign) -> Table:
    """HetAuto, Fig. 7."""
    rows: list[tuple[Cell, ...]] = []
    for setting in EXPERIMENTS:
        base = campaign.of(setting, "uniform")
        every = campaign.of(setting, "uniform", every_cluster=True)
        for shot in campaign.shots:
            experiment, _, rule = shot.setting.partition(", ")
            if experiment == setting:
                rows.append(
                    (
                        setting,
                        f"{shot.solver}, {rule}" if rule else shot.label,
                        shot.status,
                        shot.tokens_per_s,
                        _over(shot, base),
                        _over(shot, every),
                        PUBLISHED_7.get((setting, shot.label)),
                        shot.layout,
                    )
                )
    return Table(
        name="hetauto-fig7",
        title="HetAuto, Fig. 7: throughput over Uniform's",
        campaign=campaign.name,
        columns=(
            "experiment",
            "solver",
            "status",
            "tokens/s",
            "over uniform",
            "over uniform, every cluster",
            "published over uniform",
            "plan",
        ),
        rows=tuple(rows),
        remarks=(
            "Throughput is that of the simulated iteration, where the paper measures "
            f"one. {MODELLED}",
            "`mcts` is HetAuto's own search, given "
            f"{campaign.limit_s:g} s per experiment instead of 2, 25 and 150 minutes; "
            "`dp` is the proven optimum of a space that has its plans and others, and "
            "of what is left of that without context parallelism (c = 1).",
            "HetAuto's Eq. 12 gives every cluster stages, and its plans of Uniform and "
            "AMP for exp3 have 23 stages of 32 devices, as many as the smallest "
            "cluster has: compare what is published with the variants `every "
            "cluster`. `uniform` and `amp` alone may leave clusters out, as all other "
            "rows may.",
            "`uniform` has context parallelism, `amp` and `metis` have none: that is "
            "what holds them back here. The paper's search chose c = 1 in exp1 and "
            "exp2 (section 7.7); by our modelled latencies c > 1 pays, as the last two "
            "bars show.",
            "Ours of Metis visits plans of few stages first and leaves out what a "
            "bound shows to be worse, so that it has good plans at once; the published "
            "one saw a small part of its space in 12 hours.",
            "The published ratios rest on its measured latencies and on the ffn and "
            "vocabulary of its models, which its text does not give.",
        ),
    )


def search_time(campaign: Campaign) -> Table:
    """HetAuto, Fig. 8."""
    rows: list[tuple[Cell, ...]] = []
    for shot in campaign.shots:
        if shot.setting not in EXPERIMENTS:
            continue
        best = campaign.of(shot.setting, "dp", every_cluster=shot.every_cluster)
        rows.append(
            (
                shot.setting,
                shot.label,
                shot.status,
                shot.trace[0][0] if shot.trace else None,
                shot.trace[-1][0] if shot.trace else None,
                shot.search_time_s,
                shot.closed_form_s,
                above_optimum(shot, best),
                _ended(shot),
                BUDGETS_MIN[shot.setting] * 60 if shot.solver == "mcts" else None,
            )
        )
    return Table(
        name="hetauto-fig8",
        title="HetAuto, Fig. 8: search time against iteration time",
        campaign=campaign.name,
        columns=(
            "experiment",
            "solver",
            "status",
            "first plan s",
            "last better plan s",
            "search s",
            "closed form s",
            "above optimum",
            "ended by itself",
            "published budget s",
        ),
        rows=tuple(rows),
        remarks=(
            "Closed form, as the paper's search estimates it. The text gives no point "
            "of this figure, only the time budgets of HetAuto's search.",
            "In the paper Metis did not end within 12 hours on exp2 and exp3; whether "
            "ours did is in the table. It may give stages of a cluster several "
            "strategies; the optimum of that wider space is proven too, and is less "
            "on exp2 alone, by 0.001% (`../compare/compare.md`).",
            "The search of `uniform` and `amp` includes bounding every (p, q) after "
            "they ended. `dp` has no limit and needs no workers here; the start of "
            "those is part of the others' times.",
            MODELLED,
        ),
    )


def long_sequences(campaign: Campaign) -> Table:
    """HetAuto, Fig. 11."""
    base = campaign.of("c free", "uniform")
    every = campaign.of("c free", "uniform", every_cluster=True)
    bars = [
        shot.tokens_per_s
        for shot in campaign.shots
        if shot.solver in ("uniform", "amp", "metis") and shot.tokens_per_s
    ]
    best = max(bars, default=None)
    rows = tuple(
        (
            LONG,
            f"{shot.solver}, {shot.setting}"
            if shot.solver in ("mcts", "dp")
            else shot.label,
            shot.status,
            shot.tokens_per_s,
            _over(shot, base),
            _over(shot, every),
            shot.tokens_per_s / best if best and shot.tokens_per_s else None,
            "up to 1.15 over the baselines"
            if (shot.setting, shot.solver) == ("c = 1", "mcts")
            else None,
            shot.layout,
        )
        for shot in campaign.shots
    )
    return Table(
        name="hetauto-fig11",
        title=f"HetAuto, Fig. 11: sequences of 32,768 ({LONG})",
        campaign=campaign.name,
        columns=(
            "experiment",
            "solver",
            "status",
            "tokens/s",
            "over uniform",
            "over uniform, every cluster",
            "over the best baseline",
            "published",
            "plan",
        ),
        rows=rows,
        remarks=(
            "As in the paper these are evaluations by cost model, not training runs; "
            "throughput is of the simulated iteration. That the global batch stays 128 "
            "is our reading.",
            "`amp` and `metis` know no context parallelism; `uniform` does. Baselines "
            "are shown at their best plan so far, as the paper shows Metis.",
            MODELLED,
        ),
    )


def exploration(campaign: Campaign) -> Table:
    """HetAuto, Fig. 12."""
    optimum = campaign.of("hetauto-exp2", "dp")
    rows: list[tuple[Cell, ...]] = []
    for weight in WEIGHTS:
        shots = [shot for shot in campaign.shots if shot.exploration == weight]
        ends = [shot.closed_form_s for shot in shots if shot.closed_form_s is not None]
        aboves = [above_optimum(shot, optimum) for shot in shots]
        known = [above for above in aboves if above is not None]
        last = [shot.trace[-1][0] for shot in shots if shot.trace]
        rows.append(
            (
                weight,
                len(shots),
                median(ends) if ends else None,
                min(ends, default=None),
                max(ends, default=None),
                median(known) if known else None,
                median(last) if last else None,
            )
        )
    return Table(
        name="hetauto-fig12",
        title="HetAuto, Fig. 12: exploration weights on exp2",
        campaign=campaign.name,
        columns=(
            "weight",
            "seeds",
            "closed form s (median)",
            "least",
            "greatest",
            "above optimum (median)",
            "last better plan s (median)",
        ),
        rows=tuple(rows),
        remarks=(
            f"Each search was given {campaign.limit_s:g} s. The text gives no values, "
            "only that 0.1 settles early on a worse plan and that 1, 10, 25 and 100 "
            "are better and alike.",
            "The weight scales the square root in UCB against rewards 1 / (1 + l), "
            "which differ by hundredths for iterations of seconds: with large weights "
            "all children are visited nearly alike.",
            MODELLED,
        ),
    )


def clusters(campaign: Campaign) -> Table:
    """HetAuto, Fig. 1."""
    rows: list[tuple[Cell, ...]] = []
    for shot in campaign.shots:
        schedule = shot.setting.partition(", ")[2]
        alone = campaign.of(f"1 clusters, {schedule}", "dp")
        ratio = None
        if alone and alone.iteration_time_s and shot.iteration_time_s:
            ratio = shot.iteration_time_s / alone.iteration_time_s
        rows.append(
            (
                int(shot.setting.partition(" ")[0]),
                schedule,
                shot.iteration_time_s,
                shot.closed_form_s,
                ratio,
                shot.layout,
            )
        )
    return Table(
        name="hetauto-fig1",
        title="HetAuto, Fig. 1: 32 A100 in one, two and four clusters",
        campaign=campaign.name,
        columns=(
            "clusters",
            "schedule",
            "simulated s",
            "closed form s",
            "over one cluster",
            "plan",
        ),
        rows=tuple(rows),
        remarks=(
            "The paper's (p, d, c, t) = (4, 2, 2, 2) under 1F1B, a node per stage, "
            "10.2 Gbps between clusters through the hosts; its text gives no "
            "latencies. Virtual-1F1B is beside it to show what its warm-ups gain.",
            "Ours: one sequence per micro-batch, six layers per stage, recomputation "
            "free, 1 ms between clusters, and the model of hetauto-table1-a100.",
            MODELLED,
        ),
    )


def _over(shot: Shot, base: Shot | None) -> float | None:
    if base is None or base.tokens_per_s is None or shot.tokens_per_s is None:
        return None
    return shot.tokens_per_s / base.tokens_per_s


def _ended(shot: Shot) -> str:
    if shot.search_time_s is None:
        return ""
    stopped = shot.limit_s is not None and shot.search_time_s >= shot.limit_s
    return "no" if stopped else "yes"
