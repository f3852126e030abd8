//! What the figures of judged percentiles say: which rule decided, and what would where none did.

use cli::time::format_duration;
use files::gate::verdict::{BaselineMetric, Metric, Mode, PairVerdict, RunMetric, StallLift};
use jitterstat::gate::decision::{Outcome, Reason};

use crate::gate::args::MAX_PAIRS;
use crate::gate::text::{Row, between, change, or_none, percent, tolerated};

/// A percentile of two sides, judged.
pub struct Judged<'a> {
    name: &'a str,
    verdict: Outcome,
    reason: Option<Reason>,
    ratio: Option<f64>,
    interval: Option<[f64; 2]>,
    tolerated: f64,
    lift: Option<&'a StallLift>,
}

macro_rules! judged {
    ($($metric:ty),*) => {$(
        impl<'a> From<&'a $metric> for Judged<'a> {
            fn from(m: &'a $metric) -> Self {
                let (verdict, reason, ratio, interval) = (m.verdict, m.reason, m.ratio, m.ratio_interval);
                Self { name: &m.name, verdict, reason, ratio, interval, tolerated: m.tolerated_ratio, lift: m.lift.as_ref() }
            }
        }
    )*};
}
judged!(Metric, BaselineMetric);

impl<'a> From<&'a RunMetric> for Judged<'a> {
    fn from(m: &'a RunMetric) -> Self {
        Self {
            name: &m.name,
            verdict: m.verdict,
            reason: m.reason,
            ratio: m.ratio,
            interval: m.ratio_interval,
            tolerated: m.tolerated_ratio,
            lift: None,
        }
    }
}

impl Judged<'_> {
    /// What is found of it: its change, the interval of that, and what is tolerated.
    fn cells(&self) -> [String; 3] {
        [
            or_none(self.ratio, change),
            or_none(self.interval, |both| between(both, change)),
            tolerated(self.tolerated),
        ]
    }

    /// Its row: what the sides took, and what is found of it. Class and case are its name as a
    /// test.
    pub fn row(&self, class: &str, case: &str, mut cells: Vec<String>) -> Row {
        cells.extend(self.cells());
        Row {
            name: self.name.to_owned(),
            cells,
            verdict: self.verdict,
            class: class.to_owned(),
            case: case.to_owned(),
            detail: self.because(),
        }
    }

    /// The rule that decided, with the figures.
    pub fn because(&self) -> String {
        let (name, [ratio, interval, tolerated]) = (self.name, self.cells());
        let found = format!("{name} {ratio} ({interval})");
        let both = self.lift.map_or(1.0, |lift| lift.both);
        match (self.verdict, self.reason) {
            // From half of the tolerance on, where the interval reaches it.
            (Outcome::Regressed | Outcome::LimitBroken, _)
                if self.ratio.is_some_and(|r| r < self.tolerated) =>
            {
                format!("{found} reaches {tolerated}")
            }
            (Outcome::Regressed | Outcome::LimitBroken, _) => {
                format!("{found} exceeds {tolerated}")
            }
            (Outcome::Pass, _) => format!("{found} is within {tolerated}"),
            (Outcome::Improved, _) => format!("{found} is an improvement"),
            (_, Some(Reason::StallDominated)) => self.stalled(&tolerated),
            (_, Some(Reason::TooNoisy)) => match self.interval {
                Some([_, high]) if high < self.tolerated && high >= self.tolerated / both => {
                    let raised = percent(both - 1.0);
                    format!(
                        "{found} is within {tolerated}, but not clear of it by the {raised} that stalls raise both sides"
                    )
                }
                _ => format!("{found} may or may not exceed {tolerated}"),
            },
            (_, Some(reason)) => format!("{name}: {reason}"),
            (_, None) => found,
        }
    }

    fn stalled(&self, tolerated: &str) -> String {
        let name = self.name;
        let may = format!("and could hide a rise of {tolerated}");
        match self.lift {
            Some(lift) if 2.0 * (lift.both - 1.0) >= lift.late_anyway - 1.0 => {
                format!("stalls raise {name} of both sides by {}, {may}", percent(lift.both - 1.0))
            }
            Some(lift) => {
                let by = percent(lift.late_anyway - 1.0);
                format!(
                    "stalls raise {name} of a side that is late without them, too, by {by}, {may}"
                )
            }
            None => format!("{name}: {}", Reason::StallDominated),
        }
    }
}

/// What would decide two sides that are left open, or that nothing here would; `None` where they
/// are decided, or were cut short.
pub fn advice(of: &PairVerdict) -> Option<String> {
    let PairVerdict { a, pairs, .. } = of;
    let open: Vec<&Metric> =
        of.metrics.iter().filter(|m| m.verdict == Outcome::Inconclusive).collect();
    let because = |reason| open.iter().filter(move |m| m.reason == Some(reason));
    let subjects = of.plan.cpu.is_some() && a.contains('@');
    let duet = if of.mode == Mode::Interleaved && subjects { ", or try --duet" } else { "" };
    if of.verdict != Outcome::Inconclusive || *pairs == 0 {
        return None;
    }
    if let Some(stalled) = because(Reason::StallDominated).next() {
        let name = &stalled.name;
        return Some(format!(
            "no number of pairs would decide it here: a quieter machine or CPU would, or a wider --tolerance {name}=…%"
        ));
    }
    let undecided = || because(Reason::TooNoisy).chain(because(Reason::TooFewRounds));
    let all: Option<Vec<u64>> =
        undecided().map(|m| m.pairs_to_decide.filter(|&n| n <= MAX_PAIRS)).collect();
    match (undecided().next(), all.and_then(|all| all.into_iter().max())) {
        (None, _) => None,
        (_, Some(n)) => {
            let takes = of.duration_ns as f64 / 1e9 / *pairs as f64 * n as f64;
            Some(format!(
                "about {n} pairs of rounds ({}) would probably decide it: --max-pairs {n}{duet}",
                format_duration(takes)
            ))
        }
        (Some(noisy), None) => Some(format!(
            "more pairs would not decide it here: a quieter machine would, or a wider --tolerance {}=…%{duet}",
            noisy.name
        )),
    }
}

/// What of the rows of two sides a reader may stumble over.
pub fn notes(of: &PairVerdict) -> Vec<String> {
    /// From so many percentage points on, a change is not the ratio of the two medians beside it.
    const APART: f64 = 0.01;
    let note = |m: &Metric| {
        let (name, ratio) = (&m.name, m.b_ns as f64 / m.a_ns.max(1) as f64);
        let half = (m.pairs < of.pairs).then(|| {
            format!(
                "{name} is judged by the quieter half of the pairs, {} of {}.",
                m.pairs, of.pairs
            )
        });
        let apart = m.ratio.filter(|in_pairs| (in_pairs - ratio).abs() > APART).map(|_| {
            format!(
                "The change of {name} is the typical one within a pair; its medians differ by {}.",
                change(ratio)
            )
        });
        half.into_iter().chain(apart)
    };
    of.metrics.iter().flat_map(note).collect()
}
