//! A loop that records its ticks in a meter until it is stopped.
//!
//! `monitor` uses it for runs of days. Rounds would keep a sample per tick and miss the ticks
//! between them. A meter records every tick of an endless grid in memory of fixed size. Another
//! thread reads it like the meters of other programs.

use std::future::{Future, poll_fn};
use std::io;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tickmeter::{Meter, Place, Reader};

use crate::machine::os::{self, ThreadStats, ThreadTimes};
use crate::measure::executor::{poll_until_ready, runtime_builder};
use crate::measure::late_tick_log::{LateTickLog, LateTickRecorder};
use crate::measure::metered_loop_error::MeteredLoopError;
use crate::panics;
use crate::scenario::{Runtime, Scenario};
use crate::subject::ticker::{Delivered, Schedule, Subject, Ticker};
use crate::subject::{self, OnBusypoll, Visitor};

/// Time from the start of the loop to the first deadline, which is sufficient to arm the timer and
/// to fall asleep.
const LEAD_TIME: Duration = Duration::from_millis(2);

/// A metered loop on its own thread.
#[derive(Debug)]
pub struct MeteredLoop {
    reader: Reader,
    /// File in which other processes can read the meter.
    file: Option<PathBuf>,
    stop: Arc<AtomicBool>,
    threads: LoopThreads,
    thread: Option<JoinHandle<Result<(), MeteredLoopError>>>,
}

/// The threads on which a loop runs.
#[derive(Clone, Debug, Default)]
struct LoopThreads(Arc<Mutex<Vec<LoopThread>>>);

#[derive(Debug)]
struct LoopThread {
    id: u32,
    /// Statistics of the thread, if they are available.
    stats: Option<ThreadStats>,
}

impl LoopThreads {
    /// Adds the calling thread.
    fn add_current(&self) {
        let stats = ThreadStats::for_current_thread(&[]).ok();
        self.lock().push(LoopThread { id: os::thread_id(), stats });
    }

    fn lock(&self) -> MutexGuard<'_, Vec<LoopThread>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl MeteredLoop {
    /// Starts a loop, and returns when its ticker exists. Ticks with a lateness of at least
    /// `late_from` are recorded individually, and also in the log if there is one.
    pub fn start(
        scenario: &Scenario,
        phase: Duration,
        late_from: Duration,
        late_ticks: Option<LateTickLog>,
    ) -> Result<Self, MeteredLoopError> {
        let meter = Meter::register_with(&scenario.id, scenario.period, late_from)
            .map_err(MeteredLoopError::Meter)?;
        let reader = meter.reader();
        let file = match meter.place() {
            Place::Mapped(path) => Some(path.clone()),
            _ => None,
        };
        let (stop, threads) = (Arc::new(AtomicBool::new(false)), LoopThreads::default());
        let (ready, ticker_created) = mpsc::channel();
        let name = scenario.subject.name();
        let endless = EndlessLoop {
            period: scenario.period,
            phase,
            runtime: scenario.runtime,
            meter,
            stop: Arc::clone(&stop),
            threads: threads.clone(),
            ready,
            late_ticks: late_ticks.map(LateTickRecorder::new),
        };
        let builder = std::thread::Builder::new().name("probe".to_owned());
        let thread =
            builder.spawn(move || endless.run(&name)).map_err(MeteredLoopError::NoThread)?;
        let mut started = Self { reader, file, stop, threads, thread: Some(thread) };
        // The sender is dropped if there was an error, which the thread returns.
        match ticker_created.recv() {
            Ok(()) => Ok(started),
            Err(_) => Err(started.stop().unwrap_or(MeteredLoopError::EndedAtOnce)),
        }
    }

    pub fn reader(&self) -> &Reader {
        &self.reader
    }

    pub fn file(&self) -> Option<&PathBuf> {
        self.file.as_ref()
    }

