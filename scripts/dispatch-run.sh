#!/usr/bin/env bash
# Measures what busypoll's operations cost on this machine: beside tokio (dispatch.json, dispatch.md, dispatch.svg) and
# beside nexus-async-rt (peers-dispatch.json, peers-dispatch.md), into results/NAME.
#
#   scripts/dispatch-run.sh NAME
set -euo pipefail
cd "$(dirname "$0")/.."
directory=results/${1:?"which directory below results/?"}
mkdir -p "$directory"
cargo build --release --locked
(cd scripts/peers && cargo build --release --locked --package peer-dispatch)
target/release/osjitter bench dispatch --rounds 100 --out "$directory"
# Beside the results first: what is there is whole, or is what was there before.
part=$(mktemp -d "$directory/.part.XXXXXX")
trap 'rm -rf "$part"' EXIT
scripts/peers/target/release/peer-dispatch --rounds 100 --out "$part"
mv "$part"/peers-dispatch.* "$directory/"

PYTHONPATH=scripts PYTHONDONTWRITEBYTECODE=1 python3 - "$directory" <<'PY'
import json, sys
from published import index
directory = sys.argv[1]
name = directory.split("/")[-1]
host = json.load(open(f"{directory}/dispatch.json"))["host"]
index(name, [(f"`{name}`", "dispatch.md"), ("beside nexus-async-rt", "peers-dispatch.md")], host, "`osjitter bench dispatch`")
PY
