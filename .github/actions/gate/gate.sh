#!/usr/bin/env bash
# Runs the gate of action.yml. Builds the merge base and the candidate if GATE_BUILD or GATE_BENCH is set, runs `osjitter gate`, and
# writes the step summary and the text of the comment. All inputs are GATE_* variables; base.sh describes those of the base, and
# osjitter.sh gets the program. Exits like osjitter: 0 pass or inconclusive, 1 regressed, 2 bad usage, 3 inconclusive with
# GATE_ON_INCONCLUSIVE=fail, 4 could not measure.
set -euo pipefail

: "${GATE_COMMAND:=}" "${GATE_BUILD:=}" "${GATE_BENCH:=}" "${GATE_BASELINE_CMD:=}" "${GATE_CANDIDATE_CMD:=}"
: "${GATE_PERIOD:=500us}" "${GATE_ARGS:=}" "${GATE_ON_INCONCLUSIVE:=pass}" "${GATE_OSJITTER:=}"
: "${GATE_CALIBRATE:=}" "${GATE_SEE:=}" "${GATE_TIER:=full}"
osjitter=${GATE_OSJITTER:-osjitter}
summary=${GITHUB_STEP_SUMMARY:-/dev/null}
output=${GITHUB_OUTPUT:-/dev/null}
# Below, code of the pull request runs. It could forge the verdict, change later steps, or use the permissions of the job.
unset GITHUB_OUTPUT GITHUB_ENV GITHUB_PATH GITHUB_STEP_SUMMARY GITHUB_STATE "${!ACTIONS_@}"
unset GITHUB_TOKEN GH_TOKEN GITHUB_ENTERPRISE_TOKEN GH_ENTERPRISE_TOKEN
root=$PWD
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=$(mktemp -d "${RUNNER_TEMP:-${TMPDIR:-/tmp}}/osjitter-gate.XXXXXX")
names=()

# shellcheck source=SCRIPTDIR/messages.sh
. "$here/messages.sh"
# shellcheck source=SCRIPTDIR/tree.sh
. "$here/tree.sh"
trap remove_trees EXIT # The verdict is kept.

# Sets the outputs of the action: set_outputs VERDICT DIRECTORY
set_outputs() {
  printf '%s\n' "verdict=$1" "file=${2:+$2/verdict.json}" "directory=$2" "comment=$work/comment.md" >>"$output"
}

# Exits without a verdict, with a message in the summary, in the comment and in an annotation: refuse CODE MESSAGE
refuse() {
  no_verdict "$2" | tee "$work/comment.md" >>"$summary"
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

# Chooses the base, prepares its tree, and sets the names of both sides.
prepare_base() {
  local base reason_for_base
  base=$(bash "$here/base.sh" 2>"$work/stderr") ||
    refuse 2 "cannot choose the commit to compare with: $(cat "$work/stderr")"
  read -r base reason_for_base <<<"$base"
  quoted_log echo "base: $base, $reason_for_base"
  add_tree "$root" "$base" "$work/base" || refuse 4 "cannot prepare the merge base: $reason"
  names=(--base-name "base $(git rev-parse --short "$base")" --candidate-name "candidate $(git rev-parse --short HEAD)")
}

# Builds the base and the candidate, and sets the two commands.
build_both() {
  prepare_base
  build candidate "$root"
  build "merge base" "$work/base" "$unprepared"
  GATE_BASELINE_CMD=${GATE_COMMAND//'{tree}'/"$(quoted "$work/base")"}
  GATE_CANDIDATE_CMD=${GATE_COMMAND//'{tree}'/"$(quoted "$root")"}
}

# Builds the benchmark of the base for the calibration, and sets its command. `osjitter gate --bench` builds nothing again.
build_base_bench() {
  local flag cargo_flags=() messages=$work/messages program
  for flag in ${gate_flags[@]+"${gate_flags[@]}"}; do
    # shellcheck disable=SC2206  # several flags
    case $flag in --cargo-flags=*) cargo_flags=(${flag#*=}) ;; esac
  done
  GATE_BUILD=$(printf '%q ' cargo bench --no-run --message-format json-render-diagnostics --bench "$GATE_BENCH" \
    ${cargo_flags[@]+"${cargo_flags[@]}"})">$(printf %q "$messages")"
  build "merge base" "$work/base" "$unprepared"
  program=$(grep '"kind":\["bench"\]' "$messages" | sed -n 's/.*"executable":"\([^"]*\)".*/\1/p' | head -n 1)
  GATE_BASELINE_CMD="$(quoted "$program") --bench"
}

# Quotes a path. osjitter splits a command like a shell.
quoted() { printf "'%s'" "${1//\'/\'\\\'\'}"; }

[ "${GITHUB_EVENT_NAME:-}" != pull_request_target ] || refuse 2 "cannot gate in pull_request_target: the event would run the code \
of the pull request with the permissions and the secrets of the target repository; use on: pull_request"
case $GATE_TIER in
  full) ;;
  screen)
    [ -z "$GATE_SEE" ] || refuse 2 "a screen cannot plan for a change: give tier: screen, or see, not both"
    GATE_CALIBRATE= # It would take longer than the screen.
    ;;
  *) refuse 2 "invalid tier '$GATE_TIER': expected screen or full" ;;
esac
if [ -n "$GATE_BENCH" ]; then
  [ -z "$GATE_COMMAND$GATE_BUILD$GATE_BASELINE_CMD$GATE_CANDIDATE_CMD" ] || refuse 2 "give bench, or two programs, not both"
  prepare_base
elif [ -n "$GATE_BASELINE_CMD$GATE_CANDIDATE_CMD" ]; then
  [[ -n $GATE_BASELINE_CMD && -n $GATE_CANDIDATE_CMD ]] || refuse 2 "give both baseline-cmd and candidate-cmd"
  [ -z "$GATE_COMMAND$GATE_BUILD" ] || refuse 2 "give baseline-cmd and candidate-cmd, or command and build, not both"
else
  [[ -n $GATE_COMMAND && -n $GATE_BUILD ]] || refuse 2 "give bench, or command and build, or baseline-cmd and candidate-cmd"
  case $GATE_COMMAND in
    *'{tree}'*) ;;
    *) refuse 2 "invalid command: expected {tree} in it, because both sides would be the same program" ;;
  esac
  build_both
