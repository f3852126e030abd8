//! Tests of orderly shutdown: draining tasks, and the shutdown signal.
mod common;

use std::future::pending;
use std::time::Duration;

use busypoll::{CancellationToken, Runtime, spawn_boxed, time, yield_now};
use common::run_in_every_mode;

#[test]
fn drain_waits_for_spawned_descendants() {
    run_in_every_mode(|runtime| {
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
        let drained = runtime.drain(Duration::from_secs(300));
        assert!(drained.is_complete());
        assert_eq!((drained.finished, runtime.live_tasks()), (20, 0));
        assert_eq!(drained.to_string(), "20 tasks ended");
        // Without tasks, a drain returns at once.
        assert_eq!(runtime.drain(Duration::MAX).finished, 0);
    });
}

#[test]
fn drain_reports_unfinished_tasks() {
    run_in_every_mode(|runtime| {
        runtime.block_on(async { drop(busypoll::spawn_slab(async {})) });
        let line = line!() + 1;
        drop(runtime.spawn_boxed(pending::<()>()));
        drop(runtime.spawn_boxed(async { std::panic::resume_unwind(Box::new("on purpose")) }));
        let drained = runtime.drain(Duration::ZERO);
        assert!(!drained.is_complete());
        assert_eq!(drained.finished, 2, "a task that panicked counts as finished");
        assert_eq!(drained.unfinished.len(), 1);
        assert_eq!((drained.unfinished[0].file(), drained.unfinished[0].line()), (file!(), line));
        assert_eq!(drained.to_string(), format!("2 tasks ended; not: {}:{line}:22", file!()));
        assert_eq!(runtime.live_tasks(), 1, "the unfinished task is still live");
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

/// More tasks are woken outside of the runtime than one turn accepts.
#[test]
fn drain_runs_every_woken_task() {
    const TASKS: usize = 1_000;
    run_in_every_mode(|runtime| {
        let stop = CancellationToken::new();
        for _ in 0..TASKS {
            let stop = stop.clone();
            drop(runtime.spawn_boxed(async move { stop.cancelled().await }));
        }
        assert_eq!(runtime.drain(Duration::ZERO).finished, 0);
        stop.cancel();
        let drained = runtime.drain(Duration::ZERO);
        assert_eq!((drained.finished, drained.unfinished.len()), (TASKS, 0));
    });
}

/// More tasks are ready than one turn polls. The first panics, which ends its turn.
#[test]
fn drain_runs_every_ready_task() {
    const TASKS: usize = 1_000;
    run_in_every_mode(|runtime| {
        drop(runtime.spawn_boxed(async { std::panic::resume_unwind(Box::new("on purpose")) }));
        for _ in 1..TASKS {
            drop(runtime.spawn_boxed(async {}));
        }
        // This one is always ready, and runs once.
        drop(runtime.spawn_boxed(async {
            loop {
                yield_now().await;
            }
        }));
        let drained = runtime.drain(Duration::ZERO);
        assert_eq!((drained.finished, drained.unfinished.len()), (TASKS, 1));
    });
}

#[test]
fn drain_can_be_continued() {
    let mut runtime = Runtime::new().unwrap();
    let token = CancellationToken::new();
    drop(runtime.spawn_boxed(token.clone().cancelled_owned()));
    assert_eq!(runtime.drain(Duration::from_millis(1)).finished, 0);
    token.cancel();
    assert_eq!(runtime.drain(Duration::from_secs(300)).finished, 1);
}

#[cfg(all(unix, feature = "signal"))]
mod own_process {
    use std::os::unix::process::ExitStatusExt;
    use std::time::Duration;

    use crate::common::run_in_separate_process;
    use busypoll::{Parking, Runtime, ShutdownSignal, time};
    use rustix::process::{Signal, getpid, kill_process};

    fn send(signal: Signal) {
        kill_process(getpid(), signal).unwrap();
    }

    /// Waits for the signal to end the process, since it may interrupt another thread. A process
    /// that returns from here has survived the signal.
    fn wait_for_signal() {
        std::thread::park_timeout(Duration::from_secs(600));
    }

    #[test]
    fn signal_completes_every_runtime() {
        let status = run_in_separate_process("own_process::signal_completes_every_runtime", || {
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
                                time::timeout(Duration::from_millis(1), &mut signal).await.is_err()
                            );
                            ready.send(()).unwrap();
                            (&mut signal).await.unwrap();
                            // The signal stays complete.
                            signal.await.unwrap();
                        });
                    })
                })
                .collect();
            for _ in &threads {
                wait.recv().unwrap();
            }
            send(Signal::INT);
            for thread in threads {
                thread.join().unwrap();
            }
        });
        assert!(status.is_none_or(|status| status.success()));
    }

    #[test]
    fn second_signal_ends_process() {
        let status = run_in_separate_process("own_process::second_signal_ends_process", || {
            Runtime::new().unwrap().block_on(async {
                let mut signal = ShutdownSignal::current().unwrap();
                send(Signal::TERM);
                (&mut signal).await.unwrap();
                send(Signal::TERM);
                wait_for_signal();
            });
        });
        assert!(
            status.is_none_or(|status| status.signal() == Some(Signal::TERM.as_raw())),
            "{status:?}"
        );
    }

    #[test]
    fn signal_without_waiter_ends_process() {
        let status =
            run_in_separate_process("own_process::signal_without_waiter_ends_process", || {
                Runtime::new().unwrap().block_on(async {
                    drop(ShutdownSignal::current().unwrap());
                    drop(ShutdownSignal::current().unwrap());
                    send(Signal::INT);
                    wait_for_signal();
                });
            });
        assert!(
            status.is_none_or(|status| status.signal() == Some(Signal::INT.as_raw())),
            "{status:?}"
        );
    }
}
