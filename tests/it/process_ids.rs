//! Tests with a process id that the kernel gives to one program after the other, in a namespace of
//! process ids.
#![cfg(target_os = "linux")]

use std::path::Path;
use std::process::Command;

use rustix::process::Signal;
use serde_json::Value;
use tickmeter::ENV_DIRECTORY;

use crate::monitor::{MonitorHome, metrics_address, start, wait_for_ticks};
use crate::osjitter::Osjitter;
use crate::top::MeteredProgram;

const ID: u32 = 20_000;
const TICKS: u64 = 200;

/// Starts a metered program with [`ID`]. A new thread of another process can be given the id first.
fn start_with_id(meters: &Path) -> MeteredProgram {
    for _ in 0..50 {
        std::fs::write("/proc/sys/kernel/ns_last_pid", (ID - 1).to_string()).unwrap();
        let program = MeteredProgram::start_with_ticks(meters, TICKS);
        if program.id() == ID {
            return program;
        }
    }
    panic!("no program was given the id");
}

fn list_meters(meters: &Path) -> Vec<Value> {
    let top = Osjitter::new(["top", "--once", "--window", "1s", "--format", "json"]);
    let ran = top.env(ENV_DIRECTORY, meters).run().exits(0);
    let document: Value = serde_json::from_str(&ran.stdout).unwrap();
    document["meters"].as_array().unwrap().clone()
}

#[test]
fn programs_with_one_id_are_separate() {
    let in_namespace = |program: &Path| {
        let mut command = Command::new("unshare");
        command.args(["--pid", "--fork", "--mount-proc", "--kill-child"]).arg(program);
        command
    };
    if !in_namespace(Path::new("true")).status().is_ok_and(|status| status.success()) {
        return; // It needs root.
    }
    let mut command = in_namespace(&std::env::current_exe().unwrap());
    command.args(["--exact", "process_ids::programs_in_a_namespace", "--ignored"]);
    let output = command.output().unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(stdout.contains("1 passed"), "{stdout}{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
#[ignore = "a process for the other test"]
fn programs_in_a_namespace() {
    if std::process::id() > 2 {
        return; // It would take ids from the processes of the machine.
    }
    let home = MonitorHome::new();
    let args = ["--interval", "1s", "--no-probes", "--listen", "127.0.0.1:0"];
    let mut running = start(home.monitor(&args));
    let address = metrics_address(&mut running);
    let mut registered = Vec::new();
    for programs in 1..=3 {
        let program = start_with_id(&home.meters);
        wait_for_ticks(&address, (programs * TICKS) as f64);
        let listed = list_meters(&home.meters);
        assert_eq!(listed.len(), 2, "the meters of the others are gone: {listed:?}");
        assert!(listed.iter().all(|meter| meter["pid"] == ID), "{listed:?}");
        registered.push(listed[0]["registered_unix_ns"].as_u64().unwrap());
        drop(program);
    }
    registered.dedup();
    assert_eq!(registered.len(), 3);
    running.signal(Signal::TERM);
    running.ends().exits(0);
}
