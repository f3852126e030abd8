//! The measured subjects of one or several reports under one roof, each with a name that is unique among them.

use jitterstat::report::{Report, Subject, Summary};

/// A measured subject, and where it comes from.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    /// Place of its report among those given, from 1.
    pub source: usize,
    /// Whether there are others.
    several: bool,
    /// Its report.
    pub report: &'a Report,
    /// Itself.
    pub subject: &'a Subject,
    /// Its numbers.
    pub summary: &'a Summary,
}

impl Entry<'_> {
    /// The subject's id; with the report's number before it where there are several reports.
    pub fn name(&self) -> String {
        if self.several { format!("{}:{}", self.source, self.subject.id) } else { self.subject.id.clone() }
    }
}

/// All that were measured, in order.
pub fn entries(reports: &[Report]) -> impl Iterator<Item = Entry<'_>> {
    let several = reports.len() > 1;
    (1..).zip(reports).flat_map(move |(source, report)| {
        report.subjects.iter().filter_map(move |subject| {
            Some(Entry { source, several, report, subject, summary: subject.summary.as_ref()? })
        })
    })
}

/// The percentiles of a distribution by their names in the report, those that the sample carries.
pub fn percentiles(d: &jitterstat::report::Distribution) -> impl Iterator<Item = (&'static str, f64, i64)> {
    let all = [
        ("p50", 0.5, d.p50),
        ("p90", 0.9, d.p90),
        ("p99", 0.99, d.p99),
        ("p99_9", 0.999, d.p99_9),
        ("p99_99", 0.9999, d.p99_99),
    ];
    all.into_iter().filter_map(|(name, q, value)| Some((name, q, value?)))
}
