"""Certificates of searches that branch: true ones are verified, forged ones are not."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from hetopt.base.deadline import Deadline, Stopped
from hetopt.check.verify import tasks
from hetopt.cli import main
from hetopt.planning.posed import found_by, tree_of
from hetopt.solvers.certificate.tree import certificate_of
from tests.check.claims.made import SHARED, SHARED_TEXT, over_of, request
from tests.cli.commands.forgeries import settle_all
from tests.schemas import ensure_fits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hetopt.results.claims import Measure
    from hetopt.results.result import Objective

    Data = dict[str, Any]
    Verify = Callable[..., tuple[int, list[str]]]

#: Nestings, each with what is minimised.
NESTINGS: tuple[tuple[str, Measure], ...] = (
    ("f", "cost"),
    ("s", "time"),
    ("d", "time"),
    ("fsd", "cost"),
)


@cache
def _made(
    nesting: str, measure: Measure, objective: Objective, limit_s: float | None
) -> tuple[str, str]:
    """Return the texts of a plan file and its certificate."""
    asked = replace(request(SHARED), deadline=Deadline.after(limit_s))
    tree = tree_of(
        asked, solver="dp", objective=objective, over=over_of(nesting, measure)
    )
    result = found_by(tree)
    assert limit_s or result.status == "optimal"
    problem, table = result.problem or SHARED, result.table or asked.table
    certificate = certificate_of(tree, problem, table, result)
    return json.dumps(result.to_json()), certificate


def made(
    nesting: str,
    measure: Measure,
    objective: Objective = "closed",
    limit_s: float | None = None,
) -> tuple[Data, Data]:
    """Return a plan file and its certificate, to be forged."""
    plan, certificate = _made(nesting, measure, objective, limit_s)
    return json.loads(plan), json.loads(certificate)


@pytest.fixture
def verify(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Verify:
    """Return what verifies a certificate, and returns the exit code and all lines."""

    def run(plan: Data, certificate: Data, *options: str) -> tuple[int, list[str]]:
        (tmp_path / "problem.yaml").write_text(SHARED_TEXT)
        (tmp_path / "plan.json").write_text(json.dumps(plan))
        (tmp_path / "cert.json").write_text(json.dumps(certificate, indent=1))
        names = ("problem.yaml", "plan.json", "cert.json")
        code = main(["verify", *(str(tmp_path / name) for name in names), *options])
        captured = capsys.readouterr()
        assert "Traceback" not in captured.err
        # On a slow machine a line of progress is written every half a minute.
        told = (captured.out + captured.err).splitlines()
        return code, [line for line in told if not re.match(r"\w+, \d+ s: ", line)]

    return run


def leaves(claim: Data) -> Iterator[Data]:
    """Yield the claims of a tree that have certificates."""
    if "certificate" in claim:
        yield claim
    for child in (*claim.get("children", ()), *claim.get("parts", ())):
        yield from leaves(child)


def best(data: Data) -> Data:
    """Return the claim of the leaf on which the bound rests."""
    return min(
        leaves(data["claims"]),
        key=lambda leaf: leaf["certificate"]["status"] != "optimal",
    )


def other(data: Data) -> Data:
    """Return the claim of the first other leaf, without the time of its plan."""
    own = best(data)["certificate"]
    found = next(
        leaf for leaf in leaves(data["claims"]) if leaf["certificate"] is not own
    )
    found.pop("best_s", None)
    return found


def raise_sum(data: Data) -> None:
    """Raise the bound of a leaf, but of none of its programs."""
    other(data)["certificate"]["lower_bound_ps"] += 10**6


def raise_programs(data: Data) -> None:
    """Raise all bounds of a leaf, which then has no plan, far above the truth."""
    certificate = other(data)["certificate"]
    certificate.update(plan=None, value_ps=None, status="unknown")
    for program in certificate["programs"]:
        if program["bound_ps"] is not None:
            program["bound_ps"] *= 3
    _settle(certificate)


def raise_best(data: Data) -> None:
    """Claim that the reported plan's own problem has no plan as good."""
    certificate = best(data)["certificate"]
    certificate.update(plan=None, value_ps=None, status="unknown")
    for program in certificate["programs"]:
        if program["bound_ps"] is not None:
            program["bound_ps"] *= 3
    _settle(certificate)


