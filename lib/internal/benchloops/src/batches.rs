//! A stamp after each batch of operations, and what one reading of a clock costs.

use std::hint::black_box;
use std::time::Duration;

use tach::ordered_count;

/// How much of an operation is run: a batch to warm up, then the others.
#[derive(Clone, Copy, Debug)]
pub struct BatchPlan {
    pub batches: u64,
    /// In each batch.
    pub operations: u64,
    /// Length of a batch, where it is not made of so many operations.
    pub counts: u64,
}

/// Counts in a time: good enough to know how many operations take a while.
pub fn duration_to_counts(time: Duration) -> u64 {
    if time.is_zero() { 0 } else { (time.as_secs_f64() * tach::info().rate_hz.max(1.0)) as u64 }
}

/// Stamps after each batch; the first one warms up.
pub struct Meter {
    load: BatchPlan,
    last: Option<u64>,
    costs: Vec<f64>,
}

impl Meter {
    pub fn new(load: BatchPlan) -> Self {
        Self { load, last: None, costs: Vec::with_capacity(load.batches as usize) }
    }

    /// A batch is over. True once all are.
    #[inline]
    pub fn batch(&mut self) -> bool {
        self.record_operations(self.load.operations, Duration::ZERO);
        self.costs.len() as u64 == self.load.batches
    }

    /// The same, where so many operations took all but the time `apart`.
    #[inline]
    pub fn record_operations(&mut self, operations: u64, apart: Duration) {
        let now = ordered_count();
        if let Some(last) = self.last.filter(|_| operations > 0) {
            let took = now.saturating_sub(last).saturating_sub(duration_to_counts(apart));
            self.costs.push(took as f64 / operations as f64);
        }
        self.last = Some(ordered_count());
    }

    #[inline]
    pub fn load(&self) -> BatchPlan {
        self.load
    }

    #[inline]
    pub fn is_warming_up(&self) -> bool {
        self.last.is_none()
    }

    /// Counts of an operation, of each batch.
    pub fn costs(self) -> Vec<f64> {
        self.costs
    }
}

/// Nanoseconds of one reading, from so many of them.
#[allow(clippy::disallowed_methods, reason = "clocks are what is measured")]
pub fn mean_read_ns<T>(reads: u64, mut read: impl FnMut() -> T) -> f64 {
    let start = std::time::Instant::now();
    for _ in 0..reads {
        black_box(read());
    }
    start.elapsed().as_nanos() as f64 / reads as f64
}

/// Cost of one reading of a clock, the least of several goes: one that was interrupted is longer,
/// never shorter.
pub fn measure_read_ns<T>(mut read: impl FnMut() -> T) -> f64 {
    (0..20).map(|_| mean_read_ns(5_000, &mut read)).fold(f64::INFINITY, f64::min)
}
