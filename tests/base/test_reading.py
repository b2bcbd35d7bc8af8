"""Files that a user names: whatever they are, one error, soon and in little memory."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from hetopt.base import reading
from hetopt.base.reading import parse_json, read_bytes, read_json, read_text
from hetopt.errors import InputError


def complaint(path: str | Path, most_bytes: int = reading.MOST_BYTES) -> str:
    with pytest.raises(InputError) as caught:
        read_bytes(path, "a plan", most_bytes)
    return str(caught.value).removeprefix(f"{path}: ")


def test_a_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"content")
    assert read_bytes(path) == b"content"
    assert read_bytes(path, most_bytes=7) == b"content"
    assert read_bytes("/proc/self/status").startswith(b"Name:")


def test_what_is_no_file(tmp_path: Path) -> None:
    assert complaint(tmp_path / "none") == "no such file"
    assert complaint(tmp_path) == "is a directory, expected a plan"
    assert complaint("/dev/zero") == "is a device, expected a plan"
    assert complaint("/dev/null") == "is a device, expected a plan"
    assert complaint("a" * 5000) == "cannot be read: File name too long"
    assert complaint("a\0b") == "cannot be read: embedded null byte"


def test_a_large_file_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"content")
    assert complaint(path, 6) == "is larger than 6 bytes, expected a plan"
    os.truncate(path, 2**40)
    assert complaint(path) == "is larger than 128 MiB, expected a plan"


def test_a_pipe_that_nobody_writes_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "_WRITER_S", 0.0)
    path = tmp_path / "pipe"
    os.mkfifo(path)
    assert complaint(path) == "is an empty pipe, expected a plan"


def test_a_pipe_is_read_to_its_end() -> None:
    content = b"x" * 300_000
    ours, theirs = os.pipe()

    def write() -> None:
        with os.fdopen(theirs, "wb") as file:
            file.write(content)

    writer = threading.Thread(target=write)
    writer.start()
    assert read_bytes(f"/dev/fd/{ours}") == content
    writer.join()
    os.close(ours)


def test_a_pipe_without_end_is_left() -> None:
    ours, theirs = os.pipe()

    def write() -> None:
        with os.fdopen(theirs, "wb", buffering=0) as file:
            try:
                while True:
                    file.write(b"x" * 4096)
            except BrokenPipeError:
                return

    writer = threading.Thread(target=write)
    writer.start()
    said = complaint(f"/dev/fd/{ours}", 100_000)
    assert said == "is larger than 100000 bytes, expected a plan"
    os.close(ours)
    writer.join()


def test_text_has_its_line(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"\xef\xbb\xbfone\n")
    assert read_text(path) == "one\n"
    path.write_bytes(b"one\ntwo\xff")
    with pytest.raises(InputError, match=":2: byte 0xff is not UTF-8 text, expected"):
        read_text(path)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"{", "j:1: is not JSON: Expecting property name"),
        (b"", "j:1: is not JSON: Expecting value"),
        (b"\n[1" + b"0" * 64 + b"]", "j:2: has a number of more than 64 digits"),
        (b"[" * 100_000, "j: is nested too deeply, expected a plan"),
        (b"[[]," * 6_000_000, "j: holds too many values, expected a plan"),
    ],
    ids=["brace", "empty", "digits", "depth", "values"],
)
def test_what_is_no_json(content: bytes, said: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_json(content, "j", "a plan")
    assert str(caught.value).startswith(said)


def test_json_is_read(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text('{"digest": "' + "0123456789abcdef" * 4 + '", "n": 1e300}')
    assert read_json(path, "a plan")["n"] == 1e300
