"""``hetopt --print-completion``."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from hetopt.cli import main
from hetopt.cli.entry import SHELLS

#: What bash offers for the last word of a line.
ASK = """\
source "$1"
shift
COMP_WORDS=("$@")
COMP_CWORD=$(($# - 1))
_shtab_hetopt
printf '%s\\n' "${COMPREPLY[@]}"
"""


def script(shell: str, capsys: pytest.CaptureFixture[str]) -> str:
    pytest.importorskip("shtab")
    with pytest.raises(SystemExit) as ended:
        main(["--print-completion", shell])
    assert ended.value.code == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("shell", SHELLS)
def test_scripts_know_commands_and_options(
    shell: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text = script(shell, capsys)
    for word in ("convert-profile", "time-limit", "mcts-guided", "virtual-1f1b"):
        assert word in text


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["pla"], {"plan"}),
        (["plan", "--time"], {"--time-limit"}),
        (["plan", "--solver", "miqp"], {"miqp-highs", "miqp-scip", "miqp-gurobi"}),
        (["plan", "prob"], {"problem.yaml"}),
        (["check", "problem.yaml", "p"], {"problem.yaml", "plan.json"}),
    ],
)
def test_bash_completes(
    words: list[str],
    offered: set[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = tmp_path / "here"
    folder.mkdir()
    for name in ("problem.yaml", "plan.json"):
        (folder / name).write_text("")
    (tmp_path / "script").write_text(script("bash", capsys))
    (tmp_path / "ask").write_text(ASK)
    done = subprocess.run(
        ["bash", tmp_path / "ask", tmp_path / "script", "hetopt", *words],
        capture_output=True,
        check=True,
        cwd=folder,
        text=True,
    )
    assert set(done.stdout.split()) == offered


def test_without_shtab_the_extra_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "shtab", None)
    assert main(["--print-completion", "bash"]) == 2
    assert capsys.readouterr().err == (
        "--print-completion: needs shtab: pip install '.[completion]' in hetopt's "
        "source\n"
    )


def test_other_shells_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--print-completion", "csh"])
    assert ended.value.code == 2
    assert "--print-completion: is 'csh' (did you mean 'zsh'?), expected one of" in (
        capsys.readouterr().err
    )