    /// Returns the times of all threads of the loop.
    pub fn thread_times(&self) -> Option<ThreadTimes> {
        let threads = self.threads.lock();
        let times = threads.iter().filter_map(|thread| Some(thread.stats.as_ref()?.times()));
        times.reduce(|sum, times| Some(sum? + times?))?
    }

    /// Returns the numbers of the loop's threads in the system.
    pub fn thread_ids(&self) -> Vec<u32> {
        self.threads.lock().iter().map(|thread| thread.id).collect()
    }

    /// Returns whether the loop has ended.
    pub fn is_finished(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Requests that the loop ends at its next tick.
    pub fn request_stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Stops the loop at its next tick and waits for that. Returns the reason if it has failed.
    pub fn stop(&mut self) -> Option<MeteredLoopError> {
        self.request_stop();
        self.thread.take()?.join().unwrap_or(Err(MeteredLoopError::ThreadPanicked)).err()
    }
}

impl Drop for MeteredLoop {
    fn drop(&mut self) {
        self.request_stop();
        // The thread ends at its next tick. Do not wait for it, since the process may exit earlier.
        if let Some(file) = &self.file {
            let _ = std::fs::remove_file(file);
        }
    }
}

/// Input of the thread of a loop.
struct EndlessLoop {
    period: Duration,
    phase: Duration,
    runtime: Option<Runtime>,
    meter: Meter,
    stop: Arc<AtomicBool>,
    threads: LoopThreads,
    /// Notified when the ticker exists.
    ready: Sender<()>,
    late_ticks: Option<LateTickRecorder>,
}

impl EndlessLoop {
    /// Runs the loop of a subject until it is stopped.
    fn run(self, subject: &str) -> Result<(), MeteredLoopError> {
        panics::catch_panic(|| subject::visit_by_name(subject, self))
            .map_err(MeteredLoopError::Runtime)?
            .ok_or_else(|| MeteredLoopError::NoLoop(subject.to_owned()))?
            .map_err(MeteredLoopError::Subject)
    }
}

impl Visitor for EndlessLoop {
    type Output = io::Result<()>;

    fn on_tokio<S>(self) -> Self::Output
    where
        S: Subject<Ticker: Ticker<Event: Send> + Send>,
    {
        let (runtime, threads) =
            (self.runtime.unwrap_or(Runtime::CurrentThread), self.threads.clone());
        run_in_task(tick_endlessly::<S>(self), runtime, threads)
    }

    fn on_busypoll<S: OnBusypoll>(self) -> Self::Output {
        self.threads.add_current();
        let result = S::runtime()?
            .block_on(async { busypoll::spawn_boxed(tick_endlessly::<S>(self)).await });
        result.map_err(io::Error::other)?
    }

