//! Tests of cancellation tokens: cancelling once, with all descendants, from any thread, and waking
//! all waiting tasks.
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
use common::{run_in_every_mode, scaled};

#[test]
fn cancelling_parent_cancels_descendants_only() {
    let root = CancellationToken::new();
    let (first, second) = (root.child_token(), root.child_token());
    let grandchild = first.child_token();
    first.cancel();
    assert!(first.is_cancelled() && grandchild.is_cancelled());
    assert!(!root.is_cancelled() && !second.is_cancelled());
    assert!(first.child_token().is_cancelled(), "the child of a cancelled token");
    let clone = root.clone();
    clone.cancel();
    clone.cancel();
    assert!(root.is_cancelled() && second.is_cancelled());
}

#[test]
fn children_outlive_intermediate_handles() {
    let root = CancellationToken::new();
    let child = root.child_token().child_token().child_token();
    root.cancel();
    assert!(child.is_cancelled());
    let orphan = CancellationToken::new().child_token();
    assert!(!orphan.is_cancelled(), "a dropped parent does not cancel its children");
}

#[test]
fn long_token_chain_does_not_overflow() {
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
fn all_waiters_are_woken() {
    run_in_every_mode(|runtime| {
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
fn another_thread_cancels_parked_runtime() {
    run_in_every_mode(|runtime| {
        let token = CancellationToken::new();
        let remote = token.clone();
        let thread = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(20));
            remote.cancel();
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
fn output_wins_unless_cancelled_before() {
    run_in_every_mode(|runtime| {
        runtime.block_on(async {
            let token = CancellationToken::new();
            assert_eq!(token.run_until_cancelled(ready(1)).await, Some(1));
            // This future ends in the same poll in which the token is cancelled.
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
fn cancelled_future_is_dropped() {
    run_in_every_mode(|runtime| {
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
fn guard_cancels_unless_disarmed() {
    let token = CancellationToken::new();
    let kept = token.clone().drop_guard().disarm();
    assert!(!token.is_cancelled() && !kept.is_cancelled());
    drop(token.clone().drop_guard());
    assert!(kept.is_cancelled());
}

/// A waker that counts its calls.
#[derive(Default)]
struct Counter(AtomicU32);

impl Wake for Counter {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn dropped_wait_removes_waker() {
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
fn concurrent_children_are_all_cancelled() {
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
fn wait_ends_at_timeout_or_cancellation() {
    run_in_every_mode(|runtime| {
        runtime.block_on(async {
            let token = CancellationToken::new();
            assert!(time::timeout(Duration::from_micros(500), token.cancelled()).await.is_err());
            token.cancel();
            assert!(time::timeout(Duration::from_secs(300), token.cancelled()).await.is_ok());
        });
    });
}
