//! The stacks of the threads of this process, with the callers on them.

use std::sync::Arc;

use super::loaded_modules::LoadedModules;
pub(super) use super::loaded_modules::Symbols;
use super::signal::StackSignal;
pub(super) use super::signal::{StackCopy, current_thread};
use super::{StackEnd, UnwoundStack, WatchError};

/// A signal that is ignored unless a program handles it, which hardly any program does.
pub(super) const DEFAULT_SIGNAL: i32 = libc::SIGURG;

/// Takes the stacks of threads of this process.
#[derive(Debug)]
pub(super) struct StackSource {
    signal: StackSignal,
    modules: LoadedModules,
    pub(super) symbols: Arc<Symbols>,
}

impl StackSource {
    pub(super) fn new(signal: i32) -> Result<Self, WatchError> {
        let signal = StackSignal::install(signal)?;
        Ok(Self { signal, modules: LoadedModules::default(), symbols: Arc::default() })
    }

    pub(super) fn copy(&mut self, thread_id: u32) -> Result<StackCopy, StackEnd> {
        self.signal.copy_stack(thread_id)
    }

    pub(super) fn unwind(&mut self, copy: &StackCopy) -> UnwoundStack {
        self.modules.unwind(copy)
    }
}

/// Returns the name of a thread of this process.
pub(super) fn thread_name(thread_id: u32) -> Option<String> {
    let name = std::fs::read_to_string(format!("/proc/self/task/{thread_id}/comm")).ok()?;
    Some(name.trim_end().to_owned())
}
