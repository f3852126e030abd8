//! Creates timers on the drivers of the current tokio runtime.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;

use tokio::time::Sleep;

use crate::real_clock::FAR_FUTURE;

/// Creates a sleep of tokio that is not armed yet.
pub(crate) fn new_sleep() -> io::Result<Pin<Box<Sleep>>> {
    catch_driver_panic(|| Ok(Box::pin(tokio::time::sleep(FAR_FUTURE))))
}

/// Calls `make`, which registers a timer with the current tokio runtime.
///
/// tokio reports a disabled driver only by a panic. That is caught here, although the panic hook
/// still runs.
///
/// # Errors
/// Returns an error if `make` does, outside of a tokio runtime, or if the driver that `make` needs
/// is disabled.
pub(crate) fn catch_driver_panic<T>(make: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    tokio::runtime::Handle::try_current()
        .map_err(|error| io::Error::new(io::ErrorKind::NotConnected, error))?;
    catch_unwind(AssertUnwindSafe(make)).unwrap_or_else(|_| Err(driver_disabled()))
}

fn driver_disabled() -> io::Error {
    io::Error::new(
        io::ErrorKind::NotConnected,
        "the tokio runtime has its I/O or time driver disabled; call enable_all() on its builder",
    )
}
