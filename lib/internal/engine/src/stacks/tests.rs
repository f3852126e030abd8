use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;

use files::why::stacks::find_late_code;

use super::*;
use crate::machine::os::{self, StackHistory, SwitchRing};

const ENV_CHILD: &str = "OSJITTER_TEST_BUSY_CHILD";
const BUSY_NS: u64 = 100_000_000;

#[inline(never)]
fn burn_cpu_time() -> u64 {
    let end = os::thread_cpu_ns().expect("an account") + BUSY_NS;
    let mut sum = 0_u64;
    while os::thread_cpu_ns().expect("an account") < end {
        for n in 0..50_000_u64 {
            sum = std::hint::black_box(sum.rotate_left(5) ^ n);
        }
    }
    sum
}

#[inline(never)]
fn handle_request() -> u64 {
    burn_cpu_time().wrapping_add(1)
}

/// Does nothing unless it is the child of [`functions_of_a_child_are_named`].
#[test]
fn busy_child() {
    if std::env::var_os(ENV_CHILD).is_some() {
        std::hint::black_box(handle_request());
    }
}

#[test]
#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
fn functions_of_a_child_are_named() {
    let cpus = os::affinity().expect("a list");
    let switches = cpus.iter().map(|&cpu| SwitchRing::for_started_programs(cpu));
    let opened = switches
        .collect::<Result<Vec<_>, _>>()
        .and_then(|switches| Ok((switches, StackHistory::for_started_programs(&cpus)?)));
    let (mut switches, stacks) = match opened {
        Ok(opened) => opened,
        Err(why) => return assert!(why.to_string().contains("perf_event_open"), "{why}"),
    };
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "stacks::tests::busy_child"]).env(ENV_CHILD, "1");
    assert!(child.output().expect("a child").status.success());
    let mapped: Vec<MappedFile> =
        switches.iter_mut().flat_map(|ring| ring.drain().mapped_files).collect();
    let samples: Vec<StackRecord> = stacks.iter().flat_map(|ring| ring.read().0.samples).collect();

    let mut namer = StackNamer::default();
    let mut processes = namer.processes(&mapped, |file| Some(PathBuf::from(&file.path)));
    let mut by_thread: BTreeMap<u32, Vec<StackSample>> = BTreeMap::new();
    for record in &samples {
        let sample = processes.name(record, i64::try_from(record.at_ns).unwrap());
        by_thread.entry(record.thread).or_default().push(sample);
    }
    let busiest = by_thread.into_values().max_by_key(Vec::len).expect("samples");
    let code = find_late_code(&busiest, BUSY_NS, SAMPLE_INTERVAL_NS).expect("a function");
    assert_eq!(code.function, "engine::stacks::tests::burn_cpu_time", "{code:?}");
    let callers: Vec<&str> = code.callers.iter().map(String::as_str).collect();
    let expected = ["engine::stacks::tests::handle_request", "engine::stacks::tests::busy_child"];
    assert_eq!(callers, expected);
}
