//! Tasks: how they start, end, fail and are dropped.
mod common;

use std::cell::{Cell, RefCell};
use std::future::{Future, pending};
use std::rc::Rc;
use std::time::Instant;

use busypoll::{Runtime, spawn_boxed, spawn_slab, try_claim_slab, yield_now};
use common::{in_every_mode, scaled};

struct OnDrop(Rc<Cell<u32>>);

impl Drop for OnDrop {
    fn drop(&mut self) {
        self.0.set(self.0.get() + 1);
    }
}

#[test]
fn the_root_is_borrowed_and_gives_its_output() {
    in_every_mode(|runtime| {
        let text = String::from("root");
        assert_eq!(runtime.block_on(async { text.len() }), 4);
    });
}

#[test]
fn handles_give_outputs_from_both_kinds_of_memory() {
    in_every_mode(|runtime| {
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
fn tasks_run_in_the_order_in_which_they_became_ready() {
    in_every_mode(|runtime| {
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
fn a_detached_task_runs_on_and_its_output_is_dropped() {
    in_every_mode(|runtime| {
        let drops = Rc::new(Cell::new(0));
        runtime.block_on(async {
            let output = OnDrop(Rc::clone(&drops));
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
fn an_aborted_task_drops_its_future_without_another_poll() {
    in_every_mode(|runtime| {
        let drops = Rc::new(Cell::new(0));
        runtime.block_on(async {
            let guard = OnDrop(Rc::clone(&drops));
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
fn a_panic_ends_its_task_only() {
    in_every_mode(|runtime| {
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
fn tasks_that_panic_side_by_side_hold_up_none_of_the_others() {
    in_every_mode(|runtime| {
        let ended = Rc::new(RefCell::new(Vec::new()));
        let outputs = runtime.block_on(async {
            let task = |i: u32| {
                let ended = Rc::clone(&ended);
                spawn_boxed(async move {
                    // All are in the queue at once.
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

struct PanicsAtWake;

impl std::task::Wake for PanicsAtWake {
    fn wake(self: std::sync::Arc<Self>) {
        panic!("on purpose");
    }
}

#[test]
fn a_panic_that_is_no_task_s_reaches_the_caller() {
    in_every_mode(|runtime| {
        for panics in [false, true] {
            let mut task = std::pin::pin!(runtime.spawn_boxed(async move {
                assert!(!panics, "on purpose");
                5
            }));
            let others: Vec<_> = (0..3).map(|i| runtime.spawn_boxed(async move { i })).collect();
            let waker = std::task::Waker::from(std::sync::Arc::new(PanicsAtWake));
            assert!(task.as_mut().poll(&mut std::task::Context::from_waker(&waker)).is_pending());
            // It ends, and wakes who waits for that.
            let block_on = std::panic::AssertUnwindSafe(|| runtime.block_on(pending::<()>()));
            assert!(std::panic::catch_unwind(block_on).is_err());
            assert_eq!(runtime.block_on(task).ok(), (!panics).then_some(5));
            // What was ready beside it runs in its order.
            for (i, other) in others.into_iter().enumerate() {
                assert_eq!(runtime.block_on(other).unwrap(), i);
            }
        }
    });
}

#[test]
fn a_panicking_root_leaves_the_runtime_usable() {
    in_every_mode(|runtime| {
        let waits = runtime.spawn_boxed(async {
            for _ in 0..3 {
                yield_now().await;
            }
            2
        });
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            runtime.block_on(async {
                // So that a task was polled before.
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
fn a_hundred_thousand_tasks() {
    in_every_mode(|runtime| {
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
fn a_full_slab_says_so_and_a_slot_comes_back() {
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
fn a_growing_slab_never_is_full() {
    let mut runtime = Runtime::builder().slab_growing(256, 2).build().unwrap();
    runtime.block_on(async {
        let claims: Vec<_> = (0..7).map(|_| try_claim_slab().unwrap()).collect();
        for (i, claim) in claims.into_iter().enumerate() {
            assert_eq!(claim.spawn(async move { i }).await.unwrap(), i);
        }
    });
}

#[test]
fn dropping_the_runtime_drops_tasks_also_those_spawned_meanwhile() {
    struct Spawns(Rc<Cell<u32>>);
    impl Drop for Spawns {
        fn drop(&mut self) {
            let guard = OnDrop(Rc::clone(&self.0));
            drop(spawn_boxed(async move {
                let _guard = guard;
                pending::<()>().await;
            }));
        }
    }
    let drops = Rc::new(Cell::new(0));
    let runtime = Runtime::new().unwrap();
    let spawns = Spawns(Rc::clone(&drops));
    let handle = runtime.spawn_boxed(async move {
        let _spawns = spawns;
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

/// A task that lives until it is dropped, and then spawns as many, one in the destructor of the
/// other.
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

/// One that looks at the table from its start for each task takes some thousand times as long as
/// adding them.
#[test]
#[allow(clippy::disallowed_methods, reason = "it compares two times of the same thread")]
fn a_runtime_with_very_many_live_tasks_is_dropped() {
    in_every_mode(|runtime| {
        const TASKS: u32 = scaled(200_000);
        let drops = Rc::new(Cell::new(0));
        let begun = Instant::now();
        for i in 0..TASKS {
            // The last line of heirs is as long as the table; some inherit a place before their
            // parent's, some one behind.
            let heirs = if i == TASKS - 1 { TASKS } else { i % 2 };
            let heir = Heir { drops: Rc::clone(&drops), heirs };
            drop(runtime.spawn_boxed(async move {
                let _heir = heir;
                pending::<()>().await;
            }));
        }
        let adding = begun.elapsed();
        // Those that have run, and wait, are dropped as those that never ran.
        runtime.block_on(async {
            for _ in 0..TASKS / 128 {
                yield_now().await;
            }
        });
        let runtime = std::mem::replace(runtime, Runtime::new().unwrap());
        let begun = Instant::now();
        drop(runtime);
        let dropping = begun.elapsed();
        assert!(dropping < 100 * adding, "{dropping:?} for what took {adding:?} to add");
        let of_all_but_the_last = (TASKS - 1) + (TASKS - 1) / 2;
        assert_eq!(drops.get(), of_all_but_the_last + 1 + TASKS);
    });
}

mod own_process {
    use std::cell::RefCell;
    use std::future::pending;
    use std::rc::Rc;

    use super::{Heir, Runtime};
    use crate::common::in_its_own_process;

    thread_local! {
        static KEPT: RefCell<Option<Runtime>> = const { RefCell::new(None) };
    }

    /// A destructor of a thread-local that panics ends the process.
    #[test]
    #[cfg(not(miri))]
    fn a_runtime_in_a_thread_local_is_dropped_with_its_tasks() {
        let status = in_its_own_process(
            "own_process::a_runtime_in_a_thread_local_is_dropped_with_its_tasks",
            || {
                for used_before in [false, true] {
                    let thread = std::thread::spawn(move || {
                        let mut runtime = Runtime::new().unwrap();
                        let drops = Rc::default();
                        let heir = Heir { drops: Rc::clone(&drops), heirs: 3 };
                        drop(runtime.spawn_boxed(async move {
                            let _heir = heir;
                            pending::<()>().await;
                        }));
                        // Whichever of the thread-locals is used first, is destroyed first or last.
                        if used_before {
                            runtime.block_on(async {});
                        }
                        KEPT.with(|kept| *kept.borrow_mut() = Some(runtime));
                        KEPT.with(|kept| kept.borrow_mut().as_mut().unwrap().block_on(async {}));
                    });
                    thread.join().unwrap();
                }
            },
        );
        assert!(status.is_none_or(|status| status.success()), "{status:?}");
    }
}

#[test]
fn one_runtime_inside_another_is_refused() {
    let mut outer = Runtime::new().unwrap();
    let mut inner = Runtime::new().unwrap();
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        outer.block_on(async { inner.block_on(async {}) });
    }));
    assert!(result.is_err());
    inner.block_on(async {});
}

#[test]
fn a_task_that_never_yields_stops_the_others_until_it_does() {
    in_every_mode(|runtime| {
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
fn a_task_that_always_is_ready_does_not_stop_timers() {
    in_every_mode(|runtime| {
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
fn a_turn_looks_at_the_root_and_at_no_more_tasks_than_it_is_told() {
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
