//! `osjitter trace` from outside. Where the right to trace is missing, that is what is said, and
//! nothing is written.
#![cfg(target_os = "linux")]

use files::file::File as _;
use files::report::{Report, Status};

use crate::osjitter::{Osjitter, Ran};
use crate::schema;

/// A thread that sleeps by the kernel's timer, in a program that everybody has: `sleep` is
/// restarted by the shell.
const SLEEPS: [&str; 4] =
    ["--", "sh", "-c", "for i in 1 2 3 4 5 6 7 8 9 10 11 12; do sleep 0.01; done"];

fn traced(args: &[&str]) -> Option<Ran> {
    let ran = Osjitter::new(["trace"]).out("").args(args).run();
    if ran.code == 4 && ran.stderr.contains("error: tracing: ") {
        assert!(
            ran.stderr.contains("it needs ") && ran.stderr.contains("osjitter run"),
            "{}",
            ran.stderr
        );
        assert!(ran.stdout.is_empty() && !ran.path("report.json").exists(), "nothing half written");
        return None;
    }
    Some(ran)
}

#[test]
fn every_timer_of_a_program_is_seen_and_never_early() {
    let Some(ran) = traced(&SLEEPS) else { return };
    // Some virtual machines record hardly anything.
    if ran.code == 4
        && ran.stderr.contains(" does not wait on timers")
        && ran.stderr.contains(" records were lost)")
    {
        return;
    }
    let ran = ran.exits(0);
    schema::valid(&ran.file("report.json"), "report.1");
    let report = Report::from_json(&ran.file("report.json")).unwrap();
    let trace = report.trace.expect("it is a trace");
    assert_eq!(trace.command.unwrap()[0], "sh");
    assert!(trace.records > 0 && trace.bytes > 0 && trace.window_ns > 120_000_000);
    let sleeps: Vec<_> = report.subjects.iter().filter(|s| s.id.ends_with("/nanosleep")).collect();
    let ticks: u64 = sleeps.iter().map(|s| s.summary.as_ref().unwrap().ticks).sum();
    // A machine with all CPUs busy may lose records; then that is said, and what is left is less.
    let lost = trace.lost + trace.unrecorded;
    assert!(ticks == 12 || lost > 0, "{ticks} of 12 sleeps, {lost} lost: {}", ran.stdout);
    for subject in &report.subjects {
        let summary = subject.summary.as_ref().unwrap();
        assert_eq!((&subject.status, summary.early), (&Status::Measured, 0), "{}", subject.id);
        assert_eq!(
            subject.rounds.iter().map(|r| r.lateness_ns.len() as u64).sum::<u64>(),
            summary.ticks
        );
        let why = subject.why.as_ref().expect("every timer is explained");
        assert_eq!(why.ticks, summary.ticks);
    }
    let timers = ran.file("timers.csv");
    assert!(
        timers.starts_with("subject,thread,deadline_ns,expired_ns,woken_ns,ran_ns,end_ns,behind\n"),
        "{timers}"
    );
    let all: u64 = report.subjects.iter().map(|s| s.summary.as_ref().unwrap().ticks).sum();
    assert_eq!(timers.lines().count() as u64, 1 + all);
    assert!(
        ran.stdout.contains("Tracing took ") && ran.stdout.contains("Where the time went"),
        "{}",
        ran.stdout
    );
    let again = Osjitter::new(["report", "--format", "json"])
        .args([ran.path("report.json").to_str().unwrap()])
        .run()
        .exits(0);
    assert_eq!(again.stdout, ran.file("report.json"));
}

#[test]
fn a_program_without_a_timer_is_said_to_have_none() {
    let Some(ran) = traced(&["--", "true"]) else { return };
    assert_eq!(ran.code, 4);
    assert!(
        ran.stderr.contains("before a timer woke it") && !ran.path("report.json").exists(),
        "{}",
        ran.stderr
    );
}

#[test]
fn a_thread_that_waits_for_something_else_is_named_with_its_call() {
    let mut waits =
        std::process::Command::new("cat").stdin(std::process::Stdio::piped()).spawn().unwrap();
    let pid = waits.id().to_string();
    let ran = traced(&["--pid", &pid, "--duration", "200ms"]);
    waits.kill().unwrap();
    waits.wait().unwrap();
    let Some(ran) = ran else { return };
    assert_eq!(ran.code, 4);
    assert!(ran.stderr.contains("thread cat waits in read(2)"), "{}", ran.stderr);
}

#[test]
fn what_cannot_be_traced_is_refused_before_anything_is_done() {
    let refused = |args: &[&str], says: &str| {
        let ran = Osjitter::new(["trace"]).out("").args(args).run().exits(2);
        assert!(
            ran.stderr.contains(says) && ran.stdout.is_empty() && !ran.path("report.json").exists(),
            "{}",
            ran.stderr
        );
    };
    refused(&["--pid", "4194305"], "process 4194305 does not exist");
    refused(&["--pid", "0"], "0 is not in 1..");
    refused(&["--", "./no-such-program"], "there is no such program");
    refused(&[], "<PROGRAM>");
    let own = std::process::id().to_string();
    refused(
        &["--pid", &own, "--thread", "no such thread"],
        "has no thread \"no such thread\"; it has ",
    );
}
