//! The file `osjitter.find/1` as plain data, and the comparison of a look with goals.

use std::fmt::Display;

use serde::{Deserialize, Serialize};

use crate::file::{File, Flaw};
use crate::fitness::Fitness;
use crate::gate::limit::rate::{self, MeasuredRate};
use crate::gate::limit::{Measured, Quantity, RoundTicks, SummaryPath};
use crate::model::model;
use crate::report::check::{
    CheckResult, check_consistent, check_count, check_length, check_share, check_signed_time,
    check_time, require,
};
use crate::report::{Host, Load, MAX_NS, MAX_SUBJECTS, Tool, Warning};
use crate::subjects::{self, SubjectRole};
use jitterstat::gate::decision::Outcome;
use jitterstat::stats::{Interval, binomial, quantile};

/// Value of [`Find::schema`] that this version writes and reads.
pub const SCHEMA: &str = "osjitter.find/1";
/// Confidence of the bracket of a ticker.
pub const CONFIDENCE: f64 = 0.95;
/// Maximum number of goals: more would need more resamples than there are.
pub const MAX_GOALS: usize = 5;
/// Number of ticks above a percentile that make its interval narrow enough to decide.
const TICKS_ABOVE: f64 = 10.0;

model! {
    /// The result of a search, with one entry for each ticker.
    pub struct Find {
        /// Always [`SCHEMA`].
        pub schema: String,
        /// The program that wrote it.
        pub tool: Tool,
        /// Start, RFC 3339, UTC.
        pub started_utc: String,
        /// Wall time of all looks.
        pub duration_ns: u64,
        /// Whether the search was interrupted.
        pub partial: bool,
        /// The machine.
        pub host: Host,
        /// The goals. Without limits, they are the numbers measured at a single period.
        pub goals: Vec<Goal>,
        /// The shortest and the longest period of the search.
        pub range_ns: [u64; 2],
        /// Confidence of the bracket of each ticker, or of all intervals of a ticker without
        /// limits.
        pub confidence: f64,
        /// Confidence of each interval, with which all looks together have `confidence`.
        pub look_confidence: f64,
        /// Time limit of the search.
        pub max_time_ns: u64,
        /// Longest stall that bounds of the rate of misses assume; null for stalls of any length.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub max_stall_ns: Option<u64>,
        /// Seed for the order and the phases of rounds.
        pub seed: u64,
        /// The CPU that the measuring thread was bound to; null for none.
        pub cpu: Option<usize>,
        /// Requested scheduling class, as on the command line.
        pub sched: Option<String>,
        /// Whether the machine was quiet enough to trust the result, judged by a control in the
        /// same rounds; null without a control or a judgement.
        pub fitness: Option<Fitness>,
        /// The spinning control in the same rounds, each at the longest period that was measured in
        /// them; null without one.
        #[serde(default)]
        pub control: Option<Ticker>,
        /// The load that ran alongside the tickers, with its CPU time; null without a load.
        pub load: Option<Load>,
        /// Warnings to consider before trusting the result.
        pub warnings: Vec<Warning>,
        /// One entry for each ticker.
        pub tickers: Vec<Ticker>,
    }

    /// A number with the limit that it must not exceed.
    pub struct Goal {
        /// A percentile of lateness, its mean, `missed` ticks or `cpu`.
        pub name: String,
        /// Limit in this unit; null to find the smallest limit that holds.
        pub limit: Option<f64>,
        /// `ns`, or `%` of the ticks or of one core.
        pub unit: String,
        /// Whether the number is the rate of missed ticks, whose bounds over rounds account for
        /// bursts.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        pub rate: bool,
    }

    /// The result for one ticker.
    pub struct Ticker {
        /// Name of the subject.
        pub subject: String,
        /// Runtime of a tokio subject.
        pub runtime: Option<String>,
        /// The longest period below `kept_ns` at which a goal was broken; null for none.
        pub broken_ns: Option<u64>,
        /// The shortest period at which all goals were kept; null for none.
        pub kept_ns: Option<u64>,
        /// Periods above `kept_ns` at which a goal was broken.
        pub broken_above_ns: Vec<u64>,
        /// Reason for which the search ended.
        pub stopped: StopReason,
        /// Reason for which the ticker could not be measured, if so.
        pub failure: Option<String>,
        /// The looks in the order in which they were taken.
        pub looks: Vec<Look>,
    }

    /// The measurement of one period.
    pub struct Look {
        /// The period.
        pub period_ns: u64,
        /// Number of rounds.
        pub rounds: u64,
        /// Number of planned ticks in them.
        pub ticks: u64,
        /// Whether the goals hold; null without limits.
        pub finding: Option<Finding>,
        /// The number of each goal, in their order.
        pub checks: Vec<Check>,
        /// Median lateness.
        pub p50_ns: Option<i64>,
        /// 99th percentile of the lateness.
        pub p99_ns: Option<i64>,
        /// CPU time in per cent of one core, in the window in which it was counted.
        pub cpu_percent: Option<f64>,
    }

    /// The measured number of a goal, in the unit of the goal.
    pub struct Check {
        /// Value over all rounds; null with too few ticks.
        pub value: Option<f64>,
        /// Interval of the value.
        pub interval: Option<[f64; 2]>,
        /// Whether the number is within the limit; null without a limit.
        pub finding: Option<Finding>,
    }
}

