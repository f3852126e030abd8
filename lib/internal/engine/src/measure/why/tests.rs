//! Causes that are injected are the ones that are found: those that need a task beside the ticks.
//! `tests/it/why.rs` has those that need another process.

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
use crate::machine::os;
use crate::measure::round::RoundRequest;
use crate::scenario::{Length, Scenario, ScenarioArgs, parse_subject};
use crate::subject::Visitor as _;
use crate::subject::ticker::{Schedule, Subject, Ticker};

/// Something that makes the ticks of a runtime late.
trait Cause: Send + Sync + 'static {
    /// One time of many.
    fn strike();
}

struct Busy;
struct Blocks;
struct Faults;

impl Cause for Busy {
    fn strike() {
        let until = os::thread_cpu_ns().map(|ns| ns + 3_000_000);
        while os::thread_cpu_ns() < until {
            std::hint::spin_loop();
        }
    }
}

impl Cause for Blocks {
    #[allow(clippy::disallowed_methods, reason = "the mistake that is looked for")]
    fn strike() {
        std::thread::sleep(Duration::from_millis(3));
    }
}

impl Cause for Faults {
    fn strike() {
        (0..6).for_each(|_| _ = os::fault_ns());
    }
}

/// An interval beside a task that strikes every few milliseconds.
struct Beside<C> {
    interval: OsInterval,
    neighbour: AbortHandle,
    cause: std::marker::PhantomData<C>,
}

impl<C: Cause> Subject for Beside<C> {
    type Ticker = Self;

    fn ticker(schedule: Schedule) -> io::Result<Self> {
        let neighbour = tokio::spawn(async {
            loop {
                tokio::time::sleep(Duration::from_millis(12)).await;
                C::strike();
            }
        });
        let interval =
            OsInterval::builder(schedule.period).start_at(schedule.start.into()).build()?;
        Ok(Self { interval, neighbour: neighbour.abort_handle(), cause: std::marker::PhantomData })
    }
}

impl<C: Cause> Ticker for Beside<C> {
    type Event = ();

    fn poll_wait(self: Pin<&mut Self>, _: u64, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let interval = &mut Pin::into_inner(self).interval;
        interval.poll_tick(cx).map(|_| Ok(()))
    }

    fn backend(&self) -> String {
        String::new()
    }
}

impl<C> Unpin for Beside<C> {}

impl<C> Drop for Beside<C> {
    fn drop(&mut self) {
        self.neighbour.abort();
    }
}

fn scenario() -> Scenario {
    let args = ScenarioArgs {
        subjects: vec![parse_subject("os-interval").expect("it is in the table")],
        length: Some(Length::Ticks(250)),
        round_ticks: Some(250),
        // With two, neither is thought to be alone on its thread.
        instances: Some(2),
        ..ScenarioArgs::default()
    };
    args.single_scenario().expect("one scenario")
}

/// What the ticks of a few rounds beside such a task were late by, and the time that the host took
/// meanwhile; `None` where nothing can be asked.
fn measured<C: Cause>(session: &Profiler) -> Option<(Shares, u64)> {
    let (scenario, stop) = (scenario(), Arc::default());
    let mut pool = Pool::new(Some(150_000), 2_000);
    for index in 0..4 {
        let (start, why) = (None, Some(session));
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
            why,
            late: None,
        };
        let round = request.on_tokio::<Beside<C>>().expect("it can be measured");
        let answer = round.diagnosis.expect("it was asked");
        let (of_ticks, known) = (&answer.round.ticks, answer.round.known);
        assert_eq!(of_ticks.len(), 500);
        for tick in of_ticks {
            let lateness = u64::try_from(tick.wake_ns - tick.deadline_ns).unwrap_or(0);
            assert_eq!(tick.parts.shares(known).total_ns(), lateness);
        }
        answer.round.tier?;
        pool.add(answer.round);
    }
    let why = pool.finish(&[], None);
    Some((why.shares_ns?, why.evidence.steal_ns.unwrap_or(0)))
}

/// At least this share of what was neither spent waiting for a CPU nor taken by the host, in three
/// tries before three without it. A try in which the host took time is repeated: all that a thread
/// does takes longer then. On a host that does so in every try, half of that share is enough, and
/// once.
fn is_found<C: Cause>(class: Class, least: f64) {
    const TRIES: usize = 12;
    let session = Profiler::open();
    let (mut shares, mut missed) = (Vec::new(), 0);
    for _ in 0..TRIES {
        let Some((parts, steal_ns)) = measured::<C>(&session) else { return };
        let rest = parts.total_ns() - parts.ns(Class::Queue) - parts.ns(Class::Host);
        let share = parts.ns(class) as f64 / rest.max(1) as f64;
        shares.push(share);
        missed += usize::from(share < least && steal_ns == 0);
        assert!(missed < 3, "{class:?}: {shares:?}");
        if shares.iter().filter(|share| **share >= least).count() == 3 {
            return;
        }
    }
    assert!(shares.iter().any(|share| *share >= least / 2.0), "{class:?}: {shares:?}");
}

#[test]
fn a_busy_neighbour_is_the_threads_own_cpu_time() {
    is_found::<Busy>(Class::OwnCpu, 0.9);
}

#[test]
fn a_sleep_in_a_poll_is_found_blocking() {
    is_found::<Blocks>(Class::Blocked, 0.8);
}

#[test]
fn page_faults_of_a_neighbour_are_found() {
    is_found::<Faults>(Class::Faults, 0.45);
}

#[test]
#[allow(clippy::disallowed_methods, reason = "any instant will do")]
fn the_kernels_clock_and_the_counter_name_the_same_moments() {
    let origin = Instant::now();
    let Some(kernel) = super::Kernel::new(origin) else { return };
    let (at, ns) = os::monotonic_pair().expect("it was there before");
    let after = i64::try_from(at.duration_since(origin).as_nanos()).expect("a moment");
    assert!(kernel.ns(ns).abs_diff(after) < 1_000_000, "{} {after}", kernel.ns(ns));
}
