//! Cancellation: once, for all descendants, from any thread, and nobody who waits is forgotten.
#![allow(clippy::disallowed_methods, reason = "the other thread cancels while the runtime is idle")]
mod common;

use std::cell::Cell;
use std::future::{Future, pending, poll_fn, ready};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use busypoll::{CancellationToken, spawn_boxed, time, yield_now};
use common::{in_every_mode, scaled};

#[test]
fn cancelling_a_parent_cancels_its_descendants_and_nobody_else() {
    let root = CancellationToken::new();
    let (left, right) = (root.child_token(), root.child_token());
    let grandchild = left.child_token();
    left.cancel();
    assert!(left.is_cancelled() && grandchild.is_cancelled());
    assert!(!root.is_cancelled() && !right.is_cancelled());
    assert!(left.child_token().is_cancelled(), "the child of a cancelled token");
    let clone = root.clone();
    clone.cancel();
    clone.cancel();
    assert!(root.is_cancelled() && right.is_cancelled());
}

#[test]
fn children_outlive_the_handles_between_them_and_their_ancestor() {
    let root = CancellationToken::new();
    let child = root.child_token().child_token().child_token();
    root.cancel();
    assert!(child.is_cancelled());
    let orphan = CancellationToken::new().child_token();
    assert!(!orphan.is_cancelled(), "a parent that goes does not cancel");
}

#[test]
fn a_long_line_of_tokens_is_cancelled_and_dropped() {
    let root = CancellationToken::new();
    let mut last = root.clone();
    for _ in 0..scaled(200_000) {
        last = last.child_token();
    }
    root.cancel();
    assert!(last.is_cancelled());
    let mut line = CancellationToken::new();
    for _ in 0..scaled(200_000) {
        line = line.child_token();
    }
    drop(line);
}

#[test]
fn all_who_wait_are_woken() {
    in_every_mode(|runtime| {
        runtime.block_on(async {
            let token = CancellationToken::new();
            let waiting: Vec<_> = (0..10)
                .map(|i| {
                    let token = if i % 2 == 0 { token.clone() } else { token.child_token() };
                    spawn_boxed(token.cancelled_owned())
                })
                .collect();
            yield_now().await;
            assert!(waiting.iter().all(|task| !task.is_finished()));
            token.cancel();
            for task in waiting {
                task.await.unwrap();
            }
            token.cancelled().await;
        });
    });
}

#[test]
fn another_thread_cancels_a_parked_runtime_s_work() {
    in_every_mode(|runtime| {
        let token = CancellationToken::new();
        let theirs = token.clone();
        let thread = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(20));
            theirs.cancel();
        });
        runtime.block_on(async {
            let child = token.child_token();
            let task = spawn_boxed(async move { child.run_until_cancelled(pending::<()>()).await });
            assert_eq!(task.await.unwrap(), None);
        });
        thread.join().unwrap();
    });
}

#[test]
fn run_until_cancelled_prefers_the_output_unless_cancelled_before() {
    in_every_mode(|runtime| {
        runtime.block_on(async {
            let token = CancellationToken::new();
            assert_eq!(token.run_until_cancelled(ready(1)).await, Some(1));
            // Ends in the very poll in which it is cancelled.
            let canceller = token.clone();
            let mut polls = 0;
            let both = poll_fn(move |cx| {
                polls += 1;
                if polls == 2 {
                    canceller.cancel();
                    return Poll::Ready(2);
                }
                cx.waker().wake_by_ref();
                Poll::Pending
            });
            assert_eq!(token.run_until_cancelled(both).await, Some(2));
            let polled = Cell::new(false);
            let never = poll_fn(|_| {
                polled.set(true);
                Poll::Ready(3)
            });
            assert_eq!(token.run_until_cancelled(never).await, None);
            assert!(!polled.get());
            assert_eq!(token.clone().run_until_cancelled_owned(ready(4)).await, None);
        });
    });
}

#[test]
fn what_was_run_is_dropped_when_cancelled() {
    in_every_mode(|runtime| {
        runtime.block_on(async {
            let token = CancellationToken::new();
            let held = Rc::new(());
            let inside = Rc::clone(&held);
            let child = token.child_token();
            let task = spawn_boxed(async move {
                let work = async move {
                    let _inside = inside;
                    pending::<()>().await;
                };
                child.run_until_cancelled(work).await
            });
            yield_now().await;
            assert_eq!(Rc::strong_count(&held), 2);
            token.cancel();
            assert_eq!(task.await.unwrap(), None);
            assert_eq!(Rc::strong_count(&held), 1);
        });
    });
}

#[test]
fn a_guard_cancels_unless_disarmed() {
    let token = CancellationToken::new();
    let kept = token.clone().drop_guard().disarm();
    assert!(!token.is_cancelled() && !kept.is_cancelled());
    drop(token.clone().drop_guard());
    assert!(kept.is_cancelled());
}

/// Counts its wakes.
#[derive(Default)]
struct Counter(AtomicU32);

impl Wake for Counter {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn a_dropped_wait_leaves_nothing_behind() {
    let token = CancellationToken::new();
    let counter = Arc::new(Counter::default());
    let waker = Waker::from(Arc::clone(&counter));
    let mut cx = Context::from_waker(&waker);
    for _ in 0..scaled(1_000) {
        let mut wait = std::pin::pin!(token.cancelled());
        assert!(wait.as_mut().poll(&mut cx).is_pending());
    }
    assert_eq!(Arc::strong_count(&counter), 2, "the token keeps wakers of waits that are gone");
    let mut wait = std::pin::pin!(token.cancelled());
    assert!(wait.as_mut().poll(&mut cx).is_pending());
    assert!(wait.as_mut().poll(&mut cx).is_pending());
    token.cancel();
    assert_eq!(counter.0.load(Ordering::Relaxed), 1);
    assert!(wait.as_mut().poll(&mut cx).is_ready());
}

#[test]
fn children_made_and_dropped_while_others_cancel() {
    for _ in 0..scaled(200) {
        let root = CancellationToken::new();
        let threads: Vec<_> = (0..4)
            .map(|i| {
                let root = root.clone();
                std::thread::spawn(move || {
                    let children: Vec<_> = (0..20).map(|_| root.child_token()).collect();
                    if i == 0 {
                        root.cancel();
                    }
                    children
                })
            })
            .collect();
        let children: Vec<_> =
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
        assert!(children.iter().all(CancellationToken::is_cancelled), "a child was overlooked");
    }
}

#[test]
fn a_wait_beside_a_timer_ends_with_either() {
    in_every_mode(|runtime| {
        runtime.block_on(async {
            let token = CancellationToken::new();
            assert!(time::timeout(Duration::from_micros(500), token.cancelled()).await.is_err());
            token.cancel();
            assert!(time::timeout(Duration::from_secs(30), token.cancelled()).await.is_ok());
        });
    });
}
