//! Counts the clock readings, timer operations and allocations per message.
//!
//! The program `osjitter-counts` does it, because a counting allocator and a trapping instruction
//! would distort measurements. `osjitter bench timeout` starts it, writes a job to its stdin on
//! each line, and reads the counts from its stdout.

#[allow(unsafe_code, reason = "an allocator that counts")]
mod allocations;
#[allow(unsafe_code, reason = "a handler that steps over a trapped instruction")]
mod counter_reads;
mod tally;

use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use benchloops::timeouts::loops::{Job, Meter, Workload};
use benchloops::timeouts::operation_counts::OperationCounts;

use crate::bench::timeout::counts::counter_reads::TscTrap;
use crate::bench::timeout::counts::tally::TimerTally;
use crate::bench::timeout::workload_runtime::create_runtime;

pub use allocations::CountingAllocator;

/// Counts the operations of each job on stdin, and writes the counts to stdout.
///
/// # Errors
/// Returns an error if stdin is a terminal, or if a job is invalid or cannot be run.
pub fn main() -> io::Result<()> {
    if io::stdin().is_terminal() {
        return Err(io::Error::other(
            "this program is started by osjitter bench timeout, which writes jobs to its stdin",
        ));
    }
    age_process();
    for job in io::stdin().lines() {
        let counts = count(serde_json::from_str(&job?)?)?;
        let mut line = serde_json::to_vec(&counts)?;
        line.push(b'\n');
        io::stdout().write_all(&line)?;
    }
    Ok(())
}

/// Lets the process get older.
///
/// `tach` reads its anchors again whenever the age of the process has doubled. Such readings are
/// not caused by messages, so they should become rare before anything is counted.
#[allow(clippy::disallowed_methods, reason = "time has to pass")]
fn age_process() {
    let start = tach::Instant::now();
    let _ = start.elapsed();
    std::thread::sleep(Duration::from_millis(100));
    let _ = start.elapsed();
}

/// Runs a job and counts its operations.
fn count(job: Job) -> io::Result<OperationCounts> {
    const MESSAGES: u64 = 2_000;
    /// Maximum number of waits until timeouts expire, which need milliseconds each.
    const MAX_WAITS: u64 = 5;
    let messages = match job.workload {
        Workload::Fire(messages @ 1..) => MESSAGES.min(messages * MAX_WAITS),
        Workload::Expired(timers) => MESSAGES.min(timers as u64 * MAX_WAITS),
        _ => MESSAGES,
    };
    let is_single_threaded = job.workload.workers().is_none();
    // The threads of a runtime inherit the trap, so it is set before. With a single thread it is
    // set after the warm-up, because set-up is slow while every reading traps.
    let trap = if is_single_threaded { None } else { TscTrap::start() };
    let meter = CountMeter {
        messages,
        is_single_threaded,
        counts_reads: trap.is_some(),
        trap: None,
        start: None,
        counts: None,
    };
    let meter = job.run::<TimerTally, _>(&create_runtime(job.workload)?, meter);
    drop(trap);
    meter.counts.ok_or_else(|| io::Error::other("the loop ended early"))
}

/// Counts from the end of the warm-up to the end of the one batch after it.
struct CountMeter {
    messages: u64,
    is_single_threaded: bool,
    /// Whether the counter could be made to trap.
    counts_reads: bool,
    trap: Option<TscTrap>,
    start: Option<CounterValues>,
    counts: Option<OperationCounts>,
}

/// The values of all counters at one time.
#[derive(Clone, Copy)]
struct CounterValues {
    timers: (u64, u64),
    allocations: (u64, i64),
    reads: u64,
}

impl CounterValues {
    fn now() -> Self {
        Self {
            timers: TimerTally::counts(),
            allocations: allocations::counts(),
            reads: TscTrap::read_count(),
        }
    }
}

impl Meter for CountMeter {
    fn batches(&self) -> u64 {
        1
    }

    fn messages(&self) -> u64 {
        self.messages
    }

    fn record_batch(&mut self, _: u64, _: Duration) {
        let now = CounterValues::now();
        let Some(start) = self.start else {
            if self.is_single_threaded {
                self.trap = TscTrap::start();
                self.counts_reads = self.trap.is_some();
            }
            self.start = Some(CounterValues::now());
            return;
        };
        self.trap = None;
        self.counts = Some(OperationCounts {
            messages: self.messages,
            counter_reads: self.counts_reads.then_some(now.reads - start.reads),
            timers_made: now.timers.0 - start.timers.0,
            timer_registrations: now.timers.1 - start.timers.1,
            allocations: now.allocations.0 - start.allocations.0,
            bytes_kept: now.allocations.1 - start.allocations.1,
        });
    }

    fn record_timeout(&mut self, _: Option<i64>) {}
}

#[cfg(test)]
mod tests;
