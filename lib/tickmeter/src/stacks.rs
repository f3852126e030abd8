//! The code that makes ticks late, from inside the process, with the feature `stacks`.
//!
//! An [`OverdueWatch`] is a thread that looks for metered ticks that have not come although they are
//! overdue. While such a tick is still overdue, it takes the stack of the thread that last ran the
//! loop, so that the function is named that holds the loop, in an ordinary release build.
//!
//! ```
//! use std::time::Duration;
//! use tickmeter::stacks::{OverdueWatch, WatchError};
//!
//! let threshold = Duration::from_millis(10);
//! match OverdueWatch::start(threshold, |tick| eprintln!("{tick}")) {
//!     Ok(watch) => {
//!         // ... run the loops of the program; every meter is watched until `watch` is dropped ...
//!         drop(watch);
//!     }
//!     // Linux on x86-64 and aarch64 alone has stacks.
//!     Err(error) => eprintln!("{error}"),
//! }
//! ```
//!
//! With the feature `tracing`, each report is also an event of the level `WARN` with the target
//! `tickmeter`, the message `overdue tick`, and the fields `meter`, `overdue_ns`, `is_working`,
//! `thread_id`, `thread_name` and `stack`. [`Snapshot::stacks`](crate::Snapshot::stacks) counts the
//! stacks of a meter, also for other processes.
//!
//! # How a stack is taken
//!
//! The watcher sends the thread a signal, `SIGURG` unless another one is selected. Its handler copies
//! the registers and the innermost 64 KiB of the stack, without a lock or an allocation. The watcher
//! then finds the callers in the copy by the unwinding tables that every program of Rust contains, so
//! the program needs no frame pointers. Functions have names if the program has symbols (they are
//! removed by `strip = true`), and inlined ones if it has debugging information
//! (`debug = "line-tables-only"`).
//!
//! # Limits
//!
//! - At most one stack per second is taken in a process, of the tick that is overdue longest, and one of
//!   each tick. A tick that comes before its stack is taken is not reported.
//! - The thread that last ran the loop is the one on which it last woke up or was polled. A task that a
//!   runtime moves to another thread between two awaits of its own is not followed. If a loop waits for
//!   its tick, its thread may be asleep, and the tick is overdue because of another one.
//! - A loop that stops without dropping its meter has one overdue tick, and one report.
//! - A system call that the signal interrupts is restarted. Those that Linux never restarts, such as
//!   `poll` and `nanosleep`, return `EINTR` in C code that does not expect it.
//! - The signal's handler stays installed after the watch has ended, and does nothing then.
//! - A process that forks must start the watch after the fork. A child of a process with a watch
//!   starts one of its own. As after every fork of a program with threads, a lock that another thread
//!   held at that moment stays locked in the child.

#[cfg(all(
    target_os = "linux",
    target_pointer_width = "64",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]
mod loaded_modules;
mod loop_state;
mod overdue_tick;
#[cfg(all(
    target_os = "linux",
    target_pointer_width = "64",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]
#[allow(unsafe_code)]
mod signal;
#[cfg_attr(
    not(all(
        target_os = "linux",
        target_pointer_width = "64",
        any(target_arch = "x86_64", target_arch = "aarch64")
    )),
    path = "stacks/stack_source_stub.rs"
)]
mod stack_source;

use std::fmt;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

pub(crate) use loop_state::WatchedLoop;
pub use overdue_tick::{OverdueTick, StackEnd, StackFrame};

use loop_state::{LoopState, forget_thread_ids, loops, set_watcher};
use stack_source::{DEFAULT_SIGNAL, StackSource, thread_name};

/// The minimum time between two stacks of a process.
const MIN_STACK_INTERVAL: Duration = Duration::from_secs(1);
/// When the last stack of this process was requested.
static LAST_STACK: Mutex<Option<tach::Instant>> = Mutex::new(None);
/// Time between two checks if no loop runs.
const MAX_SLEEP: Duration = Duration::from_secs(3_600);
const MIN_THRESHOLD: Duration = Duration::from_millis(1);
const MAX_THRESHOLD: Duration = Duration::from_secs(3_600);

