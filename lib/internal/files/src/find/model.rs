//! The file of what was found, and how a look is held against goals.

use serde::{Deserialize, Serialize};

use crate::file::{File, Flaw, Invalid};
use crate::fitness::Fitness;
use crate::gate::limit::{Quantity, RoundTicks, SummaryPath};
use crate::model::model;
use crate::report::{Host, Load, MAX_COUNT, MAX_NS, MAX_SUBJECTS, Tool, Warning};
use jitterstat::gate::decision::Outcome;
use jitterstat::stats::{binomial, quantile};

/// Value of [`Find::schema`] that this version writes and reads.
pub const SCHEMA: &str = "osjitter.find/1";
/// That a ticker's bracket is right.
pub const CONFIDENCE: f64 = 0.95;
/// More goals than this need more resamples than there are.
pub const MAX_GOALS: usize = 5;
/// Ticks above a percentile that make its interval narrow enough to decide.
const TICKS_ABOVE: f64 = 10.0;

model! {
    /// What was looked for, and what was found for each ticker.
    pub struct Find {
        /// Always [`SCHEMA`].
        pub schema: String,
        /// The program that wrote it.
        pub tool: Tool,
        /// Start, RFC 3339, UTC.
        pub started_utc: String,
        /// Wall time of all looks.
        pub duration_ns: u64,
        /// It was interrupted: what is here was measured.
        pub partial: bool,
        /// The machine.
        pub host: Host,
        /// What has to hold; without limits, what was measured at one period to be promised.
        pub goals: Vec<Goal>,
        /// The shortest and the longest period of the search.
        pub range_ns: [u64; 2],
        /// Of each ticker's bracket, or of all its promises together.
        pub confidence: f64,
        /// Of the intervals of each look, so that the looks together have that.
        pub look_confidence: f64,
        /// The time it was given.
        pub max_time_ns: u64,
        /// Seed of the order and the phases of rounds.
        pub seed: u64,
        /// The CPU that the measuring thread was bound to; null for none.
        pub cpu: Option<usize>,
        /// Requested scheduling class, as on the command line.
        pub sched: Option<String>,
        /// Whether to believe it, by a control in the same rounds; null where there was none, or it
        /// was not judged.
        pub fitness: Option<Fitness>,
        /// What ran beside the tickers, and what it took; null for nothing.
        pub load: Option<Load>,
        /// What a reader should know before trusting it.
        pub warnings: Vec<Warning>,
        /// One entry for each ticker.
        pub tickers: Vec<Ticker>,
    }

    /// A number that has to stay at or below a limit.
    pub struct Goal {
        /// A percentile of lateness or its mean, `missed` ticks, or `cpu`.
        pub name: String,
        /// In its unit; null where the least limit is asked for.
        pub limit: Option<f64>,
        /// `ns`; `%` of the ticks, or of one core.
        pub unit: String,
    }

    /// What was found for one ticker.
    pub struct Ticker {
        /// Name of the subject.
        pub subject: String,
        /// Runtime of a tokio subject.
        pub runtime: Option<String>,
        /// The longest period below `kept_ns` at which a goal was broken; null for none.
        pub broken_ns: Option<u64>,
        /// The shortest period at which all goals were kept; null for none.
        pub kept_ns: Option<u64>,
        /// Longer periods than that at which a goal was broken all the same.
        pub broken_above_ns: Vec<u64>,
        /// Why there are no more looks.
        pub stopped: StopReason,
        /// Why it could not be measured, if it could not.
        pub failure: Option<String>,
        /// In the order they were taken.
        pub looks: Vec<Look>,
    }

    /// One period, measured.
    pub struct Look {
        /// The period.
        pub period_ns: u64,
        /// Rounds at it.
        pub rounds: u64,
        /// Ticks asked for in them.
        pub ticks: u64,
        /// Whether the goals hold; null without limits.
        pub finding: Option<Finding>,
        /// What each goal is held against, in their order.
        pub checks: Vec<Check>,
        /// Median lateness.
        pub p50_ns: Option<i64>,
        /// 99th percentile of the lateness.
        pub p99_ns: Option<i64>,
        /// CPU time in per cent of one core.
        pub cpu_percent: Option<f64>,
    }

    /// A number, in its goal's unit.
    pub struct Check {
        /// Over all rounds; null where the ticks do not support it.
        pub value: Option<f64>,
        /// Its interval.
        pub interval: Option<[f64; 2]>,
        /// Whether it is within the goal; null without a limit.
        pub finding: Option<Finding>,
    }
}

