"""The page in a browser, where there is one: it fits, its script runs, asks for none.

A page around it loads it in frames of several widths and says what it finds there.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from hetopt.cli import main

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
WIDTHS = (320, 390, 1280, 2560)
SCHEMES = {"dark": 0, "light": 1}
AROUND = """<!DOCTYPE html><title>around</title><pre></pre><script>
const found = [];
const next = (widths) => {
  if (!widths.length) {
    document.querySelector("pre").textContent = JSON.stringify(found);
    return;
  }
  const frame = document.createElement("iframe");
  frame.style.cssText = `border:0;height:900px;width:${widths[0]}px`;
  frame.src = "page.html";
  frame.onload = () => setTimeout(() => {
    const page = frame.contentDocument, root = page.documentElement;
    const figure = page.querySelector("figure.timeline");
    const zoom = figure.querySelector(".zoom"), said = figure.querySelector("output");
    const press = (key) => {
      zoom.dispatchEvent(
        new frame.contentWindow.KeyboardEvent("keydown", { key, cancelable: true }));
      return said.textContent;
    };
    const lanes = figure.querySelector("canvas.lanes");
    const pen = lanes.getContext("2d");
    const drawn = pen.getImageData(0, 0, lanes.width, lanes.height).data;
    const colours = new Set();
    for (let at = 0; at < drawn.length; at += 4) {
      if (drawn[at + 3]) colours.add(drawn.slice(at, at + 3).join());
    }
    found.push({
      width: widths[0], wide: root.scrollWidth, hidden: figure.hidden,
      folded: !figure.nextElementSibling.open, colours: colours.size,
      paper: frame.contentWindow.getComputedStyle(page.body).backgroundColor,
      asked: frame.contentWindow.performance.getEntriesByType("resource").length,
      said: ["all", "+", "+", "ArrowRight", "0"].map(press),
    });
    frame.remove();
    next(widths.slice(1));
  }, 200);
  document.body.append(frame);
};
next(WIDTHS);
</script>"""


@pytest.fixture(scope="module")
def browser() -> str:
    name = next(filter(None, map(shutil.which, BROWSERS)), None)
    if name is None:
        pytest.skip("no Chromium is installed")
    return name


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a page, and the one around it."""
    folder = tmp_path_factory.mktemp("page")
    plan, page = str(folder / "plan.json"), str(folder / "page.html")
    assert main(["plan", "a100-h100-v100", "--jobs", "1", "--out", plan]) == 0
    assert main(["report", "a100-h100-v100", plan, "--out", page]) == 0
    around = AROUND.replace("WIDTHS", json.dumps(WIDTHS))
    (folder / "around.html").write_text(around, "utf-8")
    return folder


def look(browser: str, folder: Path, scheme: int) -> tuple[list[dict[str, Any]], str]:
    """Return what is found at every width, and what the browser complains of."""
    done = subprocess.run(
        [
            *(browser, "--headless=new", "--no-sandbox", "--disable-gpu"),
            *("--allow-file-access-from-files", "--enable-logging=stderr", "--v=0"),
            *(f"--user-data-dir={folder / 'profile'}", "--virtual-time-budget=20000"),
            *(f"--blink-settings=preferredColorScheme={scheme}", "--dump-dom"),
            (folder / "around.html").as_uri(),
        ],
        capture_output=True,
        check=True,
        text=True,
        timeout=240,
    )
    content = re.search(r"<pre>(.+?)</pre>", done.stdout, re.DOTALL)
    assert content is not None, done.stdout + done.stderr
    complaints = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    return json.loads(unescape(content[1])), "\n".join(complaints)


@pytest.mark.slow
@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_page_fits_every_width_and_its_script_runs(
    browser: str, folder: Path, scheme: str
) -> None:
    found, complaints = look(browser, folder, SCHEMES[scheme])
    assert complaints == ""
    assert [each["width"] for each in found] == list(WIDTHS)
    for each in found:
        assert each["wide"] <= each["width"]
        assert not each["hidden"]
        assert each["folded"]
        assert each["colours"] > 5
        assert each["asked"] == 0
        assert (each["paper"] == "rgb(255, 255, 255)") == (scheme == "light")
        start, once, twice, later, end = each["said"]
        assert start == end
        assert len({start, once, twice, later}) == 4
