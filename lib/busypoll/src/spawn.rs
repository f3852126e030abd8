//! Functions that spawn tasks and yield from inside the runtime.

use std::fmt;
use std::future::{Future, poll_fn};
use std::rc::Rc;
use std::task::{Context, Poll};

use crate::context;
use crate::executor::Executor;
use crate::join::JoinHandle;
use crate::slab::Slot;

/// Spawns a task on the heap.
///
/// The future need not be `Send`. A panic in it ends this task only; the handle returns the panic
/// as a [`JoinError`](crate::JoinError).
///
/// ```
/// use busypoll::{Runtime, spawn_boxed};
///
/// let sum = Runtime::new()?.block_on(async {
///     let first = spawn_boxed(async { 1 });
///     let second = spawn_boxed(async { 2 });
///     first.await.unwrap() + second.await.unwrap()
/// });
/// assert_eq!(sum, 3);
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Panics
/// Panics outside [`block_on`](crate::Runtime::block_on).
#[track_caller]
#[inline]
pub fn spawn_boxed<F: Future<Output: 'static> + 'static>(future: F) -> JoinHandle<F::Output> {
    let executor = context::current();
    let task = executor.spawn_boxed(future);
    JoinHandle::new(executor, task)
}

/// Spawns a task in the runtime's slab.
///
/// Spawning, polling, ending and joining a task allocate nothing if the slab has a free slot, no
/// more tasks are live than at some earlier time, and no waker of an ended task is kept. Otherwise
/// the bookkeeping of a task (about a hundred bytes) or a chunk of the slab is allocated.
///
/// ```
/// use busypoll::{Runtime, spawn_slab};
///
/// let mut runtime = Runtime::builder().slab(256, 64).build()?;
/// runtime.block_on(async {
///     assert_eq!(spawn_slab(async { 1 }).await.unwrap(), 1);
/// });
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Panics
/// Panics outside [`block_on`](crate::Runtime::block_on), if the runtime has no slab, if the slab
/// is full, or if the future does not fit a slot.
#[track_caller]
#[inline]
pub fn spawn_slab<F: Future<Output: 'static> + 'static>(future: F) -> JoinHandle<F::Output> {
    // This does not use a claim, which would be one more value to move.
    let executor = context::current();
    let slot = executor.claim_slot().expect("the slab is full");
    let task = executor.spawn_in(slot, future);
    JoinHandle::new(executor, task)
}

/// Claims a slot of the slab for a later spawn. Returns `None` if all slots are in use. Dropping
/// the claim frees the slot.
///
/// ```
/// use busypoll::{Runtime, try_claim_slab};
///
/// let mut runtime = Runtime::builder().slab(256, 1).build()?;
/// runtime.block_on(async {
///     let claim = try_claim_slab().unwrap();
///     assert!(try_claim_slab().is_none());
///     assert_eq!(claim.spawn(async { 1 }).await.unwrap(), 1);
/// });
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Panics
/// Panics outside [`block_on`](crate::Runtime::block_on), or if the runtime has no slab.
#[inline]
#[must_use]
pub fn try_claim_slab() -> Option<SlabClaim> {
    let executor = context::current();
    let slot = executor.claim_slot()?;
    Some(SlabClaim { executor, slot })
}

/// A slot of the slab, reserved by [`try_claim_slab`]. It is neither `Send` nor `Sync`.
#[must_use = "dropping the claim frees the slot"]
pub struct SlabClaim {
    executor: Rc<Executor>,
    slot: Slot,
}

impl SlabClaim {
    /// Spawns a task into the slot. If the runtime has been dropped, the future is dropped at once
    /// and the handle returns a cancellation.
    ///
    /// # Panics
    /// Panics if the future does not fit.
    #[track_caller]
    #[inline]
    pub fn spawn<F: Future<Output: 'static> + 'static>(self, future: F) -> JoinHandle<F::Output> {
        let task = self.executor.spawn_in(self.slot, future);
        JoinHandle::new(self.executor, task)
    }
}

impl fmt::Debug for SlabClaim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SlabClaim")
    }
}

/// In a task, lets everything else that is ready run first. In the future that is given to
/// [`block_on`](crate::Runtime::block_on), lets the loop make one turn, which polls at most
/// [`tasks_per_turn`](crate::Builder::tasks_per_turn) tasks. Dropping the future loses nothing.
///
/// ```
/// use busypoll::{Runtime, spawn_boxed, yield_now};
///
/// Runtime::new()?.block_on(async {
///     let task = spawn_boxed(async {});
///     yield_now().await;
///     assert!(task.is_finished());
/// });
/// # Ok::<(), std::io::Error>(())
/// ```
pub async fn yield_now() {
    let mut yielded = false;
    poll_fn(|cx| poll_yield(&mut yielded, cx)).await;
}

#[inline]
fn poll_yield(yielded: &mut bool, cx: &Context<'_>) -> Poll<()> {
    if std::mem::replace(yielded, true) {
        return Poll::Ready(());
    }
    cx.waker().wake_by_ref();
    Poll::Pending
}
