//! The future of one operation on a socket.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use mio::event::Source;

use super::registered::{Registered, Way};

/// Tries the operation until it does not block. Dropped before, it waits no more and has done nothing.
pub(super) struct Attempt<'a, S: Source, O> {
    source: &'a Registered<S>,
    way: Way,
    operation: O,
    ticket: Option<u64>,
}

impl<'a, S: Source, O> Attempt<'a, S, O> {
    pub(super) fn reading(source: &'a Registered<S>, operation: O) -> Self {
        Self { source, way: Way::Read, operation, ticket: None }
    }

    pub(super) fn writing(source: &'a Registered<S>, operation: O) -> Self {
        Self { source, way: Way::Write, operation, ticket: None }
    }
}

// The operation is called, never pinned.
impl<S: Source, O> Unpin for Attempt<'_, S, O> {}

impl<S: Source, R, O: FnMut(&S) -> io::Result<R>> Future for Attempt<'_, S, O> {
    type Output = io::Result<R>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        this.source.poll_io(this.way, cx, Some(&mut this.ticket), &mut this.operation)
    }
}

impl<S: Source, O> Drop for Attempt<'_, S, O> {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket {
            self.source.direction(self.way).forget(ticket);
        }
    }
}
