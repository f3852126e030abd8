//! A loop for days: a subject that ticks into a meter until it is stopped.
//!
//! Rounds would lose the ticks between them and keep a sample of each; a meter books every tick of
//! one endless grid in memory of a fixed size, and is read from another thread as the meters of
//! other programs are.

use std::future::poll_fn;
use std::io;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tickmeter::{Meter, Place, Reader};

use crate::machine::os::{ThreadStats, ThreadTimes};
use crate::measure::executor::{builder, poll_to_end};
use crate::measure::panics;
use crate::measure::tick_loop::{Task, task};
use crate::scenario::{Runtime, Scenario};
use crate::subject::ticker::{Delivered, Schedule, Subject, Ticker};
use crate::subject::{self, OnBusypoll, Visitor};

/// From ready to the first deadline: room to arm the timer and to fall asleep.
const LEAD: Duration = Duration::from_millis(2);

/// A metered loop on a thread of its own.
#[derive(Debug)]
pub struct MeteredLoop {
    reader: Reader,
    /// Where others can read its meter.
    file: Option<PathBuf>,
    stop: Arc<AtomicBool>,
    threads: Threads,
    thread: Option<JoinHandle<Result<(), String>>>,
}

/// The accounts of the threads that a loop runs on, where there are any.
#[derive(Clone, Debug, Default)]
struct Threads(Arc<Mutex<Vec<ThreadStats>>>);

impl Threads {
    fn enter(&self) {
        if let Ok(accounts) = ThreadStats::for_current_thread(&[]) {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).push(accounts);
        }
    }
}

impl MeteredLoop {
    /// StartupCosts it, and returns when its ticker is made. Ticks from `late_from` on are recorded one
    /// by one.
    pub fn start(
        scenario: &Scenario,
        phase: Duration,
        late_from: Duration,
    ) -> Result<Self, String> {
        let meter = Meter::register_with(&scenario.id, scenario.period, late_from)
            .map_err(|e| e.to_string())?;
        let reader = meter.reader();
        let file = match meter.place() {
            Place::Mapped(path) => Some(path.clone()),
            _ => None,
        };
        let (stop, threads) = (Arc::new(AtomicBool::new(false)), Threads::default());
        let (ready, made) = mpsc::channel();
        let (name, period, runtime) = (scenario.subject.name(), scenario.period, scenario.runtime);
        let endless = Endless {
            period,
            phase,
            runtime,
            meter,
            stop: Arc::clone(&stop),
            threads: threads.clone(),
            ready,
        };
        let run = move || {
            let ended = panics::catch_panic(|| subject::visit_by_name(&name, endless))?;
            ended.ok_or_else(|| format!("{name} has no loop"))?.map_err(|e| e.to_string())
        };
        let thread = std::thread::Builder::new()
            .name("probe".to_owned())
            .spawn(run)
            .map_err(|e| e.to_string())?;
        let mut started = Self { reader, file, stop, threads, thread: Some(thread) };
        // A sender that is gone has met an error, which the thread returns.
        match made.recv() {
            Ok(()) => Ok(started),
            Err(_) => Err(started.stop().unwrap_or_else(|| "it ended at once".to_owned())),
        }
    }

    pub fn reader(&self) -> &Reader {
        &self.reader
    }

    pub fn file(&self) -> Option<&PathBuf> {
        self.file.as_ref()
    }

    /// CPU time of its threads, and the time they waited for a CPU.
    pub fn thread_times(&self) -> Option<ThreadTimes> {
        let threads = self.threads.0.lock().unwrap_or_else(PoisonError::into_inner);
        threads.iter().map(ThreadStats::times).reduce(|sum, times| Some(sum? + times?))?
    }

    /// Whether it has ended by itself.
    pub fn is_finished(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Stops it at its next tick.
    pub fn request_stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Stops it at its next tick and waits for that; why it had ended before, if it had.
    pub fn stop(&mut self) -> Option<String> {
        self.request_stop();
        self.thread.take()?.join().unwrap_or_else(|_| Err("its thread is lost".to_owned())).err()
    }
}

impl Drop for MeteredLoop {
    fn drop(&mut self) {
        self.request_stop();
        // The thread ends at its next tick, which nobody waits for: the process may be gone by
        // then.
        if let Some(file) = &self.file {
            let _ = std::fs::remove_file(file);
        }
    }
}

/// What the thread of a loop needs.
struct Endless {
    period: Duration,
    phase: Duration,
    runtime: Option<Runtime>,
    meter: Meter,
    stop: Arc<AtomicBool>,
    threads: Threads,
    ready: Sender<()>,
}

impl Visitor for Endless {
    type Output = io::Result<()>;

    fn on_tokio<S>(self) -> Self::Output
    where
        S: Subject<Ticker: Ticker<Event: Send> + Send>,
    {
        let (runtime, threads) =
            (self.runtime.unwrap_or(Runtime::CurrentThread), self.threads.clone());
        spawned(task(ticking::<S>(self)), runtime, threads)
    }

