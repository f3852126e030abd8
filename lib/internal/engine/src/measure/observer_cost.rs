//! Cost of the observer: the part of the loop that does not belong to the subject.

use std::hint::black_box;
use std::time::Duration;

use jitterstat::recorder::{RawSample, Recorder};

use cli::units::to_ns;

/// Wake-ups per batch.
const BATCH: u64 = 1_000;
/// Number of batches, which take about a millisecond.
const BATCHES: usize = 31;

/// Measures the cost of stamping and recording a wake-up on this thread.
///
/// The result is the median of several batches, so that a preempted batch has no effect.
pub fn observer_ns_per_tick() -> u64 {
    let mut recorder = Recorder::with_capacity(BATCH as usize);
    let mut took = [Duration::ZERO; BATCHES];
    for took in &mut took {
        *took = record_batch(&mut recorder);
    }
    took.sort_unstable();
    let median = to_ns(took[BATCHES / 2]);
    (median + BATCH / 2) / BATCH
}

/// Stamps and records a batch of wake-ups, and returns the time that this took.
fn record_batch(recorder: &mut Recorder) -> Duration {
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
}

#[cfg(test)]
mod tests {
    #[test]
    fn observer_cost_is_plausible() {
        assert!((1..1_000_000).contains(&super::observer_ns_per_tick()));
    }
}
