//! The outcomes of a gate.

use std::fmt;

/// The outcome for a percentile, a limit, or the whole gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
pub enum Outcome {
    /// No rise beyond the tolerance.
    Pass,
    /// A pass with a clear improvement.
    Improved,
    /// A rise that is neither chance nor within the tolerance.
    Regressed,
    /// A value above a given limit.
    LimitBroken,
    /// The measurement does not decide the question.
    Inconclusive,
}

impl Outcome {
    /// Returns the worst of several outcomes. The result is `Improved` if one outcome is and the
    /// others pass, and `Inconclusive` without an outcome.
    ///
    /// ```
    /// use jitterstat::gate::decision::Outcome::{self, Improved, Inconclusive, Pass, Regressed};
    /// assert_eq!(Outcome::worst_of([Pass, Improved]), Improved);
    /// assert_eq!(Outcome::worst_of([Inconclusive, Regressed, Pass]), Regressed);
    /// ```
    #[must_use]
    pub fn worst_of(outcomes: impl IntoIterator<Item = Self>) -> Self {
        outcomes.into_iter().max_by_key(Self::severity).unwrap_or(Self::Inconclusive)
    }

    fn severity(&self) -> u8 {
        match self {
            Self::Pass => 0,
            Self::Improved => 1,
            Self::Inconclusive => 2,
            Self::LimitBroken => 3,
            Self::Regressed => 4,
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Pass => "pass",
            Self::Improved => "pass (improved)",
            Self::Regressed => "regressed",
            Self::LimitBroken => "limit broken",
            Self::Inconclusive => "inconclusive",
        })
    }
}

/// The reason for an inconclusive outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
pub enum Reason {
    /// The interval is too wide.
    TooNoisy,
    /// Stalls raise the percentile by so much that they could mask a change of the tolerated size.
    StallDominated,
    /// A screen found a change for the worse that is not clearly beyond the tolerance.
    NotClear,
    /// There are too few rounds for an interval.
    TooFewRounds,
    /// There are too few ticks for the percentile.
    TooFewTicks,
    /// The measurement was interrupted.
    Interrupted,
    /// More ticks of a side came before their deadlines than errors of a clock explain.
    EarlyTicks,
    /// Ticks of a side were never delivered, so that their lateness is unknown.
    LostTicks,
    /// Stalls, each of which counts once, delayed clearly more ticks of one side than of the other.
    UnequalStalls,
    /// A side left processes running, whose work is missing from its values.
    LeftOverProcesses,
    /// A value could not be measured.
    NotMeasured,
    /// Benchmarks ran that could not be judged.
    NotJudged,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TooNoisy => "the rounds differ too much from each other",
            Self::StallDominated => {
                "stalls of the machine are so long that they could hide a change"
            }
            Self::NotClear => "the change is not clearly beyond the tolerance",
            Self::TooFewRounds => "there are too few rounds for an interval",
            Self::TooFewTicks => "there are too few ticks for this percentile",
            Self::Interrupted => "it was interrupted",
            Self::EarlyTicks => "ticks of a side came before their deadlines",
            Self::LostTicks => "ticks of a side were never delivered",
            Self::UnequalStalls => {
                "stalls delayed clearly more ticks of one side than of the other"
            }
            Self::LeftOverProcesses => "a side left processes running, and their work is missing",
            Self::NotMeasured => "something could not be measured",
            Self::NotJudged => "there are benchmarks that were not judged",
        })
    }
}
