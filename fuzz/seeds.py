#!/usr/bin/env python3
"""Creates the seeds of fuzz/corpus, so that fuzzers start from valid files: fixtures, committed results and scripted runs of osjitter.

    fuzz/seeds.py [OSJITTER]      [default: target/debug/osjitter]

Seeds are small: lists are shortened to the minimum that the reader accepts. Finds of the fuzzers (find-*) are kept.
"""

import base64
import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import zlib

ROOT = pathlib.Path(__file__).resolve().parent.parent
CORPUS = ROOT / "fuzz/corpus"
FIXTURES = ROOT / "tests/fixtures"
OSJITTER = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "target/debug/osjitter").resolve()
# Mutations of a larger seed find little.
MAX_SEED_BYTES = 36 << 10


def osjitter(*arguments, codes=(0,), **environment):
    completed = subprocess.run([OSJITTER, *map(str, arguments)], capture_output=True, env={**os.environ, **environment})
    if completed.returncode not in codes:
        sys.exit(f"osjitter {' '.join(map(str, arguments))}: {completed.stderr.decode()}")
    return completed.stdout


def write_seed(target, name, content):
    file = CORPUS / target / name
    file.parent.mkdir(parents=True, exist_ok=True)
    content = content.encode() if isinstance(content, str) else content
    if len(content) > MAX_SEED_BYTES:
        sys.exit(f"{target}/{name} has {len(content)} bytes, expected at most {MAX_SEED_BYTES}")
    file.write_bytes(content)


def perf_record(kind, body):
    return struct.pack("=IHH", kind, 0, 8 + len(body)) + body


def sample_id(at_ns, thread, cpu=0):
    return struct.pack("=IIQII", 10, thread, at_ns, cpu, 0)


def tracepoint_record(at_ns, thread, event, *words):
    """Returns a record of a tracepoint in the format of src/fuzz/trace.rs."""
    raw = struct.pack(f"=HHI{len(words)}Q", 100 + event, 0, 0, *words)
    return perf_record(9, sample_id(at_ns, thread) + struct.pack("=I", len(raw)) + raw)


def sleeps(n):
    """Returns the ring of a thread that sleeps until each millisecond; every fifth record is lost."""
    ring = perf_record(7, struct.pack("=4IQ", 10, 10, 12, 11, 5) + sample_id(5, 11))
    ring += perf_record(3, struct.pack("=II8s", 10, 12, b"a loop") + sample_id(6, 12))
    for i in range(1, n + 1):
        due = 1_000_000 * i
        ring += tracepoint_record(due - 900_000, 11, 0, 230) + tracepoint_record(due - 890_000, 11, 2, 7, 2, due, due + 50_000)
        ring += tracepoint_record(due - 880_000, 11, 7, 1, 99, 0x676F68)
        ring += tracepoint_record(due + 20_000, 99, 4, 7, 2, due + 19_000) + tracepoint_record(due + 21_000, 99, 6, 11)
        ring += tracepoint_record(due + 22_000, 99, 5, 7) + tracepoint_record(due + 60_000, 99, 7, 0, 11, 0x706F6F6C)
        ring += tracepoint_record(due + 62_000, 11, 1, 230)
        if i % 5 == 0:
            ring += perf_record(2, struct.pack("=QQ", 1, 3) + sample_id(due + 63_000, 0))
    return ring


def timerfds(n):
    """Returns the ring of a thread that sets a timerfd and is busy when it expires."""
    ring = b""
    for i in range(1, n + 1):
        due = 1_000_000 * i
        ring += tracepoint_record(due - 900_000, 11, 2, 7, 1, due, due) + tracepoint_record(due + 5_000, 11, 4, 7, 1, due + 4_000)
        ring += tracepoint_record(due + 6_000, 11, 5, 7)
        if i % 2:
            ring += tracepoint_record(due + 50_000, 11, 0, 232) + tracepoint_record(due + 51_000, 11, 1, 232)
    return ring


