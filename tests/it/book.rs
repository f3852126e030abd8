//! Runs the commands and programs that the book and the README show, in a directory that has the
//! files of a user.
#![cfg(unix)]
#![allow(clippy::print_stdout, reason = "names the commands that run")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;
use tickmeter::ENV_DIRECTORY;

use crate::docs::markdown_in;
use crate::osjitter::{Osjitter, gated_loop, has_program, write_executable};
use crate::workspace::{crates, root};

/// A fenced block of a page.
struct Block {
    page: String,
    language: String,
    text: String,
}

/// Returns the fenced blocks of the README and of all pages, in order.
fn blocks() -> Vec<Block> {
    let mut pages = markdown_in(&root().join("docs/src"));
    pages.push(root().join("README.md"));
    pages.sort();
    pages.iter().flat_map(|page| blocks_of_page(page)).collect()
}

fn blocks_of_page(path: &Path) -> Vec<Block> {
    let text = fs::read_to_string(path).expect("a page");
    let page = path.file_name().expect("a name").to_string_lossy().into_owned();
    let (mut blocks, mut current) = (Vec::new(), None);
    for line in text.lines() {
        match (line.strip_prefix("```"), &mut current) {
            (Some(language), None) => {
                let (page, language) = (page.clone(), language.to_owned());
                current = Some(Block { page, language, text: String::new() });
            }
            (Some(_), _) => blocks.extend(current.take()),
            (None, Some(block)) => block.text += &format!("{line}\n"),
            (None, None) => {}
        }
    }
    assert!(current.is_none(), "{page}: a block has no end");
    blocks
}

fn blocks_in(page: &str, language: &str) -> Vec<Block> {
    let mut blocks = blocks();
    blocks.retain(|block| block.page == page && block.language == language);
    blocks
}

/// Languages of blocks, with the test that covers them.
const LANGUAGES: [(&str, &str); 11] = [
    ("c", "here: the writers are built and run"),
    ("go", "here, if the machine has it"),
    ("js", "here, if the machine has it"),
    ("python", "here, if the machine has it"),
    ("sh", "here: all commands are run, except for those of NOT_RUN"),
    ("toml", "here: osjitter parses them"),
    ("rust", "readme.rs: they are examples"),
    ("rust,ignore", "here: they are parts of examples"),
    ("diff", "none: old code is on the left"),
    ("yaml", "commands.rs: the commands in them are parsed"),
    ("text", "none: it is output"),
];

#[test]
fn languages_of_blocks_are_tested() {
    for Block { page, language, text } in blocks() {
        let is_known = LANGUAGES.iter().any(|(known, _)| *known == language);
        assert!(is_known, "{page}: no test covers the language {language:?} of\n{text}");
    }
}

#[test]
fn parts_of_programs_are_in_examples() {
    if !root().join("lib").is_dir() {
        return; // A published package has no examples of libraries.
    }
    let directories = crates().into_iter().chain([root().to_owned()]);
    let entries = directories.flat_map(|path| fs::read_dir(path.join("examples"))).flatten();
    let sources =
        entries.filter_map(|entry| fs::read_to_string(entry.expect("a file").path()).ok());
    let without_indents =
        |text: &str| text.lines().map(str::trim_start).collect::<Vec<_>>().join("\n");
    let examples: Vec<String> = sources.map(|text| without_indents(&text)).collect();
    for Block { page, language, text } in blocks() {
        let part = without_indents(&text);
        let is_in_example = examples.iter().any(|example| example.contains(&part));
        assert!(language != "rust,ignore" || is_in_example, "{page}: no example has\n{text}");
    }
}

/// A program of the book that can be started.
struct Program {
    language: String,
    command: Vec<String>,
}

/// Writes the first program of each language in a page to a directory, and builds it if necessary.
/// Leaves out the languages that the machine does not have.
fn build_programs(page: &str, directory: &Path) -> Vec<Program> {
    let mut programs = Vec::new();
    for language in ["c", "python", "go", "js"] {
        let block = blocks_in(page, language).into_iter().next();
        let block = block.unwrap_or_else(|| panic!("{page} has no program in {language}"));
        if let Some(command) = build_program(&block, directory) {
            programs.push(Program { language: language.to_owned(), command });
        }
    }
    programs
}

