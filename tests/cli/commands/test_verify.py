"""``hetopt plan --certificate`` and ``hetopt verify``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from benchmarks.forging import KINDS, forged
from hetopt.cli import main
from tests.cli.commands.forgeries import (
    FORGERIES,
    FREE_FORGERIES,
    SIMULATED_FORGERIES,
    WIDE_FORGERIES,
    WIDELY_SIMULATED,
    settle_all,
)
from tests.schemas import ensure_fits

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable

    RunHetopt = Callable[..., subprocess.CompletedProcess[str]]
    Data = dict[str, Any]

FILES = ("problem.yaml", "plan.json", "cert.json")


@pytest.fixture(scope="module")
def certified(small: Path, run_hetopt: RunHetopt) -> Path:
    """Return a folder with a problem, its plan, its table and the certificate."""
    arguments = ("--out", "plan.json", "--certificate", "cert.json", "--jobs", "1")
    closed = "--objective", "closed"
    done = run_hetopt("plan", "problem.yaml", *arguments, *closed, cwd=small)
    assert (done.returncode, done.stderr) == (0, "")
    done = run_hetopt("table", "problem.yaml", "--out", "table.json", cwd=small)
    assert done.returncode == 0
    ensure_fits(read(small / "cert.json"), "certificate")
    return small


def read(path: Path) -> Data:
    data: Data = json.loads(path.read_text())
    return data


def verify(
    capsys: pytest.CaptureFixture[str], *arguments: str
) -> tuple[int, list[str]]:
    code = main(["verify", *arguments])
    captured = capsys.readouterr()
    return code, (captured.out + captured.err).splitlines()


def ensure_told(
    folder: Path,
    forgeries: dict[str, tuple[Callable[[Any], None], str]],
    name: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> int:
    """Have a forged certificate be named for what it is; return the exit code."""
    forge, says = forgeries[name]
    data = read(folder / "cert.json")
    forge(data)
    path = tmp_path / "cert.json"
    path.write_text(json.dumps(data, indent=1))
    files = [str(folder / "problem.yaml"), str(folder / "plan.json"), str(path)]
    code, lines = verify(capsys, *files, "--sample", "all")
    assert (code == 0) == (name == "nothing")
    assert any(line.startswith(f"{path}:") and says in line for line in lines), lines
    return code


@pytest.mark.parametrize("sample", ["all", "0", "1"])
def test_a_certificate_is_verified(
    certified: Path, capsys: pytest.CaptureFixture[str], sample: str
) -> None:
    files = [str(certified / name) for name in FILES]
    code, lines = verify(capsys, *files, "--sample", sample, "--seed", "1")
    assert code == 0, lines
    assert "verified" in lines[0]
    assert "all 9 programs" in lines[0]


@pytest.mark.slow
@pytest.mark.usefixtures("workers_at_once")
def test_the_same_certificate_whatever_the_jobs(
    certified: Path, tmp_path: Path
) -> None:
    cert = tmp_path / "cert.json"
    command = ["plan", str(certified / "problem.yaml"), "--certificate", str(cert)]
    command += ["--objective", "closed"]
    for more in (("--jobs", "2"), ("--jobs", "1", "--seed", "7")):
        assert main([*command, *more]) == 0
        assert cert.read_text() == (certified / "cert.json").read_text()


def test_what_no_claim_rests_on_is_not_verified_and_this_is_said(
    certified: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = read(certified / "cert.json")
    other = {
        "refuted-by-bound": "refuted-by-search",
        "refuted-by-search": "refuted-by-bound",
    }
    for claim in data["programs"]:
        claim["how"] = other.get(claim["how"], claim["how"])
    path = tmp_path / "relabelled.json"
    path.write_text(json.dumps(data))
    files = [str(certified / name) for name in FILES[:2]]
    code, lines = verify(capsys, *files, str(path))
    assert code == 0, lines
    assert lines[-1].startswith("not verified, as no claim rests on it: that ")
    assert lines[-1].endswith("which were refuted by a bound and which by a search")


def test_what_else_the_plan_file_says_is_checked(
    certified: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    problem, plan = (certified / name for name in FILES[:2])
    data = read(plan)
    for each in data["settlements"]:
        each["how"] = "infeasible"
    path = tmp_path / "resettled.json"
    path.write_text(json.dumps(data))
    code, lines = verify(capsys, str(problem), str(path), str(certified / "cert.json"))
    assert code == 1
    assert any("is infeasible, but has a bound" in line for line in lines), lines


@pytest.mark.parametrize(
    ("forge", "said"),
    [
        ({"status": "feasible"}, "status: optimal, but the plan file says feasible"),
        ({"lower_bound_s": 1e3}, "lower_bound_ps: "),
    ],
)
def test_a_plan_file_that_says_something_else_is_rejected(
    certified: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    forge: Data,
    said: str,
) -> None:
    path = tmp_path / "plan.json"
    path.write_text(json.dumps({**read(certified / "plan.json"), **forge}))
    problem, _, cert = (str(certified / name) for name in FILES)
    code, lines = verify(capsys, problem, str(path), cert)
    assert code == 1
    assert any(said in line and "but the plan file" in line for line in lines), lines


def test_one_problem_does_not_certify_a_search_over_many(
    certified: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, problem = tmp_path / "plan.json", str(certified / "problem.yaml")
    asked = ("--schedule", "auto", "--objective", "closed", "--jobs", "1")
    assert main(["plan", problem, "--out", str(path), *asked]) == 0
    capsys.readouterr()
    code, lines = verify(capsys, problem, str(path), str(certified / "cert.json"))
    assert code == 2
    assert "schema: is of one problem, but the result is of a search over " in lines[0]


@pytest.mark.parametrize("name", FORGERIES)
def test_forged_certificates_are_rejected(
    certified: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    forge, says = FORGERIES[name]
    data = read(certified / "cert.json")
    forge(data)
    path = tmp_path / "forged.json"
    path.write_text(json.dumps(data, indent=1))
    code, lines = verify(
        capsys,
        *(str(certified / file) for file in FILES[:2]),
        str(path),
        "--sample",
        "all",
    )
    assert code in (1, 2), lines
    assert any(line.startswith(f"{path}:") and says in line for line in lines), lines
    assert not any("Traceback" in line for line in lines)


def test_the_wrong_line_is_named(
    certified: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = (certified / "cert.json").read_text().splitlines()
    number = next(n for n, line in enumerate(lines) if "refuted-by-search" in line)
    lines[number] = lines[number].replace('"bound_ps": 1', '"bound_ps": 2')
    path = tmp_path / "cert.json"
    path.write_text("\n".join(lines))
    files = [str(certified / name) for name in FILES[:2]]
    _, said = verify(capsys, *files, str(path))
    # The bound of its q no longer fits either.
    assert any(line.startswith(f"{path}:") for line in said)
    data = json.loads("\n".join(lines))
    settle_all(data)
    path.write_text("\n".join(json.dumps(data, indent=1).splitlines()))
    _, said = verify(capsys, *files, str(path), "--sample", "all")
    # A claim begins three lines above its "how".
    how = path.read_text().splitlines().index('   "how": "refuted-by-search",')
    assert said[0].startswith(
        f"{path}:{how - 2}: programs.3: (1, 2) has a plan below the claimed bound"
    )


def test_another_plan_table_or_problem_is_rejected(
    certified: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    problem, plan, cert = (certified / name for name in FILES)
    table = read(certified / "table.json")
    table["slices"][0]["clusters"][0]["strategies"][0]["forward_ns"]["layer"] += 1
    (tmp_path / "table.json").write_text(json.dumps(table))
    code, lines = verify(
        capsys,
        *map(str, (problem, plan, cert)),
        "--table",
        str(tmp_path / "table.json"),
    )
    assert code == 1
    assert any("table_digest" in line for line in lines)
    other = tmp_path / "problem.yaml"
    other.write_text(problem.read_text().replace("global_batch: 4", "global_batch: 8"))
    code, lines = verify(capsys, str(other), str(plan), str(cert))
    assert code == 1
    assert any("problem_digest" in line for line in lines)


@pytest.mark.parametrize("text", ["", "[]", "{", "{}", "null", "\x00"])
def test_what_is_no_certificate_is_refused_in_one_line(
    certified: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    path = tmp_path / "cert.json"
    path.write_text(text)
    files = [str(certified / name) for name in FILES[:2]]
    code, lines = verify(capsys, *files, str(path))
    assert (code, len(lines)) == (2, 1), lines
    assert lines[0].startswith(str(path))


def test_no_plan_at_all_is_certified_too(
    certified: Path, tmp_path: Path, run_hetopt: RunHetopt
) -> None:
    text = (certified / "problem.yaml").read_text()
    (tmp_path / "problem.yaml").write_text(
        text.replace("hidden: 1024", "hidden: 65536")
    )
    done = run_hetopt(
        "plan",
        "problem.yaml",
        *("--out", "plan.json", "--certificate", "cert.json"),
        cwd=tmp_path,
    )
    assert done.returncode == 1
    assert read(tmp_path / "cert.json")["status"] == "infeasible"
    done = run_hetopt("verify", *FILES, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


def test_no_plan_under_another_schedule_is_certified_too(
    certified: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (certified / "problem.yaml").read_text()
    problem, *files = (str(tmp_path / name) for name in FILES)
    Path(problem).write_text(text.replace("hidden: 1024", "hidden: 65536"))
    outputs = ("--out", files[0], "--certificate", files[1])
    assert main(["plan", problem, "--schedule", "gpipe", *outputs]) == 1
    capsys.readouterr()
    assert verify(capsys, problem, *files)[0] == 0


def _planned(certified: Path, folder: Path, *more: str) -> Path:
    """Plan for the same problem in another folder."""
    (folder / "problem.yaml").write_text((certified / "problem.yaml").read_text())
    files = {flag: str(folder / name) for flag, name in OUTPUTS.items()}
    arguments = ["plan", str(folder / "problem.yaml"), *more, "--jobs", "1"]
    for flag, file in files.items():
        arguments += [flag, file]
    assert main(arguments) == 0
    return folder


@pytest.fixture(scope="module")
def freely(certified: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a plan whose warm-up counts were chosen."""
    folder = tmp_path_factory.mktemp("freely")
    return _planned(certified, folder, "--schedule", "free-1f1b")


