"""Makes the tables of the recipes in publish.py from files that are already in results/NAME.

Each function takes a run, writes the tables into its directory, and replaces its blocks in the pages
and its line in the index. None of them measures.
"""

import math
import re

from pages import index, machine, picture, put, this_machine

REFERENCE = "report.json.gz"
# The subjects of the table in the README.
README_SUBJECTS = ("os-interval", "os-interval-precise", "tokio-interval", "nanosleep", "spin")
CLOCK_COMMAND = "bench clock --drift 1s --drift 10s --drift 60s"
FIND_COMMAND = "find --goal missed=5% --goal cpu=10%"


def format_time(ns, milliseconds_from=1e6):
    """Formats nanoseconds with three digits, and below a microsecond without rounding."""
    if ns < 1_000:
        return f"{ns} ns"
    return f"{ns / 1e3:.3g} us" if ns < milliseconds_from else f"{ns / 1e6:.3g} ms"


def format_rounded_time(ns):
    """Formats nanoseconds with three digits, and without decimals below a microsecond."""
    for unit, size in (("ms", 1e6), ("us", 1e3)):
        if ns >= size:
            return f"{ns / size:.3g} {unit}"
    return f"{ns:.0f} ns"


def format_long_time(ns):
    """Formats nanoseconds with three digits, in microseconds or milliseconds."""
    return f"{ns / 1e6:.3g} ms" if ns >= 1e6 else f"{ns / 1e3:.3g} us"


def join_rows(*rows):
    return "\n".join(rows)


def machine_and_day(report):
    return f"{machine(report['host'])}, {report['started_utc'][:10]}"


def readme_table(run):
    """Returns the answer, and the heading and some rows of the reference run, without marks, because the README has no notes on them."""
    answer = run.report_output(REFERENCE).split("\n\n")[0]
    columns = ("--percentiles", "p50,p90,p99", "--columns", "percentiles,missed,cpu")
    lines = run.report_output(REFERENCE, "--quiet", *columns).splitlines()
    rows = {line.split()[0]: line.replace("*", " ") for line in lines if line}
    return join_rows(answer, "", *(rows[name] for name in ("subject", *README_SUBJECTS)))


def reference(run):
    report, directory = run.load(REFERENCE), f"results/{run.name}"
    run.draw(REFERENCE, "tradeoff.svg", "percentiles.svg", "over-time.svg", "card.svg")
    run.osjitter("report", run.path(REFERENCE), "--format", "html", "--force", "--out", run.pictures / "page.html")
    put("reference run", f"""```text
{readme_table(run)}
```

Source: [`{REFERENCE}`]({directory}/{REFERENCE}), and as [a page](pictures/reference/page.html) (download it to view it). {machine_and_day(report)}.""")
    put("reference table", f"""{picture("reference/tradeoff.svg")}

```text
{run.report_output(REFERENCE).rstrip()}
```

{picture("reference/percentiles.svg")}

{picture("reference/over-time.svg")}

Source: [`{REFERENCE}`]({directory}/{REFERENCE}). {machine_and_day(report)}. It was written as [this page](pictures/reference/page.html), which the tables and pictures above are part of.""")

    put("reference card", picture("reference/card.svg"))

    labels = {"os-interval": "`OsInterval`", "os-interval-precise": "`OsInterval`, precise",
              "periodic-interval": "`PeriodicInterval`", "os-interval-group": "`IntervalGroup`",
              "tokio-interval": "`tokio::time::Interval`"}
    summaries = {subject["name"]: subject["summary"] for subject in report["subjects"]}

    def row(name, label):
        late, cpu = summaries[name]["lateness_ns"], summaries[name]["cpu_ns_per_tick"]
        p50, p99 = (format_time(late[key], 999_500) for key in ("p50", "p99"))
        return f"| {label} | {p50} late | {p99} | {cpu / 1e3:.1f} us |"

    rows = join_rows("| | p50 | p99 | CPU per tick |", "|---|---:|---:|---:|",
                     *(row(name, label) for name, label in labels.items()))
    put("interval figures", f"""At a period of 500 us, on a current-thread runtime:

{rows}

{machine(report['host'])}; from [`{REFERENCE}`]({directory}/{REFERENCE}). `osjitter run` measures it on your machine.""")
    index(run.name, [(f"`{run.name}`", REFERENCE)], report["host"],
          "`osjitter run --period 500us --ticks 10000`, the group, `os-sleep` and `os-timeout`")


