"""Interval logs from the tests of HdrHistogram's Go package, read by `osjitter report`."""
import json
import os
import pathlib
import subprocess

MODULE = "github.com/HdrHistogram/hdrhistogram-go@v1.4.0"
REPORT_TIMEOUT_SECONDS = 60


class ExpectedLog:
    """Figures of a log in HistogramLogReaderWriterTest (Java) and hdr_histogram_log_test (C).

    Those tests copy the histograms into one of three digits. Our reader keeps the wider bins of the log, and returns their highest
    values.
    """

    def __init__(self, histograms, values, *p99_9_and_maximum, digits=2, unit_ns=1):
        percentiles = [highest_of_bin(value, digits) * unit_ns for value in p99_9_and_maximum]
        self.figures = (histograms, values, *percentiles)


def highest_of_bin(value, digits):
    """Returns the highest value that a histogram with these significant digits does not distinguish from the given one."""
    bins = (2 * 10**digits - 1).bit_length()
    return value | ((1 << max(0, value.bit_length() - bins)) - 1)


EXPECTED = {
    "jHiccup-2.0.1.logV0.hlog": ExpectedLog(81, 61_256, 1_510_998_015, 1_569_718_271),
    "jHiccup-2.0.6.logV1.hlog": ExpectedLog(88, 65_964, 1_829_765_119, 1_888_485_375),
    "jHiccup-2.0.7S.logV2.hlog": ExpectedLog(62, 48_761, 1_745_879_039, 1_796_210_687),
    # Those tests do not check percentiles of this log.
    "tagged-Log.logV2.hlog": ExpectedLog(42, 32_290),
    "ycsb.logV1.hlog": ExpectedLog(602, 300_056, 1_214_463, 1_546_239, digits=3, unit_ns=1000),
}


def download(directory):
    """Downloads the module and returns its directory."""
    command = ["go", "mod", "download", "-json", MODULE]
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True)
    if done.returncode != 0:
        raise OSError(f"go cannot download {MODULE}")
    return pathlib.Path(json.loads(done.stdout)["Dir"])


def run(source):
    """Returns the outcome of each log."""
    return {path.name: read_log(path) for path in sorted(source.glob("test/*.hlog"))}


def read_log(path):
    command = [os.environ["OSJITTER"], "report", path, "--format", "json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=REPORT_TIMEOUT_SECONDS)
    if done.returncode != 0:
        return done.stderr.strip()
    subjects = json.loads(done.stdout)["subjects"]
    summaries = [subject["summary"] for subject in subjects]
    found = (
        sum(len(subject["rounds"]) for subject in subjects),
        sum(summary["ticks"] for summary in summaries),
        max(summary["lateness_ns"]["p99_9"] for summary in summaries),
        max(summary["lateness_ns"]["max"] for summary in summaries),
    )
    expected = EXPECTED[path.name].figures
    return "ok" if found[: len(expected)] == expected else f"{found}, expected {expected}"
