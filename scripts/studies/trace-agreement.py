#!/usr/bin/env python3
"""Compares `osjitter trace` with the programs' own measurements, and checks that it names an injected cause. Needs root.

    scripts/studies/trace-agreement.py [OUT]        OUT is a file for the result as JSON

OSJITTER names the binary (default: target/release/osjitter). Each program records the kernel's clock at each of its ticks. The
last wait in the trace that ended before a tick belongs to the tick. The percentiles of both are compared over the same ticks,
from the deadline that the kernel received. A runtime may round its deadlines, so the comparison uses the difference between the
thread's return from its wait and the program's own time stamp. The median of this difference is the program's *way*: the work
of the runtime or interpreter. It is reported separately.

  c        clock_nanosleep, absolute     limit: 5 us; its deadlines must equal the kernel's to the nanosecond
  tokio    tokio::time::interval         limit: 5 us without the way
  os       osinterval::interval          limit: 5 us without the way
  go       time.Ticker, if go is found   no limit: the runtime passes ticks to another thread in varying time
  python   asyncio.sleep                 no limit: the interpreter's work varies as well; the spread of the way is shown
  hog      c and a thread of SCHED_FIFO on the same CPU, which the trace must name first
  price    the lateness of c, alternately with and without the trace

All programs except the victim of the hog run in SCHED_RR, so that other work rarely preempts them between the return from the
wait and the time stamp. Exits with 1 if a limit is exceeded.
"""

import csv
import json
import os
import pathlib
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
OSJITTER = str(pathlib.Path(os.environ.get("OSJITTER", ROOT / "target/release/osjitter")).resolve())
MAX_DIFFERENCE_NS = 5_000
PERIOD_NS = 2_000_000
# Programs whose way from the wait to the task takes a constant time or none.
JUDGED = ("c", "tokio", "os")
TICKS = 3_000
REAL_TIME = ["chrt", "-r", "1"]

C = r"""
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
int main(int argc, char **argv) {
    long period = atol(argv[1]), ticks = atol(argv[2]), *seen = calloc(2 * ticks, sizeof *seen);
    struct timespec due, now;
    clock_gettime(CLOCK_MONOTONIC, &due);
    for (long i = 0; i < ticks; i++) {
        due.tv_nsec += period;
        while (due.tv_nsec >= 1000000000) { due.tv_nsec -= 1000000000; due.tv_sec++; }
        while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, 0)) {}
        clock_gettime(CLOCK_MONOTONIC, &now);
        seen[2 * i] = due.tv_sec * 1000000000L + due.tv_nsec;
        seen[2 * i + 1] = now.tv_sec * 1000000000L + now.tv_nsec;
    }
    FILE *out = fopen(argv[3], "w");
    for (long i = 0; i < ticks; i++) fprintf(out, "%ld %ld\n", seen[2 * i], seen[2 * i + 1]);
    return fclose(out);
}
"""

HOG = r"""
#include <sys/prctl.h>
#include <time.h>
int main(void) {
    struct timespec now, rest = {0, 6000000};
    prctl(PR_SET_NAME, "inj-hog");
    for (;;) {
        clock_gettime(CLOCK_MONOTONIC, &now);
        long until = now.tv_sec * 1000000000L + now.tv_nsec + 4000000;
        do clock_gettime(CLOCK_MONOTONIC, &now); while (now.tv_sec * 1000000000L + now.tv_nsec < until);
        nanosleep(&rest, 0);
    }
}
"""

GO = r"""
package main

import ("fmt"; "os"; "strconv"; "syscall"; "time"; "unsafe")

func now() int64 {
    var t syscall.Timespec
    syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, 1, uintptr(unsafe.Pointer(&t)), 0)
    return t.Sec*1000000000 + t.Nsec
}

func main() {
    period, _ := strconv.Atoi(os.Args[1])
    ticks, _ := strconv.Atoi(os.Args[2])
    ticker, seen := time.NewTicker(time.Duration(period)), make([]int64, 0, ticks)
    for i := 0; i < ticks; i++ { <-ticker.C; seen = append(seen, now()) }
    out, _ := os.Create(os.Args[3])
    for _, at := range seen { fmt.Fprintln(out, at) }
    out.Close()
}
"""

PYTHON = r"""
import asyncio, sys, time
period, ticks, seen = int(sys.argv[1]) / 1e9, int(sys.argv[2]), []
async def main():
    for _ in range(ticks):
        await asyncio.sleep(period)
        seen.append(time.monotonic_ns())
asyncio.run(main())
open(sys.argv[3], "w").write("".join(f"{at}\n" for at in seen))
"""