/// The comparison of a period or a number with goals.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Finding {
    /// All goals hold.
    Kept,
    /// At least one goal does not hold.
    Broken,
    /// The rounds do not decide.
    Open,
}

/// The reason for which a search ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "schema", schemars(rename = "Stopped"))]
pub enum StopReason {
    /// Another look would add no information.
    Found,
    /// The maximum number of looks was reached ([`MAX_LOOKS`](super::MAX_LOOKS)).
    Looks,
    /// The time limit was reached.
    Time,
    /// The search was interrupted.
    Interrupted,
    /// The ticker could not be measured.
    Failed,
}

impl Goal {
    /// The names of goals.
    pub const NAMES: [&'static str; 8] =
        ["p50", "p90", "p99", "p99.9", "p99.99", "mean", "missed", "cpu"];

    /// Creates a goal; `None` if the name is unknown.
    #[must_use]
    pub fn new(name: &str, limit: Option<f64>) -> Option<Self> {
        let name = (*Self::NAMES.iter().find(|known| **known == name)?).to_owned();
        let goal = Self { name, limit, unit: String::new(), rate: false };
        Some(Self { unit: goal.quantity().unit().to_owned(), ..goal })
    }

    /// Returns the quantity of the number.
    #[must_use]
    pub fn quantity(&self) -> Quantity {
        match self.path() {
            _ if self.name == "cpu" => Quantity::PartOfCore,
            Some(path) => path.quantity(),
            None => Quantity::Time,
        }
    }

    fn path(&self) -> Option<SummaryPath> {
        SummaryPath::find(&self.name).ok()
    }

    /// Returns the quantile of a percentile; `None` for other goals.
    #[must_use]
    pub fn quantile(&self) -> Option<f64> {
        let percent: f64 = self.name.strip_prefix('p')?.parse().ok()?;
        Some(percent / 100.0)
    }

    /// Returns the minimum number of ticks of a look that can decide the goal, at the confidence of
    /// a look. A goal without a limit may remain unknown beyond p99.
    #[must_use]
    pub fn least_ticks(&self, confidence: f64) -> u64 {
        let alpha = (1.0 - confidence) / 2.0;
        match (self.quantile(), self.limit) {
            (Some(q), None) if q > 0.99 => 1,
            (Some(q), _) => (TICKS_ABOVE / (1.0 - q)).round() as u64,
            // This many ticks without a miss show that the share of missed ticks is below the
            // limit.
            (None, Some(percent)) if self.name == "missed" && !self.rate => {
                (alpha.ln() / (-percent / 100.0).ln_1p()).ceil() as u64
            }
            _ => 1,
        }
    }

    /// Returns the minimum number of rounds of a look that can decide a rate; 0 for other goals.
    #[must_use]
    pub fn least_rounds(&self, round_ticks: u64, max_burst: Option<u64>, confidence: f64) -> u64 {
        match self.limit {
            Some(percent) if self.rate => {
                let one_sided = one_sided(confidence);
                rate::least_rounds(percent / 100.0, round_ticks, max_burst, one_sided)
            }
            _ => 0,
        }
    }

    fn check(&self, period_ns: u64, rounds: &[RoundTicks], rules: LookRules) -> Check {
        let Some(measured) = self.measure(period_ns, rounds, rules) else {
            return Check {
                value: None,
                interval: None,
                finding: self.limit.and(Some(Finding::Open)),
            };
        };
        Check {
            value: measured.value,
            interval: measured.interval.map(Into::into),
            finding: self.limit.map(|limit| measured.judge(limit).0.into()),
        }
    }

    /// Measures the number over all rounds, the CPU time as percentage of a core.
    fn measure(&self, period_ns: u64, rounds: &[RoundTicks], rules: LookRules) -> Option<Measured> {
        if self.name == "cpu" {
            return Some(RoundTicks::measure_core_percent(rounds, rules.confidence));
        }
        let path = self.path()?;
        let mut measured = path.measure_at(rounds, rules.confidence);
        if self.rate {
            let measured_rate = MeasuredRate::from_rounds(rounds, period_ns, rules.max_stall_ns);
            let rate = measured_rate.rate();
            let confidence = one_sided(rules.confidence);
            let lower = rate.lower_bound(confidence);
            let upper = rate.upper_bound(confidence);
            let shares = Interval { lower, upper };
            measured.interval = Some(shares.map(|share| share * 100.0));
        } else if path.quantity() == Quantity::PartOfTicks {
            widen_share_interval(&mut measured, rules.confidence);
        }
        Some(measured)
    }
}

/// The rules by which looks are judged.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LookRules {
    /// Confidence of each interval.
    pub confidence: f64,
    /// Longest stall that bounds of the rate of misses assume; `None` for stalls of any length.
    pub max_stall_ns: Option<u64>,
}

