//! The measuring loop of a round, and the readings of its costs.
//!
//! Only the subject runs here. Nothing is converted, evaluated or printed.

use std::cell::Cell;
use std::future::poll_fn;
use std::io;
use std::num::NonZeroU64;
use std::ops::Range;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use files::report::Change;
use jitterstat::recorder::{RawSample, Recorder};
use tach::Anchor;

use crate::load::TaskLoad;
use crate::measure::cost::{Cost, CostMeter, CostScope, UsageProbe, UsageSpan, UsageTicks};
use crate::measure::late_watch::{LoopWatch, RoundWatch};
use crate::measure::long_wait::{Interrupted, LongWait};
use crate::measure::runtime_load::LoadCpuTime;
use crate::measure::why::{
    InstanceWakeups, ParkDetection, RoundProfiler, ThreadWakeup, WakeupNotes,
};
use crate::scenario::Runtime;
use crate::subject::WaitKind;
use crate::subject::ticker::{Delivered, Schedule, Subject, Ticker};

/// Time from the start of the loop to the first deadline, before the random phase. It is sufficient
/// to arm the timer and to fall asleep.
const LEAD_TIME: Duration = Duration::from_millis(2);
/// Additional lead time per instance, whose creation needs a system call or two.
const LEAD_TIME_PER_INSTANCE: Duration = Duration::from_micros(20);

/// Input of a round, which is moved to the thread or task that runs it.
pub struct RoundSetup {
    pub period: Duration,
    pub phase: Duration,
    /// Deadline of tick 0. Unless set, it follows from the lead time and the phase.
    pub start: Option<Instant>,
    pub last_tick: u64,
    /// Wait of the subject's thread.
    pub wait_kind: WaitKind,
    /// A recorder per instance.
    pub recorders: Vec<Recorder>,
    /// The tokio runtime to use; ignored by other subjects.
    pub runtime: Runtime,
    /// Load of tasks on the same runtime.
    pub tasks: Option<TaskLoad>,
    pub stop: Arc<AtomicBool>,
    /// Threads whose costs are measured.
    pub cost_scope: CostScope,
    /// Ticks of the first instance at which the usage is read.
    pub usage_ticks: UsageTicks,
    /// CPU time of the tasks of the load.
    pub load_cpu: LoadCpuTime,
    /// Recorder for the diagnosis, if this round is profiled.
    pub profiler: Option<RoundProfiler>,
    /// Detection of late ticks during the round.
    pub late_watch: Option<RoundWatch>,
}

impl RoundSetup {
    /// Returns the deadline of tick 0 of the first instance.
    #[allow(clippy::disallowed_methods, reason = "the start of the grid is read here")]
    fn first_deadline(&self, instances: u32) -> Instant {
        let lead_time = LEAD_TIME + LEAD_TIME_PER_INSTANCE * instances;
        self.start.unwrap_or_else(|| Instant::now() + lead_time + self.phase)
    }

    fn usage_probe(&self) -> UsageProbe {
        UsageProbe::new(self.cost_scope, self.load_cpu.clone(), self.usage_ticks)
    }

    /// Returns the optional work of an instance at each tick.
    fn hooks(&self, schedule: Schedule, start: &Anchor, parks: ParkDetection) -> LoopHooks {
        let late_watch = self.late_watch.as_ref().map(|watch| watch.loop_watch(schedule, start));
        let is_profiled = self.profiler.is_some();
        let notes = is_profiled.then(|| WakeupNotes::with_capacity(self.last_tick + 1, parks));
        LoopHooks { notes, late_watch }
    }
}

/// Result of a round, before any conversion.
pub struct RawRound {
    pub recordings: Vec<Recording>,
    pub start_anchor: Anchor,
    pub end_anchor: Anchor,
    /// Costs without the usage.
    pub cost: Cost,
    /// Usage between two ticks; `None` if the round ended before the second one.
    pub usage: Option<UsageSpan>,
    pub backend: String,
}

