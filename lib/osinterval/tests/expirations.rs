//! Programs that were written for tokio-osinterval, where a tick is a number of expirations.
#![cfg(feature = "periodic")]

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use osinterval::{Expirations, PeriodicInterval};
use tokio::time::Instant;

const PERIOD: Duration = Duration::from_millis(1);

fn new_expirations(count: u64) -> Expirations {
    let first = Instant::now();
    Expirations { count, first, last: first + PERIOD * (count as u32 - 1) }
}

#[tokio::test]
async fn old_loop_still_compiles() {
    let mut interval = PeriodicInterval::new(PERIOD).unwrap();
    let (mut total, mut missed) = (0, 0_u64);
    while total < 20 {
        let expirations: Expirations = interval.tick().await.unwrap();
        assert!(expirations >= 1, "{expirations}");
        if expirations > 1 {
            missed += expirations - 1;
        }
        total += expirations;
    }
    assert!(missed < total);
    match *interval.tick().await.unwrap() {
        0 => unreachable!("at least one"),
        count => assert!(count >= 1),
    }
}

#[test]
fn expirations_compare_as_numbers() {
    let n = new_expirations(3);
    assert_eq!(n, 3);
    assert_ne!(n, 2_u64);
    assert!(n > 2);
    assert!(n < 4);
    assert_eq!(n.partial_cmp(&3), Some(std::cmp::Ordering::Equal));
    assert_eq!(n.max(5), 5);
    assert!(!n.is_power_of_two());
}

#[test]
fn expirations_calculate_as_numbers() {
    let n = new_expirations(3);
    assert_eq!([n + 1, n - 1, n * 2, n / 2, n % 2], [4, 2, 6, 1, 1]);
    assert_eq!([10 + n, 10 - n, 10 * n, 10 / n, 10 % n], [13, 7, 30, 3, 1]);
    assert_eq!((n.saturating_sub(4), n.checked_add(u64::MAX)), (0, None));
    let mut total = 4_u64;
    total += n;
    total -= n;
    assert_eq!(total, 4);
    assert_eq!([n, new_expirations(2)].into_iter().sum::<u64>(), 5);
    let shared = AtomicU64::new(0);
    shared.fetch_add(n.into(), Ordering::Relaxed);
    assert_eq!((0..*n).count(), 3);
}

#[test]
fn expirations_convert_as_numbers() {
    let n = new_expirations(3);
    assert_eq!((u64::from(n), u128::from(n)), (3, 3));
    assert_eq!((u32::try_from(n), usize::try_from(n)), (Ok(3), Ok(3)));
    assert!(i32::try_from(new_expirations(1 << 33 | 1)).is_err());
    assert_eq!(format!("{n} {n:>3} {n:03}"), "3   3 003");
}
