//! Tests what a forked child does to the meters of its parent when it drops its copies of them.
#![cfg(all(unix, not(any(loom, miri))))]
#![allow(unsafe_code, reason = "the test forks")]
#![allow(clippy::disallowed_methods, reason = "the test makes its own deadlines")]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use tickmeter::{ENV_DIRECTORY, Meter, Place};

const PERIOD: Duration = Duration::from_millis(1);

/// Runs a function in a forked child, waits until the child has ended, and returns its exit code.
fn run_in_child(run: impl FnOnce()) -> i32 {
    // SAFETY: no other thread of this process holds a lock of Rust, and the child ends without the
    // destructors and handlers of its parent.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "{}", std::io::Error::last_os_error());
    if child == 0 {
        let result = catch_unwind(AssertUnwindSafe(run));
        // SAFETY: the call ends the process.
        unsafe { libc::_exit(result.is_err().into()) }
    }
    let mut status = 0;
    // SAFETY: the pointer is to an integer of ours, which the call fills and does not keep.
    let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
    assert!(waited == child && libc::WIFEXITED(status), "{status}");
    libc::WEXITSTATUS(status)
}

/// The process of [`forked_child_leaves_parents_files`], which is measured.
#[test]
#[ignore = "runs as a process of another test"]
fn parent() {
    let Some(out) = std::env::var_os("OSJITTER_OUT") else { return };
    let out = Path::new(&out);
    let mut meter = Meter::register("loop", PERIOD).unwrap();
    meter.tick(Instant::now());
    let Place::Mapped(path) = meter.place() else { panic!("{meter:?}") };
    let path = path.clone();
    let mut meter = Some(meter);
    assert_eq!(run_in_child(|| drop(meter.take())), 0);
    assert!(path.exists() && !out.exists(), "the child dropped the meter");
    // The second meter of its period ends the child, which removes the files of its own meters.
    let code = run_in_child(|| {
        let mut own = Meter::register("own", PERIOD).unwrap();
        loop {
            own.tick(Instant::now());
        }
    });
    assert_eq!(code, 1);
    assert!(path.exists(), "the child ended");
    drop(meter);
    assert!(!path.exists() && out.exists(), "the parent dropped the meter");
}

#[test]
fn forked_child_leaves_parents_files() {
    let name = format!("tickmeter-fork-{}", std::process::id());
    let out = std::env::temp_dir().join(name);
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "parent", "--ignored", "--nocapture"])
        .env(ENV_DIRECTORY, out.with_extension("meters"))
        .envs([("OSJITTER_SERIES", "ticks"), ("OSJITTER_PERIOD_NS", "1000000")])
        .envs([("OSJITTER_TICKS", "5"), ("OSJITTER_WARMUP", "0")])
        .env("OSJITTER_OUT", &out)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(out.exists(), "the test has run");
    std::fs::remove_file(&out).unwrap();
    std::fs::remove_dir(out.with_extension("meters")).unwrap();
}

/// The process of [`forked_child_has_no_watch`].
#[test]
#[cfg(feature = "stacks")]
#[ignore = "runs as a process of another test"]
fn watching_parent() {
    let start = || tickmeter::stacks::OverdueWatch::start(Duration::from_secs(1), |_| {});
    // Only some systems have stacks.
    let Ok(watch) = start() else { return };
    let mut watch = Some(watch);
    assert_eq!(run_in_child(|| drop(watch.take())), 0);
    assert_eq!(run_in_child(|| drop(start().unwrap())), 0, "the child starts a watch of its own");
}

/// The child has no thread of the watch.
#[test]
#[cfg(feature = "stacks")]
fn forked_child_has_no_watch() {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "watching_parent", "--ignored", "--nocapture"])
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
}
