// Distributions: percentile curves in nines, and histograms.

const nines = (end, few) => {
  const marks = few ? [[0, "min"]] : [[0, "min"], [-Math.log10(0.5), "p50"]];
  for (let n = 1; n <= end; n++) marks.push([n, n < 3 ? `p${[90, 99][n - 1]}` : `p99.${"9".repeat(n - 2)}`]);
  return marks;
};

// `series`: {s, name, points: [[position in nines, ns]], dash}. The nearest point is described at the pointer.
const ends = (series) => series.reduce((m, c) => Math.max(m, c.above?.end ?? c.points.at(-1)[0]), 1);
const values = (series) => decades(series.flatMap((c) => [...c.points.map((p) => p[1]), c.above?.max ?? null]));

// `ghosts` are other series, drawn behind in grey. From the position `distrusted` on, the machine itself was late.
const curves = (place, series, { height = 360, label, y, end, ghosts = [], distrusted = null }) => {
  const last = end ?? ends(series);
  const range = y ?? values(series);
  const f = frame(place, { height, x: [0, last], y: range, xs: nines(last, height < 200), ys: powers(range), label });
  if (distrusted !== null && distrusted < last) {
    distrustedZone(f.svg, [f.px(distrusted), f.top], [f.px(last), f.height - f.bottom]);
  }
  const pixels = (c) => c.points.map(([q, v]) => [f.px(q), f.py(log(v))]);
  for (const c of ghosts) draw(f.svg, "path", { class: "ghost", d: path(pixels(c)) });
  // Dashed curves are drawn over solid ones, so that both are visible if they coincide.
  for (const c of [...series].sort((a, b) => !!(a.dash ?? a.s.dash) - !!(b.dash ?? b.s.dash))) {
    const points = pixels(c);
    draw(f.svg, "path", { ...line(c.s, 2, c.dash), d: path(points) });
    if (c.above) hatched(f.svg, c.s, points.at(-1), [f.px(c.above.end), f.py(log(c.above.max))]);
  }
  // The marks of each curve are at other percentiles, so that equal curves and those of one colour can be distinguished.
  const marked = series.length > 1 && series.every((c) => c.dash === undefined) ? series : [];
  marked.forEach((c, n) => {
    const distance = Math.max(1, Math.floor(c.points.length / 4));
    const first = Math.floor((distance * (2 * n + 1)) / (2 * series.length));
    pixels(c).forEach(([x, y], i) => i % distance === first && mark(f.svg, c.s, x, y));
  });
  hover(f.svg, (e) => {
    const [mx, my] = f.at(e);
    let best = null;
    for (const c of series) {
      for (const [q, v] of c.points) {
        const d = Math.hypot(f.px(q) - mx, f.py(log(v)) - my);
        if (!best || d < best.d) best = { d, c, q, v };
      }
    }
    const name = (q) => (q < 1e-9 ? "min" : `p${+(100 * (1 - 10 ** -q)).toPrecision(6)}`);
    const over = best?.c.above ? `\n${aboveSays(best.c.s)}` : "";
    const doubt = best && distrusted !== null && best.q >= distrusted ? " (unreliable)" : "";
    return best && best.d < 30 && `${best.c.name}\n${name(best.q)}: ${time(best.v)}${doubt}${over}`;
  });
};

// Share of the ticks in each bin, sixteen a decade, both axes logarithmic.
const histogram = (place, subjects, what) => {
  // More than a few histograms in one chart hide each other.
  if (subjects.length > 4) return cells(place, subjects, (body, s) => bars(body, [s], what, subjects, 170));
  bars(place, subjects, what, subjects, 300);
};

// All charts of a page have the axes of the subjects in `all`.
const bars = (place, subjects, what, all, height) => {
  const x = [
    Math.min(...all.map((s) => s.bins[0][0])) / 16,
    Math.max(...all.map((s) => Math.max((s.bins.at(-1)[0] + 1) / 16, s.above ? log(s.above.max) : 0))),
  ];
  const share = (s) => {
    const n = s.bins.reduce((a, b) => a + b[1], s.above?.n ?? 0);
    return s.bins.map(([b, c]) => [b, Math.log10(c / n)]);
  };
  // At least a decade, so that two labels fit.
  const y = [Math.min(-1, Math.floor(Math.min(...all.flatMap((s) => share(s).map((b) => b[1]))))) - 0.3, 0];
  const percent = (v) => (v < -5 ? `1e${Math.round(v) + 2} %` : `${+(100 * 10 ** v).toPrecision(2)} %`);
  const small = height < 200;
  const label = [`Histogram of ${subjects.map((s) => s.name).join(", ")}`, small ? "" : what, small ? "" : "share of the ticks"];
  const ys = powers(y, percent).filter(([v]) => Number.isInteger(v) && (!small || y[0] > -3 || v % 2 === 0));
  const f = frame(place, { height, x, y, xs: powers(x), ys, label, ...(small && { top: 6, bottom: 20 }) });
  const floor = f.py(y[0]);
  // Subjects in one chart have different zones, so their lines are pale there.
  const from = subjects.length > 1 ? null : subjects[0].distrusted_from;
  if (from !== null && log(from) < x[1]) {
    distrustedZone(f.svg, [f.px(Math.max(log(from), x[0])), f.top], [f.px(x[1]), floor]);
  }
  // Draws the bins of a subject as one outline, and returns its end.
  const outline = (s, bins, opacity) => {
    const points = [];
    let end = null;
    for (const [b, v] of bins) {
      if (end !== b) {
        if (end !== null) points.push([f.px(end / 16), floor]);
        points.push([f.px(b / 16), floor]);
      }
      points.push([f.px(b / 16), f.py(v)], [f.px((b + 1) / 16), f.py(v)]);
      end = b + 1;
    }
    if (end === null) return;
    points.push([f.px(end / 16), floor]);
    const style = `fill:${paint(s)};stroke:${paint(s)}`;
    draw(f.svg, "path", { d: path(points), style, opacity, "fill-opacity": 0.06, "stroke-width": 1.5, "stroke-dasharray": s.dash });
  };
  for (const s of subjects) {
    const suspect = s.distrusted_from === null ? Infinity : Math.floor(log(s.distrusted_from) * 16);
    const isTrusted = ([b]) => subjects.length === 1 || b < suspect;
    outline(s, share(s).filter(isTrusted), 1);
    outline(s, share(s).filter((bin) => !isTrusted(bin)), 0.35);
    if (s.above) {
      const n = s.bins.reduce((a, b) => a + b[1], s.above.n);
      hatched(f.svg, s, [f.px((s.bins.at(-1)[0] + 1) / 16), floor], [f.px(log(s.above.max)), f.py(Math.log10(s.above.n / n))]);
    }
  }
  hover(f.svg, (e) => {
    const [mx, my] = f.at(e);
    if (mx < LEFT || my > floor) return "";
    const bin = Math.floor((x[0] + ((mx - LEFT) / (f.width - LEFT - RIGHT)) * (x[1] - x[0])) * 16);
    const over = subjects.filter((s) => s.above && bin > s.bins.at(-1)[0]).map((s) => `${s.name}: ${aboveSays(s)}`);
    if (over.length) return over.join("\n");
    const here = subjects.flatMap((s) => s.bins.filter(([b]) => b === bin).map(([, c]) => `\n${s.name}: ${c}`));
    return here.length && `${time(10 ** (bin / 16))} to ${time(10 ** ((bin + 1) / 16))}${here.join("")}`;
  });
};