fn build_program(block: &Block, directory: &Path) -> Option<Vec<String>> {
    let path = |name: &str| directory.join(name).to_str().expect("UTF-8").to_owned();
    let write = |name: &str| {
        fs::write(path(name), &block.text).expect("a temporary directory");
        path(name)
    };
    let build = |command: &mut Command| {
        let built = command.current_dir(directory).env("GO111MODULE", "off").output();
        let built = built.expect("the compiler starts");
        let errors = String::from_utf8_lossy(&built.stderr).into_owned();
        assert!(built.status.success() && errors.is_empty(), "{}: {errors}", block.page);
    };
    match block.language.as_str() {
        "c" if has_program("cc", "--version") => {
            let (source, program) = (write("program.c"), path("c-program"));
            build(Command::new("cc").args(["-O2", "-Wall", "-Wextra", "-o", &program, &source]));
            Some(vec![program])
        }
        "go" if has_program("go", "version") => {
            let (source, program) = (write("program.go"), path("go-program"));
            build(Command::new("go").args(["build", "-o", &program, &source]));
            Some(vec![program])
        }
        "python" if has_program("python3", "--version") => {
            Some(vec!["python3".to_owned(), write("program.py")])
        }
        "js" if has_program("node", "--version") => {
            Some(vec!["node".to_owned(), write("program.mjs")])
        }
        _ => None,
    }
}

fn check_series(program: &Program) {
    const TICKS: u64 = 60;
    let ran = Osjitter::new(["run", "--period", "5ms", "--ticks", &TICKS.to_string()])
        .args(["--subject", "nanosleep", "--format", "json", "--max-start-time", "60s"])
        .out("run")
        .args(["--"])
        .args(&program.command)
        .run()
        .exits(0);
    let report: Value = serde_json::from_str(&ran.stdout).expect("a report");
    let subjects = report["subjects"].as_array().expect("subjects");
    let measured = subjects.iter().find(|subject| subject["name"] != "nanosleep").expect("program");
    assert_eq!(measured["period_ns"], 5_000_000, "{}", program.language);
    assert_eq!(measured["summary"]["ticks"], TICKS, "{}: {measured:#}", program.language);
    assert_eq!(measured["summary"]["early"], 0, "{}", program.language);
}

#[test]
fn series_of_all_languages_are_read() {
    let home = tempfile::tempdir().expect("a temporary directory");
    let programs = build_programs("series.md", home.path());
    programs.iter().for_each(check_series);
    assert!(!programs.is_empty(), "the machine has a C compiler");
}

/// Runs a program next to the control, and returns its subject in the report and the table. On a busy
/// machine, the settings may be read before the program makes them, or not at all: the run is repeated
/// until they are as expected.
#[cfg(target_os = "linux")]
fn measure_settings(command: &[String], is_expected: impl Fn(&Value) -> bool) -> (Value, String) {
    const ATTEMPTS: usize = 20;
    let mut last = None;
    for _ in 0..ATTEMPTS {
        let (subject, table) = measure_once(command);
        if !subject["settings"].is_null() && is_expected(&subject) {
            return (subject, table);
        }
        last = Some(subject);
    }
    panic!("other settings: {last:#?}");
}

