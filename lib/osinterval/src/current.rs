//! The queue of the current runtime: one for all sleeps that are made without a group.

use std::cell::RefCell;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::runtime::{Handle, Id};

use crate::backend::Fallback;
use crate::precision::Precision;
use crate::queue::TimerQueue;

/// Of every runtime that has one.
static ALL: Mutex<Vec<(Id, Arc<TimerQueue>)>> = Mutex::new(Vec::new());

thread_local! {
    /// The one that this thread used last: most threads know one runtime.
    static LAST: RefCell<Option<(Id, Arc<TimerQueue>)>> = const { RefCell::new(None) };
}

/// The queue of the current runtime, made if there is none.
///
/// # Errors
/// As [`Builder::build`](crate::Builder::build).
pub(crate) fn queue() -> io::Result<Arc<TimerQueue>> {
    let runtime = Handle::try_current()
        .map_err(|error| io::Error::new(io::ErrorKind::NotConnected, error))?
        .id();
    let last = LAST.try_with(|last| find(last.borrow().as_slice(), runtime)).ok().flatten();
    if let Some(queue) = last {
        return Ok(queue);
    }
    let queue = of(runtime)?;
    let previous = LAST.try_with(|last| last.replace(Some((runtime, Arc::clone(&queue)))));
    // A queue ends with its last owner: not while it is borrowed.
    drop(previous);
    Ok(queue)
}

/// The id of a runtime that has ended may be used again: a queue counts only while it is served.
fn find(queues: &[(Id, Arc<TimerQueue>)], runtime: Id) -> Option<Arc<TimerQueue>> {
    queues
        .iter()
        .find(|(of, queue)| *of == runtime && queue.is_served())
        .map(|(_, queue)| Arc::clone(queue))
}

fn of(runtime: Id) -> io::Result<Arc<TimerQueue>> {
    let lock = || ALL.lock().unwrap_or_else(PoisonError::into_inner);
    let known = find(&lock(), runtime);
    if let Some(queue) = known {
        return Ok(queue);
    }
    // Making one runs code of the runtime's: not under the lock.
    let made = TimerQueue::new(Duration::from_nanos(1), Precision::Os, Fallback::Never)?;
    let mut all = lock();
    let ended: Vec<_> = all.extract_if(.., |(_, queue)| !queue.is_served()).collect();
    // Another thread may have been faster.
    let queue = find(&all, runtime).unwrap_or_else(|| {
        all.push((runtime, Arc::clone(&made)));
        Arc::clone(&made)
    });
    drop(all);
    drop((ended, made));
    Ok(queue)
}
