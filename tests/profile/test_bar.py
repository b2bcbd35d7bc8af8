"""The progress bar says how far a profile is."""

import io
import time

import pytest

torch = pytest.importorskip("torch")

from hetopt.profile.measuring import shape_label
from hetopt.profile.task_loop import MeasuringProgress
from hetopt.report.profiling import ProfilingBar, state
from tests.profile.shapes import small_shape

pytestmark = pytest.mark.torch

HALF = MeasuringProgress(
    done=3,
    total=6,
    work_done=1.0,
    work_total=4.0,
    what="shards",
    label=shape_label(small_shape(cp=2)),
)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_state() -> None:
    assert state(HALF) == "3/6 shards, layer fp32 b=2 s=64 h=64 cp=2 tp=1"


def test_a_terminal_sees_the_time_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    stream = Terminal()
    with ProfilingBar(stream) as bar:
        bar.update(HALF)
    assert "25%" in stream.getvalue()
    assert "left" in stream.getvalue()
    assert "3/6 shards" in stream.getvalue()


def test_a_file_gets_a_line_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    with ProfilingBar(stream) as bar:
        bar.update(HALF)
    assert stream.getvalue() == ""
    monkeypatch.setattr(ProfilingBar, "EVERY_S", 0.02)
    with ProfilingBar(stream) as bar:
        bar.update(HALF)
        time.sleep(0.2)
    assert {*stream.getvalue().splitlines()} == {f"measuring, 0 s: {state(HALF)}"}