/// Watches the loops of all meters of this process, until it is dropped.
///
/// It is a thread that sleeps until a tick may be overdue, so it wakes up at most about once per
/// threshold, and not at all while no loop runs.
#[must_use = "the watch ends when it is dropped"]
#[derive(Debug)]
pub struct OverdueWatch {
    has_ended: Arc<AtomicBool>,
    watcher: Option<JoinHandle<()>>,
    /// The process of the watcher's thread.
    process: u32,
}

/// An error of [`OverdueWatch::start`].
#[derive(Debug)]
#[non_exhaustive]
pub enum WatchError {
    /// Stacks are implemented for Linux on x86-64 and aarch64 alone.
    Unsupported,
    /// The threshold is shorter than a millisecond or longer than an hour.
    Threshold(Duration),
    /// This process has another watch.
    AlreadyWatching,
    /// The program, or a library in it, handles this signal.
    SignalInUse(i32),
    /// The operating system, or a sandbox, denies what a watch needs.
    Os(io::Error),
}

impl fmt::Display for WatchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unsupported => f.write_str(
                "cannot take stacks: they are implemented for Linux on x86-64 and aarch64 alone",
            ),
            Self::Threshold(threshold) => {
                write!(f, "invalid threshold {threshold:?}: expected 1 ms to 1 h")
            }
            Self::AlreadyWatching => {
                f.write_str("cannot start a watch: this process has another one")
            }
            Self::SignalInUse(signal) => write!(
                f,
                "cannot take stacks: the program handles signal {signal} itself; choose another one \
                 with OverdueWatch::start_with_signal"
            ),
            Self::Os(error) => write!(f, "cannot take stacks: {error}"),
        }
    }
}

impl std::error::Error for WatchError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Os(error) => Some(error),
            _ => None,
        }
    }
}

impl OverdueWatch {
    /// Starts to watch the loops of all meters, also of those that are registered later. A tick that is
    /// overdue by `threshold` is passed to `on_overdue`.
    ///
    /// `on_overdue` runs on the thread of the watcher, which looks for no other ticks in the meantime.
    /// If it panics, the watch ends.
    ///
    /// # Errors
    /// Returns an error if this system is not supported, the threshold is not between a millisecond
    /// and an hour, the process has another watch, the program handles `SIGURG`, or the operating
    /// system denies the thread, the signal or the call `process_vm_readv` for the own process.
    pub fn start(
        threshold: Duration,
        on_overdue: impl FnMut(&OverdueTick) + Send + 'static,
    ) -> Result<Self, WatchError> {
        Self::start_with_signal(threshold, DEFAULT_SIGNAL, on_overdue)
    }

    /// Starts a watch like [`OverdueWatch::start`], with another signal, such as `SIGUSR2`. The program
    /// must not use this signal, whose default effect is replaced.
    ///
    /// # Errors
    /// Returns an error if a watch cannot be started, like [`OverdueWatch::start`].
    pub fn start_with_signal(
        threshold: Duration,
        signal: i32,
        on_overdue: impl FnMut(&OverdueTick) + Send + 'static,
    ) -> Result<Self, WatchError> {
        if !(MIN_THRESHOLD..=MAX_THRESHOLD).contains(&threshold) {
            return Err(WatchError::Threshold(threshold));
        }
        let source = StackSource::new(signal)?;
        forget_thread_ids();
        let has_ended = Arc::new(AtomicBool::new(false));
        let mut watcher = Watcher { source, threshold, on_overdue };
        let ended = Arc::clone(&has_ended);
        let builder = thread::Builder::new().name("tickmeter-watch".to_owned());
        let spawned = builder.spawn(move || {
            set_watcher(Some(thread::current()));
            while !ended.load(Ordering::Acquire) {
                thread::park_timeout(watcher.check_loops());
            }
            set_watcher(None);
        });
        let watcher = Some(spawned.map_err(WatchError::Os)?);
        Ok(Self { has_ended, watcher, process: std::process::id() })
    }
}

impl Drop for OverdueWatch {
    /// Ends the watch. Waits until a report that has begun is complete, unless that report itself drops
    /// the watch. A forked child, which has no thread of the watch, does not wait.
    fn drop(&mut self) {
        self.has_ended.store(true, Ordering::Release);
        if let Some(watcher) = self.watcher.take()
            && watcher.thread().id() != thread::current().id()
            && self.process == std::process::id()
        {
            watcher.thread().unpark();
            // A panic of `on_overdue` was already reported.
            let _ = watcher.join();
        }
    }
}

