//! Tests of the cost of programs, by a program that counts the CPU time that its ticks use.
#![cfg(target_os = "linux")]
#![allow(clippy::disallowed_methods, reason = "the program makes its own deadlines")]

use std::io::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use engine::machine::os::thread_cpu_ns;
use files::file::File as _;
use files::report::{Report, Status, Subject};

use crate::osjitter::{Osjitter, Ran};

/// CPU time that a recorded tick uses.
const BURNT: Duration = Duration::from_millis(5);
/// Factor by which everything else uses more: the start, a tick of the warm-up, the end.
const OUTSIDE_FACTOR: u32 = 6;
const PERIOD: Duration = Duration::from_millis(25);
const TICKS: u64 = 6;
const WARMUP: u64 = 2;
const ROUNDS: u64 = 3;
/// Names the file to which the program appends the CPU time of each round.
const ENV_BURNT: &str = "PROGRAM_COST_BURNT";
/// Selects a variant of the program.
const ENV_VARIANT: &str = "PROGRAM_COST_VARIANT";

/// Uses CPU time on this thread. Returns how much, as the thread itself counts it.
fn burn(cpu_time: Duration) -> u64 {
    let before = thread_cpu_ns().unwrap();
    loop {
        let burnt_ns = thread_cpu_ns().unwrap() - before;
        if u128::from(burnt_ns) >= cpu_time.as_nanos() {
            return burnt_ns;
        }
    }
}

/// Runs a round of the program with a number of ticks. Returns the CPU time of the ticks between
/// the first and the last recorded one.
fn burn_round(ticks: u64) -> u64 {
    burn(BURNT * OUTSIDE_FACTOR);
    let mut meter = tickmeter::Meter::register("burner", PERIOD).unwrap();
    let mut deadline = Instant::now() + PERIOD;
    let mut burnt_ns = 0;
    for k in 0..ticks {
        std::thread::sleep(deadline.saturating_duration_since(Instant::now()));
        meter.tick(deadline);
        deadline += PERIOD;
        if k < WARMUP || k + 1 == ticks {
            burn(BURNT * OUTSIDE_FACTOR);
        } else {
            burnt_ns += burn(BURNT);
        }
    }
    burnt_ns
}

/// The program of these tests.
#[test]
#[ignore = "runs as a process of other tests"]
fn burner() {
    let Some(path) = std::env::var_os(ENV_BURNT) else { return };
    let variant = std::env::var(ENV_VARIANT).unwrap();
    let mut log = std::fs::OpenOptions::new().append(true).create(true).open(path).unwrap();
    let mut run_round = |ticks: u64| writeln!(log, "{ticks} {}", burn_round(ticks)).unwrap();
    if variant == "child" {
        assert!(std::process::Command::new("true").status().unwrap().success());
    }
    if variant == "session" {
        return tickmeter::rounds().for_each(|round| run_round(round.ticks()));
    }
    let number = |name| std::env::var(name).unwrap().parse::<u64>().unwrap();
    run_round(number("OSJITTER_TICKS") + number("OSJITTER_WARMUP"));
}

/// A run of the program.
struct MeasuredBurner {
    report: Report,
    /// CPU time of the recorded ticks but one of all rounds, as the program counted it.
    burnt_ns: u64,
}

impl MeasuredBurner {
    /// Measures the program, which the words before it start.
    fn run(variant: &str, before: &[&str]) -> Self {
        let home = tempfile::tempdir().unwrap();
        let log = home.path().join("burnt");
        let program = std::env::current_exe().unwrap();
        let args = ["--exact", "program_cost::burner", "--ignored", "--nocapture"];
        let words = before.iter().copied().chain([program.to_str().unwrap()]).chain(args);
        let command = shlex::try_join(words).unwrap();
        let ran = measure(&command, |osjitter| {
            osjitter
                .env(ENV_BURNT, &log)
                .env(ENV_VARIANT, variant)
                .env("TICKMETER_DIR", home.path())
        });
        let report = Report::from_json(&ran.exits(0).stdout).unwrap();
        let burnt_ns = burnt_in_rounds_ns(&log);
        Self { report, burnt_ns }
    }

    fn subject(&self) -> &Subject {
        self.report.subjects.iter().find(|subject| subject.name != "nanosleep").unwrap()
    }

    fn warns(&self) -> bool {
        self.report.warnings.iter().any(|warning| warning.code == "command-window")
    }
}

fn measure(command: &str, adjust: impl FnOnce(Osjitter) -> Osjitter) -> Ran {
    let ticks = (TICKS * ROUNDS).to_string();
    let (round_ticks, warmup) = (TICKS.to_string(), WARMUP.to_string());
    let osjitter = Osjitter::new(["run", "--subject", "nanosleep", "--command", command])
        .args(["--period", "25ms", "--ticks", &ticks, "--max-start-time", "60s"])
        .args(["--round-ticks", &round_ticks, "--warmup", &warmup, "--format", "json"])
        .out("");
    adjust(osjitter).run()
}

