"""Files and folders whose names are not UTF-8, wherever a command reads or writes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from hetopt.base.reading import parse_json
from hetopt.base.words import readable, shell_quoted, writable
from hetopt.cli import main
from hetopt.errors import InputError

#: A name as Latin-1 has it, with a control character.
ODD = os.fsdecode(b"caf\xe9\x07")


@pytest.fixture
def odd(planned: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of such a name, with such a problem and its plan."""
    folder = tmp_path / ODD
    try:
        folder.mkdir()
    except OSError:
        pytest.skip("this file system has only names in UTF-8")
    priced = (planned / "problem.yaml").read_text()
    Path(folder, f"{ODD}.yaml").write_text(priced)
    rent = priced.replace("devices_per_node:", "price_per_hour: 2, devices_per_node:")
    Path(folder, f"{ODD}-priced.yaml").write_text(rent)
    shutil.copy(planned / "plan.json", folder / f"{ODD}.json")
    monkeypatch.chdir(folder)
    return folder


COMMANDS = [
    "check ODD.yaml ODD.json",
    "simulate ODD.yaml ODD.json --svg ODD.svg --trace ODD-trace.json",
    "explain ODD.yaml",
    "report ODD.yaml ODD.json --out ODD.html",
    "table ODD.yaml --out ODD-table.json",
    "formulate ODD.yaml --p 1 --q 1 --formulation intervals --out ODD.lp",
    "plan ODD.yaml --solver dp --objective closed --jobs 1 --out ODD-2.json",
    "plan ODD.yaml --solver dp --objective closed --jobs 1 --journal ODD.jsonl "
    "--certificate ODD-certificate.json",
    "plan ODD-priced.yaml --solver dp --jobs 1 --pareto --svg ODD.svg --out F.json",
    "whatif ODD.yaml --set training.global_batch=2 --jobs 1 --svg ODD.svg "
    "--csv ODD.csv --out W.json",
    "compare ODD.yaml --solvers uniform --time-limit 5 --jobs 1 --out ODD-compared",
    "init --out ODD-new.yaml",
    *(
        f"export ODD.yaml ODD.json --to {launcher} --allow-lossy --out ODD-{launcher}"
        for launcher in (
            *("megatron", "nemo", "flagscale", "torchtitan", "hetu", "torch"),
            *("slurm", "torchrun"),
        )
    ),
]


@pytest.mark.usefixtures("odd")
@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: words.split(" --")[0])
def test_a_command_takes_names_of_any_bytes(
    words: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("hetopt.comparing.compare.warm_up", lambda *_: 1.5)
    before = set(Path().rglob("*"))
    assert main([word.replace("ODD", ODD) for word in words.split()]) == 0
    out, _ = capsys.readouterr()
    out.encode()
    for path in set(Path().rglob("*")) - before:
        if path.suffix not in (".png", ".tar", "") and path.is_file():
            text = path.read_text("utf-8")
            assert "\x07" not in text, path
            assert path.suffix != ".json" or parse_json(text.encode(), "f", "JSON")


@pytest.mark.usefixtures("odd")
def test_an_error_names_the_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", f"{ODD}.yaml", f"{ODD}-missing.json"]) == 2
    assert capsys.readouterr().err == "caf\\xe9\\x07-missing.json: no such file\n"


def test_names_as_text() -> None:
    assert readable(ODD) == "caf\\xe9\\x07"
    assert readable("zwölf 中文") == "zwölf 中文"
    assert readable("a\nb\u2028\ud800") == "a\\x0ab\\u2028\\ud800"
    assert writable(f"#\t{ODD}\n") == "#\tcaf\\xe9\\x07\n"


@pytest.mark.parametrize("word", [ODD, "a b", "plan.json", f"it's\n\\{ODD}\u2028"])
def test_words_of_commands_can_be_pasted(word: str) -> None:
    line = shell_quoted(word)
    line.encode()
    told = subprocess.run(
        ["bash", "-c", f"printf %s {line}"], capture_output=True, check=True
    )
    assert os.fsdecode(told.stdout) == word


@pytest.mark.parametrize("half", ["\\ud800", "\\udcff", "\\uD8FFx", "\\udc00\\ud800"])
def test_json_with_half_a_character_is_refused(half: str) -> None:
    text = f'{{"a": 1,\n"b": ["{half}"]}}'.encode()
    with pytest.raises(InputError, match="which is half of a character") as caught:
        parse_json(text, "plan.json", "a plan")
    assert caught.value.line == 2


@pytest.mark.parametrize("whole", ["\U0001f600", "\\ud800", "é"])
def test_json_with_whole_characters_is_not(whole: str) -> None:
    """Also where a text is about such characters, and escapes a backslash."""
    for ascii_only in (True, False):
        text = json.dumps({"a": [whole]}, ensure_ascii=ascii_only).encode()
        assert parse_json(text, "plan.json", "a plan") == {"a": [whole]}