def percentile(values, q):
    values = sorted(values)
    return values[max(0, -(-int(len(values) * q * 1000) // 1000) - 1)]


def trace(home, command, name):
    """Returns the (end, deadline) pairs of the waits in a trace, and its report."""
    out = home / f"trace-{name}"
    completed = subprocess.run([OSJITTER, "trace", "--quiet", "--out", out, *command], capture_output=True, text=True)
    if completed.returncode:
        sys.exit(f"{name}: {completed.stderr}")
    with open(out / "timers.csv") as file:
        waits = [(int(row["end_ns"]), int(row["deadline_ns"])) for row in csv.DictReader(file)]
    return sorted(waits), json.loads((out / "report.json").read_text())


def read_stamps(file):
    return [int(line.split()[-1]) for line in open(file)]


def compare(name, waits, report, stamps, deadlines=None):
    """Compares the percentiles of lateness by trace and program, for the ticks that follow a wait."""
    ends, index, pairs = [end for end, _ in waits], 0, []
    for i, stamp in enumerate(stamps):
        while index + 1 < len(ends) and ends[index + 1] <= stamp:
            index += 1
        if ends[index] <= stamp and (index + 1 >= len(ends) or ends[index + 1] > stamp):
            pairs.append((ends[index], deadlines[i] if deadlines else waits[index][1], stamp))
    # If several ticks follow one wait, the wait belongs to the first of them.
    pairs = [pair for i, pair in enumerate(pairs) if i == 0 or pairs[i - 1][0] != pair[0]]
    by_trace = [end - due for end, due, _ in pairs]
    by_program = [stamp - due for _, due, stamp in pairs]
    way, way_p99 = (percentile([stamp - end for end, _, stamp in pairs], q) for q in (0.5, 0.99))
    result = {"program": name, "ticks": len(stamps), "compared": len(pairs), "way_ns": way, "way_p99_ns": way_p99,
              "seen": {key: report["trace"][key] for key in ("records", "lost", "undated", "unseen", "dropped")}}
    for key, q in (("p50", 0.5), ("p99", 0.99)):
        trace_ns, program_ns = percentile(by_trace, q), percentile(by_program, q)
        difference = program_ns - trace_ns
        result[key] = {"trace_ns": trace_ns, "program_ns": program_ns, "difference_ns": difference, "without_way_ns": difference - way}
    compared = "difference_ns" if name == "c" else "without_way_ns"
    enough = len(pairs) >= 0.5 * len(stamps)
    result["agrees"] = enough and all(abs(result[key][compared]) <= MAX_DIFFERENCE_NS for key in ("p50", "p99"))
    figures = ", ".join(f"{key} {result[key]['trace_ns'] / 1e3:.1f} us by the trace, {result[key]['program_ns'] / 1e3:.1f} us by the program"
                        for key in ("p50", "p99"))
    if name in JUDGED:
        verdict = "agrees" if result["agrees"] else "DOES NOT AGREE"
    else:
        verdict = "no limit"
        del result["agrees"]
    print(f"{name}: {figures}; way {way / 1e3:.1f} us, {way_p99 / 1e3:.1f} us at p99; {len(pairs)} of {len(stamps)} ticks: {verdict}", flush=True)
    if report["trace"]["lost"]:
        print(f"{name}: {report['trace']['lost']} records were lost")
    return result


def build_tokio_program(home):
    """Builds the program that ticks with tokio or OsInterval and records the kernel's clock; None if that fails."""
    project = home / "ticks"
    (project / "src").mkdir(parents=True)
    (project / "Cargo.toml").write_text(
        '[package]\nname = "ticks"\nversion = "0.0.0"\nedition = "2024"\n[workspace]\n[dependencies]\n'
        f'tokio = {{ version = "1", features = ["rt", "time", "net"] }}\nlibc = "0.2"\n'
        f'osinterval = {{ path = "{ROOT}/lib/osinterval" }}\n')
    shutil.copy(ROOT / "Cargo.lock", project / "Cargo.lock")
    (project / "src/main.rs").write_text(r"""
fn now() -> i64 {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut t) };
    t.tv_sec * 1_000_000_000 + t.tv_nsec
}
fn main() {
    let args: Vec<String> = std::env::args().collect();
    let (period, ticks) = (std::time::Duration::from_nanos(args[2].parse().unwrap()), args[3].parse().unwrap());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let seen: Vec<i64> = runtime.block_on(async {
        let mut seen = Vec::with_capacity(ticks);
        if args[1] == "tokio" {
            let mut interval = tokio::time::interval(period);
            for _ in 0..ticks { interval.tick().await; seen.push(now()); }
        } else {
            let mut interval = osinterval::interval(period);
            for _ in 0..ticks { interval.tick().await; seen.push(now()); }
        }
        seen
    });
    std::fs::write(&args[4], seen.iter().map(|at| format!("{at}\n")).collect::<String>()).unwrap();
}
""")
    completed = subprocess.run(["cargo", "build", "--release", "--quiet"], cwd=project, capture_output=True, text=True,
                               env={**os.environ, "CARGO_TARGET_DIR": str(home / "target")})
    if completed.returncode:
        print(f"tokio, os: skipped, cannot build the program: {completed.stderr.strip().splitlines()[-1]}")
        return None
    return str(home / "target/release/ticks")


def main():
    if os.geteuid():
        sys.exit("cannot trace: root is required")
    results, skipped = [], []
    with tempfile.TemporaryDirectory() as directory:
        home = pathlib.Path(directory)
        for name, text in (("loop", C), ("hog", HOG)):
            (home / f"{name}.c").write_text(text)
            subprocess.run(["cc", "-O2", "-o", home / name, home / f"{name}.c"], check=True)
        (home / "loop.py").write_text(PYTHON)
        own = home / "own"
        numbers = [str(PERIOD_NS), str(TICKS), str(own)]

        waits, report = trace(home, ["--", *REAL_TIME, home / "loop", *numbers], "c")
        # The first column contains the deadlines, the second the times at which the loop ran.
        deadlines = [int(line.split()[0]) for line in open(own)]
        results.append(compare("c", waits, report, read_stamps(own), deadlines))
        kernels = {due for _, due in waits}
        exact = sum(due in kernels for due in deadlines)
        results[-1]["deadlines_exact"] = exact
        results[-1]["agrees"] &= exact == len(deadlines)
        print(f"c: {exact} of {len(deadlines)} deadlines equal those of the kernel to the nanosecond")

        programs = {"python": [sys.executable, home / "loop.py", *numbers]}
        if shutil.which("go"):
            (home / "ticker.go").write_text(GO)
            subprocess.run(["go", "build", "-o", home / "ticker", home / "ticker.go"], check=True, cwd=home,
                           env={**os.environ, "GO111MODULE": "off"})
            programs["go"] = [home / "ticker", *numbers]
        else:
            skipped.append("go: not installed")
        ticks = build_tokio_program(home)
        if ticks:
            programs |= {name: [ticks, name, *numbers] for name in ("tokio", "os")}
        else:
            skipped.append("tokio, os: cannot be built")
        for name, command in programs.items():
            waits, report = trace(home, ["--", *REAL_TIME, *command], name)
            results.append(compare(name, waits, report, read_stamps(own)))

        # No other thread on its CPU can preempt the hog.
        hog = subprocess.Popen(["chrt", "-f", "10", "taskset", "-c", "0", home / "hog"])
        loop = subprocess.Popen(["taskset", "-c", "0", home / "loop", "1000000", "20000", own])
        time.sleep(0.2)
        try:
            _, report = trace(home, ["--pid", str(loop.pid), "--duration", "5s"], "hog")
        finally:
            hog.kill(), loop.kill(), hog.wait(), loop.wait()
        why = report["subjects"][0]["why"]
        behind = {entry["comm"]: entry["ns"] for entry in why["behind"]}
        named = next(iter(behind), None) == "inj-hog"
        queue = sum(part["shares_ns"]["queue"] for part in why["rounds"]) / why["lateness_ns"]
        injected = {"named": named, "of_lateness": behind.get("inj-hog", 0) / why["lateness_ns"], "queue": queue,
                    "late_timers": why["late_ticks"],
                    "shares_ns": {key: sum(part["shares_ns"][key] or 0 for part in why["rounds"]) for key in why["rounds"][0]["shares_ns"]}, "behind": why["behind"][:5]}
        print(f"hog: {'named first' if named else 'NOT NAMED FIRST'}, {injected['of_lateness']:.1%} of the lateness; "
              f"waiting for a CPU in total {queue:.1%}")

        # Runs with and without the trace alternate, so that other work on the machine affects both.
        medians = {True: [], False: []}
        price = None
        for turn in range(20):
            is_traced = turn % 2 == 0
            command = [*REAL_TIME, home / "loop", "1000000", "400", own]
            if is_traced:
                _, report = trace(home, ["--", *command], f"price-{turn}")
                price = report["trace"]
            else:
                subprocess.run(command, check=True)
            medians[is_traced].append(statistics.median(int(now) - int(due) for due, now in map(str.split, open(own))))
        cost = statistics.median(a - b for a, b in zip(medians[True], medians[False]))
        core = price["cpu_ns"] / price["window_ns"]
        print(f"price: {cost:+.0f} ns at p50 (median of 10 pairs); the tracer used {core:.1%} of a core for {price['records']} records")

    passed = named and all(result.get("agrees", True) for result in results)
    out = {"bar_ns": MAX_DIFFERENCE_NS, "period_ns": PERIOD_NS, "programs": results, "hog": injected, "skipped": skipped,
           "price": {"p50_ns": cost, "pairs_ns": [a - b for a, b in zip(medians[True], medians[False])], "core": core},
           "load_average": os.getloadavg(), "kernel": platform.release(), "cpus": os.cpu_count(), "passed": passed}
    if len(sys.argv) > 1:
        pathlib.Path(sys.argv[1]).write_text(json.dumps(out, indent=1) + "\n")
    sys.exit(0 if passed else 1)


main()
