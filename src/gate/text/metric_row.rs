//! The row of a judged metric, which explains the rule that decided it.

use cli::time::format_percent;
use files::gate::verdict::{JudgedNumber, StallLift};
use jitterstat::gate::decision::{Outcome, Reason};

use crate::gate::text::{
    Explanation, Row, format_change, format_option, format_range, format_tolerance,
};

/// A judged metric, whichever question it answers.
pub struct MetricView<'a> {
    pub name: &'a str,
    pub judged: &'a JudgedNumber,
    pub lift: Option<&'a StallLift>,
}

impl MetricView<'_> {
    /// Builds the row of the metric. `cells` are the values of the sides; `class` and `case` name
    /// the test case in JUnit.
    pub fn row(&self, class: &str, case: &str, mut cells: Vec<String>) -> Row {
        let JudgedNumber { ratio, ratio_interval, tolerated_ratio, .. } = *self.judged;
        let has_ratio = ratio.is_some();
        let ratio = format_option(ratio, format_change);
        let interval =
            format_option(ratio_interval, |[low, high]| format_range(low, high, format_change));
        let tolerated = format_tolerance(tolerated_ratio);
        // Decided without a ratio: a change from or to zero.
        let change = match has_ratio || self.judged.is_inconclusive() {
            true => format!("{} {ratio} ({interval})", self.name),
            false => format!("{}, which is zero on one side,", self.name),
        };
        let explanation = self.explanation(&change, &tolerated);
        cells.extend([ratio, interval, tolerated]);
        Row {
            name: self.name.to_owned(),
            cells,
            verdict: self.judged.verdict,
            class: class.to_owned(),
            case: case.to_owned(),
            explanation,
        }
    }

    /// Describes the rule that decided, with its numbers.
    fn explanation(&self, change: &str, tolerated: &str) -> Explanation {
        let name = self.name;
        let sentence = match (self.judged.verdict, self.judged.reason) {
            // Above half of the tolerance, an interval that reaches the tolerance is a regression.
            (Outcome::Regressed | Outcome::LimitBroken, _) if self.is_within_tolerance() => {
                format!("{change} reaches {tolerated}")
            }
            (Outcome::Regressed | Outcome::LimitBroken, _) => {
                format!("{change} exceeds {tolerated}")
            }
            (Outcome::Pass, _) => format!("{change} is within {tolerated}"),
            (Outcome::Improved, _) => format!("{change} is an improvement"),
            (Outcome::Inconclusive, Some(reason)) => match (reason, self.lift) {
                (Reason::StallDominated, Some(lift)) => explain_stalls(name, lift, tolerated),
                (Reason::NotClear, _) => {
                    format!("{change} is worse, but not clearly beyond {tolerated}")
                }
                (Reason::TooNoisy, _) => self.explain_noise(change, tolerated),
                (reason, _) => return Explanation::Reason(reason),
            },
            (Outcome::Inconclusive, None) => change.to_owned(),
        };
        Explanation::Sentence(sentence)
    }

    /// Returns whether the estimated change is tolerated. The tolerated ratio is below 1 if higher
    /// values are better.
    fn is_within_tolerance(&self) -> bool {
        let tolerated = self.judged.tolerated_ratio;
        let is_within =
            |ratio: f64| if tolerated < 1.0 { ratio > tolerated } else { ratio < tolerated };
        self.judged.ratio.is_some_and(is_within)
    }

    fn explain_noise(&self, change: &str, tolerated: &str) -> String {
        let both = self.lift.map_or(1.0, |lift| lift.both);
        let tolerated_ratio = self.judged.tolerated_ratio;
        match self.judged.ratio_interval {
            // The interval alone would pass; stalls that raise both sides could hide a change.
            Some([_, high]) if high < tolerated_ratio && high >= tolerated_ratio / both => {
                let raised = format_percent(both - 1.0);
                format!(
                    "{change} is within {tolerated}, but stalls raise both sides by {raised} and could hide more"
                )
            }
            _ => format!("{change} may or may not exceed {tolerated}"),
        }
    }
}

fn explain_stalls(name: &str, lift: &StallLift, tolerated: &str) -> String {
    let consequence = format!("and could hide a rise of {tolerated}");
    if 2.0 * (lift.both - 1.0) >= lift.late_anyway - 1.0 {
        let rise = format_percent(lift.both - 1.0);
        format!("stalls raise {name} of both sides by {rise}, {consequence}")
    } else {
        let rise = format_percent(lift.late_anyway - 1.0);
        format!(
            "stalls raise {name} by {rise} on a side that is late even without them, {consequence}"
        )
    }
}
