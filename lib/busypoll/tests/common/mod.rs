//! Helpers of the tests. A test that hangs fails.
#![allow(dead_code, reason = "not every test program needs all of it")]

use std::process::{Command, ExitStatus};
use std::sync::mpsc;
use std::time::Duration;

#[cfg(feature = "net")]
use busypoll::io::{TcpListener, TcpStream};
use busypoll::{ParkBackend, Parking, Runtime};

pub(crate) const MODES: [Parking; 3] =
    [Parking::Spin, Parking::SpinThenPark(Duration::from_micros(100)), Parking::Park];

/// Returns `count` or, under Miri, which is a thousand times slower, a hundredth of it: at least 2
/// and at most 100.
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

/// The time after which a test counts as hung.
const HANG_TIMEOUT: Duration = Duration::from_secs(600);

/// Runs `test` on a new thread with a runtime of each parking mode. Fails if one hangs.
pub(crate) fn run_in_every_mode(test: fn(&mut Runtime)) {
    let on_ring = [false, true].into_iter().flat_map(|ring| MODES.map(|mode| (mode, ring)));
    // A spinning runtime does not wait, so it is not combined with a ring.
    for (mode, ring) in on_ring.filter(|(mode, ring)| !ring || *mode != Parking::Spin) {
        let (done, wait) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            let builder = Runtime::builder().parking(mode).park_on_io_uring(ring);
            let mut runtime = builder.slab(512, 128).build().unwrap();
            if ring && runtime.park_backend() != ParkBackend::IoUring {
                // Without a ring, the runtime behaves like one of the other cases.
                return done.send(()).unwrap();
            }
            test(&mut runtime);
            drop(runtime);
            done.send(()).unwrap();
        });
        match wait.recv_timeout(HANG_TIMEOUT) {
            Err(mpsc::RecvTimeoutError::Timeout) => panic!("hung with {mode:?}, ring {ring}"),
            _ => thread.join().unwrap(),
        }
    }
}

/// Returns a stream whose peer has reset the connection, by closing it with unread data.
#[cfg(feature = "net")]
pub(crate) async fn connect_and_reset() -> TcpStream {
    let listener = TcpListener::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let (peer, _) = listener.accept().await.unwrap();
    assert_eq!(stream.write(b"unread").await.unwrap(), 6);
    peer.read(&mut [0; 1]).await.unwrap();
    drop(peer);
    stream.read(&mut [0; 1]).await.unwrap_err();
    stream
}

/// Runs `child` in a new process that repeats the test `test`, because signals and limits affect a
/// whole process. Returns the exit status of that process, and `None` inside the process itself.
/// Emulators cannot start processes, so `qemu.sh` skips modules called `own_process`.
#[allow(clippy::print_stdout, reason = "it prints the output of a failed test")]
pub(crate) fn run_in_separate_process(test: &str, child: fn()) -> Option<ExitStatus> {
    const INSIDE: &str = "BUSYPOLL_TEST_OWN_PROCESS";
    if std::env::var_os(INSIDE).is_some() {
        child();
        return None;
    }
    let program = std::env::current_exe().unwrap();
    let output = Command::new(program).args(["--exact", test]).env(INSIDE, "1").output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(!text.contains("running 0 tests"), "unknown test {test}");
    if !output.status.success() {
        println!("{text}{}", String::from_utf8_lossy(&output.stderr));
    }
    Some(output.status)
}
