//! Checks the traits that the documentation of each type states, when it is compiled.
#![cfg(all(feature = "interval", feature = "periodic"))]

use std::future::Ready;

use osinterval::{
    Elapsed, Expirations, GroupBuilder, GroupInterval, IntervalBuilder, IntervalGroup, OsInterval,
    PeriodicInterval, Sleep, Timeout,
};

const fn check_send_sync_unpin<T: Send + Sync + Unpin>() {}

const fn check_send<T: Send>(_: &T) {}

#[test]
fn handles_are_send_sync_unpin() {
    check_send_sync_unpin::<IntervalBuilder>();
    check_send_sync_unpin::<OsInterval>();
    check_send_sync_unpin::<GroupBuilder>();
    check_send_sync_unpin::<IntervalGroup>();
    check_send_sync_unpin::<GroupInterval>();
    check_send_sync_unpin::<PeriodicInterval>();
    check_send_sync_unpin::<Expirations>();
    check_send_sync_unpin::<Sleep>();
    check_send_sync_unpin::<Timeout<Ready<()>>>();
    check_send_sync_unpin::<Elapsed>();
}

#[test]
#[cfg(feature = "blocking")]
fn blocking_types_are_send_sync_unpin() {
    use osinterval::blocking::{Handle, Interrupted, Interval, IntervalBuilder};

    check_send_sync_unpin::<IntervalBuilder>();
    check_send_sync_unpin::<Interval>();
    check_send_sync_unpin::<Handle>();
    check_send_sync_unpin::<Interrupted>();
}

#[tokio::test]
async fn futures_of_ticks_are_send() {
    let period = std::time::Duration::from_millis(1);
    let group = IntervalGroup::new().unwrap();
    check_send(&osinterval::interval(period).tick());
    check_send(&group.interval(period).tick());
    check_send(&PeriodicInterval::new(period).unwrap().tick());
}