/// Recording of one instance, before any conversion.
pub struct Recording {
    /// Deadline of tick 0.
    pub start: Instant,
    pub recorder: Recorder,
    pub stopped: bool,
    /// The thread of each wake-up; empty unless the round is profiled.
    pub threads: Vec<usize>,
    /// The change of a setting that the ticker had applied.
    pub setting_change: Option<Change>,
    /// Usage of the round between two ticks of this instance, if it is the first one.
    usage: Option<UsageSpan>,
}

impl Recording {
    fn new(start: Instant, recorder: Recorder) -> Self {
        Self {
            start,
            recorder,
            stopped: false,
            threads: Vec::new(),
            setting_change: None,
            usage: None,
        }
    }

    /// Returns the number of ticks of the grid that passed between two counts.
    pub fn ticks_between(&self, counts: &Range<u64>) -> u64 {
        let samples = self.recorder.samples();
        let ticks_until = |count: u64| {
            let woken = samples.partition_point(|sample| sample.wake_count <= count);
            woken.checked_sub(1).map_or(0, |last| samples[last].tick + 1)
        };
        ticks_until(counts.end).saturating_sub(ticks_until(counts.start))
    }

    /// Returns the wake-ups with their threads.
    pub fn thread_wakeups(&self) -> InstanceWakeups {
        let mut wakeups = Vec::with_capacity(self.threads.len());
        for (sample, &thread) in self.recorder.samples().iter().zip(&self.threads) {
            wakeups.push(ThreadWakeup {
                last_tick: sample.tick,
                expirations: sample.expirations,
                count: sample.wake_count,
                thread,
            });
        }
        InstanceWakeups { start: self.start, wakeups }
    }
}

thread_local! {
    /// Count at which this thread's runtime last returned from a park. The next wake-up takes it.
    static UNPARK_COUNT: Cell<Option<NonZeroU64>> = const { Cell::new(None) };
}

/// Records that this thread's runtime returned from a park at `count`.
pub fn record_unpark(count: u64) {
    UNPARK_COUNT.set(NonZeroU64::new(count));
}

/// Runs a round with a single instance, or with several one after the other.
pub async fn run_loop<S: Subject>(setup: RoundSetup) -> io::Result<RawRound> {
    let (round, loops) = RunningRound::start::<S>(setup)?;
    let mut recordings = Vec::with_capacity(loops.len());
    for instance in loops {
        recordings.push(tick(instance).await?);
    }
    Ok(round.finish(recordings))
}

/// Runs a round on tokio with several concurrent instances, each in a task.
pub async fn run_loops<S>(setup: RoundSetup) -> io::Result<RawRound>
where
    S: Subject<Ticker: Ticker<Event: Send> + Send>,
{
    let (round, loops) = RunningRound::start::<S>(setup)?;
    let mut recordings = Vec::with_capacity(loops.len());
    let mut tasks = Vec::with_capacity(loops.len());
    for instance in loops {
        tasks.push(tokio::spawn(tick(instance)));
    }
    for task in tasks {
        recordings.push(task.await.map_err(io::Error::other)??);
    }
    Ok(round.finish(recordings))
}

/// State of a running round.
pub struct RunningRound {
    cost_meter: CostMeter,
    start_anchor: Anchor,
    backend: String,
    load_cpu: LoadCpuTime,
    /// CPU time of the load before the round.
    load_cpu_before_ns: u64,
    long_wait: Option<LongWait>,
}

