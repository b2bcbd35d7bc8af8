"use strict";
// Draws every timeline so that it can be zoomed; the page says all else without a script.
(() => {
  const DARK = new Set(["forward"]);
  const LINKS = { downstream: 0, upstream: 1 };

  /** Numbers from their differences, `5x3` for three times 5. */
  function numbers(text) {
    const found = [];
    let value = 0;
    for (const part of text ? text.split(" ") : []) {
      const [step, times] = part.split("x").map(Number);
      for (let n = times || 1; n > 0; n -= 1) found.push((value += step));
    }
    return Float64Array.from(found);
  }

  /** The first place in `values` that holds more than `least`. */
  function after(values, least) {
    let low = 0, high = values.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (values[middle] > least) high = middle; else low = middle + 1;
    }
    return low;
  }

  /** A time in the unit of a span, to its thousandth or to `step`. */
  function shown(ticks, tick_s, span, step = span / 1000) {
    const [unit, per] = span * tick_s >= 1 ? ["s", 1] : span * tick_s >= 1e-3 ? ["ms", 1e3] : ["µs", 1e6];
    const digits = Math.max(0, Math.ceil(-Math.log10(step * tick_s * per) - 1e-9));
    return `${(ticks * tick_s * per).toFixed(Math.min(digits, 6))} ${unit}`;
  }

  function timeline(figure) {
    const data = JSON.parse(figure.querySelector("script").textContent);
    const zoom = figure.querySelector(".zoom");
    const [axis, lanes] = figure.querySelectorAll("canvas");
    const said = figure.querySelector("output");
    const stages = data.clusters.length;
    const high = stages > 64 ? 6 : stages > 24 ? 10 : stages > 12 ? 16 : stages > 6 ? 22 : 30;
    const link = stages > 64 ? 0 : Math.round(high / 2);
    // With several chunks, the last stage's link leads back to the first.
    const bottom = stages * (high + link) - (data.chunks > 1 ? 0 : link);
    const named = (n) => data.folded ? `${n % 2}:${Math.floor(n / 2)}` : data.chunks === 1 ? `${n}`
      : `${Math.floor(n / stages) % data.chunks}:${Math.floor(n / stages / data.chunks) * stages + (n % stages)}`;
    const runs = data.runs.map((run) => ({
      ...run,
      starts: numbers(run.starts),
      lengths: numbers(run.lengths),
      microbatches: run.microbatches === null ? null : numbers(run.microbatches),
      top: (run.lane === "upstream" && !run.stage ? stages : run.stage) * (high + link) + (run.lane === "stage" ? 0
        : (run.lane === "upstream" ? -link : high) + 1 + (LINKS[run.lane] * (link - 2)) / 2),
      high: run.lane === "stage" ? high - 1 : (link - 2) / 2,
    })).filter((run) => run.high > 0);
    for (const run of runs) run.longest = run.lengths.reduce((one, other) => Math.max(one, other), 0);
    const whole = [0, data.end || 1];
    let [from, to] = data.windows.length ? data.windows[0] : whole;
    let left = 0, width = 0;

    const x = (ticks) => left + ((ticks - from) / (to - from)) * (width - left);
    const ticks = (place) => from + ((place - left) / (width - left)) * (to - from);

    function paper(canvas, height) {
      const scale = window.devicePixelRatio || 1;
      const wide = canvas.parentElement.clientWidth;
      canvas.style.height = `${height}px`;
      canvas.width = Math.round(wide * scale);
      canvas.height = Math.round(height * scale);
      const pen = canvas.getContext("2d");
      pen.setTransform(scale, 0, 0, scale, 0, 0);
      pen.font = "12px system-ui, sans-serif";
      pen.textBaseline = "middle";
      return pen;
    }

    function draw() {
      const style = getComputedStyle(figure);
      const colour = (name) => style.getPropertyValue(`--${name}`).trim();
      const pen = paper(lanes, bottom);
      width = lanes.clientWidth;
      left = Math.min(130, Math.round(width * 0.24));
      pen.fillStyle = colour("surface");
      for (let stage = 0; stage < stages; stage += 1) pen.fillRect(left, stage * (high + link), width - left, high - 1);
      pen.save();
      pen.beginPath();
      pen.rect(left, 0, width - left, stages * (high + link));
      pen.clip();
      for (const run of runs) drawRun(pen, run, colour(`on-${run.activity}`));
      pen.fillStyle = colour("line");
      let end = 0;
      for (const [start, next] of data.windows.length ? [...data.windows, [whole[1], whole[1]]] : []) {
        pen.fillRect(x(end), 0, x(start) - x(end), stages * (high + link));
        end = next;
      }
      pen.restore();
      pen.fillStyle = colour("ink");
      const every = Math.ceil(13 / (high + link));
      for (let stage = 0; stage < stages; stage += every) {
        pen.fillText(`${stage} ${data.clusters[stage]}`, 0, Math.max(stage * (high + link) + high / 2, 7), left - 8);
      }
      drawAxis(colour);
    }

    function drawRun(pen, run, fill) {
      const first = after(run.starts, from - run.longest - 1), last = after(run.starts, to);
      // Of very many events so many are drawn as there are pixels.
      const step = Math.max(1, Math.floor((last - first) / (2 * width)));
      pen.fillStyle = fill;
      for (let n = first; n < last; n += step) {
        const start = x(run.starts[n]), wide = x(run.starts[n] + run.lengths[n]) - start;
        pen.fillRect(start, run.top, Math.max(wide - (wide > 3 ? 1 : 0), 0.6), run.high);
        const begin = Math.max(start, left), end = Math.min(start + wide, width);
        if (end - begin > 26 && run.high > 13 && run.microbatches) {
          pen.fillStyle = DARK.has(run.activity) ? "#fff" : "#15191e";
          pen.textAlign = "center";
          pen.fillText(named(run.microbatches[n]), (begin + end) / 2, run.top + run.high / 2 + 0.5);
          pen.textAlign = "left";
          pen.fillStyle = fill;
        }
      }
    }

    function drawAxis(colour) {
      const pen = paper(axis, 22);
      const least = ((to - from) * 80) / (width - left);
      const power = 10 ** Math.floor(Math.log10(least));
      const step = power * [1, 2, 5, 10].find((factor) => power * factor >= least);
      pen.textAlign = "center";
      for (let at = Math.ceil(from / step) * step; at <= to; at += step) {
        pen.fillStyle = colour("line");
        pen.fillRect(x(at), 17, 1, 5);
        pen.fillStyle = colour("muted");
        if (x(at) < width - 24) pen.fillText(shown(at, data.tick_s, to, step), x(at), 8);
      }
    }

    function view(start, end) {
      const span = Math.min(Math.max(end - start, 50), whole[1]);
      from = Math.min(Math.max(start, 0), whole[1] - span);
      to = from + span;
      draw();
    }
    function tell() {
      const span = to - from;
      said.textContent = `${shown(from, data.tick_s, span)} to ${shown(to, data.tick_s, span)} of ${shown(whole[1], data.tick_s, whole[1])}`;
    }
    const scaled = (factor, about = (from + to) / 2) => view(about - (about - from) * factor, about + (to - about) * factor);
    const moved = (share) => view(from + (to - from) * share, to + (to - from) * share);
    const acts = {
      in: () => scaled(0.5), out: () => scaled(2), left: () => moved(-0.25), right: () => moved(0.25), all: () => view(...whole),
      part: () => view(...(data.windows.find(([start]) => start > from) || data.windows[0])),
    };
    const keys = { "+": "in", "=": "in", "-": "out", ArrowLeft: "left", ArrowRight: "right", 0: "all" };

    function point(event) {
      const box = lanes.getBoundingClientRect();
      const at = ticks(event.clientX - box.left), y = event.clientY - box.top;
      for (const run of runs) {
        if (y < run.top || y >= run.top + run.high) continue;
        const n = after(run.starts, at) - 1;
        if (n < 0 || at > run.starts[n] + run.lengths[n]) continue;
        const number = run.microbatches ? ` of ${data.chunks > 1 || data.folded ? "chunk:" : ""}micro-batch ${named(run.microbatches[n])}` : "";
        const span = run.lengths[n] || 1;
        said.textContent = `stage ${run.stage} (${data.clusters[run.stage]}): ${run.activity.replace("-", " ")}${number}, from ${shown(run.starts[n], data.tick_s, run.starts[n], span / 100)}, ${shown(span, data.tick_s, span)} long`;
        return;
      }
      tell();
    }

    for (const button of figure.querySelectorAll("button")) {
      button.addEventListener("click", () => { acts[button.dataset.act](); tell(); });
    }
    zoom.addEventListener("keydown", (event) => {
      const act = event.ctrlKey || event.metaKey || event.altKey ? undefined : keys[event.key];
      if (act === undefined) return;
      event.preventDefault();
      acts[act]();
      tell();
    });
    zoom.addEventListener("wheel", (event) => {
      if (!event.ctrlKey) return;
      event.preventDefault();
      scaled(Math.exp(event.deltaY / 250), ticks(event.clientX - lanes.getBoundingClientRect().left));
    }, { passive: false });
    // Two fingers zoom, one or the mouse moves.
    const held = new Map();
    zoom.addEventListener("pointerdown", (event) => {
      held.set(event.pointerId, event.clientX);
      zoom.setPointerCapture(event.pointerId);
    });
    zoom.addEventListener("pointermove", (event) => {
      const before = held.get(event.pointerId);
      if (before === undefined) { point(event); return; }
      const others = [...held].filter(([id]) => id !== event.pointerId).map(([, place]) => place);
      held.set(event.pointerId, event.clientX);
      if (others.length) {
        const apart = Math.abs(before - others[0]) || 1, now = Math.abs(event.clientX - others[0]) || 1;
        scaled(apart / now, ticks(others[0] - lanes.getBoundingClientRect().left));
      } else {
        const by = ticks(before) - ticks(event.clientX);
        view(from + by, to + by);
      }
    });
    for (const name of ["pointerup", "pointercancel"]) {
      zoom.addEventListener(name, (event) => { held.delete(event.pointerId); tell(); });
    }
    new ResizeObserver(draw).observe(zoom);
    window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
    draw();
    tell();
  }

  for (const figure of document.querySelectorAll("figure.timeline")) {
    figure.hidden = false;
    timeline(figure);
    figure.nextElementSibling.open = false;
  }
  // What is folded on the screen is unfolded on paper, and folded again after.
  let folded = [];
  window.addEventListener("beforeprint", () => {
    folded = [...document.querySelectorAll("details:not([open])")];
    for (const each of folded) each.open = true;
  });
  window.addEventListener("afterprint", () => { for (const each of folded) each.open = false; });
})();
