//! The limit of a wait in the kernel.

use std::time::{Duration, Instant};

/// The limit of a wait, as an absolute and as a relative time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WaitLimit {
    #[allow(dead_code, reason = "only Linux and Android wait until an absolute time")]
    pub(crate) deadline: Instant,
    pub(crate) remaining: Duration,
}
