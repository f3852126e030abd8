//! Counts the calls of the clock when the timer of a timeout expires, which happens once per
//! length: one reading of the elapsed time and one of the error bound for each arming, and one more
//! stamp when it fires.

use std::cell::Cell;
use std::future::{Future, pending};
use std::hint::black_box;
use std::pin::pin;
use std::time::Duration;

use idletimeout::{Clock, IdleTimeout, TachClock};
use tokio::time::{Instant, sleep};

/// The number of calls of each method of a clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct ClockCalls {
    now: u64,
    elapsed: u64,
    error_bound: u64,
}

/// Tokio's clock, which counts its calls.
struct CountingClock<'a>(&'a Cell<ClockCalls>);

impl CountingClock<'_> {
    fn count(&self, increment: impl FnOnce(&mut ClockCalls)) {
        let mut calls = self.0.get();
        increment(&mut calls);
        self.0.set(calls);
    }
}

impl Clock for CountingClock<'_> {
    type Stamp = Instant;

    fn now(&self) -> Instant {
        self.count(|calls| calls.now += 1);
        Instant::now()
    }

    fn elapsed(&self, stamp: Instant) -> Duration {
        self.count(|calls| calls.elapsed += 1);
        stamp.elapsed()
    }

    fn error_bound(&self) -> Duration {
        self.count(|calls| calls.error_bound += 1);
        Duration::ZERO
    }
}

const LENGTH: Duration = Duration::from_millis(10);

fn run_paused<F: Future>(test: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap()
        .block_on(test)
}

/// ```text
///  messages  |   |   |   |   |   |   |   |   |    every 4 ms
///  timer     |---------|-------|-------|----      armed again for the remaining 8 ms of 10
/// ```
#[test]
fn rearming_reads_time_and_bound_once() {
    const MESSAGES: u64 = 1_000;
    let calls = Cell::default();
    run_paused(async {
        let mut idle = pin!(IdleTimeout::with_clock(LENGTH, CountingClock(&calls)));
        calls.take();
        for _ in 0..MESSAGES {
            assert_eq!(idle.as_mut().guard(sleep(LENGTH * 2 / 5)).await, Ok(()));
        }
        let rearmings = idle.registrations() - 1;
        assert!((450..=500).contains(&rearmings), "{rearmings}");
        // Each wait that follows another takes a stamp. A message reads nothing else.
        let expected = ClockCalls { now: MESSAGES - 1, elapsed: rearmings, error_bound: rearmings };
        assert_eq!(calls.get(), expected);
    });
}

#[test]
fn firing_reads_time_bound_and_stamp() {
    const FIRINGS: u64 = 100;
    let calls = Cell::default();
    run_paused(async {
        let mut idle = pin!(IdleTimeout::with_clock(LENGTH, CountingClock(&calls)));
        calls.take();
        for _ in 0..FIRINGS {
            assert!(idle.as_mut().guard(pending::<()>()).await.is_err());
        }
        // After a firing, the next wait arms the timer again.
        let expirations = FIRINGS + idle.registrations() - 1;
        assert_eq!(idle.registrations(), FIRINGS);
        let expected = ClockCalls { now: FIRINGS, elapsed: expirations, error_bound: expirations };
        assert_eq!(calls.get(), expected);
    });
}

#[test]
fn slack_check_reads_each_once() {
    const MESSAGES: u64 = 1_000;
    let calls = Cell::default();
    run_paused(async {
        let idle = IdleTimeout::with_clock(LENGTH, CountingClock(&calls)).slack(0.5);
        let mut idle = pin!(idle);
        calls.take();
        for _ in 0..MESSAGES {
            assert_eq!(idle.as_mut().guard(sleep(Duration::from_millis(1))).await, Ok(()));
        }
        let checks = idle.registrations() - 1;
        assert!(checks <= MESSAGES / 2, "{checks} checks");
        // Something has come since the last check, so each check takes a stamp.
        let expected = ClockCalls { now: checks, elapsed: checks, error_bound: checks };
        assert_eq!(calls.get(), expected);
    });
}

fn median(mut costs: Vec<Duration>) -> Duration {
    costs.sort_unstable();
    costs[costs.len() / 2]
}

/// The elapsed time and the error bound of the default clock cost some readings of it. Executing
/// CPUID for the rate, for example, would cost thousands of readings in a virtual machine.
#[test]
#[allow(clippy::disallowed_methods, reason = "compares the cost of the calls")]
fn default_clock_costs_some_readings() {
    /// It is two without optimisation.
    const MAX_READINGS_PER_BOUND: u32 = 8;
    /// It is eight without optimisation.
    const MAX_READINGS_PER_SPAN: u32 = 40;
    let stamp = TachClock.now();
    let calls: [&dyn Fn(); 3] = [
        &|| _ = black_box(TachClock.now()),
        &|| _ = black_box(TachClock.elapsed(black_box(stamp))),
        &|| _ = black_box(TachClock.error_bound()),
    ];
    let mut costs = [const { Vec::new() }; 3];
    // The calls alternate, so that any other load of the machine affects all of them.
    for _ in 0..51 {
        for (call, costs) in calls.iter().zip(&mut costs) {
            let start = std::time::Instant::now();
            for _ in 0..200 {
                call();
            }
            costs.push(start.elapsed());
        }
    }
    let [reading, elapsed, error_bound] = costs.map(median);
    assert!(
        error_bound <= reading * MAX_READINGS_PER_BOUND,
        "200 bounds take {error_bound:?}, 200 readings {reading:?}"
    );
    assert!(
        elapsed <= reading * MAX_READINGS_PER_SPAN,
        "200 spans take {elapsed:?}, 200 readings {reading:?}"
    );
}
