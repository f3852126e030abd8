//! Names for people: what all subjects of a report share stands in the title, not in every line.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use cli::units;
use files::report::{Report, Status, Subject};

use crate::picture::palette::{Sign, Signs};

/// The subjects that show what the machine could give just then.
const CONTROLS: [&str; 2] = ["nanosleep", "spin"];

/// Whether a subject is there for comparison only.
pub fn is_control(name: &str) -> bool {
    CONTROLS.contains(&name)
}

/// Why a subject has no summary.
pub fn why_unmeasured(subject: &Subject) -> &str {
    match &subject.status {
        Status::Failed { reason } => reason,
        _ => "no tick came",
    }
}

/// How the subjects of one report are called, in its order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Labels {
    /// One name a subject, unique within the report.
    pub names: Vec<String>,
    /// What the names leave out, for a title: `period 500us, current-thread`; may be empty.
    pub shared: String,
}

/// Names the subjects of a report.
pub fn labels(report: &Report) -> Labels {
    let subjects = &report.subjects;
    let period = shared(subjects.iter().map(|s| s.period_ns));
    let runtime = shared(subjects.iter().filter_map(|s| s.runtime.as_deref()));
    let load = shared(subjects.iter().map(|s| s.load.as_deref()));
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
            format!("@{}", short(s.period_ns))
        } else {
            String::new()
        };
        let on = s
            .runtime
            .as_ref()
            .filter(|_| runtime.is_none())
            .map_or(String::new(), |r| format!("/{r}"));
        let many = if s.instances > 1 { format!("*{}", s.instances) } else { String::new() };
        let beside = s
            .load
            .as_ref()
            .filter(|_| load.is_none())
            .map_or(String::new(), |load| format!("+{load}"));
        format!("{}{many}{at}{on}{beside}", s.name)
    });
    let shared = [
        period.filter(|&ns| ns > 0).map(|ns| format!("period {}", short(ns))),
        runtime.map(str::to_owned),
        load.flatten().map(|load| format!("load {load}")),
    ];
    Labels {
        names: names.collect(),
        shared: shared.into_iter().flatten().collect::<Vec<_>>().join(", "),
    }
}

/// How the subjects of several reports look, each where it stands: a name has one sign on all of
/// them. The same on another runtime, in another number, or beside another load, is a variant of
/// it; at another period it looks the same.
pub fn signs(reports: &[Report]) -> Vec<Vec<Sign>> {
    type Variant<'a> = (Option<&'a str>, u64, Option<&'a str>);
    type Look = (String, Option<String>, u64, Option<String>);
    let of = |report: &'_ Report, subject: &'_ Subject| -> Look {
        let twins = report.subjects.iter().filter(|other| key(other) == key(subject)).count() > 1;
        let name = if twins { &subject.id } else { &subject.name };
        (name.clone(), subject.runtime.clone(), subject.instances, subject.load.clone())
    };
    let all: Vec<Vec<Look>> = reports
        .iter()
        .map(|report| report.subjects.iter().map(|subject| of(report, subject)).collect())
        .collect();
    let mut variants: BTreeMap<&str, BTreeSet<Variant<'_>>> = BTreeMap::new();
    fn variant((_, runtime, instances, load): &Look) -> Variant<'_> {
        (runtime.as_deref(), *instances, load.as_deref())
    }
    for look in all.iter().flatten() {
        variants.entry(&look.0).or_default().insert(variant(look));
    }
    let place = |look: &Look| {
        variants[look.0.as_str()].iter().position(|v| *v == variant(look)).unwrap_or(0)
    };
    let signs = Signs::of(all.iter().flatten().map(|subject| (subject.0.as_str(), place(subject))));
    all.iter()
        .map(|report| report.iter().map(|subject| signs.sign(&subject.0, place(subject))).collect())
        .collect()
}

/// What tells subjects apart in a name.
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

fn short(period_ns: u64) -> String {
    units::format_exact_duration(Duration::from_nanos(period_ns))
}

/// The value that all have, if they have one.
fn shared<T: PartialEq + Copy>(mut values: impl Iterator<Item = T>) -> Option<T> {
    let first = values.next()?;
    values.all(|v| v == first).then_some(first)
}

#[cfg(test)]
mod tests {
    use super::shared;

    #[test]
    fn only_what_all_share_is_shared() {
        assert_eq!(shared([5, 5].into_iter()), Some(5));
        assert_eq!(shared([5, 6].into_iter()), None);
        assert_eq!(shared(std::iter::empty::<u8>()), None);
    }
}
