//! Tests of tasks: how they start, end, fail and are dropped.
mod common;

use std::cell::{Cell, RefCell};
use std::future::{Future, pending};
use std::rc::Rc;
use std::time::Instant;

use busypoll::{Runtime, spawn_boxed, spawn_slab, try_claim_slab, yield_now};
use common::{run_in_every_mode, scaled};

struct DropCounter(Rc<Cell<u32>>);

impl Drop for DropCounter {
    fn drop(&mut self) {
        self.0.set(self.0.get() + 1);
    }
}

#[test]
fn root_is_borrowed_and_returns_output() {
    run_in_every_mode(|runtime| {
        let text = String::from("root");
        assert_eq!(runtime.block_on(async { text.len() }), 4);
    });
}

#[test]
fn handles_return_outputs() {
    run_in_every_mode(|runtime| {
        let sum = runtime.block_on(async {
            let a = spawn_boxed(async { 1 });
            let b = spawn_slab(async {
                yield_now().await;
                2
            });
            a.await.unwrap() + b.await.unwrap()
        });
        assert_eq!(sum, 3);
        assert_eq!(runtime.live_tasks(), 0);
    });
}

#[test]
fn tasks_run_in_wake_order() {
    run_in_every_mode(|runtime| {
        let log = Rc::new(RefCell::new(Vec::new()));
        runtime.block_on(async {
            let handles: Vec<_> = (0..3)
                .map(|id| {
                    let log = Rc::clone(&log);
                    spawn_boxed(async move {
                        for round in 0..2 {
                            log.borrow_mut().push((round, id));
                            yield_now().await;
                        }
                    })
                })
                .collect();
            for handle in handles {
                handle.await.unwrap();
            }
        });
        assert_eq!(*log.borrow(), [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)]);
    });
}

#[test]
fn detached_task_runs_and_drops_output() {
    run_in_every_mode(|runtime| {
        let drops = Rc::new(Cell::new(0));
        runtime.block_on(async {
            let output = DropCounter(Rc::clone(&drops));
            drop(spawn_boxed(async move {
                yield_now().await;
                output
            }));
            for _ in 0..5 {
                yield_now().await;
            }
        });
        assert_eq!(drops.get(), 1);
    });
}

#[test]
fn aborted_task_is_not_polled() {
    run_in_every_mode(|runtime| {
        let drops = Rc::new(Cell::new(0));
        runtime.block_on(async {
            let guard = DropCounter(Rc::clone(&drops));
            let handle = spawn_slab(async move {
                let _guard = guard;
                pending::<()>().await;
            });
            yield_now().await;
            assert!(!handle.is_finished());
            handle.abort();
            yield_now().await;
            yield_now().await;
        });
        assert_eq!(drops.get(), 1);
        assert_eq!(runtime.live_tasks(), 0);
    });
}

#[test]
fn panic_ends_only_that_task() {
    run_in_every_mode(|runtime| {
        runtime.block_on(async {
            let bad = spawn_boxed(async { panic!("on purpose") });
            let good = spawn_slab(async { 7 });
            let error = bad.await.unwrap_err();
            assert!(error.is_panic() && !error.is_cancelled());
            let payload = error.try_into_panic().unwrap();
            assert_eq!(payload.downcast_ref::<&str>(), Some(&"on purpose"));
            assert_eq!(good.await.unwrap(), 7);
        });
    });
}

#[test]
fn panicking_tasks_do_not_stall_others() {
    run_in_every_mode(|runtime| {
        let ended = Rc::new(RefCell::new(Vec::new()));
        let outputs = runtime.block_on(async {
            let task = |i: u32| {
                let ended = Rc::clone(&ended);
                spawn_boxed(async move {
                    // After this, all tasks are in the queue at the same time.
                    yield_now().await;
                    ended.borrow_mut().push(i);
                    assert!(i % 3 != 1, "on purpose");
                    i
                })
            };
            let tasks: Vec<_> = (0..7).map(task).collect();
            let mut outputs = Vec::new();
            for task in tasks {
                outputs.push(task.await.ok());
            }
            outputs
        });
        assert_eq!(outputs, [Some(0), None, Some(2), Some(3), None, Some(5), Some(6)]);
        assert_eq!(*ended.borrow(), [0, 1, 2, 3, 4, 5, 6]);
        assert_eq!(runtime.live_tasks(), 0);
    });
}

struct PanickingWake;

impl std::task::Wake for PanickingWake {
    fn wake(self: std::sync::Arc<Self>) {
        panic!("on purpose");
    }
}

#[test]
fn foreign_panic_reaches_the_caller() {
    run_in_every_mode(|runtime| {
        for panics in [false, true] {
            let mut task = std::pin::pin!(runtime.spawn_boxed(async move {
                assert!(!panics, "on purpose");
                5
            }));
            let others: Vec<_> = (0..3).map(|i| runtime.spawn_boxed(async move { i })).collect();
            let waker = std::task::Waker::from(std::sync::Arc::new(PanickingWake));
            assert!(task.as_mut().poll(&mut std::task::Context::from_waker(&waker)).is_pending());
            // The task ends and wakes the waker, which panics.
            let block_on = std::panic::AssertUnwindSafe(|| runtime.block_on(pending::<()>()));
            assert!(std::panic::catch_unwind(block_on).is_err());
            assert_eq!(runtime.block_on(task).ok(), (!panics).then_some(5));
            // The tasks that were ready at the same time still run in order.
            for (i, other) in others.into_iter().enumerate() {
                assert_eq!(runtime.block_on(other).unwrap(), i);
            }
        }
    });
}

