#!/usr/bin/env bash
# Measures osinterval beside other crates on this machine and writes results/NAME/peers-osinterval.json and a table.
#
#   scripts/peers-osinterval.sh NAME            measure, then the table
#   scripts/peers-osinterval.sh --table NAME    only the table, from the JSON
#   scripts/peers-osinterval.sh --short NAME    a few rounds of each: to see that it runs, for no figure
set -euo pipefail
cd "$(dirname "$0")/.."
measure=true
short=()
if [ "${1:-}" = --table ]; then measure=false; shift; fi
if [ "${1:-}" = --short ]; then short=(--short); shift; fi
directory=results/${1:?"which directory below results/?"}
json=$directory/peers-osinterval.json
mkdir -p "$directory"

if $measure; then
  (cd scripts/peers && cargo build --release --locked --package peers-osinterval)
  program=scripts/peers/target/release/peers-osinterval
  "$program" "${short[@]}" >"$json.part"
  # Timer, poll and read calls of 3,000 more ticks: what starting and ending costs is in both counts.
  syscalls() {
    strace -f -c -e trace=timerfd_settime,epoll_wait,read -o "$json.strace" "$program" ticks "$1" "$2"
    awk '$NF ~ /^(timerfd_settime|epoll_wait|read)$/ { n += $4 } END { print n }' "$json.strace"
  }
  python3 - "$json.part" "$(
    for which in os-interval periodic-interval tokio-osinterval tokio-osinterval-periodic tokio-hrtime async-timer; do
      echo "$which $(syscalls $which 1000) $(syscalls $which 4000)"
    done
  )" <<'PY'
import json, platform, subprocess, sys
report = json.load(open(sys.argv[1]))
report["syscalls_per_tick_1ms"] = {
    which: (int(more) - int(few)) / 3000 for which, few, more in (line.split() for line in sys.argv[2].splitlines())
}
cpu = next((l.split(":")[1].strip() for l in open("/proc/cpuinfo") if l.startswith("model name")), "unknown CPU")
report["machine"] = f"{cpu}, kernel {platform.release()}"
report["commit"] = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()
json.dump(report, open(sys.argv[1], "w"), indent=1)
PY
  mv "$json.part" "$json"
  rm -f "$json.strace"
fi

python3 - "$json" >"$directory/peers-osinterval.md" <<'PY'
import json, sys
r = json.load(open(sys.argv[1]))
def us(ns):
    for unit, size in (("ms", 1e6), ("us", 1e3)):
        if ns >= size:
            return f"{ns / size:.3g} {unit}"
    return f"{ns:.0f} ns"
print(f"# osinterval beside others\n\nOn {r['machine']}, one run, interleaved; made by `scripts/peers-osinterval.sh`.\n")
print("| System calls per tick at 1 ms | |\n|---|---|")
for name, n in r["syscalls_per_tick_1ms"].items():
    print(f"| {name} | {n:.2f} |")
print("\n| CPU per tick at 500 us | ours | theirs | ratio, median of pairs | quartiles |\n|---|---|---|---|---|")
for name, c in r["cpu_per_tick_500us"].items():
    low, high = c["ratio_quartiles"]
    print(f"| {name} | {us(c['ours_ns'])} | {us(c['theirs_ns'])} | {c['ratio_median']:.2f} | {low:.2f} to {high:.2f} |")
l = r["lateness_100us"]
print("\n| Lateness at 100 us, p50 of the median round | |\n|---|---|")
for name in ("OsInterval", "PeriodicInterval", "tokio_osinterval", "tokio_hrtime", "async_timer"):
    if name + "_p50_ns" in l:
        print(f"| {name} | {us(l[name + '_p50_ns'])} |")
print(f"| OsInterval against the best of the others | {l['ratio_to_the_better_median']:.2f} |")
p = r["precise_500us"]
print(f"\n| Precise mode at 500 us, median of {p['rounds_kept']} rounds of {p['rounds_tried']} | p50 | p90 | of one core |\n|---|---|---|---|")
for name, v in p.items():
    # In no round the machine could do it.
    if isinstance(v, dict) and p["rounds_kept"]:
        print(f"| {name} | {us(v['p50_ns'])} | {us(v['p90_ns'])} | {v['core_percent']:.1f} % |")
n = r.get("neighbour_of_500us", {"rounds": 0})
if n["rounds"]:
    print(f"\n| An OsInterval of 510 us on one worker, median of {n['rounds']} rounds | p50 | p90 | p99 |\n|---|---|---|---|")
for name, v in n.items():
    if isinstance(v, dict):
        print(f"| {name} | {us(v['p50_ns'])} | {us(v['p90_ns'])} | {us(v['p99_ns'])} |")
for phases in ("spread", "one phase"):
    print(f"\n| 1,000 intervals of 10 ms, {phases} | CPU per tick | against tokio | lateness p50 | p99 |\n|---|---|---|---|---|")
    for name, v in r["crowd_1000_at_10ms"][phases].items():
        print(f"| {name} | {v['cpu_ns_per_tick']:.0f} ns | {v['cpu_against_tokio']:.2f} | {us(v['p50_ns'])} | {us(v['p99_ns'])} |")
print("\n| 10,000 intervals under a limit of 1,024 descriptors | |\n|---|---|")
for name, v in r["crowd_10000_under_1024_descriptors"].items():
    print(f"| {name} | {v.get('error') or 'lateness p50 ' + us(v['p50_ns'])} |")
PY
echo "$directory/peers-osinterval.md"
