//! Detection of causes that are injected by another task of the runtime. `tests/it/why.rs` injects
//! those that need another process.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use cli::units::{ns_after, to_ns};
use files::report::why::{Class, Tier};
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
    /// Part of a delay that uses no CPU time.
    const SLEEP: Duration = Duration::ZERO;

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
    const SLEEP: Duration = Duration::from_millis(3);

    #[allow(clippy::disallowed_methods, reason = "the injected mistake")]
    fn delay_runtime() {
        std::thread::sleep(Self::SLEEP);
    }
}

impl Cause for PageFaults {
    fn delay_runtime() {
        _ = os::fault_ns();
    }
}

/// A time for which a cause held the runtime.
#[derive(Clone, Copy)]
struct Delay {
    start: Instant,
    end: Instant,
    /// CPU time of the thread, and the time for which the cause slept.
    own: Duration,
}

impl Delay {
    fn length(&self) -> Duration {
        self.end - self.start
    }

    /// Returns the part of the delay that the cause did not make.
    fn disturbance(&self) -> Duration {
        self.length().saturating_sub(self.own)
    }
}

thread_local! {
    /// The delays of the round that this thread measures.
    static DELAYS: RefCell<Vec<Delay>> = const { RefCell::new(Vec::new()) };
    /// Start of the grid of its first instance, the origin of the times of the round.
    static ORIGIN: Cell<Option<Instant>> = const { Cell::new(None) };
}

#[allow(clippy::disallowed_methods, reason = "the delay is compared with the diagnosis")]
fn record_delay<C: Cause>() {
    let (start, before) = (Instant::now(), os::thread_cpu_ns());
    C::delay_runtime();
    let used = os::thread_cpu_ns().zip(before).map_or(0, |(now, before)| now - before);
    let own = C::SLEEP + Duration::from_nanos(used);
    DELAYS.with_borrow_mut(|delays| delays.push(Delay { start, end: Instant::now(), own }));
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
                record_delay::<C>();
            }
        });
        ORIGIN.set(ORIGIN.get().or(Some(schedule.start)));
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

/// Lateness that a cause alone made, and the part of it that has the right class.
#[derive(Debug, Default)]
struct InjectedLateness {
    /// Number of delays.
    all_delays: usize,
    /// Number of delays that the machine did not disturb.
    delays: usize,
    ticks: u64,
    total_ns: u64,
    found_ns: u64,
}

impl InjectedLateness {
    /// Adds the ticks of a round that were due during an undisturbed delay, from their deadline to
    /// its end. Everything else that makes a tick late, such as a pause of the machine, is outside
    /// of these times.
    fn add(&mut self, diagnosis: &RoundDiagnosis, class: Class) {
        let (mut delays, origin) = (DELAYS.take(), ORIGIN.take().expect("an instance ran"));
        self.all_delays += delays.len();
        delays.retain(|delay| delay.disturbance() <= delay.length() / 10);
        // A hypervisor may charge the time that it took.
        let max_length = delays.iter().map(Delay::length).min().map_or(Duration::ZERO, |l| l * 2);
        self.delays += delays.iter().filter(|delay| delay.length() <= max_length).count();
        for tick in &diagnosis.round.ticks {
            let due = |delay: &&Delay| {
                (ns_after(delay.start, origin)..ns_after(delay.end, origin))
                    .contains(&tick.deadline_ns)
            };
            let is_usual = |delay: &&Delay| delay.length() <= max_length;
            if let Some(delay) = delays.iter().filter(due).find(is_usual) {
                let until_end_ns = (ns_after(delay.end, origin) - tick.deadline_ns).unsigned_abs();
                let other_ns = to_ns(delay.disturbance())
                    + tick.parts.ns(Class::Host)
                    + tick.parts.ns(Class::Stopped)
                    // A quota is charged with any time off the CPU, also that of the cause.
                    + tick.parts.ns(Class::Quota);
                let injected_ns = until_end_ns.saturating_sub(other_ns);
                self.ticks += u64::from(injected_ns > 0);
                self.total_ns += injected_ns;
                self.found_ns += tick.parts.ns(class).min(injected_ns);
            }
        }
    }
}

/// Measures a few rounds with an injected cause, and checks that it has at least a share of
/// `min_share` of the lateness that it made.
fn assert_found<C: Cause>(class: Class, min_share: f64) {
    const MAX_ROUNDS: u64 = 100;
    const TICKS: u64 = 200;
    let profiler = Profiler::open();
    let mut injected = InjectedLateness::default();
    for index in 0..MAX_ROUNDS {
        let diagnosis = measure_round::<C>(&profiler, index);
        let (ticks, known) = (&diagnosis.round.ticks, diagnosis.round.known);
        assert_eq!(ticks.len(), 500);
        for tick in ticks {
            let lateness = u64::try_from(tick.wake_ns - tick.deadline_ns).unwrap_or(0);
            assert_eq!(tick.parts.shares(known).total_ns(), lateness);
        }
        // Rounds cannot be profiled everywhere.
        if diagnosis.round.tier.is_none() && index == 0 {
            return;
        }
        if diagnosis.round.is_complete() && diagnosis.round.tier.is_some() {
            injected.add(&diagnosis, class);
        }
        if injected.ticks >= TICKS {
            break;
        }
    }
    let share = injected.found_ns as f64 / injected.total_ns.max(1) as f64;
    // A machine that pauses in nearly every delay shows nothing: the few others are undisturbed by
    // chance.
    let is_by_chance = injected.delays < 20 || injected.delays < injected.all_delays / 10;
    let is_unknown = injected.ticks < TICKS && is_by_chance;
    assert!(share >= min_share || is_unknown, "{class:?}: {share}, {injected:?}");
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
            // The rings of the CPUs begin and end to record one after another.
            let cpus: BTreeSet<_> = switches.iter().map(|switch| switch.cpu).collect();
            for cpu in cpus {
                let kinds: Vec<bool> =
                    switches.iter().filter(|switch| switch.cpu == cpu).map(is_on).collect();
                assert!(kinds.windows(2).all(|pair| pair[0] != pair[1]), "{switches:?}");
            }
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
