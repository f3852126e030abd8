//! Tests of `PeriodicInterval` in real time: every period is reported exactly once.
#![cfg(feature = "periodic")]

use std::time::Duration;

use osinterval::PeriodicInterval;
use tokio::time::Instant;

const PERIOD: Duration = Duration::from_millis(1);

#[allow(clippy::disallowed_methods, reason = "the tests compare with the clock")]
fn real_now() -> Instant {
    std::time::Instant::now().into()
}

#[tokio::test]
async fn every_period_is_reported_once() {
    let start = real_now() + Duration::from_millis(3);
    let mut interval = PeriodicInterval::new_at(start, PERIOD).unwrap();
    let mut reported = 0_u32;
    while reported < 500 {
        let expirations = interval.tick().await.unwrap();
        assert!(expirations.count >= 1 && real_now() >= expirations.last);
        assert_eq!(expirations.first, start + PERIOD * reported);
        reported += u32::try_from(expirations.count).unwrap();
        assert_eq!(expirations.last, start + PERIOD * (reported - 1));
        assert_eq!(interval.deadline(), start + PERIOD * reported);
    }
}

#[tokio::test]
async fn late_reader_gets_missed_count() {
    let mut interval = PeriodicInterval::new_at(real_now(), PERIOD).unwrap();
    let first = interval.tick().await.unwrap();
    #[allow(clippy::disallowed_methods, reason = "the thread has to stall")]
    std::thread::sleep(PERIOD * 30);
    let second = interval.tick().await.unwrap();
    assert!(second.count >= 29, "{second:?}");
    assert_eq!(second.first, first.last + PERIOD);
    assert_eq!(second.last, second.first + PERIOD * u32::try_from(second.count - 1).unwrap());
}

#[tokio::test]
async fn past_start_gives_one_tick() {
    let Some(start) = real_now().checked_sub(PERIOD * 10) else { return };
    let mut interval = PeriodicInterval::new_at(start, PERIOD).unwrap();
    let expirations = interval.tick().await.unwrap();
    assert!(expirations.count >= 11, "{expirations:?}");
    assert_eq!(expirations.first, start);
}

/// On systems where the kernel begins to repeat when an expiration is taken, one that is taken late
/// must not shift all that follow.
#[tokio::test]
async fn late_first_tick_keeps_schedule() {
    let start = real_now() + PERIOD;
    let mut interval = PeriodicInterval::new_at(start, PERIOD).unwrap();
    #[allow(clippy::disallowed_methods, reason = "the thread has to stall")]
    std::thread::sleep(PERIOD * 20 + PERIOD / 2);
    let first = interval.tick().await.unwrap();
    assert!(first.first == start && first.count >= 20, "{first:?}");
    let mut next = first.last + PERIOD;
    for _ in 0..20 {
        let before = real_now();
        let expirations = interval.tick().await.unwrap();
        assert_eq!(expirations.first, next);
        next = expirations.last + PERIOD;
        // Every period that had ended before the call is reported.
        assert!(next > before, "{expirations:?}");
    }
}

#[tokio::test]
async fn dropped_tick_loses_no_expiration() {
    let start = real_now() + PERIOD;
    let mut interval = PeriodicInterval::new_at(start, PERIOD).unwrap();
    let mut next = start;
    let mut dropped = 0;
    while dropped < 1_000 {
        tokio::select! {
            biased;
            expirations = interval.tick() => {
                let expirations = expirations.unwrap();
                assert_eq!(expirations.first, next);
                next = expirations.last + PERIOD;
            }
            () = tokio::task::yield_now() => dropped += 1,
        }
    }
    assert_eq!(interval.tick().await.unwrap().first, next);
}

#[test]
fn missing_runtime_is_an_error() {
    assert_eq!(PeriodicInterval::new(PERIOD).unwrap_err().kind(), std::io::ErrorKind::NotConnected);
}
