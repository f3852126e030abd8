//! Tests of interrupts: `osjitter run` ends in any wait, and keeps its results.
#![cfg(unix)]

use std::path::Path;
#[cfg(target_os = "linux")]
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use files::file::File as _;
use files::report::{Report, Status};
use rustix::process::Signal;
use serde_json::json;

use crate::osjitter::{Osjitter, Ran, Running, interrupt_while_measuring};
#[cfg(target_os = "linux")]
use crate::process_control::{poll_until, send_signal, stat_fields};
use crate::test_programs::has_program;

#[test]
fn interrupted_run_keeps_results() {
    let run = || {
        Osjitter::new(["run", "--subject", "nanosleep", "--period", "1ms", "--duration", "10m"])
            .out("")
    };
    let has_measured = |ran: &Ran| ran.report().subjects[0].summary.is_some();
    let ran =
        interrupt_while_measuring(run, "1 subject × 600000 ticks: about", has_measured).exits(4);
    let report = ran.report();
    assert!(report.partial);
    let subject = &report.subjects[0];
    assert_eq!(subject.status, Status::Partial);
    let s = subject.summary.as_ref().unwrap();
    assert!(s.ticks < 600_000);
    assert_eq!(s.ticks, s.delivered + s.coalesced.unwrap() + s.skipped.unwrap());
}

/// Without file descriptors, the measurement fails, but not the files of the result.
#[cfg(target_os = "linux")]
#[test]
fn failed_measurements_replace_no_others() {
    let limited = r#"exec 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&-; ulimit -n 8; exec "$0" "$@""#;
    for (command, name, result) in [
        ("run --subject os-interval --period 1ms --ticks 50", "out", "out/report.json"),
        ("find --subject os-interval --goal p99=100ms", "out", "out/find.json"),
        ("gate --a os-interval --b os-interval", "out", "out/verdict.json"),
        ("gate --limit p99=1s --subject os-interval", "out", "out/verdict.json"),
        ("calibrate --subject os-interval --max-time 60s", "out.json", "out.json"),
    ] {
        let home = tempfile::tempdir().unwrap();
        std::fs::create_dir(home.path().join("out")).unwrap();
        let (out, result) = (home.path().join(name), home.path().join(result));
        std::fs::write(&result, "earlier").unwrap();
        let to = [Path::new("--force"), Path::new("--out"), &out];
        let ran = Osjitter::new(command.split(' ')).args(to).in_shell(limited).run().exits(4);
        assert_eq!(std::fs::read_to_string(&result).unwrap(), "earlier", "{command}");
        assert!(ran.stderr.contains("was not replaced"), "{command}: {}", ran.stderr);
    }
}

#[test]
fn interrupted_results_replace_no_others() {
    let script = json!({ "scripted": { "lateness_ns": [150_000] } });
    for (command, says, result) in [
        (
            "run --subject nanosleep --period 1ms --duration 10m",
            "600000 ticks: about",
            "report.json",
        ),
        ("find --subject nanosleep --goal p99=100ms", "1 ticker", "find.json"),
        ("gate --a tokio-interval --b os-interval", "gate: ", "verdict.json"),
        ("gate --limit p99=1s --subject nanosleep --ticks 600000", "gate: ", "verdict.json"),
    ] {
        let home = tempfile::tempdir().unwrap();
        let (out, next) = (home.path().join("out"), home.path().join("out-2"));
        std::fs::create_dir(&out).unwrap();
        std::fs::write(out.join(result), "earlier").unwrap();
        let to = [Path::new("--force"), Path::new("--out"), &out];
        let mut running = Osjitter::new(command.split(' ')).args(to).start();
        running.says(says);
        running.signal(Signal::INT);
        let ran = running.ends().exits(4);
        let kept = std::fs::read_to_string(out.join(result)).unwrap();
        assert_eq!(kept, "earlier", "{command}");
        assert!(next.join(result).exists(), "{command}: {}", ran.stderr);
        assert!(ran.stderr.contains("was not replaced"), "{command}: {}", ran.stderr);
    }
    let home = tempfile::tempdir().unwrap();
    let out = home.path().join("calibration.json");
    std::fs::write(&out, "earlier").unwrap();
    let calibrate = Osjitter::new(["calibrate", "--subject", "scripted"]).script(&script);
    let to = [Path::new("--force"), Path::new("--out"), &out];
    let mut running = calibrate.args(["--max-time", "24h"]).args(to).start();
    running.says("calibrate: ");
    running.signal(Signal::INT);
    running.ends().exits(4);
    assert_eq!(std::fs::read_to_string(&out).unwrap(), "earlier");
    assert!(home.path().join("calibration-2.json").exists());
}

