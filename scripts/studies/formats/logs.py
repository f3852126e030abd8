"""Writes logs and a percentile distribution with the Python HdrHistogram, and prints the values that it finds.   logs.py DIRECTORY"""
import json
import sys
from pathlib import Path

from hdrh.histogram import HdrHistogram
from hdrh.log import HistogramLogWriter

state = 7


def random(bound):
    """Returns pseudo-random numbers below a bound, the same ones in every run."""
    global state
    state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
    return (state >> 33) % bound


def fill(histogram, scale, count):
    for _ in range(count):
        histogram.record_value(scale // 2 + random(scale) + (100 * random(scale) if random(50) == 0 else 0))


out = Path(sys.argv[1])
# As the library writes by default: nanoseconds, and Interval_Max in whole milliseconds.
with open(out / "python-0.10.hlog", "w") as file:
    log = HistogramLogWriter(file)
    log.output_log_format_version()
    log.output_base_time(1_700_000_000_000)
    log.output_legend()
    for second in range(3):
        histogram = HdrHistogram(1, 3_600_000_000_000, 3)
        fill(histogram, 200_000, 300)
        histogram.set_start_time_stamp(1_000 * second)
        histogram.set_end_time_stamp(1_000 * second + 1_000)
        log.output_interval_histogram(histogram)

# Milliseconds since the epoch where seconds belong: the arguments are passed on unchanged.
with open(out / "python-millisecond-times.hlog", "w") as file:
    log = HistogramLogWriter(file)
    log.output_legend()
    for second in range(2):
        histogram = HdrHistogram(1, 3_600_000_000_000, 3)
        fill(histogram, 200_000, 300)
        start = 1_700_000_000_000 + 1_000 * second
        log.output_interval_histogram(histogram, start, start + 1_000)

# Two digits, and a lowest value of a microsecond.
with open(out / "python-2digits.hlog", "w") as file:
    log = HistogramLogWriter(file)
    log.output_log_format_version()
    log.output_base_time(1_700_000_000_000)
    log.output_legend()
    for second in range(2):
        histogram = HdrHistogram(1_000, 3_600_000_000_000, 2)
        fill(histogram, 400_000, 400)
        histogram.set_start_time_stamp(1_000 * second)
        histogram.set_end_time_stamp(1_000 * second + 1_000)
        log.output_interval_histogram(histogram)

histogram = HdrHistogram(1, 3_600_000_000_000, 3)
fill(histogram, 400_000, 5_000)
with open(out / "python-0.10.hgrm", "wb") as file:
    histogram.output_percentile_distribution(file, 1e6, 5)
percentiles = {f"p{q}": histogram.get_value_at_percentile(q) for q in (50, 90, 99)}
print(json.dumps({"name": "python-0.10.hgrm", "unit": "ms", "scale": 1_000_000, "count": histogram.get_total_count(),
                  "mean": histogram.get_mean_value(), "max": histogram.get_max_value(), **percentiles}))
