//! Execution of the loop of a round: on a bare thread, on tokio or on `busypoll`.

use std::future::Future;
use std::io;
use std::pin::pin;

use tokio::runtime::Builder;

use crate::measure::runtime_load;
use crate::measure::tick_loop::{RawRound, RoundSetup, record_unpark, run_loop, run_loops};
use crate::measure::why;
use crate::measure::worker_threads::build_multi_thread;
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
    let Some(profiler) = setup.profiler.clone() else {
        return run_in_task::<S>(setup, |_| (), || ());
    };
    if setup.runtime == Runtime::CurrentThread {
        let configure = |builder: &mut Builder| {
            builder.on_thread_park(why::park);
        };
        return run_recorded(setup, |setup| run_in_task::<S>(setup, configure, || ()));
    }
    let leaving = profiler.clone();
    let configure = |builder: &mut Builder| {
        builder.on_thread_park(why::park).on_thread_stop(move || leaving.leave());
    };
    // All threads have left when the runtime is dropped.
    run_in_task::<S>(setup, configure, move || profiler.enter())
}

/// Builds a runtime, of which each worker thread calls `on_worker_start` first.
pub(super) fn build_runtime(
    runtime: Runtime,
    configure: impl FnOnce(&mut Builder),
    on_worker_start: impl Fn() + Send + Sync + 'static,
) -> io::Result<tokio::runtime::Runtime> {
    match runtime {
        Runtime::CurrentThread => {
            let mut builder = Builder::new_current_thread();
            configure(&mut builder);
            builder.build()
        }
        Runtime::MultiThread(workers) => build_multi_thread(workers, configure, on_worker_start),
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
fn run_in_task<S>(
    setup: RoundSetup,
    configure: impl FnOnce(&mut Builder),
    on_worker_start: impl Fn() + Send + Sync + 'static,
) -> io::Result<RawRound>
where
    S: Subject<Ticker: Ticker<Event: Send> + Send>,
{
    let is_profiled = setup.profiler.is_some();
    let configure = |builder: &mut Builder| {
        builder.enable_all().on_thread_unpark(move || note_unpark(is_profiled));
        configure(builder);
    };
    let runtime = build_runtime(setup.runtime, configure, on_worker_start)?;
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
