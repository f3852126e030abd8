//! Intervals that follow another clock.
#![cfg(all(feature = "blocking", feature = "interval"))]
#![allow(clippy::print_stdout, reason = "prints figures that depend on the machine")]

use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use osinterval::{IntervalGroup, OsInterval, Precision, Steering};

const PERIOD: Duration = Duration::from_millis(1);
const CYCLE: Duration = Duration::from_nanos(1_000_050);
const EVENTS: u32 = 400;

#[allow(clippy::disallowed_methods, reason = "the tests compare with the clock")]
fn real_now() -> Instant {
    Instant::now()
}

/// Starts a thread that reads the time at each cycle of a clock which is 50 ppm slow.
#[allow(clippy::disallowed_methods, reason = "another clock has a thread of its own")]
fn start_foreign_clock() -> Receiver<Instant> {
    let (sender, events) = channel();
    let first = real_now() + PERIOD / 3;
    std::thread::spawn(move || {
        for cycle in 0.. {
            std::thread::sleep((first + CYCLE * cycle).saturating_duration_since(real_now()));
            if sender.send(real_now()).is_err() {
                break;
            }
        }
    });
    events
}

/// Asserts the order and the distance of the ticks, and that none is early, at any load of the
/// machine.
#[derive(Default)]
struct Checked {
    due: Option<Instant>,
    observed: u32,
}

impl Checked {
    fn check(&mut self, due: Instant) {
        assert!(due <= real_now());
        if let Some(before) = self.due.replace(due) {
            assert!((PERIOD * 19 / 20..=PERIOD * 21 / 20).contains(&(due - before)));
        }
    }

    fn finish(&self, steering: Option<Steering>) {
        let steering = steering.expect("events were observed");
        println!("{} events: {steering:?}", self.observed);
        assert!(steering.rate_ppb.abs() <= 10_102_000);
    }
}

/// Follows a foreign clock with an interval of tokio.
macro_rules! assert_ticks_follow {
    ($interval:expr) => {{
        let (mut interval, events) = ($interval, start_foreign_clock());
        interval.steer(events.recv().unwrap().into());
        let mut checked = Checked::default();
        while checked.observed < EVENTS {
            checked.check(interval.tick().await.into());
            for event in events.try_iter() {
                interval.steer(event.into());
                checked.observed += 1;
            }
        }
        checked.finish(interval.steering());
    }};
}

#[tokio::test]
async fn own_timer_follows_thread() {
    assert_ticks_follow!(osinterval::interval(PERIOD));
}

#[tokio::test]
async fn precise_interval_follows_thread() {
    let builder = OsInterval::builder(PERIOD).precision(Precision::spin());
    assert_ticks_follow!(builder.build().unwrap());
}

#[tokio::test]
async fn group_interval_follows_thread() {
    assert_ticks_follow!(IntervalGroup::new().unwrap().interval(PERIOD));
}

#[test]
fn blocking_interval_follows_thread() {
    let (mut interval, events) = (osinterval::blocking::interval(PERIOD), start_foreign_clock());
    interval.steer(events.recv().unwrap());
    let mut checked = Checked::default();
    while checked.observed < EVENTS {
        checked.check(interval.tick().unwrap());
        for event in events.try_iter() {
            interval.steer(event);
            checked.observed += 1;
        }
    }
    checked.finish(interval.steering());
}

#[tokio::test(start_paused = true)]
async fn paused_clock_is_steered_exactly() {
    let mut interval = osinterval::interval(PERIOD);
    assert_eq!(interval.steering(), None);
    let first = interval.deadline() + PERIOD / 3;
    for cycle in 0..500 {
        interval.tick().await;
        interval.steer_numbered(cycle.into(), first + CYCLE * cycle);
    }
    let steering = interval.steering().unwrap();
    assert!(steering.is_locked, "{steering:?}");
    assert!((-50_010..-49_980).contains(&steering.rate_ppb), "{steering:?}");
    let due = interval.tick().await;
    assert!((interval.deadline() - due).as_nanos().abs_diff(CYCLE.as_nanos()) <= 1);
    assert_eq!(interval.missed(), 0);

    let moved = interval.deadline() + PERIOD * 10;
    interval.reset_at(moved);
    assert_eq!(interval.tick().await, moved);
    interval.stop_steering();
    assert_eq!(interval.steering(), None);
    let due = interval.tick().await;
    assert_eq!(interval.deadline() - due, PERIOD);
}
