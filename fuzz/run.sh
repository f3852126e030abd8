#!/usr/bin/env bash
# Fuzzes every reader for a given time, to find inputs that make it fail, hang or take too much memory.
#
#   fuzz/run.sh 60m [NAME]          runs for an hour in total
#   fuzz/run.sh 100000000 [NAME]    runs this many executions in total, divided equally among targets
#
# Uses the stable toolchain, and then cargo-fuzz if it is installed. Prints a table of executions, finds, peak memory and slowest
# inputs, and writes it to target/fuzzing/. With NAME, the run is added to those in results/NAME, and their sum goes into the book.
# Failing inputs are kept in fuzz/finds; after a fix, a short input becomes fuzz/corpus/TARGET/find-NAME, and a long one a test.
set -euo pipefail
cd "$(dirname "$0")/.."
amount=${1:?usage: fuzz/run.sh MINUTESm|EXECUTIONS [NAME]}
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

# The results are published even if the run is interrupted.
trap 'python3 fuzz/publish.py "$OSJITTER_FUZZ_STATS" "$OSJITTER_FUZZ_SEED" "${2-}"' EXIT
status=0
cargo test --profile fuzz --locked --lib --no-run
# The limit ends a process that allocates without bounds before the machine runs out of memory.
(
  ulimit -v 16000000
  cargo test --profile fuzz --locked --lib -- fuzz:: --test-threads "$threads"
) || status=1

if cargo +nightly fuzz --version >/dev/null 2>&1 && [[ $amount == *m ]]; then
  mapfile -t names < <(sed -n '/^\[\[bin\]\]/,$s/^name = "\(.*\)"$/\1/p' fuzz/Cargo.toml)
  for target in "${names[@]}"; do
    found=$(mktemp -d)
    cargo +nightly fuzz run "$target" "$found" "fuzz/corpus/$target" -- \
      -max_total_time=$((OSJITTER_FUZZ_SECONDS / threads + 1)) -timeout=5 -rss_limit_mb=2048 -max_len=131072 -print_final_stats=1 \
      2>"target/fuzzing/$target.log" || { status=1; tail -n 5 "target/fuzzing/$target.log"; }
    printf '{"target": "%s", "by": "cargo-fuzz", "executions": %s}\n' "$target" \
      "$(sed -n 's/^stat::number_of_executed_units: //p' "target/fuzzing/$target.log" | grep . || echo 0)" >>"$OSJITTER_FUZZ_STATS"
    rm -rf "$found"
  done
fi
exit $status
