//! The subjects of a summary.

use files::report::{Report, Subject, Summary};
use files::subjects::is_control;

use crate::report::label::labels;

/// A measured subject with the values that the sentences need.
pub struct SubjectLine<'a> {
    /// Index of the subject in the report.
    pub index: usize,
    pub name: String,
    pub subject: &'a Subject,
    pub summary: &'a Summary,
    /// Lateness at the percentile by which the report ranks.
    pub late: i64,
}

/// Returns the subjects whose sample size supports the percentile `ranked`.
pub fn subject_lines<'a>(report: &'a Report, ranked: &str) -> Vec<SubjectLine<'a>> {
    let named = report.subjects.iter().zip(labels(report).names).enumerate();
    let mut lines = Vec::new();
    for (index, (subject, name)) in named {
        let Some(summary) = &subject.summary else { continue };
        let Some(late) = summary.lateness_ns.percentile(ranked) else { continue };
        lines.push(SubjectLine { index, name, subject, summary, late });
    }
    lines
}

impl SubjectLine<'_> {
    pub fn is_control(&self) -> bool {
        is_control(&self.subject.name)
    }
}
