#!/usr/bin/env bash
# Makes ticks late for known reasons, to check that `--why` finds the injected reason.
#
#   scripts/studies/why-injections.sh                all cases that this user can inject; the others are named as skipped
#   scripts/studies/why-injections.sh CASE ...       only these: contend quota stop slack freeze nobody noproc seccomp price
#
# Prints a line per try with the share of the injected cause. A case passes if three of five tries reach its share. Except for
# `contend` and `quota`, shares exclude the time spent waiting for a CPU, which a busy machine adds. OSJITTER names the binary
# (default: target/release/osjitter). Causes that a task can inject next to the ticks (busy, blocking, faulting) are tested in
# lib/internal/engine/src/measure/why. Exits with 1 if a case failed.
# shellcheck disable=SC2329  # judge and trap call the functions by name
set -euo pipefail
cd "$(dirname "$0")/../.."
osjitter=${OSJITTER:-target/release/osjitter}
[ $# -gt 0 ] || set -- contend quota stop slack freeze nobody noproc seccomp price
work=$(mktemp -d)
chmod 777 "$work"
end() {
  jobs -p | xargs -r kill 2>/dev/null || true
  if [ -n "${group:-}" ]; then
    # What is frozen cannot end, and what has not ended holds its group.
    frozen 0 2>/dev/null || true
    xargs -r kill <"$group/cgroup.procs" 2>/dev/null || true
    for _ in 1 2 3 4 5 6 7 8 9 10; do rmdir "$group" 2>/dev/null && break; sleep 0.2; done
  fi
  rm -rf "$work"
}
trap end EXIT
failed=0

run() { # OUT ARGS...: a run that is asked
  local out=$1; shift
  "$@" run --why --subject "${subject:-os-interval}" --quiet --out "$out" "${args[@]}" >/dev/null
}

# CAUSE REST FILE: the share of this cause, of all or of what was not waiting for a CPU; then what to print.
share() {
  python3 - "$@" <<'PY'
import json, sys
cause, rest, file = sys.argv[1], sys.argv[2] == "rest", sys.argv[3]
why = json.load(open(file + "/report.json"))["subjects"][0]["why"]
parts = why["shares_ns"]
if not parts:
    print("nan", why["tier"], why["late_ticks"], "too few to say")
    raise SystemExit
total = sum(v or 0 for v in parts.values()) - (parts["queue"] if rest else 0)
said = ", ".join(f"{k} {v / sum(x or 0 for x in parts.values()):.1%}" for k, v in sorted(parts.items(), key=lambda p: -(p[1] or 0)) if v and v > 0.01 * total)
print(f"{(parts[cause] or 0) / max(total, 1):.3f}", why["tier"], why["late_ticks"], said)
PY
}

judge() { # CASE CAUSE REST LEAST: three of five tries of the function try_CASE
  local good=0 tries=0 found
  while [ $tries -lt 5 ] && [ $good -lt 3 ]; do
    tries=$((tries + 1))
    "try_$1" "$work/$1-$2-$tries" || { echo "$1: could not be run"; failed=1; return; }
    found=$(share "$2" "$3" "$work/$1-$2-$tries")
    python3 -c "import sys; sys.exit(not float('${found%% *}') >= $4)" && good=$((good + 1))
    echo "$1: wanted $2 >= $4, found $found"
  done
  [ $good -ge 3 ] || { echo "$1: FAILED"; failed=1; }
}

try_contend() {
  "$osjitter" run --subject spin --cpu 0 --duration 60s --quiet --no-progress --out "$work/hog" >/dev/null & local hog=$!
  args=(--cpu 0 --ticks 1500 --why-threshold 150us); run "$1" "$osjitter"
  kill "$hog"; wait "$hog" 2>/dev/null || true
}
try_quota() { args=(--ticks 1500 --why-threshold 1ms); run "$1" sh -c "echo \$\$ >$group/cgroup.procs; exec \"\$@\"" sh "$osjitter"; }
try_stop() {
  "$osjitter" run --why --subject os-interval --ticks 1500 --why-threshold 1ms --quiet --out "$1" >/dev/null & local pid=$!
  while kill -STOP "$pid" 2>/dev/null; do
    sleep 0.004; kill -CONT "$pid" 2>/dev/null || true; sleep 0.02
  done
  wait "$pid"
}
# In a control group that is frozen for 60 ms at a time. With tier B1 others are seen to run meanwhile, without it they are not;
# on an idle machine there have to be some.
try_freeze() {
  while sleep 0.01; do :; done & local other=$!
  args=(--ticks 3000 --why-threshold 1ms)
  run "$1" sh -c "echo \$\$ >$group/cgroup.procs; exec \"\$@\"" sh "${as[@]}" "$osjitter" & local pid=$!
  while kill -0 "$pid" 2>/dev/null; do
    frozen 1; sleep 0.06; frozen 0; sleep 0.2
  done
  kill "$other"; wait "$other" 2>/dev/null || true
  wait "$pid"
}
frozen() {
  if [ -e "$group/freezer.state" ]; then [ "$1" = 1 ] && echo FROZEN >"$group/freezer.state" || echo THAWED >"$group/freezer.state"
  else echo "$1" >"$group/cgroup.freeze"; fi
}
try_slack() { subject=tokio-sleep; args=(--period 2ms --ticks 400 --timer-slack 10ms --why-threshold 3ms); run "$1" "$osjitter"; subject=; }

tier() { # CASE FILE: the tier that was had, and why not the next
  python3 - "$@" <<'PY'
import json, sys
why = json.load(open(sys.argv[2] + "/report.json"))["subjects"][0]["why"]
missing = why["missing"]
print(f"{sys.argv[1]}: tier {why['tier']}" + (f"; {missing['tier']}: {missing['reason']}" if missing else ""))
PY
}

for case in "$@"; do
  case $case in
    contend) judge contend queue all 0.8 ;;
    stop) judge stop stopped rest 0.8 ;;
    slack) judge slack slack rest 0.6 ;;
    quota)
      group=/sys/fs/cgroup/cpu/osjitter-why-$$
      [ -d /sys/fs/cgroup/cpu ] || group=/sys/fs/cgroup/osjitter-why-$$
      if mkdir "$group" 2>/dev/null && if [ -e "$group/cpu.max" ]; then echo 3000 50000 >"$group/cpu.max"
        else echo 50000 >"$group/cpu.cfs_period_us" && echo 3000 >"$group/cpu.cfs_quota_us"; fi 2>/dev/null; then
        subject=os-interval-precise
        # Something that uses the quota up runs in the same group; so little that a busy machine gives it, too.
        sh -c "echo \$\$ >$group/cgroup.procs; while :; do :; done" & hog=$!
        judge quota quota all 0.8
        kill "$hog"; wait "$hog" 2>/dev/null || true
        rmdir "$group" && group=
        subject=
      else
        echo "quota: skipped, no control group can be made here"
      fi
      ;;
    freeze)
      group=/sys/fs/cgroup/freezer/osjitter-why-$$
      [ -d /sys/fs/cgroup/freezer ] || group=/sys/fs/cgroup/osjitter-why-$$
      if mkdir "$group" 2>/dev/null && { [ -e "$group/freezer.state" ] || [ -e "$group/cgroup.freeze" ]; }; then
        as=(); judge freeze stopped rest 0.8
        as=(setpriv --reuid=65534 --regid=65534 --clear-groups --no-new-privs); judge freeze host rest 0.8
        rmdir "$group"; group=
      else
        echo "freeze: skipped, no control group can be frozen here"
      fi
      ;;
    nobody)
      args=(--ticks 500)
      if run "$work/nobody" setpriv --reuid=65534 --regid=65534 --clear-groups --no-new-privs "$osjitter" 2>"$work/said"; then
        tier nobody "$work/nobody"
      else
        echo "nobody: skipped, $(tail -1 "$work/said")"
      fi
      ;;
    noproc)
      args=(--ticks 500)
      if unshare --mount mount -t tmpfs none /proc 2>/dev/null; then
        run "$work/noproc" unshare --mount sh -c 'mount -t tmpfs none /proc && exec "$@"' sh "$osjitter" || failed=1
        tier noproc "$work/noproc"
      else
        echo "noproc: skipped, /proc cannot be hidden"
      fi
      ;;
    seccomp)
      # perf_event_open fails with EPERM, as under the default profile of container engines.
      cat >"$work/deny.py" <<'PY'