#[test]
fn panicking_root_leaves_runtime_usable() {
    run_in_every_mode(|runtime| {
        let waits = runtime.spawn_boxed(async {
            for _ in 0..3 {
                yield_now().await;
            }
            2
        });
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            runtime.block_on(async {
                // A task has then been polled before the panic.
                yield_now().await;
                panic!("on purpose")
            });
        }));
        assert!(result.is_err());
        assert_eq!(runtime.block_on(async { 1 }), 1);
        assert_eq!(runtime.block_on(waits).unwrap(), 2);
    });
}

#[test]
fn hundred_thousand_tasks_complete() {
    run_in_every_mode(|runtime| {
        let count = Rc::new(Cell::new(0_u32));
        runtime.block_on(async {
            let handles: Vec<_> = (0..scaled(100_000))
                .map(|_| {
                    let count = Rc::clone(&count);
                    spawn_boxed(async move {
                        yield_now().await;
                        count.set(count.get() + 1);
                    })
                })
                .collect();
            for handle in handles {
                handle.await.unwrap();
            }
        });
        assert_eq!(count.get(), scaled(100_000));
        assert_eq!(runtime.live_tasks(), 0);
    });
}

#[test]
fn full_slab_refuses_until_slot_freed() {
    let mut runtime = Runtime::builder().slab(256, 2).build().unwrap();
    runtime.block_on(async {
        let first = try_claim_slab().unwrap();
        let second = try_claim_slab().unwrap();
        assert!(try_claim_slab().is_none());
        drop(second);
        let handle = first.spawn(async { 5 });
        assert!(try_claim_slab().is_some());
        assert_eq!(handle.await.unwrap(), 5);
        let both = (try_claim_slab(), try_claim_slab());
        assert!(both.0.is_some() && both.1.is_some());
    });
}

#[test]
fn growing_slab_is_never_full() {
    let mut runtime = Runtime::builder().slab_growing(256, 2).build().unwrap();
    runtime.block_on(async {
        let claims: Vec<_> = (0..7).map(|_| try_claim_slab().unwrap()).collect();
        for (i, claim) in claims.into_iter().enumerate() {
            assert_eq!(claim.spawn(async move { i }).await.unwrap(), i);
        }
    });
}

#[test]
fn dropped_runtime_drops_nested_tasks() {
    struct SpawnOnDrop(Rc<Cell<u32>>);
    impl Drop for SpawnOnDrop {
        fn drop(&mut self) {
            let guard = DropCounter(Rc::clone(&self.0));
            drop(spawn_boxed(async move {
                let _guard = guard;
                pending::<()>().await;
            }));
        }
    }
    let drops = Rc::new(Cell::new(0));
    let runtime = Runtime::new().unwrap();
    let spawner = SpawnOnDrop(Rc::clone(&drops));
    let handle = runtime.spawn_boxed(async move {
        let _spawner = spawner;
        pending::<()>().await;
    });
    drop(runtime);
    assert_eq!(drops.get(), 1);
    assert!(handle.is_finished());
    let mut handle = std::pin::pin!(handle);
    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    let std::task::Poll::Ready(Err(error)) = handle.as_mut().poll(&mut cx) else {
        panic!("not cancelled")
    };
    assert!(error.is_cancelled());
}

#[test]
fn claim_of_dropped_runtime_is_cancelled() {
    let mut runtime = Runtime::builder().slab(256, 1).build().unwrap();
    let claim = runtime.block_on(async { try_claim_slab().unwrap() });
    drop(runtime);
    let drops = Rc::new(Cell::new(0));
    let guard = DropCounter(Rc::clone(&drops));
    let task = claim.spawn(async move {
        let _guard = guard;
    });
    assert!(task.is_finished());
    assert_eq!(drops.get(), 1);
    let error = Runtime::new().unwrap().block_on(task).unwrap_err();
    assert!(error.is_cancelled());
}

/// A value that spawns a task from its destructor, which owns the next heir, until no heirs remain.
struct Heir {
    drops: Rc<Cell<u32>>,
    heirs: u32,
}

impl Drop for Heir {
    fn drop(&mut self) {
        self.drops.set(self.drops.get() + 1);
        if self.heirs > 0 {
            let heir = Self { drops: Rc::clone(&self.drops), heirs: self.heirs - 1 };
            drop(spawn_boxed(async move {
                let _heir = heir;
                pending::<()>().await;
            }));
        }
    }
}

/// Searching the table from its start for each task would take some thousand times as long as
/// adding the tasks. A stall of the machine may take as long, but not in each attempt.
#[test]
fn very_many_live_tasks_drop_quickly() {
    run_in_every_mode(|runtime| {
        assert!((0..5).any(|_| drop_live_tasks(runtime)), "dropping the tasks takes long");
    });
}

