//! Ending in order: the signal, and the wait for what still runs.
mod common;

use std::future::pending;
use std::time::Duration;

use busypoll::{CancellationToken, Runtime, spawn_boxed, time, yield_now};
use common::in_every_mode;

#[test]
fn a_drain_waits_for_tasks_and_for_those_they_spawn() {
    in_every_mode(|runtime| {
        let token = CancellationToken::new();
        for i in 0..10 {
            let token = token.child_token();
            drop(runtime.spawn_boxed(async move {
                token.cancelled().await;
                drop(spawn_boxed(time::sleep(Duration::from_micros(100 * i))));
            }));
        }
        runtime.block_on(yield_now());
        assert_eq!(runtime.live_tasks(), 10);
        token.cancel();
        let drained = runtime.drain(Duration::from_secs(30));
        assert!(drained.is_complete());
        assert_eq!((drained.finished, runtime.live_tasks()), (20, 0));
        assert_eq!(drained.to_string(), "20 tasks ended");
        // Nothing to wait for: at once.
        assert_eq!(runtime.drain(Duration::MAX).finished, 0);
    });
}

#[test]
fn a_drain_says_what_did_not_end() {
    in_every_mode(|runtime| {
        runtime.block_on(async { drop(busypoll::spawn_slab(async {})) });
        let line = line!() + 1;
        drop(runtime.spawn_boxed(pending::<()>()));
        drop(runtime.spawn_boxed(async { std::panic::resume_unwind(Box::new("on purpose")) }));
        let drained = runtime.drain(Duration::ZERO);
        assert!(!drained.is_complete());
        assert_eq!(drained.finished, 2, "also those that panicked");
        assert_eq!(drained.unfinished.len(), 1);
        assert_eq!((drained.unfinished[0].file(), drained.unfinished[0].line()), (file!(), line));
        assert_eq!(drained.to_string(), format!("2 tasks ended; not: {}:{line}:22", file!()));
        assert_eq!(runtime.live_tasks(), 1, "it lives on");
        let spawned_inside = runtime.block_on(async {
            let at = line!() + 1;
            drop(busypoll::try_claim_slab().unwrap().spawn(pending::<()>()));
            drop(busypoll::spawn_slab(pending::<()>()));
            drop(spawn_boxed(pending::<()>()));
            at
        });
        let mut lines: Vec<_> =
            runtime.drain(Duration::ZERO).unfinished.iter().map(|at| at.line()).collect();
        lines.sort_unstable();
        assert_eq!(lines, [line, spawned_inside, spawned_inside + 1, spawned_inside + 2]);
    });
}

#[test]
fn a_drain_can_be_gone_on_with() {
    let mut runtime = Runtime::new().unwrap();
    drop(runtime.spawn_boxed(time_out_in(Duration::from_millis(20))));
    assert_eq!(runtime.drain(Duration::from_millis(1)).finished, 0);
    assert_eq!(runtime.drain(Duration::from_secs(30)).finished, 1);
}

async fn time_out_in(duration: Duration) {
    time::sleep(duration).await;
}

#[cfg(all(unix, feature = "signal"))]
mod own_process {
    use std::os::unix::process::ExitStatusExt;
    use std::time::Duration;

    use crate::common::in_its_own_process;
    use busypoll::{Parking, Runtime, ShutdownSignal, time};
    use rustix::process::{Signal, getpid, kill_process};

    fn send(signal: Signal) {
        kill_process(getpid(), signal).unwrap();
    }

    /// Another thread may be the one that the signal interrupts: gives it time. Whoever comes back
    /// survived.
    fn survive() {
        std::thread::park_timeout(Duration::from_secs(10));
    }

    #[test]
    fn a_signal_completes_the_wait_in_every_runtime() {
        let status =
            in_its_own_process("own_process::a_signal_completes_the_wait_in_every_runtime", || {
                let (ready, wait) = std::sync::mpsc::channel();
                let threads: Vec<_> = super::common::MODES
                    .into_iter()
                    .map(|mode: Parking| {
                        let ready = ready.clone();
                        std::thread::spawn(move || {
                            let mut runtime = Runtime::builder().parking(mode).build().unwrap();
                            runtime.block_on(async {
                                let mut signal = ShutdownSignal::current().unwrap();
                                assert!(
                                    time::timeout(Duration::from_millis(1), &mut signal)
                                        .await
                                        .is_err()
                                );
                                ready.send(()).unwrap();
                                (&mut signal).await.unwrap();
                                // It stays complete.
                                signal.await.unwrap();
                            });
                        })
                    })
                    .collect();
                for _ in &threads {
                    wait.recv().unwrap();
                }
                send(Signal::INT);
                threads.into_iter().for_each(|thread| thread.join().unwrap());
            });
        assert!(status.is_none_or(|status| status.success()));
    }

    #[test]
    fn the_second_signal_ends_the_process() {
        let status = in_its_own_process("own_process::the_second_signal_ends_the_process", || {
            Runtime::new().unwrap().block_on(async {
                let mut signal = ShutdownSignal::current().unwrap();
                send(Signal::TERM);
                (&mut signal).await.unwrap();
                send(Signal::TERM);
                survive();
            });
        });
        assert!(
            status.is_none_or(|status| status.signal() == Some(Signal::TERM.as_raw())),
            "{status:?}"
        );
    }

    #[test]
    fn a_signal_is_not_swallowed_once_nobody_waits() {
        let status =
            in_its_own_process("own_process::a_signal_is_not_swallowed_once_nobody_waits", || {
                Runtime::new().unwrap().block_on(async {
                    drop(ShutdownSignal::current().unwrap());
                    drop(ShutdownSignal::current().unwrap());
                    send(Signal::INT);
                    survive();
                });
            });
        assert!(
            status.is_none_or(|status| status.signal() == Some(Signal::INT.as_raw())),
            "{status:?}"
        );
    }
}
