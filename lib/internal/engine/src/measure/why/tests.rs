//! Detection of causes that are injected by another task of the runtime. `tests/it/why.rs` injects
//! those that need another process.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use files::report::why::{Class, Shares};
use files::why::pool::Pool;
use osinterval::OsInterval;
use tokio::task::AbortHandle;

use super::Profiler;
use super::kernel_clock::KernelClock;
use crate::machine::os;
use crate::measure::round::RoundRequest;
use crate::scenario::{Length, Scenario, ScenarioArgs, parse_subject};
use crate::subject::Visitor as _;
use crate::subject::ticker::{Schedule, Subject, Ticker};

/// A cause of late ticks.
trait Cause: Send + Sync + 'static {
    /// Delays the runtime once.
    fn delay_runtime();
}

struct BusyTask;
struct BlockingSleep;
struct PageFaults;

impl Cause for BusyTask {
    fn delay_runtime() {
        let until = os::thread_cpu_ns().map(|ns| ns + 3_000_000);
        while os::thread_cpu_ns() < until {
            std::hint::spin_loop();
        }
    }
}

impl Cause for BlockingSleep {
    #[allow(clippy::disallowed_methods, reason = "the injected mistake")]
    fn delay_runtime() {
        std::thread::sleep(Duration::from_millis(3));
    }
}

impl Cause for PageFaults {
    fn delay_runtime() {
        for _ in 0..6 {
            _ = os::fault_ns();
        }
    }
}

/// An interval on a runtime with a task that delays it every few milliseconds.
struct DelayedInterval<C> {
    interval: OsInterval,
    neighbour: AbortHandle,
    cause: std::marker::PhantomData<C>,
}

impl<C: Cause> Subject for DelayedInterval<C> {
    type Ticker = Self;

    fn ticker(schedule: Schedule) -> io::Result<Self> {
        let neighbour = tokio::spawn(async {
            loop {
                tokio::time::sleep(Duration::from_millis(12)).await;
                C::delay_runtime();
            }
        });
        let interval =
            OsInterval::builder(schedule.period).start_at(schedule.start.into()).build()?;
        Ok(Self { interval, neighbour: neighbour.abort_handle(), cause: std::marker::PhantomData })
    }
}

impl<C: Cause> Ticker for DelayedInterval<C> {
    type Event = ();

    fn poll_wait(self: Pin<&mut Self>, _: u64, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let interval = &mut Pin::into_inner(self).interval;
        interval.poll_tick(cx).map(|_| Ok(()))
    }

    fn backend(&self) -> String {
        String::new()
    }
}

impl<C> Unpin for DelayedInterval<C> {}

impl<C> Drop for DelayedInterval<C> {
    fn drop(&mut self) {
        self.neighbour.abort();
    }
}

fn scenario() -> Scenario {
    let args = ScenarioArgs {
        subjects: vec![parse_subject("os-interval").expect("os-interval is in the table")],
        length: Some(Length::Ticks(250)),
        round_ticks: Some(250),
        // With two instances, no loop counts as alone on its thread.
        instances: Some(2),
        ..ScenarioArgs::default()
    };
    args.single_scenario().expect("one scenario")
}

/// Measures a few rounds with an injected cause. Returns the causes of the lateness, and the time
/// that the host took.
///
/// Returns `None` if rounds cannot be profiled.
fn measure_shares<C: Cause>(profiler: &Profiler) -> Option<(Shares, u64)> {
    let (scenario, stop) = (scenario(), Arc::default());
    let mut pool = Pool::new(Some(150_000), 2_000);
    for index in 0..4 {
        let (start, profiler) = (None, Some(profiler));
        let phase = Duration::ZERO;
        let request = RoundRequest {
            scenario: &scenario,
            index,
            slot: 0,
            ticks: 250,
            phase,
            start,
            run_on: 0,
            stop: &stop,
            profiler,
            late_watch: None,
        };
        let round = request.on_tokio::<DelayedInterval<C>>().expect("the round can be measured");
        let diagnosis = round.diagnosis.expect("the round was profiled");
        let (ticks, known) = (&diagnosis.round.ticks, diagnosis.round.known);
        assert_eq!(ticks.len(), 500);
        for tick in ticks {
            let lateness = u64::try_from(tick.wake_ns - tick.deadline_ns).unwrap_or(0);
            assert_eq!(tick.parts.shares(known).total_ns(), lateness);
        }
        diagnosis.round.tier?;
        pool.add(diagnosis.round);
    }
    let why = pool.finish(&[], None);
    Some((why.shares_ns?, why.evidence.steal_ns.unwrap_or(0)))
}

/// Checks that a cause has at least a share of `min_share` of the lateness that neither waiting for
/// a CPU nor the host explains.
///
/// The check passes after three attempts with this share, and fails after three without it.
/// Attempts in which the host took time do not count as failed, since everything takes longer then.
/// If the host does so in every attempt, half of the share in one of them is sufficient.
fn assert_found<C: Cause>(class: Class, min_share: f64) {
    const ATTEMPTS: usize = 12;
    let profiler = Profiler::open();
    let (mut shares, mut missed) = (Vec::new(), 0);
    for _ in 0..ATTEMPTS {
        let Some((parts, steal_ns)) = measure_shares::<C>(&profiler) else { return };
        let rest = parts.total_ns() - parts.ns(Class::Queue) - parts.ns(Class::Host);
        let share = parts.ns(class) as f64 / rest.max(1) as f64;
        shares.push(share);
        missed += usize::from(share < min_share && steal_ns == 0);
        assert!(missed < 3, "{class:?}: {shares:?}");
        if shares.iter().filter(|share| **share >= min_share).count() == 3 {
            return;
        }
    }
    assert!(shares.iter().any(|share| *share >= min_share / 2.0), "{class:?}: {shares:?}");
}

#[test]
fn busy_tasks_are_own_cpu_time() {
    assert_found::<BusyTask>(Class::OwnCpu, 0.9);
}

#[test]
fn blocking_sleeps_are_found() {
    assert_found::<BlockingSleep>(Class::Blocked, 0.8);
}

#[test]
fn page_faults_are_found() {
    assert_found::<PageFaults>(Class::Faults, 0.45);
}

#[test]
#[allow(clippy::disallowed_methods, reason = "any instant will do")]
fn kernel_clock_matches_the_counter() {
    let origin = Instant::now();
    let Some(clock) = KernelClock::new(origin) else { return };
    let (at, ns) = os::monotonic_pair().expect("the clock was available before");
    let after = i64::try_from(at.duration_since(origin).as_nanos()).expect("a moment");
    assert!(clock.ns(ns).abs_diff(after) < 1_000_000, "{} {after}", clock.ns(ns));
}
