// Lateness over time: one strip per subject with a heat map of all ticks and a dot for each late one.

const STRIP = 108;
// Space for the upper half of a label.
const ABOVE = 8;

// The stalls of the machine that are known for a subject, as [start, end] on an axis. As time passed, these are the stalls
// that the spinning control of its CPU observed. With rounds side by side, only a control has the rounds of its stalls.
const stallsOf = (s, of, stalls) => {
  const seen = stalls.filter(([, , cpu]) => cpu === null || cpu === s.on_cpu);
  if (of === "at") return seen;
  if (!s.observer) return [];
  return s.rounds.filter((r) => r.n).flatMap((r) => {
    const [from, to] = [s.at[r.from], s.at[r.from + r.n - 1] + s.period];
    const scale = (t) => r.index + (t - from) / (to - from);
    return seen.filter(([a]) => a >= from - s.period && a < to).map(([a, b]) => [scale(a), scale(b)]);
  });
};

// The rounds of a subject in which the kernel counted a stall, as [start, end] on an axis.
const stalledRounds = (s, of) => s.stalled.map((n) => s.rounds[n]).filter((r) => r.n).map((r) => {
  const [from, last] = [s[of][r.from], s[of][r.from + r.n - 1]];
  return [from, of === "at" ? last + s.period : r.index + 1];
});

// Shades spans of a strip, each at least a pixel wide. Spans that touch become one rectangle.
const shadeSpans = (f, spans, name) => {
  const [from, to] = [LEFT, f.width - RIGHT];
  const covered = new Uint8Array(Math.max(1, Math.ceil(to - from)));
  for (const [a, b] of spans) {
    const [x0, x1] = [Math.floor(f.px(a) - from), Math.ceil(f.px(b) - from)];
    if (x1 < 0 || x0 >= covered.length) continue;
    covered.fill(1, Math.max(0, x0), Math.max(x0 + 1, x1));
  }
  for (let x = 0; x < covered.length; x++) {
    if (!covered[x]) continue;
    const start = x;
    while (covered[x]) x++;
    draw(f.svg, "rect", { class: name, x: from + start, y: f.top, width: x - start, height: f.height - f.bottom - f.top });
  }
};

