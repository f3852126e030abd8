//! The budget of a poll, which makes a task yield even if it never has to wait.
//!
//! An operation that is ready at once spends from the budget of the poll. An operation that finds
//! the budget used up yields instead.
//!
//! A task may itself run another runtime, which polls refused operations again and again within one
//! poll of the task. The budget is therefore refilled after as many refusals.

use std::cell::Cell;
use std::task::{Context, Poll};

use crate::run_queue;

/// Operations in each poll of a task, and refusals before the budget is refilled. tokio uses the
/// same number of operations.
const OPERATIONS_PER_POLL: i32 = 128;

thread_local! {
    /// The operations that remain to the poll or, below zero, the number of refusals.
    static REMAINING: Cell<i32> = const { Cell::new(OPERATIONS_PER_POLL) };
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
    let remaining = REMAINING.get();
    REMAINING.set(remaining - i32::from(remaining > 0));
}

#[cold]
fn yield_or_refill(cx: &Context<'_>) -> Poll<()> {
    let remaining = REMAINING.get() - 1;
    // Channels work in any runtime. Other runtimes have budgets of their own.
    if !run_queue::is_running() || remaining < -OPERATIONS_PER_POLL {
        refill();
        return Poll::Ready(());
    }
    REMAINING.set(remaining);
    cx.waker().wake_by_ref();
    Poll::Pending
}
