"""Arguments, queries and output that the runners of all engines share."""
import argparse
import re
from pathlib import Path
from string import Template

HERE = Path(__file__).resolve().parent
QUESTIONS = ["percentiles", "outliers", "within", "ticks", "rollup"]
UNITS = {"ns": 1, "us": 1_000, "ms": 1_000_000, "s": 1_000_000_000}
# Columns of the two kinds of files, in order.
KEY = "host subject period_ns runtime labels start duration_ns run_id schema_version".split()
COLUMNS = {
    "bins": [*KEY, *"binning lower_ns upper_ns count".split()],
    "intervals": [*KEY, *"ticks delivered coalesced skipped missed early max_ns cpu_ns steal_ns run_queue_ns throttled_ns".split()],
}


def limit_ns(text):
    found = re.fullmatch(r"(\d+)(ns|us|ms|s)", text)
    if not found:
        raise argparse.ArgumentTypeError(f"invalid time {text!r}: expected e.g. 500us or 1ms")
    return int(found[1]) * UNITS[found[2]]


def label_key(text):
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_.-]*", text):
        raise argparse.ArgumentTypeError(f"invalid label key {text!r}: expected letters, digits, _, . or -")
    return text


def make_parser(description, path_type):
    args = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    args.add_argument("logs", type=path_type, help="directory of bins, or one NAME.bins.csv")
    args.add_argument("question", nargs="?", default="percentiles", choices=QUESTIONS)
    args.add_argument("--label", type=label_key, default="rack", help="label to group by [default: rack]")
    args.add_argument("--limit", type=limit_ns, default="1ms", help="limit of the question within [default: 1ms]")
    return args


def read_question(name):
    """Returns the SQL query of a question."""
    return (HERE / f"{name}.sql").read_text()


def read_statements(dialect, **parameters):
    """Returns the statements that create the views of a dialect."""
    # A dot is the only character of a label key with a meaning in regular expressions.
    parameters["LABEL_PATTERN"] = parameters["LABEL"].replace(".", "[.]")
    text = Template((HERE / f"open.{dialect}.sql").read_text()).substitute(parameters)
    code = "\n".join(line for line in text.splitlines() if not line.startswith("--"))
    return [statement for statement in code.split(";\n") if statement.strip()]


def print_table(names, rows):
    format_cell = lambda v: "" if v is None else f"{v:.4f}" if isinstance(v, float) else str(v)
    table = [list(names), *([format_cell(v) for v in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*table)]
    for row in table:
        print("  ".join(cell.ljust(w) if i < 3 else cell.rjust(w) for i, (cell, w) in enumerate(zip(row, widths))).rstrip())
