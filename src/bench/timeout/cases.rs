//! What is measured: workloads with a length of the timeout, and in each the control loop and the
//! variants.

use std::io;
use std::time::Duration;

use benchloops::batches::BatchPlan;
use benchloops::timeouts::loops::{Job, Workload};
use benchloops::timeouts::operation_counts::OperationCounts;
use benchloops::timeouts::timing::{FiredTimeouts, run_timed};
use benchloops::timeouts::variant::{Clock, Variant};
use clap::ValueEnum;
use cli::exit::{self, Error};
use cli::units;

use crate::bench::command::name;
use crate::bench::harness::{self, Settings};

/// Batches of a round: enough for percentiles over batches, few enough that a stamp between them is
/// nothing.
pub const BATCHES: u64 = 10;
pub const LENGTHS: std::ops::RangeInclusive<Duration> =
    Duration::from_micros(10)..=Duration::from_secs(10);
pub const MAX_TIMERS: u64 = 100_000;
/// So many expire at once, unless asked otherwise.
const EXPIRED_TIMERS: u64 = 10_000;
/// Tokio's wheel turns once in this time.
const WHEEL: Duration = Duration::from_millis(1);

/// The workloads, by their names on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// a channel between two tasks, on as many workers as there are CPUs
    ChannelMultiThread,
    /// the same on one thread
    ChannelCurrentThread,
    /// what a message makes the timeout do, and nothing else
    Rearm,
    /// every message is there at the first poll
    Ready,
    /// no message is there at the first poll, every one at the second
    Pending,
    /// the same with a message future of 16 KiB, moved into the wait
    Moved,
    /// many timeouts at once, each armed and polled in turn (--timers)
    Timers,
    /// the same, with each timeout past its length when the next message comes
    Expired,
    /// a share of the messages never comes (--fire)
    Fire,
}

/// A workload with a length of the timeout.
pub type Cell = (Workload, Duration);

/// The cells of these workloads, in the lengths asked for or in those where it matters.
pub fn cells(kinds: Vec<Kind>, lengths: &[Duration], timers: &[u64], fires: &[u64]) -> Vec<Cell> {
    let (shortest, longest) = (*LENGTHS.start(), *LENGTHS.end());
    let expired = if timers.is_empty() { &[EXPIRED_TIMERS] } else { timers };
    let timers = if timers.is_empty() { &[1, 1_000, MAX_TIMERS] } else { timers };
    let fires = if fires.is_empty() { &[100, 1] } else { fires };
    let mut cells = Vec::new();
    for kind in kinds {
        let (workloads, default): (Vec<Workload>, &[Duration]) = match kind {
            Kind::ChannelMultiThread => (vec![Workload::ChannelMultiThread], &[longest]),
            Kind::ChannelCurrentThread => (vec![Workload::ChannelCurrentThread], &[longest]),
            Kind::Rearm => (vec![Workload::Rearm], &[longest]),
            Kind::Ready => (vec![Workload::Ready], &[longest]),
            Kind::Pending => (vec![Workload::Pending], &[longest, WHEEL, shortest]),
            Kind::Moved => (vec![Workload::Moved], &[longest]),
            Kind::Timers => {
                (timers.iter().map(|&n| Workload::Timers(n as usize)).collect(), &[longest])
            }
            Kind::Expired => {
                (expired.iter().map(|&n| Workload::Expired(n as usize)).collect(), &[WHEEL])
            }
            Kind::Fire => (fires.iter().map(|&every| Workload::Fire(every)).collect(), &[WHEEL]),
        };
        for workload in workloads {
            for &length in if lengths.is_empty() { default } else { lengths } {
                if !cells.contains(&(workload, length)) {
                    cells.push((workload, length));
                }
            }
        }
    }
    cells
}

