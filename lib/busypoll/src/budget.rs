//! How much a task may do in one poll before it must let others run, where nothing it awaits ever
//! makes it wait: an operation that is ready at once takes from the budget of the poll, and one
//! that finds none left yields instead.

use std::cell::Cell;
use std::task::{Context, Poll};

use crate::run_queue;

/// In each poll of a task, as in tokio's.
const OPERATIONS: u32 = 128;

thread_local! {
    static LEFT: Cell<u32> = const { Cell::new(OPERATIONS) };
}

/// A poll begins.
#[inline]
pub(crate) fn refill() {
    LEFT.set(OPERATIONS);
}

/// Whether an operation would proceed.
#[inline]
pub(crate) fn is_left() -> bool {
    LEFT.get() > 0
}

/// Pending if none is left: then the task is polled again once others had their turn.
#[inline]
pub(crate) fn poll_proceed(cx: &Context<'_>) -> Poll<()> {
    if is_left() { Poll::Ready(()) } else { exhausted(cx) }
}

/// An operation was ready.
#[inline]
pub(crate) fn spend() {
    LEFT.set(LEFT.get().saturating_sub(1));
}

#[cold]
fn exhausted(cx: &Context<'_>) -> Poll<()> {
    if !run_queue::is_running() {
        // Channels work in any runtime. The others look after their tasks themselves.
        refill();
        return Poll::Ready(());
    }
    cx.waker().wake_by_ref();
    Poll::Pending
}
