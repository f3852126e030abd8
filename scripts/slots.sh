#!/usr/bin/env bash
# Measures what the slots of an IntervalGroup trade on this machine and writes results/NAME/slots.json and a table.
#
#   scripts/slots.sh NAME            measure, then the table
#   scripts/slots.sh --table NAME    only the table, from the JSON
#   scripts/slots.sh --short NAME    one round of each: to see that it runs, for no figure
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
  python3 - "$json.part" "$load_before" <<'PY'
import json, os, platform, subprocess, sys
rows = json.load(open(sys.argv[1]))
cpu = next((l.split(":")[1].strip() for l in open("/proc/cpuinfo") if l.startswith("model name")), "unknown CPU")
commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()
report = {"machine": f"{cpu}, {os.cpu_count()} CPUs, kernel {platform.release()}", "commit": commit,
          "load": [float(sys.argv[2]), os.getloadavg()[0]], "rows": rows}
json.dump(report, open(sys.argv[1], "w"), indent=1)
PY
  mv "$json.part" "$json"
fi

python3 - "$json" >"$directory/slots.md" <<'PY'
import json, sys
r = json.load(open(sys.argv[1]))
def us(ns):
    return f"{ns / 1e6:.3g} ms" if ns >= 1e6 else f"{ns / 1e3:.3g} us"
print(f"""# Slots of a group: lateness against CPU time

1,000 intervals of 10 ms, spread evenly, on a current-thread runtime: medians of rounds, interleaved. Beside each, a thread that
sleeps as often. On {r['machine']}; load average {r['load'][0]} before, {r['load'][1]:.2f} after; commit {r['commit']};
made by `scripts/slots.sh`.

| Slot | lateness p50 | p99 | wake-ups a second | of one core | CPU per wake-up | nanosleep's | ratio |
|---|---|---|---|---|---|---|---|""")
rows = r["rows"]
for name, v in rows.items():
    if name.startswith("nanosleep-"):
        continue
    sleep = rows.get(name.replace("group-", "nanosleep-"))
    beside = f"{us(sleep['cpu_ns_per_wakeup'])} | {v['cpu_ns_per_wakeup'] / sleep['cpu_ns_per_wakeup']:.2f}" if sleep and name != "tokio" else "- | -"
    label = name.replace("group-", "").replace("us", " us") if name != "tokio" else "`tokio::time::Interval`"
    print(f"| {label} | {us(v['p50_ns'])} | {us(v['p99_ns'])} | {v['wakeups_per_s']:,.0f} | {v['core_percent']:.1f} % | {us(v['cpu_ns_per_wakeup'])} | {beside} |")
PY
echo "$directory/slots.md"
