#!/usr/bin/env bash
# Measures what busypoll's operations cost on this machine: beside tokio (dispatch.json, dispatch.md, dispatch.svg) and
# beside nexus-async-rt (peers-dispatch.json, peers-dispatch.md), into results/NAME.
#
#   scripts/dispatch-run.sh NAME             measure into results/NAME, then as below
#   scripts/dispatch-run.sh --readme NAME    only the README of busypoll and the index, from what is there
set -euo pipefail
cd "$(dirname "$0")/.."
measure=true
if [ "${1:-}" = --readme ]; then measure=false; shift; fi
directory=results/${1:?"which directory below results/?"}
if $measure; then
  mkdir -p "$directory"
  cargo build --release --locked
  (cd scripts/peers && cargo build --release --locked --package peer-dispatch)
  target/release/osjitter bench dispatch --rounds 100 --out "$directory"
  # Beside the results first: what is there is whole, or is what was there before.
  part=$(mktemp -d "$directory/.part.XXXXXX")
  trap 'rm -rf "$part"' EXIT
  scripts/peers/target/release/peer-dispatch --rounds 100 --out "$part"
  mv "$part"/peers-dispatch.* "$directory/"
fi

PYTHONPATH=scripts PYTHONDONTWRITEBYTECODE=1 python3 - "$directory" <<'PY'
import json, sys
from published import index, machine, put
directory = sys.argv[1]
name = directory.split("/")[-1]
host = json.load(open(f"{directory}/dispatch.json"))["host"]
SHOWN = {
    "dispatch": "from one task's poll to the next one's", "self-wake": "a task wakes itself and is polled again",
    "life-boxed": "spawn, poll, end and join a task", "channel-mpsc": "`try_send` and `try_recv`",
    "wake-busy": "from a wake on another thread to the task's poll, spinning", "wake-parked": "the same, parked",
    "idle-turn": "a turn in which nothing is ready",
}
rows = [[cell.strip() for cell in line.strip("| \n").split("|")] for line in open(f"{directory}/dispatch.md") if line.startswith("| ")]
p50 = {(row[0], row[1]): row[2] for row in rows if len(row) > 2}
lines = [f"| `{op}`: {about} | {p50[op, 'busypoll']} | {p50[op, 'tokio']} |" for op, about in SHOWN.items()]
put("dispatch figures", """Median of 100 rounds, each of which ran both runtimes:

| operation | busypoll | tokio, current-thread |
|---|---:|---:|
""" + "\n".join(lines) + f"""

From [`dispatch.md`](results/{name}/dispatch.md): {machine(host)}.
[`peers-dispatch.md`](results/{name}/peers-dispatch.md) compares nexus-async-rt with the same code in the same rounds.""")
index(name, [(f"`{name}`", "dispatch.md"), ("beside nexus-async-rt", "peers-dispatch.md")], host, "`osjitter bench dispatch`")
PY