/// Adds up the CPU time of the rounds, without the runs of a single tick.
fn burnt_in_rounds_ns(log: &Path) -> u64 {
    let text = std::fs::read_to_string(log).unwrap();
    let (mut rounds, mut sum_ns) = (0, 0);
    for line in text.lines() {
        let (ticks, burnt_ns) = line.split_once(' ').unwrap();
        if ticks == (TICKS + WARMUP).to_string() {
            sum_ns += burnt_ns.parse::<u64>().unwrap();
            rounds += 1;
        }
    }
    assert_eq!(rounds, ROUNDS, "{text}");
    sum_ns
}

/// Returns a run of the program in which the CPU time that it counts is found within 2 %, and this
/// CPU time.
fn find_cost(variant: &str) -> (MeasuredBurner, u64) {
    let mut costs = Vec::new();
    // A hypervisor may charge the time that it took to the moments around a tick.
    for _ in 0..10 {
        let measured = MeasuredBurner::run(variant, &[]);
        let rounds = &measured.subject().rounds;
        let cost_ns: u64 = rounds.iter().map(|round| round.cpu_ns.unwrap()).sum();
        let ratio = cost_ns as f64 / measured.burnt_ns as f64;
        assert!(ratio >= 1.0, "{variant}: {ratio}");
        if ratio <= 1.02 {
            return (measured, cost_ns);
        }
        costs.push(ratio);
    }
    panic!("{variant}: {costs:?}");
}

/// A program can be started for each round or once.
#[test]
fn program_cost_is_that_of_ticks() {
    for variant in ["process", "session"] {
        let (measured, cost_ns) = find_cost(variant);
        let subject = measured.subject();
        for round in &subject.rounds {
            assert_eq!(round.cost_ticks, Some(TICKS - 1), "{variant}");
            let period_ns = PERIOD.as_nanos() as i64;
            let late = |n: usize| round.lateness_ns[n];
            let window_ns = period_ns * (TICKS as i64 - 1) + late(TICKS as usize - 1) - late(0);
            assert_eq!(round.cost_window_ns, u64::try_from(window_ns).ok(), "{variant}");
        }
        let summary = subject.summary.as_ref().unwrap();
        let per_tick = summary.cpu_ns_per_tick.unwrap();
        let ticks = (ROUNDS * (TICKS - 1)) as f64;
        assert!((per_tick * ticks - cost_ns as f64).abs() < 1.0, "{variant}: {per_tick}");
        assert!(summary.core_share.is_some() && !measured.warns(), "{variant}");
    }
}

/// A program that does not run in the process that ticks, or that had other processes, is measured
/// from outside, with its warm-up.
#[test]
fn several_processes_are_measured_outside() {
    for (variant, before) in
        [("process", &["sh", "-c", "\"$0\" \"$@\"; exit $?"][..]), ("child", &[])]
    {
        let measured = MeasuredBurner::run(variant, before);
        let subject = measured.subject();
        for round in &subject.rounds {
            assert_eq!(round.cost_window_ns, None, "{variant}");
            assert_eq!(round.cost_ticks, Some(TICKS + WARMUP - 1), "{variant}");
        }
        assert_eq!(subject.summary.as_ref().unwrap().core_share, None);
        let cost_ns = subject.rounds.iter().map(|round| round.cpu_ns).sum::<Option<u64>>();
        // The warm-up is a part of the cost, unless it is unknown because of the start.
        let warmup_ns = ROUNDS * (WARMUP - 1) * (BURNT * OUTSIDE_FACTOR).as_nanos() as u64;
        assert!(cost_ns.is_none_or(|ns| ns > measured.burnt_ns + warmup_ns / 2), "{cost_ns:?}");
        // A start that was delayed can exceed the cost of some rounds only.
        let is_partly_known = subject.rounds.iter().any(|round| round.cpu_ns.is_some());
        assert_eq!(measured.warns(), is_partly_known, "{variant}");
    }
}

#[test]
fn impossible_usage_is_an_error() {
    let script = "{ echo \"osjitter.series/1 period_ns=$OSJITTER_PERIOD_NS\"; \
        i=0; while [ $i -lt $OSJITTER_TICKS ]; do echo 1000; i=$((i + 1)); done; \
        echo \"usage process=$$ cpu_ns=3600000000000\"; } >\"$OSJITTER_OUT\"";
    let command = shlex::try_join(["sh", "-c", script]).unwrap();
    let ran = measure(&command, |osjitter| osjitter).exits(4);
    let report = Report::from_json(&ran.stdout).unwrap();
    let failed = report.subjects.iter().find_map(|subject| match &subject.status {
        Status::Failed { reason } => Some(reason),
        _ => None,
    });
    assert!(failed.unwrap().contains("wrote a CPU time of "), "{failed:?}");
}
