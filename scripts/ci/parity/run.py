"""Runs tests of other projects on our crates and compares the results with `differences.txt`.

    run.py DIRECTORY [--checkout PROJECT=PATH]... [SUITE]...

The tests come from published packages in the versions of `Cargo.toml`, or from a checkout. They are renamed and built in DIRECTORY.
A test that fails must be in the list, and a test in the list must fail.

Exits with 1 if a result is not as listed, and with 77 if no suite could be run. A suite whose source is not available is skipped.
"""
import argparse
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import logs

HERE = pathlib.Path(__file__).resolve().parent
PROGRAM_TIMEOUT_SECONDS = 300


class SourceError(Exception):
    """The tests of a suite, or a package that they need, are not available."""


class RenamedFiles:
    """Files in which patterns are replaced. Files without any of them are left out."""

    def __init__(self, project, files, replacements, cargo_arguments=()):
        self.project, self.files, self.replacements, self.cargo_arguments = project, files, replacements, cargo_arguments

    def tests(self, source):
        paths = [path for files in self.files for path in source.glob(files)]
        originals = {path.name: path.read_text() for path in paths}
        renamed = {name: self.rename(text) for name, text in originals.items()}
        return {name: text for name, text in renamed.items() if text != originals[name]}

    def rename(self, text):
        for pattern, replacement in self.replacements.items():
            text = re.sub(pattern, replacement, text)
        return text


class UnitTests:
    """Functions from the unit tests in a file, with other imports."""

    cargo_arguments = ()

    def __init__(self, project, file, names, imports):
        self.project, self.file, self.names, self.imports = project, file, names, imports

    def tests(self, source):
        text = (source / self.file).read_text()
        patterns = [rf"^( *)fn {name}\(.*?^\1}}\n" for name in self.names]
        matches = [re.search(pattern, text, re.MULTILINE | re.DOTALL) for pattern in patterns]
        functions = ["#[test]\n" + match[0] for match in matches if match]
        return {"unit_tests.rs": self.imports + "".join(functions)} if functions else {}


BLOCK_ON = r"(?<![\w.:])(?:(?:futures::)?executor::)?block_on\("
TOKIO_FILES = [f"tests/time_{name}.rs" for name in ("interval", "sleep", "timeout", "rt", "panic", "pause")]
TOKIO = ("tokio", TOKIO_FILES, {r"\btokio::time\b": "parity::time"})
# A receiver of busypoll is borrowed mutably and returns None when all senders are gone.
NEXUS = {
    r"\bnexus_(async_)?rt\b": "parity::nexus",
    r"\.child\(\)": ".child_token()",
    r", rx\) = ": ", mut rx) = ",
    r"\bOk\(_val\) =>": "Some(_val) =>",
    r"\bErr\(_\) => break": "None => break",
    r"\brecv\(\)\.await\.is_err\(\)": "recv().await.is_none()",
}
# A tick of PeriodicInterval is a struct; its count is the number of tokio-osinterval.
OSINTERVAL = {r"\btokio_osinterval::": "osinterval::", r"\biv\.tick\(\)\.await\?;": "iv.tick().await?.count;"}
SUITES = {
    "tokio": RenamedFiles(*TOKIO),
    "tokio-fallback": RenamedFiles(*TOKIO, ["--no-default-features", "--features", "conditions"]),
    "async-io": RenamedFiles("async-io", ["tests/timer.rs"], {r"\basync_io::Timer\b": "parity::Timer"}),
    "futures": RenamedFiles("futures", ["tests/*.rs"], {BLOCK_ON: "busypoll::Runtime::new().unwrap().block_on("}),
    "quanta": UnitTests(
        "quanta",
        "src/lib.rs",
        ["test_now", "test_reference_source_calibration"],
        "use average::{Merge, Variance}; use parity::quanta::*;\n",
    ),
    "minstant": UnitTests(
        "minstant",
        "src/lib.rs",
        ["test_monotonic", "test_duration"],
        "use rand::Rng; use std::time::{Duration, Instant as StdInstant}; use tach::{count as current_cycle, Instant};\n",
    ),
    "tokio-osinterval": UnitTests(
        "tokio-osinterval",
        "src/interval.rs",
        ["skip_advances_to_next_multiple", "burst_uses_period_only", "delay_uses_now_plus_period"],
        "use osinterval::MissedTickBehavior; use parity::NextDeadline; use std::time::{Duration, Instant};\n",
    ),
    "tokio-osinterval-examples": RenamedFiles("tokio-osinterval", ["examples/*.rs"], OSINTERVAL),
    "nexus-async-rt": RenamedFiles("nexus-async-rt", ["tests/cancel_fuzz.rs", "tests/channel.rs"], NEXUS),
}


def copy_crate(directory):
    """Copies the crate next to this file. Its dependencies get the versions of the project's lock file."""
    manifest = (HERE / "Cargo.toml").read_text().replace('"../../..', f'"{HERE.parents[2]}')
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "Cargo.toml").write_text(manifest)
    shutil.copy(HERE.parents[2] / "Cargo.lock", directory)
    shutil.copytree(HERE / "src", directory / "src", dirs_exist_ok=True)


def published_packages(directory):
    """Returns the directories of the packages that the crate depends on. cargo downloads them."""
    done = subprocess.run(["cargo", "metadata", "--format-version", "1"], cwd=directory, capture_output=True, text=True)
    if done.returncode != 0:
        errors = [line for line in done.stderr.splitlines() if line.startswith("error")]
        raise SourceError(f"cargo cannot download packages: {' '.join(errors)}")
    return {package["name"]: pathlib.Path(package["manifest_path"]).parent for package in json.loads(done.stdout)["packages"]}


