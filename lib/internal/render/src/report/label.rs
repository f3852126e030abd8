//! Names of subjects for people. Parameters that all subjects of a report share are in the title
//! instead of every name.

use std::collections::{BTreeMap, BTreeSet};

use cli::units::format_exact_ns;
use cli::words::prefix_or_empty;
use files::report::{Report, Subject};

use crate::picture::palette::{Sign, Signs};

/// Returns whether a subject is a program of the user.
pub fn is_program(report: &Report, subject: &Subject) -> bool {
    let mut scenarios = report.plan.scenarios.iter();
    scenarios.any(|scenario| scenario.id == subject.id && scenario.command.is_some())
}

/// Returns the reason for which a subject has no summary.
pub fn unmeasured_reason(subject: &Subject) -> &str {
    subject.status.failure().unwrap_or("no tick came")
}

/// Describes the failure of a subject, if it failed, by whether it has numbers of earlier rounds.
pub fn failure_note(subject: &Subject) -> Option<String> {
    let (id, reason) = (&subject.id, subject.status.failure()?);
    let extent = if has_failed_late(subject) { FAILED_LATE } else { "not measured" };
    Some(format!("{id}: {extent}: {reason}"))
}

/// Returns the notes on the subjects that have numbers although they failed.
pub fn late_failure_notes(report: &Report) -> impl Iterator<Item = String> {
    report.subjects.iter().filter(|subject| has_failed_late(subject)).filter_map(failure_note)
}

/// Words for a subject that has numbers although it failed.
pub const FAILED_LATE: &str = "failed after its first rounds";

/// Returns whether a subject has numbers although it failed.
pub(super) fn has_failed_late(subject: &Subject) -> bool {
    subject.summary.is_some() && subject.status.failure().is_some()
}

/// The names of the subjects of one report, in its order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Labels {
    /// One name per subject, unique within the report.
    pub names: Vec<String>,
    /// Parameters shared by all subjects, for a title: `period 500us, current-thread`. May be
    /// empty.
    pub shared: String,
}

/// Returns the names of the subjects of a report.
pub fn labels(report: &Report) -> Labels {
    let shared = SharedParameters::from_subjects(&report.subjects);
    let mut alike: BTreeMap<(Parameters<'_>, Option<u64>), u64> = BTreeMap::new();
    let cpus = concurrent_cpus(report);
    for (subject, &cpu) in report.subjects.iter().zip(&cpus) {
        *alike.entry((Parameters::new(subject), cpu)).or_default() += 1;
    }
    let mut names = Vec::new();
    for (subject, &cpu) in report.subjects.iter().zip(&cpus) {
        let has_twin = alike[&(Parameters::new(subject), cpu)] > 1;
        names.push(if has_twin { subject.id.clone() } else { shared.distinguish(subject, cpu) });
    }
    Labels { names, shared: shared.describe() }
}

/// Returns the CPU of each subject that ran on several CPUs at once, in the order of the report.
pub fn concurrent_cpus(report: &Report) -> Vec<Option<u64>> {
    let mut cpus: BTreeMap<&str, u64> = BTreeMap::new();
    for scenario in &report.plan.scenarios {
        if let Some(cpu) = scenario.cpu {
            cpus.insert(&scenario.id, cpu);
        }
    }
    report.subjects.iter().map(|subject| cpus.get(subject.id.as_str()).copied()).collect()
}

/// The parameters that all subjects of a report have in common.
struct SharedParameters<'a> {
    period_ns: Option<u64>,
    runtime: Option<&'a str>,
    /// The load, `None` within if all subjects ran without one.
    load: Option<Option<&'a str>>,
}

impl<'a> SharedParameters<'a> {
    fn from_subjects(subjects: &'a [Subject]) -> Self {
        Self {
            period_ns: common_value(subjects.iter().map(|s| s.period_ns)),
            runtime: common_value(subjects.iter().filter_map(|s| s.runtime.as_deref())),
            load: common_value(subjects.iter().map(|s| s.load.as_deref())),
        }
    }