impl RunningRound {
    /// Starts a round: its cost meter, then the tickers. Returns its state and, for each instance,
    /// the rest of its loop.
    fn start<S: Subject>(
        mut setup: RoundSetup,
    ) -> io::Result<(Self, Vec<InstanceLoop<S::Ticker>>)> {
        let recorders = std::mem::take(&mut setup.recorders);
        let load_cpu_before_ns = setup.load_cpu.ns();
        let cost_meter = CostMeter::start_in(setup.cost_scope);
        let start_anchor = Anchor::take();
        let long_wait = LongWait::begin(setup.period);
        let settings = LoopSettings {
            last_tick: setup.last_tick,
            parks_until_due: S::PARKS_UNTIL_DUE,
            long_wait,
        };
        UNPARK_COUNT.set(None);
        let has_tokio = tokio::runtime::Handle::try_current().is_ok();
        let parks = ParkDetection::new(setup.wait_kind, has_tokio);
        let count = u32::try_from(recorders.len()).map_err(io::Error::other)?;
        let first_deadline = setup.first_deadline(count);
        let create_ticker = S::ticker_factory()?;
        let mut loops = Vec::with_capacity(recorders.len());
        for (i, recorder) in (0..count).zip(recorders) {
            // The starts are spread over the period.
            let start = first_deadline + setup.period * i / count;
            let schedule = Schedule { start, period: setup.period };
            loops.push(InstanceLoop {
                recording: Recording::new(start, recorder),
                settings,
                stop: Arc::clone(&setup.stop),
                hooks: setup.hooks(schedule, &start_anchor, parks),
                // One instance reads the usage of all.
                usage_probe: (i == 0).then(|| setup.usage_probe()),
                ticker: create_ticker(schedule)?,
            });
        }
        let round = Self {
            cost_meter,
            start_anchor,
            backend: loops.first().map(|first| first.ticker.backend()).unwrap_or_default(),
            load_cpu: setup.load_cpu,
            load_cpu_before_ns,
            long_wait,
        };
        Ok((round, loops))
    }

    /// Ends the round.
    fn finish(self, recordings: Vec<Recording>) -> RawRound {
        let end_anchor = Anchor::take();
        let cost = self.cost_meter.cost(&self.start_anchor, &end_anchor);
        if let Some(wait) = self.long_wait {
            wait.end();
        }
        let load_cpu_ns = self.load_cpu.ns() - self.load_cpu_before_ns;
        RawRound {
            usage: recordings.iter().find_map(|recording| recording.usage),
            recordings,
            start_anchor: self.start_anchor,
            end_anchor,
            cost: Cost { load_cpu_ns, ..cost },
            backend: self.backend,
        }
    }
}

/// The loop of one instance of the subject.
struct InstanceLoop<T> {
    ticker: T,
    recording: Recording,
    settings: LoopSettings,
    stop: Arc<AtomicBool>,
    hooks: LoopHooks,
    usage_probe: Option<UsageProbe>,
}

/// Settings of a loop.
#[derive(Clone, Copy)]
struct LoopSettings {
    last_tick: u64,
    parks_until_due: bool,
    /// Set if an interrupt must not wait for the next tick.
    long_wait: Option<LongWait>,
}

/// Optional work of a loop at each tick.
///
/// These are fields and not type parameters, so that a round with one of them runs the same code as
/// a round without.
struct LoopHooks {
    /// Recorder for the diagnosis.
    notes: Option<WakeupNotes>,
    /// Detection of late ticks.
    late_watch: Option<LoopWatch>,
}

impl LoopHooks {
    #[inline]
    fn begin_wait(&mut self) {
        if let Some(notes) = &mut self.notes {
            notes.begin_wait();
        }
    }

    #[inline]
    fn end_wait(&mut self, delivered: Delivered, wake_count: u64) {
        if let Some(notes) = &mut self.notes {
            notes.end_wait(wake_count);
        }
        if let Some(watch) = &mut self.late_watch {
            watch.check(delivered.tick, delivered.expirations, wake_count);
        }
    }

    fn into_threads(self) -> Vec<usize> {
        self.notes.map_or(Vec::new(), WakeupNotes::into_threads)
    }
}