/// A terminal interrupts a whole pipeline: the reader of a stream is gone as well.
#[test]
fn interrupted_pipeline_replaces_no_result() {
    // A busy machine needs longer for the warm-up.
    let was_measuring = [500, 4_000, 30_000].into_iter().any(interrupt_pipeline);
    assert!(was_measuring, "no round was interrupted");
}

/// Interrupts a pipeline after a pause. Returns whether it was measuring by then.
fn interrupt_pipeline(pause_ms: u64) -> bool {
    let home = tempfile::tempdir().unwrap();
    let out = home.path().join("out");
    std::fs::create_dir(&out).unwrap();
    std::fs::write(out.join("report.json"), "earlier").unwrap();
    let length = ["--period", "1ms", "--ticks", "600000", "--round-ticks", "600000"];
    let run = Osjitter::new(["run", "--subject", "nanosleep", "--format", "jsonl", "--force"]);
    let mut running = run.args(length).args([Path::new("--out"), &out]).start();
    running.says("600000 ticks: about");
    // Nothing is written before the end of the only round.
    running.close_stdout();
    #[allow(clippy::disallowed_methods, reason = "the warm-up ends in the meantime")]
    std::thread::sleep(Duration::from_millis(pause_ms));
    running.signal(Signal::INT);
    let ran = running.ends().exits(4);
    assert_eq!(std::fs::read_to_string(out.join("report.json")).unwrap(), "earlier");
    let kept = home.path().join("out-2/report.json");
    assert!(kept.exists() && ran.stderr.contains("was not replaced"), "{}", ran.stderr);
    let kept = Report::from_json(&std::fs::read_to_string(kept).unwrap()).unwrap();
    kept.subjects[0].summary.is_some()
}

/// Checks that a run keeps its results that is started by a shell script and gets a signal.
#[track_caller]
fn assert_results_are_kept(script: &str, signal: Signal) {
    let run = Osjitter::new(["run", "--subject", "nanosleep", "--period", "1ms"]);
    let mut running = run.args(["--duration", "10m"]).out("").in_shell(script).start();
    running.says("600000 ticks: about");
    running.signal(signal);
    let ran = running.ends().exits(4);
    assert!(ran.report().partial, "{signal:?}");
}

/// Signals of limits and timers would end the process by default, and leave everything as it is.
#[test]
fn unusual_signals_keep_results() {
    for signal in [Signal::XCPU, Signal::ALARM, Signal::USR1, Signal::USR2] {
        assert_results_are_kept(r#"exec "$0" "$@""#, signal);
    }
}

#[test]
fn blocked_signals_keep_results() {
    if !has_program("env", "--block-signal=TERM") {
        return;
    }
    let script = r#"exec env --block-signal=INT,TERM,HUP "$0" "$@""#;
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        assert_results_are_kept(script, signal);
    }
}

/// Waits until all threads of a command sleep for a while. A thread that waits for a CPU does not
/// sleep.
fn wait_until_idle(running: &Running) {
    wait_until_idle_or_spinning(running, u64::MAX);
}

/// Like [`wait_until_idle`], or until a command has used a CPU for this number of hundredths of a
/// second.
#[cfg(target_os = "linux")]
fn wait_until_idle_or_spinning(running: &Running, max_cpu_ticks: u64) {
    const POLLS: u32 = 10;
    let directory = PathBuf::from(format!("/proc/{}", running.id()));
    let cpu_ticks = || -> Option<u64> {
        let fields = stat_fields(&directory)?;
        Some(fields[11].parse::<u64>().ok()? + fields[12].parse::<u64>().ok()?)
    };
    let is_asleep = || {
        let mut threads = std::fs::read_dir(directory.join("task")).ok()?.flatten();
        Some(threads.all(|thread| stat_fields(&thread.path()).is_none_or(|f| f[0] == "S")))
    };
    let (before, mut asleep) = (cpu_ticks().unwrap(), 0);
    poll_until(|| {
        asleep = if is_asleep()? { asleep + 1 } else { 0 };
        let has_spun = cpu_ticks()? - before >= max_cpu_ticks;
        (asleep >= POLLS || has_spun).then_some(())
    });
}