#[cfg(target_os = "linux")]
fn measure_once(command: &[String]) -> (Value, String) {
    let home = tempfile::tempdir().expect("a temporary directory");
    let file = home.path().join("out/report.json");
    let out = home.path().join("out");
    let ran = Osjitter::new(["run", "--period", "1ms", "--ticks", "60"])
        .args(["--subject", "nanosleep", "--max-start-time", "60s", "--out"])
        .args([out.to_str().expect("UTF-8"), "--"])
        .args(command)
        .run()
        .exits(0);
    let report = fs::read_to_string(file).expect("a report");
    let report: Value = serde_json::from_str(&report).expect("a report");
    let subjects = report["subjects"].as_array().expect("subjects");
    let measured = subjects.iter().find(|subject| subject["name"] != "nanosleep").expect("program");
    // Lines are wrapped.
    (measured.clone(), ran.stdout.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// Whether a subject of a report differs from the control in its timer slack.
#[cfg(target_os = "linux")]
fn differs_in_slack(subject: &Value) -> bool {
    let differences = subject["settings"]["differences"].as_array().expect("settings");
    differences.iter().any(|difference| difference["setting"] == "timer-slack")
}

#[cfg(target_os = "linux")]
#[test]
fn timer_slack_of_programs_is_stated() {
    let home = tempfile::tempdir().expect("a temporary directory");
    let mut block = blocks_in("series.md", "c").into_iter().next().expect("a program in C");
    let Some(program) = build_program(&block, home.path()) else { return };
    // Reading that of another process needs a capability.
    let slack = |subject: &Value| subject["settings"]["threads"][0]["timer_slack_ns"].clone();
    let is_one_or_unknown = |subject: &Value| slack(subject).is_null() || slack(subject) == 1;
    let (subject, table) = measure_settings(&program, is_one_or_unknown);
    let own: u64 = fs::read_to_string("/proc/self/timerslack_ns")
        .expect("this process has a timer slack")
        .trim()
        .parse()
        .expect("a number");
    if !slack(&subject).is_null() {
        assert!(!differs_in_slack(&subject) && !table.contains("timer slack of"), "{table}");
    }
    assert_eq!(subject["settings"]["initial_timer_slack_ns"], own, "{subject:#}");
    let without_call = block.text.lines().filter(|line| !line.contains("PR_SET_TIMERSLACK"));
    block.text = without_call.collect::<Vec<_>>().join("\n") + "\n";
    let program = build_program(&block, home.path()).expect("a C compiler");
    let (subject, table) =
        measure_settings(&program, |subject| own <= 1_000 || differs_in_slack(subject));
    if own > 1_000 {
        assert!(table.contains("timer slack of c-program: "), "{table}");
        assert!(table.contains("prctl(PR_SET_TIMERSLACK, 1)"), "{table}");
    }
    // A shell that waits for the program is not the loop.
    let script = format!("{}; true", program[0]);
    let in_shell = ["sh".to_owned(), "-c".to_owned(), script];
    let threads = &subject["settings"]["threads"];
    measure_settings(&in_shell, |subject| subject["settings"]["threads"] == *threads);
}

#[cfg(target_os = "linux")]
#[test]
fn unequal_settings_of_programs_are_warned() {
    const ATTEMPTS: usize = 10;
    let home = tempfile::tempdir().expect("a temporary directory");
    let block = blocks_in("series.md", "c").into_iter().next().expect("a program in C");
    let Some(program) = build_program(&block, home.path()) else { return };
    let judge = |candidate: &str| {
        let ran = Osjitter::new(["gate", "--period", "1ms", "--round-ticks", "20"])
            .args(["--max-pairs", "24", "--format", "json", "--base-cmd", &program[0]])
            .args(["--candidate-cmd", candidate])
            .out("")
            .run();
        let verdict: Value = serde_json::from_str(&ran.stdout).expect("a verdict");
        let warnings = verdict["warnings"].as_array().expect("warnings").clone();
        let is_unequal = |warning: &&Value| warning["code"] == "unequal-settings";
        warnings.iter().find(is_unequal).map(|warning| warning["message"].to_string())
    };
    assert_eq!(judge(&program[0]), None);
    // On a busy machine, the settings may not be read during the short run of the programs.
    let nicer = format!("nice -n 5 {}", program[0]);
    let found = (0..ATTEMPTS).find_map(|_| judge(&nicer)).expect("a warning");
    assert!(found.contains("Nice value of nice -n 5"), "{found}");
}

/// A process that is killed when this is dropped.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs `osjitter top`, which watches the meters of a directory for a second.
fn meters(directory: &Path) -> Value {
    let ran = Osjitter::new(["top", "--once", "--window", "1s", "--format", "json"])
        .env(ENV_DIRECTORY, directory)
        .run()
        .exits(0);
    let mut top: Value = serde_json::from_str(&ran.stdout).expect("JSON");
    top["meters"].take()
}

/// Waits until a meter is shown that has ticked.
fn wait_for_meter(directory: &Path) -> Value {
    const MAX_ATTEMPTS: usize = 1_000;
    for _ in 0..MAX_ATTEMPTS {
        let meters = meters(directory);
        let meter = &meters[0];
        if meter["total"]["ticks"].as_u64() > Some(0) {
            return meter.clone();
        }
    }
    panic!("no meter has ticked");
}

fn check_meter(program: &Program) {
    let home = tempfile::tempdir().expect("a temporary directory");
    let directory = home.path().join("meters");
    let mut command = Command::new(&program.command[0]);
    let child = command.args(&program.command[1..]).env(ENV_DIRECTORY, &directory).spawn();
    let process = Killed(child.expect("the program starts"));
    let meter = wait_for_meter(&directory);
    let language = &program.language;
    let name = if language == "js" { "node" } else { language };
    assert_eq!(meter["meter"], format!("{name}-loop"), "{meter:#}");
    assert_eq!(meter["pid"], process.0.id(), "{language}");
    assert_eq!(meter["period_ns"], 10_000_000, "{language}");
    assert_eq!(meter["total"]["early"], 0, "{language}");
    drop(process);
    assert_eq!(meters(&directory), serde_json::json!([]), "{language}: the process has ended");
}

#[cfg(target_os = "linux")]
#[test]
fn meters_of_all_languages_are_shown() {
    let home = tempfile::tempdir().expect("a temporary directory");
    let programs = build_programs("meter-memory.md", home.path());
    programs.iter().for_each(check_meter);
    assert!(!programs.is_empty(), "the machine has a C compiler");
}

/// Runs a Python program of the book with lines as its input.
fn run_python(block: &Block, arguments: &[&str], input: &str, variables: &[(&str, &str)]) {
    let home = tempfile::tempdir().expect("a temporary directory");
    let (program, lines) = (home.path().join("program.py"), home.path().join("input"));
    fs::write(&program, &block.text).expect("a temporary directory");
    fs::write(&lines, input).expect("a temporary directory");
    let mut command = Command::new("python3");
    command.arg(&program).args(arguments).envs(variables.iter().copied());
    command.stdin(fs::File::open(&lines).expect("a file"));
    let ran = command.output().expect("Python starts");
    assert!(ran.status.success(), "{}: {}", block.page, String::from_utf8_lossy(&ran.stderr));
}

#[test]
fn bins_of_the_example_are_read() {
    if !has_program("python3", "--version") {
        return;
    }
    let home = tempfile::tempdir().expect("a temporary directory");
    let name = home.path().join("hour");
    let block = &blocks_in("bins.md", "python")[0];
    let values = "-5\n0\n255\n256\n257\n1000000\n20000000\n";
    run_python(block, &[name.to_str().expect("UTF-8")], values, &[]);
    let ran = Osjitter::new(["report", "hour.bins.csv", "--format", "json"])
        .directory(home.path())
        .run()
        .exits(0);
    let report: Value = serde_json::from_str(&ran.stdout).expect("a report");
    let summary = &report["subjects"][0]["summary"];
    assert_eq!(report["subjects"][0]["name"], "control-loop");
    assert_eq!(summary["ticks"], 7);
    assert_eq!((&summary["missed"], &summary["early"]), (&1.into(), &1.into()), "{summary:#}");
}

#[test]
fn python_programs_write_valid_series() {
    if !has_program("python3", "--version") {
        return;
    }
    for page in ["measuring.md", "gate.md"] {
        for block in blocks_in(page, "python") {
            let out = tempfile::NamedTempFile::new().expect("a temporary file");
            let path = out.path().to_str().expect("UTF-8");
            let mut variables = vec![("OSJITTER_OUT", path)];
            let numbers = [("TICKS", "20"), ("WARMUP", "2"), ("PERIOD_NS", "1000000")];
            let names = numbers.map(|(name, value)| (format!("OSJITTER_{name}"), value));
            variables.extend(names.iter().map(|(name, value)| (name.as_str(), *value)));
            run_python(&block, &[], "", &variables);
            let series = fs::read(path).expect("a series");
            let has_ticks = jitterstat::series::Reader::read(&series[..])
                .is_ok_and(|series| series.lateness_ns.len() == 20);
            let metrics = jitterstat::series::metrics(&series[..]).expect("a series");
            assert!(has_ticks || !metrics.is_empty(), "{page}: {}", block.text);
        }
    }
}

/// Whether a block of TOML is for cargo.
fn is_manifest(text: &str) -> bool {
    text.contains("dependencies]")
}

#[test]
fn plans_and_settings_are_valid() {
    let home = tempfile::tempdir().expect("a temporary directory");
    let file = home.path().join("file.toml");
    for Block { page, language, text } in blocks() {
        if language != "toml" {
            continue;
        }
        fs::write(&file, &text).expect("a temporary directory");
        let path = file.to_str().expect("UTF-8");
        if is_manifest(&text) {
            text.parse::<toml::Table>().unwrap_or_else(|error| panic!("{page}: {error}"));
        } else if text.contains("[[scenario]]") {
            Osjitter::new(["run", "--plan", path, "--print-plan"]).run().exits(0);
        } else {
            for command in ["run", "gate", "monitor"] {
                let args = [command, "--config", path, "--print-config"];
                Osjitter::new(args).run().exits(0);
            }
        }
    }
}

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
    ("osjitter monitor", "it runs until it is stopped: monitor.rs"),
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
    [calibrate]\nmax-time = \"20s\"\n[doctor]\nmax-time = \"1m\"\n";

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
    }

    fn run_line(&self, line: &str) -> Output {
        let binary = Path::new(env!("CARGO_BIN_EXE_osjitter"));
        let path = format!(
            "{}:{}",
            binary.parent().expect("a directory").display(),
            std::env::var("PATH").expect("a search path")
        );
        let mut command = Command::new("sh");
        command.args(["-c", line]).current_dir(self.home.path()).env("PATH", path);
        command.env_remove("OSJITTER_CONFIG").stdin(Stdio::null()).output().expect("a shell")
    }

    /// Runs a line of the book, and describes its failure. A gate may find a difference or break a
    /// limit.
    fn find_failure(&self, page: &str, line: &str) -> Option<String> {
        let ran = self.run_line(line);
        let is_judged = line.contains("osjitter gate") || line.contains("--break");
        if ran.status.success() || (is_judged && ran.status.code() == Some(1)) {
            return None;
        }
        let errors = String::from_utf8_lossy(&ran.stderr);
        Some(format!("{page}: {line}\n{}: {errors}", ran.status))
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
