//! Cancellation tokens. A token is cancelled once, along with all its descendants, from any thread.
//!
//! The tokens form a tree. A node holds its children weakly and keeps its parent alive. A child
//! therefore removes itself from its parent when it is dropped. A parent without handles can no
//! longer be cancelled directly and lives only as long as its children. Only one node is locked at
//! a time.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, PoisonError, Weak};
use std::task::{Context, Poll, Waker};

use pin_project_lite::pin_project;

use crate::sync::{AtomicBool, Mutex, MutexGuard, Ordering};
use crate::waker_set::WakerSet;

#[derive(Debug, Default)]
struct TokenNode {
    cancelled: AtomicBool,
    state: Mutex<NodeState>,
    /// The parent, and the id of this node there.
    parent: Option<(Arc<TokenNode>, u64)>,
}

#[derive(Debug, Default)]
struct NodeState {
    last_child: u64,
    children: BTreeMap<u64, Weak<TokenNode>>,
    waiting: WakerSet,
}

impl TokenNode {
    fn new(parent: Option<(Arc<TokenNode>, u64)>, cancelled: bool) -> Arc<Self> {
        Arc::new(Self { cancelled: AtomicBool::new(cancelled), state: Mutex::default(), parent })
    }

    fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Acquire)
    }

    /// Locks the state. Poisoning is ignored: no foreign code runs under the lock.
    fn state(&self) -> MutexGuard<'_, NodeState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn cancel(self: &Arc<Self>) {
        let mut wakers = Vec::new();
        let mut pending = vec![Arc::clone(self)];
        while let Some(node) = pending.pop() {
            let (children, waiting) = {
                let mut state = node.state();
                if node.cancelled.swap(true, Ordering::AcqRel) {
                    continue;
                }
                (std::mem::take(&mut state.children), state.waiting.take_wakers())
            };
            pending.extend(children.into_values().filter_map(|child| child.upgrade()));
            wakers.extend(waiting);
        }
        // All nodes are cancelled before the first waker runs.
        wakers.into_iter().for_each(Waker::wake);
    }

    fn leave_parent(&mut self) -> Option<Arc<TokenNode>> {
        let (parent, id) = self.parent.take()?;
        parent.state().children.remove(&id);
        Some(parent)
    }
}

impl Drop for TokenNode {
    fn drop(&mut self) {
        // A loop instead of recursion, since this node may be the last owner of a long chain of
        // ancestors.
        let mut next = self.leave_parent();
        while let Some(parent) = next {
            next = Arc::into_inner(parent).and_then(|mut parent| parent.leave_parent());
        }
    }
}

/// A signal that requests any number of tasks to stop. Clones are the same token. A cancellation
/// cannot be undone.
///
/// It behaves as `tokio_util::sync::CancellationToken` does. A token is `Send` and `Sync`: other
/// threads and other runtimes can cancel it and wait for it.
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
pub struct CancellationToken(Arc<TokenNode>);

impl CancellationToken {
    /// Creates a token without a parent.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates a token that is cancelled along with this one. Cancelling the child does not cancel
    /// this token. The child of a cancelled token is cancelled from the start.
    ///
    /// ```
    /// let parent = busypoll::CancellationToken::new();
    /// let (first, second) = (parent.child_token(), parent.child_token());
    /// first.cancel();
    /// assert!(first.is_cancelled() && !second.is_cancelled() && !parent.is_cancelled());
    /// parent.cancel();
    /// assert!(second.is_cancelled());
    /// ```
    #[must_use]
    pub fn child_token(&self) -> Self {
        let mut state = self.0.state();
        if self.is_cancelled() {
            return Self(TokenNode::new(None, true));
        }
        state.last_child += 1;
        let id = state.last_child;
        let child = TokenNode::new(Some((Arc::clone(&self.0), id)), false);
        state.children.insert(id, Arc::downgrade(&child));
        Self(child)
    }

    /// Cancels the token and all its descendants, then wakes all waiting tasks. Does nothing if the
    /// token is already cancelled.
    pub fn cancel(&self) {
        self.0.cancel();
    }

