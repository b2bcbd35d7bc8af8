"""Files are written whole or not at all."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from hetopt.base.files import ensure_writable, write_text
from hetopt.errors import InputError


def test_new_file_has_the_mode_that_open_gives(tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.write_text("")
    path = tmp_path / "out.json"
    write_text(str(path), "é\n")
    assert path.read_bytes() == "é\n".encode()
    assert stat.S_IMODE(path.stat().st_mode) == stat.S_IMODE(plain.stat().st_mode)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["out.json", "plain"]


def test_replacing_keeps_mode_and_follows_links(tmp_path: Path) -> None:
    path = tmp_path / "real.json"
    path.write_text("old")
    path.chmod(0o640)
    link = tmp_path / "link.json"
    link.symlink_to(path)
    write_text(str(link), "new")
    assert link.is_symlink()
    assert path.read_text() == "new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_devices_are_written_in_place() -> None:
    ensure_writable("/dev/null")
    write_text("/dev/null", "text")
    assert not Path("/dev/null").is_file()


def test_failed_write_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "out.json"
    path.write_text("old")

    def fail(self: Path, target: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(InputError, match="cannot be written: No space left"):
        write_text(str(path), "new")
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["out.json"]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("", "is a folder"),
        ("missing/out.json", "its folder does not exist"),
        ("file/out.json", "its folder does not exist"),
    ],
)
def test_unwritable_paths_are_refused_before_the_work(
    tmp_path: Path, name: str, message: str
) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=message):
        ensure_writable(str(tmp_path / name))
    with pytest.raises(InputError, match="cannot be written"):
        write_text(str(tmp_path / name), "text")
