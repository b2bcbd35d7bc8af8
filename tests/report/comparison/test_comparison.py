"""What is said of solvers side by side, from runs made by hand."""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from itertools import combinations, product
from typing import TYPE_CHECKING

import numpy as np
import pytest

from hetopt.planning.side_by_side import Space
from hetopt.problem.training.principles import Principles
from hetopt.report.comparison.comparison import MARK, Row, first_within, holds, rows
from hetopt.report.comparison.plot import best_so_far
from hetopt.report.comparison.text import (
    COLUMNS,
    comparison_csv,
    comparison_markdown,
    comparison_parts,
    footnotes,
    table,
)
from hetopt.report.drawing import plots
from hetopt.report.drawing.console import draw
from tests.report.comparisons import (
    MIXED,
    WIDE,
    made_comparison,
    made_contest,
    made_run,
    trace,
)
from tests.schemas import ensure_fits

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray

ANY, EVERY = Space(), Space(every_cluster=True)
#: ``uniform`` in both variants, and the best plans of both spaces.
BOTH = made_contest(
    made_run("dp", (1, 10), status="optimal"),
    made_run("uniform", (1, 12)),
    made_run("uniform", (1, 16), every_cluster=True),
    extra=(made_run("dp", (1, 12.5), status="optimal", every_cluster=True),),
)
TRACE = trace((0.5, 15.0), (1.5, 10.5), (4.0, 10.1), (8.0, 10.0))


@pytest.mark.parametrize(
    ("share", "time_s"),
    [(0.6, 0.5), (0.05, 1.5), (0.0499, 4.0), (0.01, 4.0), (0.001, 8.0), (0.0, 8.0)],
)
def test_times_to_within(share: float, time_s: float) -> None:
    assert first_within(TRACE, 10.0, share) == time_s


def test_what_is_not_reached_has_no_time() -> None:
    assert first_within(TRACE, 9.0, 0.05) is None
    assert first_within((), 9.0, 1.0) is None


def _rows() -> dict[tuple[str, int | None, bool], Row]:
    return {(row.solver, row.seed, row.extra): row for row in rows(MIXED)}


def test_each_space_has_its_own_reference() -> None:
    found = MIXED.references()
    assert (found[ANY].value_s, found[ANY].proven) == (10.0, True)
    assert (found[Space(WIDE)].value_s, found[Space(WIDE)].proven) == (9.5, True)


def test_rows() -> None:
    found = _rows()
    mcts = found["mcts", 0, False]
    assert mcts.first_s == 0.5
    assert dict(mcts.within_s) == {"5%": 1.5, "1%": 8, "0.1%": None}
    assert mcts.above == pytest.approx(0.005)
    assert mcts.proof_s is None
    assert found["dp", None, False].proof_s == 3.0
    metis = found["metis", None, False]
    assert metis.marked
    assert metis.reference is not None
    assert metis.reference.value_s == 9.5
    assert metis.within_s["5%"] == 0.1
    assert found["milp", None, False].status == "refused"
    broken = replace(made_run("milp", status=None, failure="died"), broken=True)
    assert rows(made_contest(broken))[0].status == "failed"
    # It started from what others had found.
    extra = found["dp", None, True]
    assert (extra.first_s, extra.within_s["5%"], extra.proof_s) == (None, None, 4.0)


def test_lower_bounds_of_references() -> None:
    runs = [
        replace(made_run("mcts", (1, 12), seed=0), lower_bound_s=6.0),
        replace(made_run("dfs", (1, 11.5), principles=WIDE), lower_bound_s=7.0),
        replace(made_run("uniform", (1, 13)), lower_bound_s=9.0),
    ]
    pruned, wide = made_contest(*runs).references().values()
    # What holds for all plans holds for some, and not the other way round.
    assert (pruned.lower_bound_s, wide.lower_bound_s) == (9.0, 7.0)
    text = "\n".join(footnotes(made_contest(*runs), rows(made_contest(*runs))))
    assert "with p4 relaxed: 11.500000 s (dfs), lower bound 7.000000 s" in text


def test_best_known_is_not_called_an_optimum() -> None:
    contest = made_contest(
        made_run("mcts", (1, 12), seed=0),
        made_run("uniform", (1, 11)),
        made_run("metis", (1, 11.5), principles=WIDE),
    )
    pruned, wide = contest.references().values()
    assert (pruned.value_s, pruned.proven, pruned.solver) == (11, False, "uniform")
    # A plan that keeps all principles is one of those that need not.
    assert (wide.value_s, wide.proven) == (11, False)
    assert "optimum" not in pruned.label
    assert (
        "optimum" not in comparison_markdown(made_comparison(contest)).split("- one")[0]
    )


