#!/usr/bin/env bash
# Measures what clocks cost on this machine and how true they are, ours by `osjitter bench clock` and beside quanta, minstant and
# fastant by scripts/peers-clock.sh, for results/NAME, and puts both tables into the book.
#
#   scripts/clock-run.sh NAME             measure into results/NAME, then as below
#   scripts/clock-run.sh --tables NAME    only the tables, from the JSON
set -euo pipefail
cd "$(dirname "$0")/.."
measure=true
if [ "${1:-}" = --tables ]; then measure=false; shift; fi
name=${1:?"which directory below results/?"}
directory=results/$name

cargo build --release --locked
if $measure; then
  target/release/osjitter bench clock --drift 1s --drift 10s --drift 60s --out "$directory" >/dev/null
  scripts/peers-clock.sh "$name"
fi
target/release/osjitter report "$directory/clock.json" --out "$directory/clock.txt"

PYTHONPATH=scripts PYTHONDONTWRITEBYTECODE=1 python3 - "$directory" <<'PY'
import json, pathlib, sys
from published import index, machine, put
directory = pathlib.Path(sys.argv[1])
report = json.loads((directory / "clock.json").read_text())
peers = json.loads((directory / "peers-clock.json").read_text())
of = f"{machine(report['host'])}, {report['started_utc'][:10]}"
lines = ["| Clock | a reading | `elapsed()` | first conversion | out of order | after a second |", "|---|---:|---:|---:|---:|---:|"]
for clock in peers["clocks"]:
    order, drift = clock["order"], clock["drift"]["ppm"]
    first = clock["first_conversion_us"]
    lines.append(f"| `{clock['clock']}` | {clock['read_ns'][0]['median']:.1f} ns | {clock['elapsed_ns']:.1f} ns | "
                 f"{f'{first:.0f} us' if first >= 10 else f'{first:.1f} us'} | {order['violations']:,} of {order['reads']:,} | {drift:+.3f} ppm |")
table = "\n".join(lines)
(directory / "peers-clock.md").write_text(f"""# Clocks beside each other

Medians of one thread; out of order: readings of {peers['clocks'][0]['order']['threads']} threads that were earlier than one already published by another;
after a second: beside the clock of the operating system. {of}. Made by `scripts/clock-run.sh`.

{table}
""")
text = (directory / "clock.txt").read_text().rstrip()
name = directory.name
put("clock run", f"""```text
{text}
```

From [`clock.json`](results/{name}/clock.json): {of}.

Beside other crates, in one program:

{table}

*Out of order* counts readings of {peers['clocks'][0]['order']['threads']} threads at once that were earlier than one that another thread had already
published. From [`peers-clock.json`](results/{name}/peers-clock.json), the same machine and hour.""")
read_ns = {c["clock"]: c["median_ns"] for c in report["costs"] if c["threads"] == 1}
put("clock figures", f"""A reading of `tach::Instant` takes {read_ns['tach-instant']:.1f} ns where one of `std::time::Instant` takes {read_ns['std']:.1f} ns:
{machine(report['host'])}, clock source {report['host']['clock_source']}; from
[`clock.json`](results/{name}/clock.json). `osjitter bench clock` measures cost, order across threads and drift on your machine.""")
index(name, [(f"`{name}`", "clock.txt"), ("beside other crates", "peers-clock.md")], report["host"],
      "`osjitter bench clock --drift 1s --drift 10s --drift 60s`, `scripts/peers-clock.sh`")
PY