// `axis`: {of: "at" or "place", range, stalls}; `y`: decades of lateness that all strips share.
const strip = (place, s, axis, y, zoom, last) => {
  const box = el("div", { className: "time" });
  box.dataset.id = s.id;
  place.append(el("h3", {}, s.name), box);
  const bottom = last ? 34 : 4;
  const [a, b] = axis.range;
  const seconds = (v, step) => `${+(v / 1e9).toFixed(Math.max(0, Math.ceil(-Math.log10(step / 1e9))))} s`;
  const most = Math.max(2, (place.clientWidth - LEFT) / 90);
  const xs = axis.of === "at" ? steps([a, b], most, seconds) : steps([a, b], most, (v, step) => (step < 1 ? v.toFixed(Math.ceil(-Math.log10(step))) : `${v}`));
  const ys = powers(y).filter(([v]) => Number.isInteger(v) && (y[1] - y[0] < 5 || v % 2 === 0));
  const label = [`Lateness of ${s.name} over time`, last && (axis.of === "at" ? "time in the run" : "round of the run")];
  const f = frame(box, { height: STRIP + bottom, x: axis.range, y, xs, ys, label, bottom, top: ABOVE });

  shadeSpans(f, stalledRounds(s, axis.of), "stall pale");
  shadeSpans(f, stallsOf(s, axis.of, axis.stalls), "stall");
  const suspect = s.distrusted_from;
  if (suspect !== null && log(suspect) < y[1]) {
    distrustedZone(f.svg, [LEFT, f.py(y[1])], [f.width - RIGHT, f.py(Math.max(log(suspect), y[0]))]);
  }
  const canvas = el("canvas", { "aria-hidden": "true" });
  const dot = el("i", { className: "at", hidden: true });
  box.append(canvas, dot);
  const ratio = devicePixelRatio || 1;
  const [w, h] = [f.width - LEFT - RIGHT, STRIP - ABOVE];
  // In percent of the box, which is narrower on paper than on the screen.
  const across = (x) => `${(x / f.width) * 100}%`;
  const down = (y) => `${(y / f.height) * 100}%`;
  canvas.style.cssText = `left:${across(LEFT)};top:${down(ABOVE)};width:${across(w)};height:${down(h)}`;
  canvas.width = w * ratio;
  canvas.height = h * ratio;
  const c = canvas.getContext("2d");
  c.scale(ratio, ratio);
  const where = s[axis.of];
  const px = (v) => ((v - a) / (b - a)) * w;
  const py = (v) => h - ((log(v) - y[0]) / (y[1] - y[0])) * h;
  // A cell is two pixels wide. The fullest one is opaque, and every occupied one is visible.
  const [columns, rows] = [Math.ceil(w / 2), Math.ceil(h / 2)];
  const cells = new Uint32Array(columns * rows);
  let [crowd, seen] = [1, 0];
  for (let i = 0; i < s.late.length; i++) {
    const x = px(where[i]);
    if (x < 0 || x > w) continue;
    const cell = Math.min(rows - 1, Math.max(0, py(s.late[i]) >> 1)) * columns + Math.min(columns - 1, x >> 1);
    crowd = Math.max(crowd, ++cells[cell]);
    seen++;
  }
  const ink = getComputedStyle(document.documentElement).getPropertyValue("--ink").trim();
  c.fillStyle = s.colour === "#000000" ? ink : s.colour;
  // If there are few ticks, they are larger than their cells.
  const size = seen < w * 2 ? 3 : 2;
  cells.forEach((n, cell) => {
    if (!n) return;
    c.globalAlpha = crowd === 1 ? 0.9 : 0.3 + (0.7 * Math.log(n)) / Math.log(crowd);
    c.fillRect((cell % columns) * 2, Math.floor(cell / columns) * 2, size, size);
  });
  c.globalAlpha = 1;
  for (const i of s.tail) {
    const x = px(where[i]);
    if (x >= 0 && x <= w) c.fillRect(x - 1.5, Math.min(h - 3, Math.max(0, py(s.late[i]) - 1.5)), 3, 3);
  }

  const at = (e) => {
    const r = canvas.getBoundingClientRect();
    return [((e.clientX - r.left) / r.width) * w, ((e.clientY - r.top) / r.height) * h];
  };
  const brush = el("i", { className: "brush", hidden: true });
  box.append(brush);
  let from = null;
  canvas.addEventListener("pointerdown", (e) => {
    from = at(e)[0];
    canvas.setPointerCapture(e.pointerId);
  });
  canvas.addEventListener("pointerup", (e) => {
    const to = at(e)[0];
    brush.hidden = true;
    if (from !== null && Math.abs(to - from) > 6) {
      const v = (x) => a + (Math.max(0, Math.min(w, x)) / w) * (b - a);
      zoom([v(Math.min(from, to)), v(Math.max(from, to))]);
    }
    from = null;
  });
  canvas.addEventListener("pointercancel", () => {
    from = null;
    brush.hidden = true;
  });
  canvas.addEventListener("dblclick", () => zoom(null));
  canvas.addEventListener("pointerleave", () => (dot.hidden = true));
  hover(canvas, (e) => {
    const [mx, my] = at(e);
    dot.hidden = true;
    if (from !== null && Math.abs(mx - from) > 6) {
      brush.hidden = false;
      const [x0, x1] = [Math.max(0, Math.min(from, mx)), Math.min(w, Math.max(from, mx))];
      brush.style.cssText = `left:${across(LEFT + x0)};top:${down(ABOVE)};width:${across(x1 - x0)};height:${down(h)}`;
      return "";
    }
    let [best, least] = [-1, 144];
    for (let i = 0; i < s.late.length; i++) {
      const dx = px(where[i]) - mx;
      if (dx > 12 || dx < -12) continue;
      const d = dx * dx + (py(s.late[i]) - my) ** 2;
      if (d < least) [best, least] = [i, d];
    }
    if (best < 0) return "";
    dot.hidden = false;
    dot.style.cssText = `left:${across(LEFT + px(where[best]))};top:${down(ABOVE + py(s.late[best]))}`;
    const { round, instance, tick } = tickOf(s, best);
    return `${s.name}, round ${round}${instance}, tick ${tick}\ndue ${(s.at[best] / 1e9).toFixed(6)} s after the start\nlate ${time(s.late[best])}`;
  });
};

// The strips of a report with their controls.
const strips = (place, timed, on, state) => {
  place.replaceChildren();
  tip.hidden = true;
  const { of, whole } = state;
  const range = state.range ?? whole;
  const [a, b] = range;
  const move = (from, to) => {
    const length = Math.min(to - from, whole[1] - whole[0]);
    const start = Math.max(whole[0], Math.min(from, whole[1] - length));
    state.zoom(length >= (whole[1] - whole[0]) * 0.999 ? null : [start, start + length]);
  };
  const third = (b - a) / 3;
  const button = (name, text, action, disabled) => {
    const node = el("button", { type: "button", ariaLabel: name, title: name, disabled }, text);
    node.addEventListener("click", action);
    return node;
  };
  const tools = el("div", { className: "tools" },
    button("earlier", "←", () => move(a - third, b - third), a <= whole[0]),
    button("later", "→", () => move(a + third, b + third), b >= whole[1]),
    button("closer", "+", () => move(a + third / 2, b - third / 2)),
    button("wider", "−", () => move(a - third, b + third), !state.range),
    button("the whole run", "whole run", () => state.zoom(null), !state.range));
  if (state.gaps) {
    const text = of === "at" ? "rounds side by side" : "as time passed";
    tools.append(button(text, text, state.turn));
  }
  const area = el("div");
  place.append(tools, area);
  const y = decades(timed.flatMap((s) => [s.curve[0][1], s.curve.at(-1)[1]]));
  const shown = timed.filter(on);
  shown.forEach((s, i) => strip(area, s, { of, range, stalls: state.stalls }, y, (to) => (to ? move(...to) : state.zoom(null)), i === shown.length - 1));
};
