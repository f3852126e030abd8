//! What the observer costs: the part of the loop that is not its subject's.

use std::hint::black_box;
use std::time::Duration;

use jitterstat::recorder::{RawSample, Recorder};

/// Wake-ups of a batch, and batches: a millisecond in all.
const BATCH: u64 = 1_000;
const BATCHES: usize = 31;

/// What stamping a wake-up and keeping it takes on this thread: the median of batches, so that one
/// that was preempted counts for nothing.
pub fn observer_ns_per_tick() -> u64 {
    let mut recorder = Recorder::with_capacity(BATCH as usize);
    let mut batch = || {
        recorder.clear();
        let before = tach::Instant::now();
        for tick in 0..BATCH {
            let wake_count = tach::ordered_count();
            recorder.push(RawSample {
                tick: black_box(tick),
                expirations: 1,
                wake_count,
                unpark_count: black_box(None),
            });
        }
        before.elapsed()
    };
    let mut took: Vec<Duration> = (0..BATCHES).map(|_| batch()).collect();
    took.sort_unstable();
    let median = u64::try_from(took[BATCHES / 2].as_nanos()).unwrap_or(u64::MAX);
    (median + BATCH / 2) / BATCH
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_tick_costs_the_observer_something() {
        assert!((1..1_000_000).contains(&super::observer_ns_per_tick()));
    }
}
