//! A tracing window: the target, the tracer that drains the kernel's records, and the result.

use std::collections::HashSet;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use cli::exit::{self, Error, usage};
use engine::machine::os::{self, NotAvailable, ThreadName, TraceEvent, TraceScope, Tracer};
use engine::measure::child::{BackgroundProcess, ProgramExit};
use engine::program::Program;

use crate::trace::tracker::{FUNCTIONS, TraceCounts, Wait, WaitTracker};

/// Time between two drains of the kernel's ring buffers.
const DRAIN_INTERVAL: Duration = Duration::from_millis(10);
/// Age from which an event is handled. An interrupt may delay a record by this much, while later
/// records of other CPUs are available already.
const MIN_EVENT_AGE_NS: i64 = 1_000_000;
/// Time between two checks of the CPUs that the program may use.
const CPU_CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// Alternatives for users without the right to trace.
const ALTERNATIVES: &str = "without it, `osjitter run -- PROGRAM` measures a program that writes its own lateness, and `osjitter run \
                            --why` explains why osjitter's own ticks are late";

/// The traced processes.
#[allow(clippy::large_enum_variant, reason = "there is one value at a time")]
pub enum Target {
    Program(Program, BackgroundProcess),
    Process(u32),
}

impl Target {
    pub fn process(&self) -> u32 {
        match self {
            Self::Program(_, child) => child.id(),
            Self::Process(process) => *process,
        }
    }

    /// Returns how the target has ended, if it has.
    fn exit(&mut self) -> Option<TargetExit> {
        match self {
            Self::Program(_, child) => child.try_exit().map(|exit| TargetExit {
                reason: exit.to_string(),
                has_failed: !matches!(exit.exit, ProgramExit::Status(status) if status.success()),
            }),
            Self::Process(process) => {
                let is_gone = os::process_threads(*process).is_ok_and(|threads| threads.is_empty());
                let reason = "ended by itself".to_owned();
                is_gone.then_some(TargetExit { reason, has_failed: false })
            }
        }
    }

    pub fn name(&self) -> String {
        match self {
            Self::Program(program, _) => program.text().to_owned(),
            Self::Process(process) => format!("process {process}"),
        }
    }
}

/// The end of a target within its window.
pub struct TargetExit {
    pub reason: String,
    /// Whether a program failed. The status of a process that was not started here is unknown.
    pub has_failed: bool,
}

/// The result of a tracing window.
pub struct TraceRecording {
    /// The waits of the chosen threads, in the order in which they ended.
    pub waits: Vec<Wait>,
    /// Whether the maximum number of waits ended the window.
    pub is_full: bool,
    pub counts: TraceCounts,
    pub from_ns: i64,
    pub to_ns: i64,
    /// CPU time of the tracer from `from_ns` to `to_ns`. The records that are still unread at the
    /// end, of at most the last milliseconds, are handled after it.
    pub cpu_ns: Option<u64>,
    pub bytes: u64,
    /// Events that the kernel counted but did not record.
    pub unrecorded: u64,
    /// Whether the tracer ran on CPUs that the program does not use.
    pub apart: bool,
    /// The end of the target, if it ended.
    pub exit: Option<TargetExit>,
    /// The threads at the end of the window, each with the call in which it waits.
    pub threads: Vec<(ThreadName, Option<String>)>,
}

fn other_user_error(process: u32) -> Error {
    usage!(
        "process {process} belongs to another user; trace it as that user with CAP_PERFMON, or as root"
    )
}

/// Checks that a process can be traced, and that it has a thread of that name.
///
/// # Errors
///
/// Returns an error if the process does not exist, belongs to another user, is a 32-bit program, or
/// has no such thread, or if its threads cannot be listed.
pub fn check_process(process: u32, thread: Option<&str>) -> exit::Result<()> {
    let threads = os::process_threads(process).map_err(|e| {
        if e.kind() == io::ErrorKind::PermissionDenied {
            return other_user_error(process);
        }
        Error::refused(&e, format!("cannot list the threads of process {process} in /proc: {e}"))
    })?;
    if threads.is_empty() {
        return Err(usage!("process {process} does not exist; `ps -e` lists all processes"));
    }
    if os::belongs_to_other_user(process) {
        return Err(other_user_error(process));
    }
    if os::is_32_bit(process) {
        return Err(usage!(
            "process {process} is a 32-bit program, whose system calls are not supported; trace 64-bit programs"
        ));
    }
    let mut names: Vec<String> = threads.into_iter().filter_map(os::thread_name).collect();
    match thread {
        Some(thread) if !names.iter().any(|name| name == thread) => {
            names.sort_unstable();
            names.dedup();
            Err(usage!("process {process} has no thread {thread:?}; it has {}", names.join(", ")))
        }
        _ => Ok(()),
    }
}

/// Opens a tracer that records from now on.
pub fn open_tracer() -> exit::Result<Tracer> {
    let tracer = Tracer::open(TraceScope::Waits);
    let tracer =
        tracer.map_err(|why: NotAvailable| Error::measure(format!("{why}; {ALTERNATIVES}")))?;
    tracer.record(true);
    Ok(tracer)
}

/// Reads the clock of the kernel's records.
fn now_ns() -> exit::Result<i64> {
    let pair = os::monotonic_pair()
        .map_err(|e| Error::measure(format!("cannot read the kernel's clock: {e}")))?;
    let process_ns = i64::try_from(pair.1).unwrap_or(i64::MAX);
    Ok(process_ns.saturating_sub(os::clock_offsets().monotonic_ns))
}

