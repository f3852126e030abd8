//! The loops, timed.

use std::io;
use std::time::Duration;

use super::loops::{Job, Meter};
use super::tally::Uncounted;
use crate::batches::{self, BatchPlan};

/// Counts that a message took, of each batch, and what fired.
///
/// # Errors
/// There is no runtime to be had.
pub fn run_timed(job: Job, load: BatchPlan) -> io::Result<(Vec<f64>, FiredTimeouts)> {
    let meter = TimedMeter { meter: batches::Meter::new(load), fired: FiredTimeouts::default() };
    let TimedMeter { meter, fired } = job.run::<Uncounted, _>(meter)?;
    Ok((meter.costs(), fired))
}

/// The timeouts that fired in a round.
#[derive(Default)]
pub struct FiredTimeouts {
    pub fired: u64,
    /// Of those that were meant to: from when they were due until the task ran.
    pub lateness_ns: Vec<i64>,
}

struct TimedMeter {
    meter: batches::Meter,
    fired: FiredTimeouts,
}

impl Meter for TimedMeter {
    fn batches(&self) -> u64 {
        self.meter.load().batches
    }

    fn messages(&self) -> u64 {
        self.meter.load().operations
    }

    fn record_batch(&mut self, came: u64, apart: Duration) {
        if self.meter.is_warming_up() {
            self.fired = FiredTimeouts::default();
        }
        self.meter.record_operations(came, apart);
    }

    fn record_timeout(&mut self, late_ns: Option<i64>) {
        self.fired.fired += 1;
        self.fired.lateness_ns.extend(late_ns);
    }
}
