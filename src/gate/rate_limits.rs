//! Limits on the rate of missed ticks, such as `missed<1e-4`: the check of a plan, and the
//! comparison with a measured rate.

use std::time::Duration;

use cli::exit::{self, usage};
use cli::time::{format_duration, format_rate};
use cli::units::{format_exact_duration, format_rounded_duration, to_ns};
use cli::words::pluralize;
use engine::scenario::{RoundLength, Scenario};
use files::gate::limit::rate::{
    self, BREAK_CONFIDENCE, MeasuredRate, PASS_CONFIDENCE, RateSource, burst_ticks,
};
use files::gate::verdict::{LimitCheck, RateBounds};
use jitterstat::gate::decision::{Outcome, Reason};
use jitterstat::stats::miss_rate::MissRate;

use crate::gate::args::Limit;
use crate::gate::running_gate::RunningGate;
use crate::gate::text::format_confidence;

/// A stall that is longer than most, with which an error shows how many ticks suffice.
const EXAMPLE_STALL: Duration = Duration::from_millis(10);

/// The ticks that show, without a miss, that a rate is below a limit.
struct NeededTicks {
    ticks: u64,
    duration: Duration,
}

/// Checks, before anything is measured, that the ticks of a scenario could keep a limit.
///
/// # Errors
/// Returns an error with the number of ticks that could.
pub fn check_planned(
    limit: &Limit,
    scenario: &Scenario,
    max_stall: Option<Duration>,
    round_ticks: Option<u64>,
) -> exit::Result<()> {
    let burst =
        |stall: Duration| burst_ticks(to_ns(stall), scenario.period_ns(), scenario.instances);
    let (share, max_burst) = (limit.max / 100.0, max_stall.map(burst));
    let rounds = rate::least_rounds(share, scenario.round_ticks, max_burst, PASS_CONFIDENCE);
    if scenario.ticks / scenario.round_ticks.max(1) >= rounds {
        return Ok(());
    }
    let length = RoundLength::new(scenario.period, round_ticks, Some(scenario.warmup_ticks))?;
    let needed = NeededTicks::new(share, scenario, length, max_burst);
    let mut hint = String::new();
    if max_stall.is_none() {
        let fewer = NeededTicks::new(share, scenario, length, Some(burst(EXAMPLE_STALL)));
        if fewer.ticks < needed.ticks {
            let stall = format_exact_duration(EXAMPLE_STALL);
            hint = format!("; if no stall is longer than {stall}, --max-stall {stall} {fewer}");
        }
    }
    Err(usage!(
        "--ticks {} is too small to show a rate of misses below {}: even without a miss, {} % confidence needs more; give \
         {needed}{hint}; nothing was measured",
        scenario.ticks,
        format_rate(share),
        format_confidence(PASS_CONFIDENCE)
    ))
}

impl NeededTicks {
    fn new(share: f64, scenario: &Scenario, length: RoundLength, max_burst: Option<u64>) -> Self {
        let rounds = rate::least_rounds(share, length.ticks, max_burst, PASS_CONFIDENCE);
        let ticks = rounds.saturating_mul(length.ticks);
        let planned = Scenario { ticks, round_ticks: length.ticks, ..scenario.clone() };
        Self { ticks, duration: planned.expected_duration() }
    }
}

impl std::fmt::Display for NeededTicks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let duration = format_duration(self.duration.as_secs_f64());
        write!(f, "--ticks {} ({duration})", self.ticks)
    }
}

/// Warns of the assumptions behind the bounds of a rate.
pub fn warn_of_assumptions(
    rate: &MeasuredRate,
    max_stall: Option<Duration>,
    gate: &mut RunningGate,
) {
    if let (Some(requested), Some(ns)) = (max_stall, rate.max_stall_ns())
        && ns > to_ns(requested)
    {
        let late = format_rounded_duration(Duration::from_nanos(ns));
        gate.warn(
            "later-than-max-stall",
            &format!("A tick was {late} late, which is more than --max-stall: the upper bound assumes it instead."),
            "A longer --max-stall and more ticks account for such stalls.",
        );
    }
    let burst = rate.max_burst().map_or(String::new(), |ticks| pluralize(ticks, "tick"));
    match rate.source() {
        RateSource::Rounds => {}
        RateSource::ForeignRounds => gate.warn(
            "rate-of-values",
            "The bounds assume that every tick has a value in the file of the other tool.",
            "osjitter run also counts ticks that were never delivered.",
        ),
        RateSource::Totals => gate.warn(
            "rate-of-totals",
            &format!(
                "The report does not have every round: the bounds assume independent bursts of at most {burst}."
            ),
            "A report of osjitter run has every round, unless --no-samples leaves out some of a long run.",
        ),
    }
}

/// Compares a measured rate with a limit. Without a rate, the limit is inconclusive for the given
/// reason.
pub fn check(limit: &Limit, subject: &str, rate: Result<&MeasuredRate, Reason>) -> LimitCheck {
    let share = limit.max / 100.0;
    let (verdict, reason) =
        rate.map_or_else(|reason| (Outcome::Inconclusive, Some(reason)), |r| r.judge(share));
    let rate = rate.ok();
    let bounds = rate.map(to_bounds);
    let counts = rate.map(MeasuredRate::rate);
    LimitCheck {
        subject: subject.to_owned(),
        path: limit.path.to_string(),
        unit: limit.path.quantity().unit().to_owned(),
        limit: limit.max,
        value: counts.and_then(|counts| Some(counts.share()? * 100.0)),
        interval: bounds.as_ref().map(|bounds| [bounds.lower * 100.0, bounds.upper * 100.0]),
        rate: bounds,
        verdict,
        reason,
        rounds: rate.map_or(0, MeasuredRate::rounds),
        ticks: counts.map_or(0, MissRate::ticks),
        ticks_to_decide: rate.and_then(|rate| rate.ticks_to_decide(share)),
        period_ns: None,
        report: None,
    }
}

fn to_bounds(rate: &MeasuredRate) -> RateBounds {
    let counts = rate.rate();
    RateBounds {
        missed: counts.missed(),
        lower: counts.lower_bound(BREAK_CONFIDENCE),
        lower_confidence: BREAK_CONFIDENCE,
        upper: counts.upper_bound(PASS_CONFIDENCE),
        upper_confidence: PASS_CONFIDENCE,
        max_stall_ns: rate.max_stall_ns(),
        measured_ns: rate.measured_ns(),
    }
}