def table_by_period(subjects, cell):
    """Draws a table with a row for each subject and a column for each period, from summaries."""
    periods = sorted({subject["period_ns"] for subject in subjects})
    rows = ["| | " + " | ".join(map(format_time, periods)) + " |", "|---|" + "---:|" * len(periods)]
    for name in dict.fromkeys(subject["name"] for subject in subjects):
        summaries = {subject["period_ns"]: subject["summary"] for subject in subjects
                     if subject["name"] == name and subject["summary"]}
        cells = [cell(summaries[period], period) if period in summaries else "-" for period in periods]
        rows.append(f"| `{name}` | " + " | ".join(cells) + " |")
    return join_rows(*rows)


def format_core_share(summary, period_ns):
    share = summary.get("core_share")
    # Reports of version 0.2 do not have it.
    return f"{100 * (summary['cpu_ns_per_tick'] / period_ns if share is None else share):.3g} %"


def spin(run):
    report = run.load("report.json.gz")
    run.draw("report.json.gz", "tradeoff.svg")
    p50 = table_by_period(report["subjects"], lambda summary, _: format_time(summary["lateness_ns"]["p50"]))
    put("spin", f"""{picture("spin/tradeoff.svg")}

Lateness at the median, by period:

{p50}

CPU time as a share of one core:

{table_by_period(report["subjects"], format_core_share)}

Source: [`report.json.gz`](results/{run.name}/report.json.gz). {machine_and_day(report)}.""")
    index(run.name, [(f"`{run.name}`", "report.json.gz")], report["host"], "`scripts/results/publish.py spin`")


def periods(run):
    report = run.load("report.json.gz")
    subjects = report["subjects"]
    p50, p99 = (table_by_period(subjects, lambda summary, _, key=key: format_time(summary["lateness_ns"][key]))
                for key in ("p50", "p99"))
    put("periods", f"""Lateness at the median, by period:

{p50}

Lateness at the 99th percentile:

{p99}

CPU time as a share of one core:

{table_by_period(subjects, format_core_share)}

Each was measured for five seconds per period, in rounds whose order changed each time. From
[`report.json.gz`](results/{run.name}/report.json.gz): {machine_and_day(report)}.""")
    index(run.name, [(f"`{run.name}`", "report.json.gz")], report["host"], "`scripts/results/publish.py periods`")


def timeouts(run):
    report, directory = run.load("timeout.json"), f"results/{run.name}"
    run.osjitter("report", run.path("timeout.json"), "--reference", "--force", "--out", run.path("timeout.txt"))
    run.draw("timeout.json", "timeout-channel-current-thread_10s.svg")
    first, *workloads = run.path("timeout.txt").read_text().split("\n\n")
    table = next(workload for workload in workloads if workload.startswith("channel-current-thread"))
    put("timeout run", f"""{picture("timeout/timeout-channel-current-thread_10s.svg")}

```text
{first}

{table}
```

Source: [`{directory}/timeout.json`]({directory}/timeout.json), all workloads and the published figures of
bench-tokio-timeout in [`timeout.txt`]({directory}/timeout.txt): {machine_and_day(report)}.""")

    labels = {("timeout", "tokio"): "`tokio::time::timeout`", ("reused-sleep", "tokio"): "one `Sleep`, reset",
              ("idle-timeout", "tach"): "`IdleTimeout`", ("idle-timeout", "tokio"): "`IdleTimeout`, on tokio's clock",
              ("idle-timeout-slack", "tach"): "`IdleTimeout::slack(0.1)`"}
    workload = next(workload for workload in report["workloads"] if workload["id"] == "channel-current-thread@10s")
    results = {(result["variant"], result["clock"]): result for result in workload["results"]}

    def row(variant, label):
        overhead = results[variant]["overhead"]
        low, high = overhead["ns_ci95"]
        return f"| {label} | {overhead['ns']:.1f} | {low:.1f} to {high:.1f} |"

    rows = join_rows("| | ns per message | 95 % interval |", "|---|---:|---:|",
                     *(row(variant, label) for variant, label in labels.items()))
    control = results["control", "none"]["ns_per_message"]["p50"]
    host = report["host"]
    put("timeout figures", f"""A loop over a channel on a current-thread runtime takes {control:.0f} ns a message without a timeout. A timeout of 10 s adds:

{rows}

tokio {host['versions']['tokio']} on {machine(host)}, clock source {host['clock_source']}; from
[`timeout.txt`]({directory}/timeout.txt), which has more workloads. `osjitter bench timeout` measures it on your machine.""")
    index(run.name, [(f"`{run.name}`", "timeout.txt")], host, "`scripts/results/publish.py timeout`")


