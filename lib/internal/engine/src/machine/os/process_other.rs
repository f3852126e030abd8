//! Programs on a platform of which nothing is known: it starts none.

use std::io;
use std::process::{ChildStderr, Command};
use std::time::Duration;

use crate::machine::os::types::Ended;

/// A program that was started; this platform starts none.
pub struct ProcessTree(());

impl ProcessTree {
    pub fn start(_command: &mut Command) -> io::Result<(Self, Option<ChildStderr>)> {
        Err(io::Error::from(io::ErrorKind::Unsupported))
    }

    pub fn id(&self) -> u32 {
        0
    }

    pub fn exit(&self) -> impl FnOnce() -> io::Result<()> + Send + use<> {
        || Ok(())
    }

    pub fn pause(&self) -> bool {
        false
    }

    pub fn resume(&self) {}

    pub fn end(&self, _limit: Duration) -> io::Result<Ended> {
        Err(io::Error::from(io::ErrorKind::Unsupported))
    }
}
