//! The future of a single operation on a socket.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use mio::event::Source;

use super::registered::{Direction, Registered};

/// Repeats `call` until it does not block. If the future is dropped before that, `call` has had no
/// effect.
pub(super) struct Operation<'a, S: Source, O> {
    source: &'a Registered<S>,
    direction: Direction,
    call: O,
    ticket: Option<u64>,
}

impl<'a, S: Source, O> Operation<'a, S, O> {
    pub(super) fn reading(source: &'a Registered<S>, call: O) -> Self {
        Self { source, direction: Direction::Read, call, ticket: None }
    }

    pub(super) fn writing(source: &'a Registered<S>, call: O) -> Self {
        Self { source, direction: Direction::Write, call, ticket: None }
    }
}

// `call` is only called and never pinned.
impl<S: Source, O> Unpin for Operation<'_, S, O> {}

impl<S: Source, R, O: FnMut(&S) -> io::Result<R>> Future for Operation<'_, S, O> {
    type Output = io::Result<R>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        this.source.poll_io(this.direction, cx, Some(&mut this.ticket), &mut this.call)
    }
}

impl<S: Source, O> Drop for Operation<'_, S, O> {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket {
            self.source.state(self.direction).deregister_waker(ticket);
        }
    }
}