def dispatch(run):
    host = run.load("dispatch.json")["host"]
    labels = {
        "dispatch": "from one task's poll to the next one's", "self-wake": "a task wakes itself and is polled again",
        "life-boxed": "spawn, poll, end and join a task", "channel-mpsc": "`try_send` and `try_recv`",
        "wake-busy": "from a wake on another thread to the task's poll, spinning", "wake-parked": "the same, parked",
        "idle-turn": "a turn in which nothing is ready",
    }
    lines = [line for line in run.path("dispatch.md").read_text().splitlines() if line.startswith("| ")]
    cells = [[cell.strip() for cell in line.strip("| ").split("|")] for line in lines]
    p50 = {(row[0], row[1]): row[2] for row in cells if len(row) > 2}
    rows = join_rows("| operation | busypoll | tokio, current-thread |", "|---|---:|---:|",
                     *(f"| `{operation}`: {label} | {p50[operation, 'busypoll']} | {p50[operation, 'tokio']} |"
                       for operation, label in labels.items()))
    put("dispatch figures", f"""Median of 100 rounds, each of which ran both runtimes:

{rows}

Source: [`dispatch.md`](results/{run.name}/dispatch.md). {machine(host)}.
[`peers-dispatch.md`](results/{run.name}/peers-dispatch.md) compares nexus-async-rt with the same code, each side in a process of its own.""")
    index(run.name, [(f"`{run.name}`", "dispatch.md"), ("compared with nexus-async-rt", "peers-dispatch.md")], host,
          "`osjitter bench dispatch`")


def clocks(run):
    report, peers, directory = run.load("clock.json"), run.load("peers-clock.json")["clocks"], f"results/{run.name}"
    run.osjitter("report", run.path("clock.json"), "--force", "--out", run.path("clock.txt"))
    run.draw("clock.json", "clock.svg")
    origin = machine_and_day(report)
    threads = peers[0]["order"]["threads"]
    rows = ["| Clock | a reading | 2 threads at once | 16 | `elapsed()` | 2 threads at once | 16 | first conversion | out of order | after a second |",
            "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|"]
    medians = lambda clock, key: {cost["threads"]: cost["median"] for cost in clock[key]}
    for clock in peers:
        order, first = clock["order"], clock["first_conversion_us"]
        costs_ns = [medians(clock, key)[threads] for key in ["read_ns", "elapsed_ns"] for threads in [1, 2, 16]]
        rows.append(f"| `{clock['clock']}` | {' | '.join(f'{cost:.1f} ns' for cost in costs_ns)} | "
                    f"{f'{first:.0f} us' if first >= 10 else f'{first:.1f} us'} | "
                    f"{order['violations']:,} of {order['reads']:,} | {clock['drift']['ppm']:+.3f} ppm |")
    monotonic = next(clock for clock in peers if clock["clock"] == "tach::MonotonicInstant")
    ratios = [medians(monotonic, key) for key in ["read_ratio", "elapsed_ratio"]]
    ratio_rows = ["| Threads | `MonotonicInstant::now` | `elapsed` |", "|---:|---:|---:|"]
    ratio_rows += [f"| {threads} | {ratios[0][threads]:.2f} | {ratios[1][threads]:.2f} |" for threads in ratios[0]]
    table = join_rows(*rows, "", "Relative to a reading and an `elapsed()` with a shared maximum, medians of ratios of neighbouring blocks:", "", *ratio_rows)
    run.path("peers-clock.md").write_text(f"""# Clocks compared

Medians of one thread, and of 2 and 16 threads that read at once; out of order: readings of {threads} threads that were earlier than one already published by another;
after a second: difference from the clock of the operating system. {origin}. Made by `scripts/results/publish.py clock`.

{table}
""")
    put("clock run", f"""{picture("clock/clock.svg")}

```text
{run.path("clock.txt").read_text().rstrip()}
```

Source: [`clock.json`]({directory}/clock.json). {origin}.

Compared with other crates, in one program:

{table}

*Out of order* counts readings of {threads} threads at once that were earlier than one that another thread had already
published. `elapsed_unordered` ends with an unordered reading, without the guarantee of `MonotonicInstant`. *Shared maximum* is an
unordered reading followed by an update of one word that all threads share. The `MonotonicInstant` of the crate tach 0.2 works this
way. Source: [`peers-clock.json`]({directory}/peers-clock.json), the same machine and hour.""")
    read_ns = {cost["clock"]: cost["median_ns"] for cost in report["costs"] if cost["threads"] == 1}
    put("clock figures", f"""A reading of `tach::Instant` takes {read_ns['tach-instant']:.1f} ns, compared with {read_ns['std']:.1f} ns for `std::time::Instant`:
{machine(report['host'])}, clock source {report['host']['clock_source']}; from
[`clock.json`]({directory}/clock.json). `osjitter bench clock` measures cost, order across threads and drift on your machine.""")
    index(run.name, [(f"`{run.name}`", "clock.txt"), ("compared with other crates", "peers-clock.md")], report["host"],
          f"`osjitter {CLOCK_COMMAND}`, `scripts/results/publish.py clock`")


