//! Placeholder for platforms on which programs cannot be started.

use std::io;
use std::process::Command;
use std::time::Duration;

use crate::machine::os::types::{ProcessTreeExit, StartedTree};

/// A running program, which does not exist on this platform.
pub struct ProcessTree(());

impl ProcessTree {
    pub fn start(_command: &mut Command) -> io::Result<StartedTree> {
        Err(io::Error::from(io::ErrorKind::Unsupported))
    }

    pub fn id(&self) -> u32 {
        0
    }

    pub fn exit_waiter(&self) -> impl FnOnce() -> io::Result<()> + Send + use<> {
        || Ok(())
    }

    pub fn pause(&self) -> bool {
        false
    }

    pub fn resume(&self) {}

    pub fn end(&self, _timeout: Duration) -> io::Result<ProcessTreeExit> {
        Err(io::Error::from(io::ErrorKind::Unsupported))
    }
}