    fn on_thread<S: Subject>(self) -> Self::Output {
        self.threads.add_current();
        poll_until_ready(tick_endlessly::<S>(self))
    }
}

/// Runs a loop in a task of a tokio runtime.
fn run_in_task(
    task: impl Future<Output = io::Result<()>> + Send + 'static,
    runtime: Runtime,
    threads: LoopThreads,
) -> io::Result<()> {
    let (mut builder, worker_threads) = (runtime_builder(runtime)?, threads.clone());
    let runtime =
        builder.enable_all().on_thread_start(move || worker_threads.add_current()).build()?;
    threads.add_current();
    panics::join_or_resume_unwind(runtime.block_on(async { tokio::spawn(task).await }))
}

/// Runs the loop until it is stopped. Ticks do not allocate.
#[allow(clippy::disallowed_methods, reason = "the start of the grid is read here")]
async fn tick_endlessly<S: Subject>(endless: EndlessLoop) -> io::Result<()> {
    let EndlessLoop { period, phase, mut meter, stop, ready: created, mut late_ticks, .. } =
        endless;
    let schedule = Schedule { start: Instant::now() + LEAD_TIME + phase, period };
    let mut ticker = pin!(S::ticker(schedule)?);
    // The receiver may have been dropped.
    let _ = created.send(());
    let mut next = 0;
    while !stop.load(Ordering::Relaxed) {
        let due = schedule.deadline(next);
        ticker.as_mut().begin(next);
        let event = poll_fn(|cx| ticker.as_mut().poll_wait(next, cx)).await?;
        let woke = tach::Instant::from_count(tach::ordered_count());
        let Delivered { tick, expirations } = ticker.as_mut().delivered(event, next);
        let first = tick + 1 - expirations;
        let first_due = if first == next { due } else { schedule.deadline(first) };
        meter.ticks_at(first_due, expirations, woke);
        if let Some(late_ticks) = &mut late_ticks {
            late_ticks.record(first_due, woke);
        }
        next = tick + 1;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::{ScenarioArgs, parse_subject};

    /// Runs the loop of a subject for at least `ticks` ticks.
    fn run_metered(name: &str, ticks: u64) -> tickmeter::Snapshot {
        let args = ScenarioArgs {
            subjects: vec![parse_subject(name).unwrap()],
            periods: vec![Duration::from_millis(1)],
            ..ScenarioArgs::default()
        };
        let late_from = Duration::from_secs(1);
        let mut metered =
            MeteredLoop::start(&args.single_scenario().unwrap(), Duration::ZERO, late_from, None)
                .unwrap();
        while metered.reader().snapshot().ticks < ticks && !metered.is_finished() {
            std::thread::yield_now();
        }
        assert!(
            !cfg!(target_os = "linux")
                || metered.thread_times().is_some_and(|times| times.cpu_ns > 0),
            "{name}"
        );
        let failure = metered.stop();
        assert!(failure.is_none(), "{name}: {failure:?}");
        metered.reader().snapshot()
    }

    #[test]
    fn every_subject_can_be_metered() {
        for entry in subject::ALL.iter().filter(|e| subject::check_available(e.name).is_ok()) {
            let snapshot = run_metered(entry.name, 5);
            assert!(snapshot.ticks >= 5 && snapshot.early == 0, "{}: {snapshot:?}", entry.name);
            // Only subjects that skip ticks have gaps in the grid.
            assert!(
                entry.name.ends_with("-skip") || snapshot.skipped == 0,
                "{}: {snapshot:?}",
                entry.name
            );
        }
    }

    #[test]
    fn ticks_do_not_allocate() {
        let allocations = |ticks: u64| {
            let meter = Meter::register("allocates-nothing", Duration::from_micros(100)).unwrap();
            let (ready, receiver) = mpsc::channel();
            let stop = Arc::new(AtomicBool::new(false));
            let endless = EndlessLoop {
                period: Duration::from_micros(100),
                phase: Duration::ZERO,
                runtime: None,
                meter,
                stop: Arc::clone(&stop),
                threads: LoopThreads::default(),
                ready,
                late_ticks: None,
            };
            let counted = allocation_counter::measure(|| {
                let mut remaining = ticks;
                let mut loops = pin!(tick_endlessly::<PendingTicker>(endless));
                let mut context = std::task::Context::from_waker(std::task::Waker::noop());
                while remaining > 0 {
                    assert!(loops.as_mut().poll(&mut context).is_pending());
                    remaining -= 1;
                }
            });
            drop(receiver);
            counted.count_total
        };
        allocations(1);
        assert_eq!(allocations(10), allocations(1_000));
    }

    /// A ticker that is pending once before each tick, so that a test can count the ticks.
    struct PendingTicker(bool);

    impl Subject for PendingTicker {
        type Ticker = Self;

        fn ticker(_: Schedule) -> io::Result<Self> {
            Ok(Self(false))
        }
    }

    impl Ticker for PendingTicker {
        type Event = ();

        fn poll_wait(
            mut self: std::pin::Pin<&mut Self>,
            _: u64,
            _: &mut std::task::Context<'_>,
        ) -> std::task::Poll<io::Result<()>> {
            self.0 = !self.0;
            if self.0 { std::task::Poll::Pending } else { std::task::Poll::Ready(Ok(())) }
        }

        fn backend(&self) -> String {
            String::new()
        }
    }
}
