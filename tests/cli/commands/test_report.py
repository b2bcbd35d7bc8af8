"""``hetopt report``: one page that says what the files say, and asks for nothing."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import os
import re
import shutil
from pathlib import Path

import pytest

from hetopt.cli import main
from hetopt.problem.catalogue import accelerators
from hetopt.report.page import timeline
from hetopt.report.page.page import SECTIONS
from hetopt.report.rounding import rounded
from tests.cli.conftest import RunHetopt
from tests.cost.sources.test_operator_source import operators
from tests.report.page.reading import Document

#: A name that is markup, an end of a script, and an entity.
HOSTILE = "</script><img src=x onerror=alert(1)>&amp;\"'<!--"


@pytest.fixture
def folder(planned: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with ``problem.yaml`` and ``plan.json``, the current one."""
    for name in ("problem.yaml", "plan.json"):
        shutil.copy(planned / name, tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="session")
def beside(planned: Path) -> Path:
    """Return the folder of a plan, its journal and variants of its problem."""
    problem = str(planned / "problem.yaml")
    kept = ("--top", "3", "--journal", str(planned / "journal.jsonl"))
    asked = ("plan", problem, "--objective", "closed", "--jobs", "1")
    assert main([*asked, *kept]) == 0
    changes = ("--add", "slow:1", "--set", "clusters.fast.price_per_hour=3")
    out = ("--out", str(planned / "whatif.json"))
    assert main(["whatif", problem, "--jobs", "1", *changes, *out]) == 0
    return planned


@pytest.fixture(scope="session")
def explained(planned: Path) -> Path:
    """Return what ``hetopt explain`` writes about the plan."""
    names = [str(planned / name) for name in ("problem.yaml", "plan.json")]
    out = planned / "why.json"
    assert main(["explain", *names, "--jobs", "1", "--out", str(out)]) == 0
    return out


