//! One window: the program, the tracer that drains what the kernel records, and what came of it.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use cli::exit::{self, Error, usage};
use engine::machine::os::{self, NotAvailable, ThreadName, TraceEvent, TraceScope, Tracer};
use engine::measure::child::BackgroundProcess;
use engine::program::Program;

use crate::trace::waits::{Counts, FUNCTIONS, Wait, Waits};

/// Between two looks into the rings.
const PAUSE: Duration = Duration::from_millis(10);
/// An interrupt may hold a record back for so long, while other CPUs' later ones are there.
const SETTLED_NS: i64 = 1_000_000;
/// Between two looks at which CPUs the program may use.
const LOOK_AT_CPUS: Duration = Duration::from_secs(1);
/// What is there for who has no right to trace.
const WITHOUT: &str = "without it, `osjitter run -- PROGRAM` measures a program that writes its own lateness, and `osjitter run \
                       --why` says why osjitter's own ticks are late";

/// What is traced.
pub enum Target {
    Program(Program, BackgroundProcess),
    Process(u32),
}

impl Target {
    pub fn process(&self) -> u32 {
        match self {
            Self::Program(_, beside) => beside.id(),
            Self::Process(process) => *process,
        }
    }

    /// What ended it, if it has.
    fn ended(&mut self) -> Option<String> {
        match self {
            Self::Program(_, beside) => beside.ended(),
            Self::Process(process) => {
                os::process_threads(*process).is_empty().then(|| "ended by itself".to_owned())
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

/// What a window came to.
pub struct Traced {
    /// In the order in which they ended.
    pub waits: Vec<Wait>,
    pub counts: Counts,
    pub from_ns: i64,
    pub to_ns: i64,
    pub cpu_ns: Option<u64>,
    pub bytes: u64,
    pub unrecorded: u64,
    pub apart: bool,
    /// Why the program ended, where it did.
    pub ended: Option<String>,
    /// Every thread that was there at the end, with the call that it waits in.
    pub threads: Vec<(ThreadName, Option<String>)>,
}

/// Refuses a process that cannot be traced.
pub fn check(process: u32, thread: Option<&str>) -> exit::Result<()> {
    let threads = os::process_threads(process);
    if threads.is_empty() {
        return Err(usage!("there is no process {process}; `ps -e` lists those that run"));
    }
    if os::belongs_to_other_user(process) {
        return Err(usage!(
            "process {process} belongs to another user; trace it as that user with CAP_PERFMON, or as root"
        ));
    }
    if os::is_32_bit(process) {
        return Err(usage!(
            "process {process} runs a 32-bit program, whose system calls are not known; trace 64-bit programs"
        ));
    }
    let names: BTreeSet<String> = threads.into_iter().filter_map(os::thread_name).collect();
    match thread {
        Some(thread) if !names.contains(thread) => {
            let names: Vec<String> = names.into_iter().collect();
            Err(usage!("process {process} has no thread {thread:?}; it has {}", names.join(", ")))
        }
        _ => Ok(()),
    }
}

/// The tracer, recording from now on.
pub fn open() -> exit::Result<Tracer> {
    let tracer = Tracer::open(TraceScope::Waits);
    let tracer = tracer.map_err(|why: NotAvailable| Error::measure(format!("{why}; {WITHOUT}")))?;
    tracer.record(true);
    Ok(tracer)
}

fn now_ns() -> exit::Result<i64> {
    let pair = os::monotonic_pair()
        .map_err(|e| Error::measure(format!("the kernel's clock cannot be read: {e}")))?;
    Ok(i64::try_from(pair.1).unwrap_or(i64::MAX))
}

/// Traces until the window is over.
#[allow(clippy::disallowed_methods, reason = "a window has a length, and the tracer a pace")]
pub fn run(
    mut tracer: Tracer,
    target: &mut Target,
    from_ns: i64,
    length: Option<Duration>,
    stop: &AtomicBool,
) -> exit::Result<Traced> {
    let started = Instant::now();
    let before = os::usage().cpu_ns;
    let process = target.process();
    let functions = os::kernel_functions(&FUNCTIONS.map(|(name, _)| name));
    let mut waits = Waits::new(
        process,
        matches!(target, Target::Program(..)),
        &functions,
        os::clocks_ahead_ns(),
    );
    waits.follow(process, ThreadName::default());
    for thread in os::process_threads(process) {
        waits.follow(
            thread,
            os::thread_name(thread)
                .map_or_else(ThreadName::default, |name| ThreadName::from_bytes(name.as_bytes())),
        );
    }
    let own = os::affinity().unwrap_or_default();
    let (mut apart, mut look) = (false, started);
    let mut events: Vec<TraceEvent> = Vec::new();
    let ended = loop {
        let ended = target.ended();
        if started.elapsed() >= look.duration_since(started) {
            apart = step_aside(&waits, &own);
            look += LOOK_AT_CPUS;
        }
        let settled_ns = now_ns()? - SETTLED_NS;
        tracer.drain(&mut events);
        feed(&mut waits, &mut events, settled_ns);
        let is_over = length.is_some_and(|length| started.elapsed() >= length);
        if ended.is_some() || is_over || stop.load(Ordering::Relaxed) || waits.is_full() {
            break ended;
        }
        let left =
            length.map_or(PAUSE, |length| length.saturating_sub(started.elapsed()).min(PAUSE));
        std::thread::sleep(left);
    };
    let to_ns = now_ns()?;
    let unrecorded = tracer.finish(&mut events);
    feed(&mut waits, &mut events, i64::MAX);
    let bytes = tracer.bytes();
    drop(tracer);
    waits.finish();
    let threads = waits.threads().map(|(thread, name)| (name, os::current_call(thread))).collect();
    let cpu_ns = os::usage().cpu_ns.zip(before).map(|(after, before)| after.saturating_sub(before));
    let (counts, waits) = (waits.counts, waits.waits);
    Ok(Traced { waits, counts, from_ns, to_ns, cpu_ns, bytes, unrecorded, apart, ended, threads })
}

/// When a window begins that is opened now.
pub fn begin() -> exit::Result<i64> {
    now_ns()
}

/// Hands over what nothing earlier can come before any more.
fn feed(waits: &mut Waits, events: &mut Vec<TraceEvent>, settled_ns: i64) {
    // Each CPU's are in order: it keeps them so, and merges.
    events.sort_by_key(|event| event.at_ns);
    let settled = events.partition_point(|event| event.at_ns <= settled_ns);
    events.drain(..settled).for_each(|event| waits.take(&event));
}

/// Leaves the CPUs that the program may use to it, where there are others: whether there are.
fn step_aside(waits: &Waits, own: &[usize]) -> bool {
    let mut used: HashMap<usize, ()> = HashMap::new();
    for (thread, _) in waits.threads() {
        used.extend(os::cpus_allowed(thread).into_iter().map(|cpu| (cpu, ())));
        if own.iter().all(|cpu| used.contains_key(cpu)) {
            break;
        }
    }
    let others: Vec<usize> = own.iter().copied().filter(|cpu| !used.contains_key(cpu)).collect();
    let apart = !others.is_empty() && !used.is_empty();
    os::bind(if apart { &others } else { own }).is_ok() && apart
}
