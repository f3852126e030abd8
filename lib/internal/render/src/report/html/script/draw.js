// Elements, scales and axes of all pictures.

const SVG = "http://www.w3.org/2000/svg";

const el = (tag, attributes = {}, ...children) => {
  const node = document.createElement(tag);
  for (const [k, v] of Object.entries(attributes)) k in node ? (node[k] = v) : node.setAttribute(k, v);
  node.append(...children);
  return node;
};

const draw = (parent, tag, attributes, text) => {
  const node = document.createElementNS(SVG, tag);
  for (const [k, v] of Object.entries(attributes)) node.setAttribute(k, v);
  if (text !== undefined) node.textContent = text;
  parent.append(node);
  return node;
};

const time = (ns) => {
  const size = Math.abs(ns);
  const [d, u] = size < 1e3 ? [1, "ns"] : size < 1e6 ? [1e3, "us"] : size < 1e9 ? [1e6, "ms"] : [1e9, "s"];
  return `${+(ns / d).toPrecision(size / d >= 100 ? 4 : 3)} ${u}`;
};

const log = (v) => Math.log10(Math.max(v, 1));

// Black is replaced by the text colour of the theme.
const paint = (s) => (s.colour === "#000000" ? "var(--ink)" : s.colour);
const line = (s, width = 2, dash = s.dash) => ({
  fill: "none",
  style: `stroke:${paint(s)}`,
  "stroke-width": width,
  "stroke-dasharray": dash,
});
const path = (points) => points.map(([x, y], i) => `${i ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");

// The mark of a subject: its colour and one of three shapes, hollow for controls.
const mark = (parent, s, x, y) => {
  const look = { style: `stroke:${paint(s)};fill:${s.control ? "var(--paper)" : paint(s)}`, "stroke-width": 2 };
  if (s.shape === 0) return draw(parent, "circle", { ...look, cx: x, cy: y, r: 5 });
  if (s.shape === 1) return draw(parent, "path", { ...look, d: `M${x - 5.5} ${y + 4.5}h11l-5.5-10z` });
  return draw(parent, "path", { ...look, d: `M${x - 5} ${y}l5-5.5 5 5.5-5 5.5z` });
};

// The appearance of a subject in the pictures, shown next to its name.
const sign = (s) => {
  const svg = draw(el("span"), "svg", { class: "sign", viewBox: "0 0 34 14", width: 34, height: 14, "aria-hidden": "true" });
  draw(svg, "line", { ...line(s), x1: 0, x2: 34, y1: 7, y2: 7 });
  mark(svg, s, 17, 7);
  return svg;
};

// Maximum number of lines that can be distinguished in one chart.
const TOGETHER = 12;

// Groups subjects by chart. A subject has the same sign at all periods, so that each period has a separate chart.
const byPeriod = (all) => {
  const periods = [...new Set(all.map((s) => s.period))].sort((a, b) => a - b);
  const looks = new Set(all.map((s) => `${s.colour} ${s.shape} ${s.dash}`));
  if (looks.size === all.length || periods.length < 2) return [{ name: "", all }];
  return periods.map((p) => ({ name: `period ${time(p)}`, all: all.filter((s) => s.period === p) }));
};

// A zone of values that are not known exactly.
const hatched = (svg, s, [x0, y0], [x1, y1]) => {
  const [left, right, top, bottom] = [Math.min(x0, x1), Math.max(x0, x1), Math.min(y0, y1), Math.max(y0, y1)];
  const look = { ...line(s, 1, ""), "stroke-opacity": 0.7 };
  draw(svg, "rect", { ...look, x: left, y: top, width: right - left, height: bottom - top });
  for (let sum = left + top; sum < right + bottom; sum += 8) {
    const [a, b] = [Math.min(sum - top, right), Math.max(sum - bottom, left)];
    draw(svg, "line", { ...look, x1: a, y1: sum - a, x2: b, y2: sum - b });
  }
};
const aboveSays = (s) => `${s.above.n} above ${time(s.curve.at(-1)[1])}, the last bin of its source; largest ${time(s.above.max)}`;

const extent = (values) => values.reduce(([a, b], v) => [Math.min(a, v), Math.max(b, v)], [Infinity, -Infinity]);

// Whole decades around the values, as logarithms.
const decades = (values) => {
  const [low, high] = extent(values.filter((v) => v !== null && v !== undefined).map(log));
  return Number.isFinite(low) ? [Math.floor(low), Math.max(Math.ceil(high), Math.floor(low) + 1)] : [0, 1];
};

// Marks of a logarithmic axis: decades, and steps of each if there are few decades. There are at least two, which are the
// ends of a very short axis.
const powers = ([a, b], text = (v) => time(10 ** v)) => {
  const steps = [...(b - a < 3 ? [] : [[1]]), [1, 2, 5], [1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 7, 8, 9]];
  for (const within of steps) {
    const marks = [];
    for (let d = Math.floor(a); d <= b; d++) {
      for (const m of within) {
        const v = d + Math.log10(m);
        if (v >= a - 1e-9 && v <= b + 1e-9) marks.push([v, text(v)]);
      }
    }
    if (marks.length > 1) return marks;
  }
  return [[a, text(a)], [b, text(b)]];
};

// Marks of a linear axis.
const steps = ([a, b], most, text) => {
  const raw = (b - a) / Math.max(1, most);
  const unit = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((m) => m * unit).find((s) => s >= raw);
  const marks = [];
  for (let i = Math.ceil(a / step); i * step <= b; i++) marks.push([i * step, text(i * step, step)]);
  return marks;
};

const LEFT = 62;
const RIGHT = 16;

// An empty picture with axes; `label` has its title and those of its axes.
const frame = (place, { height, x, y, xs, ys, label, bottom = 36, top = label[2] ? 22 : 8 }) => {
  const width = Math.max(200, place.clientWidth || 300);
  place.replaceChildren();
  const svg = draw(place, "svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label[0] });
  const px = (v) => LEFT + ((v - x[0]) / (x[1] - x[0] || 1)) * (width - LEFT - RIGHT);
  const py = (v) => height - bottom - ((v - y[0]) / (y[1] - y[0] || 1)) * (height - top - bottom);
  let last = -Infinity;
  for (const [v, text] of xs) {
    draw(svg, "line", { class: "grid", x1: px(v), x2: px(v), y1: top, y2: height - bottom });
    const half = text.length * 3.4;
    if (px(v) - half < last || bottom < 16) continue;
    const anchor = px(v) + half > width ? "end" : "middle";
    last = px(v) + half + 8;
    draw(svg, "text", { x: anchor === "end" ? width : px(v), y: height - bottom + 15, "text-anchor": anchor }, text);
  }
  let above = Infinity;
  for (const [v, text] of ys) {
    draw(svg, "line", { class: "grid", x1: LEFT, x2: width - RIGHT, y1: py(v), y2: py(v) });
    if (above - py(v) < 13) continue;
    above = py(v);
    draw(svg, "text", { x: LEFT - 6, y: py(v) + 4, "text-anchor": "end" }, text);
  }
  if (label[1]) draw(svg, "text", { x: (LEFT + width - RIGHT) / 2, y: height - 4, "text-anchor": "middle" }, label[1]);
  if (label[2]) draw(svg, "text", { x: 0, y: 12 }, label[2]);
  // The position of the pointer in the coordinates of the picture.
  const at = (e) => {
    const box = svg.getBoundingClientRect();
    return [((e.clientX - box.left) / box.width) * width, ((e.clientY - box.top) / box.height) * height];
  };
  return { svg, px, py, at, width, height, top, bottom };
};

// Shades a zone in which the machine itself was late, between two corners.
const distrustedZone = (svg, [x0, y0], [x1, y1]) => {
  const zone = { x: Math.min(x0, x1), y: Math.min(y0, y1), width: Math.abs(x1 - x0), height: Math.abs(y1 - y0) };
  draw(svg, "rect", { class: "distrusted", ...zone });
};

// Places each name next to its mark so that it covers neither a mark, an interval bar nor another name, in the same order
// of positions as the static picture (label_layout.rs). A thin line connects a distant name. `names`: {node, x, y,
// across, down} with the text node and the ends of the bars.
const spread = (svg, names, [left, top, right, bottom]) => {
  const taken = names.flatMap(({ x, y, across, down }) => [
    [x - 10, y - 10, x + 10, y + 10],
    [Math.min(...across) - 2, y - 2, Math.max(...across) + 2, y + 2],
    [x - 2, Math.min(...down) - 2, x + 2, Math.max(...down) + 2],
  ]);
  const hits = (a, b) => a[0] < b[2] && b[0] < a[2] && a[1] < b[3] && b[1] < a[3];
  for (const { node, x, y, across } of [...names].sort((a, b) => a.y - b.y)) {
    const w = node.getComputedTextLength();
    const reach = (bar) => Math.min(60, Math.max(10, bar)) + 4;
    const candidates = [
      [x + reach(Math.max(...across) - x), y, "start"],
      [x - reach(x - Math.min(...across)), y, "end"],
    ];
    for (let step = 1; step < 14; step++) {
      for (const dy of [9 * step, -9 * step]) {
        candidates.push([x + 14 + 2 * step, y + dy, "start"], [x - 14 - 2 * step, y + dy, "end"]);
      }
    }
    const box = ([cx, cy, anchor]) => (anchor === "start" ? [cx, cy - 8, cx + w, cy + 8] : [cx - w, cy - 8, cx, cy + 8]);
    const fits = (b) => b[0] >= left && b[2] <= right && b[1] >= top && b[3] <= bottom;
    const best = candidates.find((c) => fits(box(c)) && !taken.some((t) => hits(t, box(c)))) ?? candidates[0];
    taken.push(box(best));
    const [cx, cy, anchor] = best;
    node.setAttribute("x", cx);
    node.setAttribute("y", cy + 4);
    node.setAttribute("text-anchor", anchor);
    if (cy !== y) {
      const to = anchor === "start" ? cx - 2 : cx + 2;
      svg.insertBefore(draw(svg, "line", { class: "lead", x1: x, y1: y, x2: to, y2: cy }), svg.firstChild);
    }
  }
};

// The box that follows the pointer. After a touch it stays, since the finger has been lifted.
const tip = el("div", { id: "tip", hidden: true });
document.querySelector("main").append(tip);
const say = (event, text) => {
  if (!text && event.type === "pointerleave" && event.pointerType === "touch") return;
  tip.hidden = !text;
  if (!text) return;
  tip.textContent = text;
  const room = document.documentElement.clientWidth;
  tip.style.left = `${Math.max(0, Math.min(event.pageX + 12, room - tip.offsetWidth - 8))}px`;
  tip.style.top = `${event.pageY + 14}px`;
};
const hover = (node, text) => {
  for (const type of ["pointermove", "pointerdown"]) node.addEventListener(type, (e) => say(e, text(e)));
  node.addEventListener("pointerleave", (e) => say(e));
};
