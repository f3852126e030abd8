//! The budget of a poll, which makes a task yield even if it never has to wait.
//!
//! An operation that is ready at once spends from the budget of the poll. An operation that finds
//! the budget used up yields instead.

use std::cell::Cell;
use std::task::{Context, Poll};

use crate::run_queue;

/// Operations in each poll of a task. tokio uses the same number.
const OPERATIONS_PER_POLL: u32 = 128;

thread_local! {
    static REMAINING: Cell<u32> = const { Cell::new(OPERATIONS_PER_POLL) };
}

/// Refills the budget at the start of a poll.
#[inline]
pub(crate) fn refill() {
    REMAINING.set(OPERATIONS_PER_POLL);
}

/// Returns whether an operation can proceed.
#[inline]
pub(crate) fn has_remaining() -> bool {
    REMAINING.get() > 0
}

/// Returns `Pending` if the budget is used up. The task is then polled again after others had a
/// turn.
#[inline]
pub(crate) fn poll_proceed(cx: &Context<'_>) -> Poll<()> {
    if has_remaining() { Poll::Ready(()) } else { yield_or_refill(cx) }
}

/// Records that an operation was ready.
#[inline]
pub(crate) fn spend() {
    REMAINING.set(REMAINING.get().saturating_sub(1));
}

#[cold]
fn yield_or_refill(cx: &Context<'_>) -> Poll<()> {
    if !run_queue::is_running() {
        // Channels work in any runtime. Other runtimes have budgets of their own.
        refill();
        return Poll::Ready(());
    }
    cx.waker().wake_by_ref();
    Poll::Pending
}