def fit_wakeup_cost(groups, ticks_per_s):
    """Fits a line through the slots by least squares; returns the CPU time of a wake-up and of each tick in it."""
    ticks = [ticks_per_s / group["wakeups_per_s"] for group in groups]
    cpu = [group["cpu_ns_per_wakeup"] for group in groups]
    mean_ticks, mean_cpu = sum(ticks) / len(ticks), sum(cpu) / len(cpu)
    covariance = sum((t - mean_ticks) * (c - mean_cpu) for t, c in zip(ticks, cpu))
    per_tick = covariance / sum((t - mean_ticks) ** 2 for t in ticks)
    return mean_cpu - per_tick * mean_ticks, per_tick


def slots(run):
    report = run.load("slots.json")
    loops = report["rows"]
    rows = ["| Slot | lateness p50 | p99 | wake-ups a second | of one core | CPU per wake-up | nanosleep's | ratio |",
            "|---|---:|---:|---:|---:|---:|---:|---:|"]
    for name, loop in loops.items():
        if name.startswith("nanosleep-"):
            continue
        label, against_sleep = "`tokio::time::Interval`", "- | -"
        if name != "tokio":
            label = name.replace("group-", "").replace("us", " us")
            if sleep := loops.get(name.replace("group-", "nanosleep-")):
                sleep_ns = sleep["cpu_ns_per_wakeup"]
                against_sleep = f"{format_long_time(sleep_ns)} | {loop['cpu_ns_per_wakeup'] / sleep_ns:.2f}"
        rows.append(f"| {label} | {format_long_time(loop['p50_ns'])} | {format_long_time(loop['p99_ns'])} | "
                    f"{loop['wakeups_per_s']:,.0f} | {loop['core_percent']:.1f} % | "
                    f"{format_long_time(loop['cpu_ns_per_wakeup'])} | {against_sleep} |")

    groups = [loop for name, loop in loops.items() if name.startswith("group-")]
    alone_ns, per_tick_ns = fit_wakeup_cost(groups, ticks_per_s=100_000)
    sleeps = sorted(loop["cpu_ns_per_wakeup"] for name, loop in loops.items() if name.startswith("nanosleep-"))
    table = join_rows(*rows, "", f"""A wake-up delivers all ticks of its slot. According to a straight line through the slots, the wake-up itself costs {format_long_time(alone_ns)},
{alone_ns / sleeps[len(sleeps) // 2]:.2f} times as much as that of a sleeping thread, and each delivered tick costs {format_long_time(per_tick_ns)}, including the poll of its task.""")
    about = ("1,000 intervals of 10 ms, spread evenly, on a current-thread runtime; medians of interleaved rounds. "
             "Each slot is compared with a thread that sleeps as often.")
    origin = f"{machine(report['host'])}; load average {report['load_before']} before"
    run.path("slots.md").write_text(
        f"# Slots of a group: lateness against CPU time\n\n{about} {origin}; commit {report['commit']}; "
        f"made by `scripts/results/publish.py slots`.\n\n{table}\n")
    if not run.short:
        put("slots", f"{about}\n\n{table}\n\nSource: [`slots.json`](results/{run.name}/slots.json). {origin}.")
        index(run.name, [(f"`{run.name}`", "slots.md")], report["host"], "`scripts/results/publish.py slots`")


