//! Tests of the command lines of the book.
#![allow(clippy::print_stdout, reason = "names the commands that run")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use super::{Block, blocks};
use crate::osjitter::Osjitter;
use crate::test_programs::{gated_loop, write_executable};
use crate::workspace::root;

/// Beginnings of lines that this test does not run, with the reason.
const NOT_RUN: [(&str, &str); 24] = [
    ("apt-get", "scripts/ci/fresh-machine.sh has a new system"),
    ("curl", "scripts/ci/fresh-machine.sh has a new system"),
    ("cargo test", "scripts/ci/tests.sh runs it"),
    ("osjitter run --period 500us --ticks 10000", "scripts/ci/release-run.sh runs it"),
    ("cargo add", "it needs the network"),
    ("cargo install", "it needs the network; scripts/ci/packages.sh builds the packages"),
    ("cargo run -p osinterval --example simulation", "a test of osinterval runs it"),
    ("fuzz/run.sh", "it runs each week"),
    ("spark-submit", "scripts/studies/fleet-spark.sh has a cluster"),
    ("python3 deploy/fleet", "scripts/ci/fleet.sh has DuckDB"),
    ("pip install", "scripts/ci/interop/notebook.py has the packages"),
    ("OSJITTER_REPORT=", "scripts/ci/interop/notebook.py runs the notebook"),
    ("osjitter run --each", "it needs the CPUs that it names: each_cpu.rs"),
    ("osjitter trace", "it needs root: trace.rs"),
    ("osjitter run --ticks 1M --break 500us --mark", "it needs root: late.rs"),
    ("osjitter run --ticks 1M --late-threshold", "it takes an hour: late.rs"),
    ("osjitter top", "it runs until it is stopped: top.rs"),
    ("osjitter monitor", "it runs until it is stopped: monitor"),
    ("osjitter gate --bench", "it needs a package of cargo: gate/benches"),
    ("osjitter gate --base-cmd 'old/target", "it needs a suite of Criterion: gate/benches"),
    ("osjitter compare monday/verdict.json", "it needs verdicts on whole runs: gate/runs"),
    (
        "osjitter gate --base-cmd ./old --candidate-cmd ./new --metric wall --calibration",
        "a small change may not be detectable: calibrate.rs",
    ),
    ("osjitter find --goal 'missed<1e-3'", "it takes a quarter of an hour: find.rs"),
    ("osjitter gate --limit 'missed<1e-4'", "it takes a minute of ticks: gate/rates.rs"),
];

/// Beginnings of lines that take long, which run each night.
const NIGHTLY: [&str; 12] = [
    "osjitter run --why",
    "osjitter run --no-config",
    "osjitter run --subject os-interval --ticks 1M --break",
    "osjitter gate --a",
    "osjitter gate --base-cmd",
    "osjitter gate --config",
    "osjitter bench",
    "osjitter calibrate",
    "osjitter find",
    "osjitter doctor --prove",
    "osjitter run --runtime multi-thread:2 --cpu 1 --duration 10s",
    "osjitter run --subject os-interval --load 'make",
];

/// Settings with which the commands of the book take seconds. A flag of the command line overrides
/// them.
const SHORT_SETTINGS: &str = "[run]\nticks = 200\n[gate]\nmax-time = \"60s\"\n[find]\nmax-time = \"100s\"\n\
    [calibrate]\nmax-time = \"60s\"\n[doctor]\nmax-time = \"1m\"\n";

/// Measures for about a second, and returns the report.
fn run_report(seed: &str) -> String {
    let subjects = ["os-interval", "tokio-interval", "nanosleep", "spin"];
    let subjects = subjects.iter().flat_map(|subject| ["--subject", subject]);
    Osjitter::new(["run", "--ticks", "1000", "--round-ticks", "50", "--format", "json"])
        .args(["--seed", seed])
        .args(subjects)
        .out("")
        .run()
        .exits(0)
        .stdout
}

/// A directory with the files that the commands of the book name.
struct Scene {
    home: tempfile::TempDir,
}

impl Scene {
    fn new() -> Self {
        let scene = Self { home: tempfile::tempdir().expect("a temporary directory") };
        scene.copy_reports();
        for fixture in ["cyclictest.json", "oslat.json"] {
            scene.copy(&format!("tests/fixtures/{fixture}"), fixture);
        }
        scene.copy("tests/fixtures/flight.json", "results/mine/flight.json");
        scene.copy("tests/fixtures/calibration.json", "calibration.json");
        scene.write("osjitter.toml", SHORT_SETTINGS);
        scene.write("ci/osjitter.toml", SHORT_SETTINGS);
        scene.write("Makefile", "all:\n\tsleep 600\n");
        scene.write_programs();
        scene
    }

    fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().expect("a directory")).expect("a temporary directory");
        fs::write(&path, text).expect("a temporary directory");
    }

    fn copy(&self, file: &str, name: &str) {
        self.write(name, &fs::read_to_string(root().join(file)).expect("a file"));
    }

    /// Stores two runs under the names that the book uses.
    fn copy_reports(&self) {
        let earlier = run_report("1");
        for name in ["results/mine/report.json", "before/report.json", "monday.json", "report.json"]
        {
            self.write(name, &earlier);
        }
        let later = run_report("2");
        self.write("after/report.json", &later);
        self.write("tuesday.json", &later);
    }

    /// Writes programs that tick if osjitter expects ticks, and otherwise use more memory than
    /// osjitter itself.
    fn write_programs(&self) {
        let ticks = gated_loop();
        let text = format!(
            "#!/bin/sh\n[ \"$OSJITTER_SERIES\" = ticks ] && exec '{}'\nhead -c 60000000 /dev/zero | tail -c 60000000 >/dev/null\n",
            ticks.display()
        );
        for name in ["my-loop", "my-service", "old", "new", "bench", "collect.sh"] {
            write_executable(&self.path(name), &text);
        }
        let script = "import os, time\ntime.sleep(0.1)\n";
        ["old.py", "new.py"].iter().for_each(|name| self.write(name, script));
        fs::create_dir(self.path("bin")).expect("a temporary directory");
        for name in ["cpupower", "sysctl", "tuned-adm"] {
            write_executable(&self.path("bin").join(name), "#!/bin/sh\nexit 0\n");
        }
    }

    /// Runs a line in the directory, without the calibration that an earlier line left there. The
    /// programs that change settings of the machine do nothing.
    fn run_line(&self, line: &str) -> Output {
        let _ = fs::remove_file(self.path("osjitter-calibration.json"));
        let binary = Path::new(env!("CARGO_BIN_EXE_osjitter"));
        let path = format!(
            "{}:{}:{}",
            self.path("bin").display(),
            binary.parent().expect("a directory").display(),
            std::env::var("PATH").expect("a search path")
        );
        let mut command = Command::new("sh");
        command.args(["-c", line]).current_dir(self.home.path()).env("PATH", path);
        command.env_remove("OSJITTER_CONFIG").stdin(Stdio::null()).output().expect("a shell")
    }

    /// Runs a line of the book, and describes its failure. A gate may find a difference or break a
    /// limit, and a machine may permit no answer.
    fn find_failure(&self, page: &str, line: &str) -> Option<String> {
        let ran = self.run_line(line);
        let errors = String::from_utf8_lossy(&ran.stderr);
        let is_judged = line.contains("osjitter gate") || line.contains("--break");
        let can_lack_answer =
            line.contains("osjitter find") || line.contains("osjitter doctor --prove");
        let is_allowed = match ran.status.code() {
            Some(0) => true,
            Some(1) => is_judged,
            Some(4) => can_lack_answer && errors.contains("No answer: "),
            _ => false,
        };
        (!is_allowed).then(|| format!("{page}: {line}\n{}: {errors}", ran.status))
    }
}

/// Runs the lines of the book that are selected, in their order.
fn check_lines(is_selected: impl Fn(&str) -> bool, min_lines: usize) {
    let scene = Scene::new();
    let (mut lines, mut failures) = (0, Vec::new());
    for (page, line) in shell_lines() {
        if is_run(&line) && is_selected(&line) {
            lines += 1;
            println!("{page}: {line}");
            failures.extend(scene.find_failure(&page, &line));
        }
    }
    assert!(failures.is_empty() && lines >= min_lines, "{lines} lines: {}", failures.join("\n"));
}

/// Returns the lines of the shell blocks with their pages, without comments.
fn shell_lines() -> Vec<(String, String)> {
    let mut lines = Vec::new();
    for Block { page, text, .. } in blocks().into_iter().filter(|block| block.language == "sh") {
        for line in text.replace("\\\n", " ").lines() {
            let line = line.replace("cargo run --release -- ", "osjitter ");
            lines.push((page.clone(), line.trim().to_owned()));
        }
    }
    lines.retain(|(_, line)| !line.is_empty());
    lines
}

fn begins_with_any<'a>(line: &str, beginnings: impl IntoIterator<Item = &'a str>) -> bool {
    beginnings.into_iter().any(|beginning| line.starts_with(beginning))
}

fn is_run(line: &str) -> bool {
    line.contains("--once") || !begins_with_any(line, NOT_RUN.map(|(beginning, _)| beginning))
}

#[test]
fn commands_of_the_book_run() {
    check_lines(|line| !begins_with_any(line, NIGHTLY), 35);
}

#[test]
fn exceptions_are_in_the_book() {
    let lines = shell_lines();
    let exceptions = NOT_RUN.iter().map(|(beginning, _)| *beginning).chain(NIGHTLY);
    for beginning in exceptions {
        let is_used = lines.iter().any(|(_, line)| line.starts_with(beginning));
        assert!(is_used, "no line of the book begins with {beginning:?}");
    }
}

mod nightly {
    use super::*;

    #[test]
    #[ignore = "takes minutes"]
    fn long_commands_of_the_book_run() {
        check_lines(|line| begins_with_any(line, NIGHTLY), 20);
    }
}
