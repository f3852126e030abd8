//! What a timeout asks of its clock when its timer expires, which happens once a length: one
//! reading of the time that has passed and one of the error bound for each arming, and one stamp
//! more when it fires.

use std::cell::Cell;
use std::future::{Future, pending};
use std::hint::black_box;
use std::pin::pin;
use std::time::Duration;

use idletimeout::{Clock, IdleTimeout, TachClock};
use tokio::time::{Instant, sleep};

/// How often a clock was asked, and for what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Asked {
    now: u64,
    elapsed: u64,
    error_bound: u64,
}

/// Tokio's clock, and what it was asked for.
struct Counting<'a>(&'a Cell<Asked>);

impl Counting<'_> {
    fn count(&self, one_more: impl FnOnce(&mut Asked)) {
        let mut asked = self.0.get();
        one_more(&mut asked);
        self.0.set(asked);
    }
}

impl Clock for Counting<'_> {
    type Stamp = Instant;

    fn now(&self) -> Instant {
        self.count(|asked| asked.now += 1);
        Instant::now()
    }

    fn elapsed(&self, stamp: Instant) -> Duration {
        self.count(|asked| asked.elapsed += 1);
        stamp.elapsed()
    }

    fn error_bound(&self) -> Duration {
        self.count(|asked| asked.error_bound += 1);
        Duration::ZERO
    }
}

const LENGTH: Duration = Duration::from_millis(10);

fn paused<F: Future>(test: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap()
        .block_on(test)
}

/// ```text
///  messages  |   |   |   |   |   |   |   |   |    every 4 ms
///  timer     |---------|-------|-------|----      armed again for what is left of the silence, 8 ms of 10
/// ```
#[test]
fn arming_again_asks_for_the_time_and_the_error_bound_once_and_a_message_for_neither() {
    const MESSAGES: u64 = 1_000;
    let asked = Cell::default();
    paused(async {
        let mut idle = pin!(IdleTimeout::with_clock(LENGTH, Counting(&asked)));
        asked.take();
        for _ in 0..MESSAGES {
            assert_eq!(idle.as_mut().guard(sleep(LENGTH * 2 / 5)).await, Ok(()));
        }
        let armed_again = idle.registrations() - 1;
        assert!((450..=500).contains(&armed_again), "{armed_again}");
        // A stamp for each wait that follows another.
        let expected = Asked { now: MESSAGES - 1, elapsed: armed_again, error_bound: armed_again };
        assert_eq!(asked.get(), expected);
    });
}

#[test]
fn a_firing_asks_for_both_once_and_for_a_stamp() {
    const FIRINGS: u64 = 100;
    let asked = Cell::default();
    paused(async {
        let mut idle = pin!(IdleTimeout::with_clock(LENGTH, Counting(&asked)));
        asked.take();
        for _ in 0..FIRINGS {
            assert!(idle.as_mut().guard(pending::<()>()).await.is_err());
        }
        // What fired is armed again by the next wait.
        let expired = FIRINGS + idle.registrations() - 1;
        assert_eq!(idle.registrations(), FIRINGS);
        assert_eq!(asked.get(), Asked { now: FIRINGS, elapsed: expired, error_bound: expired });
    });
}

#[test]
fn a_look_of_a_slack_asks_once_for_each() {
    const MESSAGES: u64 = 1_000;
    let asked = Cell::default();
    paused(async {
        let mut idle = pin!(IdleTimeout::with_clock(LENGTH, Counting(&asked)).slack(0.5));
        asked.take();
        for _ in 0..MESSAGES {
            assert_eq!(idle.as_mut().guard(sleep(Duration::from_millis(1))).await, Ok(()));
        }
        let looks = idle.registrations() - 1;
        assert!(looks <= MESSAGES / 2, "{looks} looks");
        // Something has come since the last look: it is stamped by this one.
        assert_eq!(asked.get(), Asked { now: looks, elapsed: looks, error_bound: looks });
    });
}

/// The two questions above as the default clock answers them, in readings of it. Asking the CPU for
/// its rate, say, costs thousands of readings in a machine that is virtual.
#[test]
#[allow(clippy::disallowed_methods, reason = "what is compared is what the calls cost")]
fn the_default_clock_answers_for_the_price_of_some_readings() {
    /// Two, where nothing is optimised.
    const MOST_READINGS_OF_A_BOUND: u32 = 8;
    /// Eight, where nothing is optimised.
    const MOST_READINGS_OF_A_SPAN: u32 = 40;
    let stamp = TachClock.now();
    let calls: [&dyn Fn(); 3] = [
        &|| _ = black_box(TachClock.now()),
        &|| _ = black_box(TachClock.elapsed(black_box(stamp))),
        &|| _ = black_box(TachClock.error_bound()),
    ];
    let mut costs = [const { Vec::new() }; 3];
    // In turn, so that whatever else the machine does meets all of them.
    for _ in 0..51 {
        for (call, costs) in calls.iter().zip(&mut costs) {
            let start = std::time::Instant::now();
            (0..200).for_each(|_| call());
            costs.push(start.elapsed());
        }
    }
    let [reading, elapsed, error_bound] = costs.map(|mut costs| {
        costs.sort_unstable();
        costs[costs.len() / 2]
    });
    assert!(
        error_bound <= reading * MOST_READINGS_OF_A_BOUND,
        "200 take {error_bound:?}, 200 readings {reading:?}"
    );
    assert!(
        elapsed <= reading * MOST_READINGS_OF_A_SPAN,
        "200 take {elapsed:?}, 200 readings {reading:?}"
    );
}
