// Distributions: percentile curves in nines, and histograms.

const nines = (end, few) => {
  const marks = few ? [[0, "min"]] : [[0, "min"], [-Math.log10(0.5), "p50"]];
  for (let n = 1; n <= end; n++) marks.push([n, n < 3 ? `p${[90, 99][n - 1]}` : `p99.${"9".repeat(n - 2)}`]);
  return marks;
};

// `series`: {s, name, points: [[position in nines, ns]], dash}; the nearest point says what it is.
const curves = (place, series, { height = 360, label, y, end }) => {
  const last = end ?? series.reduce((m, c) => Math.max(m, c.points.at(-1)[0]), 1);
  const range = y ?? decades(series.flatMap((c) => c.points.map((p) => p[1])));
  const f = frame(place, { height, x: [0, last], y: range, xs: nines(last, height < 200), ys: powers(range), label });
  // What has gaps lies over what has none: curves that coincide are all seen.
  for (const c of [...series].sort((a, b) => !!(a.dash ?? dashes[a.s.dash]) - !!(b.dash ?? dashes[b.s.dash]))) {
    const points = c.points.map(([q, v]) => [f.px(q), f.py(log(v))]);
    draw(f.svg, "path", { ...line(c.s, 2, c.dash), d: path(points) });
  }
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
    return best && best.d < 30 && `${best.c.name}\n${name(best.q)}: ${time(best.v)}`;
  });
};

// Share of the ticks in each bin, sixteen a decade, both axes logarithmic.
const histogram = (place, subjects, what) => {
  const x = [Math.min(...subjects.map((s) => s.bins[0][0])) / 16, (Math.max(...subjects.map((s) => s.bins.at(-1)[0])) + 1) / 16];
  const share = (s) => {
    const n = s.bins.reduce((a, b) => a + b[1], 0);
    return s.bins.map(([b, c]) => [b, Math.log10(c / n)]);
  };
  const y = [Math.floor(Math.min(...subjects.flatMap((s) => share(s).map((b) => b[1])))) - 0.3, 0];
  const percent = (v) => (v < -5 ? `1e${Math.round(v) + 2} %` : `${+(100 * 10 ** v).toPrecision(2)} %`);
  const label = ["Histogram", what, "share of the ticks"];
  const f = frame(place, { height: 300, x, y, xs: powers(x), ys: powers(y, percent).filter(([v]) => Number.isInteger(v)), label });
  const floor = f.py(y[0]);
  for (const s of subjects) {
    const points = [];
    let end = null;
    for (const [b, v] of share(s)) {
      if (end !== b) {
        if (end !== null) points.push([f.px(end / 16), floor]);
        points.push([f.px(b / 16), floor]);
      }
      points.push([f.px(b / 16), f.py(v)], [f.px((b + 1) / 16), f.py(v)]);
      end = b + 1;
    }
    points.push([f.px(end / 16), floor]);
    draw(f.svg, "path", { d: path(points), style: `fill:${paint(s)};stroke:${paint(s)}`, "fill-opacity": 0.06, "stroke-width": 1.5, "stroke-dasharray": dashes[s.dash] });
  }
  hover(f.svg, (e) => {
    const [mx, my] = f.at(e);
    if (mx < LEFT || my > floor) return "";
    const bin = Math.floor((x[0] + ((mx - LEFT) / (f.width - LEFT - RIGHT)) * (x[1] - x[0])) * 16);
    const here = subjects.flatMap((s) => s.bins.filter(([b]) => b === bin).map(([, c]) => `\n${s.name}: ${c}`));
    return here.length && `${time(10 ** (bin / 16))} to ${time(10 ** ((bin + 1) / 16))}${here.join("")}`;
  });
};