/// The start of a tracing window, or its end.
#[derive(Clone, Copy)]
pub struct WindowEdge {
    /// Time by the clock of the kernel's records.
    pub at_ns: i64,
    /// CPU time that this process has used until then.
    cpu_ns: Option<u64>,
}

impl WindowEdge {
    pub fn now() -> exit::Result<Self> {
        Ok(Self { at_ns: now_ns()?, cpu_ns: os::usage().cpu_ns })
    }
}

/// The length of a window, and the flag that ends it early.
pub struct WindowEnd<'a> {
    pub length: Option<Duration>,
    pub stop: &'a AtomicBool,
}

/// Traces the threads with a name, or all of them, until the window is over.
#[allow(clippy::disallowed_methods, reason = "the length of a window needs no precise clock")]
pub fn record(
    tracer: Tracer,
    target: &mut Target,
    thread: Option<&str>,
    from: WindowEdge,
    end: &WindowEnd<'_>,
) -> exit::Result<TraceRecording> {
    let started = Instant::now();
    let tracker = tracker_for(target).with_chosen_name(thread.map(str::to_owned));
    let mut recorder = Recorder { tracer, tracker, events: Vec::new(), apart: false, started };
    let exit = recorder.run(target, end)?;
    let to = WindowEdge::now()?;
    let unrecorded = recorder.tracer.finish(&mut recorder.events);
    recorder.handle_events(i64::MAX);
    let Recorder { tracer, mut tracker, apart, .. } = recorder;
    let bytes = tracer.bytes();
    drop(tracer);
    tracker.finish();
    let threads =
        tracker.threads().map(|(thread, name)| (name, os::current_call(thread))).collect();
    let is_full = tracker.is_full();
    let cpu_ns = to.cpu_ns.zip(from.cpu_ns).map(|(after, before)| after.saturating_sub(before));
    let WaitTracker { counts, waits, .. } = tracker;
    Ok(TraceRecording {
        waits,
        is_full,
        counts,
        from_ns: from.at_ns,
        to_ns: to.at_ns,
        cpu_ns,
        bytes,
        unrecorded,
        apart,
        exit,
        threads,
    })
}

/// Feeds the kernel's events to the tracker.
struct Recorder {
    tracer: Tracer,
    tracker: WaitTracker,
    /// Events that are not settled yet.
    events: Vec<TraceEvent>,
    /// Whether the tracer runs on CPUs that the program does not use.
    apart: bool,
    started: Instant,
}

impl Recorder {
    /// Records until the window is over. Returns how the target ended, if it did.
    #[allow(clippy::disallowed_methods, reason = "the tracer drains at intervals")]
    fn run(
        &mut self,
        target: &mut Target,
        end: &WindowEnd<'_>,
    ) -> exit::Result<Option<TargetExit>> {
        let started = self.started;
        let allowed_cpus = os::affinity().unwrap_or_default();
        let mut next_cpu_check = started;
        loop {
            let exit = target.exit();
            if started.elapsed() >= next_cpu_check.duration_since(started) {
                self.apart = avoid_target_cpus(&self.tracker, &allowed_cpus);
                next_cpu_check += CPU_CHECK_INTERVAL;
            }
            let settled_ns = now_ns()? - MIN_EVENT_AGE_NS;
            self.tracer.drain(&mut self.events);
            self.handle_events(settled_ns);
            let is_over = end.length.is_some_and(|length| started.elapsed() >= length)
                || end.stop.load(Ordering::Relaxed)
                || self.tracker.is_full();
            if exit.is_some() || is_over {
                return Ok(exit);
            }
            let remaining = match end.length {
                Some(length) => length.saturating_sub(started.elapsed()),
                None => DRAIN_INTERVAL,
            };
            std::thread::sleep(remaining.min(DRAIN_INTERVAL));
        }
    }

    /// Handles the events up to a time before which no further event can arrive.
    fn handle_events(&mut self, settled_ns: i64) {
        // The sort is stable and merges the sorted events of each CPU.
        self.events.sort_by_key(|event| event.at_ns);
        let settled = self.events.partition_point(|event| event.at_ns <= settled_ns);
        for event in self.events.drain(..settled) {
            self.tracker.handle_event(&event);
        }
    }
}

/// Creates a tracker for all current threads of the target.
fn tracker_for(target: &Target) -> WaitTracker {
    let process = target.process();
    let with_children = matches!(target, Target::Program(..));
    let functions = os::kernel_functions(&FUNCTIONS.map(|(name, _)| name));
    let clocks = os::clocks_ahead_ns();
    let mut tracker = WaitTracker::new(process, with_children, &functions, clocks);
    tracker.track_thread(process, ThreadName::default());
    for thread in os::process_threads(process).unwrap_or_default() {
        let name = os::thread_name(thread)
            .map_or_else(ThreadName::default, |name| ThreadName::from_bytes(name.as_bytes()));
        tracker.track_thread(thread, name);
    }
    tracker
}

/// Binds the tracer to CPUs that the program may not use. Returns whether there are such CPUs.
fn avoid_target_cpus(tracker: &WaitTracker, allowed_cpus: &[usize]) -> bool {
    let mut used_cpus: HashSet<usize> = HashSet::new();
    for (thread, _) in tracker.threads() {
        used_cpus.extend(os::cpus_allowed(thread));
        if allowed_cpus.iter().all(|cpu| used_cpus.contains(cpu)) {
            break;
        }
    }
    let other_cpus: Vec<usize> =
        allowed_cpus.iter().copied().filter(|cpu| !used_cpus.contains(cpu)).collect();
    let apart = !other_cpus.is_empty() && !used_cpus.is_empty();
    os::bind(if apart { &other_cpus } else { allowed_cpus }).is_ok() && apart
}