/// Reads a share of messages in per cent, as one in so many; 0 for none.
pub fn share(text: &str) -> Result<u64, String> {
    const MAX_MESSAGES: f64 = 10_000.0;
    let percent =
        text.trim().trim_end_matches('%').trim().parse().ok().filter(|p| (0.0..=100.0).contains(p));
    match percent.map(|p: f64| 100.0 / p) {
        Some(f64::INFINITY) => Ok(0),
        Some(every) if every <= MAX_MESSAGES => Ok(every.round() as u64),
        _ => Err(format!("no share {text:?}; use 0 or from 0.01% to 100%")),
    }
}

/// The control loop, and every variant with every clock it can have. What was asked for by both
/// names must be possible.
pub fn combinations(
    variants: Vec<Variant>,
    clocks: &[Clock],
    are_both_named: bool,
) -> exit::Result<Vec<(Variant, Clock)>> {
    let mut combinations = vec![(Variant::Control, Clock::Tokio)];
    let mut refused = Vec::new();
    for variant in variants.into_iter().filter(|v| *v != Variant::Control) {
        for &clock in clocks {
            match variant.rejection_reason(clock) {
                None => combinations.push((variant, clock)),
                Some(reason) => {
                    refused.push(format!(
                        "{} cannot take the clock {}: {reason}",
                        name(&variant),
                        name(&clock)
                    ));
                }
            }
        }
    }
    let is_nothing_left = combinations.len() == 1 && !refused.is_empty();
    if !refused.is_empty() && (are_both_named || is_nothing_left) {
        return Err(Error::usage(refused.join("; ")));
    }
    Ok(combinations)
}

/// A variant in a workload, and what it asks for.
pub struct Case {
    pub job: Job,
    pub counted: Result<OperationCounts, String>,
}

impl Case {
    pub fn new(job: Job) -> Self {
        Self { job, counted: Err("it was interrupted".to_owned()) }
    }
}

/// Unique within a report.
pub fn id(job: &Job) -> String {
    format!("{}@{}", job.workload, units::format_exact_duration(job.length))
}

impl harness::Case for Case {
    type Extra = FiredTimeouts;

    fn label(&self) -> String {
        format!("{} {}", id(&self.job), name(&self.job.variant))
    }

    fn expected(&self, settings: &Settings) -> Duration {
        const SET_UP: Duration = Duration::from_millis(1);
        const TIMER_SET_UP: Duration = Duration::from_nanos(500);
        let once = settings.with_warm_up() + SET_UP;
        match self.job.workload {
            Workload::Timers(n) => once + TIMER_SET_UP * u32::try_from(n).unwrap_or(u32::MAX),
            // What expires is taken out of the wheel, at about the cost of putting it in.
            Workload::Expired(n) => {
                let wheel = TIMER_SET_UP * u32::try_from(n).unwrap_or(u32::MAX);
                let times =
                    (BATCHES as u32 + 1).div_ceil(u32::try_from(n).unwrap_or(u32::MAX).max(1));
                SET_UP + wheel + (self.job.length + WHEEL * 3 + wheel * 2) * times
            }
            // One in each batch, at least, and it takes until the wheel turns.
            Workload::Fire(1..) => once.max((self.job.length + WHEEL) * (BATCHES as u32 + 1)),
            _ => once,
        }
    }

    fn load(&self, settings: &Settings) -> Option<BatchPlan> {
        match self.job.workload {
            // One that fires is a batch.
            Workload::Fire(every @ 1..) => {
                Some(BatchPlan { batches: settings.batches, operations: every, counts: 0 })
            }
            // All batches, the first one included, are one turn of the timeouts: each wait for them
            // to expire takes long.
            Workload::Expired(n) => {
                let operations = (n as u64 / (settings.batches + 1)).max(1);
                Some(BatchPlan { batches: settings.batches, operations, counts: 0 })
            }
            _ => None,
        }
    }

    fn run(&self, load: BatchPlan) -> io::Result<(Vec<f64>, FiredTimeouts)> {
        run_timed(self.job, load)
    }
}