def one_program(data: Data) -> None:
    """Raise the bound of a program that was refuted."""
    leaf, program = next(
        (leaf, program)
        for how in ("refuted-by-search", "refuted-by-bound")
        for leaf in leaves(data["claims"])
        for program in leaf["certificate"]["programs"]
        if program["how"] == how
    )
    program["bound_ps"] *= 3
    _settle(leaf["certificate"])


def no_plan(data: Data) -> None:
    """Claim that a leaf has no plan."""
    certificate = other(data)["certificate"]
    certificate.update(plan=None, value_ps=None, status="infeasible")
    for program in certificate["programs"]:
        program.update(how="infeasible", bound_ps=None)
    _settle(certificate)


def _settle(certificate: Data) -> None:
    if certificate["value_ps"] is not None:
        settle_all(certificate)
        return
    settle_all(certificate | {"value_ps": 10**30})
    bounds = [each["bound_ps"] for each in certificate["programs"]]
    known = [bound for bound in bounds if bound is not None]
    certificate["lower_bound_ps"] = min(known, default=None)


def swap(data: Data) -> None:
    """Exchange the certificates of two leaves."""
    first, second, *_ = leaves(data["claims"])
    for each in (data["claims"], *data["claims"].get("children", ()), first, second):
        each.pop("best_s", None)
    first["certificate"], second["certificate"] = (
        second["certificate"],
        first["certificate"],
    )


def leave_out(data: Data) -> None:
    """Leave out the certificate on which the bound rests."""
    del best(data)["certificate"]


def leave_all_out(data: Data) -> None:
    """Leave out all children of the root."""
    data["claims"]["children"] = []


def other_plan(data: Data) -> None:
    """Change the plan that the certificate is of."""
    data["plan"]["pipelines"][0]["microbatches"] *= 2


def other_plan_of_leaf(data: Data) -> None:
    """Change the plan of a leaf."""
    stage = best(data)["certificate"]["plan"]["pipelines"][0]["stages"][0]
    stage["recompute"] = "none" if stage["recompute"] == "full" else "full"


def other_objective(data: Data) -> None:
    """Say that another time is minimised in a leaf."""
    best(data)["certificate"]["objective"] = "simulated"


def wider(data: Data) -> None:
    """Say that something else was asked for."""
    data["over"].append({"launcher": "megatron"})


#: Forgeries, each with what is said of it.
FORGERIES: tuple[tuple[Callable[[Data], None], str], ...] = (
    (raise_sum, "but the programs give"),
    (raise_programs, "below the claimed bound|said to take at least"),
    (raise_best, "said to take at least|is bounded by"),
    (one_program, "below the claimed bound|said to take at least|is bounded by"),
    (no_plan, "is claimed to be infeasible, but has a plan|said to take at least inf"),
    (swap, "but the problem has|said to take at least"),
    (leave_out, "prove only"),
    (leave_all_out, "prove only"),
    (other_plan, "plan: is not that of the plan file"),
    (other_plan_of_leaf, "certificate."),
    (other_objective, "but the plan file says closed"),
    (wider, "over: is not that of the plan file"),
)


@pytest.mark.parametrize(("nesting", "measure"), NESTINGS)
def test_it_is_verified(nesting: str, measure: Measure, verify: Verify) -> None:
    plan, certificate = made(nesting, measure)
    ensure_fits(certificate, "certificate-tree")
    count = len(list(leaves(certificate["claims"])))
    code, lines = verify(plan, certificate)
    said = "not what the problem asks for" in lines[-1]
    assert (code, len(lines) - said) == (0, 2), lines
    assert said == ("s" in nesting)
    assert f"that the bound follows from those of {count} problems" in lines[0]
    assert "rest on a search were searched again" in lines[0]


@pytest.mark.parametrize("nesting", ["f", "s", "d", "fd"])
def test_simulated_times_are_verified(nesting: str, verify: Verify) -> None:
    code, lines = verify(*made(nesting, "time", "simulated"))
    assert code == 0, lines
    assert "by bounds" in lines[0]
    assert "all of them confirmed" in lines[0]