    fn on_busypoll<S: OnBusypoll>(self) -> Self::Output {
        self.threads.enter();
        let ended =
            S::runtime()?.block_on(async { busypoll::spawn_boxed(ticking::<S>(self)).await });
        ended.map_err(|error| io::Error::other(error.to_string()))?
    }

    fn on_thread<S: Subject>(self) -> Self::Output {
        self.threads.enter();
        poll_to_end(ticking::<S>(self))
    }
}

/// Runs a loop in a task, on a runtime of that kind.
fn spawned(ticking: Task<io::Result<()>>, runtime: Runtime, threads: Threads) -> io::Result<()> {
    let (mut builder, entering) = (builder(runtime)?, threads.clone());
    let runtime = builder.enable_all().on_thread_start(move || entering.enter()).build()?;
    threads.enter();
    panics::join_or_resume_unwind(runtime.block_on(async { tokio::spawn(ticking).await }))
}

/// Allocates nothing while it ticks.
#[allow(clippy::disallowed_methods, reason = "the start of the grid is read here")]
async fn ticking<S: Subject>(endless: Endless) -> io::Result<()> {
    let Endless { period, phase, mut meter, stop, ready, .. } = endless;
    let schedule = Schedule { start: Instant::now() + LEAD + phase, period };
    let mut ticker = pin!(S::ticker(schedule)?);
    // Whoever started it may have given up.
    let _ = ready.send(());
    let mut next = 0;
    while !stop.load(Ordering::Relaxed) {
        let due = schedule.deadline(next);
        ticker.as_mut().begin(next);
        let event = poll_fn(|cx| ticker.as_mut().poll_wait(next, cx)).await?;
        let woke = tach::Instant::from_count(tach::ordered_count());
        let Delivered { tick, expirations } = ticker.as_mut().delivered(event, next);
        let first = tick + 1 - expirations;
        meter.ticks_at(
            if first == next { due } else { schedule.deadline(first) },
            expirations,
            woke,
        );
        next = tick + 1;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::{ScenarioArgs, parse_subject};

    /// A subject's loop, metered for at least so many ticks.
    fn ticked(name: &str, ticks: u64) -> tickmeter::Snapshot {
        let args = ScenarioArgs {
            subjects: vec![parse_subject(name).unwrap()],
            periods: vec![Duration::from_millis(1)],
            ..ScenarioArgs::default()
        };
        let late_from = Duration::from_secs(1);
        let mut ticking =
            MeteredLoop::start(&args.single_scenario().unwrap(), Duration::ZERO, late_from)
                .unwrap();
        while ticking.reader().snapshot().ticks < ticks && !ticking.is_finished() {
            std::thread::yield_now();
        }
        assert!(
            !cfg!(target_os = "linux")
                || ticking.thread_times().is_some_and(|times| times.cpu_ns > 0),
            "{name}"
        );
        assert_eq!(ticking.stop(), None, "{name}");
        ticking.reader().snapshot()
    }

    #[test]
    fn every_subject_ticks_into_a_meter() {
        for entry in subject::ALL.iter().filter(|e| subject::check_available(e.name).is_ok()) {
            let snapshot = ticked(entry.name, 5);
            assert!(snapshot.ticks >= 5 && snapshot.early == 0, "{}: {snapshot:?}", entry.name);
            // The grid is one: ticks that never came are counted, and none is invented.
            assert!(
                entry.name.ends_with("-skip") || snapshot.skipped == 0,
                "{}: {snapshot:?}",
                entry.name
            );
        }
    }

    #[test]
    fn a_tick_allocates_nothing() {
        let allocations = |ticks: u64| {
            let meter = Meter::register("allocates-nothing", Duration::from_micros(100)).unwrap();
            let (ready, made) = mpsc::channel();
            let stop = Arc::new(AtomicBool::new(false));
            let endless = Endless {
                period: Duration::from_micros(100),
                phase: Duration::ZERO,
                runtime: None,
                meter,
                stop: Arc::clone(&stop),
                threads: Threads::default(),
                ready,
            };
            let counted = allocation_counter::measure(|| {
                let mut left = ticks;
                let mut loops = pin!(ticking::<Counted>(endless));
                let mut context = std::task::Context::from_waker(std::task::Waker::noop());
                while left > 0 {
                    assert!(loops.as_mut().poll(&mut context).is_pending());
                    left -= 1;
                }
            });
            drop(made);
            counted.count_total
        };
        allocations(1);
        assert_eq!(allocations(10), allocations(1_000));
    }

    /// Is pending once before each tick, so that a test can count them.
    struct Counted(bool);

    impl Subject for Counted {
        type Ticker = Self;

        fn ticker(_: Schedule) -> io::Result<Self> {
            Ok(Self(false))
        }
    }

    impl Ticker for Counted {
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
