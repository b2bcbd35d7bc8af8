"""``hetopt plan`` where prices decide: --budget, --objective cost, --pareto."""

from __future__ import annotations

import json
import resource
from pathlib import Path
from xml.etree import ElementTree

import pytest

from hetopt.cli import main
from hetopt.planning.posed import tree_of
from hetopt.problem.reading import read_problem_text
from hetopt.results.spending import Spending
from tests.check.claims.made import over_of, request
from tests.schemas import ensure_fits

TEXT = """\
model: {layers: 4, hidden: 512, heads: 4, ffn: 2048, vocab: 32000}
clusters:
  - {name: a, accelerator: A100-80GB, nodes: 2, devices_per_node: 2, price_per_hour: 6,
     inter_node: {bandwidth: 100 Gbps}}
  - {name: b, accelerator: A40, nodes: 2, devices_per_node: 1, price_per_hour: 1,
     inter_node: {bandwidth: 100 Gbps}}
links: {default: {bandwidth: 10 Gbps, latency: 1 ms}}
training: {global_batch: 8, seq_len: 1024, precision: fp16}
"""


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a problem whose nodes have prices."""
    monkeypatch.chdir(tmp_path)
    Path("site.yaml").write_text(TEXT)
    return tmp_path


def plan(*options: str) -> int:
    return main(["plan", "site.yaml", "--jobs", "1", *options])


@pytest.mark.usefixtures("site")
def test_a_budget_gives_the_points_of_the_front(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert plan("--pareto", "--svg", "front.svg", "--out", "front.json") == 0
    printed = capsys.readouterr().out
    assert "none beaten in simulated time and price, and none is missing" in printed
    found = json.loads(Path("front.json").read_text("utf-8"))
    ensure_fits(found, "front")
    assert main(["check", "site.yaml", "front.json"]) == 0
    assert "the proof of the front are as claimed" in capsys.readouterr().out
    for command in (("simulate",), ("export", "--to", "torch", "--out", "x")):
        name, *options = command
        assert main([name, "site.yaml", "front.json", *options]) == 2
        assert "schema: is a front, expected one plan" in capsys.readouterr().err
    assert not Path("x").exists()
    Path("forged.json").write_text(
        json.dumps({**found, "points": found["points"][1:]}), "utf-8"
    )
    assert main(["check", "site.yaml", "forged.json"]) == 1
    assert "may hold a better plan" in capsys.readouterr().err
    texts = "".join(ElementTree.parse("front.svg").getroot().itertext())
    assert "price per hour" in texts
    asked = request(read_problem_text(TEXT))
    tree = tree_of(asked, solver="dp", objective="closed", over=over_of("f", "front"))
    front = tree.front()
    assert [each["closed_form_s"] for each in found["points"]] == [
        each.best.closed_form_s for each in front.points
    ]
    for point in found["points"]:
        price = str(point["cost"]["per_hour"])
        assert plan("--budget", price, "--out", "plan.json", "--json") == 0
        result = json.loads(capsys.readouterr().out)
        assert result["closed_form_s"] == point["closed_form_s"]
        assert result["cost"]["per_hour"] <= float(price)
        assert main(["check", "site.yaml", "plan.json"]) == 0
        capsys.readouterr()


@pytest.mark.usefixtures("site")
def test_a_front_whose_journal_is_not_whole_says_so(
    capsys: pytest.CaptureFixture[str],
) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, before[1]))
    try:
        assert plan("--pareto", "--journal", "run.jsonl", "--json") == 2
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    captured = capsys.readouterr()
    assert json.loads(captured.out)["status"] == "optimal"
    assert "run.jsonl: cannot be written" in captured.err


@pytest.mark.slow
@pytest.mark.usefixtures("site")
def test_a_front_of_several_lengths_is_checked() -> None:
    lengths = "seq_len: 1024, lengths: {1024: 0.5, 512: 0.5}"
    Path("site.yaml").write_text(TEXT.replace("seq_len: 1024", lengths))
    assert plan("--pareto", "--objective", "closed", "--out", "front.json") == 0
    assert main(["check", "site.yaml", "front.json"]) == 0


@pytest.mark.usefixtures("site")
def test_least_cost_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert plan("--objective", "cost", "--min-tokens-per-s", "1", "-v") == 0
    printed = capsys.readouterr().out
    first, *_ = printed.split("\n")
    assert " an iteration, " in first
    assert " s per iteration in closed form, " in first
    assert "proven of least cost over all choices of nodes with 1 tokens/s" in first
    assert "an iteration in closed form, as which the plan costs" in printed
    assert "at which cost is minimised" in printed


@pytest.mark.usefixtures("site")
def test_nothing_within_the_limits(capsys: pytest.CaptureFixture[str]) -> None:
    assert plan("--budget", "0.5", "--out", "plan.json") == 1
    assert capsys.readouterr().err.endswith("no plan costs at most 0.5 an hour\n")
    assert plan("--pareto", "--min-tokens-per-s", "1e12") == 1
    printed, err = capsys.readouterr()
    assert err.endswith("no plan trains 1e+12 tokens/s or more\n")
    assert "next: " not in printed
    small = TEXT.replace("nodes: 2,", "nodes: 2, memory: 2 GB, overhead: 1.9 GB,")
    Path("site.yaml").write_text(small)
    assert plan("--budget", "7") == 1
    assert "no plan costs at most 7 an hour: memory" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--pareto", "--objective", "cost"], "--objective cost: is one point"),
        (["--min-tokens-per-s", "5"], "--min-tokens-per-s: has no effect"),
        (["--pareto", "--top", "2"], "--top: has no meaning for a front"),
        (["--pareto", "--certificate", "c.json"], "--certificate: is of one result"),
        (["--budget", "5", "--solver", "mcts"], "solver mcts does not race"),
        (["--svg", "x.svg"], "--svg: draws the front"),
        (["--budget", "nan"], "'nan' is not a number above 0"),
    ],
)
@pytest.mark.usefixtures("site")
def test_options_that_do_not_fit(
    options: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        code = plan(*options)
    except SystemExit as stop:
        code = int(str(stop.code))
    assert code == 2
    assert told in capsys.readouterr().err
    assert sorted(path.name for path in Path.cwd().iterdir()) == ["site.yaml"]


@pytest.mark.usefixtures("site")
def test_without_a_limit_nothing_is_said_to_be_stopped(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Nothing searches relaxed plans of zb-h1, and no other is quick enough."""
    cheapest = ("--objective", "cost", "--min-tokens-per-s", "1000000")
    assert plan(*cheapest, "--schedule", "zb-h1", "--relax", "p4") == 3
    expected = "no plan was found, but not all plans were searched\n"
    assert capsys.readouterr() == ("", expected)


