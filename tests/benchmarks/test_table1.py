"""What the files of HetAuto's Table 1 state about its strategies and our optima."""

from __future__ import annotations

import re
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

import hetopt
from benchmarks.published import HETAUTO, best_single_stage, figures
from hetopt.problem.catalogue import problem_files
from hetopt.problem.reading import read_problem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hetopt.problem.problem import Problem

#: Device -> degrees (d, c, t), micro-batch and tokens per device and second (HetAuto,
#: Table 1).
TABLE_1 = {
    "a100": ((8, 2, 1), 1, 3395.6),
    "h20": ((16, 1, 1), 1, 2218.6),
    "a2": ((4, 1, 4), 2, 2286.7),
}
#: Plans that are ranked, the published one among them.
TOP = 12


class Stated(NamedTuple):
    """One line of a file: degrees, micro-batch, seconds and percent longer."""

    degrees: tuple[int, ...]
    microbatch: int
    seconds: str
    longer: str | None


def head(name: str) -> str:
    """Return a file's comments as one line of text."""
    path = Path(str(problem_files()[f"hetauto-table1-{name}"]))
    lines = path.read_text("utf-8").splitlines()
    return " ".join(line.strip("# ") for line in lines if line.startswith("#"))


def stated(name: str, what: str) -> Stated:
    found = re.search(
        rf"{what}: \((\d+), (\d+), (\d+)\), micro-batch (\d+), ([\d.]+) s"
        r"(?:, ([\d.]+)% longer)?",
        head(name),
    )
    assert found is not None, f"hetauto-table1-{name} states no {what}"
    *numbers, seconds, longer = found.groups()
    *degrees, microbatch = map(int, numbers)
    return Stated(tuple(degrees), microbatch, seconds, longer)


def solved(problem: Problem) -> Iterator[tuple[tuple[int, ...], int, float]]:
    """Yield degrees, micro-batch and seconds of plans, the best first."""
    result = hetopt.plan(problem, top=TOP, jobs=1)
    assert result.status == "optimal"
    assert result.best is not None
    for each in chain((result.best,), result.alternatives):
        pipeline, s = each.plan.pipeline, each.plan.pipeline.stages[0].strategy
        microbatch = problem.training.global_batch // (pipeline.microbatches * s.dp)
        yield (s.dp, s.cp, s.tp), microbatch, each.iteration_time_s


@pytest.mark.parametrize("name", TABLE_1)
def test_a_file_states_its_optimum_and_the_published_strategy(name: str) -> None:
    degrees, microbatch, tokens = TABLE_1[name]
    at_top = re.search(
        r"Published optimum \(d, c, t\) = \((\d+), (\d+), (\d+)\), micro-batch (\d+), "
        r"([\d.]+) tokens",
        head(name),
    )
    assert at_top is not None
    assert tuple(map(float, at_top.groups())) == (*degrees, microbatch, tokens)
    best, published = stated(name, "optimum"), stated(name, "published")
    assert (published.degrees, published.microbatch) == (degrees, microbatch)
    ranked = list(solved(read_problem(f"hetauto-table1-{name}")))
    first_s = ranked[0][2]
    assert (*ranked[0][:2], f"{first_s:.2f}") == best[:3]
    theirs_s = next(s for *which, s in ranked if which == [degrees, microbatch])
    assert f"{theirs_s:.2f}" == published.seconds
    assert f"{theirs_s / first_s - 1:.1%}" == f"{published.longer}%"


def test_the_published_strategy_is_the_optimum_of_the_roofline_on_a100_only() -> None:
    alike = {}
    for figure in figures():
        if figure.source == HETAUTO:
            _, strategy, _ = best_single_stage(figure.problem)
            alike[figure.problem.clusters[0].name] = strategy == figure.strategy
    assert alike == {"a100": True, "h20": False, "ascend": True}
    for name in TABLE_1:
        said = "By the roofline alone" in head(name)
        assert said == (name == "a100")


def changed(name: str, old: str, new: str, tmp_path: Path) -> Problem:
    """Return the problem of a file in which one text is replaced."""
    text = Path(str(problem_files()[f"hetauto-table1-{name}"])).read_text("utf-8")
    assert old in text
    path = tmp_path / "problem.yaml"
    path.write_text(text.replace(old, new), "utf-8")
    return read_problem(str(path))


def test_with_the_sizes_of_llama_7b_a_whole_sequence_per_device_is_best(
    tmp_path: Path,
) -> None:
    ours = "kv_heads: 8, ffn: 14336, vocab: 128256}"
    smaller = changed("a100", f", {ours}", "}", tmp_path)
    assert next(solved(smaller))[:2] == ((16, 1, 1), 1)
    pinned = "pin: {stages: 1, clusters: {a100: {dp: 16}}}"
    best = hetopt.plan(changed("a100", "pin: {stages: 1}", pinned, tmp_path)).best
    assert best is not None
    assert best.plan.pipeline.stages[0].strategy.recompute == "full"


@pytest.mark.parametrize("name", ["a100", "h20"])
def test_an_interface_per_device_makes_it_a_fifth_shorter(
    name: str, tmp_path: Path
) -> None:
    faster = changed(name, "    nics_per_node: 1\n", "", tmp_path)
    published_s = 64 * 8192 / 16 / TABLE_1[name][2]
    assert 0.17 < 1 - next(solved(faster))[2] / published_s < 0.23
