//! A test that hangs is a test that fails.

use std::sync::mpsc;
use std::time::Duration;

use busypoll::{Parking, Runtime};

pub(crate) const MODES: [Parking; 3] =
    [Parking::Spin, Parking::SpinThenPark(Duration::from_micros(100)), Parking::Park];

/// Runs `test` on a thread of its own, with a runtime of each policy, and fails if one takes a minute.
pub(crate) fn in_every_mode(test: fn(&mut Runtime)) {
    for mode in MODES {
        let (done, wait) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            let mut runtime = Runtime::builder().parking(mode).slab(512, 128).build().unwrap();
            test(&mut runtime);
            drop(runtime);
            done.send(()).unwrap();
        });
        match wait.recv_timeout(Duration::from_secs(60)) {
            Err(mpsc::RecvTimeoutError::Timeout) => panic!("hung with {mode:?}"),
            _ => thread.join().unwrap(),
        }
    }
}