# The innermost function is inlined, so that its name is in the debugging information only.
STACK_PROGRAM = """
static inline __attribute__((always_inline)) int inner(int n) { return n * 3 + 1; }
__attribute__((noinline)) int middle(volatile int *n) { int sum = 0; while (*n > 0) { sum += inner(*n); --*n; } return sum; }
void _start(void) { volatile int n = 9; middle(&n); for (;;) {} }
"""


def sampled_stacks(directory, *flags):
    """Returns the mapped file, the ring and the program of a sampled stack, in the format of src/fuzz/stacks.rs."""
    source, program = directory / "stack.c", directory / "stack"
    source.write_text(STACK_PROGRAM)
    command = ["cc", "-O1", "-nostdlib", "-static", "-Wl,--build-id=none", "-Wl,-z,noseparate-code", *flags, "-o", program, source]
    subprocess.run(command, check=True)
    symbols = subprocess.run(["nm", program], capture_output=True, text=True, check=True).stdout
    addresses = {line.split()[2]: int(line.split()[0], 16) for line in symbols.splitlines()}
    maps = f"{0x400000:x}-{0x410000:x} r-xp 00000000 fe:00 12 /bin/a\n\n".encode()
    stack = struct.pack("=2Q", 0, addresses["_start"] + 12) + bytes(48)
    ring = b""
    for at in (8, 16):
        ids = struct.pack("=IIQII", 10, 11, 1_000 * at, 0, 0)
        registers = struct.pack("=4Q", 2, 0x7FFF0010, 0x7FFF0000, addresses["middle"] + at)
        ring += perf_record(9, ids + registers + struct.pack("=Q", len(stack)) + stack + struct.pack("=Q", len(stack)))
    return maps + struct.pack("<H", len(ring)) + ring + program.read_bytes()


def is_accepted(text, directory):
    """Returns whether `osjitter report` reads a file with this text."""
    file = directory / "candidate.json"
    file.write_text(text)
    return subprocess.run([OSJITTER, "report", "--format", "json", file], capture_output=True).returncode == 0


def nested_lists(value):
    """Yields every list in a value, outer ones first."""
    if isinstance(value, list):
        yield value
    for part in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from nested_lists(part)


def shorten(text, directory):
    """Shortens the lists of a file as far as `osjitter report` still accepts it."""
    value = json.loads(text)
    for keep in (1, 2):
        for part in list(nested_lists(value)):
            original = part[:]
            del part[keep:]
            if len(original) > keep and not is_accepted(json.dumps(value), directory):
                part[:] = original
    return json.dumps(value, separators=(",", ":"))


def meter_file(bits, bins, records, words):
    """Returns the file of a meter in the layout of lib/tickmeter/src/layout.rs."""
    header = [0] * 64
    work, recorder = 64 + bins, 64 + 2 * bins
    length = recorder + records * 8
    header[0] = struct.unpack("=Q", b"tickmetr")[0]
    header[1:11] = [1, length * 8, bits, 64, bins, work, bins, recorder, records, 8]
    header[11:17] = [4242, 1_700_000_000_000_000_000, 1_000_000, 250_000, 30, 4]
    header[17] = struct.unpack("=Q", b"loop\0\0\0\0")[0]
    header[25:27] = [3, struct.unpack("=Q", b"app\0\0\0\0\0")[0]]
    body = [0] * (length - 64)
    for index, value in words.items():
        if index < 64:
            header[index] = value
        else:
            body[index - 64] = value
    return struct.pack(f"={length}Q", *header, *body)


def main():
    for old in CORPUS.glob("*/*"):
        if not old.name.startswith("find-"):
            old.unlink()
    with tempfile.TemporaryDirectory() as temporary:
        write_seeds(pathlib.Path(temporary))