@pytest.fixture(scope="module")
def widely(certified: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a plan that need not keep P4."""
    folder = tmp_path_factory.mktemp("widely")
    return _planned(certified, folder, "--relax", "p4", "--solver", "dp")


@pytest.fixture(scope="module")
def widely_simulated(certified: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a plan that need not keep P4, and bounds by paths."""
    folder = tmp_path_factory.mktemp("widely-simulated")
    return _planned(certified, folder, "--relax", "p4")


@pytest.fixture(scope="module")
def simulated(certified: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a plan of least simulated time."""
    folder = tmp_path_factory.mktemp("simulated")
    return _planned(certified, folder, "--objective", "simulated")


OUTPUTS = {"--out": "plan.json", "--certificate": "cert.json"}


@pytest.mark.parametrize("name", FREE_FORGERIES)
def test_free_warm_ups_are_verified(
    freely: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    code = ensure_told(freely, FREE_FORGERIES, name, tmp_path, capsys)
    assert code == (0 if name == "nothing" else 1)


@pytest.mark.parametrize("name", WIDE_FORGERIES)
def test_wider_spaces_are_verified(
    widely: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    ensure_told(widely, WIDE_FORGERIES, name, tmp_path, capsys)


@pytest.mark.parametrize("name", WIDELY_SIMULATED)
def test_simulated_times_of_wider_spaces_are_verified(
    widely_simulated: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    name: str,
) -> None:
    assert read(widely_simulated / "cert.json")["status"] == "feasible"
    ensure_told(widely_simulated, WIDELY_SIMULATED, name, tmp_path, capsys)


@pytest.mark.parametrize("name", SIMULATED_FORGERIES)
def test_simulated_times_are_verified(
    simulated: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    assert read(simulated / "cert.json")["objective"] == "simulated"
    ensure_told(simulated, SIMULATED_FORGERIES, name, tmp_path, capsys)


def test_the_pruned_space_is_not_said_to_be_wider(
    certified: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = read(certified / "cert.json")
    data["relaxed"] = ["p4"]
    path = tmp_path / "cert.json"
    path.write_text(json.dumps(data))
    files = [str(certified / name) for name in FILES[:2]]
    code, lines = verify(capsys, *files, str(path))
    assert code == 1
    assert "relaxed: p4, but the plan file says none" in lines[0]


@pytest.mark.parametrize(
    ("flag", "more"),
    [
        ("--certificate", ("cert.json", "--solver", "uniap")),
        ("--journal", ("run.jsonl", "--solver", "uniap")),
        ("--executor", ("ray", "--solver", "uniap")),
    ],
)
def test_what_does_not_fit_is_refused_before_the_search(
    certified: Path,
    capsys: pytest.CaptureFixture[str],
    flag: str,
    more: tuple[str, ...],
) -> None:
    code = main(["plan", str(certified / "problem.yaml"), flag, *more])
    said = capsys.readouterr().err.splitlines()
    assert (code, len(said)) == (2, 1)
    assert said[0].startswith(f"{flag}: ")


@pytest.fixture(scope="module")
def with_second(certified: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a plan, its certificate and the second-best plan."""
    return _planned(certified, tmp_path_factory.mktemp("second"), "--top", "2")


@pytest.mark.parametrize("kind", KINDS)
def test_careful_forgeries_are_rejected(
    with_second: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    plan = read(with_second / "plan.json")
    plan_file, certificate = forged(
        kind, plan, read(with_second / "cert.json"), plan["alternatives"][0]
    )
    files = [str(with_second / "problem.yaml")]
    for name, data in (("plan.json", plan_file), ("cert.json", certificate)):
        (tmp_path / name).write_text(json.dumps(data))
        files.append(str(tmp_path / name))
    # Only what is said to be refuted by a search may be left out of a sample.
    sample = () if kind == "bound raised" else ("--sample", "0")
    code, lines = verify(capsys, *files, *sample)
    assert code in (1, 2), lines


def test_no_bound_is_derived_where_a_count_is_wrong(
    certified: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    data = read(certified / "cert.json")
    data["programs"].pop()
    path = tmp_path / "cert.json"
    path.write_text(json.dumps(data))

    def derive(*arguments: object, **more: object) -> None:
        pytest.fail("a bound was derived")

    monkeypatch.setattr("hetopt.check.verify.bound._unproven", derive)
    files = [str(certified / name) for name in FILES[:2]]
    code, lines = verify(capsys, *files, str(path))
    assert code == 1
    assert any("is missing" in line for line in lines)


def test_the_time_limit_is_for_everything(
    certified: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = [str(certified / name) for name in FILES]
    code, lines = verify(capsys, *files, "--time-limit", "1e-6")
    assert code == 1
    assert len(lines) == 1
    assert "--time-limit" in lines[0]
