"use strict";
(() => {
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
    const [d, u] = Math.abs(ns) < 1e3 ? [1, "ns"] : Math.abs(ns) < 1e6 ? [1e3, "us"] : Math.abs(ns) < 1e9 ? [1e6, "ms"] : [1e9, "s"];
    return `${+(ns / d).toPrecision(Math.abs(ns / d) >= 100 ? 4 : 3)} ${u}`;
  };
  const log = (v) => Math.log10(Math.max(v, 1));
  const ink = () => getComputedStyle(document.documentElement).getPropertyValue("--ink").trim();
  // Black is for paper only.
  const colour = (s) => (s.colour === "#000000" ? ink() : s.colour);
  const dashes = ["", "12 8", "4 6"];

  // The view is in the address: a link shows what its sender saw.
  const view = new URLSearchParams(location.hash.slice(1));
  const remember = () => history.replaceState(null, "", `#${view}`);
  if (view.get("theme")) document.documentElement.dataset.theme = view.get("theme");
  const redraws = [];
  const redraw = () => redraws.forEach((f) => f());
  document.getElementById("theme").addEventListener("click", () => {
    const root = document.documentElement;
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
    view.set("theme", root.dataset.theme);
    remember();
    redraw();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);

  const tip = el("div", { id: "tip", hidden: true });
  document.body.append(tip);
  const say = (event, text) => {
    tip.hidden = !text;
    if (!text) return;
    tip.textContent = text;
    tip.style.left = `${Math.max(0, Math.min(event.pageX + 12, innerWidth - tip.offsetWidth - 8))}px`;
    tip.style.top = `${event.pageY + 14}px`;
  };

  const unpack = (s) => {
    const raw = atob(s.codes);
    const n = raw.length / 2;
    s.late = new Float64Array(n);
    s.at = new Float64Array(n);
    for (let i = 0; i < n; i++) {
      const c = raw.charCodeAt(2 * i) | (raw.charCodeAt(2 * i + 1) << 8);
      const shift = (c >> 10) - 1;
      s.late[i] = c < 2048 ? c : (c - shift * 1024 + 0.5) * 2 ** shift;
    }
    s.tail = new Set();
    for (let i = 0; i < s.exact.length; i += 2) {
      s.late[s.exact[i]] = s.exact[i + 1];
      s.tail.add(s.exact[i]);
    }
    let i = 0;
    for (const r of s.rounds) {
      r.from = i;
      for (let k = 0; k < r.n; k++, i++) s.at[i] = r.start + (r.tick ? r.tick[k] : r.first + k) * s.period;
    }
    s.codes = null;
  };
  // Rounds follow each other in time; instances of one round overlap, so ticks are looked up through their rounds.
  const roundOf = (s, i) => s.rounds.find((r) => i >= r.from && i < r.from + r.n);

  const frame = (place, { height, x, y, xs, ys, label }) => {
    const width = Math.max(300, place.clientWidth || 300);
    const [l, r, t, b] = [62, 24, 8, 36];
    place.replaceChildren();
    const svg = draw(place, "svg", { viewBox: `0 0 ${width} ${height}`, height, role: "img", "aria-label": label[0] });
    const px = (v) => l + ((v - x[0]) / (x[1] - x[0] || 1)) * (width - l - r);
    const py = (v) => height - b - ((v - y[0]) / (y[1] - y[0] || 1)) * (height - t - b);
    let last = -1e9;
    for (const [v, text] of xs) {
      draw(svg, "line", { class: "grid", x1: px(v), x2: px(v), y1: t, y2: height - b });
      if (px(v) - last < 44) continue;
      last = px(v);
      draw(svg, "text", { x: px(v), y: height - b + 15, "text-anchor": "middle" }, text);
    }
    for (const [v, text] of ys) {
      draw(svg, "line", { class: "grid", x1: l, x2: width - r, y1: py(v), y2: py(v) });
      draw(svg, "text", { x: l - 6, y: py(v) + 4, "text-anchor": "end" }, text);
    }
    draw(svg, "text", { x: (l + width - r) / 2, y: height - 4, "text-anchor": "middle" }, label[1]);
    return { svg, px, py, width };
  };
  const path = (points) => points.map(([x, y], i) => `${i ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");
  const decades = (values) => {
    const all = values.filter((v) => v !== null && v !== undefined).map(log);
    const low = Math.floor(all.reduce((a, b) => Math.min(a, b), Infinity));
    const high = Math.ceil(all.reduce((a, b) => Math.max(a, b), -Infinity));
    return Number.isFinite(low) ? [low, Math.max(high, low + 1)] : [0, 1];
  };
  const powers = ([a, b], text = (v) => time(10 ** v)) => {
    const marks = [];
    for (let v = Math.ceil(a); v <= b; v++) marks.push([v, text(v)]);
    return marks;
  };
  const nines = (end) => {
    const marks = [[0, "min"], [-Math.log10(0.5), "p50"]];
    for (let n = 1; n <= end; n++) marks.push([n, n < 3 ? `p${[90, 99][n - 1]}` : `p99.${"9".repeat(n - 2)}`]);
    return marks;
  };

  const curves = (place, series, label) => {
    const end = series.reduce((m, c) => Math.max(m, c.points.at(-1)[0]), 1);
    const y = decades(series.flatMap((c) => c.points.map((p) => p[1])));
    const f = frame(place, { height: 360, x: [0, end], y, xs: nines(end), ys: powers(y), label });
    for (const c of series) {
      const points = c.points.map(([q, v]) => [f.px(q), f.py(log(v))]);
      draw(f.svg, "path", { d: path(points), fill: "none", stroke: colour(c.s), "stroke-width": 2, "stroke-dasharray": c.dash ?? dashes[c.s.dash] });
    }
    f.svg.addEventListener("pointerleave", (e) => say(e));
    f.svg.addEventListener("pointermove", (e) => {
      const box = f.svg.getBoundingClientRect();
      const [mx, my] = [((e.clientX - box.left) / box.width) * f.width, e.clientY - box.top];
      let best = null;
      for (const c of series) for (const [q, v] of c.points) {
        const d = Math.hypot(f.px(q) - mx, f.py(log(v)) - my);
        if (!best || d < best.d) best = { d, c, q, v };
      }
      say(e, best && best.d < 30 && `${best.c.name}\np${+(100 * (1 - 10 ** -best.q)).toPrecision(6)}: ${time(best.v)}`);
    });
  };

  for (const section of document.querySelectorAll(".report")) {
    const { subjects } = JSON.parse(section.querySelector(".data").textContent);
    if (!subjects.length) continue;
    subjects.forEach(unpack);
    const pictures = section.querySelector(".pictures");
    pictures.replaceChildren();
    const on = () => subjects.filter((s) => !s.off);

    const switches = el("div", { className: "switches" });
    const hidden = new Set(view.getAll("off"));
    for (const s of subjects) {
      s.off = hidden.has(s.id);
      const box = el("input", { type: "checkbox", checked: !s.off });
      box.addEventListener("change", () => {
        s.off = !box.checked;
        view.delete("off");
        document.querySelectorAll(".switches input").forEach((b) => b.checked || view.append("off", b.value));
        remember();
        redraw();
      });
      box.value = s.id;
      const mark = el("i");
      redraws.push(() => (mark.style.background = colour(s)));
      switches.append(el("label", {}, box, mark, s.name));
    }
    const chart = (title, note, paint) => {
      const place = el("div", { className: "chart" });
      pictures.append(el("h2", {}, title), el("p", { className: "note" }, note), place);
      redraws.push(() => paint(place));
    };
    pictures.append(switches);

    chart("Lateness against cost", "Lower left is better; bars are 95 % intervals over rounds; the line joins what nothing beats in both.", (place) => {
      const all = on().filter((s) => s.cpu !== null && (s.p99 ?? s.p50) !== null).map((s) => ({ s, v: s.p99 ?? s.p50 }));
      if (!all.length) return place.replaceChildren("Nothing to show.");
      const y = decades(all.flatMap(({ s, v }) => [v, ...(s.p99 === null ? [] : s.p99ci ?? [])]));
      const x = decades(all.flatMap(({ s }) => [s.cpu * 1e3, ...(s.cpuci ?? []).map((c) => c * 1e3)])).map((v) => v - 3);
      const f = frame(place, { height: 380, x, y, xs: powers(x, (v) => `${+(10 ** v).toPrecision(2)} %`), ys: powers(y), label: ["Lateness against cost", "per cent of one core"] });
      const cx = (c) => f.px(Math.max(x[0], Math.log10(Math.max(c, 1e-9))));
      const front = all.filter(({ s, v }) => !all.some((o) => o.v <= v && o.s.cpu <= s.cpu && (o.v < v || o.s.cpu < s.cpu)));
      front.sort((a, b) => a.s.cpu - b.s.cpu);
      draw(f.svg, "path", { d: path(front.map(({ s, v }) => [cx(s.cpu), f.py(log(v))])), fill: "none", class: "axis", "stroke-dasharray": "2 4" });
      const names = [];
      for (const { s, v } of all) {
        const [px, py] = [cx(s.cpu), f.py(log(v))];
        const bar = { stroke: colour(s), "stroke-width": 1.5, opacity: 0.6 };
        if (s.p99ci && s.p99 !== null) draw(f.svg, "line", { ...bar, x1: px, x2: px, y1: f.py(log(s.p99ci[0])), y2: f.py(log(s.p99ci[1])) });
        if (s.cpuci) draw(f.svg, "line", { ...bar, x1: cx(s.cpuci[0]), x2: cx(s.cpuci[1]), y1: py, y2: py });
        const dot = draw(f.svg, "circle", { cx: px, cy: py, r: 6, fill: colour(s) });
        const what = `${s.name}\n${s.p99 === null ? "p50" : "p99"} ${time(v)}\n${s.cpu.toPrecision(3)} % of a core`;
        dot.addEventListener("pointermove", (e) => say(e, what));
        dot.addEventListener("pointerleave", (e) => say(e));
        names.push({ s, px, y: py + 4 });
      }
      // Names keep out of each other's way.
      names.sort((a, b) => a.y - b.y);
      names.forEach((n, i) => { if (i) n.y = Math.max(n.y, names[i - 1].y + 14); });
      for (const n of names) {
        const left = n.px > f.width * 0.6;
        draw(f.svg, "text", { class: "name", x: n.px + (left ? -10 : 10), y: n.y, "text-anchor": left ? "end" : "start" }, n.s.name);
      }
    });

    chart("Percentiles", "Each step to the right leaves a tenth of the ticks.", (place) => {
      const series = on().filter((s) => s.curve.length).map((s) => ({ s, name: s.name, points: s.curve }));
      if (series.length) curves(place, series, ["Lateness percentiles", "percentile"]); else place.replaceChildren("Nothing to show.");
    });

    const timed = subjects.filter((s) => s.late.length);
    if (timed.length) {
      const whole = timed.reduce((w, s) => s.at.reduce((a, v) => [Math.min(a[0], v), Math.max(a[1], v)], w), [Infinity, -Infinity]);
      const asked = (view.get("t") ?? "").split(",").map(Number);
      let range = asked.length === 2 && asked[1] > asked[0] ? asked : [...whole];
      const y = decades(timed.flatMap((s) => [s.curve[0][1], s.curve.at(-1)[1]]));
      chart("Over time", "Darker: more ticks. Every tick above p99 is a dot of its own. Drag to zoom, double-click for the whole run.", (place) => {
        place.replaceChildren();
        const reset = el("button", { type: "button" }, `${time(range[0])} to ${time(range[1])}: show the whole run`);
        const zoom = (to) => {
          range = to;
          to[0] === whole[0] && to[1] === whole[1] ? view.delete("t") : view.set("t", to.map(Math.round).join(","));
          remember();
          redraw();
        };
        reset.addEventListener("click", () => zoom([...whole]));
        if (range[0] !== whole[0] || range[1] !== whole[1]) place.append(reset);
        for (const s of timed.filter((s) => !s.off)) heat(place, s, range, y, zoom, whole);
      });
    }

    chart("Histogram", "Share of ticks in each of sixteen bins a decade, on a logarithmic scale: single late ticks stay visible.", (place) => {
      const all = on().filter((s) => s.bins.length);
      if (!all.length) return place.replaceChildren("Nothing to show.");
      const x = [Math.min(...all.map((s) => s.bins[0][0])) / 16, (Math.max(...all.map((s) => s.bins.at(-1)[0])) + 1) / 16];
      const share = (s) => { const n = s.bins.reduce((a, b) => a + b[1], 0); return s.bins.map(([b, c]) => [b, Math.log10(c / n)]); };
      const low = Math.min(...all.flatMap((s) => share(s).map((b) => b[1])));
      const y = [Math.floor(low) - 0.3, 0];
      const f = frame(place, { height: 300, x, y, xs: powers(x), ys: powers(y, (v) => `${+(100 * 10 ** v).toPrecision(2)} %`), label: ["Histogram", "lateness"] });
      for (const s of all) {
        const points = [];
        let end = null;
        for (const [b, v] of share(s)) {
          if (end !== null && end !== b) points.push([f.px(end / 16), f.py(y[0])], [f.px(b / 16), f.py(y[0])]);
          if (end === null) points.push([f.px(b / 16), f.py(y[0])]);
          points.push([f.px(b / 16), f.py(v)], [f.px((b + 1) / 16), f.py(v)]);
          end = b + 1;
        }
        points.push([f.px(end / 16), f.py(y[0])]);
        draw(f.svg, "path", { d: path(points), fill: colour(s), "fill-opacity": 0.06, stroke: colour(s), "stroke-width": 1.5, "stroke-dasharray": dashes[s.dash] });
      }
    });

    if (subjects.some((s) => s.split)) {
      chart("Until and after the runtime came back", "Solid: from the deadline until the runtime came back from its park. Dashed: from there until the task ran.", (place) => {
        const series = on().filter((s) => s.split).flatMap((s) => [
          { s, name: `${s.name}, until`, points: s.split.until, dash: "" },
          { s, name: `${s.name}, after`, points: s.split.after, dash: "3 4" },
        ]);
        if (series.length) curves(place, series, ["Until and after unpark", "percentile"]); else place.replaceChildren("Nothing to show.");
      });
    }

    if (subjects.some((s) => s.rounds.length > 1)) {
      chart("Round by round", "Median (line) and maximum (dots) of each round; grey: the controls in the same rounds, what the machine could give just then.", (place) => {
        place.replaceChildren();
        const grid = el("div", { className: "multiples" });
        place.append(grid);
        const known = (s) => s.rounds.filter((r) => r.max !== null);
        const controls = subjects.filter((s) => s.control);
        const y = decades(subjects.flatMap((s) => known(s).flatMap((r) => [r.p50, r.max])));
        const end = subjects.reduce((m, s) => s.rounds.reduce((a, r) => Math.max(a, r.index), m), 1);
        for (const s of on()) {
          const cell = el("div", {}, s.name);
          grid.append(cell);
          const svg = draw(cell, "svg", { viewBox: "0 0 240 110", role: "img", "aria-label": s.name });
          const [px, py] = [(r) => 44 + (r.index / end) * 192, (v) => 104 - ((log(v) - y[0]) / (y[1] - y[0])) * 98];
          for (const [v, text] of powers(y).filter((_, i, a) => i % Math.ceil(a.length / 5) === 0)) {
            draw(svg, "line", { class: "grid", x1: 44, x2: 236, y1: py(10 ** v), y2: py(10 ** v) });
            draw(svg, "text", { x: 40, y: py(10 ** v) + 4, "text-anchor": "end" }, text);
          }
          const line = (of, stroke, width) => draw(svg, "path", { d: path(known(of).filter((r) => r.p50 !== null).map((r) => [px(r), py(r.p50)])), fill: "none", stroke, "stroke-width": width });
          controls.forEach((c) => c !== s && line(c, "#888", 0.8));
          line(s, colour(s), 1.6);
          for (const r of known(s)) draw(svg, "circle", { cx: px(r), cy: py(r.max), r: 1.6, fill: colour(s) });
        }
      });
    }
  }

  function heat(place, s, range, y, zoom, whole) {
    const canvas = el("canvas");
    const box = el("div", { className: "time" }, s.name, canvas);
    place.append(box);
    const ratio = devicePixelRatio || 1;
    const [w, h] = [Math.max(canvas.clientWidth, 200), 110];
    canvas.width = w * ratio;
    canvas.height = h * ratio;
    const c = canvas.getContext("2d");
    c.scale(ratio, ratio);
    const px = (at) => ((at - range[0]) / (range[1] - range[0])) * w;
    const py = (v) => h - 3 - ((log(v) - y[0]) / (y[1] - y[0])) * (h - 6);
    const faint = getComputedStyle(document.documentElement).getPropertyValue("--faint");
    // One cell is two pixels: the most crowded one is opaque, and no occupied one is invisible.
    const [columns, rows] = [Math.ceil(w / 2), Math.ceil(h / 2)];
    const cells = new Uint32Array(columns * rows);
    let most = 1;
    for (let i = 0; i < s.late.length; i++) {
      const x = px(s.at[i]);
      if (x < 0 || x > w) continue;
      const cell = Math.min(rows - 1, Math.max(0, py(s.late[i]) >> 1)) * columns + Math.min(columns - 1, x >> 1);
      most = Math.max(most, ++cells[cell]);
    }
    c.fillStyle = colour(s);
    cells.forEach((n, cell) => {
      if (!n) return;
      c.globalAlpha = most === 1 ? 0.9 : 0.25 + (0.75 * Math.log(n)) / Math.log(most);
      c.fillRect((cell % columns) * 2, Math.floor(cell / columns) * 2, 2, 2);
    });
    c.globalAlpha = 1;
    for (const i of s.tail) {
      const x = px(s.at[i]);
      if (x >= 0 && x <= w) c.fillRect(x - 1.5, py(s.late[i]) - 1.5, 3, 3);
    }
    c.fillStyle = faint;
    c.font = "11px system-ui, sans-serif";
    for (const [v, text] of powers(y).slice(1, -1)) if (v % 2 === 0 || y[1] - y[0] < 5) c.fillText(text, 4, py(10 ** v) + 4);

    const at = (e) => { const b = canvas.getBoundingClientRect(); return [e.clientX - b.left, e.clientY - b.top]; };
    let from = null;
    canvas.addEventListener("pointerdown", (e) => { from = at(e)[0]; });
    canvas.addEventListener("pointerup", (e) => {
      const to = at(e)[0];
      if (from !== null && Math.abs(to - from) > 6) {
        const t = (x) => range[0] + (Math.max(0, Math.min(w, x)) / w) * (range[1] - range[0]);
        zoom([t(Math.min(from, to)), t(Math.max(from, to))]);
      }
      from = null;
    });
    canvas.addEventListener("dblclick", () => zoom([...whole]));
    canvas.addEventListener("pointerleave", (e) => { from = null; say(e); });
    canvas.addEventListener("pointermove", (e) => {
      const [mx, my] = at(e);
      let [best, least] = [-1, 144];
      for (let i = 0; i < s.late.length; i++) {
        const dx = px(s.at[i]) - mx;
        if (dx > 12 || dx < -12) continue;
        const d = dx * dx + (py(s.late[i]) - my) ** 2;
        if (d < least) [best, least] = [i, d];
      }
      if (best < 0) return say(e);
      const r = roundOf(s, best);
      const tick = r.tick ? r.tick[best - r.from] : r.first + best - r.from;
      say(e, `${s.name}, round ${r.index}, tick ${tick}\ndue ${(s.at[best] / 1e9).toFixed(6)} s after the start\nlate ${time(s.late[best])}`);
    });
  }

  let width = innerWidth;
  addEventListener("resize", () => { if (innerWidth !== width) { width = innerWidth; redraw(); } });
  redraw();
  document.documentElement.dataset.ready = "yes";
})();
