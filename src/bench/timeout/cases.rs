//! The cases of the bench: in each workload with a length of the timeout, the control loop and the
//! variants.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
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
use crate::bench::timeout::counts_program::CountsError;
use crate::bench::timeout::workload_runtime::create_runtime;

/// Batches of a round: enough for percentiles over batches, and few enough that the timestamps
/// between them cost almost nothing.
pub const BATCHES: u64 = 10;
pub const LENGTHS: std::ops::RangeInclusive<Duration> =
    Duration::from_micros(10)..=Duration::from_secs(10);
pub const MAX_TIMERS: u64 = 100_000;
/// Default number of timeouts in the workload `expired`.
const EXPIRED_TIMERS: u64 = 10_000;
/// Tick of tokio's timer wheel.
const WHEEL_TICK: Duration = Duration::from_millis(1);

/// The workloads, by their names on the command line. Other flags have the parameters with which a
/// kind becomes one [`Workload`] or several.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum WorkloadKind {
    /// a channel between two tasks, on as many workers as there are CPUs
    ChannelMultiThread,
    /// a channel between two tasks on one thread
    ChannelCurrentThread,
    /// only the operations on the timeout that a message causes
    Rearm,
    /// every message is available at the first poll
    Ready,
    /// every message is available at the second poll only
    Pending,
    /// like pending, with a message future of 16 KiB that is moved into the wait
    Moved,
    /// many concurrent timeouts, each armed and polled in turn (--timers)
    Timers,
    /// like timers, with each timeout past its length when the next message comes
    Expired,
    /// a share of the messages never comes (--fire)
    Fire,
}

/// A workload with a length of the timeout.
pub type TimedWorkload = (Workload, Duration);

/// The values of the flags that parametrize workloads; an empty slice selects the defaults.
#[derive(Clone, Copy)]
pub struct WorkloadArgs<'a> {
    pub lengths: &'a [Duration],
    pub timers: &'a [u64],
    pub fires: &'a [u64],
}

impl WorkloadArgs<'_> {
    /// Returns the workloads of a kind, and their default lengths: those for which the costs
    /// differ.
    fn workloads(self, kind: WorkloadKind) -> (Vec<Workload>, &'static [Duration]) {
        const MAX: &[Duration] = &[*LENGTHS.end()];
        const PENDING: &[Duration] = &[*LENGTHS.end(), WHEEL_TICK, *LENGTHS.start()];
        let or_default = |values: &[u64], default: &[u64]| {
            if values.is_empty() { default } else { values }.to_vec()
        };
        match kind {
            WorkloadKind::ChannelMultiThread => (vec![Workload::ChannelMultiThread], MAX),
            WorkloadKind::ChannelCurrentThread => (vec![Workload::ChannelCurrentThread], MAX),
            WorkloadKind::Rearm => (vec![Workload::Rearm], MAX),
            WorkloadKind::Ready => (vec![Workload::Ready], MAX),
            WorkloadKind::Pending => (vec![Workload::Pending], PENDING),
            WorkloadKind::Moved => (vec![Workload::Moved], MAX),
            WorkloadKind::Timers => {
                let timers = or_default(self.timers, &[1, 1_000, MAX_TIMERS]).into_iter();
                (timers.map(|n| Workload::Timers(n as usize)).collect(), MAX)
            }
            WorkloadKind::Expired => {
                let timers = or_default(self.timers, &[EXPIRED_TIMERS]).into_iter();
                (timers.map(|n| Workload::Expired(n as usize)).collect(), &[WHEEL_TICK])
            }
            WorkloadKind::Fire => {
                let fires = or_default(self.fires, &[100, 1]).into_iter();
                (fires.map(Workload::Fire).collect(), &[WHEEL_TICK])
            }
        }
    }
}

/// Returns the workloads of the kinds without duplicates, each with the selected lengths or the
/// default ones.
pub fn timed_workloads(kinds: Vec<WorkloadKind>, args: WorkloadArgs<'_>) -> Vec<TimedWorkload> {
    let mut selected = Vec::new();
    for kind in kinds {
        let (workloads, default_lengths) = args.workloads(kind);
        for workload in workloads {
            for &length in if args.lengths.is_empty() { default_lengths } else { args.lengths } {
                if !selected.contains(&(workload, length)) {
                    selected.push((workload, length));
                }
            }
        }
    }
    selected
}

