//! Panics of runtimes: where a thread cannot be had, or the driver meets an error that it does not
//! expect. What one ends is its round or its probe, not the run, and its text is the reason of
//! that: nothing for stderr.

use std::any::Any;
use std::cell::Cell;
use std::panic::AssertUnwindSafe;

/// The name of a runtime's threads, whose panics the runtime itself catches.
pub const WORKER_NAME: &str = "osjitter-worker";

thread_local! {
    /// Whether what panics on this thread is caught.
    static IS_CAUGHT: Cell<bool> = const { Cell::new(false) };
}

/// Calls it; what it panicked with is the error.
pub fn catch_panic<T>(run: impl FnOnce() -> T) -> Result<T, String> {
    let before = IS_CAUGHT.replace(true);
    let result = std::panic::catch_unwind(AssertUnwindSafe(run));
    IS_CAUGHT.set(before);
    result.map_err(|panic| format!("its runtime gave up: {}", text(&*panic)))
}

fn text(panic: &(dyn Any + Send)) -> &str {
    let text = panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or(panic.downcast_ref::<&str>().copied());
    text.unwrap_or("without a word")
}

/// What a task came to. Where it panicked, this thread goes on with that, to be caught.
pub fn join_or_resume_unwind<T>(ended: Result<T, tokio::task::JoinError>) -> T {
    match ended.map_err(tokio::task::JoinError::try_into_panic) {
        Ok(value) => value,
        Err(Ok(panic)) => std::panic::resume_unwind(panic),
        Err(Err(cancelled)) => panic!("{cancelled}"),
    }
}

/// From here on, only a panic that is not caught is shown.
pub fn install_hook() {
    let show = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        // A thread that is ending has no flag any more.
        let is_caught = IS_CAUGHT.try_with(Cell::get).unwrap_or(false);
        if !is_caught && std::thread::current().name() != Some(WORKER_NAME) {
            show(panic);
        }
    }));
}