@pytest.mark.parametrize("nesting", ["f", "s", "d", "fs", "fd", "sd", "fsd"])
@pytest.mark.parametrize("limit_s", [1e-3, 0.2])
def test_a_search_that_was_cut_off_is_verified(
    nesting: str, limit_s: float, verify: Verify
) -> None:
    code, lines = verify(*made(nesting, "time", "closed", limit_s))
    assert code == 0, lines


@pytest.mark.parametrize(("nesting", "measure"), NESTINGS)
@pytest.mark.parametrize(("forge", "said"), FORGERIES)
def test_a_forged_one_is_rejected(
    forge: Callable[[Data], None],
    said: str,
    nesting: str,
    measure: Measure,
    verify: Verify,
) -> None:
    plan, certificate = made(nesting, measure)
    forge(certificate)
    code, lines = verify(plan, certificate)
    assert code in (1, 2)
    assert any(re.search(said, line) for line in lines), lines
    # What the plan file claims, but the certificate does not prove, is in the former.
    names = "plan|cert" if said == "prove only" else "cert"
    assert all(re.match(rf"\S+/({names})\.json:", line) for line in lines), lines


def test_a_sample_is_of_all_leaves_together(verify: Verify) -> None:
    counts = []
    for sample in ("0", "1", "2", "all"):
        code, lines = verify(*made("s", "time"), "--sample", sample, "--seed", "1")
        assert code == 0, lines
        (words,) = re.findall(r"(\d+) of 6 that rest on a search", lines[0])
        counts.append(int(words))
    # Two are said to be bounded, but do not follow: they are always searched.
    assert counts == [2, 3, 4, 6]


def test_it_says_what_is_left_when_the_time_ends(
    verify: Verify, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, (line,) = verify(*made("s", "time"), "--time-limit", "0.000001")
    assert code == 1
    assert "while their problems were set up, 0 of them in time" in line
    assert line.endswith("give it more with --time-limit")

    def late(_deadline: Deadline, _work: object) -> None:
        raise Stopped

    monkeypatch.setattr(tasks, "run_in_time", late)
    code, (line,) = verify(*made("s", "time"))
    assert code == 1
    assert "the bounds of 3 of 3 problems, from this one on, could not be" in line
    assert line.endswith("give it more with --time-limit")


def test_only_a_plan_is_not_enough(verify: Verify) -> None:
    plan, certificate = made("s", "time")
    code, (line,) = verify(plan["plan"], certificate)
    assert code == 2
    assert "the plan file has only a plan" in line


@pytest.mark.parametrize(
    "options",
    [
        ["--pipelines", "2"],
        ["--for", "megatron", "--schedule", "auto", "--objective", "closed"],
    ],
    ids=["pipelines", "launcher"],
)
def test_round_trip_through_the_command_line(
    options: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "problem.yaml").write_text(SHARED_TEXT)
    files = ("--out", "plan.json", "--certificate", "cert.json")
    asked = ("--budget", "5", *options, "--jobs", "1")
    assert main(["plan", "problem.yaml", *asked, *files]) == 0
    capsys.readouterr()
    assert main(["verify", "problem.yaml", "plan.json", "cert.json"]) == 0
    assert "verified: digests, plan, that the bound" in capsys.readouterr().out


def test_a_launchers_certificate_of_other_clusters_is_rejected(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("problem.yaml").write_text(SHARED_TEXT)
    Path("other.yaml").write_text(SHARED_TEXT.replace("name: a,", "name: other,"))
    files = ("--out", "plan.json", "--certificate", "cert.json")
    asked = ("--for", "megatron", "--objective", "closed", "--jobs", "1")
    assert main(["plan", "problem.yaml", *asked, *files]) == 0
    assert main(["verify", "other.yaml", "plan.json", "cert.json"]) == 1
    assert "problem_digest: " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--pareto"], "is of one result, but a front has many"),
        (["--schedule", "auto", "--relax", "p4"], "only with all principles kept"),
    ],
)
def test_what_it_does_not_cover(
    options: list[str],
    said: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / "problem.yaml"
    path.write_text(SHARED_TEXT)
    where = str(tmp_path / "cert.json")
    assert main(["plan", str(path), *options, "--certificate", where]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("--certificate: ")
    assert said in line