def counts(run):
    report = run.load("counts.json")
    rows = ["| Period | Intervals | `OsInterval` p50 | CPU | a timer each p50 | CPU | `sleep_until` p50 | CPU | `tokio::time::Interval` p50 | CPU |",
            "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|"]
    for row in report["counts"]:
        cells = [f"{format_long_time(row[name]['p50_ns'])} | {row[name]['core_percent']:.1f} %"
                 for name in ("shared", "own", "sleep_until", "tokio")]
        rows.append(f"| {format_time(row['period_us'] * 1000)} | {row['count']:,} | {' | '.join(cells)} |")
    first = report["counts"][0]
    about = (f"Intervals in tasks of one current-thread runtime, in phases without order; lateness at the median and CPU time as a share "
             f"of a core; medians of {first['rounds']} interleaved rounds.")
    origin = f"{machine(report['host'])}; load average {report['load_before']} before"
    if report["is_real_time"]:
        origin += ", so the program ran at real-time priority (`chrt -f 20`)"
    table = join_rows(*rows)
    run.path("counts.md").write_text(
        f"# One to ten thousand intervals\n\n{about} {origin}; commit {report['commit']}; "
        f"made by `scripts/results/publish.py counts`.\n\n{table}\n")
    if not run.short:
        put("counts", f"{about}\n\n{table}\n\nSource: [`counts.json`](results/{run.name}/counts.json). {origin}.")
        index(run.name, [(f"`{run.name}`", "counts.md")], report["host"], "`scripts/results/publish.py counts`")


def find(run):
    found, directory = run.load("find.json"), f"results/{run.name}"
    # The answer, the verdict on the machine and the table; the file has the rest.
    answer, table, *_ = run.report_output("find.json").split("\n\n")
    run.draw("find.json", "find.svg")
    command = f"`osjitter {FIND_COMMAND}`"
    put("found periods", f"```text\n{answer}\n\n{table}\n```\n\n{picture('find/find.svg')}\n\n"
        f"Source: [`find.json`]({directory}/find.json): {command}, {machine_and_day(found)}.")
    index(run.name, [(f"`{run.name}`", "find.json")], found["host"], command)


def proof_output(run, file):
    """Returns the verdict on the machine, below the title, and the rows of a proof."""
    text = run.report_output(file)
    start = text.index("os-interval each")
    verdict = text[:start].split("\n\nMakes ticks late here")[0].partition("\n")[2].rstrip()
    return f"{verdict}\n\n{text[start:].rstrip()}"


def doctor(run):
    checkup, directory = run.load("doctor.json"), f"results/{run.name}"
    proof = proof_output(run, "doctor.json")
    put("doctor proof", f"```text\n{proof}\n```\n\nSource: [`{directory}/doctor.json`]({directory}/doctor.json). "
        f"{machine_and_day(checkup)}. "
        f"Its findings with injected handicaps: [`found.json`]({directory}/found.json).")
    index(run.name, [(f"`{run.name}`", "doctor.json"), ("found", "found.json")], checkup["host"],
          "`scripts/results/publish.py doctor`")


def settings(run):
    checkup, directory = run.load("settings.json"), f"results/{run.name}"
    proof = proof_output(run, "settings.json")
    put("proof of user settings", f"```text\n{proof}\n```\n\nSource: [`{directory}/settings.json`]({directory}/settings.json). "
        f"{machine_and_day(checkup)}.")
    index(run.name, [(f"`{run.name}`", "settings.json")], checkup["host"], "`scripts/results/publish.py settings` as root")


