//! Telling tasks to stop: a token that is cancelled once, with all its descendants, from any
//! thread.
//!
//! The tree: a node holds its children weakly and keeps its parent alive. So a child removes itself
//! from its parent when it is dropped, and a parent without handles, which nobody can cancel any
//! more, lives only as long as its children. Only one node is locked at a time.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Waker};

use pin_project_lite::pin_project;

use crate::waker_set::WakerSet;

#[derive(Debug, Default)]
struct Node {
    cancelled: AtomicBool,
    state: Mutex<State>,
    /// The parent, and our id there.
    parent: Option<(Arc<Node>, u64)>,
}

#[derive(Debug, Default)]
struct State {
    last_child: u64,
    children: BTreeMap<u64, Weak<Node>>,
    waiting: WakerSet,
}

impl Node {
    fn child(parent: Option<(Arc<Node>, u64)>, cancelled: bool) -> Arc<Self> {
        Arc::new(Self { cancelled: AtomicBool::new(cancelled), state: Mutex::default(), parent })
    }

    fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Acquire)
    }

    /// Only a waker's clone can panic under the lock, and that leaves the state whole.
    fn state(&self) -> MutexGuard<'_, State> {
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
                (std::mem::take(&mut state.children), state.waiting.take())
            };
            pending.extend(children.into_values().filter_map(|child| child.upgrade()));
            wakers.extend(waiting);
        }
        // All are cancelled before the first waker runs.
        wakers.into_iter().for_each(Waker::wake);
    }

    fn leave_parent(&mut self) -> Option<Arc<Node>> {
        let (parent, id) = self.parent.take()?;
        parent.state().children.remove(&id);
        Some(parent)
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // A loop, not recursion: we may be the last to hold a long line of ancestors.
        let mut next = self.leave_parent();
        while let Some(parent) = next {
            next = Arc::into_inner(parent).and_then(|mut parent| parent.leave_parent());
        }
    }
}

/// Tells any number of tasks to stop. Cancelling cannot be undone; clones are the same token.
///
/// It behaves as `tokio_util::sync::CancellationToken` does. It is `Send` and `Sync`: another
/// thread, or another runtime, may cancel it and wait for it.
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
    /// A token without a parent.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A token that is cancelled with this one; cancelling the child leaves this one alone. The
    /// child of a cancelled token is cancelled from the start.
    ///
    /// ```
    /// let parent = busypoll::CancellationToken::new();
    /// let (one, two) = (parent.child_token(), parent.child_token());
    /// one.cancel();
    /// assert!(one.is_cancelled() && !two.is_cancelled() && !parent.is_cancelled());
    /// parent.cancel();
    /// assert!(two.is_cancelled());
    /// ```
    #[must_use]
    pub fn child_token(&self) -> Self {
        let mut state = self.0.state();
        if self.is_cancelled() {
            return Self(Node::child(None, true));
        }
        state.last_child += 1;
        let id = state.last_child;
        let child = Node::child(Some((Arc::clone(&self.0), id)), false);
        state.children.insert(id, Arc::downgrade(&child));
        Self(child)
    }

    /// Cancels it and all its descendants, then wakes everybody who waits. Cancelling again does
    /// nothing.
    pub fn cancel(&self) {
        self.0.cancel();
    }

    /// Whether [`cancel`](Self::cancel) was called, on it or an ancestor.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.0.is_cancelled()
    }

    /// Waits until it is cancelled; ready at once if it already is.
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
    /// Dropping it loses nothing.
    pub fn cancelled(&self) -> Cancelled<'_> {
        Cancelled { node: &self.0, ticket: None }
    }

    /// Like [`cancelled`](Self::cancelled), but owns the token.
    pub async fn cancelled_owned(self) {
        self.cancelled().await;
    }

    /// A guard that cancels the token when dropped.
    ///
    /// ```
    /// let token = busypoll::CancellationToken::new();
    /// let kept = token.clone().drop_guard().disarm();
    /// assert!(!token.is_cancelled());
    /// drop(kept.drop_guard());
    /// assert!(token.is_cancelled());
    /// ```
    #[must_use = "dropped at once, the guard cancels at once"]
    pub fn drop_guard(self) -> DropGuard {
        DropGuard(Some(self))
    }

    /// Runs a future to its end and returns the output, or drops it and returns `None` once the
    /// token is cancelled. If the token was cancelled before, the future is not polled at all; if
    /// both happen at once, the output wins.
    ///
    /// # Cancel safety
    /// That of the future.
    pub async fn run_until_cancelled<F: Future>(&self, future: F) -> Option<F::Output> {
        if self.is_cancelled() {
            return None;
        }
        RunUntilCancelled { future, cancelled: self.cancelled() }.await
    }

    /// Like [`run_until_cancelled`](Self::run_until_cancelled), but owns the token.
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
    /// Of its waker in the node.
    ticket: Option<u64>,
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
            // Again, under the lock: from here on, whoever cancels finds the waker.
            if self.node.is_cancelled() {
                return Poll::Ready(());
            }
            replaced = state.waiting.join(&mut self.ticket, cx.waker());
        }
        // A waker's destructor is foreign code: not under the lock.
        drop(replaced);
        Poll::Pending
    }
}

impl Drop for Cancelled<'_> {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket {
            let removed = self.node.state().waiting.leave(ticket);
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

/// Cancels its token when dropped: see [`CancellationToken::drop_guard`].
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