/// Parses a percentage of messages. Returns `n` if one in `n` messages is meant, and 0 for none.
///
/// # Errors
/// Returns an error if the share is not that of one in a whole number of messages.
pub fn parse_share(text: &str) -> Result<u64, ShareError> {
    let invalid = || ShareError::Invalid { text: text.to_owned() };
    let number = text.trim().trim_end_matches('%').trim();
    let percent: f64 = number.parse().map_err(|_| invalid())?;
    if percent == 0.0 {
        return Ok(0);
    }
    if !(0.01..=100.0).contains(&percent) {
        return Err(invalid());
    }
    // Percentages are rounded: 33% is one in 3, and 17% one in 6.
    let decimals = number.split_once('.').map_or(0, |(_, decimals)| decimals.len().min(9));
    let is_meant =
        |messages: f64| format!("{:.decimals$}", 100.0 / messages).parse() == Ok(percent);
    let every = 100.0 / percent;
    let [fewer, more] = [every.floor(), every.ceil()];
    match [every.round(), fewer, more].into_iter().find(|&messages| is_meant(messages)) {
        Some(messages) => Ok(messages as u64),
        None => {
            let (lower, higher) = (100.0 / more, 100.0 / fewer);
            Err(ShareError::BetweenShares { text: text.to_owned(), lower, higher })
        }
    }
}

/// A text that is not a share of messages.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ShareError {
    #[error("invalid share {text:?}: expected 0, or 0.01% to 100%")]
    Invalid { text: String },
    #[error(
        "invalid share {text:?}: expected that of one in a whole number of messages; the nearest are \
         {lower:.3}% and {higher:.3}%"
    )]
    BetweenShares { text: String, lower: f64, higher: f64 },
}

/// Returns the control loop, and every variant with every clock that it supports.
///
/// # Errors
///
/// Returns an error if variants and clocks were both named and one combination is not possible, or
/// if no combination is left.
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
    let has_variant = combinations.len() > 1;
    if !refused.is_empty() && (are_both_named || !has_variant) {
        return Err(Error::usage(refused.join("; ")));
    }
    Ok(combinations)
}

/// A variant in a workload, with its counted operations.
pub struct Case {
    pub job: Job,
    /// The operations of the variant, or the reason for which they were not counted.
    pub counts: Result<OperationCounts, CountsError>,
}

impl Case {
    pub fn new(job: Job) -> Self {
        Self { job, counts: Err(CountsError::Interrupted) }
    }
}

/// Returns an id that is unique within a report.
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
        let once = settings.case_duration() + SET_UP;
        match self.job.workload {
            Workload::Timers(n) => once + TIMER_SET_UP * u32::try_from(n).unwrap_or(u32::MAX),
            // Removing an expired timer from the wheel costs about as much as inserting it.
            Workload::Expired(n) => {
                let wheel = TIMER_SET_UP * u32::try_from(n).unwrap_or(u32::MAX);
                let times =
                    (BATCHES as u32 + 1).div_ceil(u32::try_from(n).unwrap_or(u32::MAX).max(1));
                SET_UP + wheel + (self.job.length + WHEEL_TICK * 3 + wheel * 2) * times
            }
            // At least one timeout fires per batch, at a tick of the wheel.
            Workload::Fire(1..) => once.max((self.job.length + WHEEL_TICK) * (BATCHES as u32 + 1)),
            _ => once,
        }
    }

    fn fixed_batch_plan(&self, settings: &Settings) -> Option<BatchPlan> {
        match self.job.workload {
            // One timeout fires per batch.
            Workload::Fire(every @ 1..) => {
                Some(BatchPlan { batches: settings.batches, operations: every, counts: 0 })
            }
            // Waiting until the timeouts expire takes long, so all batches together, the warm-up
            // included, use each timeout once.
            Workload::Expired(n) => {
                let operations = (n as u64 / (settings.batches + 1)).max(1);
                Some(BatchPlan { batches: settings.batches, operations, counts: 0 })
            }
            _ => None,
        }
    }

    fn run(&self, plan: BatchPlan, _: &Arc<AtomicBool>) -> io::Result<(Vec<f64>, FiredTimeouts)> {
        Ok(run_timed(self.job, &create_runtime(self.job.workload)?, plan))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_one_in_n() {
        for (text, every) in [
            ("0", 0),
            ("100%", 1),
            ("33%", 3),
            ("17%", 6),
            ("14.3%", 7),
            ("12.5%", 8),
            ("0.01%", 10_000),
        ] {
            assert_eq!(parse_share(text), Ok(every), "{text}");
        }
        let error = |text| parse_share(text).unwrap_err().to_string();
        assert!(error("70%").ends_with("the nearest are 50.000% and 100.000%"), "{}", error("70%"));
        assert!(error("40%").ends_with("33.333% and 50.000%"), "{}", error("40%"));
        assert!(error("0.001%").ends_with("expected 0, or 0.01% to 100%"));
    }
}
