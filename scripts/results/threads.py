"""The intervals of threads without a runtime: osinterval's and those of spin_sleep, on a quiet machine and with busy CPUs."""

import shlex

import runtimes
from pages import ROOT, index, put
from tables import format_rounded_time, join_rows, machine_and_day

SUBJECTS = {"os-interval-blocking": "**`blocking::Interval`**", "os-interval-blocking-precise": "**`blocking::Interval`, precise**",
            "os-interval": "`OsInterval` on tokio", "nanosleep": "*control: `nanosleep`*", "spin": "*control: `spin`*"}
# Programs of the league of runtimes, and the precise mode at a quantile close to that of spin_sleep.
LEAGUE = ("spin_sleep", "spin_sleep_util", "osinterval-blocking")
PROGRAMS = [program for program in runtimes.PROGRAMS if program.name in LEAGUE] + [
    runtimes.Program("osinterval-blocking-0.995", "osinterval-blocking", "blocking::Interval", "`clock_nanosleep`, wakes early and spins",
                     "wait-osinterval-blocking", argument="0.995", setting="precise at the quantile 0.995", is_ours=True)]
# The parts of the measurement: files, their runs, and headings. Each part takes less than two minutes.
PARTS = {
    "quiet": ("--period 100us --period 500us --period 1ms --duration 4s", "Quiet"),
    "slow": ("--period 10ms --duration 10s --round-ticks 50", "Quiet"),
    "busy": ("--period 500us --period 1ms --duration 5s --load cpu:2", "With a busy thread on each of the two CPUs"),
}


def measure_part(run, part):
    words, _ = PARTS[part]
    words = ["--no-samples", "--quiet", *shlex.split(words)]
    words += [word for subject in SUBJECTS for word in ("--subject", subject)]
    for program in PROGRAMS:
        words += ["--command", runtimes.command(program, runtimes.build(program)), "--name", program.name]
    run.osjitter("run", *words, "--force", "--out", run.directory, cwd=ROOT)
    run.compress_report(with_rounds=False)
    run.path("report.json.gz").rename(run.path(f"{part}.json.gz"))


def measure(run):
    for part in PARTS:
        measure_part(run, part)


def label(name):
    programs = {program.name: program for program in PROGRAMS}
    if name == "osinterval-blocking":
        return "**`blocking::Interval`**, a program with a timer slack of 50 us"
    return SUBJECTS.get(name) or programs[name].describe(runtimes.versions().get(name))


def summaries_of(report, period_ns):
    return {subject["name"]: subject["summary"] for subject in report["subjects"]
            if subject["period_ns"] == period_ns and subject["summary"]}


def make_table(report, period_ns):
    """Returns the table of a period: lateness, CPU time, and both divided by those of the sleeping control."""
    summaries = summaries_of(report, period_ns)
    control = summaries["nanosleep"]
    lines = ["| | p50 | p90 | p99 | CPU per tick | p50 / `nanosleep` | CPU / `nanosleep` |", "|---|---:|---:|---:|---:|---:|---:|"]
    for name, summary in sorted(summaries.items(), key=lambda row: row[1]["lateness_ns"]["p50"]):
        late, cpu = summary["lateness_ns"], summary["cpu_ns_per_tick"]
        times = (format_rounded_time(late[key]) if late[key] is not None else "-" for key in ("p50", "p90", "p99"))
        p50_ratio = late["p50"] / control["lateness_ns"]["p50"]
        cpu_ratio = f"{cpu / control['cpu_ns_per_tick']:.3g}" if cpu and control["cpu_ns_per_tick"] else "-"
        lines.append(f"| {label(name)} | {' | '.join(times)} | {runtimes.format_cpu(cpu)} | {p50_ratio:.3g} | {cpu_ratio} |")
    return join_rows(*lines)


def write(run):
    parts = []
    for part, (_, heading) in PARTS.items():
        report = run.load(f"{part}.json.gz")
        for period_ns in sorted({subject["period_ns"] for subject in report["subjects"]}):
            # A run with a load does not rate the machine.
            rating = f"; the machine was rated {report['fitness']['verdict']}" if report["fitness"] else ""
            parts.append(f"{heading}, every {format_rounded_time(period_ns)}{rating}:\n\n{make_table(report, period_ns)}")
    origin = f"{machine_and_day(report)}"
    text = "\n\n".join(parts)
    run.path("threads.md").write_text(f"# Intervals of threads\n\nAll rows of a table ran in the same rounds. {origin}. Made by "
                                      f"`scripts/results/publish.py threads`.\n\n{text}\n")
    links = ", ".join(f"[`{part}.json.gz`](results/{run.name}/{part}.json.gz)" for part in PARTS)
    put("intervals of threads", f"{text}\n\nAll rows of a table ran in the same rounds. Source: {links}. {origin}.")
    index(run.name, [(f"`{run.name}`", "threads.md")], report["host"], "`scripts/results/publish.py threads`")
