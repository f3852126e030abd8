//! The runtime that runs on the current thread.

use std::cell::RefCell;
use std::mem::ManuallyDrop;
use std::rc::Rc;

use crate::executor::Executor;
use crate::resources::Resources;
use crate::run_queue;

thread_local! {
    /// The current runtime. It has no destructor, so that it exists as long as the thread does,
    /// even for a runtime that is itself in a thread-local; [`RuntimeGuard`] clears it instead.
    static CURRENT: ManuallyDrop<RefCell<Option<Rc<Executor>>>> = const { ManuallyDrop::new(RefCell::new(None)) };
}

/// Marks the current thread as being inside a runtime until dropped.
pub(crate) struct RuntimeGuard;

/// Enters the runtime on this thread.
///
/// # Panics
/// Panics if a runtime already runs on this thread.
pub(crate) fn enter(executor: &Rc<Executor>) -> RuntimeGuard {
    // Some systems destroy all thread-locals of a thread that ends. No runtime is found on such a
    // thread.
    let _ = CURRENT.try_with(|current| set_current(&mut current.borrow_mut(), executor));
    run_queue::set_running(Some(Rc::clone(&executor.run_queue)));
    RuntimeGuard
}

fn set_current(current: &mut Option<Rc<Executor>>, executor: &Rc<Executor>) {
    assert!(current.is_none(), "a busypoll runtime already runs on this thread");
    *current = Some(Rc::clone(executor));
}

impl Drop for RuntimeGuard {
    fn drop(&mut self) {
        run_queue::set_running(None);
        let executor = CURRENT.try_with(|current| current.borrow_mut().take());
        drop(executor);
    }
}

/// Returns the runtime of this thread.
///
/// # Panics
/// Panics outside `block_on`.
#[inline]
pub(crate) fn current() -> Rc<Executor> {
    try_current().expect("no busypoll runtime runs on this thread: call this inside `block_on`")
}

#[inline]
pub(crate) fn try_current() -> Option<Rc<Executor>> {
    CURRENT.try_with(|current| current.borrow().clone()).ok().flatten()
}

impl Resources {
    /// Returns the resources of the runtime that runs on this thread.
    ///
    /// # Panics
    /// Panics outside [`block_on`](crate::Runtime::block_on).
    #[must_use]
    pub fn current() -> Self {
        current().resources.clone()
    }
}