def functions(run):
    result = run.load("functions.json")
    rows = ["| Late in | Late ticks | Named | Named as the caller of a library | Another function | Pairs | p50 of the program |",
            "|---|--:|--:|--:|--:|--:|---|"]
    for program in result["programs"]:
        low, high = program["p50_ns"]["ci95"]
        shown = "no difference shown" if low <= 0 <= high else "higher" if low > 0 else "lower"
        counts = " | ".join(str(program[key]) for key in ("late", "named", "as_caller", "wrong", "pairs"))
        rows.append(f"| {program['program']} | {counts} | {shown}, {low / 1e3:+.0f} to {high / 1e3:+.0f} us |")
    put("late functions", "\n".join([*rows, "", f"""Each program was late in functions that are known. A tick without a name has too few samples that agree, or its function is not among
the five of the report. The last columns compare the median lateness of rounds with and without sampling. The samples cover
{min(p['coverage'] for p in result['programs']):.0%} to {max(p['coverage'] for p in result['programs']):.0%} of the lateness, at a load average of {result['load average'][0]:.0f}. Source:
[`functions.json`](results/{run.name}/functions.json), by `scripts/results/publish.py functions`. {machine(result['host'])}."""]))
    index(run.name, [(f"`{run.name}`", "functions.json")], result["host"], "`scripts/results/publish.py functions`")


def flight(run):
    result = run.load("flight.json")
    switch_ns = int(re.search(r"(\d+) ns of CPU time per switch", result["scope"])[1])
    cores, size, difference = result["cores"]["recording"], result["bytes"], result["p50_difference_ns"]
    causes = {"queue": "a busy thread with a higher priority", "stopped": "a stopped process", "quota": "a quota that was used up"}
    by_cause = ", ".join(f"{causes[cause]} {named} of {stalls}" for cause, (named, stalls) in result["by kind"].items())
    for_service, busy_threads = result["named for the service"]
    low, high = difference["ci95"]
    shown = "no difference" if low <= 0 <= high else "a difference"
    put("flight records", f"""The records named the cause of {result['named']} of {result['stalls']} stalls that were made on purpose in {result['minutes']:.0f} minutes:
{by_cause}. For the loop of another
program, they named {for_service} of {busy_threads} busy threads.

- A recorded switch cost {switch_ns / 1e3:.2f} us of CPU time. Recording took {100 * cores:.2f} % of a core, at {cores * 1e9 / switch_ns:.0f} switches per second, and
  {result['memory_bytes'] / 1e6:.1f} MB of memory.
- A file had {size['median'] / 1e3:.0f} kB at the median and {size['largest'] / 1e3:.0f} kB at most.
- {difference['pairs']} pairs of runs, with and without the recording, show {shown} in the median lateness of `os-interval` at 1 ms: the 95 %
  interval is {low / 1e3:+.1f} us to {high / 1e3:+.1f} us.

Source: [`flight.json`](results/{run.name}/flight.json). {machine(result['host'])}.""")
    index(run.name, [(f"`{run.name}`", "flight.json")], result["host"], "`scripts/results/publish.py flight` as root")


