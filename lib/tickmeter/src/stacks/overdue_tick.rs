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
        self.named_stack().functions
    }

    fn named_stack(&self) -> NamedStack {
        let mut stack = NamedStack { functions: Vec::new(), unnamed_frames: 0 };
        for frame in &self.frames {
            let named = self.symbols.functions(frame);
            if named.is_empty() {
                stack.unnamed_frames += 1;
                stack.functions.push(frame.to_string());
            }
            stack.functions.extend(named);
        }
        stack
    }
}

/// The functions on a stack.
struct NamedStack {
    functions: Vec<String>,
    /// Number of frames without a name.
    unnamed_frames: usize,
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
        let NamedStack { functions, unnamed_frames } = self.named_stack();
        for function in functions {
            write!(f, "\n  {function}")?;
        }
        if unnamed_frames * 2 > self.frames.len() {
            let setting = "strip = \"debuginfo\" in the cargo profile keeps the symbols";
            write!(f, "\n  (most functions have no name: {setting})")?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_names_have_a_remedy() {
        let frame = |module: Option<&str>| StackFrame {
            address: 0x7f00,
            module: module.map(str::to_owned),
            offset: 0x10,
            inode: 0,
        };
        let tick = OverdueTick {
            meter: "control-loop".to_owned(),
            overdue: Duration::from_micros(20_000),
            is_working: false,
            thread_id: 7,
            thread_name: Some("worker".to_owned()),
            frames: vec![frame(Some("/srv/service")), frame(None)],
            end: StackEnd::NoTables,
            symbols: Arc::default(),
        };
        let expected = "\
control-loop: a tick is overdue by 20.0ms, the loop is waiting for its tick, in thread 7 (worker)
  service+0x10
  0x7f00
  (most functions have no name: strip = \"debuginfo\" in the cargo profile keeps the symbols)
  (the outer callers are unknown: this code has no unwinding tables, which -C force-unwind-tables=yes \
            adds, or -fasynchronous-unwind-tables of a C compiler)";
        assert_eq!(tick.to_string(), expected);
        assert_eq!(tick.functions(), ["service+0x10", "0x7f00"]);
    }
}
