#!/usr/bin/env python3
"""Compares the lateness that `osjitter run` reports with the kernel's own trace, tick by tick, to validate it.

    scripts/studies/kernel-agreement.py NAME [--ticks 20000] [--cpu 1]

Writes results/NAME/kernel.{json,md} and a sentence of the book. Needs root.

While a loop of `clock_nanosleep` is measured, ftrace records two things about each tick: the deadline of its timer, and the
time at which the system call was about to return. Their difference is the kernel's lateness. osjitter takes its time stamp
later, after the return to the program and the rest of the kernel's record. The result is the difference between both, for
all ticks and for quiet ones. Quiet ticks belong to rounds that lost no time to the hypervisor and were not preempted.
"""

import argparse
import collections
import json
import os
import pathlib
import platform
import re
import struct
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "results"))
import pages  # noqa: E402, in scripts/results
from programs import build_osjitter  # noqa: E402

ROOT = pages.ROOT
TRACEFS = pathlib.Path("/sys/kernel/tracing")
ARMED, RETURNS = "timer/hrtimer_start", "syscalls/sys_exit_clock_nanosleep"
PERIOD_NS = 2_000_000
BOUNDS_NS = [500, 1_000, 2_000, 5_000]


class Tracer:
    """An instance of ftrace with separate buffers and events."""

    def __init__(self):
        if not (TRACEFS / "instances").exists():
            subprocess.run(["mount", "-t", "tracefs", "nodev", TRACEFS], check=True)
        self.home = TRACEFS / "instances" / f"osjitter-{os.getpid()}"
        self.home.mkdir()
        self.write("tracing_on", "0")
        self.write("trace_clock", "mono")
        self.write("buffer_size_kb", "32768")
        self.fields = {}
        for event in (ARMED, RETURNS):
            text = (self.home / "events" / event / "format").read_text()
            found = re.findall(r"field:[^;]*?(\w+);\s*offset:(\d+);\s*size:(\d+)", text)
            self.fields[int(re.search(r"ID: (\d+)", text)[1])] = event, {name: (int(at), int(size)) for name, at, size in found}
            self.write(f"events/{event}/enable", "1")

    def write(self, name, value):
        (self.home / name).write_text(value)

    def field(self, fields, name, data):
        at, size = fields[name]
        return int.from_bytes(data[at:at + size], "little", signed=True)

    def events(self):
        """Yields (time, event, thread, fields) of each record, in order per CPU."""
        for cpu in sorted(self.home.glob("per_cpu/cpu*")):
            lost = sum(int(n) for n in re.findall(r"(?:overrun|dropped events): (\d+)", (cpu / "stats").read_text()))
            if lost:
                sys.exit(f"the kernel's buffer lost {lost} records; use fewer --ticks")
            pages = os.open(cpu / "trace_pipe_raw", os.O_RDONLY | os.O_NONBLOCK)
            while True:
                try:
                    page = os.read(pages, 4096)
                except BlockingIOError:
                    break
                if not page:
                    break
                yield from self.page_events(page)
            os.close(pages)

    def page_events(self, page):
        """Decodes a page of the ring buffer: its start time, its length, and records with the time since the previous one."""
        at_ns, length = struct.unpack_from("<QQ", page)
        at, end = 16, 16 + (length & 0xFFFFF)
        while at < end:
            (head,) = struct.unpack_from("<I", page, at)
            kind, delta = head & 31, head >> 5
            at += 4
            if kind == 29:
                # Padding; without a delta, it extends to the end of the page.
                if not delta:
                    return
                at += struct.unpack_from("<I", page, at)[0]
                at_ns += delta
                continue
            if kind in (30, 31):
                (high,) = struct.unpack_from("<I", page, at)
                at += 4
                at_ns = at_ns + (high << 27 | delta) if kind == 30 else at_ns & ~((1 << 59) - 1) | high << 27 | delta
                continue
            at_ns += delta
            size = kind * 4
            if kind == 0:
                size = struct.unpack_from("<I", page, at)[0] - 4
                at += 4
            data = page[at:at + size]
            at += size
            event, fields = self.fields.get(int.from_bytes(data[:2], "little"), (None, None))
            if event:
                yield at_ns, event, self.field(fields, "common_pid", data), lambda name, d=data, f=fields: self.field(f, name, d)

    def remove(self):
        self.write("events/enable", "0")
        self.home.rmdir()


def ticks_by_thread(events):
    """Returns the (deadline, return time) pairs of each thread that returns from a sleep, in order."""
    events = sorted(events, key=lambda e: e[0])
    users = collections.defaultdict(set)
    for _, event, thread, field in events:
        if event == ARMED:
            users[field("hrtimer")].add(thread)
    threads, armed = collections.defaultdict(list), {}
    for at_ns, event, thread, field in events:
        if event == ARMED:
            # The timer of a sleep is on the stack of its thread, so only one thread arms it. Interrupts arm the timers of a CPU
            # from any thread.
            if len(users[field("hrtimer")]) == 1:
                armed[thread] = field("softexpires")
        elif thread in armed and field("ret") == 0:
            threads[thread].append((armed.pop(thread), at_ns))
    return threads


