//! A source of stacks that is never available, for the systems without an implementation.

use std::sync::Arc;
use std::time::Duration;

use super::{StackEnd, StackFrame, UnwoundStack, WatchError};

pub(super) const DEFAULT_SIGNAL: i32 = 0;

/// There is no value of this type.
#[derive(Debug)]
pub(super) struct StackSource {
    pub(super) symbols: Arc<Symbols>,
    never: std::convert::Infallible,
}

#[derive(Debug)]
pub(super) struct StackCopy {
    pub(super) age: Duration,
}

#[derive(Debug, Default)]
pub(super) struct Symbols;

impl StackSource {
    pub(super) fn new(_signal: i32) -> Result<Self, WatchError> {
        Err(WatchError::Unsupported)
    }

    pub(super) fn copy(&mut self, _thread_id: u32) -> Result<StackCopy, StackEnd> {
        match self.never {}
    }

    pub(super) fn unwind(&mut self, _copy: &StackCopy) -> UnwoundStack {
        match self.never {}
    }
}

impl Symbols {
    pub(super) fn functions(&self, _frame: &StackFrame) -> Vec<String> {
        Vec::new()
    }
}

pub(super) fn thread_name(_thread_id: u32) -> Option<String> {
    None
}

pub(super) fn current_thread() -> u32 {
    0
}
