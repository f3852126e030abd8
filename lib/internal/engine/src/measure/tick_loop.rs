//! The loop that ticks, and the accounting that is around it within a round.
//!
//! Nothing is converted, booked or shown here: only the subject runs.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::io;
use std::num::NonZeroU64;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::{Duration, Instant};

use jitterstat::recorder::{RawSample, Recorder};
use tach::Anchor;

use crate::load::TaskLoad;
use crate::measure::cost::{Cost, CostMeter};
use crate::measure::late_watch::{LoopWatch, RoundWatch};
use crate::measure::long_wait;
use crate::measure::runtime_load::LoadCpuTime;
use crate::measure::why::{self, ParkDetection, RoundProfiler, WakeupNotes};
use crate::scenario::Runtime;
use crate::subject::ticker::{Delivered, Schedule, Subject, Ticker, WaitKind};

/// From ready to the first deadline, before the random phase: room to arm the timer and to fall
/// asleep.
const LEAD: Duration = Duration::from_millis(2);
/// And so much for each instance, the making of which takes a system call or two.
const LEAD_PER_INSTANCE: Duration = Duration::from_micros(20);

/// What a round needs to run; moved onto the thread or task that runs it.
pub struct RoundSetup {
    pub period: Duration,
    pub phase: Duration,
    pub start: Option<Instant>,
    pub last_tick: u64,
    /// One for each instance.
    pub recorders: Vec<Recorder>,
    /// Of tokio; not used by what runs elsewhere.
    pub runtime: Runtime,
    /// What else that runtime is to run.
    pub tasks: Option<TaskLoad>,
    pub stop: Arc<AtomicBool>,
    /// What tasks of a load used.
    pub held: LoadCpuTime,
    /// Where it is asked why.
    pub watch: Option<RoundProfiler>,
    /// Where late ticks are noticed while they come.
    pub late: Option<RoundWatch>,
}

/// What a round leaves behind, before anything is converted.
pub struct RawRound {
    pub recordings: Vec<Recording>,
    pub anchors: (Anchor, Anchor),
    pub cost: Cost,
    pub backend: String,
    pub waits: WaitKind,
}

/// What one instance did, before anything is converted.
pub struct Recording {
    pub start: Instant,
    pub recorder: Recorder,
    pub stopped: bool,
    /// The thread of each wake-up, where it was asked.
    pub threads: Vec<usize>,
}

impl Recording {
    pub fn ticks(&self) -> why::Ticks {
        let samples = self.recorder.samples().iter().zip(&self.threads);
        let wakeups =
            samples.map(|(s, thread)| (s.tick, s.expirations, s.wake_count, *thread)).collect();
        why::Ticks { start: self.start, wakeups }
    }
}

thread_local! {
    /// When this thread's runtime last came back from its park; taken by the wake-up that follows.
    static UNPARKED: Cell<Option<NonZeroU64>> = const { Cell::new(None) };
}

/// This thread's runtime came back from its park at this count.
pub fn unparked(count: u64) {
    UNPARKED.set(NonZeroU64::new(count));
}

/// One round: accounting around the loop.
pub async fn drive<S: Subject>(setup: RoundSetup) -> io::Result<RawRound> {
    let (round, loops) = RunningRound::new::<S>(setup)?;
    let mut recordings = Vec::with_capacity(loops.len());
    for one in loops {
        recordings.push(one.await?);
    }
    Ok(round.close(recordings))
}

/// A future as tokio gets it: a runtime's machinery is compiled for each type of task, and there
/// are hundreds. The call through a pointer that this adds to a poll was not to be told from none,
/// in pairs of runs.
pub type Task<T> = Pin<Box<dyn Future<Output = T> + Send>>;

pub fn task<T>(future: impl Future<Output = T> + Send + 'static) -> Task<T> {
    Box::pin(future)
}

/// The same around as many loops as there are instances, a task each.
pub async fn drive_many<S>(setup: RoundSetup) -> io::Result<RawRound>
where
    S: Subject<Ticker: Ticker<Event: Send> + Send>,
{
    let (round, loops) = RunningRound::new::<S>(setup)?;
    let mut recordings = Vec::with_capacity(loops.len());
    let tasks: Vec<_> = loops.into_iter().map(|one| tokio::spawn(task(one))).collect();
    for task in tasks {
        recordings.push(task.await.map_err(io::Error::other)??);
    }
    Ok(round.close(recordings))
}

/// The accounting of a round that runs.
struct RunningRound {
    before: CostMeter,
    start_anchor: Anchor,
    backend: String,
    held: LoadCpuTime,
    /// How much of it was before the round.
    held_before_ns: u64,
    waits: WaitKind,
    far: Option<long_wait::LongWait>,
}