/// Runs a ticker until its last tick or until `stop` is set.
async fn tick<T: Ticker>(instance: InstanceLoop<T>) -> io::Result<Recording> {
    let InstanceLoop { ticker, mut recording, settings, stop, mut hooks, mut usage_probe } =
        instance;
    let mut ticker = pin!(ticker);
    let mut next = 0;
    loop {
        ticker.as_mut().begin(next);
        hooks.begin_wait();
        let waited = poll_fn(|cx| poll_tick(ticker.as_mut(), next, &settings, &stop, cx));
        let event = match waited.await {
            Ok(event) => event?,
            Err(Interrupted) => {
                recording.stopped = true;
                break;
            }
        };
        let wake_count = tach::ordered_count();
        let delivered = ticker.as_mut().delivered(event, next);
        let Delivered { tick, expirations } = delivered;
        let unpark_count = UNPARK_COUNT.take().filter(|_| settings.parks_until_due);
        recording.recorder.push(RawSample { tick, expirations, wake_count, unpark_count });
        hooks.end_wait(delivered, wake_count);
        recording.stopped = tick < settings.last_tick && stop.load(Ordering::Relaxed);
        if let Some(probe) = &mut usage_probe {
            probe.after_tick(tick, recording.stopped);
        }
        if tick >= settings.last_tick || recording.stopped {
            break;
        }
        next = tick + 1;
    }
    recording.threads = hooks.into_threads();
    recording.setting_change = ticker.setting_change();
    recording.usage = usage_probe.and_then(UsageProbe::into_span);
    Ok(recording)
}

/// Polls the wait for a tick, and for an interrupt if that must not wait for the tick.
#[inline]
fn poll_tick<T: Ticker>(
    ticker: Pin<&mut T>,
    tick: u64,
    settings: &LoopSettings,
    stop: &AtomicBool,
    cx: &mut Context<'_>,
) -> Poll<Result<io::Result<T::Event>, Interrupted>> {
    match ticker.poll_wait(tick, cx) {
        Poll::Pending => match settings.long_wait {
            Some(wait) => wait.poll_interrupted(stop, cx).map(Err),
            None => Poll::Pending,
        },
        Poll::Ready(event) => Poll::Ready(Ok(event)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Creates a recording of wake-ups, each a tick and its count.
    fn recording(wakeups: &[(u64, u64)]) -> Recording {
        let mut recorder = Recorder::with_capacity(wakeups.len());
        for &(tick, wake_count) in wakeups {
            recorder.push(RawSample { tick, expirations: 1, wake_count, unpark_count: None });
        }
        #[allow(clippy::disallowed_methods, reason = "the time is not used")]
        Recording::new(Instant::now(), recorder)
    }

    #[test]
    fn ticks_between_readings_are_counted() {
        let steady = recording(&[(0, 100), (1, 200), (2, 300), (3, 400)]);
        // The readings follow the wake-ups of ticks 1 and 3.
        assert_eq!(steady.ticks_between(&(210..420)), 2);
        assert_eq!(steady.ticks_between(&(200..400)), 2);
        // Both readings follow the same wake-up.
        assert_eq!(steady.ticks_between(&(210..220)), 0);
        assert_eq!(steady.ticks_between(&(0..50)), 0);
        assert_eq!(recording(&[]).ticks_between(&(210..420)), 0);
    }

    #[test]
    fn skipped_ticks_passed_between_readings() {
        // Tick 1, the first recorded one, shares the wake-up of tick 4.
        let jump = recording(&[(0, 100), (4, 500), (5, 600)]);
        assert_eq!(jump.ticks_between(&(510..610)), 1);
        assert_eq!(jump.ticks_between(&(110..510)), 4);
    }

    #[test]
    fn other_instances_end_before_readings() {
        let other = recording(&[(0, 150), (1, 250), (2, 350)]);
        // The instance with the readings goes on after this one.
        assert_eq!(other.ticks_between(&(210..900)), 2);
        assert_eq!(other.ticks_between(&(360..900)), 0);
        // It starts before this one.
        assert_eq!(other.ticks_between(&(110..260)), 2);
    }
}
