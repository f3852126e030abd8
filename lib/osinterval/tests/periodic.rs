//! `PeriodicInterval` in real time: every period is reported exactly once.
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
async fn every_period_is_reported_once_and_never_early() {
    let start = real_now() + Duration::from_millis(3);
    let mut interval = PeriodicInterval::new_at(start, PERIOD).unwrap();
    let mut reported = 0_u32;
    while reported < 500 {
        let e = interval.tick().await.unwrap();
        assert!(e.count >= 1 && real_now() >= e.last);
        assert_eq!(e.first, start + PERIOD * reported);
        reported += u32::try_from(e.count).unwrap();
        assert_eq!(e.last, start + PERIOD * (reported - 1));
        assert_eq!(interval.deadline(), start + PERIOD * reported);
    }
}

#[tokio::test]
async fn a_late_reader_is_told_how_many_it_missed() {
    let mut interval = PeriodicInterval::new_at(real_now(), PERIOD).unwrap();
    let first = interval.tick().await.unwrap();
    #[allow(clippy::disallowed_methods, reason = "a stall is what is wanted")]
    std::thread::sleep(PERIOD * 30);
    let second = interval.tick().await.unwrap();
    assert!(second.count >= 29, "{second:?}");
    assert_eq!(second.first, first.last + PERIOD);
    assert_eq!(second.last, second.first + PERIOD * u32::try_from(second.count - 1).unwrap());
}

#[tokio::test]
async fn a_start_in_the_past_is_caught_up_with_in_one_tick() {
    let Some(start) = real_now().checked_sub(PERIOD * 10) else { return };
    let mut interval = PeriodicInterval::new_at(start, PERIOD).unwrap();
    let e = interval.tick().await.unwrap();
    assert!(e.count >= 11, "{e:?}");
    assert_eq!(e.first, start);
}

/// Where the kernel can only begin to repeat at some expiration, one that is seen late must not
/// shift all that follow.
#[tokio::test]
async fn a_late_first_tick_is_made_up_for() {
    let start = real_now() + PERIOD;
    let mut interval = PeriodicInterval::new_at(start, PERIOD).unwrap();
    #[allow(clippy::disallowed_methods, reason = "a stall is what is wanted")]
    std::thread::sleep(PERIOD * 20 + PERIOD / 2);
    let first = interval.tick().await.unwrap();
    assert!(first.first == start && first.count >= 20, "{first:?}");
    let mut next = first.last + PERIOD;
    for _ in 0..20 {
        let before = real_now();
        let e = interval.tick().await.unwrap();
        assert_eq!(e.first, next);
        next = e.last + PERIOD;
        // Nothing that had ended before the call is kept back.
        assert!(next > before, "{e:?}");
    }
}

#[tokio::test]
async fn dropping_a_tick_loses_no_expiration() {
    let start = real_now() + PERIOD;
    let mut interval = PeriodicInterval::new_at(start, PERIOD).unwrap();
    let mut next = start;
    let mut dropped = 0;
    while dropped < 1_000 {
        tokio::select! {
            biased;
            e = interval.tick() => {
                let e = e.unwrap();
                assert_eq!(e.first, next);
                next = e.last + PERIOD;
            }
            () = tokio::task::yield_now() => dropped += 1,
        }
    }
    assert_eq!(interval.tick().await.unwrap().first, next);
}

#[test]
fn without_a_runtime_there_is_an_error() {
    assert_eq!(PeriodicInterval::new(PERIOD).unwrap_err().kind(), std::io::ErrorKind::NotConnected);
}
