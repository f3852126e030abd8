//! Spawning and yielding from inside the runtime.

use std::fmt;
use std::future::{Future, poll_fn};
use std::rc::Rc;
use std::task::Poll;

use crate::context;
use crate::core::Core;
use crate::join::JoinHandle;
use crate::slab::Slot;

/// Spawns a task in memory of its own.
///
/// The future need not be `Send`. A panic in it ends this task only, and is the [`JoinError`](crate::JoinError) of its handle.
///
/// # Panics
/// Outside [`block_on`](crate::Runtime::block_on).
#[track_caller]
#[inline]
pub fn spawn_boxed<F>(future: F) -> JoinHandle<F::Output>
where
    F: Future + 'static,
    F::Output: 'static,
{
    context::current().spawn_boxed(future)
}

/// Spawns a task in the runtime's slab.
///
/// Nothing is allocated, neither now nor when the task is polled, ends or is joined, while the slab has room, no more
/// tasks live than at some time before, and nobody keeps a waker of a task that ended. Where one of these does not hold,
/// a slot's bookkeeping (some hundred bytes) or a whole new chunk is.
///
/// # Panics
/// Outside [`block_on`](crate::Runtime::block_on), without a slab, if it is full, and if the future does not fit a slot.
#[track_caller]
#[inline]
pub fn spawn_slab<F>(future: F) -> JoinHandle<F::Output>
where
    F: Future + 'static,
    F::Output: 'static,
{
    // Not through a claim, which would be one more thing to be moved.
    let core = context::current();
    let slot = core.claim().expect("the slab is full");
    core.spawn_in(slot, future)
}

/// Claims a slot of the slab, to spawn into later; none if all are taken. Dropped, the claim gives the slot back.
///
/// # Panics
/// Outside [`block_on`](crate::Runtime::block_on), and without a slab.
#[inline]
pub fn try_claim_slab() -> Option<SlabClaim> {
    let core = context::current();
    let slot = core.claim()?;
    Some(SlabClaim { core, slot })
}

/// A slot of the slab that waits for its task.
///
/// ```compile_fail,E0277
/// fn send<T: Send>() {}
/// send::<busypoll::SlabClaim>();
/// ```
pub struct SlabClaim {
    core: Rc<Core>,
    slot: Slot,
}

impl SlabClaim {
    /// Spawns into the slot.
    ///
    /// # Panics
    /// If the future does not fit.
    #[track_caller]
    #[inline]
    pub fn spawn<F>(self, future: F) -> JoinHandle<F::Output>
    where
        F: Future + 'static,
        F::Output: 'static,
    {
        self.core.spawn_in(self.slot, future)
    }
}

impl fmt::Debug for SlabClaim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SlabClaim")
    }
}

/// Lets everything else that is ready run first.
pub async fn yield_now() {
    let mut yielded = false;
    poll_fn(|cx| {
        if std::mem::replace(&mut yielded, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
