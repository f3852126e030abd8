//! The measured subjects of one or several reports as one list, each with a unique name.

use files::report::{Report, Subject, Summary};

/// A measured subject and its report.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    /// Number of its report in the list of given reports, from 1.
    pub source: usize,
    several: bool,
    pub report: &'a Report,
    pub subject: &'a Subject,
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