/// What a period is to the goals.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Finding {
    /// All hold.
    Kept,
    /// At least one does not.
    Broken,
    /// The rounds do not say.
    Open,
}

/// Why a search took no more looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "schema", schemars(rename = "Stopped"))]
pub enum StopReason {
    /// No further period would say more.
    Found,
    /// [`MAX_LOOKS`](super::MAX_LOOKS) were taken.
    Looks,
    /// The time was up.
    Time,
    /// It was interrupted.
    Interrupted,
    /// It could not be measured.
    Failed,
}

impl Goal {
    /// The names of goals.
    pub const NAMES: [&'static str; 8] =
        ["p50", "p90", "p99", "p99.9", "p99.99", "mean", "missed", "cpu"];

    /// A goal of that name; `None` if there is none.
    #[must_use]
    pub fn new(name: &str, limit: Option<f64>) -> Option<Self> {
        let name = (*Self::NAMES.iter().find(|known| **known == name)?).to_owned();
        let unit = if name == "missed" || name == "cpu" { "%" } else { "ns" }.to_owned();
        Some(Self { name, limit, unit })
    }

    fn path(&self) -> Option<SummaryPath> {
        SummaryPath::find(if self.name == "cpu" { "cpu_ns_per_tick" } else { &self.name }).ok()
    }

    /// The quantile it is of, where it is of one.
    #[must_use]
    pub fn quantile(&self) -> Option<f64> {
        self.name
            .strip_prefix('p')
            .and_then(|percent| percent.parse::<f64>().ok())
            .map(|percent| percent / 100.0)
    }

    /// Ticks of a look below which it cannot be decided, at a look's confidence. What is asked for
    /// without a limit may remain unknown beyond p99.
    #[must_use]
    pub fn least_ticks(&self, confidence: f64) -> u64 {
        let alpha = (1.0 - confidence) / 2.0;
        match (self.quantile(), self.limit) {
            (Some(q), None) if q > 0.99 => 1,
            (Some(q), _) => (TICKS_ABOVE / (1.0 - q)).round() as u64,
            // So many ticks without a single miss show that fewer than the limit are missed.
            (None, Some(percent)) if self.name == "missed" => {
                (alpha.ln() / (-percent / 100.0).ln_1p()).ceil() as u64
            }
            _ => 1,
        }
    }

    fn check(&self, period_ns: u64, rounds: &[RoundTicks], confidence: f64) -> Check {
        let none =
            Check { value: None, interval: None, finding: self.limit.map(|_| Finding::Open) };
        let Some(path) = self.path() else { return none };
        let mut measured = path.measure_at(rounds, confidence);
        if let (Quantity::PartOfTicks, Some(percent), Some(interval)) =
            (path.quantity(), measured.value, &mut measured.interval)
        {
            // Rounds without a miss resample to none: the exact interval of as many single ticks is
            // wider there.
            let count = (percent / 100.0 * measured.ticks as f64).round() as u64;
            let exact = binomial::share_interval(count, measured.ticks, confidence)
                .map(|share| share * 100.0);
            interval.lower = interval.lower.min(exact.lower);
            interval.upper = interval.upper.max(exact.upper);
        }
        if self.name == "cpu" {
            let percent = |ns: f64| ns / period_ns as f64 * 100.0;
            (measured.value, measured.interval) =
                (measured.value.map(percent), measured.interval.map(|i| i.map(percent)));
        }
        let finding = self.limit.map(|limit| match measured.judge(limit).0 {
            Outcome::Pass => Finding::Kept,
            Outcome::LimitBroken => Finding::Broken,
            _ => Finding::Open,
        });
        Check { value: measured.value, interval: measured.interval.map(Into::into), finding }
    }
}

/// The confidence of each interval with which so many looks at so many goals have [`CONFIDENCE`]
/// together.
#[must_use]
pub fn look_confidence(looks: usize, goals: usize) -> f64 {
    1.0 - 2.0 * (1.0 - CONFIDENCE) / (looks.max(1) * goals.max(1)) as f64
}

impl Look {
    /// Holds the goals against the rounds at one period.
    #[must_use]
    pub fn new(period_ns: u64, rounds: &[RoundTicks], goals: &[Goal], confidence: f64) -> Self {
        let checks: Vec<Check> =
            goals.iter().map(|goal| goal.check(period_ns, rounds, confidence)).collect();
        let any = |finding| checks.iter().any(|check| check.finding == Some(finding));
        let finding = match () {
            () if goals.iter().any(|goal| goal.limit.is_none()) => None,
            () if any(Finding::Broken) => Some(Finding::Broken),
            () if any(Finding::Open) => Some(Finding::Open),
            () => Some(Finding::Kept),
        };
        let number =
            |name| Goal::new(name, None).map(|goal| goal.check(period_ns, rounds, confidence));
        let value = |name| number(name).and_then(|check| check.value);
        let measured = SummaryPath::find("missed").map(|path| path.measure(rounds));
        Self {
            period_ns,
            rounds: rounds.len() as u64,
            ticks: measured.map_or(0, |m| m.ticks),
            finding,
            checks,
            p50_ns: value("p50").map(|ns| ns as i64),
            p99_ns: value("p99").map(|ns| ns as i64),
            cpu_percent: value("cpu"),
        }
    }
}

impl File for Find {
    const SCHEMA: &'static str = SCHEMA;

