//! The identity of a loop.

use std::time::Duration;

use cli::units::{format_exact_duration, to_ns};
use engine::scenario::Scenario;
use files::bins::cell;
use tickmeter::Snapshot;

/// Identifies a loop. Loops with equal ids are recorded as one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LoopId {
    Probe { subject: String, period_ns: u64, runtime: String },
    Meter { meter: String, period_ns: u64, program: String },
}

impl LoopId {
    pub fn period(&self) -> Duration {
        let (Self::Probe { period_ns, .. } | Self::Meter { period_ns, .. }) = self;
        Duration::from_nanos(*period_ns)
    }

    /// Returns the name that messages show.
    pub fn name(&self) -> String {
        let period = format_exact_duration(self.period());
        match self {
            Self::Probe { subject, .. } => format!("{subject}@{period}"),
            Self::Meter { meter, program, .. } => format!("{meter}@{period} of {program}"),
        }
    }
}

impl From<&Scenario> for LoopId {
    fn from(scenario: &Scenario) -> Self {
        Self::Probe {
            subject: scenario.subject.name(),
            period_ns: scenario.period_ns(),
            runtime: scenario.runtime.map_or(String::new(), |runtime| runtime.to_string()),
        }
    }
}

impl From<&Snapshot> for LoopId {
    fn from(snapshot: &Snapshot) -> Self {
        Self::Meter {
            meter: cell(&snapshot.name).into_owned(),
            period_ns: to_ns(snapshot.period),
            program: cell(&snapshot.program).into_owned(),
        }
    }
}
