//! Is a number of a run within a limit, and is that known?
//!
//! A limit is held against the value over all rounds of a run and against its 99 % interval over rounds
//! ([`crate::stats::bootstrap`]): broken if even the lower end is above the limit, kept if not even the upper end is,
//! otherwise undecided. The interval is about the run that was measured and its like, on that machine in that hour.

use std::fmt;

use super::look::{Outcome, Reason};
use crate::report;
use crate::sample::{Grid, RoundSamples};
use crate::stats::{bootstrap, quantile, sign_test};
use crate::summary::{QUANTILES, stored_samples};

/// Confidence of the interval that decides.
const CONFIDENCE: f64 = 0.99;

/// What a number is of, and so which units its limit is written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantity {
    /// A time; in nanoseconds.
    Time,
    /// A number of ticks; in per cent of the ticks asked for.
    PartOfTicks,
    /// A rate; in parts per billion.
    Rate,
    /// A number for each tick asked for.
    PerTick,
}

impl Quantity {
    /// The unit its values are in.
    #[must_use]
    pub fn unit(self) -> &'static str {
        match self {
            Self::Time => "ns",
            Self::PartOfTicks => "%",
            Self::Rate => "ppb",
            Self::PerTick => "per tick",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Series {
    Lateness,
    Consecutive,
    Spread,
    UntilUnpark,
    AfterUnpark,
}

/// What a statistic without a head is of.
const LATENESS: &str = "lateness_ns";
const SERIES: [(&str, Series); 5] = [
    (LATENESS, Series::Lateness),
    ("jitter_consecutive_ns", Series::Consecutive),
    ("jitter_spread_ns", Series::Spread),
    ("until_unpark_ns", Series::UntilUnpark),
    ("after_unpark_ns", Series::AfterUnpark),
];

const COUNTS: [(&str, Count); 6] = [
    ("missed", Count::Missed),
    ("skipped", Count::Skipped),
    ("coalesced", Count::Coalesced),
    ("delivered", Count::Delivered),
    ("early", Count::Early),
    ("no_park", Count::NoPark),
];

const MEDIAN_ROUND: &str = "median_round_ns";
const DRIFT: &str = "drift_ppb";
const CPU: &str = "cpu_ns_per_tick";
const WAKEUPS: &str = "wakeups_per_tick";
/// Numbers of a summary that say how long the run was, not how good.
const OF_THE_LENGTH: [&str; 3] = ["ticks", "elapsed_ns", "ideal_ns"];

#[derive(Clone, Copy, Debug, PartialEq)]
enum Statistic {
    Min,
    Mean,
    Quantile(f64),
    Max,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Count {
    Missed,
    Skipped,
    Coalesced,
    Delivered,
    Early,
    NoPark,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Of(Series, Statistic),
    MedianRound(f64),
    Ticks(Count),
    Drift,
    Cpu,
    Wakeups,
}

/// One number of a summary, by its path in the report.
#[derive(Clone, Debug, PartialEq)]
pub struct Path {
    name: String,
    kind: Kind,
}

/// Why a path names nothing that can be limited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathError {
    /// A summary has no such number.
    Unknown,
    /// It is there, and says only how long the run was.
    OfTheLength,
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl Path {
    /// Finds a number of a summary: `lateness_ns.p99`, `jitter_spread_ns.p99_9`, `missed`, `cpu_ns_per_tick`.
    ///
    /// Without a head a statistic is of lateness (`p99`); the `_ns` of a head may be left out (`jitter_spread.p99`), and
    /// a percentile may be written as people do (`p99.9`).
    ///
    /// ```
    /// use jitterstat::gate::limit::Path;
    /// assert_eq!(Path::find("p99.9").unwrap().to_string(), "lateness_ns.p99_9");
    /// assert_eq!(Path::find("jitter_spread.max").unwrap().to_string(), "jitter_spread_ns.max");
    /// assert!(Path::find("latenes.p99").is_err());
    /// ```
    ///
    /// # Errors
    /// See [`PathError`].
    pub fn find(text: &str) -> Result<Self, PathError> {
        if OF_THE_LENGTH.contains(&text) {
            return Err(PathError::OfTheLength);
        }
        let written = [("p99.99", "p99_99"), ("p99.9", "p99_9")];
        let stored = written.iter().find_map(|(as_read, name)| Some(text.strip_suffix(as_read)?.to_owned() + name));
        let text = stored.as_deref().unwrap_or(text);
        let is = |path: &Self| match (path.name.split_once('.'), text.split_once('.')) {
            (Some((head, last)), Some((h, l))) => l == last && (h == head || head.strip_suffix("_ns") == Some(h)),
            (Some((head, last)), None) => head == LATENESS && last == text,
            (None, _) => path.name == text,
        };
        Self::all().into_iter().find(is).ok_or(PathError::Unknown)
    }

    /// Every number that can be limited.
    #[must_use]
    pub fn all() -> Vec<Self> {
        let percentiles = QUANTILES.map(|(name, q)| (name, Statistic::Quantile(q)));
        let mut statistics = vec![("min", Statistic::Min), ("mean", Statistic::Mean)];
        statistics.extend(percentiles);
        statistics.push(("max", Statistic::Max));
        let of = |name: String, kind| Self { name, kind };
        let mut all = Vec::new();
        for (head, series) in SERIES {
            all.extend(statistics.iter().map(|(last, s)| of(format!("{head}.{last}"), Kind::Of(series, *s))));
        }
        all.extend(QUANTILES.map(|(last, q)| of(format!("{MEDIAN_ROUND}.{last}"), Kind::MedianRound(q))));
        all.extend(COUNTS.map(|(name, count)| of(name.to_owned(), Kind::Ticks(count))));
        all.extend(
            [(DRIFT, Kind::Drift), (CPU, Kind::Cpu), (WAKEUPS, Kind::Wakeups)].map(|(n, k)| of(n.to_owned(), k)),
        );
        all
    }

    /// What it is a number of.
    #[must_use]
    pub fn quantity(&self) -> Quantity {
        match self.kind {
            Kind::Of(..) | Kind::MedianRound(_) | Kind::Cpu => Quantity::Time,
            Kind::Ticks(_) => Quantity::PartOfTicks,
            Kind::Drift => Quantity::Rate,
            Kind::Wakeups => Quantity::PerTick,
        }
    }

    /// Whether only a subject that runs in a runtime has it.
    #[must_use]
    pub fn needs_runtime(&self) -> bool {
        matches!(self.kind, Kind::Of(Series::UntilUnpark | Series::AfterUnpark, _) | Kind::Ticks(Count::NoPark))
    }

    /// The least number of ticks that can carry it, in rounds of `round_ticks`; `None` if rounds like that never do.
    #[must_use]
    pub fn least_ticks(&self, round_ticks: u64) -> Option<u64> {
        match self.kind {
            Kind::Of(_, Statistic::Quantile(q)) => Some((quantile::MIN_SAMPLES_ABOVE / (1.0 - q)).round() as u64),
            Kind::MedianRound(q) => {
                let carried = usize::try_from(round_ticks).is_ok_and(|n| quantile::is_carried_by_round(n, q));
                carried.then_some(round_ticks * bootstrap::MIN_ROUNDS as u64)
            }
            _ => Some(1),
        }
    }

    /// Its value over all rounds, and its interval.
    #[must_use]
    pub fn measure(&self, rounds: &[Round]) -> Measured {
        let known = |value: Option<f64>, interval: Option<[f64; 2]>| {
            let extreme = matches!(self.kind, Kind::Of(_, Statistic::Min | Statistic::Max));
            let ticks = rounds.iter().map(Round::asked).sum();
            let unknown_cost = matches!(self.kind, Kind::Cpu | Kind::Wakeups) && value.is_none();
            Measured { value, interval, extreme, unknown_cost, rounds: rounds.len(), ticks }
        };
        match self.kind {
            Kind::Of(series, statistic) => {
                let values = series_of(series, rounds);
                let (value, interval) = statistic.of(&values);
                known(value, interval)
            }
            Kind::MedianRound(q) => {
                let (value, interval) = median_round(rounds, q);
                known(value, interval)
            }
            // Where no park was seen there is nothing to count.
            Kind::Ticks(Count::NoPark) if series_of(Series::UntilUnpark, rounds).iter().all(Vec::is_empty) => {
                known(None, None)
            }
            Kind::Ticks(count) => {
                let percent = |r: &Round| (100.0 * count.of(r) as f64, r.asked() as f64);
                let (value, interval) = ratio(rounds.iter().map(percent).collect());
                known(value, interval)
            }
            Kind::Drift => {
                let (value, interval) = ratio(rounds.iter().map(Round::drift_sums).collect());
                known(value.map(|v| v * 1e9), interval.map(|i| i.map(|v| v * 1e9)))
            }
            Kind::Cpu => {
                let (value, interval) = cost(rounds, |r| r.cpu_ns_per_tick);
                known(value, interval)
            }
            Kind::Wakeups => {
                let (value, interval) = cost(rounds, |r| r.wakeups_per_tick);
                known(value, interval)
            }
        }
    }
}

/// One round of one subject, all its instances together.
#[derive(Clone, Debug, PartialEq)]
pub struct Round {
    parts: Vec<RoundSamples>,
    cpu_ns_per_tick: Option<f64>,
    wakeups_per_tick: Option<f64>,
}

impl Round {
    /// The rounds of a measured subject.
    ///
    /// # Errors
    /// A sentence: there is no round with ticks, or the samples were left out of the report.
    pub fn all_of(subject: &report::Subject) -> Result<Vec<Self>, String> {
        if subject.summary.is_none() {
            return Err(format!("{} was not measured", subject.id));
        }
        if subject.rounds.iter().all(|r| r.lateness_ns.is_empty()) {
            return Err(format!("the samples of {} were left out of the report, and intervals need them", subject.id));
        }
        let mut rounds: Vec<(u64, Self)> = Vec::new();
        for entry in &subject.rounds {
            // The summary of a round is of all instances, and stands with the first of them.
            let whole = entry.summary.as_ref();
            let part = stored_samples(subject, entry);
            match rounds.iter_mut().find(|(index, _)| *index == entry.index) {
                Some((_, round)) => {
                    let ticks = round.parts.first().map_or(part.grid.ticks, |first| first.grid.ticks);
                    round.parts.push(RoundSamples { grid: Grid { ticks, ..part.grid }, ..part });
                }
                None => {
                    let cpu_ns_per_tick = whole.and_then(|s| s.cpu_ns_per_tick);
                    let wakeups_per_tick = whole.and_then(|s| s.wakeups_per_tick);
                    rounds.push((entry.index, Self { parts: vec![part], cpu_ns_per_tick, wakeups_per_tick }));
                }
            }
        }
        Ok(rounds.into_iter().map(|(_, round)| round).collect())
    }

    fn asked(&self) -> u64 {
        self.parts.iter().map(|p| p.grid.ticks).sum()
    }

    fn sum(&self, of: impl Fn(&RoundSamples) -> u64) -> u64 {
        self.parts.iter().map(of).sum()
    }

    /// Sums of x·y and of x² about the round's means, x the deadline and y the lateness: their quotient is the slope.
    fn drift_sums(&self) -> (f64, f64) {
        let (mut sxy, mut sxx) = (0.0, 0.0);
        for part in &self.parts {
            let n = part.ticks.len() as f64;
            let first = part.ticks.first().copied().unwrap_or(0);
            let x = |k: u64| (k - first) as f64 * part.grid.period_ns as f64;
            let mean_x = part.ticks.iter().map(|&k| x(k)).sum::<f64>() / n;
            let mean_y = part.lateness_ns.iter().map(|&l| l as f64).sum::<f64>() / n;
            for (&k, &l) in part.ticks.iter().zip(&part.lateness_ns) {
                sxy += (x(k) - mean_x) * (l as f64 - mean_y);
                sxx += (x(k) - mean_x) * (x(k) - mean_x);
            }
        }
        (sxy, sxx)
    }
}

impl Count {
    fn of(self, round: &Round) -> u64 {
        let coalesced = if self == Self::Delivered { round.sum(|part| part.coalesced) } else { 0 };
        let all = round.sum(|part| match self {
            Self::Missed => part.missed(),
            Self::Skipped => part.skipped(),
            // A report keeps one number for all instances, with the first.
            Self::Coalesced => part.coalesced,
            Self::Delivered => part.booked(),
            Self::Early => part.early(),
            Self::NoPark => part.until_unpark_ns.iter().filter(|u| u.is_none()).count() as u64,
        });
        all.saturating_sub(coalesced)
    }
}

impl Statistic {
    fn of(self, rounds: &[Vec<i64>]) -> (Option<f64>, Option<[f64; 2]>) {
        let all = || rounds.iter().flatten().copied();
        let float = |ns: i64| ns as f64;
        match self {
            Self::Min => (all().min().map(float), None),
            Self::Max => (all().max().map(float), None),
            Self::Mean => ratio(rounds.iter().map(|r| (r.iter().map(|&v| v as f64).sum(), r.len() as f64)).collect()),
            Self::Quantile(q) => {
                let mut sorted: Vec<i64> = all().collect();
                sorted.sort_unstable();
                let value = quantile::nearest_rank(&sorted, q).filter(|_| quantile::is_supported(sorted.len(), q));
                let slices: Vec<&[i64]> = rounds.iter().map(Vec::as_slice).collect();
                let interval = bootstrap::percentile_intervals(&slices, &[q], CONFIDENCE).pop().flatten();
                (value.map(float), interval.map(|i| i.map(float)))
            }
        }
    }
}

/// The values of a series, round by round.
fn series_of(series: Series, rounds: &[Round]) -> Vec<Vec<i64>> {
    let least = rounds.iter().flat_map(|r| &r.parts).flat_map(|p| p.lateness_ns.iter().copied()).min().unwrap_or(0);
    let of = |part: &RoundSamples| -> Vec<i64> {
        let stamped = || part.lateness_ns.iter().zip(&part.until_unpark_ns);
        match series {
            Series::Lateness => part.lateness_ns.clone(),
            Series::Consecutive => part.consecutive_ns().collect(),
            Series::Spread => part.lateness_ns.iter().map(|l| l - least).collect(),
            Series::UntilUnpark => part.until_unpark_ns.iter().flatten().copied().collect(),
            Series::AfterUnpark => stamped().filter_map(|(l, u)| u.map(|u| l - u)).collect(),
        }
    };
    rounds.iter().map(|r| r.parts.iter().flat_map(of).collect()).collect()
}

fn median_round(rounds: &[Round], q: f64) -> (Option<f64>, Option<[f64; 2]>) {
    let of = |round: Vec<i64>| {
        let mut sorted = round;
        sorted.sort_unstable();
        quantile::nearest_rank(&sorted, q).filter(|_| quantile::is_carried_by_round(sorted.len(), q))
    };
    let values: Option<Vec<i64>> = series_of(Series::Lateness, rounds).into_iter().map(of).collect();
    let Some((value, interval)) = values.and_then(|v| sign_test::median_interval(&v, CONFIDENCE)) else {
        return (None, None);
    };
    let interval = interval.filter(|_| rounds.len() >= bootstrap::MIN_ROUNDS);
    (Some(value as f64), interval.map(|i| i.map(|ns| ns as f64)))
}

/// A cost for each tick asked for; unknown if it is unknown of any round.
fn cost(rounds: &[Round], per_tick: impl Fn(&Round) -> Option<f64>) -> (Option<f64>, Option<[f64; 2]>) {
    let sums = |r: &Round| per_tick(r).map(|c| (c * r.asked() as f64, r.asked() as f64));
    rounds.iter().map(sums).collect::<Option<Vec<_>>>().map_or((None, None), ratio)
}

/// A quotient of two sums over rounds.
fn ratio(rounds: Vec<(f64, f64)>) -> (Option<f64>, Option<[f64; 2]>) {
    let (over, under) = rounds.iter().fold((0.0, 0.0), |sum, r| (sum.0 + r.0, sum.1 + r.1));
    ((under > 0.0).then(|| over / under), bootstrap::ratio_interval(&rounds, CONFIDENCE))
}

/// A number of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    /// Over all rounds; `None` where the ticks do not carry it or the platform does not tell it.
    pub value: Option<f64>,
    /// 99 % interval over rounds; `None` below 10 rounds, and for the least and the largest value.
    pub interval: Option<[f64; 2]>,
    /// Rounds it is of.
    pub rounds: usize,
    /// Ticks asked for in them.
    pub ticks: u64,
    /// The least or the largest value: a fact of the run, of which no interval can be had.
    extreme: bool,
    unknown_cost: bool,
}

impl Measured {
    /// Ticks that would probably decide a limit that these leave open; `None` if it is decided, or no number would.
    ///
    /// An interval narrows with the root of the rounds: how many until it no longer holds the limit?
    #[must_use]
    pub fn ticks_to_decide(&self, limit: f64) -> Option<u64> {
        let (value, [low, high]) = (self.value?, self.interval?);
        if self.judge(limit).1 != Some(Reason::TooNoisy) {
            return None;
        }
        let room = if value <= limit { (high - value) / (limit - value) } else { (value - low) / (value - limit) };
        let factor = (room * room).max(1.0);
        (factor.is_finite() && factor < 1e6).then(|| (self.ticks as f64 * factor).ceil() as u64 + 1)
    }

    /// Holds it against a limit.
    ///
    /// The least and the largest value have no interval: the limit holds for the ticks that were measured, and one
    /// stall of the machine breaks it.
    #[must_use]
    pub fn judge(&self, limit: f64) -> (Outcome, Option<Reason>) {
        let open = |reason| (Outcome::Inconclusive, Some(reason));
        let Some(value) = self.value else {
            return open(if self.unknown_cost { Reason::NotMeasured } else { Reason::TooFewTicks });
        };
        if self.rounds < bootstrap::MIN_ROUNDS {
            return open(Reason::TooFewRounds);
        }
        let interval = if self.extreme { Some([value; 2]) } else { self.interval };
        match interval {
            None => open(Reason::TooFewTicks),
            Some([low, _]) if low > limit => (Outcome::LimitBroken, None),
            Some([_, high]) if high <= limit => (Outcome::Pass, None),
            Some(_) => open(Reason::TooNoisy),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(lateness_ns: Vec<i64>) -> Round {
        let n = lateness_ns.len();
        let part = RoundSamples {
            grid: Grid { period_ns: 500_000, first_tick: 0, ticks: n as u64 },
            ticks: (0..n as u64).collect(),
            until_unpark_ns: vec![None; n],
            lateness_ns,
            coalesced: 0,
        };
        Round { parts: vec![part], cpu_ns_per_tick: None, wakeups_per_tick: Some(2.0) }
    }

    /// Rounds of a hundred ticks, every one of them `level(round)` late and some more.
    fn rounds(n: i64, level: impl Fn(i64) -> i64) -> Vec<Round> {
        (0..n).map(|r| round((0..100).map(|k| level(r) + k).collect())).collect()
    }

    fn judge(path: &str, rounds: &[Round], limit: f64) -> (Outcome, Option<Reason>) {
        Path::find(path).unwrap().measure(rounds).judge(limit)
    }

    #[test]
    fn every_number_of_a_summary_is_found_by_its_path() {
        for path in Path::all() {
            assert_eq!(Path::find(&path.to_string()), Ok(path.clone()));
        }
        for (short, full) in [
            ("p50", "lateness_ns.p50"),
            ("p99.99", "lateness_ns.p99_99"),
            ("max", "lateness_ns.max"),
            ("jitter_spread.p99.9", "jitter_spread_ns.p99_9"),
            ("median_round.p99", "median_round_ns.p99"),
            ("missed", "missed"),
        ] {
            assert_eq!(Path::find(short).unwrap().to_string(), full);
        }
        for unknown in
            ["", "p98", "p99.999", "lateness", "lateness_ns.", "jitter.p99", "missed.p50", "lateness_ns.p50.x"]
        {
            assert_eq!(Path::find(unknown), Err(PathError::Unknown), "{unknown}");
        }
        assert_eq!(Path::find("elapsed_ns"), Err(PathError::OfTheLength));
    }

    #[test]
    fn a_limit_is_broken_kept_or_not_known() {
        // The median of a round wanders between 10 and 30 us.
        let uneven = rounds(40, |r| 10_000 + 20_000 * (r % 2));
        assert_eq!(judge("p50", &uneven, 9_000.0), (Outcome::LimitBroken, None));
        assert_eq!(judge("p50", &uneven, 40_000.0), (Outcome::Pass, None));
        assert_eq!(judge("p50", &uneven, 20_000.0), (Outcome::Inconclusive, Some(Reason::TooNoisy)));
        let more = Path::find("p50").unwrap().measure(&uneven).ticks_to_decide(20_000.0);
        assert!(more.is_some_and(|ticks| ticks > 4_000), "{more:?}");
        assert_eq!(judge("p50", &uneven[..9], 1.0), (Outcome::Inconclusive, Some(Reason::TooFewRounds)));
        assert_eq!(judge("p99_99", &uneven, 1.0), (Outcome::Inconclusive, Some(Reason::TooFewTicks)));
    }

    #[test]
    fn a_value_at_the_limit_keeps_it() {
        let even = rounds(20, |_| 10_000);
        assert_eq!(judge("p50", &even, 10_049.0), (Outcome::Pass, None));
        assert_eq!(judge("p50", &even, 10_048.0), (Outcome::LimitBroken, None));
        assert_eq!(judge("max", &even, 10_099.0), (Outcome::Pass, None));
        assert_eq!(judge("max", &even, 10_098.0), (Outcome::LimitBroken, None));
        assert_eq!(Path::find("max").unwrap().measure(&even).interval, None, "the largest value has no interval");
    }

    #[test]
    fn numbers_other_than_lateness_have_their_own_units() {
        let mut some = rounds(20, |_| 10_000);
        // One round of twenty has ten ticks of a hundred that are late by a period.
        some[7].parts[0].lateness_ns[..10].fill(500_000);
        let measured = |path: &str| Path::find(path).unwrap().measure(&some);
        assert_eq!(measured("missed").value, Some(0.5));
        assert!(measured("missed").interval.is_some_and(|[low, high]| low == 0.0 && (1.0..5.0).contains(&high)));
        assert_eq!((measured("delivered").value, measured("early").value), (Some(100.0), Some(0.0)));
        assert_eq!(
            (measured("wakeups_per_tick").value, measured("wakeups_per_tick").interval),
            (Some(2.0), Some([2.0; 2]))
        );
        assert_eq!(measured("cpu_ns_per_tick").judge(1.0), (Outcome::Inconclusive, Some(Reason::NotMeasured)));
        assert_eq!(measured("no_park").value, None, "nobody watched for parks");
        assert_eq!(measured("jitter_spread.p50").value, Some(50.0));
        // Each tick is a nanosecond later than the one before: 1 ns in 500 us.
        let even = rounds(20, |_| 10_000);
        let drift = Path::find("drift_ppb").unwrap().measure(&even);
        assert!((drift.value.unwrap() - 2_000.0).abs() < 1e-6, "{drift:?}");
    }

    #[test]
    fn what_a_number_of_ticks_cannot_carry_is_known_before() {
        let least = |path: &str, round: u64| Path::find(path).unwrap().least_ticks(round);
        assert_eq!(least("p99", 250), Some(500));
        assert_eq!(least("p99.9", 250), Some(5_000));
        assert_eq!((least("median_round.p99", 250), least("median_round.p99", 100)), (Some(2_500), None));
        assert_eq!(least("missed", 250), Some(1));
    }
}
