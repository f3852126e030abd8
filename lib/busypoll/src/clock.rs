//! The only function of this crate that reads the clock.

use std::time::Instant;

#[inline]
#[allow(clippy::disallowed_methods, reason = "the home of the runtime's clock")]
pub(crate) fn now() -> Instant {
    Instant::now()
}