import ctypes, os, struct, sys
number = {"x86_64": 298, "aarch64": 241}[os.uname().machine]
code = [(0x20, 0, 0, 0), (0x15, 0, 1, number), (0x06, 0, 0, 0x00050001), (0x06, 0, 0, 0x7FFF0000)]
filters = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *c) for c in code))
program = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(code), ctypes.addressof(filters)))
libc = ctypes.CDLL(None, use_errno=True)
assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, program, 0, 0) == 0
os.execv(sys.argv[1], sys.argv[1:])
PY
      args=(--ticks 500)
      run "$work/seccomp" python3 "$work/deny.py" "$osjitter" || failed=1
      tier seccomp "$work/seccomp"
      ;;
    price)
      # Of the tiers that this user has: all of them, and without any right.
      args=(--ticks 20000)
      price() {
        python3 - "$@" <<'PY'
import json, sys
why = json.load(open(sys.argv[1] + "/report.json"))["subjects"][0]["why"]
late, cpu = why["overhead_ns"], why["overhead_cpu_ns"]
print(f"price: tier {why['tier']}: p50 {late['p50']:+} ns {late['ci95']}, CPU a tick {cpu['p50']:+} ns {cpu['ci95']}; {len(why['rounds'])} pairs of rounds")
PY
      }
      run "$work/price" "$osjitter" && price "$work/price"
      nobody=(setpriv --reuid=65534 --regid=65534 --clear-groups --no-new-privs)
      if run "$work/price-nobody" "${nobody[@]}" "$osjitter" 2>/dev/null; then price "$work/price-nobody"; fi
      ;;
    *) echo "no case $case" >&2; exit 2 ;;
  esac
done
exit $failed
