//! The runtime that runs on this thread, and what code inside it reaches through it.

use std::cell::RefCell;
use std::mem::ManuallyDrop;
use std::rc::Rc;

use crate::executor::Executor;
use crate::resources::Resources;
use crate::run_queue;

thread_local! {
    /// Without a destructor, which [`Entered`] makes needless: so it is there as long as the thread
    /// is, also for a runtime that is itself in a thread-local.
    static CURRENT: ManuallyDrop<RefCell<Option<Rc<Executor>>>> = const { ManuallyDrop::new(RefCell::new(None)) };
}

/// While it lives, this thread is inside the runtime.
pub(crate) struct Entered;

/// # Panics
/// If a runtime runs on this thread already.
pub(crate) fn enter(executor: &Rc<Executor>) -> Entered {
    // Not everywhere: some systems take all thread-locals from a thread that ends. Then nothing is
    // found here, either.
    let _ = CURRENT.try_with(|current| {
        let mut current = current.borrow_mut();
        assert!(current.is_none(), "a busypoll runtime already runs on this thread");
        *current = Some(Rc::clone(executor));
    });
    run_queue::set_running(Some(Rc::clone(&executor.run_queue)));
    Entered
}

impl Drop for Entered {
    fn drop(&mut self) {
        run_queue::set_running(None);
        let executor = CURRENT.try_with(|current| current.borrow_mut().take());
        drop(executor);
    }
}

/// # Panics
/// Outside `block_on`.
#[inline]
pub(crate) fn current() -> Rc<Executor> {
    try_current().expect("no busypoll runtime runs on this thread: call this inside `block_on`")
}

#[inline]
pub(crate) fn try_current() -> Option<Rc<Executor>> {
    CURRENT.try_with(|current| current.borrow().clone()).ok().flatten()
}

impl Resources {
    /// The resources of the runtime that runs on this thread.
    ///
    /// # Panics
    /// Outside [`block_on`](crate::Runtime::block_on).
    #[must_use]
    pub fn current() -> Self {
        current().resources.clone()
    }
}
