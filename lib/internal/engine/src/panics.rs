//! Panics of runtimes, for example if a thread cannot be started or the driver fails unexpectedly.
//!
//! A panic ends its round or probe, but not the run. Its text becomes the reason of the failure and
//! is not printed to standard error.

use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, PanicHookInfo};

/// Name of the worker threads of runtimes, which catch the panics on these threads.
pub const WORKER_NAME: &str = "osjitter-worker";

thread_local! {
    /// Whether panics on this thread are caught.
    static IS_CAUGHT: Cell<bool> = const { Cell::new(false) };
}

/// Calls a function and converts a panic to an error.
pub fn catch_panic<T>(run: impl FnOnce() -> T) -> Result<T, RuntimePanic> {
    let before = IS_CAUGHT.replace(true);
    let result = std::panic::catch_unwind(AssertUnwindSafe(run));
    IS_CAUGHT.set(before);
    result.map_err(|panic| RuntimePanic::new(&*panic))
}

/// A panic of a runtime, with its message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("its runtime panicked: {}", .0.as_deref().unwrap_or("without a message"))]
pub struct RuntimePanic(Option<String>);

impl RuntimePanic {
    fn new(panic: &(dyn Any + Send)) -> Self {
        let literal = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        Self(panic.downcast_ref::<String>().cloned().or(literal))
    }
}

/// Returns the output of a task. If the task panicked, resumes the panic on this thread.
pub fn join_or_resume_unwind<T>(result: Result<T, tokio::task::JoinError>) -> T {
    match result.map_err(tokio::task::JoinError::try_into_panic) {
        Ok(value) => value,
        Err(Ok(panic)) => std::panic::resume_unwind(panic),
        Err(Err(cancelled)) => panic!("{cancelled}"),
    }
}

/// Installs a panic hook that prints only panics that are not caught.
pub fn install_hook() {
    let print_panic = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| print_uncaught(panic, &*print_panic)));
}

fn print_uncaught(panic: &PanicHookInfo<'_>, print: &dyn Fn(&PanicHookInfo<'_>)) {
    // The flag is not accessible while a thread exits.
    let is_caught = IS_CAUGHT.try_with(Cell::get).unwrap_or(false);
    if !is_caught && std::thread::current().name() != Some(WORKER_NAME) {
        print(panic);
    }
}
