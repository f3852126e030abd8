//! Execution of the loop of a round: on a bare thread, on tokio or on `busypoll`.

use std::future::Future;
use std::io;
use std::pin::pin;
use std::sync::RwLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::Scope;

use cli::words::pluralize;
use tokio::runtime::Builder;

use crate::measure::runtime_load;
use crate::measure::tick_loop::{RawRound, RoundSetup, record_unpark, run_loop, run_loops};
use crate::measure::why;
use crate::panics;
use crate::scenario::Runtime;
use crate::subject::OnBusypoll;
use crate::subject::ticker::{Subject, Ticker};

/// Runs a round on this thread, which is recorded if the round is profiled.
fn run_recorded(
    setup: RoundSetup,
    round: impl FnOnce(RoundSetup) -> io::Result<RawRound>,
) -> io::Result<RawRound> {
    let Some(profiler) = setup.profiler.clone() else { return round(setup) };
    profiler.enter();
    let result = round(setup);
    profiler.leave();
    result
}

/// Runs a round on this thread.
pub fn run_on_thread<S: Subject>(setup: RoundSetup) -> io::Result<RawRound> {
    run_recorded(setup, |setup| poll_until_ready(run_loop::<S>(setup)))
}

/// Polls a future until it is ready. The loops of controls block in their waits and do not use a
/// waker.
pub(super) fn poll_until_ready<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    loop {
        if let std::task::Poll::Ready(result) = future.as_mut().poll(&mut context) {
            return result;
        }
    }
}

/// Runs a round in a task of a busypoll runtime on this thread.
pub fn run_on_busypoll<S: OnBusypoll>(setup: RoundSetup) -> io::Result<RawRound> {
    run_recorded(setup, |setup| {
        let mut runtime = S::runtime()?;
        let result = runtime.block_on(async { busypoll::spawn_boxed(run_loop::<S>(setup)).await });
        result.map_err(io::Error::other)?
    })
}

/// Runs a round in tasks of a tokio runtime.
pub fn run_on_tokio<S>(setup: RoundSetup) -> io::Result<RawRound>
where
    S: Subject<Ticker: Ticker<Event: Send> + Send>,
{
    let mut builder = runtime_builder(setup.runtime)?;
    let Some(profiler) = setup.profiler.clone() else {
        return run_in_task::<S>(setup, builder);
    };
    builder.on_thread_park(why::park);
    if setup.runtime == Runtime::CurrentThread {
        return run_recorded(setup, |setup| run_in_task::<S>(setup, builder));
    }
    let leaving = profiler.clone();
    builder.on_thread_start(move || profiler.enter()).on_thread_stop(move || leaving.leave());
    // All threads have left when the runtime is dropped.
    run_in_task::<S>(setup, builder)
}

/// Returns the builder of a runtime.
pub(super) fn runtime_builder(runtime: Runtime) -> io::Result<Builder> {
    match runtime {
        Runtime::CurrentThread => Ok(Builder::new_current_thread()),
        Runtime::MultiThread(workers) => {
            check_threads_available(workers)?;
            let mut builder = Builder::new_multi_thread();
            builder.worker_threads(workers).thread_name(panics::WORKER_NAME);
            Ok(builder)
        }
    }
}

/// Records that this thread's runtime returned from a park.
#[inline]
fn note_unpark(is_profiled: bool) {
    let count = tach::count();
    record_unpark(count);
    if is_profiled {
        why::unpark(count);
    }
}

/// Runs a round in a task, together with a load of tasks.
fn run_in_task<S>(setup: RoundSetup, mut builder: Builder) -> io::Result<RawRound>
where
    S: Subject<Ticker: Ticker<Event: Send> + Send>,
{
    let is_profiled = setup.profiler.is_some();
    builder.enable_all().on_thread_unpark(move || note_unpark(is_profiled));
    let runtime = builder.build()?;
    let (tasks, load_cpu) = (setup.tasks, setup.load_cpu.clone());
    let result = runtime.block_on(async {
        if let Some(tasks) = tasks {
            runtime_load::spawn_load(tasks, &load_cpu);
        }
        match setup.recorders.len() {
            1 => tokio::spawn(run_loop::<S>(setup)).await,
            _ => tokio::spawn(run_loops::<S>(setup)).await,
        }
    });
    panics::join_or_resume_unwind(result)
}

