//! The loops, timed.

use std::io;
use std::time::Duration;

use super::loops::{Job, Meter};
use super::tally::Uncounted;
use crate::batches::{self, Load};

/// Counts that a message took, of each batch, and what fired.
///
/// # Errors
/// There is no runtime to be had.
pub fn timed(job: Job, load: Load) -> io::Result<(Vec<f64>, Fired)> {
    let meter = Timed { meter: batches::Meter::new(load), fired: Fired::default() };
    let Timed { meter, fired } = job.run::<Uncounted, _>(meter)?;
    Ok((meter.costs(), fired))
}

/// The timeouts that fired in a round.
#[derive(Default)]
pub struct Fired {
    pub fired: u64,
    /// Of those that were meant to: from when they were due until the task ran.
    pub lateness_ns: Vec<i64>,
}

struct Timed {
    meter: batches::Meter,
    fired: Fired,
}

impl Meter for Timed {
    fn batches(&self) -> u64 {
        self.meter.load().batches
    }

    fn messages(&self) -> u64 {
        self.meter.load().operations
    }

    fn batch(&mut self, came: u64, apart: Duration) {
        if self.meter.is_warming_up() {
            self.fired = Fired::default();
        }
        self.meter.batch_of(came, apart);
    }

    fn fired(&mut self, late_ns: Option<i64>) {
        self.fired.fired += 1;
        self.fired.lateness_ns.extend(late_ns);
    }
}
