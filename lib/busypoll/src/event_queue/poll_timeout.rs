//! A park timer for all other systems: the timeout of the wait itself. It has a resolution of
//! nanoseconds with kqueue, and is rounded up to whole milliseconds on Windows and on systems that
//! only have `epoll_wait`.

use std::io;
use std::time::Duration;

use mio::{Registry, Token};

use crate::wait_limit::WaitLimit;

#[derive(Debug)]
pub(super) struct ParkTimer;

impl ParkTimer {
    #[allow(clippy::unnecessary_wraps, reason = "the other timer can fail")]
    pub(super) fn new(_: &Registry) -> io::Result<Self> {
        Ok(Self)
    }

    #[allow(clippy::unnecessary_wraps, clippy::unused_self, reason = "the other timer can fail")]
    pub(super) fn check(&self) -> io::Result<()> {
        Ok(())
    }

    #[allow(clippy::unused_self, reason = "the other timer has state")]
    pub(super) fn arm(&self, limit: Option<WaitLimit>) -> Option<Duration> {
        limit.map(|limit| limit.remaining)
    }

    pub(super) fn is_timer_token(_: Token) -> bool {
        false
    }

    #[allow(clippy::unused_self, reason = "the other timer has state")]
    pub(super) fn mark_expired(&self) {}
}
