// Unpacks the samples of each subject: the lateness and the deadline of each tick.

const bytesOf = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0));

// Tick indices are differences in half bytes: three bits, the lowest first, and a bit that is set if more follow.
const indices = (text, n) => {
  const bytes = bytesOf(text);
  const half = (i) => (bytes[i >> 1] >> (4 * (i & 1))) & 15;
  const ticks = new Float64Array(n);
  let [at, tick] = [0, 0];
  for (let i = 0; i < n; i++) {
    let scale = 1;
    do {
      tick += (half(at) & 7) * scale;
      scale *= 8;
    } while (half(at++) & 8);
    ticks[i] = tick;
  }
  return ticks;
};

const unpack = (s) => {
  s.rounds = s.rounds.map(([index, start, first, n, p50, max, instance, tick]) => (
    { index, start, first, n, p50, max, instance, tick }));
  const bytes = bytesOf(s.codes);
  const n = s.rounds.reduce((sum, r) => sum + r.n, 0);
  s.late = new Float64Array(n);
  s.at = new Float64Array(n);
  s.place = new Float64Array(n);
  for (let i = 0; i < n; i++) {
    // Two codes of twelve bits are in three bytes.
    const b = (i >> 1) * 3;
    const c = i & 1 ? (bytes[b + 1] >> 4) | (bytes[b + 2] << 4) : bytes[b] | ((bytes[b + 1] & 15) << 8);
    const shift = (c >> 7) - 1;
    s.late[i] = c < 256 ? c : (c - shift * 128 + 0.5) * 2 ** shift;
  }
  s.tail = [];
  let last = 0;
  for (let i = 0; i < s.exact.length; i += 2) {
    last += s.exact[i];
    s.late[last] = s.exact[i + 1];
    s.tail.push(last);
  }
  let i = 0;
  // Instances of one round overlap in time: a round begins with the first of them and ends with the last.
  const spans = new Map();
  for (const r of s.rounds) {
    r.from = i;
    if (r.tick) r.tick = indices(r.tick, r.n);
    const span = spans.get(r.index) ?? [Infinity, -Infinity];
    spans.set(r.index, span);
    for (let k = 0; k < r.n; k++, i++) s.at[i] = r.start + (r.tick ? r.tick[k] : r.first + k) * s.period;
    if (r.n) span[0] = Math.min(span[0], s.at[r.from]);
    if (r.n) span[1] = Math.max(span[1], s.at[i - 1] + s.period);
  }
  // The position without the pauses between rounds: round 3 is from 3 to 4, whatever ran before it.
  for (const r of s.rounds) {
    const [from, to] = spans.get(r.index);
    for (let k = r.from; k < r.from + r.n; k++) s.place[k] = r.index + (s.at[k] - from) / (to - from);
  }
  s.codes = s.exact = null;
};

const roundOf = (s, i) => s.rounds.find((r) => i >= r.from && i < r.from + r.n);
const tickOf = (s, i) => {
  const r = roundOf(s, i);
  const instance = (r.instance ?? null) === null ? "" : `, instance ${r.instance}`;
  return { round: r.index, instance, tick: r.tick ? r.tick[i - r.from] : r.first + i - r.from };
};
