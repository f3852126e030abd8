//! Detection of causes that are injected by another task of the runtime. `tests/it/why.rs` injects
//! those that need another process.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use files::report::why::{Class, Shares, Tier};
use files::why::pool::Pool;
use files::why::{Switch, SwitchKind};
use osinterval::OsInterval;
use tokio::task::AbortHandle;

use super::kernel_clock::KernelClock;
use super::{Profiler, RoundDiagnosis};
use crate::machine::os;
use crate::measure::executor::run_on_tokio;
use crate::measure::round::RoundRequest;
use crate::scenario::{Length, Scenario, ScenarioArgs, parse_subject};
use crate::subject::WaitKind;
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

fn measure_round<C: Cause>(profiler: &Profiler, index: u64) -> RoundDiagnosis {
    let (scenario, stop) = (scenario(), Arc::default());
    let request = RoundRequest {
        scenario: &scenario,
        index,
        slot: 0,
        ticks: 250,
        phase: Duration::ZERO,
        start: None,
        run_on: 0,
        stop: &stop,
        profiler: Some(profiler),
        late_watch: None,
        settings: None,
    };
    let round = request.measure_subject(WaitKind::Timer, run_on_tokio::<DelayedInterval<C>>);
    let round = round.expect("the round can be measured");
    round.diagnosis.expect("the round was profiled")
}

/// Measures a few rounds with an injected cause. Returns the causes of the lateness, and the time
/// that the host took.
///
/// Returns `None` if rounds cannot be profiled.
fn measure_shares<C: Cause>(profiler: &Profiler) -> Option<(Shares, u64)> {
    let mut pool = Pool::new(Some(150_000), 2_000);
    for index in 0..4 {
        let diagnosis = measure_round::<C>(profiler, index);
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

/// The rings of the CPUs record the switches, or those of the threads if the former are too small.
#[test]
fn both_kinds_of_rings_record_threads() {
    let profiler = Profiler::open();
    for _ in 0..2 {
        let diagnosis = measure_round::<BlockingSleep>(&profiler, 0);
        let has_switches = !matches!(diagnosis.round.tier, None | Some(Tier::A1));
        assert!(!diagnosis.threads.is_empty() || !has_switches);
        for thread in &diagnosis.threads {
            assert!(thread.switches.is_some() || !has_switches);
            let switches = thread.switches.as_deref().unwrap_or_default();
            assert!(switches.len() > 2 || !has_switches, "{switches:?}");
            let is_on = |switch: &Switch| switch.kind == SwitchKind::On;
            let alternates = |pair: &[Switch]| is_on(&pair[0]) != is_on(&pair[1]);
            assert!(switches.windows(2).all(alternates), "{switches:?}");
        }
        profiler.separate_threads();
    }
}

#[test]
#[allow(clippy::disallowed_methods, reason = "any instant will do")]
fn kernel_clock_matches_the_counter() {
    let origin = Instant::now();
    let Some(clock) = KernelClock::new(origin) else { return };
    let (at, ns) = os::monotonic_pair().expect("the clock was available before");
    let after = i64::try_from(at.duration_since(origin).as_nanos()).expect("a moment");
    let converted = clock.process_ns(ns);
    assert!(converted.abs_diff(after) < 1_000_000, "{converted} {after}");
}

/// The kernel's records are on the time line of the round, also in a time namespace.
#[cfg(target_os = "linux")]
#[test]
#[allow(clippy::disallowed_methods, reason = "the thread has to sleep")]
fn records_are_within_their_round() {
    let origin = Instant::now();
    let (Some(clock), Ok(mut ring)) =
        (KernelClock::new(origin), os::SwitchRing::for_current_thread())
    else {
        return;
    };
    ring.record(true);
    std::thread::sleep(Duration::from_millis(1));
    ring.record(false);
    let round = 0..=i64::try_from(origin.elapsed().as_nanos()).expect("a moment");
    let switches = ring.drain().switches;
    assert!(!switches.is_empty());
    for switch in switches {
        let at_ns = clock.ns(switch.at_ns);
        assert!(round.contains(&at_ns), "{at_ns} is not in {round:?}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn records_match_in_time_namespaces() {
    use std::process::Command;
    for seconds in ["3600", "-7"] {
        let mut unshare = Command::new("unshare");
        unshare.args(["--time", "--monotonic", seconds]);
        let is_available = unshare.arg("true").status().is_ok_and(|status| status.success());
        if !is_available {
            return; // It needs root, and a kernel with time namespaces.
        }
        let mut unshare = Command::new("unshare");
        unshare.args(["--time", "--monotonic", seconds]).arg(std::env::current_exe().unwrap());
        unshare.args(["--exact", "measure::why::tests::records_are_within_their_round"]);
        let run = unshare.output().expect("it was available before");
        let output = String::from_utf8_lossy(&run.stdout);
        assert!(run.status.success() && output.contains("1 passed"), "{output}");
    }
}