fi

gate_flags=()
while IFS= read -r line; do
  [ -z "$line" ] || gate_flags+=("$line")
done <<<"$GATE_ARGS"
[ "$GATE_TIER" = full ] || gate_flags+=(--screen)

# Measures the change that a gate can detect on this runner, by running the base program against itself.
if [ -n "$GATE_CALIBRATE" ]; then
  calibration=$work/calibration.json
  calibration_flags=()
  if [ -n "$GATE_BENCH" ]; then
    build_base_bench
    case " ${gate_flags[*]-} " in *" --metric="*) ;; *) calibration_flags+=(--metric=criterion) ;; esac
  fi
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
    [ -z "$sentence" ] || printf '%s\n\n' "$sentence" >"$work/sentence.md"
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
sides=(--base-cmd "$GATE_BASELINE_CMD" --candidate-cmd "$GATE_CANDIDATE_CMD")
[ -z "$GATE_BENCH" ] || sides=(--bench "$GATE_BENCH" --base "$work/base")
"$osjitter" gate "${sides[@]}" --period "$GATE_PERIOD" --on-inconclusive "$GATE_ON_INCONCLUSIVE" --format markdown --out "$out" \
  ${names[@]+"${names[@]}"} ${gate_flags[@]+"${gate_flags[@]}"} >"$work/summary.md" 2>"$work/stderr" || code=$?
quoted_log cat "$work/stderr" "$work/summary.md"

if [ ! -s "$out/verdict.json" ]; then
  [ "$code" -ne 0 ] || code=4
  refuse "$code" "$(error_of_osjitter)"
fi
cat "$work/summary.md" >"$work/comment.md"
if [ -e "$work/sentence.md" ]; then
  printf '\n%s' "$(<"$work/sentence.md")" >>"$work/comment.md"
  echo >>"$work/comment.md"
fi
cat "$work/comment.md" >>"$summary"
# The overall verdict is at the top level of the file, which is indented by two spaces.
verdict=$(sed -n 's/^  "verdict": "\([a-z-]*\)",\{0,1\}$/\1/p' "$out/verdict.json")
set_outputs "$verdict" "$out"
file=$out/verdict.json
case $GATE_TIER:$verdict in
  screen:regressed) word="clearly worse" ;;
  screen:inconclusive) word="look closer" ;;
  *) word=$verdict ;;
esac
case $code:$verdict in
  0:inconclusive) annotate warning "not a pass: $word$(figures "$file" inconclusive)" ;;
  0:*) annotate notice "$word$(figures "$file" "")" ;;
  4:*) annotate error "could not measure; see the summary for the reason" ;;
  *) annotate error "$word$(figures "$file" "$verdict")" ;;
esac
exit "$code"
