// Lateness and its price, to choose a ticker.

// Subjects are not ranked if the machine itself was late at `percentile`.
const tradeoff = (place, subjects, percentile, ranked) => {
  const points = subjects.filter((s) => s.cpu !== null && s.late_at !== null);
  if (!points.length) return place.replaceChildren("Nothing to show: no subject has both a percentile and a cost.");
  const groups = byPeriod(points);
  if (groups.length === 1) return priced(place, points, percentile, ranked);
  cells(place, groups, (body, g) => priced(body, g.all, percentile, ranked), "wide");
};

const priced = (place, all, percentile, ranked) => {
  const padded = (values, room) => {
    const [a, b] = extent(values.map((v) => Math.log10(Math.max(v, 1))));
    const middle = (a + b) / 2;
    const half = Math.max((b - a) / 2, 0.3) * (1 + room);
    return [middle - half, middle + half];
  };
  const x = padded(all.flatMap((s) => [s.cpu, ...(s.cpu_ci ?? [])]), 0.12);
  const y = padded(all.flatMap((s) => [s.late_at, ...(s.late_ci ?? [])]), 0.1);
  const label = ["Lateness against cost", "CPU time of the process per tick", `lateness, ${percentile}${ranked ? "" : " (unreliable)"}`];
  const f = frame(place, { height: 380, x, y, xs: powers(x), ys: powers(y), label });
  const [px, py] = [(v) => f.px(log(v)), (v) => f.py(log(v))];
  // Unlike an image, a group can contain marks that take the focus.
  f.svg.setAttribute("role", "group");
  if (!ranked) distrustedZone(f.svg, [LEFT, f.top], [f.width - RIGHT, f.height - f.bottom]);
  const fronts = new Set(all.filter((s) => s.front));
  for (const group of new Set([...fronts].map((s) => s.group))) {
    const front = [...fronts].filter((s) => s.group === group).sort((a, b) => a.cpu - b.cpu);
    draw(f.svg, "path", { class: "front", d: path(front.map((s) => [px(s.cpu), py(s.late_at)])) });
    for (const s of front) draw(f.svg, "circle", { class: "front", cx: px(s.cpu), cy: py(s.late_at), r: 10 });
  }
  for (const s of all) {
    const [cx, cy] = [px(s.cpu), py(s.late_at)];
    const bar = line(s, 2, "");
    if (s.late_ci) draw(f.svg, "line", { ...bar, x1: cx, x2: cx, y1: py(s.late_ci[0]), y2: py(s.late_ci[1]) });
    if (s.cpu_ci) draw(f.svg, "line", { ...bar, x1: px(s.cpu_ci[0]), x2: px(s.cpu_ci[1]), y1: cy, y2: cy });
  }
  const between = (v) => (v ? ` (${time(v[0])} to ${time(v[1])})` : "");
  // With many subjects a name is shown on request: by pointer, finger or key.
  const crowd = all.length > TOGETHER;
  const names = all.flatMap((s) => {
    const [cx, cy] = [px(s.cpu), py(s.late_at)];
    const core = s.core === null ? "" : `\n${+s.core.toPrecision(2)} % of one core`;
    const text = `${s.name}\n${percentile} ${time(s.late_at)}${between(s.late_ci)}\nCPU per tick ${time(s.cpu)}${between(s.cpu_ci)}${core}`;
    const point = mark(f.svg, s, cx, cy);
    point.dataset.id = s.id;
    hover(point, () => text);
    point.setAttribute("tabindex", 0);
    point.setAttribute("role", "img");
    point.setAttribute("aria-label", text.replaceAll("\n", ", "));
    const named = crowd && !fronts.has(s) && !s.control;
    const show = (on) => {
      const r = point.getBoundingClientRect();
      say({ pageX: r.right + scrollX, pageY: r.bottom + scrollY }, on && text);
    };
    point.addEventListener("focus", () => show(true));
    point.addEventListener("blur", () => show(false));
    if (named) return [];
    const across = (s.cpu_ci ?? [s.cpu, s.cpu]).map(px);
    const down = (s.late_ci ?? [s.late_at, s.late_at]).map(py);
    return [{ node: draw(f.svg, "text", { class: "name" }, s.name), x: cx, y: cy, across, down }];
  });
  spread(f.svg, names, [LEFT, f.top, f.width, f.height - f.bottom]);
};
