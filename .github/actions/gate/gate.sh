#!/usr/bin/env bash
# The gate of action.yml: builds the merge base and the candidate where it is asked to, runs `osjitter gate`, and writes
# the step summary. Exits as osjitter does: 0 pass or inconclusive, 1 regressed, 2 bad usage, 3 inconclusive where that is
# to fail, 4 could not measure. Everything it is told comes in GATE_* variables.
set -euo pipefail

: "${GATE_COMMAND:=}" "${GATE_BUILD:=}" "${GATE_BASE:=}" "${GATE_BASELINE_CMD:=}" "${GATE_CANDIDATE_CMD:=}"
: "${GATE_PERIOD:=500us}" "${GATE_ARGS:=}" "${GATE_ON_INCONCLUSIVE:=pass}" "${GATE_OSJITTER:=}"
: "${GATE_CALIBRATE:=}" "${GATE_SEE:=}"
: "${GITHUB_STEP_SUMMARY:=/dev/null}" "${GITHUB_OUTPUT:=/dev/null}"
root=$PWD
work=$(mktemp -d "${RUNNER_TEMP:-${TMPDIR:-/tmp}}/osjitter-gate.XXXXXX")
base_tree=
names=()

clean() {
  # The worktree is registered in the user's repository: it must not outlive the job. The verdict stays.
  if [ -n "$base_tree" ]; then git worktree remove --force "$base_tree" || true; fi
}
trap clean EXIT

