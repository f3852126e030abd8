#!/usr/bin/env bash
# Makes ticks late for known reasons, to check that `--why` finds the injected reason.
#
#   scripts/studies/why-injections.sh                runs all cases that this user can inject, and names the skipped ones
#   scripts/studies/why-injections.sh CASE...        runs only some of the cases contend, quota, stop, slack, freeze, nobody,
#                                                    noproc, seccomp, price
#
# Prints a line per try with the share of the injected cause. A case passes if three of five tries reach the required share.
# Except for `contend` and `quota`, shares exclude the time spent waiting for a CPU, which a busy machine adds. OSJITTER names the
# binary (default: target/release/osjitter). Causes that a task can inject next to the ticks (busy, blocking, faulting) are tested
# in lib/internal/engine/src/measure/why. Exits with 1 if a case failed.
# shellcheck disable=SC2329  # check_case and trap call the functions by name
set -euo pipefail
cd "$(dirname "$0")/../.."
osjitter=${OSJITTER:-target/release/osjitter}
[ $# -gt 0 ] || set -- contend quota stop slack freeze nobody noproc seccomp price
work=$(mktemp -d)
chmod 777 "$work"
clean() {
  jobs -p | xargs -r kill 2>/dev/null || true
  if [ -n "${group:-}" ]; then
    # The group must be thawed, because a frozen process cannot end and a group with processes cannot be removed.
    set_frozen 0 2>/dev/null || true
    xargs -r kill <"$group/cgroup.procs" 2>/dev/null || true
    for _ in 1 2 3 4 5 6 7 8 9 10; do rmdir "$group" 2>/dev/null && break; sleep 0.2; done
  fi
  rm -rf "$work"
}
trap clean EXIT
failed=0

# Runs osjitter with --why and the flags in $args: run OUT COMMAND...
run() {
  local out=$1; shift
  "$@" run --why --subject "${subject:-os-interval}" --quiet --out "$out" "${args[@]}" >/dev/null
}

# Prints the share of a cause, then its details: read_share CAUSE all|rest DIRECTORY
#
# With `rest`, the share excludes the time spent waiting for a CPU.
read_share() {
  python3 - "$@" <<'PY'
import json, sys
cause, rest, file = sys.argv[1], sys.argv[2] == "rest", sys.argv[3]
why = json.load(open(file + "/report.json"))["subjects"][0]["why"]
parts = why["shares_ns"]
if not parts:
    print("nan", why["tier"], why["late_ticks"], "too few late ticks")
    raise SystemExit
total = sum(v or 0 for v in parts.values()) - (parts["queue"] if rest else 0)
shares = ", ".join(f"{k} {v / sum(x or 0 for x in parts.values()):.1%}" for k, v in sorted(parts.items(), key=lambda p: -(p[1] or 0)) if v and v > 0.01 * total)
print(f"{(parts[cause] or 0) / max(total, 1):.3f}", why["tier"], why["late_ticks"], shares)
PY
}

# Checks that three of five tries of the function try_CASE reach the share of a cause: check_case CASE CAUSE all|rest MINIMUM
check_case() {
  local passed=0 tries=0 found
  while [ $tries -lt 5 ] && [ $passed -lt 3 ]; do
    tries=$((tries + 1))
    "try_$1" "$work/$1-$2-$tries" || { echo "$1: cannot run osjitter"; failed=1; return; }
    found=$(read_share "$2" "$3" "$work/$1-$2-$tries")
    python3 -c "import sys; sys.exit(not float('${found%% *}') >= $4)" && passed=$((passed + 1))
    echo "$1: expected $2 >= $4, found $found"
  done
  [ $passed -ge 3 ] || { echo "$1: FAILED"; failed=1; }
}

try_contend() {
  "$osjitter" run --subject spin --cpu 0 --duration 60s --quiet --no-progress --force --out "$work/hog" >/dev/null & local hog=$!
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
# Freezes the control group for 60 ms at a time. Tier B1 detects that other processes run in this time, so an idle machine needs one.
# Without the tier, the freeze is attributed to the host.
try_freeze() {
  while sleep 0.01; do :; done & local other=$!
  args=(--ticks 3000 --why-threshold 1ms)
  run "$1" sh -c "echo \$\$ >$group/cgroup.procs; exec \"\$@\"" sh "${user[@]}" "$osjitter" & local pid=$!
  while kill -0 "$pid" 2>/dev/null; do
    set_frozen 1; sleep 0.06; set_frozen 0; sleep 0.2
  done
  kill "$other"; wait "$other" 2>/dev/null || true
  wait "$pid"
}
# Freezes or thaws the control group: set_frozen 1|0
set_frozen() {
  if [ -e "$group/freezer.state" ]; then [ "$1" = 1 ] && echo FROZEN >"$group/freezer.state" || echo THAWED >"$group/freezer.state"
  else echo "$1" >"$group/cgroup.freeze"; fi
}
try_slack() { subject=tokio-sleep; args=(--period 2ms --ticks 400 --timer-slack 10ms --why-threshold 3ms); run "$1" "$osjitter"; subject=; }

# Prints the tier of a run, and why the next one was not available: print_tier CASE DIRECTORY
print_tier() {
  python3 - "$@" <<'PY'
import json, sys
why = json.load(open(sys.argv[2] + "/report.json"))["subjects"][0]["why"]
missing = why["missing"]
print(f"{sys.argv[1]}: tier {why['tier']}" + (f"; {missing['tier']}: {missing['reason']}" if missing else ""))
PY
}

for case in "$@"; do
  case $case in
    contend) check_case contend queue all 0.8 ;;
    stop) check_case stop stopped rest 0.8 ;;
    slack) check_case slack slack rest 0.6 ;;
    quota)
      group=/sys/fs/cgroup/cpu/osjitter-why-$$
      [ -d /sys/fs/cgroup/cpu ] || group=/sys/fs/cgroup/osjitter-why-$$
      if mkdir "$group" 2>/dev/null && if [ -e "$group/cpu.max" ]; then echo 3000 50000 >"$group/cpu.max"
        else echo 50000 >"$group/cpu.cfs_period_us" && echo 3000 >"$group/cpu.cfs_quota_us"; fi 2>/dev/null; then
        subject=os-interval-precise
        # A busy loop in the same group uses up the quota, which is so small that even a busy machine provides it.
        sh -c "echo \$\$ >$group/cgroup.procs; while :; do :; done" & hog=$!
        check_case quota quota all 0.8
        kill "$hog"; wait "$hog" 2>/dev/null || true
        rmdir "$group" && group=
        subject=
      else
        echo "quota: skipped, cannot create a control group"
      fi
      ;;
    freeze)
      group=/sys/fs/cgroup/freezer/osjitter-why-$$
      [ -d /sys/fs/cgroup/freezer ] || group=/sys/fs/cgroup/osjitter-why-$$
      if mkdir "$group" 2>/dev/null && { [ -e "$group/freezer.state" ] || [ -e "$group/cgroup.freeze" ]; }; then
        user=(); check_case freeze stopped rest 0.8
        user=(setpriv --reuid=65534 --regid=65534 --clear-groups --no-new-privs); check_case freeze host rest 0.8
        rmdir "$group"; group=
      else
        echo "freeze: skipped, cannot freeze a control group"
      fi
      ;;
    nobody)
      args=(--ticks 500)
      if run "$work/nobody" setpriv --reuid=65534 --regid=65534 --clear-groups --no-new-privs "$osjitter" 2>"$work/stderr"; then
        print_tier nobody "$work/nobody"
      else
        echo "nobody: skipped, $(tail -1 "$work/stderr")"
      fi
      ;;
    noproc)
      args=(--ticks 500)
      if unshare --mount mount -t tmpfs none /proc 2>/dev/null; then
        run "$work/noproc" unshare --mount sh -c 'mount -t tmpfs none /proc && exec "$@"' sh "$osjitter" || failed=1
        print_tier noproc "$work/noproc"
      else
        echo "noproc: skipped, cannot hide /proc"
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
      print_tier seccomp "$work/seccomp"
      ;;
    price)
      # Measured with the best tier of this user, and without any privilege.
      args=(--ticks 20000)
      print_price() {
        python3 - "$@" <<'PY'
import json, sys
why = json.load(open(sys.argv[1] + "/report.json"))["subjects"][0]["why"]
late, cpu = why["overhead_ns"], why["overhead_cpu_ns"]
print(f"price: tier {why['tier']}: p50 {late['p50']:+} ns {late['ci95']}, CPU per tick {cpu['p50']:+} ns {cpu['ci95']}; {len(why['rounds'])} pairs of rounds")
PY
      }
      run "$work/price" "$osjitter" && print_price "$work/price"
      nobody=(setpriv --reuid=65534 --regid=65534 --clear-groups --no-new-privs)
      if run "$work/price-nobody" "${nobody[@]}" "$osjitter" 2>/dev/null; then print_price "$work/price-nobody"; fi
      ;;
    *) echo "error: unknown case '$case': expected contend, quota, stop, slack, freeze, nobody, noproc, seccomp or price" >&2; exit 2 ;;
  esac
done
exit $failed
