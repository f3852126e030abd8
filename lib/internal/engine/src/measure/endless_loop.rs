//! The loop of a subject that ticks until it is stopped, and records its ticks in a meter.

use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tickmeter::Meter;
use tokio::runtime::Builder;

use crate::machine::os::{self, ThreadStats, ThreadTimes};
use crate::measure::executor::{build_runtime, poll_until_ready};
use crate::measure::late_tick_log::LateTickRecorder;
use crate::panics;
use crate::scenario::Runtime;
use crate::subject::OnBusypoll;
use crate::subject::ticker::{Delivered, Schedule, Subject, Ticker};

/// Time from the start of the loop to the first deadline, which is sufficient to arm the timer and
/// to fall asleep.
const LEAD_TIME: Duration = Duration::from_millis(2);

/// The threads on which a loop runs.
#[derive(Clone, Debug, Default)]
pub struct LoopThreads(Arc<Mutex<Vec<LoopThread>>>);

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

    /// Returns the times of all threads.
    pub fn times(&self) -> Option<ThreadTimes> {
        let threads = self.lock();
        let times = threads.iter().filter_map(|thread| Some(thread.stats.as_ref()?.times()));
        times.reduce(|sum, times| Some(sum? + times?))?
    }

    /// Returns the numbers of the threads in the system.
    pub fn ids(&self) -> Vec<u32> {
        self.lock().iter().map(|thread| thread.id).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<LoopThread>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Input of the thread of a loop.
pub struct EndlessLoop {
    pub period: Duration,
    pub phase: Duration,
    pub runtime: Option<Runtime>,
    pub meter: Meter,
    pub stop: Arc<AtomicBool>,
    pub threads: LoopThreads,
    /// Notified when the ticker exists.
    pub ready: Sender<()>,
    pub late_ticks: Option<LateTickRecorder>,
}

/// Runs the loop in a task of a tokio runtime.
pub fn tick_on_tokio<S>(endless: EndlessLoop) -> io::Result<()>
where
    S: Subject<Ticker: Ticker<Event: Send> + Send>,
{
    let (threads, worker_threads) = (endless.threads.clone(), endless.threads.clone());
    let enable_all = |builder: &mut Builder| {
        builder.enable_all();
    };
    let runtime = endless.runtime.unwrap_or(Runtime::CurrentThread);
    let runtime = build_runtime(runtime, enable_all, move || worker_threads.add_current())?;
    threads.add_current();
    let task = async { tokio::spawn(tick_endlessly::<S>(endless)).await };
    panics::join_or_resume_unwind(runtime.block_on(task))
}

/// Runs the loop in a task of a busypoll runtime on this thread.
pub fn tick_on_busypoll<S: OnBusypoll>(endless: EndlessLoop) -> io::Result<()> {
    endless.threads.add_current();
    let task = async { busypoll::spawn_boxed(tick_endlessly::<S>(endless)).await };
    S::runtime()?.block_on(task).map_err(io::Error::other)?
}

/// Runs the loop on this thread.
pub fn tick_on_thread<S: Subject>(endless: EndlessLoop) -> io::Result<()> {
    endless.threads.add_current();
    poll_until_ready(tick_endlessly::<S>(endless))
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
    use std::future::Future as _;
    use std::sync::mpsc;

    use super::*;

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