    /// Returns whether [`cancel`](Self::cancel) was called on this token or an ancestor.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.0.is_cancelled()
    }

    /// Waits until the token is cancelled. Completes at once if it already is.
    ///
    /// ```
    /// use busypoll::{CancellationToken, Runtime};
    ///
    /// let token = CancellationToken::new();
    /// let remote = token.clone();
    /// std::thread::spawn(move || remote.cancel());
    /// Runtime::new()?.block_on(async { token.cancelled().await });
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing.
    pub fn cancelled(&self) -> Cancelled<'_> {
        Cancelled { node: &self.0, ticket: None }
    }

    /// Waits like [`cancelled`](Self::cancelled), but owns the token.
    ///
    /// # Cancel safety
    /// Dropping the future drops the token, and loses nothing else.
    pub async fn cancelled_owned(self) {
        self.cancelled().await;
    }

    /// Returns a guard that cancels the token when dropped.
    ///
    /// ```
    /// let token = busypoll::CancellationToken::new();
    /// let kept = token.clone().drop_guard().disarm();
    /// assert!(!token.is_cancelled());
    /// drop(kept.drop_guard());
    /// assert!(token.is_cancelled());
    /// ```
    pub fn drop_guard(self) -> DropGuard {
        DropGuard(Some(self))
    }

    /// Runs a future to its end and returns its output, or drops it and returns `None` once the
    /// token is cancelled. If the token is already cancelled, the future is not polled at all. If
    /// the future ends and the token is cancelled at the same time, the output is returned.
    ///
    /// # Cancel safety
    /// Cancel safe if the future is.
    pub async fn run_until_cancelled<F: Future>(&self, future: F) -> Option<F::Output> {
        if self.is_cancelled() {
            return None;
        }
        RunUntilCancelled { future, cancelled: self.cancelled() }.await
    }

    /// Runs a future like [`run_until_cancelled`](Self::run_until_cancelled), but owns the token.
    ///
    /// # Cancel safety
    /// Cancel safe if the future is.
    pub async fn run_until_cancelled_owned<F: Future>(self, future: F) -> Option<F::Output> {
        self.run_until_cancelled(future).await
    }
}

impl fmt::Debug for CancellationToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CancellationToken").field("is_cancelled", &self.is_cancelled()).finish()
    }
}

/// The future returned by [`CancellationToken::cancelled`]. It is `Send` and `Sync`.
#[must_use = "futures do nothing unless polled"]
pub struct Cancelled<'a> {
    node: &'a TokenNode,
    /// The ticket of this future's waker in the node.
    ticket: Option<u64>,
}

impl Future for Cancelled<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.node.is_cancelled() {
            return Poll::Ready(());
        }
        let has_waker = |ticket| self.node.state().waiting.has_waker(ticket, cx.waker());
        if self.ticket.is_some_and(has_waker) {
            return Poll::Pending;
        }
        // A waker's clone and destructor are foreign code, so they run without the lock.
        let waker = cx.waker().clone();
        let replaced;
        {
            let mut state = self.node.state();
            // Checked again under the lock: a cancellation after this check finds the waker.
            if self.node.is_cancelled() {
                return Poll::Ready(());
            }
            replaced = state.waiting.register(&mut self.ticket, waker);
        }
        drop(replaced);
        Poll::Pending
    }
}

impl Drop for Cancelled<'_> {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket {
            let removed = self.node.state().waiting.deregister(ticket);
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

/// Cancels its token when dropped. See [`CancellationToken::drop_guard`]. It is `Send` and `Sync`.
#[must_use = "dropped at once, the guard cancels at once"]
#[derive(Debug)]
pub struct DropGuard(Option<CancellationToken>);

impl DropGuard {
    /// Returns the token without cancelling it.
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

#[cfg(all(test, loom))]
mod loom_tests {
    use loom::future::block_on;
    use loom::thread::spawn;

    use super::*;

    /// A lost wake would leave the waiter waiting forever, which loom reports as a deadlock.
    #[test]
    fn waiter_sees_every_cancellation() {
        loom::model(|| {
            let token = CancellationToken::new();
            let remote = token.clone();
            let canceller = spawn(move || remote.cancel());
            block_on(token.cancelled());
            assert!(token.is_cancelled());
            canceller.join().unwrap();
        });
    }

    #[test]
    fn child_is_cancelled_with_its_parent() {
        loom::model(|| {
            let parent = CancellationToken::new();
            let remote = parent.clone();
            let canceller = spawn(move || remote.cancel());
            block_on(parent.child_token().cancelled_owned());
            canceller.join().unwrap();
        });
    }

    /// A child that leaves while its parent is cancelled neither deadlocks nor stops the others.
    #[test]
    fn leaving_child_spares_its_sibling() {
        loom::model(|| {
            let parent = CancellationToken::new();
            let (leaving, staying) = (parent.child_token(), parent.child_token());
            let leaver = spawn(move || drop(leaving));
            parent.cancel();
            assert!(staying.is_cancelled());
            leaver.join().unwrap();
            assert!(parent.0.state().children.is_empty());
        });
    }

    #[test]
    fn two_cancellations_wake_once_done() {
        loom::model(|| {
            let parent = CancellationToken::new();
            let child = parent.child_token();
            let (remote, waiter) = (child.clone(), child.clone());
            let canceller = spawn(move || remote.cancel());
            parent.cancel();
            block_on(waiter.cancelled());
            canceller.join().unwrap();
            assert!(parent.is_cancelled() && child.is_cancelled());
        });
    }
}
