"""Runs the tests of published packages as published, and again with our crates in place of what they use.

    dropin.py DIRECTORY [PACKAGE]...

`dropin.toml` lists the packages. In DIRECTORY, a package named tokio re-exports the real one with osinterval's timers, and cargo
patches it into each package that has no edits. A test that passes as published and not with ours is repeated alone on both sides. If
it never passes with ours, it must be in `dropin-differences.txt`.

Exits with 1 if a difference is not listed, and with 77 if no package could be tested.
"""
import argparse
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tomllib

from run import SourceError, run_program

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
REPETITIONS = 3
SHIM = """//! tokio with osinterval's timers.
pub use real::*;

pub mod time {
    pub use osinterval::{
        MissedTickBehavior, OsInterval as Interval, Sleep, Timeout, interval, interval_at, sleep, sleep_until, timeout, timeout_at,
    };
    pub use real::time::*;

    pub mod error {
        pub use osinterval::Elapsed;
        pub use real::time::error::*;
    }
}
"""


def published_package(directory, name, version):
    """Returns the directory of the source that cargo downloads."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "lib.rs").touch()
    manifest = f'[package]\nname = "download"\nedition = "2024"\n[lib]\npath = "lib.rs"\n[workspace]\n[dependencies]\n{name} = "={version}"\n'
    (directory / "Cargo.toml").write_text(manifest)
    done = subprocess.run(["cargo", "metadata", "--format-version", "1"], cwd=directory, capture_output=True, text=True)
    if done.returncode != 0:
        raise SourceError(f"cargo cannot download {name} {version}: {done.stderr.strip()}")
    packages = json.loads(done.stdout)["packages"]
    return next(pathlib.Path(package["manifest_path"]).parent for package in packages if package["name"] == name)


def without_tests(manifest):
    """Returns a published manifest without its tests and their dependencies."""
    sections = re.split(r"^(?=\[)", manifest, flags=re.MULTILINE)
    return "".join(section for section in sections if not re.match(r"\[\[test\]\]|\[.*dev-dependencies", section))


def public_features(manifest):
    """Returns the features of a package, including those that an optional dependency implies."""
    tables = [manifest, *manifest.get("target", {}).values()]
    dependencies = [item for table in tables for item in table.get("dependencies", {}).items()]
    optional = {name for name, entry in dependencies if isinstance(entry, dict) and entry.get("optional")}
    named = {entry for entries in manifest["features"].values() for entry in entries}
    return sorted(set(manifest["features"]) | {name for name in optional if f"dep:{name}" not in named})


def make_shim(directory, tokio):
    """Creates a package named tokio of the same version and features: the real one, with osinterval's timers."""
    shutil.rmtree(directory, ignore_errors=True)
    shutil.copytree(tokio, directory / "real", ignore=shutil.ignore_patterns("tests"))
    text = (tokio / "Cargo.toml").read_text()
    manifest = tomllib.loads(text)
    renamed = without_tests(text).replace('name = "tokio"', 'name = "real-tokio"', 1)
    (directory / "real/Cargo.toml").write_text(renamed)
    for crate in ("osinterval", "cadence"):
        shutil.copytree(ROOT / "lib" / crate, directory / crate)
    features = "".join(
        f'{name} = ["real/{name}"]\n' if name != "default" else "default = []\n" for name in public_features(manifest)
    )
    # The copies inherit from a workspace in which tokio is the real one.
    ours = (ROOT / "Cargo.toml").read_text()
    inherited = ours[ours.index("[workspace.package]") : ours.index("\n[package]\n")]
    inherited = re.sub(r"^tokio = .*", 'tokio = { package = "real-tokio", path = "real", default-features = false }', inherited, flags=re.MULTILINE)
    inherited = inherited.replace('path = "lib/cadence"', 'path = "cadence"')
    (directory / "Cargo.toml").write_text(
        f"""[package]
name = "tokio"
version = "{manifest["package"]["version"]}"
edition = "2024"
[features]
{features}
[dependencies]
osinterval = {{ path = "osinterval" }}
real = {{ package = "real-tokio", path = "real" }}
[workspace]
members = ["real", "osinterval", "cadence"]
{inherited}"""
    )
    (directory / "src").mkdir()
    (directory / "src/lib.rs").write_text(SHIM)


def copy_package(source, directory, edits, dependencies):
    """Copies a package, edits it and adds crates of ours to its dependencies."""
    shutil.rmtree(directory, ignore_errors=True)
    shutil.copytree(source, directory, ignore=shutil.ignore_patterns("Cargo.lock"))
    manifest = directory / "Cargo.toml"
    text = manifest.read_text() + "\n[workspace]\n"
    for package, name in dependencies.items():
        text += f'[dependencies.{name}]\npackage = "{package}"\npath = "{ROOT / "lib" / name}"\n'
    manifest.write_text(text)
    for edit in edits:
        path = directory / edit["file"]
        original = path.read_text()
        if edit["text"] not in original:
            raise SourceError(f"{edit['file']} does not contain {edit['text']!r}")
        path.write_text(original.replace(edit["text"], edit["replacement"]))


