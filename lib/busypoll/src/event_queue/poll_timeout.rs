//! Everywhere else: the timeout of the wait itself. In nanoseconds with kqueue; rounded up to whole
//! milliseconds on Windows, and where there is only `epoll_wait`.

use std::io;
use std::time::{Duration, Instant};

use mio::{Registry, Token};

#[derive(Debug)]
pub(super) struct ParkTimer;

impl ParkTimer {
    #[allow(clippy::unnecessary_wraps, reason = "the other timer can fail")]
    pub(super) fn new(_: &Registry) -> io::Result<Self> {
        Ok(Self)
    }

    #[allow(clippy::unused_self, reason = "the other timer has state")]
    pub(super) fn arm(&self, limit: Option<(Instant, Duration)>) -> Option<Duration> {
        limit.map(|(_, left)| left)
    }

    pub(super) fn is(_: Token) -> bool {
        false
    }

    #[allow(clippy::unused_self, reason = "the other timer has state")]
    pub(super) fn expired(&self) {}
}