/// Adds many tasks and drops them with their runtime, which is replaced. Returns whether dropping
/// them was quick.
#[allow(clippy::disallowed_methods, reason = "two times of the same thread are compared")]
fn drop_live_tasks(runtime: &mut Runtime) -> bool {
    const TASKS: u32 = scaled(200_000);
    let drops = Rc::new(Cell::new(0));
    let begun = Instant::now();
    for i in 0..TASKS {
        // The last chain of heirs is as long as the table. Some heirs reuse an entry before their
        // parent's, others an entry behind it.
        let heirs = if i == TASKS - 1 { TASKS } else { i % 2 };
        let heir = Heir { drops: Rc::clone(&drops), heirs };
        drop(runtime.spawn_boxed(async move {
            let _heir = heir;
            pending::<()>().await;
        }));
    }
    let adding = begun.elapsed();
    // Tasks that have run and wait are dropped like tasks that have never run.
    runtime.block_on(async {
        for _ in 0..TASKS / 128 {
            yield_now().await;
        }
    });
    let runtime = std::mem::replace(runtime, Runtime::new().unwrap());
    let begun = Instant::now();
    drop(runtime);
    let dropping = begun.elapsed();
    let dropped_before_last = (TASKS - 1) + (TASKS - 1) / 2;
    assert_eq!(drops.get(), dropped_before_last + 1 + TASKS);
    dropping < 100 * adding
}

mod own_process {
    use std::cell::RefCell;
    use std::future::pending;
    use std::rc::Rc;

    use super::{Heir, Runtime};
    use crate::common::run_in_separate_process;

    thread_local! {
        static KEPT: RefCell<Option<Runtime>> = const { RefCell::new(None) };
    }

    /// A panic in the destructor of a thread-local would end the process.
    #[test]
    #[cfg(not(miri))]
    fn thread_local_runtime_drops_tasks() {
        let status =
            run_in_separate_process("own_process::thread_local_runtime_drops_tasks", || {
                for used_before in [false, true] {
                    let thread = std::thread::spawn(move || {
                        let mut runtime = Runtime::new().unwrap();
                        let drops = Rc::default();
                        let heir = Heir { drops: Rc::clone(&drops), heirs: 3 };
                        drop(runtime.spawn_boxed(async move {
                            let _heir = heir;
                            pending::<()>().await;
                        }));
                        // The thread-local that is used first is destroyed either first or last.
                        if used_before {
                            runtime.block_on(async {});
                        }
                        KEPT.with(|kept| *kept.borrow_mut() = Some(runtime));
                        KEPT.with(|kept| kept.borrow_mut().as_mut().unwrap().block_on(async {}));
                    });
                    thread.join().unwrap();
                }
            });
        assert!(status.is_none_or(|status| status.success()), "{status:?}");
    }
}

#[test]
fn nested_runtime_panics() {
    let mut outer = Runtime::new().unwrap();
    let mut inner = Runtime::new().unwrap();
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        outer.block_on(async { inner.block_on(async {}) });
    }));
    assert!(result.is_err());
    inner.block_on(async {});
}

#[test]
fn busy_task_blocks_others() {
    run_in_every_mode(|runtime| {
        let log = Rc::new(RefCell::new(Vec::new()));
        runtime.block_on(async {
            let (a, b) = (Rc::clone(&log), Rc::clone(&log));
            let hog = spawn_boxed(async move {
                for _ in 0..scaled(1_000_000) {
                    std::hint::black_box(());
                }
                a.borrow_mut().push("hog");
            });
            let other = spawn_boxed(async move { b.borrow_mut().push("other") });
            other.await.unwrap();
            hog.await.unwrap();
        });
        assert_eq!(*log.borrow(), ["hog", "other"]);
    });
}

#[test]
fn always_ready_task_keeps_timers_running() {
    run_in_every_mode(|runtime| {
        runtime.block_on(async {
            let spinner = spawn_boxed(async {
                loop {
                    yield_now().await;
                }
            });
            busypoll::time::sleep(std::time::Duration::from_millis(2)).await;
            spinner.abort();
        });
    });
}

#[test]
fn turn_polls_limited_tasks() {
    let mut runtime = busypoll::Runtime::builder().tasks_per_turn(4).build().unwrap();
    assert_eq!(runtime.turns(), 0);
    runtime.block_on(async {});
    assert_eq!(runtime.turns(), 1);
    let polled = std::rc::Rc::new(std::cell::Cell::new(0));
    let seen = runtime.block_on(async {
        for _ in 0..10 {
            let polled = std::rc::Rc::clone(&polled);
            drop(busypoll::spawn_boxed(async move { polled.set(polled.get() + 1) }));
        }
        let mut seen = Vec::new();
        for _ in 0..4 {
            busypoll::yield_now().await;
            seen.push(polled.get());
        }
        seen
    });
    assert_eq!(seen, [4, 8, 10, 10]);
    assert_eq!(runtime.turns(), 6);
}