def run_cargo_suite(suite, directory, source):
    """Builds and runs the tests of a suite. Returns the outcome of each."""
    tests = suite.tests(source)
    if not tests:
        raise SourceError(f"{source} does not contain the tests")
    shutil.rmtree(directory / "tests", ignore_errors=True)
    (directory / "tests").mkdir()
    if (source / "tests/support").is_dir():
        shutil.copytree(source / "tests/support", directory / "tests/support")
    for name, text in tests.items():
        (directory / "tests" / name).write_text(text)
    outcomes = {}
    for name, program in build_programs(directory, suite.cargo_arguments).items():
        outcomes |= {f"{name}::{test}": outcome for test, outcome in run_program(program, directory).items()}
        if "fn main()" in tests[f"{name}.rs"]:
            outcomes[f"{name}::main"] = "ok"  # an example has no tests, but was built
    return outcomes


def build_programs(directory, arguments):
    """Returns the paths of the test programs by name. Fails if one cannot be built, since the tests fit these versions."""
    command = ["cargo", "build", "--tests", "--message-format", "json-render-diagnostics", *arguments]
    environment = os.environ | {"RUSTFLAGS": "--cap-lints allow"}
    done = subprocess.run(command, cwd=directory, env=environment, stdout=subprocess.PIPE, check=True)
    messages = map(json.loads, done.stdout.splitlines())
    programs = {message["target"]["name"]: message["executable"] for message in messages if message.get("executable")}
    # The test of the crate itself checks what the suites rely on, and does not count.
    subprocess.run([programs.pop("parity"), "--quiet"], check=True)
    return programs


def run_program(program, directory):
    """Runs a test program. Returns the outcome of each test that is not ignored."""
    command = [program, "--test-threads", "2"]
    try:
        done = subprocess.run(command, cwd=directory, capture_output=True, timeout=PROGRAM_TIMEOUT_SECONDS)
        output = done.stdout
    except subprocess.TimeoutExpired as error:
        output = error.stdout or b""
    output = output.decode(errors="replace")
    print(output[output.find("failures:") :] if "failures:" in output else "", end="")
    results = dict(re.findall(r"^test (\S+)(?: - should panic)? \.\.\. (ok|FAILED|ignored)", output, re.MULTILINE))
    listing = subprocess.run([program, "--list", "--format", "terse"], capture_output=True, text=True, check=True).stdout
    names = re.findall(r"^(.+): test$", listing, re.MULTILINE)
    return {name: results.get(name, "does not end") for name in names if results.get(name) != "ignored"}


def read_differences(suite):
    """Returns the reasons of the allowed differences of a suite, by test."""
    lines = [line.split(maxsplit=2) for line in (HERE / "differences.txt").read_text().splitlines() if not line.startswith("#")]
    return {test: reason for name, test, reason in lines if name == suite}


def find_violations(suite, outcomes):
    """Returns a sentence for each result that is not as listed."""
    allowed = read_differences(suite)
    for test in outcomes:
        if outcomes[test] != "ok" and test not in allowed:
            yield f"{suite}: {test}: {outcomes[test]}, and not in differences.txt"
    for test in allowed:
        if outcomes.get(test, "ok") == "ok":
            yield f"{suite}: {test} is in differences.txt, but does not fail"


def parse_arguments():
    parser = argparse.ArgumentParser(description="Runs tests of other projects on our crates.")
    parser.add_argument("directory", type=pathlib.Path, help="directory in which the tests are built")
    parser.add_argument("--checkout", action="append", default=[], metavar="PROJECT=PATH", help="replaces a published package")
    parser.add_argument("suites", nargs="*", metavar="SUITE", help=f"{', '.join(SUITES)}, hlog [default: all]")
    arguments = parser.parse_intermixed_args()
    for suite in arguments.suites:
        if suite not in [*SUITES, "hlog"]:
            parser.error(f"unknown suite '{suite}'")
    return arguments


def run_suite(name, directory, checkouts):
    """Returns a description of the source, and the outcome of each test."""
    if name == "hlog":
        source = logs.download(directory)
        return source, logs.run(source)
    suite = SUITES[name]
    source = checkouts.get(suite.project) or published_packages(directory)[suite.project]
    nested = source / suite.project
    source = nested if (nested / "Cargo.toml").is_file() else source
    return source, run_cargo_suite(suite, directory, source)


def main():
    arguments = parse_arguments()
    checkouts = {project: pathlib.Path(path).resolve() for project, path in (text.split("=", 1) for text in arguments.checkout)}
    copy_crate(arguments.directory)
    rows, violations = [], []
    for name in arguments.suites or [*SUITES, "hlog"]:
        print(f"-- {name}", flush=True)
        try:
            source, outcomes = run_suite(name, arguments.directory, checkouts)
        except (OSError, SourceError) as error:
            rows.append(f"{name:<28}not run: {error}")
            continue
        except subprocess.CalledProcessError as error:
            violations.append(f"{name}: {error}")
            continue
        found = list(find_violations(name, outcomes))
        failed = len(outcomes) - list(outcomes.values()).count("ok")
        rows.append(f"{name:<28}{len(outcomes):>4} tests, {failed} failed, {len(found)} not as listed: {source.name}")
        violations += found
    print("", *rows, *(f"error: {text}" for text in violations), sep="\n")
    if violations:
        sys.exit(1)
    sys.exit(77 if all("not run" in row for row in rows) else 0)


if __name__ == "__main__":
    main()
