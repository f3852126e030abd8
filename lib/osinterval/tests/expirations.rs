//! `Expirations` as the number of periods that a tick of `PeriodicInterval` reports.
#![cfg(feature = "periodic")]

use std::time::Duration;

use osinterval::Expirations;
use tokio::time::Instant;

const PERIOD: Duration = Duration::from_millis(1);

fn new_expirations(count: u64) -> Expirations {
    let first = Instant::now();
    Expirations { count, first, last: first + PERIOD * (count as u32 - 1) }
}

#[test]
fn expirations_equal_their_count() {
    let n = new_expirations(3);
    assert_eq!(n, 3);
    assert_ne!(n, 2_u64);
    assert_eq!(u64::from(n), 3);
    assert_eq!(format!("{n} {n:>3} {n:03}"), "3   3 003");
}
