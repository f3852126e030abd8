//! Timing of the loops.

use std::time::Duration;

use tokio::runtime::Runtime;

use super::loops::{Job, Meter};
use super::tally::Uncounted;
use crate::batches::{self, BatchPlan};

/// Runs a job and returns the counts per message of each batch, and the timeouts that fired.
pub fn run_timed(job: Job, runtime: &Runtime, plan: BatchPlan) -> (Vec<f64>, FiredTimeouts) {
    let meter = TimedMeter { meter: batches::Meter::new(plan), fired: FiredTimeouts::default() };
    let TimedMeter { meter, fired } = job.run::<Uncounted, _>(runtime, meter);
    (meter.costs(), fired)
}

/// The timeouts that fired in a round.
#[derive(Default)]
pub struct FiredTimeouts {
    pub fired: u64,
    /// Time from the deadline until the task ran, for the timeouts that were meant to fire.
    pub lateness_ns: Vec<i64>,
}

/// Meter of a timed round.
struct TimedMeter {
    meter: batches::Meter,
    fired: FiredTimeouts,
}

impl Meter for TimedMeter {
    fn batches(&self) -> u64 {
        self.meter.plan().batches
    }

    fn messages(&self) -> u64 {
        self.meter.plan().operations
    }

    fn record_batch(&mut self, messages: u64, excluded: Duration) {
        if self.meter.is_warming_up() {
            self.fired = FiredTimeouts::default();
        }
        self.meter.record_operations(messages, excluded);
    }

    fn record_timeout(&mut self, late_ns: Option<i64>) {
        self.fired.fired += 1;
        self.fired.lateness_ns.extend(late_ns);
    }
}