    /// Formats the shared parameters for a title.
    fn describe(&self) -> String {
        let mut parameters = Vec::new();
        if let Some(ns) = self.period_ns.filter(|&ns| ns > 0) {
            parameters.push(format!("period {}", format_exact_ns(ns)));
        }
        parameters.extend(self.runtime.map(str::to_owned));
        parameters.extend(self.load.flatten().map(|load| format!("load {load}")));
        parameters.join(", ")
    }

    /// Returns the name of a subject with the parameters that are not shared.
    fn distinguish(&self, subject: &Subject, cpu: Option<u64>) -> String {
        let mut name = subject.name.clone();
        if subject.instances > 1 {
            name += &format!("*{}", subject.instances);
        }
        if self.period_ns.is_none() && subject.period_ns > 0 {
            name += &format!("@{}", format_exact_ns(subject.period_ns));
        }
        if self.runtime.is_none() {
            name += &prefix_or_empty("/", subject.runtime.as_ref());
        }
        name += &prefix_or_empty("/cpu-", cpu);
        if self.load.is_none() {
            name += &prefix_or_empty("+", subject.load.as_ref());
        }
        name
    }
}

/// Returns the signs of the subjects of several reports, by report and subject.
///
/// A name has the same sign in all reports, at all periods. Another runtime, number of instances or
/// load is a variant of it with a different form.
pub fn signs(reports: &[Report]) -> Vec<Vec<Sign>> {
    let mut variants: BTreeMap<&str, BTreeSet<Variant<'_>>> = BTreeMap::new();
    for report in reports {
        for subject in &report.subjects {
            let known = variants.entry(sign_name(report, subject)).or_default();
            known.insert(Variant::new(subject));
        }
    }
    let mut numbered: Vec<Vec<(&str, usize)>> = Vec::new();
    for report in reports {
        let mut subjects = Vec::new();
        for subject in &report.subjects {
            let (name, variant) = (sign_name(report, subject), Variant::new(subject));
            subjects.push((name, variants[&name].range(..variant).count()));
        }
        numbered.push(subjects);
    }
    let signs = Signs::from_names(numbered.iter().flatten().copied());
    let subject_signs = |subjects: &Vec<(&str, usize)>| {
        subjects.iter().map(|&(name, variant)| signs.sign(name, variant)).collect()
    };
    numbered.iter().map(subject_signs).collect()
}

/// The parameters by which subjects with the same name have different signs.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Variant<'a> {
    runtime: Option<&'a str>,
    instances: u64,
    load: Option<&'a str>,
}

impl<'a> Variant<'a> {
    fn new(subject: &'a Subject) -> Self {
        Self {
            runtime: subject.runtime.as_deref(),
            instances: subject.instances,
            load: subject.load.as_deref(),
        }
    }
}

/// Returns the name by which a sign is assigned: that of the subject, or its id if another subject
/// differs in nothing else.
fn sign_name<'a>(report: &'a Report, subject: &'a Subject) -> &'a str {
    let parameters = Parameters::new(subject);
    let is_alike = |other: &&Subject| Parameters::new(other) == parameters;
    let has_twin = report.subjects.iter().filter(is_alike).count() > 1;
    if has_twin { &subject.id } else { &subject.name }
}

/// The parameters that distinguish subjects by name.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Parameters<'a> {
    name: &'a str,
    period_ns: u64,
    variant: Variant<'a>,
}

impl<'a> Parameters<'a> {
    fn new(subject: &'a Subject) -> Self {
        let variant = Variant::new(subject);
        Self { name: &subject.name, period_ns: subject.period_ns, variant }
    }
}

/// Returns the value shared by all items, if there is one.
fn common_value<T: PartialEq + Copy>(mut values: impl Iterator<Item = T>) -> Option<T> {
    let first = values.next()?;
    values.all(|v| v == first).then_some(first)
}

#[cfg(test)]
mod tests {
    use super::common_value;

    #[test]
    fn common_value_is_shared_by_all() {
        assert_eq!(common_value([5, 5].into_iter()), Some(5));
        assert_eq!(common_value([5, 6].into_iter()), None);
        assert_eq!(common_value(std::iter::empty::<u8>()), None);
    }
}
