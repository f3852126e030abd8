//! The queue of the current runtime, which serves all sleeps that are made without a group.

use std::cell::RefCell;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::runtime::{Handle, Id};

use crate::backend::Fallback;
use crate::precision::Precision;
use crate::queue::TimerQueue;

/// A runtime and its queue.
struct RuntimeQueue {
    runtime: Id,
    queue: Arc<TimerQueue>,
}

/// The queue of every runtime that has one.
static QUEUES: Mutex<Vec<RuntimeQueue>> = Mutex::new(Vec::new());

thread_local! {
    /// The queue that this thread used last; most threads use one runtime.
    static LAST_USED: RefCell<Option<RuntimeQueue>> = const { RefCell::new(None) };
}

/// Returns the queue of the current runtime, and creates it if there is none.
///
/// # Errors
/// Returns an error if [`IntervalBuilder::build`](crate::IntervalBuilder::build) would.
pub(crate) fn current_queue() -> io::Result<Arc<TimerQueue>> {
    let runtime = Handle::try_current()
        .map_err(|error| io::Error::new(io::ErrorKind::NotConnected, error))?
        .id();
    let last = LAST_USED.try_with(|last| find_live(last.borrow().as_slice(), runtime));
    if let Ok(Some(queue)) = last {
        return Ok(queue);
    }
    let queue = find_or_create(runtime)?;
    let used = RuntimeQueue { runtime, queue: Arc::clone(&queue) };
    let previous = LAST_USED.try_with(|last| last.replace(Some(used)));
    // This may drop the last reference to a queue, so the cell must not be borrowed.
    drop(previous);
    Ok(queue)
}

/// Finds the queue of a runtime. The id of a runtime that has ended may be reused, so a queue
/// without a driver does not count.
fn find_live(queues: &[RuntimeQueue], runtime: Id) -> Option<Arc<TimerQueue>> {
    let is_live = |entry: &&RuntimeQueue| entry.runtime == runtime && entry.queue.has_driver();
    queues.iter().find(is_live).map(|entry| Arc::clone(&entry.queue))
}

fn find_or_create(runtime: Id) -> io::Result<Arc<TimerQueue>> {
    let existing = find_live(&lock_queues(), runtime);
    if let Some(queue) = existing {
        return Ok(queue);
    }
    // Creating a queue runs code of the runtime, so it is not done under the lock.
    let created = TimerQueue::new(Duration::from_nanos(1), Precision::Os, Fallback::Never)?;
    let mut queues = lock_queues();
    let ended: Vec<_> = queues.extract_if(.., |entry| !entry.queue.has_driver()).collect();
    // Another thread may have been faster.
    let queue = match find_live(&queues, runtime) {
        Some(queue) => queue,
        None => {
            queues.push(RuntimeQueue { runtime, queue: Arc::clone(&created) });
            Arc::clone(&created)
        }
    };
    drop(queues);
    drop((ended, created));
    Ok(queue)
}

fn lock_queues() -> MutexGuard<'static, Vec<RuntimeQueue>> {
    QUEUES.lock().unwrap_or_else(PoisonError::into_inner)
}
