"""``hetopt inventory``: from what a site prints to a plan."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from hetopt.cli import main
from hetopt.errors import InputError
from hetopt.problem.digest import problem_digest
from hetopt.problem.reading import read_problem, read_problem_text

SINFO = """\
dgx01 idle gpu:a100:8(S:0-1) 256 2063000 batch*
dgx02 idle gpu:a100:8(S:0-1) 256 2063000 batch*
dgx03 mix gpu:a100:8(S:0-1) 256 2063000 batch*
dgx04 drain gpu:a100:8(S:0-1) 256 2063000 batch*
"""
HOSTFILE = "10.0.0.1 slots=8 type=RTX-PRO-6000\n10.0.0.2 slots=8 type=RTX-PRO-6000\n"
REST = """\
model: {layers: 8, hidden: 1024, heads: 8, ffn: 4096, vocab: 32000}
training: {global_batch: 16, seq_len: 1024}
clusters: clusters.yaml
links: clusters.yaml
"""
#: Answers in the order of the questions' lines.
ANSWERS = [
    (r"^    # accelerator: A100-80GB$", "    accelerator: A100-80GB"),
    (r"^    # inter_node:.*$", "    inter_node: {bandwidth: 200 Gbps}"),
    (r"^    # (accelerator:|  \w+: .*)$", r"    \1"),
    (r"^# (links:|  default:.*)$", r"\1"),
    ("<the nearest of `hetopt catalog`>", "L40S"),
    ("<such as ([^,>]*)[^>]*>", r"\1"),
]


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the current folder, which holds two inventories."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sinfo.txt").write_text(SINFO)
    (tmp_path / "hostfile").write_text(HOSTFILE)
    return tmp_path


def test_from_inventories_to_a_plan(
    site: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written = site / "clusters.yaml"
    assert main(["inventory", "sinfo.txt", "hostfile", "--out", "clusters.yaml"]) == 0
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.splitlines() == [
        "6 nodes read, 4 of them in 2 clusters, 2 left out",
        "left out: 1 partly or wholly used: dgx03; --include mixed keeps it",
        "left out: 1 drained: dgx04; --include drained keeps it",
        "hostfile (hostfile) does not say whether the hosts are up and free",
        "clusters.yaml: 5 questions to answer",
    ]
    text = written.read_text()
    assert text.count("QUESTION: ") == 5
    joined = text.replace("\n#   ", " ")
    for line in printed.err.splitlines()[:-1]:
        assert f"# {line}" in joined
    (site / "problem.yaml").write_text(REST)

    # Nothing is guessed: as it is, it is no problem, and neither is a placeholder.
    with pytest.raises(InputError, match="has clusters but no links"):
        read_problem("problem.yaml")
    with pytest.raises(InputError, match=r"clusters.0.accelerator: is missing"):
        read_problem_text(REST.replace("links: clusters.yaml\n", ""))
    for pattern, answer in ANSWERS[:-1]:
        text = re.sub(pattern, answer, text, flags=re.MULTILINE)
    written.write_text(text)
    with pytest.raises(InputError, match="in place of <such as 312 TFLOPS"):
        read_problem("problem.yaml")
    text = re.sub(*ANSWERS[-1], text)
    written.write_text(text)
    problem = read_problem("problem.yaml")
    assert [cluster.hosts for cluster in problem.clusters] == [
        ("dgx01", "dgx02"),
        ("10.0.0.1", "10.0.0.2"),
    ]
    assert main(["plan", "problem.yaml", "--out", "plan.json"]) == 0
    assert main(["check", "problem.yaml", "plan.json"]) == 0

    # Hosts are labels: the plan holds without them, and pasting is as good as naming.
    bare = re.sub(r"^    hosts: .*\n", "", text, flags=re.MULTILINE)
    pasted = site / "pasted.yaml"
    pasted.write_text(REST.partition("clusters:")[0] + bare)
    assert problem_digest(read_problem(pasted)) == problem_digest(problem)
    assert main(["check", "pasted.yaml", "plan.json"]) == 0


def test_standard_output(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (site / "one").write_text("n1 slots=8 type=H100\n")
    assert main(["inventory", "one"]) == 0
    printed = capsys.readouterr()
    assert "\nclusters:\n  - name: h100\n" in printed.out
    # One node that is the whole problem has no network to ask about.
    assert "QUESTION:" not in printed.out
    assert printed.err.splitlines()[-1].startswith("one (hostfile) does not say")


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("n1 drain gpu:h100:8 9 9 p\nn2 mix gpu:2 9 9 p\n",
         "nodes: no node can be planned on; left out: 1 drained: n1; --include drained "
         "keeps it; left out: 1 partly or wholly used: n2; --include mixed keeps it"),
        ("what is this\n", "nodes:1: is no inventory that hetopt knows"),
        ("{'nodes': []}", "nodes:1: is not JSON"),
        (json.dumps({"nodes": [{"name": 1}]}), "nodes: nodes.0.name: is 1, expected"),
        ("n1 slots=8\nn2 slots=many\n", "nodes:2: slots: is 'many', expected"),
    ],
)  # fmt: skip
def test_malformed(
    site: Path, text: str, error: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (site / "nodes").write_text(text)
    assert main(["inventory", "nodes", "--out", "out.yaml"]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith(error)
    assert printed.err.count("\n") == 1
    assert not (site / "out.yaml").exists()


def test_busy_nodes_are_kept_if_asked(
    site: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["inventory", "sinfo.txt", "--include", "mixed"]) == 0
    printed = capsys.readouterr()
    assert "hosts: [dgx01, dgx02, dgx03]" in printed.out
    assert printed.err.splitlines()[:3] == [
        "4 nodes read, 3 of them in 1 cluster, 1 left out",
        "left out: 1 drained: dgx04; --include drained keeps it",
        "1 node included though mixed: dgx03",
    ]
    assert main(["inventory", "sinfo.txt", "--include", "all"]) == 0
    assert "4 nodes read, 4 of them in 1 cluster, 0 left" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("asked", "said"),
    [("mixd,drained", "'mixd' (did you mean 'mixed'?)"), ("", "''"), ("all,idle", "")],
)
def test_a_state_that_is_none_is_refused_with_the_choices(
    site: Path, asked: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["inventory", "sinfo.txt", "--include", asked]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"--include: there is no state {said}")
    assert ", expected all, down, fail, " in line
    assert ", allocated, mixed, " in line
    assert ", not_ready, cordoned" in line


def test_what_cannot_be_read_or_written(
    site: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (site / "binary").write_bytes(b"\xff\xfe\x00")
    for arguments, error in (
        (["missing"], "missing: no such file"),
        (["."], ".: is a directory, expected an inventory"),
        (["binary"], "binary:1: byte 0xff is not UTF-8 text"),
        (["hostfile", "--out", "no/x.yaml"], "no/x.yaml: its folder does not exist"),
    ):
        assert main(["inventory", *arguments]) == 2
        printed = capsys.readouterr()
        assert printed.err.startswith(error)
        assert printed.err.count("\n") == 1
