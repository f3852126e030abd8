#!/usr/bin/env bash
# Runs the gate of action.yml. Builds the merge base and the candidate if GATE_BUILD is set, runs `osjitter gate`, and writes the
# step summary. All inputs are GATE_* variables; base.sh describes those of the base. Exits like osjitter: 0 pass or inconclusive,
# 1 regressed, 2 bad usage, 3 inconclusive with GATE_ON_INCONCLUSIVE=fail, 4 could not measure.
set -euo pipefail

: "${GATE_COMMAND:=}" "${GATE_BUILD:=}" "${GATE_BASELINE_CMD:=}" "${GATE_CANDIDATE_CMD:=}"
: "${GATE_PERIOD:=500us}" "${GATE_ARGS:=}" "${GATE_ON_INCONCLUSIVE:=pass}" "${GATE_OSJITTER:=}"
: "${GATE_CALIBRATE:=}" "${GATE_SEE:=}"
summary=${GITHUB_STEP_SUMMARY:-/dev/null}
output=${GITHUB_OUTPUT:-/dev/null}
# Below, code of the pull request runs. It could forge the verdict, change later steps, or use the permissions of the job.
unset GITHUB_OUTPUT GITHUB_ENV GITHUB_PATH GITHUB_STEP_SUMMARY GITHUB_STATE "${!ACTIONS_@}"
unset GITHUB_TOKEN GH_TOKEN GITHUB_ENTERPRISE_TOKEN GH_ENTERPRISE_TOKEN
root=$PWD
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=$(mktemp -d "${RUNNER_TEMP:-${TMPDIR:-/tmp}}/osjitter-gate.XXXXXX")
names=()

# shellcheck source=SCRIPTDIR/tree.sh
. "$here/tree.sh"
trap remove_trees EXIT # The verdict is kept.

