//! The runtime that runs on this thread, and what code inside it reaches through it.

use std::cell::RefCell;
use std::rc::Rc;

use crate::executor::Executor;
use crate::resources::Resources;
use crate::run_queue;

thread_local! {
    static CURRENT: RefCell<Option<Rc<Executor>>> = const { RefCell::new(None) };
}

/// While it lives, this thread is inside the runtime.
pub(crate) struct Entered;

/// # Panics
/// If a runtime runs on this thread already.
pub(crate) fn enter(executor: &Rc<Executor>) -> Entered {
    CURRENT.with(|current| {
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
        let executor = CURRENT.with(|current| current.borrow_mut().take());
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
