//! Tests of the programs of the book, in all languages.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use tickmeter::ENV_DIRECTORY;

use super::{Block, blocks_in};
use crate::osjitter::Osjitter;
#[cfg(target_os = "linux")]
use crate::osjitter::one_line;
use crate::process_control::KilledOnDrop;
use crate::test_programs::has_program;

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

/// Returns the subject of a report that is not the control.
fn take_program(report: &mut Value) -> Value {
    let mut subjects = report["subjects"].as_array_mut().expect("subjects").iter_mut();
    let program = subjects.find(|subject| subject["name"] != "nanosleep");
    program.expect("a program").take()
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
    let mut report: Value = serde_json::from_str(&ran.stdout).expect("a report");
    let measured = take_program(&mut report);
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

/// Runs a program next to the control, and returns its subject in the report and the table. On a
/// busy machine, the settings may be read before the program makes them, or not at all: the run is
/// repeated until they are as expected.
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
    let ran = Osjitter::new(["run", "--period", "1ms", "--ticks", "60"])
        .args(["--subject", "nanosleep", "--max-start-time", "60s"])
        .out("")
        .args(["--"])
        .args(command)
        .run()
        .exits(0);
    let mut report = ran.json("report.json");
    (take_program(&mut report), one_line(&ran.stdout))
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
        let unequal = warnings.iter().filter(|warning| warning["code"] == "unequal-settings");
        unequal.map(|warning| warning["message"].to_string()).collect::<Vec<_>>()
    };
    // On a busy machine, the settings of a short run may be read too early, or not at all.
    for message in judge(&program[0]) {
        assert!(
            message.to_lowercase().contains("timer slack"),
            "the settings of one program are equal: {message}"
        );
    }
    let nicer = format!("nice -n 5 {}", program[0]);
    let is_warned = (0..ATTEMPTS)
        .any(|_| judge(&nicer).iter().any(|message| message.contains("Nice value of nice -n 5")));
    assert!(is_warned, "the nice values are not equal");
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
    let process = KilledOnDrop(child.expect("the program starts"));
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
    let report = Osjitter::new(["report", "hour.bins.csv", "--format", "json"]);
    let ran = report.directory(home.path()).run().exits(0);
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
