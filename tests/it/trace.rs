//! Runs `osjitter trace`. Without the right to trace, the tests check that it reports this and
//! writes nothing.
#![cfg(target_os = "linux")]

use files::report::Status;

use crate::osjitter::{Osjitter, Ran};
use crate::process_control::{poll_until, state};
use crate::schema;

/// A program that waits on kernel timers: a shell that starts `sleep` twelve times.
const SLEEP_COMMAND: [&str; 4] =
    ["--", "sh", "-c", "for i in 1 2 3 4 5 6 7 8 9 10 11 12; do sleep 0.01; done"];

/// Runs `osjitter trace`. Returns `None` if this user may not trace.
fn trace(args: &[&str]) -> Option<Ran> {
    let ran = Osjitter::new(["trace"]).out("").args(args).run();
    if ran.code == 4 && ran.stderr.contains("error: tracing: ") {
        assert!(ran.stderr.contains("requires "), "{}", ran.stderr);
        assert!(ran.stderr.contains("osjitter run"), "{}", ran.stderr);
        assert!(ran.stdout.is_empty() && !ran.path("report.json").exists(), "nothing is written");
        return None;
    }
    Some(ran)
}

#[test]
fn timers_of_a_program_are_reported() {
    let Some(ran) = trace(&SLEEP_COMMAND) else { return };
    // Some virtual machines lose almost all records.
    if ran.code == 4
        && ran.stderr.contains(" does not wait on timers")
        && ran.stderr.contains(" lost)")
    {
        return;
    }
    let ran = ran.exits(0);
    schema::valid(&ran.file("report.json"), "report.1");
    let report = ran.report();
    let trace = report.trace.expect("a trace");
    assert_eq!(trace.command.unwrap()[0], "sh");
    assert!(trace.records > 0 && trace.bytes > 0 && trace.window_ns > 120_000_000);
    let sleeps: Vec<_> = report.subjects.iter().filter(|s| s.id.ends_with("/nanosleep")).collect();
    let ticks: u64 = sleeps.iter().map(|s| s.summary.as_ref().unwrap().ticks).sum();
    // A machine whose CPUs are all busy may lose records. The report counts them.
    let lost = trace.lost + trace.unrecorded;
    assert!(ticks == 12 || lost > 0, "{ticks} of 12 sleeps, {lost} lost: {}", ran.stdout);
    for subject in &report.subjects {
        let summary = subject.summary.as_ref().unwrap();
        assert_eq!(
            (&subject.status, summary.early),
            (&Status::Measured, Some(0)),
            "{}",
            subject.id
        );
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
    let total_ticks: u64 = report.subjects.iter().map(|s| s.summary.as_ref().unwrap().ticks).sum();
    assert_eq!(timers.lines().count() as u64, 1 + total_ticks);
    assert!(ran.stdout.contains("Tracing took "), "{}", ran.stdout);
    assert!(ran.stdout.contains("Where the time went"), "{}", ran.stdout);
    let reread = Osjitter::new(["report", "--format", "json"])
        .args([ran.path("report.json").to_str().unwrap()])
        .run()
        .exits(0);
    assert_eq!(reread.stdout, ran.file("report.json"));
}

#[test]
fn program_without_timers_is_an_error() {
    let Some(ran) = trace(&["--", "true"]) else { return };
    assert_eq!(ran.code, 4);
    assert!(ran.stderr.contains("before a timer woke it"), "{}", ran.stderr);
    assert!(!ran.path("report.json").exists(), "{}", ran.stderr);
}

#[test]
fn failed_program_fails_the_trace() {
    let script = format!("{}; exit 5", SLEEP_COMMAND[3]);
    let Some(ran) = trace(&["--quiet", "--", "sh", "-c", &script]) else { return };
    assert_eq!(ran.code, 4);
    if ran.stderr.contains(" does not wait on timers") {
        return;
    }
    assert!(ran.stderr.starts_with("error: sh "), "{}", ran.stderr);
    assert!(ran.stderr.contains("ended by itself, with exit status: 5"), "{}", ran.stderr);
    let report = ran.report();
    let failure = report.warnings.iter().find(|warning| warning.code == "trace-failed");
    assert!(failure.is_some_and(|warning| warning.message.contains("exit status: 5")));
    assert!(!report.subjects.is_empty());
}

#[test]
fn error_names_the_waiting_call() {
    let mut cat =
        std::process::Command::new("cat").stdin(std::process::Stdio::piped()).spawn().unwrap();
    let pid = cat.id().to_string();
    let comm = || std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap();
    poll_until(|| (comm() == "cat\n" && state(cat.id()) == Some('S')).then_some(()));
    let ran = trace(&["--pid", &pid, "--duration", "200ms"]);
    cat.kill().unwrap();
    cat.wait().unwrap();
    let Some(ran) = ran else { return };
    assert_eq!(ran.code, 4);
    assert!(ran.stderr.contains("thread cat waits in read(2)"), "{}", ran.stderr);
}

#[test]
fn untraceable_targets_are_rejected() {
    let assert_rejected = |args: &[&str], message: &str| {
        let ran = Osjitter::new(["trace"]).out("").args(args).run().refuses(message);
        assert!(!ran.path("report.json").exists(), "{}", ran.stderr);
    };
    assert_rejected(&["--pid", "4194305"], "process 4194305 does not exist");
    assert_rejected(&["--pid", "0"], "0 is not in 1..");
    assert_rejected(&["--", "./no-such-program"], "there is no such program");
    assert_rejected(&[], "<PROGRAM>");
    let pid = std::process::id().to_string();
    assert_rejected(
        &["--pid", &pid, "--thread", "no such thread"],
        "has no thread \"no such thread\"; it has ",
    );
}
