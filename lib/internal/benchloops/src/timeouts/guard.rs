//! Interface between the loops and the ways to put a timeout around a wait.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

/// A message that is waited for.
pub trait Message: Future<Output: Send> + Send {}

impl<F: Future<Output: Send> + Send> Message for F {}

/// A way to put a timeout around a wait.
pub trait Guard: Send + 'static {
    /// Creates a guard inside the runtime on which it will run.
    fn new(length: Duration) -> Self;

    /// Waits for `message` with a timeout, and returns `None` if the timeout fired.
    ///
    /// The message is polled before the timeout.
    fn wait<M: Message>(
        self: Pin<&mut Self>,
        message: M,
    ) -> impl Future<Output = Option<M::Output>> + Send;

    /// Restarts the wait, for guards whose timeout counts from the last message.
    fn begin(self: Pin<&mut Self>) {}

    /// Arms the timeout after a message, without polling it.
    fn arm(self: Pin<&mut Self>);

    /// Polls the armed timeout, as at the beginning of a wait for the next message.
    fn poll_armed(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()>;

    /// Whether the timeout can fire.
    const FIRES: bool = true;
}

/// An operation that is generic over the type of a guard.
pub trait Visitor {
    type Output;
    fn visit<G: Guard>(self) -> Self::Output;
}
