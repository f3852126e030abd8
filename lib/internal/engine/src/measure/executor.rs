//! Where the loop of a round runs: on a thread, on tokio, or on `busypoll`.

use std::future::Future;
use std::io;
use std::pin::pin;
use std::sync::RwLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::runtime::Builder;

use crate::measure::panics;
use crate::measure::runtime_load;
use crate::measure::tick_loop::{RawRound, RoundSetup, Task, drive, drive_many, task, unparked};
use crate::measure::why;
use crate::scenario::Runtime;
use crate::subject::OnBusypoll;
use crate::subject::ticker::{Subject, Ticker};

/// Runs a round on this thread, which is watched where it is asked why its ticks are late.
fn here(
    setup: RoundSetup,
    round: impl FnOnce(RoundSetup) -> io::Result<RawRound>,
) -> io::Result<RawRound> {
    let watch = setup.watch.clone();
    if let Some(watch) = &watch {
        watch.enter();
    }
    let result = round(setup);
    if let Some(watch) = watch {
        watch.leave();
    }
    result
}

pub fn on_thread<S: Subject>(setup: RoundSetup) -> io::Result<RawRound> {
    here(setup, |setup| poll_to_end(drive::<S>(setup)))
}

/// A control blocks in its wait, so its future is ready at the first poll.
pub(super) fn poll_to_end<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    loop {
        if let std::task::Poll::Ready(result) = future.as_mut().poll(&mut context) {
            return result;
        }
    }
}

pub fn on_busypoll<S: OnBusypoll>(setup: RoundSetup) -> io::Result<RawRound> {
    here(setup, |setup| {
        let result =
            S::runtime()?.block_on(async { busypoll::spawn_boxed(drive::<S>(setup)).await });
        result.map_err(|error| io::Error::other(error.to_string()))?
    })
}

pub fn on_tokio<S>(setup: RoundSetup) -> io::Result<RawRound>
where
    S: Subject<Ticker: Ticker<Event: Send> + Send>,
{
    spawned_on_tokio(setup, |setup| match setup.recorders.len() {
        1 => task(drive::<S>(setup)),
        _ => task(drive_many::<S>(setup)),
    })
}

fn spawned_on_tokio(
    setup: RoundSetup,
    round: fn(RoundSetup) -> Task<io::Result<RawRound>>,
) -> io::Result<RawRound> {
    let mut builder = builder(setup.runtime)?;
    let Some(watch) = setup.watch.clone() else { return spawned(setup, round, builder) };
    builder.on_thread_park(why::park);
    if setup.runtime == Runtime::CurrentThread {
        return here(setup, |setup| spawned(setup, round, builder));
    }
    let leaving = watch.clone();
    builder.on_thread_start(move || watch.enter()).on_thread_stop(move || leaving.leave());
    // Its threads have left when the runtime is gone.
    spawned(setup, round, builder)
}

fn multi_thread(workers: usize) -> io::Result<Builder> {
    threads_can_be_had(workers)?;
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(workers).thread_name(panics::WORKER_NAME);
    Ok(builder)
}

/// A runtime of that kind, to be.
pub(super) fn builder(runtime: Runtime) -> io::Result<Builder> {
    match runtime {
        Runtime::CurrentThread => Ok(Builder::new_current_thread()),
        Runtime::MultiThread(workers) => multi_thread(workers),
    }
}

/// Runs a round in a task of its own, beside a load.
fn spawned(
    setup: RoundSetup,
    round: fn(RoundSetup) -> Task<io::Result<RawRound>>,
    mut builder: Builder,
) -> io::Result<RawRound> {
    let asks = setup.watch.is_some();
    let on_unpark = move || {
        let count = tach::count();
        unparked(count);
        if asks {
            why::unpark(count);
        }
    };
    let runtime = builder.enable_all().on_thread_unpark(on_unpark).build()?;
    let (tasks, held) = (setup.tasks, setup.held.clone());
    let round = round(setup);
    let result = runtime.block_on(async {
        if let Some(tasks) = tasks {
            runtime_load::spawn(tasks, &held);
        }
        tokio::spawn(round).await
    });
    panics::join_or_resume_unwind(result)
}

