"""Words, variables, conditions and here-documents of scripts are bash's."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from hetopt.errors import InputError
from hetopt.export.shared.shell.arguments import read_script
from hetopt.export.shared.shell.commands import run

#: Scripts whose last command prints what hetopt reads; bash is asked as well.
SCRIPTS = {
    "quotes": "A='x y'\nshow \"$A\" 'it''s' a\\ b \"q\\\"r\" # not this\n",
    "arrays": "A=(--x 1\n  --y 'b c' # no\n)\nA+=(--z)\nshow ${A[@]}\n",
    "continued": "show --a 1 \\\n  --b 2\\\n3\n",
    "defaults": "show ${A:-7} ${B:-x${A:-8}} ${A-9}\n",
    "sums": "A=3\nB=$((A * 4 + 2))\nshow $B $((B / 4)) $(( $B - 1 )) $((7 % 4))\n",
    "if": 'M=b\nif [ "$M" = "a" ]; then X=1; elif [[ $M == b ]]; then X=2; '
    "else X=3; fi\nshow $X\n",
    "numbers": "N=4\nif [[ $N -gt 4 ]]; then X=1\nelse\n X=2\nfi\nshow $X\n",
    "not": 'A=\nif [ ! -z "$A" ]; then X=1; else X=0; fi\nshow $X\n',
    "nested": "A=1\nif [ $A -eq 1 ]; then if [ $A -ne 1 ]; then X=1; else X=2; fi; fi\n"
    "show $X\n",
    "no arguments": "X=1\nwhile [[ $# -gt 0 ]]; do X=$1; shift; done\n"
    "show $X ${1:-d}\n",
    "or": "A=x\nif [[ $A == y ]] || [[ $A == x ]]; then X=1; else X=2; fi\nshow $X\n",
    "and": "A=3\nif [ $A -gt 1 ] && [ $A -lt 3 ]; then X=1; else X=2; fi\nshow $X\n",
    "before a command": "A=1\nX=0\n[[ $A == 1 ]] && X=1\n[[ $A == 2 ]] && X=2\n"
    "[ $A -eq 1 ] || X=3\n[ $A -eq 2 ] || Y=4\nshow $X $Y\n",
    "branches": "A=2\nif [ $A -eq 1 ]; then X=1\nelif [ $A -eq 2 ]; then X=2\n"
    "elif [ $A -eq 2 ]; then X=3\nelse X=4\nfi\nshow $X\n",
    "streams": "show a 2>&1 >/dev/stdout\n",
    "appended": 'A="--a 1"\nA+=" --b 2"\nshow $A\n',
    "strings": 'O="--a 1 \\\n  --b 2"\nO="${O} --c"\nshow ${O}\n',
}


@pytest.mark.parametrize("script", SCRIPTS.values(), ids=SCRIPTS)
def test_words_are_those_that_bash_passes(script: str) -> None:
    shown = subprocess.run(
        ["bash", "-c", 'show() { printf "%s\\n" "$@"; }\n' + script],
        capture_output=True,
        check=True,
        text=True,
    )
    command = run(script).commands[-1]
    assert command.undecided == ()
    assert list(command.words) == ["show", *shown.stdout.splitlines()]


def test_what_nobody_can_decide_is_known_where_it_is_used() -> None:
    script = run(
        "D=1\n[ -e $UNKNOWN ] && D=2\nlast $D\n"
        "A=1\nB=1\nif [ -f /x ]; then A=2; fi\nC=$A\n"
        "for n in 1 2; do B=3; done\nshow $C\nother $B\nthird 4\n"
    )
    told = [(each.words, each.undecided) for each in script.commands]
    assert told == [
        (("last", "2"), ("[ -e $UNKNOWN ]",)),
        (("show", "2"), ("[ -f /x ]",)),
        (("other", "3"), ("for n in 1 2",)),
        (("third", "4"), ()),
    ]


def test_here_documents_have_their_variables() -> None:
    script = run(
        'B=8\nF=$DIR/ds.json\ncat <<EOT > $F\n{"b": $B}\nEOT\n'
        "cat > other <<-'END'\n\t$((B * 2))\n\tEND\nshow\n"
    )
    assert script.documents == {"$DIR/ds.json": '{"b": 8}', "other": "16"}


@pytest.mark.parametrize("text", ["a 'b", 'a "b', "a $(b", "a ${b", "a `b", "a $((b"])
def test_what_is_not_closed_is_one_line(text: str, tmp_path: Path) -> None:
    (tmp_path / "run.sh").write_text(text)
    with pytest.raises(
        InputError, match="cannot be read as a shell script: no closing"
    ):
        read_script(tmp_path / "run.sh")


def test_the_program_and_its_launcher(tmp_path: Path) -> None:
    path = tmp_path / "run.sh"
    path.write_text(
        "srun -l singularity exec x.sif torchrun --nproc_per_node 4 -m our.module "
        "--a 1 model.b=2 ++c.d=x\n"
    )
    found = read_script(path)
    assert found.program == "our.module"
    assert found.names == {"nproc_per_node", "m", "a"}
    assert found.launchers == {"nproc_per_node", "m"}
    assert found.overrides == {"model.b": "2", "c.d": "x"}
