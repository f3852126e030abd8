//! Time stamps after batches of operations, and the cost of reading a clock.

use std::hint::black_box;
use std::time::Duration;

use tach::ordered_count;

/// Amount of work of a round: one batch to warm up, then `batches` measured ones.
#[derive(Clone, Copy, Debug)]
pub struct BatchPlan {
    pub batches: u64,
    /// Operations per batch.
    pub operations: u64,
    /// Length of a batch in counts of the clock, for cases that are limited by time.
    pub counts: u64,
}

/// Converts a duration to counts of the clock, approximately.
pub fn duration_to_counts(time: Duration) -> u64 {
    if time.is_zero() { 0 } else { (time.as_secs_f64() * tach::info().rate_hz.max(1.0)) as u64 }
}

/// Stopwatch that is read after each batch. The first batch warms up.
pub struct Meter {
    plan: BatchPlan,
    last: Option<u64>,
    costs: Vec<f64>,
}

impl Meter {
    pub fn new(plan: BatchPlan) -> Self {
        Self { plan, last: None, costs: Vec::with_capacity(plan.batches as usize) }
    }

    /// Records the end of a batch. Returns true after the last one.
    #[inline]
    pub fn finish_batch(&mut self) -> bool {
        self.record_operations(self.plan.operations, Duration::ZERO);
        self.costs.len() as u64 == self.plan.batches
    }

    /// Records the end of a batch of `operations`, without the time `excluded`.
    #[inline]
    pub fn record_operations(&mut self, operations: u64, excluded: Duration) {
        let now = ordered_count();
        if let Some(last) = self.last.filter(|_| operations > 0) {
            let took = now.saturating_sub(last).saturating_sub(duration_to_counts(excluded));
            self.costs.push(took as f64 / operations as f64);
        }
        self.last = Some(ordered_count());
    }

    #[inline]
    pub fn plan(&self) -> BatchPlan {
        self.plan
    }

    #[inline]
    pub fn is_warming_up(&self) -> bool {
        self.last.is_none()
    }

    /// Returns the counts per operation of each measured batch.
    pub fn costs(self) -> Vec<f64> {
        self.costs
    }
}

/// Returns the mean nanoseconds of one reading over `reads` readings.
#[allow(clippy::disallowed_methods, reason = "the clocks are measured here")]
pub fn mean_read_ns<T>(reads: u64, mut read: impl FnMut() -> T) -> f64 {
    let start = std::time::Instant::now();
    for _ in 0..reads {
        black_box(read());
    }
    start.elapsed().as_nanos() as f64 / reads as f64
}

/// Measures the cost of one reading of a clock.
///
/// The result is the minimum of several attempts, since an interruption only lengthens one.
pub fn measure_read_ns<T>(mut read: impl FnMut() -> T) -> f64 {
    const ATTEMPTS: u64 = 20;
    const READS: u64 = 5_000;
    (0..ATTEMPTS).map(|_| mean_read_ns(READS, &mut read)).fold(f64::INFINITY, f64::min)
}