def test_a_plan_below_an_optimum_is_found_out() -> None:
    optimum = made_run("dp", (1, 10), status="optimal")
    assert made_contest(optimum, made_run("mcts", (1, 10.0))).findings() == []
    (line,) = made_contest(optimum, made_run("mcts", (1, 9.999))).findings()
    assert "mcts found 9.999 s" in line
    # What need not keep P4 may be better than what must.
    assert MIXED.findings() == []
    wide = made_run("dp", (1, 10), status="optimal", principles=WIDE)
    assert made_contest(wide, made_run("mcts", (1, 9.9))).findings() != []
    # So does a bound without a proof.
    bound = replace(made_run("cp-sat", (1, 11)), lower_bound_s=10.5)
    assert made_contest(bound, made_run("mcts", (1, 10.6))).findings() == []
    (line,) = made_contest(bound, made_run("mcts", (1, 10.4))).findings()
    assert "cp-sat says no plan takes, 10.5 s" in line
    # Two proofs cannot both be right.
    other = made_run("milp", (1, 10.1), status="optimal")
    assert made_contest(optimum, other).findings() != []


def test_what_breaks_is_found_out_and_what_is_refused_is_not() -> None:
    refused = made_run("uniap", status=None, failure="plans for one cluster")
    assert made_contest(refused).findings() == []
    broken = replace(refused, failure="its plan fails the check", broken=True)
    (line,) = made_contest(broken).findings()
    assert "uniap: its plan fails the check" in line


def test_spaces_hold_each_other() -> None:
    spaces = [
        Space(Principles(consecutive=consecutive, sharing=sharing), every)
        for every in (True, False)
        for consecutive in (True, False)
        for sharing in ("one", "falling-tp", "any")
    ]
    assert all(holds(space, EVERY) and holds(spaces[-1], space) for space in spaces)
    for a, b in product(spaces, spaces):
        assert (holds(a, b) and holds(b, a)) == (a == b)
    assert not holds(spaces[2], spaces[3])
    assert not holds(spaces[3], spaces[2])


def test_files_agree() -> None:
    comparison = made_comparison(MIXED, made_contest(problem="none", extra=()))
    data = comparison.to_json()
    del data["problems"][1]
    ensure_fits(data, "comparison")
    lines = list(csv.DictReader(io.StringIO(comparison_csv(comparison))))
    markdown = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in comparison_markdown(comparison).splitlines()
        if line.startswith("| ")
    ]
    runs = data["problems"][0]["runs"]
    assert len(runs) == len(lines) == 6
    assert [cells for cells in markdown if cells[0] != "solver"] == [
        list(cells) for cells in table(rows(MIXED))
    ]
    for run, line in zip(runs, lines, strict=True):
        for name in ("closed_form_s", "first_s", "proof_s", "search_time_s", "above"):
            assert line[name] == ("" if run[name] is None else str(run[name]))
        assert line["within_1%_s"] == str(run["within_s"]["1%"] or "")
        assert line["relaxed"] == " ".join(run["relaxed"])
        assert line["status"] == run["status"]


def test_marks_and_footnotes() -> None:
    found = rows(MIXED)
    names = [cells[0] for cells in table(found)]
    assert names == [
        "dp",
        "mcts, median of 2 seeds",
        "mcts, least",
        "mcts, most",
        f"metis{MARK}",
        "milp",
        f"dp{MARK} (for reference with p4 relaxed)",
    ]
    text = "\n".join(footnotes(MIXED, found))
    assert "proven optimum: 10.000000 s (dp)" in text
    assert "proven optimum with p4 relaxed: 9.500000 s (dp)" in text
    assert f"{MARK} metis, dp: plans need not keep p4" in text
    assert "milp: is not | installed" in text
    printed = draw(comparison_parts(made_comparison(MIXED)), None)
    assert text.splitlines()[0] in printed
    assert all(name.split()[0] in printed for name in COLUMNS)