def osinterval(run):
    """Writes the table that the README of osinterval links; no page shows it."""
    report, time = run.load("peers-osinterval.json"), format_rounded_time
    lines = ["# osinterval and other crates", "",
             f"On {report['machine']}, one run, interleaved; made by `scripts/results/publish.py osinterval`.", "",
             "| System calls per tick at 1 ms | |", "|---|---|"]
    lines += [f"| {name} | {calls:.2f} |" for name, calls in report["syscalls_per_tick_1ms"].items()]

    lines += ["", "| CPU per tick at 500 us | ours | theirs | ratio, median of pairs | quartiles |",
              "|---|---|---|---|---|"]
    for name, cpu in report["cpu_per_tick_500us"].items():
        low, high = cpu["ratio_quartiles"]
        lines.append(f"| {name} | {time(cpu['ours_ns'])} | {time(cpu['theirs_ns'])} | {cpu['ratio_median']:.2f} | "
                     f"{low:.2f} to {high:.2f} |")

    lateness = report["lateness_100us"]
    lines += ["", "| Lateness at 100 us, p50 of the median round | |", "|---|---|"]
    for name in ("OsInterval", "PeriodicInterval", "tokio_osinterval", "tokio_hrtime", "async_timer"):
        if f"{name}_p50_ns" in lateness:
            lines.append(f"| {name} | {time(lateness[f'{name}_p50_ns'])} |")
    lines.append(f"| OsInterval against the best of the others | {lateness['ratio_to_the_better_median']:.2f} |")

    precise = report["precise_500us"]
    lines += ["", f"| Precise mode at 500 us, median of {precise['rounds_kept']} rounds of {precise['rounds_tried']} "
              "| p50 | p90 | of one core |", "|---|---|---|---|"]
    for name, row in precise.items():
        # If no round was kept, the machine was never quiet enough.
        if isinstance(row, dict) and precise["rounds_kept"]:
            lines.append(f"| {name} | {time(row['p50_ns'])} | {time(row['p90_ns'])} | {row['core_percent']:.1f} % |")

    neighbour = report.get("neighbour_of_500us", {"rounds": 0})
    if neighbour["rounds"]:
        lines += ["", f"| An OsInterval of 510 us on one worker, median of {neighbour['rounds']} rounds | p50 | p90 | p99 |",
                  "|---|---|---|---|"]
    for name, row in neighbour.items():
        if isinstance(row, dict):
            lines.append(f"| {name} | {time(row['p50_ns'])} | {time(row['p90_ns'])} | {time(row['p99_ns'])} |")

    for phases in ("spread", "one phase"):
        lines += ["", f"| 1,000 intervals of 10 ms, {phases} | CPU per tick | against tokio | lateness p50 | p99 |",
                  "|---|---|---|---|---|"]
        lines += [f"| {name} | {row['cpu_ns_per_tick']:.0f} ns | {row['cpu_against_tokio']:.2f} | {time(row['p50_ns'])} "
                  f"| {time(row['p99_ns'])} |" for name, row in report["crowd_1000_at_10ms"][phases].items()]

    lines += ["", "| 10,000 intervals under a limit of 1,024 descriptors | |", "|---|---|"]
    lines += [f"| {name} | {row.get('error') or 'lateness p50 ' + time(row['p50_ns'])} |"
              for name, row in report["crowd_10000_under_1024_descriptors"].items()]
    run.path("peers-osinterval.md").write_text(join_rows(*lines) + "\n")
    put_totals(run, report)


def put_totals(run, report):
    """Writes how long a number of ticks takes into the README of osinterval."""
    labels = {"os-interval": "`OsInterval`", "os-interval-precise": "`OsInterval`, precise", "periodic-interval": "`PeriodicInterval`",
              "tokio-osinterval": "`tokio_osinterval::OsInterval`", "tokio-interval": "`tokio::time::Interval`"}
    totals = report["totals"]
    heads = [f"{row['ticks']} ticks of {format_time(row['period_ns'])}" for row in totals]
    ideal = [f"{row['ticks'] * row['period_ns'] / 1e6:.2f} ms" for row in totals]
    rows = [f"| {label} | {' | '.join(f'{row[name]:.2f} ms' for row in totals)} |" for name, label in labels.items()]
    table = join_rows(f"| | {' | '.join(heads)} |", "|---|" + "---:|" * len(totals), f"| without lateness | {' | '.join(ideal)} |", *rows)
    put("interval totals", f"""All intervals keep their schedule, so that a run is only as late as its last tick:

{table}

Medians of {totals[0]["rounds"]} interleaved rounds: {report['machine']}. System calls per tick, CPU time, crowds of intervals and
the precise mode compared with other crates: [`peers-osinterval.md`](results/{run.name}/peers-osinterval.md), made from
[`peers-osinterval.json`](results/{run.name}/peers-osinterval.json).""")
    index(run.name, [(f"`{run.name}`", "peers-osinterval.md")], this_machine(), "`scripts/results/publish.py osinterval`")


def nearest_rank(ordered, q):
    return ordered[max(1, math.ceil(q * len(ordered) - 1e-9)) - 1]


def format_ratio(rounds, base, key):
    """Returns the median and the quartiles of the ratios of rounds that were measured next to each other."""
    ratios = sorted(a[key] / b[key] for a, b in zip(rounds, base))
    low, middle, high = (nearest_rank(ratios, q) for q in (0.25, 0.5, 0.75))
    return f"{middle:.2f} [{low:.2f}, {high:.2f}]"


