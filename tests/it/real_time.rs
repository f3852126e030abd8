//! Tests of real-time threads that never wait: osjitter reacts all the same.
#![cfg(target_os = "linux")]

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::process::Signal;

use crate::osjitter::{Osjitter, Running};
use crate::process_control::{eventually, poll_until, processes_with_variable, stat_fields};
use crate::test_programs::{gated_loop, has_program, write_executable};

/// Time within which a command ends even on a busy machine.
const LIMIT: Duration = Duration::from_secs(120);

/// The tests of this file take turns: each can take a whole CPU.
static TURN: Mutex<()> = Mutex::new(());

/// Waits for the turn of a test. Returns the last CPU on which threads of the lowest real-time
/// priority may run; `None` if there is none, without the privilege.
fn real_time_cpu() -> Option<(MutexGuard<'static, ()>, String)> {
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let cpus = rustix::thread::sched_getaffinity(None).expect("the affinity of this thread");
    let last = (0..rustix::thread::CpuSet::MAX_CPU).rfind(|&cpu| cpus.is_set(cpu))?.to_string();
    let ran = run_real_time(&last, &["--subject", "spin", "--period", "1ms", "--ticks", "1"]).run();
    let is_refused = ran.code == 2 && ran.stderr.contains("cannot run as fifo:1");
    if is_refused {
        writeln!(std::io::stderr(), "no real-time threads: their tests are skipped").ok()?;
        return None;
    }
    ran.exits(0);
    Some((turn, last))
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
    let Some((_turn, cpu)) = real_time_cpu() else { return };
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

/// Writes a program that creates a file and spins as soon as it is a real-time one, and otherwise
/// writes its ticks: it is checked before the class is set.
fn spinning_program(home: &Path) -> PathBuf {
    let program = home.join("program");
    let started = home.join("started");
    let text = format!(
        r#"#!/bin/sh
if [ "$(cut -d' ' -f41 /proc/$$/stat)" = 1 ]; then : >'{}'; while :; do :; done; fi
{{ echo "osjitter.series/1 period_ns=$OSJITTER_PERIOD_NS"; yes 20000 | head -n "$OSJITTER_TICKS"; }} >"$OSJITTER_OUT"
"#,
        started.display()
    );
    write_executable(&program, text);
    program
}

/// Runs the program in rounds that have a time limit of about ten seconds.
fn run_spinning(cpu: &str, program: &Path) -> Osjitter {
    let run = ["--period", "1ms", "--ticks", "10", "--max-start-time", "60s"];
    run_real_time(cpu, &run).args(["--"]).args([program])
}

#[test]
fn program_without_waits_is_ended() {
    let Some((_turn, cpu)) = real_time_cpu() else { return };
    let home = tempfile::tempdir().unwrap();
    let program = spinning_program(home.path());
    let ran = run_spinning(&cpu, &program).start().ends_within(LIMIT);
    assert!(home.path().join("started").exists());
    assert_ne!(ran.code, 0);
    assert!(ran.stderr.contains("was still running"), "{}", ran.stderr);
}

#[test]
fn killed_run_ends_program_without_waits() {
    const MARK: &str = "HOME_OF_SPINNING_PROGRAM";
    let Some((_turn, cpu)) = real_time_cpu() else { return };
    let home = tempfile::tempdir().unwrap();
    let program = spinning_program(home.path());
    let running = run_spinning(&cpu, &program).env(MARK, home.path()).start();
    assert!(eventually(|| home.path().join("started").exists()));
    running.kill();
    let processes = || processes_with_variable(MARK, home.path());
    assert!(eventually(|| processes().is_empty()), "{:?}", processes());
}

#[test]
fn programs_keep_class_and_cpu() {
    let Some((_turn, cpu)) = real_time_cpu() else { return };
    let program = gated_loop();
    let run = ["--period", "1ms", "--ticks", "300", "--max-start-time", "60s"];
    let measure = || run_real_time(&cpu, &run).args(["--"]).args([&program]).run();
    // On a busy machine, the settings may not be read before the program ends.
    let settings = (0..20).find_map(|_| {
        let ran = measure();
        let mut subjects = if ran.code == 0 { ran.report().subjects } else { Vec::new() };
        subjects.retain(|subject| subject.name.contains("gated-loop"));
        subjects.pop()?.settings
    });
    for thread in settings.expect("settings").threads {
        assert_eq!(thread.sched.as_deref(), Some("fifo:1"));
        assert_eq!(thread.affinity, Some(vec![cpu.parse().unwrap()]));
    }
}

/// The program gets the mask of osjitter at its start, whatever class osjitter had then.
#[test]
fn programs_block_no_signals() {
    let Some((_turn, cpu)) = real_time_cpu() else { return };
    let home = tempfile::tempdir().unwrap();
    let (program, masks) = (home.path().join("program"), home.path().join("masks"));
    let text = format!(
        r#"#!/bin/sh
policy=$(cut -d' ' -f41 /proc/$$/stat)
while read -r name mask _; do [ "$name" != SigBlk: ] || echo "$policy $mask"; done <"/proc/$$/status" >>'{}'
{{ echo "osjitter.series/1 period_ns=$OSJITTER_PERIOD_NS"; yes 20000 | head -n "$OSJITTER_TICKS"; }} >"$OSJITTER_OUT"
"#,
        masks.display()
    );
    write_executable(&program, text);
    let options = ["--period", "1ms", "--ticks", "10", "--max-start-time", "60s"];
    let run = |class: &str| {
        let run = Osjitter::new(["run", "--subject", "spin", "--sched", class, "--cpu", &cpu]);
        run.args(options).out("").args(["--"]).args([&program])
    };
    run("fifo:1").run();
    let mut chrt = Command::new("chrt");
    chrt.args(["-f", "1"]);
    if has_program("chrt", "--version") {
        run("other").started_by(chrt).run();
    }
    let masks = std::fs::read_to_string(&masks).unwrap();
    assert!(masks.lines().all(|line| line.ends_with(" 0000000000000000")), "{masks}");
    assert!(masks.lines().any(|line| line.starts_with("1 ")), "{masks}");
}