def test_seeds_have_their_median_and_their_spread() -> None:
    (dp, mcts, other, *_) = MIXED.runs
    third = replace(made_run("mcts", (0.75, 20), seed=2), status="unknown")
    contest = made_contest(dp, mcts, other, third)
    lines = table(rows(contest))[1:]
    found = [dict(zip(COLUMNS, line, strict=True)) for line in lines]
    assert {name: [line[name] for line in found] for name in COLUMNS} == {
        "solver": ["mcts, median of 3 seeds", "mcts, least", "mcts, most"],
        "status": ["feasible, unknown"] * 3,
        "closed form s": ["10.1", "10.0", "20.0"],
        "simulated s": ["10.1", "10.0", "20.0"],
        "above": ["0.50%", "0%", "100%"],
        "first plan s": ["0.500", "0.250", "0.750"],
        # What one of them, or two, do not reach.
        "within 5% s": ["9.00", "1.50", "-"],
        "within 1% s": ["9.00", "8.00", "-"],
        "within 0.1% s": ["-", "9.00", "-"],
        "proof s": ["-"] * 3,
        "gap": ["10.00%", "10.00%", "-"],
        "process s": ["20.5"] * 3,
    }
    (single,) = table(rows(made_contest(made_run("mcts", (1, 12), seed=3))))
    assert single[:3] == ("mcts seed 3", "feasible", "12.0")
    assert any("several seeds" in line for line in footnotes(contest, rows(contest)))
    assert not any("several seeds" in line for line in footnotes(BOTH, rows(BOTH)))


def test_times_under_load_are_called_unreliable_everywhere() -> None:
    quiet = replace(made_run("dp", (1, 10), status="optimal"), taken_share=0.1)
    loaded = replace(made_run("mcts", (1, 12), seed=0), taken_share=0.62)
    unknown = made_run("dfs", (1, 13))
    comparison = made_comparison(made_contest(quiet, loaded, unknown))
    line = (
        "times of mcts seed 0 are unreliable: other programs took up to 62% of the "
        "cores meanwhile; compare again while nothing else runs"
    )
    assert f"- {line}\n" in comparison_markdown(comparison)
    assert line in draw(comparison_parts(comparison), None)
    data = comparison.to_json()
    ensure_fits(data, "comparison")
    runs = data["problems"][0]["runs"]
    assert [run["taken_share"] for run in runs] == [0.1, 0.62, None]
    lines = csv.DictReader(io.StringIO(comparison_csv(comparison)))
    assert [each["taken_share"] for each in lines] == ["0.1", "0.62", ""]
    every = made_contest(replace(quiet, taken_share=0.3), loaded)
    assert "times of all are unreliable" in "\n".join(footnotes(every, rows(every)))
    alone = comparison_markdown(made_comparison(made_contest(quiet, unknown)))
    assert "unreliable" not in alone


def test_the_report_says_what_plans_are_ranked_by() -> None:
    text = comparison_markdown(made_comparison(MIXED))
    assert "ranked by closed form" in text
    assert "`hetopt plan --objective closed`" in text


def test_plans_that_use_every_cluster_are_labelled_and_compared_alone() -> None:
    found = BOTH.references()
    assert (found[ANY].value_s, found[EVERY].value_s) == (10, 12.5)
    made = rows(BOTH)
    names = [cells[0] for cells in table(made)]
    assert [(name, row.above) for name, row in zip(names, made, strict=True)] == [
        ("dp", 0),
        ("uniform", pytest.approx(0.2)),
        ("uniform, every cluster", pytest.approx(0.28)),
        ("dp (for reference, every cluster)", 0),
    ]
    text = "\n".join(footnotes(BOTH, made))
    assert "proven optimum, every cluster: 12.500000 s (dp)" in text
    assert "every cluster (uniform, dp): each cluster hosts stages" in text
    comparison = made_comparison(BOTH)
    data = comparison.to_json()
    ensure_fits(data, "comparison")
    (problem,) = data["problems"]
    assert [run["every_cluster"] for run in problem["runs"]] == [0, 0, 1, 1]
    assert [each["every_cluster"] for each in problem["references"]] == [0, 1]
    lines = csv.DictReader(io.StringIO(comparison_csv(comparison)))
    assert [line["every_cluster"] for line in lines] == ["false"] * 2 + ["true"] * 2
    picture = plots.svg(best_so_far(comparison)).decode()
    assert "uniform, every cluster" in picture
    assert "proven optimum, every cluster" in picture
    # A plan that uses every cluster is one of those that need not.
    below = made_run("uniform", (1, 9), every_cluster=True)
    (line,) = made_contest(*BOTH.runs[:1], below).findings()
    assert "uniform, every cluster found 9 s" in line
    assert made_contest(*BOTH.extra, *BOTH.runs[1:2]).findings() == []