def split_into_rounds(ticks):
    """Splits ticks into rounds, in which deadlines are a period apart."""
    runs = []
    for tick in ticks:
        if runs and tick[0] - runs[-1][-1][0] == PERIOD_NS:
            runs[-1].append(tick)
        else:
            runs.append([tick])
    return runs


def percentile(values, q):
    return values[max(0, -(-int(len(values) * q * 1_000_000) // 1_000_000) - 1)]


def summarise(differences):
    differences = sorted(differences)
    quantiles = {f"p{q * 100:g}": percentile(differences, q) for q in (0.001, 0.01, 0.5, 0.99, 0.999)}
    within = {str(bound): sum(abs(d) <= bound for d in differences) / len(differences) for bound in BOUNDS_NS}
    median = quantiles["p50"]
    around_median = {str(bound): sum(abs(d - median) <= bound for d in differences) / len(differences) for bound in BOUNDS_NS}
    return {"ticks": len(differences), "difference_ns": {"min": differences[0], **quantiles, "max": differences[-1]},
            "within_ns": within, "within_ns_of_the_median": around_median}


def publish(name, result, machine):
    """Writes the sentence of the book."""
    us = lambda key: f"{result['all']['difference_ns'][key] / 1e3:.1f} us"
    early = "" if result["all"]["difference_ns"]["min"] < 0 else " No tick was reported earlier than the kernel released it."
    pages.put("kernel agreement", (
        f"  Over {result['all']['ticks']:,} ticks, the difference was {us('min')} at least, {us('p50')} at the median, {us('p99')} at p99 "
        f"and {us('max')} at most. It was within 1 us of its median for "
        f"{100 * result['all']['within_ns_of_the_median']['1000']:.0f} % of the ticks "
        f"([the table](results/{name}/kernel.md), {machine}).{early}"))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", help="directory in results/")
    parser.add_argument("--ticks", type=int, default=20_000)
    parser.add_argument("--cpu", type=int, default=1)
    args = parser.parse_args()
    osjitter = build_osjitter()
    load_before = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as out:
        tracer = Tracer()
        try:
            tracer.write("tracing_on", "1")
            subprocess.run([osjitter, "run", "--quiet", "--no-progress", "--subject", "nanosleep", "--period",
                            f"{PERIOD_NS // 1_000}us", "--ticks", str(args.ticks), "--sched", "fifo:2", "--cpu", str(args.cpu), "--out", out],
                           check=True, stdout=subprocess.DEVNULL)
            tracer.write("tracing_on", "0")
            threads = ticks_by_thread(tracer.events())
        finally:
            tracer.remove()
        report = json.loads((pathlib.Path(out) / "report.json").read_text())
    rounds = sorted(report["subjects"][0]["rounds"], key=lambda entry: entry["slot"])
    lengths = [entry["first_tick"] + len(entry["lateness_ns"]) for entry in rounds]
    runs = [run for run in split_into_rounds(max(threads.values(), key=len)) if len(run) > 1]
    if [len(run) for run in runs] != lengths:
        sys.exit(f"cannot match the rounds: the report has rounds of {lengths} ticks, the trace of {[len(run) for run in runs]}")
    all_differences, quiet = [], []
    for entry, run in zip(rounds, runs):
        reported = entry["lateness_ns"]
        differences = [ns - (returned - due) for ns, (due, returned) in zip(reported, run[-len(reported):])]
        all_differences += differences
        if not entry["steal_ns"] and not entry["switches_involuntary"]:
            quiet += differences
    result = {"schema": "osjitter-kernel-agreement", "osjitter": report["tool"]["version"], "kernel": platform.release(),
              "cpus": os.cpu_count(), "load_average_before": load_before, "period_ns": PERIOD_NS, "clock": report["clock"],
              "all": summarise(all_differences), "quiet": summarise(quiet) if quiet else None}
    directory = ROOT / "results" / args.name
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "kernel.json").write_text(json.dumps(result, indent=1) + "\n")
    lines = ["# Reported lateness and the kernel's trace", "",
             f"{pages.machine(report['host'])}; {args.ticks} ticks of `nanosleep` at {PERIOD_NS // 1_000} us, load average "
             f"{load_before:.1f} before. Reported lateness minus the kernel's, tick by tick. Written by "
             "`scripts/studies/kernel-agreement.py` from [`kernel.json`](kernel.json).", "",
             "| ticks | min | p50 | p99 | p99.9 | max | within 1 us of p50 | within 5 us |", "|---|---:|---:|---:|---:|---:|---:|---:|"]
    for name in ("all", "quiet"):
        if summary := result[name]:
            cells = " | ".join(f"{summary['difference_ns'][key] / 1e3:.2f} us" for key in ("min", "p50", "p99", "p99.9", "max"))
            lines.append(f"| {name}, {summary['ticks']} | {cells} | {summary['within_ns_of_the_median']['1000']:.2%} | "
                         f"{summary['within_ns']['5000']:.2%} |")
    text = "\n".join(lines) + "\n"
    (directory / "kernel.md").write_text(text)
    print(text)
    publish(args.name, result, pages.machine(report["host"]))
    pages.index(args.name, [(f"`{args.name}`", "kernel.md")], report["host"], "`scripts/studies/kernel-agreement.py` as root")


if __name__ == "__main__":
    main()