/// The callers on a stack, the innermost first.
#[derive(Debug)]
struct UnwoundStack {
    frames: Vec<StackFrame>,
    end: StackEnd,
}

/// The state of a watcher's thread.
struct Watcher<F> {
    source: StackSource,
    threshold: Duration,
    on_overdue: F,
}

/// A tick that is overdue.
struct OverdueLoop {
    state: Arc<LoopState>,
    due_ns: i64,
    overdue_ns: i64,
}

impl<F: FnMut(&OverdueTick)> Watcher<F> {
    /// Reports a tick that is overdue. Returns the time until the loops should be checked again.
    fn check_loops(&mut self) -> Duration {
        let now = tach::Instant::now();
        let threshold_ns = self.threshold.as_nanos() as i64;
        let mut until_check = MAX_SLEEP;
        let mut longest: Option<OverdueLoop> = None;
        for state in loops().iter() {
            let now_ns = state.ns_at(now);
            let Some(due_ns) = state.next_due_ns(now_ns) else { continue };
            let overdue_ns = now_ns.saturating_sub(due_ns);
            if overdue_ns < threshold_ns {
                let until_overdue_ns = threshold_ns.saturating_sub(overdue_ns).cast_unsigned();
                until_check = until_check.min(Duration::from_nanos(until_overdue_ns));
            } else if longest.as_ref().is_none_or(|longest| longest.overdue_ns < overdue_ns) {
                longest = Some(OverdueLoop { state: Arc::clone(state), due_ns, overdue_ns });
            }
        }
        if let Some(overdue) = longest {
            let until_stack = time_until_stack(now);
            if until_stack.is_zero() {
                self.report(&overdue);
            }
            // Another tick may be overdue as well.
            until_check = until_check.min(until_stack);
        }
        until_check.max(self.threshold / 4)
    }

    /// Takes the stack of the thread that last ran a loop, and reports it unless the tick has come
    /// before.
    fn report(&mut self, OverdueLoop { state, due_ns, overdue_ns }: &OverdueLoop) {
        let runner = state.runner();
        state.mark_requested(*due_ns);
        let copied = self.source.copy(runner.thread_id);
        let age = copied.as_ref().map_or(Duration::ZERO, |copy| copy.age);
        let taken_at_ns = state.ns_at(tach::Instant::now()).saturating_sub(age.as_nanos() as i64);
        if state.had_come(*due_ns, taken_at_ns) {
            return;
        }
        let stack = match copied {
            Ok(copy) => self.source.unwind(&copy),
            Err(end) => UnwoundStack { frames: Vec::new(), end },
        };
        if !stack.frames.is_empty() {
            state.count_stack();
        }
        let tick = OverdueTick {
            meter: state.name.clone(),
            overdue: Duration::from_nanos(overdue_ns.cast_unsigned()),
            is_working: runner.is_working,
            thread_id: runner.thread_id,
            thread_name: thread_name(runner.thread_id),
            frames: stack.frames,
            end: stack.end,
            symbols: Arc::clone(&self.source.symbols),
        };
        #[cfg(feature = "tracing")]
        emit_event(&tick);
        (self.on_overdue)(&tick);
    }
}

/// Returns the time until a stack may be taken. If that is now, notes the time of the stack.
fn time_until_stack(now: tach::Instant) -> Duration {
    let mut last = LAST_STACK.lock().unwrap_or_else(PoisonError::into_inner);
    let since_last = last.map_or(MIN_STACK_INTERVAL, |last| now.duration_since(last));
    let until_stack = MIN_STACK_INTERVAL.saturating_sub(since_last);
    if until_stack.is_zero() {
        *last = Some(now);
    }
    until_stack
}

#[cfg(feature = "tracing")]
fn emit_event(tick: &OverdueTick) {
    struct Stack<'a>(&'a OverdueTick);

    impl fmt::Display for Stack<'_> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(&self.0.functions().join(" ← "))
        }
    }

    tracing::warn!(
        target: "tickmeter",
        meter = tick.meter,
        overdue_ns = crate::clock::saturating_ns(tick.overdue),
        is_working = tick.is_working,
        thread_id = tick.thread_id,
        thread_name = tick.thread_name,
        stack = %Stack(tick),
        "overdue tick"
    );
}