#[cfg(not(target_os = "linux"))]
#[allow(clippy::disallowed_methods, reason = "the state of other threads is not known")]
fn wait_until_idle_or_spinning(_: &Running, _: u64) {
    std::thread::sleep(Duration::from_secs(2));
}

#[test]
fn stalled_reader_costs_no_results() {
    // The lines of the rounds do not fit in a pipe, of which nothing is read until the end.
    let script = json!({ "scripted": { "lateness_ns": [10_000] } });
    let run = Osjitter::new(["run", "--subject", "scripted", "--format", "jsonl"])
        .args(["--ticks", "200k", "--round-ticks", "20", "--warmup", "3"]);
    let mut running = run.script(&script).out("run").start();
    running.says("200000 ticks: ");
    wait_until_idle(&running);
    running.signal(Signal::INT);
    let ran = running.ends_within(Duration::from_secs(120)).exits(4);
    assert!(!ran.file("run/report.json").is_empty());
}

#[test]
fn interrupt_ends_wait_for_reader() {
    let home = tempfile::tempdir().unwrap();
    let pipe = home.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let script = json!({ "scripted": { "lateness_ns": [10_000] } });
    let calibrate = Osjitter::new(["calibrate", "--subject", "scripted"]).script(&script);
    let mut running = calibrate.args(["--out".as_ref(), pipe.as_os_str()]).start();
    running.says("calibrate: ");
    wait_until_idle(&running);
    running.signal(Signal::INT);
    running.ends_within(Duration::from_secs(120)).exits(4);
}

/// A load that is not ready keeps the command in a wait.
#[cfg(target_os = "linux")]
#[test]
fn interrupt_ends_start_of_load() {
    use crate::process_control::processes_with_variable;
    const MAX_POLLS: u32 = 1_000_000;
    const MARK: &str = "HOME_OF_SLOW_LOAD";
    let home = tempfile::tempdir().unwrap();
    let run = ["run", "--subject", "nanosleep", "--ticks", "100000", "--load", "memory:1"];
    let running = Osjitter::new(run).env(MARK, home.path()).out("").start();
    let is_load = |id: &u32| {
        let command = std::fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
        command.split(|&byte| byte == 0).any(|word| word == b"stress")
    };
    // Without a pause, so that it is found before it is ready.
    let find_load = || processes_with_variable(MARK, home.path()).into_iter().find(is_load);
    send_signal((0..MAX_POLLS).find_map(|_| find_load()).unwrap(), Signal::STOP);
    running.signal(Signal::INT);
    // If the load was ready before, the run has begun.
    let ran = running.ends().exits(4);
    assert!(!ran.stderr.contains("was not ready"), "{}", ran.stderr);
}

#[test]
fn interrupt_ends_long_waits() {
    // Sufficient even on a busy machine.
    const LIMIT: Duration = Duration::from_secs(120);
    let waits: [&[&str]; 8] = [
        &["os-interval"],
        &["os-interval-precise"],
        &["os-interval", "--instances", "3"],
        &["tokio-interval", "--runtime", "multi-thread:2"],
        &["busypoll-interval"],
        &["busypoll-parked"],
        &["nanosleep"],
        &["spin"],
    ];
    for subject in waits {
        let run = Osjitter::new(["run", "--period", "1h", "--ticks", "2", "--subject"])
            .args(subject)
            .out("");
        let mut running = run.start();
        running.says("2 ticks: about");
        // Some subjects spin until the first tick.
        wait_until_idle_or_spinning(&running, 50);
        running.signal(Signal::INT);
        let ran = running.ends_within(LIMIT).exits(4);
        assert!(ran.report().partial, "{subject:?}");
        assert!(
            ran.stdout.contains("interrupted: the values cover the time until then"),
            "{subject:?}: {}",
            ran.stdout
        );
    }
}
