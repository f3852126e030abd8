//! [`OverdueTick`]: the report of a tick that has not come, with the stack of the thread that last ran
//! its loop.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::stack_source::Symbols;

/// A tick that had not come although it was overdue, and the stack of its loop's thread.
///
/// Its `Display` is a sentence, and a line for each function on the stack, the innermost first.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct OverdueTick {
    /// Name of the meter.
    pub meter: String,
    /// Time since the tick was due, when the watcher found it. It is at least the threshold. After a
    /// late tick, the next one counts as due a period after the wake-up, as under `Delay`.
    pub overdue: Duration,
    /// Whether the loop had not finished the work of the tick before, as far as its meter is told by
    /// [`Meter::work_done`](crate::Meter::work_done), which `Meter::wrap` calls. Otherwise the loop
    /// was waiting for the tick, and its thread ran something else or was asleep.
    pub is_working: bool,
    /// The kernel's id of the thread that last ran the loop.
    pub thread_id: u32,
    /// Name of that thread.
    pub thread_name: Option<String>,
    /// Functions on the stack of that thread, the innermost first.
    pub frames: Vec<StackFrame>,
    /// Whether the stack is complete, and otherwise what is missing.
    pub end: StackEnd,
    pub(super) symbols: Arc<Symbols>,
}

/// A call on a stack.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StackFrame {
    /// Address of the instruction. Of a caller, it is the last byte of its call.
    pub address: u64,
    /// Path of the executable file or library, if it is known.
    pub module: Option<String>,
    /// The address in that file, as `addr2line --exe MODULE` expects it.
    pub offset: u64,
    /// Inode of the loaded file.
    pub(super) inode: u64,
}

/// The outer end of a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StackEnd {
    /// The outermost function is the one that started the thread.
    Complete,
    /// The stack has more than 256 functions or 64 KiB.
    TooDeep,
    /// A function has neither unwinding tables nor a frame pointer.
    NoTables,
    /// There is no stack: the thread has ended.
    ThreadEnded,
    /// There is no stack: the thread blocks the signal, or has not run for 100 ms, because it waited in
    /// the kernel for a device or was given no CPU.
    NoAnswer,
    /// There is no stack: the program has installed another handler of the signal.
    SignalTaken,
}

impl OverdueTick {
    /// Returns the names of the functions on the stack, the innermost first, including inlined ones if
    /// the program has debugging information. A function without a name is `file+offset`.
    ///
    /// Reads the symbols of the files that are on the stack, once for each file: that takes
    /// milliseconds, or longer for large files with debugging information. So call it on the thread of
    /// the watcher, not on one with a loop.
    #[must_use]
    pub fn functions(&self) -> Vec<String> {
        let mut functions = Vec::new();
        for frame in &self.frames {
            let named = self.symbols.functions(frame);
            if named.is_empty() {
                functions.push(frame.to_string());
            }
            functions.extend(named);
        }
        functions
    }
}

impl fmt::Display for OverdueTick {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { meter, overdue, thread_id, end, .. } = self;
        let state = if self.is_working { "at work" } else { "waiting for its tick" };
        write!(f, "{meter}: a tick is overdue by {overdue:.1?}, the loop is {state}")?;
        write!(f, ", in thread {thread_id}")?;
        if let Some(name) = &self.thread_name {
            write!(f, " ({name})")?;
        }
        for function in self.functions() {
            write!(f, "\n  {function}")?;
        }
        if *end == StackEnd::Complete { Ok(()) } else { write!(f, "\n  ({end})") }
    }
}

impl fmt::Display for StackFrame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.module {
            Some(path) => {
                let file = path.rsplit('/').next().unwrap_or(path);
                write!(f, "{file}+{:#x}", self.offset)
            }
            None => write!(f, "{:#x}", self.address),
        }
    }
}

impl fmt::Display for StackEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Complete => "the stack is complete",
            Self::TooDeep => {
                "the outer callers are unknown: the stack has more than 256 functions or 64 KiB"
            }
            Self::NoTables => {
                "the outer callers are unknown: this code has no unwinding tables, which \
                 -C force-unwind-tables=yes adds, or -fasynchronous-unwind-tables of a C compiler"
            }
            Self::ThreadEnded => "no stack: the thread has ended",
            Self::NoAnswer => "no stack: the thread blocks the signal, or did not run for 100 ms",
            Self::SignalTaken => {
                "no stack: the program has installed another handler of the signal"
            }
        })
    }
}
