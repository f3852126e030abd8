//! The backend of platforms without a native timer. Its types cannot be constructed.

use std::io;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use crate::backend::Backend;

pub(crate) const TIMERS_PER_QUEUE: usize = 1;
pub(crate) const WAKES_FROM_RUNTIME: bool = true;

pub(crate) fn can_repeat(_period: Duration) -> bool {
    false
}

pub(crate) fn native() -> Option<Backend> {
    None
}

#[derive(Debug)]
pub(crate) enum OneShot {}

impl OneShot {
    pub(crate) fn new() -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(crate) fn arm(&mut self, _deadline: Instant) -> io::Result<()> {
        match *self {}
    }

    pub(crate) fn poll_fired(&mut self, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match *self {}
    }
}

#[derive(Debug)]
pub(crate) enum Periodic {}

impl Periodic {
    pub(crate) fn new(_first: Instant, _period: Duration) -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(crate) fn can_take_expiration_late(&self) -> bool {
        match *self {}
    }

    pub(crate) fn poll_expired(&mut self, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match *self {}
    }
}
