//! Checks the most important guarantees on platforms where the test suite cannot run. It panics if
//! a clock violates one. `scripts/ci/node.sh` runs it in Node.

use std::time::Duration;

use tach::{Anchor, Instant, MonotonicInstant, OrderedInstant};

fn main() {
    let info = tach::info();
    assert_eq!(info.source == tach::Source::OsClock, info.why_not_counter.is_some());
    let (start, first) = (Instant::now(), Anchor::take());
    let (mut last, mut highest) = (Duration::ZERO, MonotonicInstant::now());
    while last < Duration::from_millis(50) {
        let (elapsed, now) = (start.elapsed(), MonotonicInstant::now());
        assert!(elapsed >= last && now >= highest, "{last:?} {elapsed:?} {highest:?} {now:?}");
        (last, highest) = (elapsed, now);
    }
    let passed = Anchor::take().os_instant() - first.os_instant();
    // The anchors are at most one iteration of the loop before and after.
    assert!(
        passed + Duration::from_millis(5) >= last,
        "{passed:?} by the OS clock, {last:?} by tach"
    );
    let later = start + Duration::from_secs(1);
    assert_eq!((later.elapsed(), later - start), (Duration::ZERO, Duration::from_secs(1)));
    assert!(OrderedInstant::from_std(first.os_instant()) <= OrderedInstant::now_fenced());
}