# Prints an annotation and escapes its text: annotate error|warning|notice TEXT
annotate() {
  local text=${2//'%'/%25}
  text=${text//$'\r'/%0D}
  printf '::%s title=Jitter gate::%s\n' "$1" "${text//$'\n'/%0A}"
}

# Runs a command whose output may contain anything, for example `::error::`, and keeps the runner from interpreting it.
quoted_log() {
  local token code=0
  token=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
  echo "::stop-commands::$token"
  "$@" || code=$?
  # The output may lack a newline at its end.
  printf '\n::%s::\n' "$token"
  return "$code"
}

# Sets the outputs of the action: set_outputs VERDICT DIRECTORY
set_outputs() { printf '%s\n' "verdict=$1" "file=${2:+$2/verdict.json}" "directory=$2" >>"$output"; }

# Exits without a verdict, with a message in the summary and in an annotation: refuse CODE MESSAGE
refuse() {
  # shellcheck disable=SC2016  # Markdown
  printf '### Jitter gate: no verdict\n\n`````text\n%s\n`````\n' "${2//\`/\'}" >>"$summary"
  annotate error "$2"
  set_outputs "" ""
  exit "$1"
}

# Prints the error of osjitter, without usage and hints: the last line that begins with `error:`, and those that continue it.
# A crashed program has no such line; then its last line is printed.
error_of_osjitter() {
  awk '
    /^error:/ { error = $0; continued = 1; next }
    !NF { continued = 0; next }
    { last = $0 }
    continued { error = error "\n" $0 }
    END { print error == "" ? last : error }' "$work/stderr"
}

# Prints the figures of the metrics that have a verdict: figures VERDICT.JSON regressed|inconclusive|...
# It relies on the order and the indentation in which osjitter writes the file.
figures() {
  awk -v wanted="$2" '
    function value() { sub(/^[^:]*: /, ""); sub(/,$/, ""); return $0 }
    function text() { value(); gsub(/^"|"$/, ""); return $0 }
    function format_value(v, unit) {
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
      printf "%s%s %s -> %s (%+.0f %%, tolerated %+.0f %%)", (n++ ? "; " : ": "), name, format_value(a, unit), format_value(b, unit),
        (ratio - 1) * 100, (tolerated - 1) * 100
      ratio = "" # The metric has further numbers with these names below.
    }' "$1"
}

# Builds a tree: build NAME DIRECTORY [HINT]. In a shared target directory, the second build would replace the program of the first.
build() {
  echo "::group::build $1"
  (cd "$2" && CARGO_TARGET_DIR="$2/target" quoted_log bash -euo pipefail -c "$GATE_BUILD") ||
    refuse 4 "cannot build the $1; see the log${3-}"
  echo "::endgroup::"
}

# Builds the base and the candidate, and sets the two commands and their names.
build_both() {
  local base reason_for_base
  base=$(bash "$here/base.sh" 2>"$work/stderr") ||
    refuse 2 "cannot choose the commit to compare with: $(cat "$work/stderr")"
  read -r base reason_for_base <<<"$base"
  quoted_log echo "base: $base, $reason_for_base"
  add_tree "$root" "$base" "$work/base" || refuse 4 "cannot prepare the merge base: $reason"
  build candidate "$root"
  build "merge base" "$work/base" "$unprepared"
  GATE_BASELINE_CMD=${GATE_COMMAND//'{tree}'/"$(quoted "$work/base")"}
  GATE_CANDIDATE_CMD=${GATE_COMMAND//'{tree}'/"$(quoted "$root")"}
  names=(--base-name "base $(git rev-parse --short "$base")" --candidate-name "candidate $(git rev-parse --short HEAD)")
}

# Quotes a path. osjitter splits a command like a shell.
quoted() { printf "'%s'" "${1//\'/\'\\\'\'}"; }

[ "${GITHUB_EVENT_NAME:-}" != pull_request_target ] || refuse 2 "cannot gate in pull_request_target: the event would run the code \
of the pull request with the permissions and the secrets of the target repository; use on: pull_request"
if [ -n "$GATE_BASELINE_CMD$GATE_CANDIDATE_CMD" ]; then
  [[ -n $GATE_BASELINE_CMD && -n $GATE_CANDIDATE_CMD ]] || refuse 2 "give both baseline-cmd and candidate-cmd"
  [ -z "$GATE_COMMAND$GATE_BUILD" ] || refuse 2 "give baseline-cmd and candidate-cmd, or command and build, not both"
else
  [[ -n $GATE_COMMAND && -n $GATE_BUILD ]] || refuse 2 "give command and build, or baseline-cmd and candidate-cmd"
  case $GATE_COMMAND in
    *'{tree}'*) ;;
    *) refuse 2 "invalid command: expected {tree} in it, because both sides would be the same program" ;;
  esac
  build_both
fi

osjitter=$GATE_OSJITTER
if [ -z "$osjitter" ]; then
  echo "::group::build osjitter"
  cargo install --quiet --locked --path "$here/../../.." --root "$work/osjitter" --target-dir "$work/osjitter-target" ||
    refuse 4 "cannot build osjitter; see the log"
  osjitter=$work/osjitter/bin/osjitter
  echo "::endgroup::"
fi

gate_flags=()
while IFS= read -r line; do
  [ -z "$line" ] || gate_flags+=("$line")
done <<<"$GATE_ARGS"

# Measures the change that a gate can detect on this runner, by running the base program against itself.
if [ -n "$GATE_CALIBRATE" ]; then
  calibration=$work/calibration.json
  calibration_flags=()
  for flag in ${gate_flags[@]+"${gate_flags[@]}"}; do
    case $flag in
      --metric=* | --prepare=* | --warmup-runs=* | --min-run-time=* | --round-ticks=* | --warmup=* | --cpu=* | --max-round-time=*)
        calibration_flags+=("$flag") ;;
    esac
  done
  if "$osjitter" calibrate --command "$GATE_BASELINE_CMD" --period "$GATE_PERIOD" --max-time "$GATE_CALIBRATE" \
    --out "$calibration" ${calibration_flags[@]+"${calibration_flags[@]}"} >"$work/calibration.txt" 2>"$work/stderr"; then
    quoted_log cat "$work/stderr" "$work/calibration.txt"
    # The sentence is wrapped, so its lines are joined.
    sentence=$(tr '\n' ' ' <"$work/calibration.txt" | grep -o 'On this machine, [^.]*\(\.[0-9][^.]*\)*\.' | head -n 1)
    annotate notice "${sentence:-calibrated; see the log for the detectable change}"
    printf '%s\n\n' "${sentence:-}" >>"$summary"
    gate_flags+=(--calibration "$calibration")
  else
    quoted_log cat "$work/stderr"
    [ -z "$GATE_SEE" ] || refuse 4 "cannot plan the pairs for $GATE_SEE without a calibration: $(error_of_osjitter)"
    annotate notice "not calibrated: $(error_of_osjitter)"
  fi
fi
if [ -n "$GATE_SEE" ]; then
  [ -n "$GATE_CALIBRATE" ] || refuse 2 "see requires calibrate, for example 60s"
  gate_flags+=(--detect "$GATE_SEE")
fi

out=$work/verdict
code=0
"$osjitter" gate --base-cmd "$GATE_BASELINE_CMD" --candidate-cmd "$GATE_CANDIDATE_CMD" --period "$GATE_PERIOD" \
  --on-inconclusive "$GATE_ON_INCONCLUSIVE" --format markdown --out "$out" ${names[@]+"${names[@]}"} ${gate_flags[@]+"${gate_flags[@]}"} \
  >"$work/summary.md" 2>"$work/stderr" || code=$?
quoted_log cat "$work/stderr" "$work/summary.md"

if [ ! -s "$out/verdict.json" ]; then
  [ "$code" -ne 0 ] || code=4
  refuse "$code" "$(error_of_osjitter)"
fi
cat "$work/summary.md" >>"$summary"
# The overall verdict is at the top level of the file, which is indented by two spaces.
verdict=$(sed -n 's/^  "verdict": "\([a-z-]*\)",\{0,1\}$/\1/p' "$out/verdict.json")
set_outputs "$verdict" "$out"
file=$out/verdict.json
case $code:$verdict in
  0:inconclusive) annotate warning "not a pass: inconclusive$(figures "$file" inconclusive)" ;;
  0:*) annotate notice "$verdict$(figures "$file" "")" ;;
  4:*) annotate error "could not measure; see the summary for the reason" ;;
  *) annotate error "$verdict$(figures "$file" "$verdict")" ;;
esac
exit "$code"