# An annotation, whatever is in its text: annotate error|warning|notice TEXT
annotate() {
  local text=${2//'%'/%25}
  text=${text//$'\r'/%0D}
  printf '::%s title=Jitter gate::%s\n' "$1" "${text//$'\n'/%0A}"
}

# Runs a command whose output may hold anything, `::error::` for example: none of it is a command to the runner.
quoted_log() {
  local token ended=0
  token=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
  echo "::stop-commands::$token"
  "$@" || ended=$?
  # On a line of its own, even if the last one has no end.
  printf '\n::%s::\n' "$token"
  return "$ended"
}

# Ends without a verdict, and says so where people look: refuse CODE MESSAGE
refuse() {
  printf '### Jitter gate: no verdict\n\n`````text\n%s\n`````\n' "${2//\`/\'}" >>"$GITHUB_STEP_SUMMARY"
  annotate error "$2"
  exit "$1"
}

# What a verdict is of, in figures: figures VERDICT.JSON regressed|inconclusive|... Reads the file as osjitter writes it.
figures() {
  awk -v wanted="$2" '
    function value() { sub(/^[^:]*: /, ""); sub(/,$/, ""); return $0 }
    function text() { value(); gsub(/^"|"$/, ""); return $0 }
    function shown(v, unit) {
      if (unit != "ns") return sprintf("%.4g %s", v, unit)
      if (v >= 1e9) return sprintf("%.3g s", v / 1e9)
      if (v >= 1e6) return sprintf("%.3g ms", v / 1e6)
      if (v >= 1e3) return sprintf("%.3g us", v / 1e3)
      return v " ns"
    }
    /^ +"name": "/ { name = text(); unit = "ns"; ratio = "" }
    /^ +"unit": "/ { unit = text() }
    /^ +"verdict": "/ { verdict = text() }
    /^ +"ratio": [0-9]/ { ratio = value() }
    /^ +"tolerated_ratio": [0-9]/ { tolerated = value() }
    /^ +"a(_ns)?": [0-9]/ { a = value() + 0 }
    /^ +"b(_ns)?": [0-9]/ {
      b = value() + 0
      if (ratio == "" || (wanted != "" && verdict != wanted)) next
      printf "%s%s %s -> %s (%+.0f %%, tolerated %+.0f %%)", (n++ ? "; " : ": "), name, shown(a, unit), shown(b, unit),
        (ratio - 1) * 100, (tolerated - 1) * 100
      ratio = "" # Of a metric, there are more numbers of these names below.
    }' "$1"
}

# Builds a tree in its own target directory: one that both shared would hold the same program twice.
build() {
  echo "::group::build $1"
  (cd "$2" && CARGO_TARGET_DIR="$2/target" quoted_log bash -euo pipefail -c "$GATE_BUILD") || refuse 4 "The $1 does not build."
  echo "::endgroup::"
}

if [ -n "$GATE_BASELINE_CMD$GATE_CANDIDATE_CMD" ]; then
  [ -n "$GATE_BASELINE_CMD" ] && [ -n "$GATE_CANDIDATE_CMD" ] || refuse 2 "Give both baseline-cmd and candidate-cmd."
  [ -z "$GATE_COMMAND$GATE_BUILD" ] || refuse 2 "Give baseline-cmd and candidate-cmd, or command and build, not both."
else
  [ -n "$GATE_COMMAND" ] && [ -n "$GATE_BUILD" ] || refuse 2 "Give command and build, or baseline-cmd and candidate-cmd."
  case $GATE_COMMAND in
    *'{tree}'*) ;;
    *) refuse 2 "The command has no {tree}: both sides would be the same program." ;;
  esac
  [ -n "$GATE_BASE" ] || refuse 2 "There is no commit to compare with; give base."
  base=$(git merge-base "$GATE_BASE" HEAD) ||
    refuse 2 "There is no merge base of $GATE_BASE and HEAD; check out with fetch-depth: 0."
  build candidate "$root"
  base_tree=$work/base
  git worktree add --quiet --detach "$base_tree" "$base"
  build "merge base" "$base_tree"
  # Quoted for osjitter, which splits as a shell does: a path may have spaces in it.
  quoted() { printf "'%s'" "${1//\'/\'\\\'\'}"; }
  GATE_BASELINE_CMD=${GATE_COMMAND//'{tree}'/"$(quoted "$base_tree")"}
  GATE_CANDIDATE_CMD=${GATE_COMMAND//'{tree}'/"$(quoted "$root")"}
  names=(--base-name "base $(git rev-parse --short "$base")" --candidate-name "candidate $(git rev-parse --short HEAD)")
fi

osjitter=$GATE_OSJITTER
if [ -z "$osjitter" ]; then
  echo "::group::build osjitter"
  here=$(cd "$(dirname "${BASH_SOURCE[0]}")/../../.." && pwd)
  cargo install --quiet --locked --path "$here" --root "$work/osjitter" --target-dir "$work/osjitter-target" ||
    refuse 4 "osjitter does not build."
  osjitter=$work/osjitter/bin/osjitter
  echo "::endgroup::"
fi

more=()
while IFS= read -r line; do
  [ -z "$line" ] || more+=("$line")
done <<<"$GATE_ARGS"

# What a gate can see on this very runner, found out with the program that the candidate is compared with.
if [ -n "$GATE_CALIBRATE" ]; then
  calibration=$work/calibration.json
  same=()
  for flag in ${more[@]+"${more[@]}"}; do
    case $flag in
      --metric=* | --prepare=* | --warmup-runs=* | --min-run-time=* | --round-ticks=* | --warmup=* | --cpu=* | --max-round-time=*)
        same+=("$flag") ;;
    esac
  done
  if "$osjitter" calibrate --command "$GATE_BASELINE_CMD" --period "$GATE_PERIOD" --max-time "$GATE_CALIBRATE" \
    --out "$calibration" ${same[@]+"${same[@]}"} >"$work/calibration.txt" 2>"$work/talk"; then
    quoted_log cat "$work/talk" "$work/calibration.txt"
    # One sentence, whatever the width it was wrapped at.
    sees=$(tr '\n' ' ' <"$work/calibration.txt" | grep -o 'On this machine, [^.]*\(\.[0-9][^.]*\)*\.' | head -n 1)
    annotate notice "${sees:-calibrated; what it can see is in the log}"
    printf '%s\n\n' "${sees:-}" >>"$GITHUB_STEP_SUMMARY"
    more+=(--calibration "$calibration")
  else
    quoted_log cat "$work/talk"
    [ -z "$GATE_SEE" ] || refuse 4 "Not calibrated, so nothing can be planned for $GATE_SEE: $(tail -n 1 "$work/talk")"
    annotate notice "not calibrated: $(tail -n 1 "$work/talk")"
  fi
fi
if [ -n "$GATE_SEE" ]; then
  [ -n "$GATE_CALIBRATE" ] || refuse 2 "Give calibrate, for example 60s, with see: it plans by what was seen."
  more+=(--detect "$GATE_SEE")
fi

out=$work/verdict
code=0
"$osjitter" gate --base-cmd "$GATE_BASELINE_CMD" --candidate-cmd "$GATE_CANDIDATE_CMD" --period "$GATE_PERIOD" \
  --on-inconclusive "$GATE_ON_INCONCLUSIVE" --format markdown --out "$out" ${names[@]+"${names[@]}"} ${more[@]+"${more[@]}"} \
  >"$work/summary.md" 2>"$work/talk" || code=$?
quoted_log cat "$work/talk" "$work/summary.md"

if [ ! -s "$out/verdict.json" ]; then
  [ "$code" -ne 0 ] || code=4
  refuse "$code" "$(tail -n 1 "$work/talk")"
fi
cat "$work/summary.md" >>"$GITHUB_STEP_SUMMARY"
# The verdict of the whole, which stands at the top level of the file: two spaces deep.
verdict=$(sed -n 's/^  "verdict": "\([a-z-]*\)",\{0,1\}$/\1/p' "$out/verdict.json")
{
  echo "verdict=$verdict"
  echo "file=$out/verdict.json"
  echo "directory=$out"
} >>"$GITHUB_OUTPUT"
file=$out/verdict.json
case $code:$verdict in
  0:inconclusive) annotate warning "not a pass: inconclusive$(figures "$file" inconclusive)" ;;
  0:*) annotate notice "$verdict$(figures "$file" "")" ;;
  4:*) annotate error "could not measure; the summary says why" ;;
  *) annotate error "$verdict$(figures "$file" "$verdict")" ;;
esac
exit "$code"