    fn check(&self) -> Result<(), Invalid> {
        let require = |holds: bool, at: String, flaw: Flaw| {
            if holds { Ok(()) } else { Err(Invalid { at, flaw }) }
        };
        let time = |at: String, ns: u64| require(ns <= MAX_NS, at, Flaw::Time(ns.into()));
        let signed =
            |at: String, ns: i64| require(ns.unsigned_abs() <= MAX_NS, at, Flaw::Time(ns.into()));
        let number = |at: String, value: f64| {
            require((-(MAX_NS as f64)..=MAX_NS as f64).contains(&value), at, Flaw::Number(value))
        };
        for (at, found, most) in [
            ("tickers", self.tickers.len(), MAX_SUBJECTS),
            ("goals", self.goals.len(), Goal::NAMES.len()),
        ] {
            require(found <= most, at.to_owned(), Flaw::TooMany { found, most })?;
        }
        for (i, goal) in self.goals.iter().enumerate() {
            number(format!("goals[{i}].limit"), goal.limit.unwrap_or(0.0))?;
        }
        for (at, ns) in [("duration_ns", self.duration_ns), ("max_time_ns", self.max_time_ns)] {
            time(at.to_owned(), ns)?;
        }
        for (at, share) in
            [("confidence", self.confidence), ("look_confidence", self.look_confidence)]
        {
            require((0.0..=1.0).contains(&share), at.to_owned(), Flaw::Number(share))?;
        }
        let [from, to] = self.range_ns;
        time("range_ns".to_owned(), to)?;
        let sentence = format!("from {from} to {to}");
        require(0 < from && from <= to, "range_ns".to_owned(), Flaw::Contradiction(sentence))?;
        for (i, ticker) in self.tickers.iter().enumerate() {
            for (n, look) in ticker.looks.iter().enumerate() {
                let at = |field: &str| format!("tickers[{i}].looks[{n}].{field}");
                let sentence = format!("{} is outside of the range", look.period_ns);
                require(
                    (from..=to).contains(&look.period_ns),
                    at("period_ns"),
                    Flaw::Contradiction(sentence),
                )?;
                require(look.ticks <= MAX_COUNT, at("ticks"), Flaw::Count(look.ticks))?;
                let (found, goals) = (look.checks.len(), self.goals.len());
                let sentence = format!("{found} of them for {goals} goals");
                require(found == goals, at("checks"), Flaw::Contradiction(sentence))?;
                signed(at("p50_ns"), look.p50_ns.unwrap_or(0))?;
                signed(at("p99_ns"), look.p99_ns.unwrap_or(0))?;
                number(at("cpu_percent"), look.cpu_percent.unwrap_or(0.0))?;
                for check in &look.checks {
                    check
                        .value
                        .into_iter()
                        .chain(check.interval.into_iter().flatten())
                        .try_for_each(|v| number(at("checks"), v))?;
                }
            }
        }
        Ok(())
    }
}

/// Ticks that a look takes to decide all of the goals.
#[must_use]
pub fn least_ticks(goals: &[Goal], confidence: f64) -> u64 {
    let p50 = (quantile::MIN_SAMPLES_ABOVE / 0.5) as u64;
    goals.iter().map(|goal| goal.least_ticks(confidence)).fold(p50, u64::max)
}
