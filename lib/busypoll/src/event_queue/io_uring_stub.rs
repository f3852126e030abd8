//! A ring that is never available, for all systems other than Linux.

use std::io;

use crate::wait_limit::WaitLimit;

#[derive(Debug)]
pub(super) enum Ring {}

impl Ring {
    pub(super) fn new(_: &mio::Poll) -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(super) fn wait(&self, _: &mio::Poll, _: Option<WaitLimit>) -> bool {
        match *self {}
    }
}
