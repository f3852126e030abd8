// Small multiples: one cell per subject.

const cells = (place, subjects, fill, size = "") => {
  place.replaceChildren();
  const grid = el("div", { className: `multiples ${size}` });
  place.append(grid);
  for (const s of subjects) {
    const body = el("div");
    grid.append(el("figure", {}, el("figcaption", {}, s.name), body));
    fill(body, s);
  }
};

// Median (line) and maximum (dots) of each round, and the controls in the same rounds. A maximum is above every
// percentile, so the dots are pale if the machine itself was late from any position `distrusted` on.
const rounds = (place, subjects, all, distrusted) => {
  const maximum = distrusted === null ? {} : { opacity: 0.35 };
  const doubt = distrusted === null ? "" : " (unreliable)";
  const known = (s) => s.rounds.filter((r) => r.max !== null);
  const controls = all.filter((s) => s.control);
  const y = decades(all.flatMap((s) => known(s).flatMap((r) => [r.p50 ?? r.max, r.max])));
  const x = extent(all.flatMap((s) => s.rounds.map((r) => r.index)));
  const label = (s) => [`Rounds of ${s.name}`];
  cells(place, subjects, (body, s) => {
    const xs = steps(x, 4, (v) => `${v}`).filter(([v]) => Number.isInteger(v));
    const ys = powers(y).filter(([v]) => Number.isInteger(v) && (y[1] - y[0] < 5 || v % 2 === 0));
    const f = frame(body, { height: 150, x, y, xs, ys, label: label(s), top: 6, bottom: 20 });
    const medians = (of) => known(of).filter((r) => r.p50 !== null).map((r) => [f.px(r.index), f.py(log(r.p50))]);
    controls.forEach((c, i) => c !== s && draw(f.svg, "path", { class: "control", d: path(medians(c)), "stroke-dasharray": ["", "12 8", "4 6"][i % 3] }));
    draw(f.svg, "path", { ...line(s, 1.6, ""), d: path(medians(s)) });
    for (const r of known(s)) draw(f.svg, "circle", { cx: f.px(r.index), cy: f.py(log(r.max)), r: 1.8, ...maximum, style: `fill:${paint(s)}` });
    hover(f.svg, (e) => {
      const [mx] = f.at(e);
      const near = known(s).reduce((n, r) => (!n || Math.abs(f.px(r.index) - mx) < Math.abs(f.px(n.index) - mx) ? r : n), null);
      if (!near) return "";
      const of = (c) => c.rounds.find((r) => r.index === near.index && r.p50 !== null);
      const others = controls.filter((c) => c !== s && of(c)).map((c) => `\n${c.name}: median ${time(of(c).p50)}`);
      return `${s.name}, round ${near.index}\nmedian ${near.p50 === null ? "-" : time(near.p50)}, most ${time(near.max)}${doubt}${others.join("")}`;
    });
  });
};

// The time until the runtime woke up, and from there until the task ran.
const split = (place, subjects, distrusted) => {
  const all = subjects.flatMap((s) => [s.split.until, s.split.after]);
  const y = decades(all.flatMap((c) => c.map((p) => p[1])));
  const end = Math.max(...all.map((c) => c.at(-1)[0]));
  cells(place, subjects, (body, s) => {
    const series = [
      { s, name: `${s.name}, until`, points: s.split.until, dash: "" },
      { s, name: `${s.name}, after`, points: s.split.after, dash: "3 4" },
    ];
    curves(body, series, { height: 190, label: [`Wake-up of the thread and time to reach the task: ${s.name}`], y, end, distrusted });
  });
};