/// Checks that there is enough memory to start a thread.
///
/// If the stack of a thread can be allocated but other data of the standard library cannot, the
/// whole process is aborted.
fn check_thread_memory() -> io::Result<()> {
    // Some allocators keep smaller blocks for the thread that has freed them.
    const STACK_AND_DATA_BYTES: usize = 40 << 20;
    let mut memory = Vec::<u8>::new();
    memory.try_reserve_exact(STACK_AND_DATA_BYTES).map_err(|_| io::ErrorKind::OutOfMemory)?;
    std::hint::black_box(&mut memory);
    Ok(())
}

/// Starts and ends `count` concurrent threads to check that tokio can do so.
///
/// If tokio cannot start all of its threads, it panics or waits forever. This runs before each
/// round, since other processes may have used up a limit in the meantime.
fn check_threads_available(count: usize) -> io::Result<()> {
    let threads = WaitingThreads::default();
    let started = std::thread::scope(|scope| threads.start(scope, count));
    started.map_err(|error| io::Error::other(NoThreads { count, error }))
}

/// The worker threads of a runtime cannot be started.
#[derive(Debug, thiserror::Error)]
#[error(
    "cannot start {}: {error}; raise the limit, for example with ulimit -u, or give fewer threads with --runtime multi-thread:N",
    pluralize(*.count as u64, "thread")
)]
struct NoThreads {
    count: usize,
    #[source]
    error: io::Error,
}

/// Threads that wait at a gate.
#[derive(Default)]
struct WaitingThreads {
    gate: RwLock<()>,
    running: AtomicUsize,
}

impl WaitingThreads {
    /// Starts threads behind the closed gate, one after the other, then opens it.
    fn start<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        count: usize,
    ) -> io::Result<()> {
        let _closed = self.gate.write();
        for running_before in 0..count {
            check_thread_memory()?;
            std::thread::Builder::new().spawn_scoped(scope, || self.wait())?;
            // Check the memory for the next thread after this one has allocated its own.
            while self.running.load(Ordering::Acquire) == running_before {
                std::thread::yield_now();
            }
        }
        Ok(())
    }

    fn wait(&self) {
        self.running.fetch_add(1, Ordering::Release);
        drop(self.gate.read());
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use jitterstat::recorder::Recorder;

    use super::*;
    use crate::measure::cost::{CostScope, UsageTicks};
    use crate::measure::runtime_load::LoadCpuTime;
    use crate::measure::subject_loops::SubjectLoops;
    use crate::subject::{self, SubjectInfo};

    /// Counts the allocations of the loop of a round, without the evaluation.
    fn allocations(subject: &SubjectInfo, ticks: u64) -> u64 {
        let run_round = SubjectLoops::find(subject).expect("a loop").run_round;
        let setup = RoundSetup {
            period: Duration::from_micros(100),
            phase: Duration::ZERO,
            start: None,
            last_tick: ticks - 1,
            wait_kind: subject.wait_kind,
            recorders: vec![Recorder::with_capacity(usize::try_from(ticks).unwrap())],
            runtime: Runtime::CurrentThread,
            tasks: None,
            load_cpu: LoadCpuTime::default(),
            // The counters of all threads allocate for each thread of other tests.
            cost_scope: CostScope::Thread,
            usage_ticks: UsageTicks::new(0, ticks, false),
            stop: Arc::default(),
            profiler: None,
            late_watch: None,
        };
        let mut pushed = 0;
        let counted = allocation_counter::measure(|| {
            pushed = run_round(setup).unwrap().recordings[0].recorder.samples().len();
        });
        assert!(pushed > 0, "the loop ran");
        counted.count_total
    }

    #[test]
    fn ticks_do_not_allocate() {
        for entry in subject::ALL.iter().filter(|e| subject::check_available(e).is_ok()) {
            // The first round does the allocations that a process does once.
            allocations(entry, 2);
            // Set-up and tear-down are equal in both rounds, so a difference is due to the ticks. One
            // allocation for all ticks is not: tokio makes it when a stall has made so many ticks
            // ready that the task has to yield. The counters of the machine are files whose length
            // may need another one. A busy machine has several stalls in some rounds.
            let is_free = || allocations(entry, 500).abs_diff(allocations(entry, 10)) <= 2;
            assert!((0..20).any(|_| is_free()), "{} allocates while it ticks", entry.name);
        }
    }
}
