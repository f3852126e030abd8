//! Long runs: their memory does not grow.
#![cfg(target_os = "linux")]

use std::io::{BufRead, BufReader, Lines};
use std::process::{ChildStdout, Command, Stdio};

use files::file::File as _;
use files::report::{Report, Status};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::osjitter::Osjitter;
use crate::process_control::{KilledOnDrop, send_signal};

#[test]
fn no_samples_bounds_the_kept_rounds() {
    let script = json!({ "scripted": { "lateness_ns": [14_000, 15_000, 900_000, 13_500, 14_250], "cpu_ns_per_tick": 9_000 } });
    let run = |options: &[&str]| {
        let args = [
            "run", "--subject", "scripted", "--ticks", "6k", "--round-ticks", "5", "--warmup", "0",
            "--seed", "3",
        ];
        Osjitter::new(args).args(options).script(&script).out("").run().exits(0).report()
    };
    let (drawn, complete) = (run(&["--no-samples"]), run(&[]));
    let [a, b] = [&drawn, &complete].map(|r| r.subjects[0].summary.as_ref().unwrap());
    assert_eq!((drawn.subjects[0].rounds.len(), complete.subjects[0].rounds.len()), (1_000, 1_200));
    assert!(drawn.subjects[0].rounds.windows(2).all(|w| w[0].index < w[1].index));
    assert!(
        drawn.subjects[0].rounds.last().unwrap().index > 1_000,
        "the rounds are drawn from the whole run"
    );
    assert_eq!(drawn.subjects[0].status, Status::Measured);
    assert_eq!(drawn.warnings.iter().filter(|w| w.code == "rounds-drawn").count(), 1);
    assert_eq!(
        (a.ticks, a.delivered, a.missed, a.cpu_ns_per_tick),
        (b.ticks, b.delivered, b.missed, b.cpu_ns_per_tick)
    );
    assert_eq!(
        (a.lateness_ns.min, a.lateness_ns.mean, a.lateness_ns.max),
        (13_500, b.lateness_ns.mean, 900_000)
    );
    assert!(
        (a.lateness_ns.p50.unwrap() - b.lateness_ns.p50.unwrap()).abs() <= 16,
        "equal to three digits"
    );
    assert_eq!(drawn.subjects[0].histogram, complete.subjects[0].histogram);
    assert!(!a.lateness_ns.ci95.is_empty());
}

/// A run that streams its rounds as JSON lines.
struct StreamedRun {
    child: KilledOnDrop,
    lines: Lines<BufReader<ChildStdout>>,
    home: tempfile::TempDir,
}

impl StreamedRun {
    fn start(args: &[&str]) -> Self {
        let home = tempfile::tempdir().unwrap();
        let script = home.path().join("script.json");
        std::fs::write(
            &script,
            json!({ "scripted": { "lateness_ns": [14_000, 15_000, 900_000] } }).to_string(),
        )
        .unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_osjitter"))
            .args(["run", "--no-samples", "--quiet", "--format", "jsonl", "--out"])
            .arg(home.path().join("out"))
            .args(args)
            .env("OSJITTER_SCRIPT", script)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child: KilledOnDrop(child), lines, home }
    }

    fn next_line(&mut self) -> Value {
        serde_json::from_str(&self.lines.next().expect("a line").unwrap()).unwrap()
    }

    /// Returns the peak memory of the run so far, in KiB.
    fn peak_kib(&self) -> u64 {
        let status =
            std::fs::read_to_string(format!("/proc/{}/status", self.child.0.id())).unwrap();
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("VmHWM");
        peak.trim().trim_end_matches(" kB").parse().unwrap()
    }
}

#[test]
fn memory_without_samples_does_not_grow() {
    // One more number per tick would take several times as much.
    const MAX_GROWTH_KIB: u64 = 1_024;
    for (subject, round_ticks, kept_rounds, rounds) in
        [("scripted", "100", 2_000, 6_000), ("spin", "250", 1_200, 3_000)]
    {
        let length = [
            "--subject", subject, "--period", "1us", "--ticks", "1G", "--round-ticks", round_ticks,
        ];
        let mut run = StreamedRun::start(&[&length[..], &["--warmup", "0"]].concat());
        // After these rounds, the run keeps as many as it ever does.
        (0..kept_rounds).for_each(|_| drop(run.lines.next().expect("a round")));
        let before = run.peak_kib();
        (0..rounds).for_each(|_| drop(run.lines.next().expect("a round")));
        let after = run.peak_kib();
        assert!(
            after <= before + MAX_GROWTH_KIB,
            "{subject}: {before} KiB at first, {after} KiB after {rounds} more rounds"
        );
    }
}

#[test]
fn day_long_run_can_be_interrupted() {
    let mut day =
        StreamedRun::start(&["--subject", "nanosleep", "--period", "100us", "--duration", "24h"]);
    let first = day.next_line();
    assert_eq!((&first["line"], &first["round"]["index"]), (&"round".into(), &0.into()), "{first}");
    send_signal(day.child.0.id(), Signal::INT);
    let last = std::iter::from_fn(|| day.lines.next()).last().expect("a summary").unwrap();
    assert_eq!(serde_json::from_str::<Value>(&last).unwrap()["line"], "summary");
    assert_eq!(day.child.0.wait().unwrap().code(), Some(4));
    let report = std::fs::read_to_string(day.home.path().join("out/report.json")).unwrap();
    let report = Report::from_json(&report).unwrap();
    assert_eq!((report.partial, report.plan.scenarios[0].ticks), (true, 864_000_000));
    let subject = &report.subjects[0];
    let ticks: u64 =
        subject.rounds.iter().map(|round| round.summary.as_ref().map_or(0, |s| s.ticks)).sum();
    assert!(ticks > 0, "{ticks}");
    assert!(subject.rounds.iter().all(|round| round.lateness_ns.is_empty()), "{ticks}");
    assert_eq!(subject.summary.as_ref().unwrap().ticks, ticks);
}