def test_the_picture_names_everything() -> None:
    single = best_so_far(made_comparison(MIXED))
    text = plots.svg(single).decode()
    for label in ("dp", "mcts", f"metis{MARK}", "proven optimum", "search began"):
        assert label in text
    assert "with p4 relaxed" in text
    # Seeds share one entry; every label of the legend has a line of its own.
    (legend,) = single.legends
    labels = [entry.get_text() for entry in legend.get_texts()]
    marks = ["better plan", "end with a proof", "end without a proof"]
    assert len(labels) == len(set(labels)) == 5 + len(marks)
    assert labels[-len(marks) :] == marks
    # Of the marks only those that are drawn.
    proven = best_so_far(made_comparison(made_contest(*MIXED.runs[:1])))
    (legend,) = proven.legends
    assert [entry.get_text() for entry in legend.get_texts()][-2:] == marks[:2]
    many = [made_contest(*MIXED.runs, problem=f"problem {i}") for i in range(4)]
    several = best_so_far(made_comparison(*many, made_contest(problem="empty")))
    assert plots.png(several).startswith(b"\x89PNG")
    assert all(f"problem {i}" in plots.svg(several).decode() for i in range(4))


def test_nine_solvers_differ_in_every_way_and_both_runs_of_one_share_its_colour() -> (
    None
):
    runs = [made_run(f"solver {i}", (1, 12 - i)) for i in range(9)]
    runs.append(made_run("solver 8", (1, 12), every_cluster=True))
    (legend,) = best_so_far(made_comparison(made_contest(*runs))).legends
    lines = dict(
        zip(
            [entry.get_text() for entry in legend.get_texts()],
            legend.get_lines(),
            strict=True,
        )
    )
    nine = [lines[f"solver {i}"] for i in range(9)]
    colours = [str(line.get_color()) for line in nine]
    assert len(set(colours)) == 9
    assert len({line.get_marker() for line in nine}) == 9
    both = lines["solver 8, every cluster"]
    assert both.get_color() == nine[8].get_color()
    assert both.get_marker() not in {line.get_marker() for line in nine}
    assert _nearest(colours) > 15


#: Linear RGB as the colour-blind see it: Machado, Oliveira and Fernandes, 2009, "A
#: Physiologically-based Model for Simulation of Color Vision Deficiency", severity 1.
SEEN = (
    np.eye(3),
    [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ],
    [
        [1.255528, -0.076749, -0.178779],
        [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.303900],
    ],
)
#: CIE XYZ of linear sRGB (IEC 61966-2-1), divided by that of white.
XYZ = np.array(
    [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
)


def _nearest(colours: Sequence[str]) -> float:
    """Return the least distance of two colours (CIELAB, 1976), to any eyes."""
    return min(
        float(np.linalg.norm(_lab(a, eyes) - _lab(b, eyes)))
        for eyes in SEEN
        for a, b in combinations(colours, 2)
    )


def _lab(colour: str, eyes: ArrayLike) -> NDArray[np.float64]:
    coded = np.array([int(colour[at : at + 2], 16) for at in (1, 3, 5)]) / 255
    light = np.where(coded <= 0.04045, coded / 12.92, ((coded + 0.055) / 1.055) ** 2.4)
    seen = np.clip(np.asarray(eyes) @ light, 0, 1)
    shares = (XYZ @ seen) / XYZ.sum(axis=1)
    x, y, z = np.where(
        shares > (6 / 29) ** 3, np.cbrt(shares), shares * (29 / 6) ** 2 / 3 + 4 / 29
    )
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def test_one_line_for_spaces_with_the_same_best_plan() -> None:
    runs = [made_run("dp", (1, 10), status="optimal")]
    runs.append(made_run("metis", (1, 10), principles=WIDE))
    text = plots.svg(best_so_far(made_comparison(made_contest(*runs)))).decode()
    assert "proven optimum" in text
    assert "best known" not in text


def test_nothing_overlaps_the_data() -> None:
    figure = best_so_far(made_comparison(MIXED))
    plots.png(figure)
    (legend,) = figure.legends
    box = legend.get_window_extent()
    assert box.x0 >= 0
    assert box.x1 <= figure.bbox.x1
    assert not any(box.overlaps(axis.bbox) for axis in figure.axes if axis.axison)
