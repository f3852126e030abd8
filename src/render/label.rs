//! Names for people: what all subjects of a report share stands in the title, not in every line.

use std::collections::BTreeMap;
use std::time::Duration;

use jitterstat::report::{Report, Status, Subject};

use crate::text::units;

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

/// When and where a report was made.
pub fn origin(report: &Report) -> String {
    let machine = report.host.cpu_model.as_deref().unwrap_or("unknown CPU");
    format!("{}, {machine}, {}", report.started_utc, report.host.kernel.as_deref().unwrap_or(&report.host.os))
}

/// Names the subjects of a report.
pub fn labels(report: &Report) -> Labels {
    let subjects = &report.subjects;
    let period = shared(subjects.iter().map(|s| s.period_ns));
    let runtime = shared(subjects.iter().filter_map(|s| s.runtime.as_deref()));
    let mut alike: BTreeMap<Key<'_>, u64> = BTreeMap::new();
    for subject in subjects {
        *alike.entry(key(subject)).or_default() += 1;
    }
    let twins = |s: &Subject| alike.get(&key(s)).is_some_and(|&n| n > 1);
    let names = subjects.iter().map(|s| {
        if twins(s) {
            return s.id.clone();
        }
        let at = if period.is_none() && s.period_ns > 0 { format!("@{}", short(s.period_ns)) } else { String::new() };
        let on = s.runtime.as_ref().filter(|_| runtime.is_none()).map_or(String::new(), |r| format!("/{r}"));
        let many = if s.instances > 1 { format!("*{}", s.instances) } else { String::new() };
        format!("{}{many}{at}{on}", s.name)
    });
    let shared = [period.filter(|&ns| ns > 0).map(|ns| format!("period {}", short(ns))), runtime.map(str::to_owned)];
    Labels { names: names.collect(), shared: shared.into_iter().flatten().collect::<Vec<_>>().join(", ") }
}

/// What tells subjects apart in a name.
type Key<'a> = (&'a str, u64, Option<&'a str>, u64);

fn key(subject: &Subject) -> Key<'_> {
    (&subject.name, subject.period_ns, subject.runtime.as_deref(), subject.instances)
}

fn short(period_ns: u64) -> String {
    units::short(Duration::from_nanos(period_ns))
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
