# Runs steps one after the other and ends with a summary. Sourced by .ci/run and .ci/nightly.
# shellcheck shell=bash
#
# A step is a script of scripts/ci that can also be run by hand. It has a time limit, and is skipped if it exits with 77.
# If keep_going is set, the steps after a failed one still run.

# Everything is built once and not debugged, so incremental state and debug information would only cost time and space.
export CARGO_INCREMENTAL=0 CARGO_PROFILE_DEV_DEBUG=0 CARGO_PROFILE_RELEASE_DEBUG=0

keep_going=${keep_going-}
rows=()      # name, result and seconds of each step, separated by tabs
failures=()  # a sentence for each failed step
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT
running=
trap '[ -z "$running" ] || kill "$running" 2>/dev/null; exit 130' INT TERM HUP

# Prints why a step failed: its first errors, then its last lines.
print_reason() {
  local log=$1
  grep -m 3 -A 6 -E '^error(\[|:)|panicked at|^Diff in' "$log" | head -n 24 || true
  printf '%s\n' '...'
  tail -n 10 "$log"
}

# Runs scripts/ci/SCRIPT.sh for at most LIMIT seconds: step LIMIT SCRIPT [ARGUMENT]...
step() {
  local limit=$1 start=$SECONDS log code=0 result
  shift
  local name=$*
  log=$logs/${#rows[@]}
  printf '\n== %s: %s\n' "$name" "$(sed -n '2s/^# //p' "scripts/ci/$1.sh")"
  : >"$log"
  # The step writes to a file, because a process that it leaves behind could keep a pipe open.
  timeout --kill-after 30 "$limit" bash "scripts/ci/$1.sh" "${@:2}" </dev/null >>"$log" 2>&1 &
  running=$!
  tail --lines +1 --follow --sleep-interval 0.2 --pid "$running" "$log" || true
  wait "$running" || code=$?
  running=
  local seconds=$((SECONDS - start))
  # A step that runs out of memory exits with 137 as well, so the code alone does not show a timeout.
  case $code in
    0) result=ok ;;
    77) result="skipped: $(tail -n 1 "$log")" ;;
    *) result="FAILED: exit code $code" ;;
  esac
  if [[ $code == 124 || $code == 137 ]] && ((seconds >= limit)); then result="FAILED: exceeded its limit of $limit s"; fi
  rows+=("$name"$'\t'"$result"$'\t'"$seconds")
  [[ $result == FAILED* ]] || return 0
  failures+=("$name: ${result#FAILED: } after $seconds s; run it alone: bash scripts/ci/$1.sh${2:+ ${*:2}}")
  cp "$log" "$logs/failed-${#failures[@]}"
  [ -n "$keep_going" ] || finish
}

# Prints the summary, then the reason of each failure, and exits.
finish() {
  local row name result seconds i
  printf '\n== summary\n'
  for row in "${rows[@]}"; do
    IFS=$'\t' read -r name result seconds <<<"$row"
    printf '%6s s  %-36s %s\n' "$seconds" "$name" "$result"
  done
  printf '%6s s  total\n' "$SECONDS"
  for i in "${!failures[@]}"; do
    printf '\n== why %s failed\n' "${failures[i]%%:*}"
    print_reason "$logs/failed-$((i + 1))"
  done
  for i in "${!failures[@]}"; do printf '\nFAILED %s\n' "${failures[i]}"; done
  [ ${#failures[@]} -eq 0 ] || exit 1
  exit 0
}