/// Returns the confidence of each bound of an interval.
fn one_sided(confidence: f64) -> f64 {
    f64::midpoint(1.0, confidence)
}

/// Widens the interval of a percentage of ticks to the exact interval of independent ticks.
///
/// Without a miss, the resampled interval has no width, but the exact one has.
fn widen_share_interval(measured: &mut Measured, confidence: f64) {
    let (Some(percent), Some(interval)) = (measured.value, &mut measured.interval) else { return };
    let count = (percent / 100.0 * measured.ticks as f64).round() as u64;
    let exact = binomial::share_interval(count, measured.ticks, confidence);
    interval.lower = interval.lower.min(exact.lower * 100.0);
    interval.upper = interval.upper.max(exact.upper * 100.0);
}

impl From<Outcome> for Finding {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Pass => Self::Kept,
            Outcome::LimitBroken => Self::Broken,
            _ => Self::Open,
        }
    }
}

/// Returns the confidence of each interval with which all looks at all goals together have
/// [`CONFIDENCE`].
#[must_use]
pub fn look_confidence(looks: usize, goals: usize) -> f64 {
    1.0 - 2.0 * (1.0 - CONFIDENCE) / (looks.max(1) * goals.max(1)) as f64
}

impl Look {
    /// Compares the rounds at one period with the goals.
    #[must_use]
    pub fn new(period_ns: u64, rounds: &[RoundTicks], goals: &[Goal], rules: LookRules) -> Self {
        let checks: Vec<Check> =
            goals.iter().map(|goal| goal.check(period_ns, rounds, rules)).collect();
        let value = |name| Goal::new(name, None)?.measure(period_ns, rounds, rules)?.value;
        let measured = SummaryPath::find("missed").map(|path| path.measure(rounds));
        Self {
            period_ns,
            rounds: rounds.len() as u64,
            ticks: measured.map_or(0, |m| m.ticks),
            finding: total_finding(&checks),
            checks,
            p50_ns: value("p50").map(|ns| ns as i64),
            p99_ns: value("p99").map(|ns| ns as i64),
            cpu_percent: value("cpu"),
        }
    }
}

/// Returns the finding for all goals; `None` if one has no limit.
fn total_finding(checks: &[Check]) -> Option<Finding> {
    let mut total = Finding::Kept;
    for check in checks {
        total = match (total, check.finding?) {
            (Finding::Broken, _) | (_, Finding::Broken) => Finding::Broken,
            (Finding::Open, _) | (_, Finding::Open) => Finding::Open,
            (Finding::Kept, Finding::Kept) => Finding::Kept,
        };
    }
    Some(total)
}

impl File for Find {
    const SCHEMA: &'static str = SCHEMA;
    const IS_INDENTED: bool = false;

