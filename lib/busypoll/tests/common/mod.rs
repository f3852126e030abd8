//! A test that hangs is a test that fails.
#![allow(dead_code, reason = "not every test program needs all of it")]

use std::process::{Command, ExitStatus};
use std::sync::mpsc;
use std::time::Duration;

use busypoll::{ParkBackend, Parking, Runtime};

pub(crate) const MODES: [Parking; 3] =
    [Parking::Spin, Parking::SpinThenPark(Duration::from_micros(100)), Parking::Park];

/// So many, or, for an interpreter that takes a thousand times as long, a hundredth: at least 2, at
/// most 100.
pub(crate) const fn scaled(count: u32) -> u32 {
    if !cfg!(miri) {
        return count;
    }
    match count / 100 {
        0 | 1 => 2,
        hundredth if hundredth > 100 => 100,
        hundredth => hundredth,
    }
}

/// After so long, a test hangs.
const HANGS: Duration = Duration::from_secs(if cfg!(miri) { 600 } else { 60 });

/// Runs `test` on a thread of its own, with a runtime of each policy, and fails if one hangs.
pub(crate) fn in_every_mode(test: fn(&mut Runtime)) {
    let on_ring = [false, true].into_iter().flat_map(|ring| MODES.map(|mode| (mode, ring)));
    // What spins does not wait.
    for (mode, ring) in on_ring.filter(|(mode, ring)| !ring || *mode != Parking::Spin) {
        let (done, wait) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            let builder = Runtime::builder().parking(mode).park_on_io_uring(ring);
            let mut runtime = builder.slab(512, 128).build().unwrap();
            if ring && runtime.park_backend() != ParkBackend::IoUring {
                // Tested as what it fell back to.
                return done.send(()).unwrap();
            }
            test(&mut runtime);
            drop(runtime);
            done.send(()).unwrap();
        });
        match wait.recv_timeout(HANGS) {
            Err(mpsc::RecvTimeoutError::Timeout) => panic!("hung with {mode:?}, ring {ring}"),
            _ => thread.join().unwrap(),
        }
    }
}

/// Runs a test again in a process of its own, where it runs `child`, because signals and limits
/// concern all of a process. Gives how that ended, and in the process itself nothing. Emulators
/// cannot start one: `qemu.sh` skips modules called `own_process`.
#[allow(clippy::print_stdout, reason = "what a failed test has to say")]
pub(crate) fn in_its_own_process(test: &str, child: fn()) -> Option<ExitStatus> {
    const INSIDE: &str = "BUSYPOLL_TEST_OWN_PROCESS";
    if std::env::var_os(INSIDE).is_some() {
        child();
        return None;
    }
    let program = std::env::current_exe().unwrap();
    let output = Command::new(program).args(["--exact", test]).env(INSIDE, "1").output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(!text.contains("running 0 tests"), "there is no test {test}");
    if !output.status.success() {
        println!("{text}{}", String::from_utf8_lossy(&output.stderr));
    }
    Some(output.status)
}
