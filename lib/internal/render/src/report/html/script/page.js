// The page: reads the data, keeps the view in the address, and arranges the pictures.

// The view is in the address, so that a link shows the view of its sender.
const view = new URLSearchParams(location.hash.slice(1));
const remember = () => history.replaceState(null, "", `#${view}`);
addEventListener("hashchange", () => location.reload());

const root = document.documentElement;
const redraws = [];
const redraw = () => redraws.forEach((f) => f());
if (["light", "dark"].includes(view.get("theme"))) root.dataset.theme = view.get("theme");
const darkness = matchMedia("(prefers-color-scheme: dark)");
document.getElementById("theme").addEventListener("click", () => {
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : darkness.matches;
  root.dataset.theme = dark ? "light" : "dark";
  view.set("theme", root.dataset.theme);
  remember();
  redraw();
});
darkness.addEventListener("change", redraw);
matchMedia("print").addEventListener("change", redraw);
// Folded parts are printed.
addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((d) => (d.open = true)));

const sections = [...document.querySelectorAll(".report")];
// With several reports on the page, their views have separate keys in the address.
const key = (name, n) => (sections.length > 1 ? `${name}${n + 1}` : name);

sections.forEach((section, n) => {
  const { subjects, percentile, ranked, distrusted, what, stalls } = JSON.parse(section.querySelector(".data").textContent);
  if (!subjects.length) return;
  subjects.forEach(unpack);
  const on = (s) => !s.off;
  const chart = (where, paintIt) => {
    const place = section.querySelector(`.${where}`);
    if (place) redraws.push(() => paintIt(place));
  };
  const shown = (place, wanted, paintIt) => {
    const all = subjects.filter((s) => on(s) && wanted(s));
    all.length ? paintIt(place, all) : place.replaceChildren("Every subject that it shows is switched off.");
  };

  const switches = section.querySelector(".switches");
  const hidden = new Set(view.getAll(key("off", n)));
  for (const s of subjects) {
    s.off = hidden.has(s.id);
    const box = el("input", { type: "checkbox", checked: !s.off, value: s.id });
    box.addEventListener("change", () => {
      s.off = !box.checked;
      view.delete(key("off", n));
      subjects.filter((o) => o.off).forEach((o) => view.append(key("off", n), o.id));
      remember();
      redraw();
    });
    switches.append(el("label", {}, box, sign(s), s.name));
    for (const name of section.querySelectorAll(`[data-id=${CSS.escape(s.id)}]`)) name.prepend(sign(s));
  }

  chart("tradeoff", (place) => tradeoff(place, subjects.filter(on), percentile, ranked));
  chart("percentiles", (place) => shown(place, (s) => s.curve.length, (p, all) => {
    const of = (s) => ({ s, name: s.name, points: s.curve, above: s.above });
    const series = all.map(of);
    const [y, end] = [values(series), ends(series)];
    const groups = byPeriod(all);
    if (groups.some((g) => g.all.length > TOGETHER)) {
      const label = (s) => [`Percentiles of ${s.name}`];
      cells(p, all, (body, s) => curves(body, [of(s)], { height: 170, label: label(s), y, end, ghosts: series, distrusted }));
    } else if (groups.length > 1) {
      const label = (g) => [`Percentiles, ${g.name}`, "percentile", what];
      cells(p, groups, (body, g) => curves(body, g.all.map(of), { height: 300, label: label(g), y, end, distrusted }), "wide");
    } else {
      curves(p, series, { label: ["Percentiles", "percentile", what], y, end, distrusted });
    }
  }));
  chart("histogram", (place) => shown(place, (s) => s.bins.length, (p, all) => histogram(p, all, what)));
  chart("split", (place) => shown(place, (s) => s.split, (p, all) => split(p, all, distrusted)));
  chart("rounds", (place) => shown(place, (s) => s.rounds.length, (p, all) => rounds(p, all, subjects, distrusted)));

  const timed = subjects.filter((s) => s.late.length);
  const several = timed.some((s) => s.rounds.some((r) => r.index !== s.rounds[0].index));
  const whole = (of) => {
    if (of === "at") return extent(timed.flatMap((s) => extent(s.at)));
    const [first, last] = extent(timed.flatMap((s) => s.rounds.map((r) => r.index)));
    return [first, last + 1];
  };
  const parts = { at: "t", place: "r" };
  const state = { gaps: several, stalls };
  const look = (of, range) => {
    for (const part of Object.values(parts)) view.delete(key(part, n));
    Object.assign(state, { of, range, whole: whole(of) });
    // Nanoseconds of time or thousandths of a round are finer than any picture.
    const text = (v) => (of === "at" ? Math.round(v) : +v.toFixed(3));
    if (range || of === "at") view.set(key(parts[of], n), (range ?? []).map(text).join(","));
  };
  const asked = (of) => view.get(key(parts[of], n));
  const of = !several || asked("at") !== null ? "at" : "place";
  const [a, b] = (asked(of) ?? "").split(",").map(Number);
  Object.assign(state, { of, range: b > a ? [a, b] : null, whole: whole(of) });
  const change = (of, range) => {
    look(of, range);
    remember();
    // Only the strips depend on the range.
    strips(section.querySelector(".over-time"), timed, on, state);
  };
  state.zoom = (range) => change(state.of, range);
  state.turn = () => change(state.of === "at" ? "place" : "at", null);
  chart("over-time", (place) => shown(place, (s) => s.late.length, (p) => strips(p, timed, on, state)));
});

let width = innerWidth;
addEventListener("resize", () => {
  if (innerWidth === width) return;
  width = innerWidth;
  redraw();
});
redraw();
root.dataset.ready = "yes";