def write_seeds(home):
    lateness = [14_000, 15_250, 13_500, 980_000, 0, -40, 7]
    script = {"lateness_ns": lateness, "cpu_ns_per_tick": 9_000, "switches_per_tick": 2, "steal_ns": 0,
              "run_queue_ns": 0, "until_unpark_ns": [9_000, None]}
    script_with_gaps = {**script, "lateness_ns": [1_200_000, 600_000, 14_000], "skipped": [4], "coalesced": [6, 7]}
    script_file = home / "script.json"
    script_file.write_text(json.dumps({"scripted": script, "scripted-b": script_with_gaps, "nanosleep": script}))
    scripted = {"OSJITTER_SCRIPT": str(script_file)}

    # Reports and their exports.
    run = ["run", "--quiet", "--format", "json", "--seed", 7, "--ticks", 24, "--round-ticks", 8, "--warmup", 1]
    both = ["--subject", "scripted", "--subject", "scripted-b"]
    report = osjitter(*run, *both, "--out", home / "run", **scripted)
    no_samples = osjitter(*run, "--subject", "scripted", "--no-samples", "--out", home / "alone", **scripted)
    why = shorten((ROOT / "results/2026-11-21-xeon-kvm-2cpu-why/report.json").read_text(), home)
    for target in ("report", "runs", "plan"):
        write_seed(target, "two.json", report)
    write_seed("report", "no-samples.json", no_samples)
    for name in ("why",) if len(why) <= MAX_SEED_BYTES else ():
        write_seed("report", f"{name}.json", why)
    rounds = osjitter("run", "--quiet", "--format", "json", "--seed", 7, "--ticks", 48, "--round-ticks", 6, "--warmup",
                      1, *both, "--out", home / "rounds", **scripted)
    write_seed("runs", "rounds.json", rounds)
    for format, target in (("hlog", "hlog"), ("cyclictest-json", "cyclictest")):
        write_seed(target, "ours", osjitter("report", home / "run/report.json", "--format", format))
    write_seed("hgrm", "ours", osjitter("report", home / "run/report.json", "--format", "hgrm", "--subject", "scripted"))
    osjitter("report", home / "run/report.json", "--format", "bins", "--host", "a", "--label", "rack=r7", "--out",
             home / "rows.bins.csv")
    for cells in ("bins", "intervals"):
        write_seed("bins", f"{cells}.csv", (home / f"rows.{cells}.csv").read_bytes())
    write_seed("plan", "matrix.toml", 'schema = "osjitter.plan/1"\n[run]\nseed = 5\nsched = "fifo:10"\ncpu = 0\nmlock = true\n'
        'timer-slack = "50us"\nwhy-threshold = "300us"\n[defaults]\nticks = 70\nperiod = "2ms"\n[[scenario]]\n'
        'subject = ["spin", "tokio-*"]\nperiod = ["250us", "1ms"]\nload = ["none", "cpu:2", "tasks:10x50us"]\n'
        '[[scenario]]\nsubject = "tokio-sleep"\nruntime = "multi-thread:3"\ninstances = 2\nduration = "1.5s"\n')
    write_seed("plan", "printed.toml", osjitter("run", "--print-plan", "--seed", 7))

    # Files of other tools.
    for name, target in (("cyclictest.json", "cyclictest"), ("cyclictest-ns.json", "cyclictest"),
                         ("cyclictest-no-bins.json", "cyclictest"), ("oslat.json", "oslat"),
                         ("jitterdebugger.json", "jitterdebugger"), ("rtla-timerlat.txt", "rtla"),
                         ("hwlatdetect.txt", "hwlatdetect"), ("python.hlog", "hlog"),
                         ("formats/cyclictest-hist.txt", "cyclictest_text"),
                         ("formats/cyclictest-thread-without-a-cycle-nan.json", "cyclictest"),
                         ("formats/oslat-2.10-quiet-core.json", "oslat"),
                         ("formats/rtla-osnoise-avg-decimals.txt", "rtla"), ("formats/rtla-osnoise-empty-new.txt", "rtla"),
                         ("formats/java-1.2.1.hlog", "hlog"), ("formats/java-2.1.6.hlog", "hlog"),
                         ("formats/java-tags.hlog", "hlog"), ("formats/js-2.0.3.hlog", "hlog"),
                         ("formats/c-end-timestamps.hlog", "hlog"), ("formats/cut-off.hlog", "hlog"),
                         ("formats/java-coarse.hlog", "hlog"), ("formats/ycsb-0.17.hlog", "hlog"),
                         ("formats/java-2.2.2.hgrm", "hgrm"), ("formats/c-0.11.8-csv.hgrm", "hgrm"), ("formats/go-1.4.0.hgrm", "hgrm"),
                         ("formats/cyclictest-2.4-verbose.txt", "cyclictest_text"),
                         ("formats/cyclictest-2.4-quiet-ns.txt", "cyclictest_text"), ("formats/oslat-2.4.txt", "oslat_text"),
                         ("formats/oslat-2.6-narrow.txt", "oslat_text"), ("formats/hwlatdetect-2.10.txt", "hwlatdetect"),
                         ("formats/rtla-5.17-osnoise.txt", "rtla"), ("formats/rtla-6.12-timerlat-ns.txt", "rtla"),
                         ("formats/wrk2-rounded.txt", "hgrm"), ("formats/vegeta-12-hdrplot.txt", "hgrm"),
                         ("formats/java-logged-without-footer.hgrm", "hgrm"),
                         ("formats/bpftrace-hist.txt", "bpftrace"), ("formats/xenomai-3-latency.txt", "xenomai"),
                         ("formats/xenomai-3-latency-histogram.txt", "xenomai")):
        write_seed(target, pathlib.Path(name).name, (FIXTURES / name).read_bytes())
    write_seed("cyclictest_text", "lines", "T: 0 ( 1233) P:99 I:1000 C:    999 Min:      5 Act:   7 Avg:    8 Max:     300\n")
    write_seed("oslat_text", "summary", "oslat V 2.60\n\n        Core:\t 0 1\nCounter Freq:\t 2100 2100 (Mhz)\n  0.500 (us):\t 900 1000\n"
        "  1.000 (us):\t 90 0\n    ...\n 16.000 (us):\t 10 4 (including overflows)\n     Minimum:\t 0.038 0.040 (us)\n"
        "     Average:\t 1.402 1.300 (us)\n     Maximum:\t 60.012 15.500 (us)\n     Max-Min:\t 59.974 15.460 (us)\n"
        "    Duration:\t 0.999 0.998 (sec)\n")
    write_seed("hwlatdetect", "module", "1503508231.0541325243\t16\t0\n1503508240.0041325243\t12\t345\n")
    write_seed("jitterdebugger", "first", '{"cpu": {"3": {"histogram": {"7": 900, "8": 99}, "count": 1000, "min": 7, "max": 1090, "avg": 8.18}, '
        '"4": {"histogram": {}, "count": 0, "min": 4294967295, "max": 0, "avg": -nan}}}')
    write_seed("oslat", "narrow", '{"rt_test_version:": "2.6", "thread": {"0": {"cpu": 1, "freq": 2100, "min": 38, "avg": 0.731, '
        '"max": 12340, "histogram": {"0.500": 5000, "1.000": 4000, "12.500": 7}}}}')
    for version in ("1.2.1", "2.1.6", "2.2.2"):
        line = (FIXTURES / f"formats/java-{version}.hlog").read_text().splitlines()[-1]
        write_seed("histogram", f"java-{version}", zlib.decompress(base64.b64decode(line.split(",")[-1])[8:]))

    # Other files of osjitter.
    write_seed("bench", "clock.json", (FIXTURES / "clock.json").read_bytes())
    for bench in ("dispatch", "timeout"):
        text = (FIXTURES / f"{bench}.json").read_text()
        write_seed("bench", f"{bench}.json", shorten(text, home))
    write_seed("verdict", "two-sides.json", (FIXTURES / "verdict.json").read_bytes())
    for name in ("flight", "breaches"):
        write_seed(name, "fixture.json", (FIXTURES / f"{name}.json").read_bytes())
    write_seed("calibration", "fixture.json", (FIXTURES / "calibration.json").read_bytes())
    runs = ["calibrate", "--quiet", "--format", "json", "--command", "sleep 0.02", "--metric", "wall", "--max-time", "3s"]
    write_seed("calibration", "runs.json", shorten(osjitter(*runs, "--out", home / "runs"), home))
    write_seed("find", "find.json", shorten((ROOT / "results/2026-11-27-epyc-kvm-2cpu-find/find.json").read_text(), home))
    for name in ("doctor", "doctor-quota"):
        text = (ROOT / f"results/2026-11-22-epyc-kvm-2cpu-doctor/{name}.json").read_text()
        write_seed("checkup", f"{name}.json", shorten(text, home))
    sides = [f"{home}/run#{name}" for name in ("scripted", "scripted-b")]
    write_seed("comparison", "paired.json", osjitter("compare", *sides, "--format", "json"))
    gate = ["gate", "--quiet", "--format", "json", "--seed", 7, "--round-ticks", 20, "--period", "1ms"]
    pairs = osjitter(*gate, "--a", "scripted", "--b", "scripted-b", "--max-pairs", 24, "--out", home / "gate",
                     codes=(0, 1, 3), **scripted)
    write_seed("verdict", "regressed.json", pairs)
    limits = osjitter("gate", "--quiet", "--format", "json", "--report", home / "run/report.json", "--subject",
                      "scripted", "--limit", "p50=200us", "--limit", "missed=0.1%", "--out", home / "limits",
                      codes=(0, 1, 3), **scripted)
    write_seed("verdict", "limits.json", limits)
    # A session of stalls would not be stored, so these ticks are calm.
    calm = {**script, "lateness_ns": [14_000, 15_250, 13_500, 16_000]}
    script_file.write_text(json.dumps({"scripted": calm, "nanosleep": calm}))
    baseline = home / "baseline.json"
    osjitter("gate", "baseline", "add", baseline, "--subject", "scripted", "--period", "1ms", "--round-ticks", 20,
             "--max-pairs", 24, "--seed", 7, "--quiet", **scripted)
    write_seed("baseline", "session.json", baseline.read_bytes())
    write_seed("series", "ticks", "osjitter.series/1 period_ns=500000\n" + "".join(f"{ns}\n" for ns in lateness))
    times = [f"{ns} {9 * 10**12 + 500_000 * k + ns}" for k, ns in enumerate(lateness)]
    write_seed("series", "times", "\n".join(["osjitter.series/1 period_ns=500000", *times, ""]))
    write_seed("series", "waits", "\n".join(["osjitter.series/1 period_ns=500000", *(f"{tick} {7 * k}" for k, tick in enumerate(times)), ""]))
    write_seed("series", "metrics", "osjitter.series/1\nmetric rate req/s higher\nmetric size bytes lower\nrate 4.82e4\n"
        "size 10240\nrate 1\n")
    write_seed("series", "both", "osjitter.series/1 period_ns=500\nmetric x ns lower\n7\nx 12.5\n-8\n")

    # Outputs of benchmarks.
    outputs = ROOT / "lib/internal/engine/src/measure/benches/fixtures"
    for name in sorted(path.name for path in outputs.iterdir()):
        write_seed("bench_output", name, (outputs / name).read_bytes())

    # Arguments.
    write_seed("argument", "durations", "500us\n2.5ms\n1h\n.5s\n0.5 µs\n1m\n18446744073ns\n")
    write_seed("argument", "counts", "10k\n1.5M\n10_000\n2G\n7\n")
    write_seed("argument", "names", "tokio-*\nall\nmulti-thread:4\ncurrent-thread\nfifo:10\nrr:1\nother\nlatency:p99\n")
    write_seed("argument", "loads", "none\ncpu:2\ntasks:100x50us\nsh -c 'exec \"a b\"'\nsoftirq\nmemory:1\n")
    write_seed("argument", "limits", "p99=200us\njitter_spread.p99=80us\nmissed=0.1%\ncpu_ns_per_tick=9us\n"
        "drift_ppb=1ppm\nwakeups_per_tick=1.5/tick\np50=20%\n")
    write_seed("glob", "stars", "tokio-*-*\ntokio-sleep-reused")
    write_seed("glob", "marks", "?a*b?\nxaybz")
    write_seed("glob", "many", "*a*a*a*a*a*a*b\naaaaaaaaaaaaaaaaaaaaaaaa")

    # Settings and requests.
    write_seed("settings", "commands", '# defaults\n[run]\nperiod = "500us"\nticks = 1_000\nsubject = ["spin", "tokio-*"]\nwhy = true\n'
        '[gate]\nmax-time = "2m"\nlimit = ["p99=200us"]\n[monitor]\nbudget = 1.5\n[gate.baseline.add]\nseed = 0x7\n')
    write_seed("settings", "inline", "run = { no-samples = true, cpu = 0 }\nbench.clock.rounds = 3\n")
    write_seed("request", "prometheus", "GET /metrics HTTP/1.1\r\nHost: a:9891\r\nAccept: application/vnd.google.protobuf;"
        "proto=io.prometheus.client.MetricFamily;encoding=delimited;q=0.6,application/openmetrics-text;version=1.0.0;q=0.5,*/*;q=0.1\r\n\r\n")
    write_seed("request", "plain", "HEAD /?x=1 HTTP/1.0\r\n\r\n")
    write_seed("request", "two", "GET /metrics HTTP/1.1\r\naccept: text/plain;q=0.1\r\nACCEPT: text/*\r\n\r\nGET / HTTP/1.1\r\n\r\n")
    write_seed("request", "ready", "GET /-/ready HTTP/1.1\r\n\r\n")

    # Binary formats.
    write_seed("stacks", "debug", sampled_stacks(home, "-g1"))
    write_seed("stacks", "compressed", sampled_stacks(home, "-g1", "-gz=zlib"))
    write_seed("stacks", "symbols", sampled_stacks(home, "-fno-asynchronous-unwind-tables", "-fno-omit-frame-pointer"))
    write_seed("meter", "small", meter_file(2, 24, 3, {32: 3, 33: 3, 41: 900, 42: 2, 43: 500, 44: 300, 45: 1, 46: 1, 64 + 3: 2,
                                           64 + 20: 1, 88 + 9: 2, 112: 1, 113: 5_000, 114: 300_000, 115: 20, 116: 10}))
    write_seed("trace", "sleeps", sleeps(12))
    write_seed("trace", "timerfds", timerfds(12))
    write_seed("meter", "empty", meter_file(7, 8, 1, {}))
    write_seed("histogram", "three-digits", bytes.fromhex("1c849313 00000006 00000000 00000003 0000000000000001"
                                                   "0000010000000000 3ff0000000000000 020406010803".replace(" ", "")))
    # The widest bins of five digits that any implementation allows.
    write_seed("histogram", "coarse", bytes.fromhex("1c849313 00000003 00000000 00000005 0000200000000000"
                                                   "7fffffffffffffff 3ff0000000000000 020104".replace(" ", "")))
    write_seed("histogram", "promise", bytes.fromhex("1c849313ffffffff0000000000000003" + "00" * 24))
    for i, seed in enumerate((0x5EED, 0xBEEF)):
        state, values = seed, bytearray([9, 100, i, 3 * i])
        for _ in range(8 * 60):
            state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
            values.append(state >> 56)
        write_seed("gate", f"pairs-{i}", bytes(values))
    write_seed("gate", "alike", bytes([9, 100, 0, 0]) + bytes([0, 120, 0, 130] * 2) * 40)
    total = sum(file.stat().st_size for file in CORPUS.glob("*/*"))
    print(f"{sum(1 for _ in CORPUS.glob('*/*'))} files, {total >> 10} KiB")


main()