def report(*arguments: str) -> Document:
    """Return the page, which must be well-formed and ask for nothing."""
    assert main(["report", *arguments, "--out", "page.html"]) == 0
    text = Path("page.html").read_text("utf-8")
    document = Document(text)
    assert document.faults == []
    for name, own in document.elements:
        for attribute, value in own.items():
            assert not attribute.startswith("on"), (name, attribute)
            if attribute in ("src", "href"):
                assert (value or "").startswith(("#", "data:image/svg+xml;base64,"))
    assert not re.search(r"https?:|url\(|@import|srcset", text)
    (policy,) = (
        own["content"]
        for own in document.named("meta")
        if own.get("http-equiv") == "Content-Security-Policy"
    )
    scripts = [text for name, text in document.texts if name == "script"]
    digest = base64.b64encode(hashlib.sha256(scripts[-1].encode()).digest()).decode()
    assert policy is not None
    assert "default-src 'none'" in policy
    assert f"script-src 'sha256-{digest}'" in policy
    return document


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Run a command that must end with 2 and write nothing; return its one line."""
    assert main(["report", *arguments, "--out", "page.html"]) == 2
    printed, said = capsys.readouterr()
    assert printed == ""
    assert said.count("\n") == 1
    assert not Path("page.html").exists()
    return said


def test_the_page_says_what_the_files_say(
    beside: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("journal.jsonl", "whatif.json"):
        shutil.copy(beside / name, folder)
    page = report(
        *("problem.yaml", "plan.json"),
        *("--journal", "journal.jsonl", "--whatif", "whatif.json"),
    )
    assert capsys.readouterr().out == "wrote page.html\n"
    result = json.loads(Path("plan.json").read_text("utf-8"))
    text = page.text()
    assert f"takes {result['closed_form_s']:.3g} s in closed form on" in text
    assert "micro-batch: proven optimal." in text
    tiles = page.text("dd")
    assert f"{result['closed_form_s']:.3g} s" in tiles
    assert "HAPT" not in tiles
    assert "hetopt export problem.yaml plan.json --to" in page.text("code")
    assert result["plan"]["problem_digest"] in text
    assert result["plan"]["table_digest"] in text
    assert "--top 3 --out plan.json" in page.text("code")
    assert Path("problem.yaml").read_text("utf-8") in page.text("code")
    for other in result["alternatives"]:
        later = other["closed_form_s"] / result["closed_form_s"] - 1
        assert f"{later:+.1%}" in text
    for row in json.loads(Path("whatif.json").read_text("utf-8"))["rows"]:
        assert row["change"] in text
        assert f"{row['closed_form_s']:.3g} s" in text
    last = json.loads(Path("journal.jsonl").read_text("utf-8").splitlines()[-1])
    assert last["incumbent_s"] == pytest.approx(result["closed_form_s"])
    assert f"{last['incumbent_s']:.4f}" in page.text("td")
    assert_history_is_drawn(page)
    assert {own["id"] for own in page.named("section")} == {
        each.name
        for each in SECTIONS
        if each.name not in ("plans", "stability", "front")
    }


def assert_history_is_drawn(page: Document) -> None:
    """Both lines lie in the picture, the bound below the best plan or on it."""
    found = {}
    for own in page.named("path"):
        path = own["d"] or ""
        places = [float(y) for y in re.findall(r"(?:V|M[\d.]+ )([\d.]+)", path)]
        assert all(0 <= y <= 100 for y in places), path
        across = [float(x) for x in re.findall(r"[HM]([\d.]+)", path)]
        assert across == sorted(across)
        found[own["class"]] = places
    assert found["incumbent"] == sorted(found["incumbent"])
    assert found["bound"] == sorted(found["bound"], reverse=True)
    assert found["bound"][-1] == found["incumbent"][-1]


def test_errors_are_around_the_time(folder: Path) -> None:
    page = report("problem.yaml", "plan.json")
    result = json.loads(Path("plan.json").read_text("utf-8"))
    error = accelerators()["A100-80GB"].accuracy
    assert error is not None
    for share in (error.median, error.worst):
        low, high = (result["closed_form_s"] / (1 + e) for e in (share, -share))
        assert f"{rounded(low)} to {rounded(high)} s" in page.text("p")


def test_a_cluster_of_which_nothing_is_known_is_named(folder: Path) -> None:
    with Path("problem.yaml").open("a", encoding="utf-8") as problem:
        problem.write("latency: {slow: roofline}\npin: {order: [slow, fast]}\n")
    assert main(["plan", "problem.yaml", "--jobs", "1", "--out", "both.json"]) == 0
    page = report("problem.yaml", "both.json")
    assert "No published iterations show the error for slow." in page.text("p")
    assert "unknown" not in page.text("dd")
    assert "not known for A40" in page.text("dd")


def test_modelled_operators_do_not_pass_for_measured(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In the plan's text, in its file, and on the page."""
    text = operators().replace("kind: measured", "kind: modelled")
    (folder / "mine.csv").write_text(text)
    problem = (folder / "problem.yaml").read_text()
    (folder / "mine.yaml").write_text(f"{problem}latency: {{fast: mine.csv}}\n")
    plan = ["plan", "mine.yaml", "--jobs", "1", "-v", "--out", "mine.json"]
    assert main(plan) == 0
    printed = capsys.readouterr().out
    kinds = json.loads((folder / "mine.json").read_text())["table_kinds"]
    assert kinds == {"fast": "modelled", "slow": "operators"}
    page = report("mine.yaml", "mine.json").text()
    for said in (printed, page):
        assert "fast modelled, slow operators (modelled times were computed, " in said
        assert "fast: the sum of modelled operators; " in said
        assert "mine.csv (modelled); " in said


def test_bars_are_to_scale(folder: Path) -> None:
    with Path("problem.yaml").open("a", encoding="utf-8") as problem:
        problem.write("pin: {stages: 2}\n")
    assert main(["plan", "problem.yaml", "--jobs", "1", "--out", "two.json"]) == 0
    page = report("problem.yaml", "two.json")
    result = json.loads(Path("two.json").read_text("utf-8"))
    stages = result["plan"]["pipelines"][0]["stages"]
    units = [stage["end_unit"] - stage["first_unit"] for stage in stages]
    assert len(units) == 2
    wide = [
        int(match[1])
        for own in page.named("div")
        if (match := re.match(r"flex-grow:(\d+)", own.get("style") or ""))
    ]
    assert wide[-3 * len(units) :] == 3 * units
    assert sum(wide) == 4 * sum(units)
    table = page.text("td")
    for own in page.named("div"):
        memory = re.fullmatch(
            r"stage \d, \w+: ([\d.]+ of [\d.]+) GB", own.get("title") or ""
        )
        assert memory is None or memory[1].replace(" of ", "/") in table
    assert_idle_is_to_scale(page, len(units))


