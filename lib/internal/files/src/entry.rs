//! The measured subjects of one or several reports as one list, each with a unique name.

use crate::report::{Report, Subject, Summary};

/// A measured subject and its report.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    /// Number of its report in the list of given reports, from 1.
    pub source: usize,
    several: bool,
    /// The report that contains it.
    pub report: &'a Report,
    /// The subject.
    pub subject: &'a Subject,
    /// Its summary.
    pub summary: &'a Summary,
}

impl Entry<'_> {
    /// Returns the subject's id, prefixed with the report's number if there are several reports.
    pub fn name(&self) -> String {
        if self.several {
            format!("{}:{}", self.source, self.subject.id)
        } else {
            self.subject.id.clone()
        }
    }

    /// Returns the nominal period; `None` if the source of the report does not state it.
    pub fn period_ns(&self) -> Option<u64> {
        Some(self.subject.period_ns).filter(|&period_ns| period_ns > 0)
    }

    /// Returns the number of missed ticks; `None` if it is not known.
    pub fn missed(&self) -> Option<u64> {
        self.summary.missed.filter(|_| self.subject.period_ns > 0)
    }

    /// Returns a number of skipped, coalesced or early ticks; `None` in a report of another tool,
    /// since none of them tells these apart. Older reports have 0 for unknown numbers.
    pub fn class_count(&self, count: Option<u64>) -> Option<u64> {
        count.filter(|_| self.report.is_own())
    }
}

/// Returns all measured subjects in order.
pub fn entries(reports: &[Report]) -> impl Iterator<Item = Entry<'_>> + Clone {
    let several = reports.len() > 1;
    let mut entries = Vec::new();
    for (source, report) in (1..).zip(reports) {
        for subject in &report.subjects {
            if let Some(summary) = &subject.summary {
                entries.push(Entry { source, several, report, subject, summary });
            }
        }
    }
    entries.into_iter()
}

/// Returns the summaries of the measured subjects of a report.
pub fn summaries(report: &Report) -> impl Iterator<Item = &Summary> + Clone {
    report.subjects.iter().filter_map(|subject| subject.summary.as_ref())
}