def build_programs(directory, suite, patch):
    """Returns the paths of a package's test programs by name."""
    features = ["--features", ",".join(suite["features"])] if "features" in suite else []
    features += [] if suite.get("default-features", True) else ["--no-default-features"]
    command = ["cargo", "test", "--no-run", "--lib", "--tests", *features, *patch, "--message-format", "json-render-diagnostics"]
    environment = os.environ | {"RUSTFLAGS": "--cap-lints allow"}
    done = subprocess.run(command, cwd=directory, env=environment, stdout=subprocess.PIPE, check=True)
    messages = map(json.loads, done.stdout.splitlines())
    return {message["target"]["name"]: message["executable"] for message in messages if message.get("executable")}


def run_tests(programs, directory):
    """Returns the outcome of each test by program and name."""
    return {(name, test): outcome for name, path in programs.items() for test, outcome in run_program(path, directory).items()}


def count_passes(program, test, directory):
    command = [program, "--exact", test, "--test-threads", "1"]
    passes = 0
    for _ in range(REPETITIONS):
        try:
            passes += subprocess.run(command, cwd=directory, capture_output=True, timeout=60).returncode == 0
        except subprocess.TimeoutExpired:
            pass
    return passes


def compare(name, suite, directory, shim):
    """Runs a package's tests on both sides. Returns the counts of passed tests, and the tests that never pass with ours."""
    source = published_package(directory / "download" / name, name, suite["version"])
    published, edited = directory / name / "published", directory / name / "ours"
    copy_package(source, published, [], {})
    copy_package(source, edited, suite.get("edits", []), suite.get("dependencies", {}))
    published_programs = build_programs(published, suite, [])
    shutil.copy(published / "Cargo.lock", edited)  # the same versions of all dependencies
    patch = [] if "edits" in suite else ["--config", f'patch.crates-io.tokio.path="{shim}"']
    our_programs = build_programs(edited, suite, patch)
    base = run_tests(published_programs, published)
    ours = run_tests(our_programs, edited)
    differences = {}
    for (program, test), outcome in ours.items():
        if outcome == "ok" or base.get((program, test)) != "ok":
            continue
        passes = count_passes(our_programs[program], test, edited)
        base_passes = count_passes(published_programs[program], test, published)
        print(f"{program}::{test}: alone, {passes} of {REPETITIONS} pass with ours, {base_passes} as published")
        if passes == 0 and base_passes > 0:
            differences[f"{program}::{test}"] = outcome
    missing = sorted("::".join(key) for key in base.keys() - ours.keys())
    differences |= {test: "was not built" for test in missing}
    return list(base.values()).count("ok"), list(ours.values()).count("ok"), len(base), differences


def main():
    parser = argparse.ArgumentParser(description="Runs tests of published packages with our timers or clocks.")
    parser.add_argument("directory", type=pathlib.Path, help="directory in which the tests are built")
    parser.add_argument("packages", nargs="*", metavar="PACKAGE", help="packages of dropin.toml [default: all]")
    arguments = parser.parse_args()
    suites = tomllib.loads((HERE / "dropin.toml").read_text())
    for name in arguments.packages:
        if name not in suites:
            parser.error(f"unknown package '{name}'")
    listed = [line.split(maxsplit=2) for line in (HERE / "dropin-differences.txt").read_text().splitlines() if not line.startswith("#")]
    directory = arguments.directory.resolve()
    os.environ.setdefault("CARGO_TARGET_DIR", str(directory / "target"))
    lock = tomllib.loads((ROOT / "Cargo.lock").read_text())
    version = next(package["version"] for package in lock["package"] if package["name"] == "tokio")
    make_shim(directory / "shim", published_package(directory / "download/tokio", "tokio", version))

    rows, violations = [], []
    for name in arguments.packages or suites:
        print(f"-- {name}", flush=True)
        try:
            base, ours, total, differences = compare(name, suites[name], directory, directory / "shim")
            row = f"{total:>5} tests, {base} pass as published, {ours} with ours, {len(differences)} differ"
            allowed = {test for package, test, _ in listed if package == name}
            violations += [f"{name}: {test}: {outcome}, and not listed" for test, outcome in differences.items() if test not in allowed]
            violations += [f"{name}: {test} is listed, but does not differ" for test in allowed - differences.keys()]
        except (OSError, SourceError) as error:
            row = f" not run: {error}"
        except subprocess.CalledProcessError as error:
            row = f" failed: {error}"
            violations.append(f"{name}: {error}")
        rows.append(f"{name:<28}{row}")
        print(rows[-1], flush=True)
    print("", *rows, *(f"error: {text}" for text in violations), sep="\n")
    if violations:
        sys.exit(1)
    sys.exit(77 if all("not run" in row for row in rows) else 0)


if __name__ == "__main__":
    main()