RUNTIME_SETTINGS = {
    "current_thread, enable_all": "`new_current_thread`, `enable_all`", "current_thread, again": "the same again",
    "enable_io": "`enable_io`, without `enable_time`", "event_interval 1": "`event_interval(1)`; 61 is the default",
    "event_interval 10": "`event_interval(10)`", "event_interval 1024": "`event_interval(1024)`",
    "global_queue_interval 1": "`global_queue_interval(1)`", "multi_thread, 1 worker": "`new_multi_thread`, one worker",
    "multi_thread, 2 workers": "`new_multi_thread`, two workers"}
STEPS = {"nanosleep": "a thread in `clock_nanosleep`", "epoll": "a thread with a timerfd in `epoll_wait`",
         "AsyncFd": "a task with a timerfd in an `AsyncFd`", "own timer": "`OsInterval` with `IntervalTimer::Own`",
         "current_thread, enable_all": "`OsInterval`", "current_thread, again": "`OsInterval`, again"}


def median_of_rounds(rounds, key):
    return format_rounded_time(nearest_rank(sorted(each[key] for each in rounds), 0.5))


def tokio_turn(run):
    report = run.load("tokio-turn.json")
    quick, slow, busy = (report[part] for part in ("idle_500us", "idle_10ms", "busy_500us"))
    steps = ["| every 500 us | p50 | ratio | CPU per tick | ratio | every 10 ms: p50 | ratio | CPU per tick | ratio |", "|---|" + "---:|" * 8]
    for name, label in STEPS.items():
        cells = [cell for rounds in (quick, slow) for key in ("p50_ns", "cpu_ns_per_tick")
                 for cell in (median_of_rounds(rounds[name], key), format_ratio(rounds[name], rounds["nanosleep"], key))]
        steps.append(f"| {label} | {' | '.join(cells)} |")
    settings = ["| Runtime of the `OsInterval`, every 500 us | idle: p50 | CPU per tick | CPU to the first row | busy: p50 | p90 | cores |", "|---|" + "---:|" * 6]
    for name, label in RUNTIME_SETTINGS.items():
        cells = [median_of_rounds(quick[name], "p50_ns"), median_of_rounds(quick[name], "cpu_ns_per_tick"),
                 format_ratio(quick[name], quick["current_thread, enable_all"], "cpu_ns_per_tick"),
                 *(median_of_rounds(busy[name], key) for key in ("p50_ns", "p90_ns")),
                 f"{nearest_rank(sorted(each['cpu_ns_per_tick'] for each in busy[name]), 0.5) / 500_000:.1f}"]
        settings.append(f"| {label} | {' | '.join(cells)} |")
    steps, settings = join_rows(*steps), join_rows(*settings)
    if run.short:
        return print(steps, settings, sep="\n\n")
    counts = ", ".join(f"{len(next(iter(rounds.values())))}" for rounds in (quick, slow, busy))
    source = f"""Medians of {counts} rounds every 500 us, every 10 ms and busy, with a real-time priority; ratios are medians of the ratios in one round, with quartiles. Source:
[`tokio-turn.json`](results/{run.name}/tokio-turn.json). {machine(report['host'])}, {report['date']}."""
    put("tokio turn", f"{steps}\n\n{source}")
    put("tokio settings", f"{settings}\n\n{source}")
    index(run.name, [(f"`{run.name}`", "tokio-turn.json")], report["host"], "`scripts/results/publish.py tokio-turn`")


def tokio_unstable(run):
    """Writes a table that no page shows."""
    report = run.load("tokio-unstable.json")
    found = report["tokio_unstable"]
    lines = [f"# tokio {report['tokio']} behind `tokio_unstable`", "",
             f"`tokio::time::Interval` on {found['threads']} threads, medians of {found['rounds']} rounds, interleaved. "
             f"On {report['machine']}; made by `scripts/results/publish.py tokio-unstable`.", "",
             "| Period | runtime | lateness p50 | p90 | p99 | CPU per tick |", "|---|---|---|---|---|---|"]
    for period, variants in found.items():
        if isinstance(variants, dict):
            for name, row in variants.items():
                cells = [format_long_time(row[key]) for key in ("p50_ns", "p90_ns", "p99_ns", "cpu_ns_per_tick")]
                lines.append(f"| {period} | {name} | {' | '.join(cells)} |")
    run.path("tokio-unstable.md").write_text(join_rows(*lines) + "\n")
