#!/usr/bin/env bash
# Measures what the slots of an IntervalGroup trade on this machine, for results/NAME, and puts the table into the book.
#
#   scripts/slots.sh NAME            measure, then the table
#   scripts/slots.sh --table NAME    only the table, from the JSON
#   scripts/slots.sh --short NAME    one round of each, not for the book: to see that it runs
set -euo pipefail
cd "$(dirname "$0")/.."
measure=true
short=()
if [ "${1:-}" = --table ]; then measure=false; shift; fi
if [ "${1:-}" = --short ]; then short=(-- --short); shift; fi
directory=results/${1:?"which directory below results/?"}
json=$directory/slots.json
mkdir -p "$directory"

if $measure; then
  cargo bench --locked -p osinterval --bench slots --no-run
  load_before=$(cut -d' ' -f1 /proc/loadavg)
  cargo bench --locked -p osinterval --bench slots "${short[@]}" >"$json.part"
  PYTHONPATH=scripts PYTHONDONTWRITEBYTECODE=1 python3 - "$json.part" "$load_before" <<'PY'
import json, subprocess, sys
from published import this_machine
rows = json.load(open(sys.argv[1]))
commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()
report = {"host": this_machine(), "commit": commit, "load_before": float(sys.argv[2]), "rows": rows}
json.dump(report, open(sys.argv[1], "w"), indent=1)
PY
  mv "$json.part" "$json"
fi

PYTHONPATH=scripts PYTHONDONTWRITEBYTECODE=1 python3 - "$directory" "${#short[@]}" <<'PY'
import json, pathlib, sys
from published import index, machine, put
directory = pathlib.Path(sys.argv[1])
report = json.loads((directory / "slots.json").read_text())
rows = report["rows"]

def time(ns):
    return f"{ns / 1e6:.3g} ms" if ns >= 1e6 else f"{ns / 1e3:.3g} us"

lines = ["| Slot | lateness p50 | p99 | wake-ups a second | of one core | CPU per wake-up | nanosleep's | ratio |", "|---|---:|---:|---:|---:|---:|---:|---:|"]
for name, v in rows.items():
    if name.startswith("nanosleep-"):
        continue
    sleep = rows.get(name.replace("group-", "nanosleep-")) if name != "tokio" else None
    beside = f"{time(sleep['cpu_ns_per_wakeup'])} | {v['cpu_ns_per_wakeup'] / sleep['cpu_ns_per_wakeup']:.2f}" if sleep else "- | -"
    label = "`tokio::time::Interval`" if name == "tokio" else name.replace("group-", "").replace("us", " us")
    lines.append(f"| {label} | {time(v['p50_ns'])} | {time(v['p99_ns'])} | {v['wakeups_per_s']:,.0f} | {v['core_percent']:.1f} % | "
                 f"{time(v['cpu_ns_per_wakeup'])} | {beside} |")
table = "\n".join(lines)

# CPU time of a wake-up = its own + so much for each tick that it delivers: a straight line through the slots, by least squares.
TICKS_PER_S = 100_000
groups = [v for name, v in rows.items() if name.startswith("group-")]
ticks, cpu = [TICKS_PER_S / v["wakeups_per_s"] for v in groups], [v["cpu_ns_per_wakeup"] for v in groups]
mid_ticks, mid_cpu = sum(ticks) / len(ticks), sum(cpu) / len(cpu)
a_tick = sum((t - mid_ticks) * (c - mid_cpu) for t, c in zip(ticks, cpu)) / sum((t - mid_ticks) ** 2 for t in ticks)
alone = mid_cpu - a_tick * mid_ticks
sleeps = sorted(v["cpu_ns_per_wakeup"] for name, v in rows.items() if name.startswith("nanosleep-"))
sleep = sleeps[len(sleeps) // 2]
table += f"""

A wake-up delivers all ticks of its slot. A straight line through the slots puts {time(alone)} on the wake-up itself, {alone / sleep:.2f} of
what it takes a sleeping thread, and {time(a_tick)} on each tick that it delivers, the poll of its task with it."""
what = "1,000 intervals of 10 ms, spread evenly, on a current-thread runtime: medians of rounds, interleaved. Beside each, a thread that sleeps as often."
of = f"{machine(report['host'])}; load average {report['load_before']} before"
(directory / "slots.md").write_text(f"# Slots of a group: lateness against CPU time\n\n{what} {of}; commit {report['commit']}; made by `scripts/slots.sh`.\n\n{table}\n")
name = directory.name
if sys.argv[2] != "0":
    sys.exit()
put("slots", f"{what}\n\n{table}\n\nFrom [`slots.json`](results/{name}/slots.json): {of}.")
index(name, [(f"`{name}`", "slots.md")], report["host"], "`scripts/slots.sh`")
PY
echo "$directory/slots.md"
