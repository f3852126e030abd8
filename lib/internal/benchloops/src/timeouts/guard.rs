//! What the loops need of a way to put a timeout around a wait.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

/// What is waited for.
pub trait Message: Future<Output: Send> + Send {}

impl<F: Future<Output: Send> + Send> Message for F {}

/// A way to put a timeout around a wait.
pub trait Guard: Send + 'static {
    /// Makes one, inside the runtime it will run on.
    fn new(length: Duration) -> Self;

    /// Waits for `message` with the timeout around it; `None` if that fired. The message is polled
    /// first.
    fn wait<M: Message>(
        self: Pin<&mut Self>,
        message: M,
    ) -> impl Future<Output = Option<M::Output>> + Send;

    /// Begins a wait anew, for those ways whose wait goes on from the last message.
    fn begin(self: Pin<&mut Self>) {}

    /// A message came: what this way does for the next one, short of polling.
    fn arm(self: Pin<&mut Self>);

    /// The wait for the next one begins: what this way does when that is not there yet.
    fn poll_armed(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()>;

    /// Whether it ever fires.
    const FIRES: bool = true;
}

/// Something to be done with a guard, whose type is known only inside.
pub trait Visitor {
    type Output;
    fn visit<G: Guard>(self) -> Self::Output;
}
