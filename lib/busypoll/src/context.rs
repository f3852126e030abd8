//! The runtime that runs on this thread.

use std::cell::RefCell;
use std::rc::Rc;

use crate::core::Core;
use crate::waker::{Key, Shared};

thread_local! {
    static CURRENT: RefCell<Option<Rc<Core>>> = const { RefCell::new(None) };
}

/// While it lives, this thread is inside the runtime.
pub(crate) struct Entered;

/// # Panics
/// If a runtime runs on this thread already.
pub(crate) fn enter(core: &Rc<Core>) -> Entered {
    CURRENT.with(|current| {
        let mut current = current.borrow_mut();
        assert!(current.is_none(), "a busypoll runtime already runs on this thread");
        *current = Some(Rc::clone(core));
    });
    Entered
}

impl Drop for Entered {
    fn drop(&mut self) {
        let core = CURRENT.with(|current| current.borrow_mut().take());
        drop(core);
    }
}

/// The runtime of this thread.
///
/// # Panics
/// Outside `block_on`.
#[inline]
pub(crate) fn current() -> Rc<Core> {
    try_current().expect("no busypoll runtime runs on this thread: call this inside `block_on`")
}

#[inline]
pub(crate) fn try_current() -> Option<Rc<Core>> {
    CURRENT.try_with(|current| current.borrow().clone()).ok().flatten()
}

/// The fast path of a wake: straight into the run queue, if this is the runtime's own thread.
#[inline]
pub(crate) fn queue_here(shared: *const Shared, key: Key) -> bool {
    CURRENT
        .try_with(|current| match &*current.borrow() {
            Some(core) if std::ptr::eq(std::sync::Arc::as_ptr(&core.shared), shared) => {
                core.queue(key);
                true
            }
            _ => false,
        })
        .unwrap_or(false)
}
