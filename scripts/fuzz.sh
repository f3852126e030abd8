#!/usr/bin/env bash
# Fuzzes every reader for as long as it is told, on the stable toolchain, and where cargo-fuzz is installed with that, too.
#
#   scripts/fuzz.sh 60m [NAME]          for an hour in all
#   scripts/fuzz.sh 100000000 [NAME]    until there were so many executions in all, an equal part of each target
#
# Prints a table of executions, finds, peak memory and slowest inputs, and writes it to target/fuzzing/, or to results/NAME
# where that is given. What fails is kept in fuzz/finds; a find that is mended becomes fuzz/corpus/TARGET/find-NAME.
set -euo pipefail
cd "$(dirname "$0")/.."
amount=${1:?usage: scripts/fuzz.sh MINUTESm|EXECUTIONS [NAME]}
out=${2:+results/$2}
out=${out:-target/fuzzing}
mkdir -p "$out"
targets=$(grep -c '^\[\[bin\]\]' fuzz/Cargo.toml)
threads=$(nproc)

export OSJITTER_FUZZ_SEED=${OSJITTER_FUZZ_SEED:-$(date +%s)}
export OSJITTER_FUZZ_STATS=$PWD/target/fuzzing/stats.jsonl
export OSJITTER_FUZZ_RUNS=1000000000000 OSJITTER_FUZZ_SECONDS=1000000000 OSJITTER_FUZZ_GATES=2000
case $amount in
  *m) OSJITTER_FUZZ_SECONDS=$((${amount%m} * 60 * threads / targets)) ;;
  *) OSJITTER_FUZZ_RUNS=$((amount / targets)) ;;
esac
mkdir -p target/fuzzing
: >"$OSJITTER_FUZZ_STATS"
echo "seed $OSJITTER_FUZZ_SEED, $targets targets on $threads threads"

status=0
cargo test --profile fuzz --locked --bin osjitter --no-run
# What takes memory without end ends itself, not the machine.
(
  ulimit -v 16000000
  cargo test --profile fuzz --locked --bin osjitter -- fuzz:: --test-threads "$threads"
) || status=1

if cargo +nightly fuzz --version >/dev/null 2>&1 && [[ $amount == *m ]]; then
  for target in $(sed -n '/^\[\[bin\]\]/,$s/^name = "\(.*\)"$/\1/p' fuzz/Cargo.toml); do
    found=$(mktemp -d)
    cargo +nightly fuzz run "$target" "$found" "fuzz/corpus/$target" -- \
      -max_total_time=$((OSJITTER_FUZZ_SECONDS / threads + 1)) -timeout=5 -rss_limit_mb=2048 -max_len=131072 -print_final_stats=1 \
      2>"target/fuzzing/$target.log" || { status=1; tail -n 5 "target/fuzzing/$target.log"; }
    printf '{"target": "%s", "by": "cargo-fuzz", "executions": %s}\n' "$target" \
      "$(sed -n 's/^stat::number_of_executed_units: //p' "target/fuzzing/$target.log" | grep . || echo 0)" >>"$OSJITTER_FUZZ_STATS"
    rm -rf "$found"
  done
fi

python3 - "$OSJITTER_FUZZ_STATS" "$out" "$OSJITTER_FUZZ_SEED" "$(git rev-parse --short=12 HEAD)" <<'PY'
import json, pathlib, sys
stats, out, seed, commit = sys.argv[1:]
lines = [json.loads(line) for line in pathlib.Path(stats).read_text().splitlines()]
finds = sorted(path.name for path in pathlib.Path("fuzz/finds").glob("*"))
stable, guided = ([l for l in lines if ("by" in l) == by] for by in (False, True))
total = sum(line["executions"] for line in lines)
text = f"# Fuzzing at {commit}\n\nSeed {seed}. {total:,} executions; {len(finds)} finds: {', '.join(finds) or 'none'}.\n\n"
text += "| target | executions | a second | accepted | behaviours | peak memory | slowest step |\n|---|--:|--:|--:|--:|--:|--:|\n"
for l in sorted(stable, key=lambda l: l["target"]):
    rate = l["executions"] / max(l["seconds"], 0.001)
    text += f"| {l['target']} | {l['executions']:,} | {rate:,.0f} | {l['accepted'] / l['executions']:.0%} | {l['behaviours']:,} | "
    text += f"{l['peak_bytes'] / 2**20:.1f} MiB of {l['peak_of_input_bytes']:,} B | "
    text += f"{l['slowest_ms']:.1f} ms, {l['slowest_step']}, {l['slowest_of_input_bytes']:,} B |\n"
for l in guided:
    text += f"| {l['target']}, cargo-fuzz | {l['executions']:,} | | | | | |\n"
directory = pathlib.Path(out)
(directory / "fuzz.md").write_text(text)
(directory / "fuzz.json").write_text(json.dumps({"commit": commit, "seed": int(seed), "executions": total, "finds": finds,
                                                 "targets": lines}, indent=1) + "\n")
print(text)
PY
exit $status