/// Whether there is memory for a thread and its beginning: one that gets its stack, and then no
/// room for what the standard library puts beside it, ends the whole process.
fn has_room() -> io::Result<()> {
    // Some allocators keep what is smaller, and give it to this thread alone.
    const STACK_AND_MORE: usize = 40 << 20;
    let mut room = Vec::<u8>::new();
    room.try_reserve_exact(STACK_AND_MORE).map_err(|_| io::ErrorKind::OutOfMemory)?;
    std::hint::black_box(&mut room);
    Ok(())
}

/// StartupCosts so many threads at once, and ends them: where tokio gets only some of its own, it panics,
/// or waits for ever. Before each round: a limit may be met by what else runs.
fn threads_can_be_had(n: usize) -> io::Result<()> {
    let (gate, begun) = (RwLock::new(()), AtomicUsize::new(0));
    let started = std::thread::scope(|scope| {
        let closed = gate.write();
        let run = || {
            begun.fetch_add(1, Ordering::Release);
            drop(gate.read());
        };
        let start = |already: usize| -> io::Result<()> {
            has_room()?;
            std::thread::Builder::new().spawn_scoped(scope, run)?;
            // The next one is to find what this one has left.
            while begun.load(Ordering::Acquire) == already {
                std::thread::yield_now();
            }
            Ok(())
        };
        let all = (0..n).try_for_each(start);
        drop(closed);
        all
    });
    let hint = "raise the limit, for example with ulimit -u, or give fewer threads with --runtime multi-thread:N";
    started.map_err(|e| io::Error::other(format!("cannot start {n} threads: {e}; {hint}")))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use jitterstat::recorder::Recorder;

    use super::*;
    use crate::measure::runtime_load::LoadCpuTime;
    use crate::scenario::{Length, Scenario, ScenarioArgs};
    use crate::subject::{self, OnBusypoll, Visitor};

    /// Allocations of one round of a subject, on the thread that runs it.
    fn allocations(subject: &'static subject::SubjectInfo, ticks: u64) -> u64 {
        let args = ScenarioArgs {
            subjects: vec![subject],
            length: Some(Length::Ticks(ticks)),
            round_ticks: Some(ticks),
            periods: vec![Duration::from_micros(100)],
            ..ScenarioArgs::default()
        };
        let visitor = LoopOnly { scenario: &args.single_scenario().unwrap() };
        subject::visit_by_name(subject.name, visitor).expect("a subject of that name")
    }

    /// Runs the loop of a round without what comes after it, and counts.
    struct LoopOnly<'a> {
        scenario: &'a Scenario,
    }

    impl Visitor for LoopOnly<'_> {
        type Output = u64;

        fn on_tokio<S>(self) -> u64
        where
            S: Subject<Ticker: Ticker<Event: Send> + Send>,
        {
            self.count(on_tokio::<S>)
        }

        fn on_busypoll<S: OnBusypoll>(self) -> u64 {
            self.count(on_busypoll::<S>)
        }

        fn on_thread<S: Subject>(self) -> u64 {
            self.count(on_thread::<S>)
        }
    }

    impl LoopOnly<'_> {
        fn count(self, place: fn(RoundSetup) -> io::Result<RawRound>) -> u64 {
            let ticks = self.scenario.ticks;
            let setup = RoundSetup {
                period: self.scenario.period,
                phase: Duration::ZERO,
                start: None,
                last_tick: ticks - 1,
                recorders: vec![Recorder::with_capacity(usize::try_from(ticks).unwrap())],
                runtime: Runtime::CurrentThread,
                tasks: None,
                held: LoadCpuTime::default(),
                stop: Arc::default(),
                watch: None,
                late: None,
            };
            let mut pushed = 0;
            let counted = allocation_counter::measure(|| {
                pushed = place(setup).unwrap().recordings[0].recorder.samples().len();
            });
            assert!(pushed > 0, "the loop ran");
            counted.count_total
        }
    }

    #[test]
    fn a_tick_allocates_nothing() {
        for entry in subject::ALL.iter().filter(|e| subject::check_available(e.name).is_ok()) {
            // What a process allocates once is allocated here.
            allocations(entry, 2);
            // Set-up and tear-down are the same in both rounds: what is more would be the ticks'.
            // Only the accounting around the loop varies, with the number of threads that other
            // tests run just then.
            let same = (0..20).any(|_| allocations(entry, 10) == allocations(entry, 500));
            assert!(same, "{} allocates while it ticks", entry.name);
        }
    }
}
