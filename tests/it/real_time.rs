//! Tests of real-time threads that never wait: osjitter reacts all the same.
#![cfg(target_os = "linux")]

use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

use rustix::process::Signal;

use crate::osjitter::{Osjitter, Ran, Running};
use crate::process_control::{eventually, poll_until, processes_with_variable, stat_fields};
use crate::test_programs::gated_loop;

/// Time within which a command ends even on a busy machine.
const LIMIT: Duration = Duration::from_secs(120);

/// Returns the last CPU on which threads of the lowest real-time priority may run; `None` if there
/// is none, without the privilege.
fn real_time_cpu() -> Option<String> {
    let cpus = rustix::thread::sched_getaffinity(None).expect("the affinity of this thread");
    let last = (0..rustix::thread::CpuSet::MAX_CPU).rfind(|&cpu| cpus.is_set(cpu))?.to_string();
    let ran = run_real_time(&last, &["--subject", "spin", "--period", "1ms", "--ticks", "1"]).run();
    let is_refused = ran.code == 2 && ran.stderr.contains("cannot run as fifo:1");
    if is_refused {
        writeln!(std::io::stderr(), "no real-time threads: their tests are skipped").ok()?;
        return None;
    }
    ran.exits(0);
    Some(last)
}

fn run_real_time(cpu: &str, args: &[&str]) -> Osjitter {
    Osjitter::new(["run", "--sched", "fifo:1", "--cpu", cpu]).args(args).out("")
}

/// Waits until a measurement has as many real-time threads.
fn wait_for_real_time_threads(running: &Running, count: usize) {
    const POLICY: usize = 38;
    const FIFO: &str = "1";
    let threads = format!("/proc/{}/task", running.id());
    let is_real_time = |thread: &Path| {
        stat_fields(thread).is_some_and(|fields| fields.get(POLICY).is_some_and(|p| p == FIFO))
    };
    poll_until(|| {
        let entries = std::fs::read_dir(&threads).expect("a running command");
        let found = entries.flatten().filter(|entry| is_real_time(&entry.path())).count();
        (found >= count).then_some(())
    });
}

#[test]
fn starved_measurement_can_be_interrupted() {
    let Some(cpu) = real_time_cpu() else { return };
    let busy: [&[&str]; 2] = [
        &["--subject", "tokio-busy-interval"],
        &["--subject", "tokio-interval", "--load", "tasks:1x50us"],
    ];
    for (subject, signal) in busy.into_iter().zip([Signal::INT, Signal::TERM]) {
        let run = ["--runtime", "multi-thread:2", "--period", "2ms", "--ticks", "100000"];
        let running = run_real_time(&cpu, &[subject, &run].concat()).start();
        // The main thread and a worker, which keeps it from running.
        wait_for_real_time_threads(&running, 2);
        running.signal(signal);
        assert!(running.ends_within(LIMIT).exits(4).report().partial);
    }
}

#[test]
fn program_without_waits_is_ended() {
    let Some(cpu) = real_time_cpu() else { return };
    let spinning = "sh -c 'while :; do :; done'";
    let run = ["--subject", "spin", "--command", spinning, "--period", "1ms", "--ticks", "10"];
    let ran = run_real_time(&cpu, &run).start().ends_within(LIMIT).exits(2);
    assert!(ran.stderr.contains("was still running"), "{}", ran.stderr);
}

#[test]
fn killed_run_ends_program_without_waits() {
    const MARK: &str = "HOME_OF_SPINNING_PROGRAM";
    let Some(cpu) = real_time_cpu() else { return };
    let home = tempfile::tempdir().unwrap();
    let started = home.path().join("started");
    let program = format!("sh -c ': > {}; while :; do :; done'", started.display());
    let run = ["--command", &program, "--period", "1s", "--ticks", "1000"];
    let running = run_real_time(&cpu, &run).env(MARK, home.path()).start();
    assert!(eventually(|| started.exists()));
    running.kill();
    let processes = || processes_with_variable(MARK, home.path());
    assert!(eventually(|| processes().is_empty()), "{:?}", processes());
}

#[test]
fn programs_keep_class_and_cpu() {
    let Some(cpu) = real_time_cpu() else { return };
    let program = gated_loop();
    let measure = || -> Ran {
        let run = ["--period", "1ms", "--ticks", "300", "--subject", "spin", "--command"];
        run_real_time(&cpu, &[&run[..], &[program.to_str().unwrap()]].concat()).run().exits(0)
    };
    // On a busy machine, the settings may not be read before the program ends.
    let settings = (0..20).find_map(|_| measure().report().subjects.pop()?.settings);
    for thread in settings.expect("settings").threads {
        assert_eq!(thread.sched.as_deref(), Some("fifo:1"));
        assert_eq!(thread.affinity, Some(vec![cpu.parse().unwrap()]));
    }
}