    fn check(&self) -> CheckResult {
        check_length("tickers", self.tickers.len(), MAX_SUBJECTS)?;
        check_length("goals", self.goals.len(), Goal::NAMES.len())?;
        for (i, goal) in self.goals.iter().enumerate() {
            check_number(format_args!("goals[{i}].limit"), goal.limit.unwrap_or(0.0))?;
        }
        check_time("duration_ns", self.duration_ns)?;
        check_time("max_time_ns", self.max_time_ns)?;
        check_time("max_stall_ns", self.max_stall_ns.unwrap_or(0))?;
        check_share("confidence", self.confidence)?;
        check_share("look_confidence", self.look_confidence)?;
        let [from, to] = self.range_ns;
        check_time("range_ns", to)?;
        let is_range = 0 < from && from <= to;
        check_consistent(is_range, "range_ns", format_args!("from {from} to {to}"))?;
        for (i, ticker) in self.tickers.iter().enumerate() {
            for (n, look) in ticker.looks.iter().enumerate() {
                self.check_look(&format!("tickers[{i}].looks[{n}]"), look)?;
            }
        }
        for (n, look) in self.control.iter().flat_map(|control| &control.looks).enumerate() {
            self.check_look(&format!("control.looks[{n}]"), look)?;
        }
        Ok(())
    }
}

impl Find {
    /// Returns a control that broke a goal of punctuality at every period, or could not be measured,
    /// if no ticker held all goals at any: then the machine was late, or nothing is known about it,
    /// and the search shows nothing about the tickers.
    ///
    /// If only controls are searched, one that sleeps is a ticker in question. One that spins shows
    /// the machine in any case.
    #[must_use]
    pub fn failed_control(&self) -> Option<&Ticker> {
        let role = |ticker: &Ticker| subjects::find(&ticker.subject).map(|subject| subject.role);
        let is_competitor =
            |ticker: &Ticker| matches!(role(ticker), None | Some(SubjectRole::Competitor));
        let spins = |ticker: &Ticker| role(ticker) == Some(SubjectRole::SpinningControl);
        let has_competitors = self.tickers.iter().any(is_competitor);
        let is_control = |ticker: &Ticker| match has_competitors {
            true => !is_competitor(ticker),
            false => spins(ticker),
        };
        let has_answer = |ticker: &Ticker| !is_control(ticker) && ticker.kept_ns.is_some();
        if self.tickers.iter().any(has_answer) {
            return None;
        }
        let searched = self.tickers.iter().filter(|ticker| is_control(ticker));
        let unmeasured = self.control.iter().find(|control| control.failure.is_some());
        let late = searched.chain(&self.control).find(|control| self.is_late_everywhere(control));
        late.or(unmeasured)
    }

    /// Returns whether the looks of a ticker break a goal of punctuality, and none keeps all of them.
    fn is_late_everywhere(&self, ticker: &Ticker) -> bool {
        let findings = |look: &Look| -> Vec<Option<Finding>> {
            let checks = self.goals.iter().zip(&look.checks);
            let timed = checks.filter(|(goal, _)| goal.quantity() != Quantity::PartOfCore);
            timed.map(|(_, check)| check.finding).collect()
        };
        let is_broken = |look: &Look| findings(look).contains(&Some(Finding::Broken));
        let is_kept =
            |look: &Look| findings(look).iter().all(|finding| *finding == Some(Finding::Kept));
        ticker.looks.iter().any(is_broken) && !ticker.looks.iter().any(is_kept)
    }

    fn check_look(&self, at: &str, look: &Look) -> CheckResult {
        let [from, to] = self.range_ns;
        check_consistent(
            (from..=to).contains(&look.period_ns),
            format_args!("{at}.period_ns"),
            format_args!("{} is outside of the range", look.period_ns),
        )?;
        check_count(format_args!("{at}.ticks"), look.ticks)?;
        let (found, goals) = (look.checks.len(), self.goals.len());
        check_consistent(
            found == goals,
            format_args!("{at}.checks"),
            format_args!("{found} of them for {goals} goals"),
        )?;
        check_signed_time(format_args!("{at}.p50_ns"), look.p50_ns.unwrap_or(0))?;
        check_signed_time(format_args!("{at}.p99_ns"), look.p99_ns.unwrap_or(0))?;
        check_number(format_args!("{at}.cpu_percent"), look.cpu_percent.unwrap_or(0.0))?;
        for check in &look.checks {
            for n in check.interval.into_iter().flatten().chain(check.value) {
                check_number(format_args!("{at}.checks"), n)?;
            }
        }
        Ok(())
    }
}

fn check_number(at: impl Display, value: f64) -> CheckResult {
    let range = -(MAX_NS as f64)..=MAX_NS as f64;
    require(range.contains(&value), at, Flaw::Number(value))
}

/// Returns the minimum number of ticks of a look that can decide all goals.
#[must_use]
pub fn least_ticks(goals: &[Goal], confidence: f64) -> u64 {
    let p50 = (quantile::MIN_SAMPLES_ABOVE / 0.5) as u64;
    goals.iter().map(|goal| goal.least_ticks(confidence)).fold(p50, u64::max)
}
