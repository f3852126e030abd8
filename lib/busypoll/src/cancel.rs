//! Telling tasks to stop: a token that is cancelled once, with all its descendants, from any thread.
//!
//! The tree: a node knows its children weakly and keeps its parent alive; so a child's end takes its entry out of the
//! parent, and a parent whose handles are gone, and which thus can no longer be cancelled, is kept by its children only.
//! Locks are taken one at a time, never a parent's while a child's is held, nor the other way round.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Waker};

use pin_project_lite::pin_project;

#[derive(Debug, Default)]
struct Node {
    cancelled: AtomicBool,
    state: Mutex<State>,
    /// The parent, and under which number it knows us.
    parent: Option<(Arc<Node>, u64)>,
}

#[derive(Debug, Default)]
struct State {
    numbers: u64,
    children: BTreeMap<u64, Weak<Node>>,
    waiting: BTreeMap<u64, Waker>,
}

impl State {
    fn number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }
}

impl Node {
    fn child(parent: Option<(Arc<Node>, u64)>, cancelled: bool) -> Arc<Self> {
        Arc::new(Self { cancelled: AtomicBool::new(cancelled), state: Mutex::default(), parent })
    }

    fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Acquire)
    }

    /// Nothing that could panic happens under the lock, but a waker's clone may, which leaves the state whole.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn cancel(self: &Arc<Self>) {
        let mut wakers = Vec::new();
        let mut open = vec![Arc::clone(self)];
        while let Some(node) = open.pop() {
            let (children, waiting) = {
                let mut state = node.state();
                if node.cancelled.swap(true, Ordering::AcqRel) {
                    continue;
                }
                (std::mem::take(&mut state.children), std::mem::take(&mut state.waiting))
            };
            open.extend(children.into_values().filter_map(|child| child.upgrade()));
            wakers.extend(waiting.into_values());
        }
        // All are cancelled before the first is told.
        wakers.into_iter().for_each(Waker::wake);
    }

    fn leave_parent(&mut self) -> Option<Arc<Node>> {
        let (parent, number) = self.parent.take()?;
        parent.state().children.remove(&number);
        Some(parent)
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // In a loop: a long line of ancestors kept by us alone must not end in as many nested calls.
        let mut next = self.leave_parent();
        while let Some(parent) = next {
            next = Arc::into_inner(parent).and_then(|mut parent| parent.leave_parent());
        }
    }
}

/// Tells any number of tasks to stop. Cancelling is for good; clones are the same token.
///
/// The meaning is that of `tokio_util::sync::CancellationToken`. It is `Send` and `Sync`: another thread, or another
/// runtime, may cancel it and wait for it.
///
/// ```
/// use busypoll::{CancellationToken, Runtime, spawn_boxed, time};
/// use std::time::Duration;
///
/// Runtime::new()?.block_on(async {
///     let token = CancellationToken::new();
///     let child = token.child_token();
///     let worker = spawn_boxed(async move {
///         let work = async { loop { time::sleep(Duration::from_micros(100)).await } };
///         child.run_until_cancelled(work).await
///     });
///     token.cancel();
///     assert_eq!(worker.await.unwrap(), None::<()>);
/// });
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Default)]
pub struct CancellationToken(Arc<Node>);

impl CancellationToken {
    /// A token that is not cancelled and has no parent.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A token that is cancelled when this one is, and by itself without this one. The child of a cancelled token is
    /// cancelled from the start.
    #[must_use]
    pub fn child_token(&self) -> Self {
        let mut state = self.0.state();
        if self.is_cancelled() {
            return Self(Node::child(None, true));
        }
        let number = state.number();
        let child = Node::child(Some((Arc::clone(&self.0), number)), false);
        state.children.insert(number, Arc::downgrade(&child));
        Self(child)
    }

    /// Cancels it and all its descendants, and then wakes all who wait. Cancelling again does nothing.
    pub fn cancel(&self) {
        self.0.cancel();
    }

    /// Whether it is cancelled.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.0.is_cancelled()
    }

    /// Waits until it is cancelled; ready at once if it is.
    ///
    /// # Cancel safety
    /// Dropped, it waits no more; nothing is lost.
    pub fn cancelled(&self) -> Cancelled<'_> {
        Cancelled { node: &self.0, number: None }
    }

    /// Like [`cancelled`](Self::cancelled), without a borrow.
    pub async fn cancelled_owned(self) {
        self.cancelled().await;
    }

    /// A guard that cancels the token when dropped.
    #[must_use = "dropped at once, the guard cancels at once"]
    pub fn drop_guard(self) -> DropGuard {
        DropGuard(Some(self))
    }

    /// Runs a future until it ends, which gives its output, or the token is cancelled, which drops it and gives `None`.
    /// On a token cancelled before, the future is not polled at all; afterwards a future that ends in the moment of the
    /// cancellation gives its output.
    ///
    /// # Cancel safety
    /// That of the future.
    pub async fn run_until_cancelled<F: Future>(&self, future: F) -> Option<F::Output> {
        if self.is_cancelled() {
            return None;
        }
        RunUntilCancelled { future, cancelled: self.cancelled() }.await
    }

    /// Like [`run_until_cancelled`](Self::run_until_cancelled), without a borrow.
    pub async fn run_until_cancelled_owned<F: Future>(self, future: F) -> Option<F::Output> {
        self.run_until_cancelled(future).await
    }
}

impl fmt::Debug for CancellationToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CancellationToken").field("is_cancelled", &self.is_cancelled()).finish()
    }
}

/// The future of [`CancellationToken::cancelled`].
#[must_use = "futures do nothing unless polled"]
pub struct Cancelled<'a> {
    node: &'a Node,
    number: Option<u64>,
}

impl Future for Cancelled<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.node.is_cancelled() {
            return Poll::Ready(());
        }
        let replaced;
        {
            let mut state = self.node.state();
            // Under the lock: from here on, who cancels finds the waker.
            if self.node.is_cancelled() {
                return Poll::Ready(());
            }
            let number = *self.number.get_or_insert_with(|| state.number());
            replaced = match state.waiting.get_mut(&number) {
                Some(known) if known.will_wake(cx.waker()) => None,
                _ => state.waiting.insert(number, cx.waker().clone()),
            };
        }
        // A waker's destructor is foreign code: not under the lock.
        drop(replaced);
        Poll::Pending
    }
}

impl Drop for Cancelled<'_> {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            let removed = self.node.state().waiting.remove(&number);
            drop(removed);
        }
    }
}

impl fmt::Debug for Cancelled<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cancelled").field("is_cancelled", &self.node.is_cancelled()).finish()
    }
}

pin_project! {
    struct RunUntilCancelled<'a, F> {
        #[pin]
        future: F,
        #[pin]
        cancelled: Cancelled<'a>,
    }
}

impl<F: Future> Future for RunUntilCancelled<'_, F> {
    type Output = Option<F::Output>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        if let Poll::Ready(output) = this.future.poll(cx) {
            return Poll::Ready(Some(output));
        }
        this.cancelled.poll(cx).map(|()| None)
    }
}

/// Cancels its token when dropped.
#[derive(Debug)]
pub struct DropGuard(Option<CancellationToken>);

impl DropGuard {
    /// Gives the token back, uncancelled.
    ///
    /// # Panics
    /// Never: the token is gone only after a drop.
    #[must_use]
    pub fn disarm(mut self) -> CancellationToken {
        self.0.take().expect("the token is there until the drop")
    }
}

impl Drop for DropGuard {
    fn drop(&mut self) {
        if let Some(token) = &self.0 {
            token.cancel();
        }
    }
}