def assert_idle_is_to_scale(page: Document, stages: int) -> None:
    """The caption says what the full height is, and it is not far above the bars."""
    caption = re.search(r"full height: (\d+)%", page.text("div"))
    assert caption is not None
    heights = [
        float((own["style"] or "").removeprefix("--h:"))
        for own in page.named("i")
        if own.get("class") == "bar"
    ][-stages:]
    told = re.findall(r"stage \d, \w+: ([\d.]+)% idle", str(page.named("div")))
    assert len(told) == stages
    for height, idle in zip(heights, told, strict=True):
        assert height == pytest.approx(float(idle) / int(caption[1]), abs=0.01)
    assert max(heights) >= 0.4


def test_the_same_files_make_the_same_bytes(
    folder: Path, run_process: RunHetopt
) -> None:
    report("problem.yaml", "plan.json")
    first = Path("page.html").read_bytes()
    done = run_process(
        *("report", "problem.yaml", "plan.json", "--out", "page.html"),
        cwd=folder,
        PYTHONHASHSEED="7",
        TZ="Asia/Tokyo",
        COLUMNS="40",
    )
    assert done.returncode == 0, done.stderr
    assert Path("page.html").read_bytes() == first


def test_names_are_text(folder: Path) -> None:
    named = json.dumps(HOSTILE)
    text = (
        Path("problem.yaml").read_text("utf-8").replace("name: fast", f"name: {named}")
    )
    Path("problem.yaml").write_text(f"name: {named}\n{text}", "utf-8")
    assert main(["plan", "problem.yaml", "--jobs", "1", "--out", "new.json"]) == 0
    os.rename("new.json", "<b>.json")
    page = report("problem.yaml", "<b>.json")
    assert [own["src"][:5] for own in page.named("img") if own["src"]] == ["data:"]
    assert len(page.named("script")) == 2
    assert HOSTILE in page.text("h1")
    assert f"{HOSTILE}: 1 stage, 2 devices" in page.text("span")
    data = json.loads(next(text for name, text in page.texts if name == "script"))
    assert HOSTILE in data["clusters"]