impl RunningRound {
    /// With the loops that are to run, one for each instance.
    #[allow(clippy::disallowed_methods, reason = "the start of the grid is read here")]
    fn new<S: Subject>(
        setup: RoundSetup,
    ) -> io::Result<(Self, Vec<impl Future<Output = io::Result<Recording>>>)> {
        let RoundSetup {
            period,
            phase,
            start,
            last_tick,
            recorders,
            runtime: _,
            tasks: _,
            stop,
            held,
            watch,
            late,
        } = setup;
        let instances = u32::try_from(recorders.len()).map_err(io::Error::other)?;
        let (held_before_ns, before) = (held.ns(), CostMeter::start());
        let start_anchor = Anchor::take();
        let start =
            start.unwrap_or_else(|| Instant::now() + LEAD + LEAD_PER_INSTANCE * instances + phase);
        let spread = |i: u32| Schedule { start: start + period * i / instances, period };
        let schedules: Vec<Schedule> = (0..instances).map(spread).collect();
        let tickers = S::tickers(&schedules)?;
        let backend = tickers.first().map_or(String::new(), Ticker::backend);
        let settings = LoopSettings {
            last_tick,
            parks_until_due: S::PARKS_UNTIL_DUE,
            far: long_wait::LongWait::begin(period),
        };
        UNPARKED.set(None);
        let parks = ParkDetection::new(S::WAIT_KIND, tokio::runtime::Handle::try_current().is_ok());
        let loops =
            schedules.iter().zip(tickers).zip(recorders).map(|((schedule, ticker), recorder)| {
                let recording = Recording {
                    start: schedule.start,
                    recorder,
                    stopped: false,
                    threads: Vec::new(),
                };
                let beside = Beside {
                    notes: watch.as_ref().map(|_| WakeupNotes::with_capacity(last_tick + 1, parks)),
                    late: late.as_ref().map(|late| late.loop_watch(*schedule, &start_anchor)),
                };
                ticking(ticker, recording, settings, Arc::clone(&stop), beside)
            });
        let far = settings.far;
        let running =
            Self { before, start_anchor, backend, held, held_before_ns, waits: S::WAIT_KIND, far };
        Ok((running, loops.collect()))
    }

    fn close(self, recordings: Vec<Recording>) -> RawRound {
        let end_anchor = Anchor::take();
        let cost = self.before.cost(&self.start_anchor, &end_anchor);
        if let Some(round) = self.far {
            round.end();
        }
        let cost = cost.without(self.held.ns() - self.held_before_ns);
        let anchors = (self.start_anchor, end_anchor);
        RawRound { recordings, anchors, cost, backend: self.backend, waits: self.waits }
    }
}

/// When a loop ends, and what its wake-ups mean.
#[derive(Clone, Copy)]
struct LoopSettings {
    last_tick: u64,
    parks_until_due: bool,
    /// Set where an interrupt must not wait for the next tick.
    far: Option<long_wait::LongWait>,
}

/// What a loop does beside its ticks: nothing, as a rule. Not a matter of its type, or every loop
/// would be compiled once for each of the four.
struct Beside {
    /// Where it is asked why.
    notes: Option<WakeupNotes>,
    /// What looks for late ticks.
    late: Option<LoopWatch>,
}

impl Beside {
    fn threads(self) -> Vec<usize> {
        self.notes.map_or(Vec::new(), WakeupNotes::threads)
    }
}

async fn ticking<T: Ticker>(
    ticker: T,
    mut recording: Recording,
    settings: LoopSettings,
    stop: Arc<AtomicBool>,
    mut beside: Beside,
) -> io::Result<Recording> {
    let mut ticker = pin!(ticker);
    let mut next = 0;
    loop {
        ticker.as_mut().begin(next);
        if let Some(notes) = &mut beside.notes {
            notes.waits();
        }
        let waited = poll_fn(|cx| match ticker.as_mut().poll_wait(next, cx) {
            Poll::Pending => match settings.far {
                Some(round) => round.or_interrupted(&stop, cx).map(Err),
                None => Poll::Pending,
            },
            Poll::Ready(event) => Poll::Ready(Ok(event)),
        });
        let event = match waited.await {
            Ok(event) => event?,
            Err(long_wait::Interrupted) => {
                recording.stopped = true;
                recording.threads = beside.threads();
                return Ok(recording);
            }
        };
        let wake_count = tach::ordered_count();
        let Delivered { tick, expirations } = ticker.as_mut().delivered(event, next);
        let unpark_count = UNPARKED.take().filter(|_| settings.parks_until_due);
        recording.recorder.push(RawSample { tick, expirations, wake_count, unpark_count });
        if let Some(notes) = &mut beside.notes {
            notes.woken(wake_count);
        }
        if let Some(late) = &mut beside.late {
            late.look(tick, expirations, wake_count);
        }
        recording.stopped = tick < settings.last_tick && stop.load(Ordering::Relaxed);
        if tick >= settings.last_tick || recording.stopped {
            recording.threads = beside.threads();
            return Ok(recording);
        }
        next = tick + 1;
    }
}