@pytest.mark.usefixtures("site")
def test_an_empty_front_is_of_the_schedule_that_was_asked_for() -> None:
    text = TEXT.replace("fp16", "fp16, schedule: interleaved-1f1b, chunks: 3")
    Path("site.yaml").write_text(text)
    none = "--schedule", "1f1b", "--min-tokens-per-s", "1e12"
    assert plan("--pareto", *none, "--out", "front.json") == 1
    assert main(["check", "site.yaml", "front.json"]) == 0


@pytest.mark.usefixtures("site")
@pytest.mark.parametrize("tokens", ["300000", "500000"])
def test_fleets_that_are_too_slow_are_so_in_certificates(
    tokens: str, capsys: pytest.CaptureFixture[str]
) -> None:
    # Bounds on them are just above the longest time, which is no whole picosecond.
    cheapest = ("--objective", "cost", "--min-tokens-per-s", tokens)
    assert plan(*cheapest, "--out", "o.json", "--certificate", "c.json") == 0
    assert main(["verify", "site.yaml", "o.json", "c.json"]) == 0
    assert "verified" in capsys.readouterr().out


@pytest.mark.usefixtures("site")
def test_the_throughput_of_an_answer_permits_it() -> None:
    asked = "--objective", "cost", "--out", "o.json", "--certificate", "c.json"
    assert plan(*asked) == 0
    best = json.loads(Path("o.json").read_text("utf-8"))
    for time_s in (0.027445415, 0.1, 0.3, best["closed_form_s"]):
        assert Spending(min_tokens_per_s=4000 / time_s).longest_s(4000) >= time_s
    least = repr(8 * 1024 / best["closed_form_s"])
    assert plan(*asked, "--min-tokens-per-s", least) == 0
    again = json.loads(Path("o.json").read_text("utf-8"))
    assert again["plan"] == best["plan"]
    assert main(["verify", "site.yaml", "o.json", "c.json"]) == 0


#: One device a cluster: only the whole model is on it, its tied embedding but once.
TIED = """\
model: {layers: 2, hidden: 512, heads: 8, ffn: 2048, vocab: 50000, tied: true}
clusters:
  - {name: a, accelerator: A100-80GB, nodes: 1, devices_per_node: 1, memory: 1.4 GB,
     overhead: 0 GB, inter_node: {bandwidth: 10 Gbps, latency: 5 us}, price_per_hour: 1}
  - {name: b, accelerator: L4, nodes: 1, devices_per_node: 1, memory: 1.4 GB,
     overhead: 0 GB, inter_node: {bandwidth: 10 Gbps, latency: 5 us}, price_per_hour: 1}
links: {default: {bandwidth: 1 Gbps, latency: 5 us}}
training: {global_batch: 4, seq_len: 512, schedule: 1f1b, recompute: full,
           lengths: {256: 0.5, 512: 0.5}}
"""


@pytest.mark.usefixtures("site")
@pytest.mark.parametrize("pipelines", ["1", "2"])
def test_a_plan_on_one_of_the_clusters_needs_the_memory_that_it_needs_among_all(
    pipelines: str,
) -> None:
    Path("site.yaml").write_text(TIED)
    times = []
    for options in ([], ["--budget", "1"], ["--budget", "2"], ["--objective", "cost"]):
        asked = ["plan", "site.yaml", "--jobs", "1", "--pipelines", pipelines]
        assert main([*asked, *options, "--out", "plan.json"]) == 0
        assert main(["check", "site.yaml", "plan.json"]) == 0
        times.append(json.loads(Path("plan.json").read_text())["iteration_time_s"])
    assert len({*times}) == 1