@pytest.mark.slow
def test_prices_and_how_far_coefficients_may_move(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = Path("problem.yaml").read_text("utf-8")
    text = text.replace("{name: ", "{price_per_hour: 2, name: ")
    Path("priced.yaml").write_text(text)
    plan = ("plan", "priced.yaml", "--jobs", "1")
    assert main([*plan, "--stability", "--out", "sure.json"]) == 0
    assert main([*plan, "--objective", "cost", "--out", "cheap.json"]) == 0
    assert main([*plan, "--pareto", "--out", "front.json"]) == 0
    front = json.loads(Path("front.json").read_text("utf-8"))
    files = ("sure.json", "cheap.json", "--pareto", "front.json")
    page = report("priced.yaml", *files)
    dots = [own["d"] for _, own in page.elements if own.get("class") == "dots"]
    assert [(dot or "").count("M") for dot in dots] == [len(front["points"])]
    for said in (
        "none beaten in simulated time and price, and none is missing",
        "how far each may move until another plan is better by more than 1%",
        "choices of nodes",
    ):
        assert said in page.text(), said
    assert main(["plan", "problem.yaml", "--jobs", "1", "--out", "plan.json"]) == 0
    capsys.readouterr()
    Path("page.html").unlink()
    said = refused(capsys, "problem.yaml", "plan.json", "--pareto", "front.json")
    assert said.startswith("front.json: ")


def test_several_plans_are_compared(folder: Path) -> None:
    one = ("plan", "problem.yaml", "--jobs", "1", "--solver", "uniform")
    assert main([*one, "--out", "uniform.json"]) == 0
    page = report("problem.yaml", "uniform.json", "plan.json")
    text = page.text()
    times = {
        name: json.loads(Path(name).read_text("utf-8"))["iteration_time_s"]
        for name in ("uniform.json", "plan.json")
    }
    fastest = min(times, key=lambda name: times[name])
    assert f"With {fastest}, the fastest of 2 plans" in text
    assert f"{min(times.values()):.3g} s, +0.0%" in text
    assert "plans" in {own["id"] for own in page.named("section")}
    assert sum(own.get("class") == "timeline" for own in page.named("figure")) == 2


def test_variants_without_proof_or_plan_are_told_apart(
    beside: Path, folder: Path
) -> None:
    data = json.loads((beside / "whatif.json").read_text("utf-8"))
    _, one, other = data["rows"]
    one |= {"status": "feasible", "lower_bound_s": one["closed_form_s"] / 2, "gap": 0.5}
    other |= {"status": "infeasible", "closed_form_s": None, "reason": "no <room>"}
    Path("some.json").write_text(json.dumps(data), "utf-8")
    page = report("problem.yaml", "plan.json", "--whatif", "some.json")
    wide = {
        kind: [
            float(re.sub(r".*width:|%", "", own["style"] or ""))
            for own in page.named("i")
            if own.get("class") == kind
        ]
        for kind in ("sure", "unsure")
    }
    assert wide["unsure"][0] == 0
    assert wide["unsure"][1] == pytest.approx(wide["sure"][1], abs=0.01)
    assert f"{one['closed_form_s']:.3g} s, " in page.text("span")
    assert "not proven, gap 50.00%" in page.text("span")
    assert "no plan: no <room>" in page.text("span")


def test_each_cluster_alone_is_beside_the_plan(explained: Path, folder: Path) -> None:
    shutil.copy(explained, "why.json")
    page = report("problem.yaml", "plan.json", "--explain", "why.json")
    assert "Is mixing worth it?" in page.text("h2")
    mixed = json.loads(Path("why.json").read_text("utf-8"))["mixing"]
    for each in mixed["alone"]:
        assert each["cluster"] in page.text("td")
        assert rounded(each["time_s"]) in page.text("td")
    assert f"{mixed['hetero_speedup_ratio']:.1%} of the tokens" in page.text()
    assert "--explain why.json --out page.html" in page.text("code")
    assert "of each cluster alone are its word" in page.text("p")
    assert "None given: `hetopt explain" in report("problem.yaml", "plan.json").text()


@pytest.mark.parametrize(
    ("before", "after", "says"),
    [
        ('"mixing"', '"mixed"', "mixed"),
        ('"schedule": "', '"schedule": "g', "plan"),
        ('"microbatches": ', '"microbatches": 1', "plan: is not on the page"),
    ],
)
def test_an_explanation_of_something_else_is_refused(
    explained: Path,
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    before: str,
    after: str,
    says: str,
) -> None:
    text = explained.read_text("utf-8")
    assert before in text
    Path("why.json").write_text(text.replace(before, after, 1), "utf-8")
    capsys.readouterr()
    said = refused(capsys, "problem.yaml", "plan.json", "--explain", "why.json")
    assert said.startswith("why.json: ")
    assert says in said


@pytest.mark.parametrize(
    ("place", "value", "says"),
    [
        (("hetero_speedup_ratio",), 9.0, "mixing.hetero_speedup_ratio: is 9.0, but "),
        (("over_fastest",), 100.0, "mixing.over_fastest: "),
        (("over_fastest",), None, "mixing.over_fastest: is empty, but "),
        (("balance",), 7.0, "mixing.balance: "),
        (("time_s",), 1e-3, "mixing.time_s: "),
        (("devices",), 99_999, "mixing.devices: "),
        (("alone", 0, "cluster"), "x", "mixing.alone.0.cluster: is 'x', but "),
        (("alone", 0, "devices"), 99_999, "mixing.alone.0.devices: "),
        (("alone", 1, "tokens_per_s"), 1.0, "mixing.alone.1.tokens_per_s: "),
        (("alone", 1, "time_s"), 1e-3, "mixing."),
        (("alone", 1, "time_s"), -1.0, "mixing.alone.1.time_s: "),
        (("alone", 1, "time_s"), math.inf, "mixing.alone.1.time_s: "),
        (("alone", 1, "time_s"), None, "mixing.alone.1.status: is optimal, but "),
        (("alone", 1, "status"), "infeasible", "mixing.alone.1.status: "),
        ((), None, "mixing: compares 0 clusters, not 2: run"),
    ],
)
def test_what_does_not_follow_is_refused(
    explained: Path,
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    place: tuple[str | int, ...],
    value: object,
    says: str,
) -> None:
    """Only times, proofs and reasons of clusters alone cannot be computed again."""
    data = json.loads(explained.read_text("utf-8"))
    *way, last = ("mixing", *place)
    at = data
    for key in way:
        at = at[key]
    at[last] = value
    Path("why.json").write_text(json.dumps(data), "utf-8")
    capsys.readouterr()
    said = refused(capsys, "problem.yaml", "plan.json", "--explain", "why.json")
    assert said.startswith("why.json: ")
    assert says in said


def test_a_long_search_is_thinned(folder: Path, beside: Path) -> None:
    head, *_, last = (beside / "journal.jsonl").read_text("utf-8").splitlines()
    entry = json.loads(last)
    end_s = entry["incumbent_s"]
    lines = [
        json.dumps(entry | {"elapsed_s": n, "lower_bound_s": end_s * n / 5000})
        for n in range(1, 5001)
    ]
    Path("long.jsonl").write_text("\n".join((head, *lines, "")), "utf-8")
    page = report("problem.yaml", "plan.json", "--journal", "long.jsonl")
    assert_history_is_drawn(page)
    assert len(page.named("td")) < 4000
    assert "5000.000" in page.text("td")


def test_of_too_many_events_the_page_has_parts(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timeline, "MOST_BYTES", 0)
    page = report("problem.yaml", "plan.json")
    assert "Next part" in page.text("button")
    assert "Shaded: not on this page." in page.text("figcaption")


def test_a_plan_alone_claims_nothing(folder: Path) -> None:
    data = json.loads(Path("plan.json").read_text("utf-8"))
    Path("alone.json").write_text(json.dumps(data["plan"]), "utf-8")
    text = report("problem.yaml", "alone.json").text()
    assert "its file says nothing about other plans" in text
    assert "No journal was given" in text
    assert "None given: `hetopt whatif" in text


def test_with_a_table_of_ones_own_nothing_is_said_of_errors(folder: Path) -> None:
    assert main(["table", "problem.yaml", "--out", "table.json"]) == 0
    page = report("problem.yaml", "plan.json", "--table", "table.json")
    assert "Times follow from table.json: its errors are unknown." in page.text()
    assert page.text("code").count("--table table.json") == 3


def test_a_journal_may_have_no_times(beside: Path, folder: Path) -> None:
    lines = (beside / "journal.jsonl").read_text("utf-8").splitlines()
    old = [json.loads(line) for line in lines]
    for entry in old:
        for key in ("elapsed_s", "incumbent_s", "lower_bound_s"):
            entry.pop(key, None)
    text = "".join(json.dumps(entry) + "\n" for entry in old)
    Path("old.jsonl").write_text(f'{text}{{"stages": 1, "mic', "utf-8")
    page = report("problem.yaml", "plan.json", "--journal", "old.jsonl")
    assert "The journal has no times" in page.text()


def test_the_journal_of_another_search_is_refused(
    beside: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = json.loads(Path("plan.json").read_text("utf-8"))["plan"]
    text = (beside / "journal.jsonl").read_text("utf-8")
    # A search that branches has the plan's problem below its own.
    below = text.replace(data["problem_digest"], "0" * 64, 1)
    for field in ("table_digest", "problem_digest"):
        text = text.replace(data[field], "0" * 64)
        Path("other.jsonl").write_text(text, "utf-8")
        said = refused(capsys, "problem.yaml", "plan.json", "--journal", "other.jsonl")
        assert said.startswith(f"other.jsonl:1: {field}: is not the plan's")
    Path("below.jsonl").write_text(below, "utf-8")
    assert_history_is_drawn(
        report("problem.yaml", "plan.json", "--journal", "below.jsonl")
    )


@pytest.mark.parametrize(
    ("flag", "name", "before", "after", "says"),
    [
        ("--journal", "journal.jsonl", "hetopt-journal/2", "other/1", ":1: schema"),
        ("--journal", "journal.jsonl", '"elapsed_s": ', '"elapsed_s": "', ":3: "),
        ("--journal", "journal.jsonl", None, "", ":1: "),
        ("--whatif", "whatif.json", None, "{", "is not JSON"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused(
    beside: Path,
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    flag: str,
    name: str,
    before: str | None,
    after: str,
    says: str,
) -> None:
    text = (beside / name).read_text("utf-8")
    if before is not None:
        assert before in text
    Path(name).write_text(text.replace(before, after) if before else after, "utf-8")
    said = refused(capsys, "problem.yaml", "plan.json", flag, name)
    assert said.startswith(name)
    assert says in said


def test_variants_of_another_problem_are_refused(
    beside: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = json.loads((beside / "whatif.json").read_text("utf-8"))
    data["rows"][0]["problem_digest"] = "0" * 64
    Path("whatif.json").write_text(json.dumps(data), "utf-8")
    said = refused(capsys, "problem.yaml", "plan.json", "--whatif", "whatif.json")
    assert "rows.0.problem_digest: is another problem's" in said


def test_a_problem_that_is_a_pipe_is_refused(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    os.mkfifo("pipe")
    assert refused(capsys, "pipe", "plan.json").startswith("pipe: is not a file")


def test_no_input_is_replaced(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = Path("plan.json").read_bytes()
    assert main(["report", "problem.yaml", "plan.json", "--out", "plan.json"]) == 2
    assert "would replace plan.json" in capsys.readouterr().err
    assert Path("plan.json").read_bytes() == before
