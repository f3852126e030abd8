//! The measured subjects of one or several reports under one roof, each with a name that is unique
//! among them.

use files::report::{Report, Subject, Summary};

/// A measured subject, and where it comes from.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    /// Place of its report among those given, from 1.
    pub source: usize,
    several: bool,
    pub report: &'a Report,
    pub subject: &'a Subject,
    pub summary: &'a Summary,
}

impl Entry<'_> {
    /// The subject's id; with the report's number before it where there are several reports.
    pub fn name(&self) -> String {
        if self.several {
            format!("{}:{}", self.source, self.subject.id)
        } else {
            self.subject.id.clone()
        }
    }
}

/// All that were measured, in order.
pub fn entries(reports: &[Report]) -> impl Iterator<Item = Entry<'_>> + Clone {
    let several = reports.len() > 1;
    (1..).zip(reports).flat_map(move |(source, report)| {
        report.subjects.iter().filter_map(move |subject| {
            Some(Entry { source, several, report, subject, summary: subject.summary.as_ref()? })
        })
    })
}
