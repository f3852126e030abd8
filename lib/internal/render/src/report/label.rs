//! Names of subjects for people. Parameters that all subjects of a report share are in the title
//! instead of every name.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use cli::units;
use files::report::{Report, Status, Subject};

use crate::picture::palette::{Sign, Signs};

/// The subjects that measure the machine itself.
const CONTROLS: [&str; 2] = ["nanosleep", "spin"];

/// Whether a subject is a control, which is measured for comparison only.
pub fn is_control(name: &str) -> bool {
    CONTROLS.contains(&name)
}

/// Returns the reason for which a subject has no summary.
pub fn unmeasured_reason(subject: &Subject) -> &str {
    match &subject.status {
        Status::Failed { reason } => reason,
        _ => "no tick came",
    }
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
    let subjects = &report.subjects;
    let period = common_value(subjects.iter().map(|s| s.period_ns));
    let runtime = common_value(subjects.iter().filter_map(|s| s.runtime.as_deref()));
    let load = common_value(subjects.iter().map(|s| s.load.as_deref()));
    let mut alike: BTreeMap<Key<'_>, u64> = BTreeMap::new();
    for subject in subjects {
        *alike.entry(key(subject)).or_default() += 1;
    }
    let twins = |s: &Subject| alike.get(&key(s)).is_some_and(|&n| n > 1);
    let names = subjects.iter().map(|s| {
        if twins(s) {
            return s.id.clone();
        }
        let at = if period.is_none() && s.period_ns > 0 {
            format!("@{}", format_period(s.period_ns))
        } else {
            String::new()
        };
        let on = s
            .runtime
            .as_ref()
            .filter(|_| runtime.is_none())
            .map_or(String::new(), |r| format!("/{r}"));
        let many = if s.instances > 1 { format!("*{}", s.instances) } else { String::new() };
        let load_suffix = s
            .load
            .as_ref()
            .filter(|_| load.is_none())
            .map_or(String::new(), |load| format!("+{load}"));
        format!("{}{many}{at}{on}{load_suffix}", s.name)
    });
    let shared = [
        period.filter(|&ns| ns > 0).map(|ns| format!("period {}", format_period(ns))),
        runtime.map(str::to_owned),
        load.flatten().map(|load| format!("load {load}")),
    ];
    Labels {
        names: names.collect(),
        shared: shared.into_iter().flatten().collect::<Vec<_>>().join(", "),
    }
}

/// Returns the signs of the subjects of several reports, by report and subject.
///
/// A name has the same sign in all reports, at all periods. Another runtime, number of instances or
/// load is a variant of it with a different form.
pub fn signs(reports: &[Report]) -> Vec<Vec<Sign>> {
    type Variant<'a> = (Option<&'a str>, u64, Option<&'a str>);
    type Appearance = (String, Option<String>, u64, Option<String>);
    let appearance = |report: &'_ Report, subject: &'_ Subject| -> Appearance {
        let twins = report.subjects.iter().filter(|other| key(other) == key(subject)).count() > 1;
        let name = if twins { &subject.id } else { &subject.name };
        (name.clone(), subject.runtime.clone(), subject.instances, subject.load.clone())
    };
    let appearances: Vec<Vec<Appearance>> = reports
        .iter()
        .map(|report| report.subjects.iter().map(|subject| appearance(report, subject)).collect())
        .collect();
    let mut variants: BTreeMap<&str, BTreeSet<Variant<'_>>> = BTreeMap::new();
    fn variant((_, runtime, instances, load): &Appearance) -> Variant<'_> {
        (runtime.as_deref(), *instances, load.as_deref())
    }
    for subject in appearances.iter().flatten() {
        variants.entry(&subject.0).or_default().insert(variant(subject));
    }
    let variant_index = |subject: &Appearance| {
        variants[subject.0.as_str()].iter().position(|v| *v == variant(subject)).unwrap_or(0)
    };
    let signs = Signs::from_names(
        appearances.iter().flatten().map(|subject| (subject.0.as_str(), variant_index(subject))),
    );
    appearances
        .iter()
        .map(|report| {
            report.iter().map(|subject| signs.sign(&subject.0, variant_index(subject))).collect()
        })
        .collect()
}

/// The parameters that distinguish subjects by name.
type Key<'a> = (&'a str, u64, Option<&'a str>, u64, Option<&'a str>);

fn key(subject: &Subject) -> Key<'_> {
    (
        &subject.name,
        subject.period_ns,
        subject.runtime.as_deref(),
        subject.instances,
        subject.load.as_deref(),
    )
}

fn format_period(period_ns: u64) -> String {
    units::format_exact_duration(Duration::from_nanos(period_ns))
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
