//! Settings in which subjects of a report differ, so that their comparison is one of unequal
//! threads.

use jitterstat::gate::Sides;

use crate::report::ThreadSettings;
use crate::report::{Report, SettingDifference, SettingName, Subject, SubjectSettings};
use crate::subjects::SLEEPING_CONTROL;

/// Minimum difference in timer slack that is stated. The minimum of the kernel is 1 ns, and a timer
/// without slack has 0.
const MIN_SLACK_NS: u64 = 1_000;

/// States in every subject of a report in which settings it differs from the control or, without
/// one, from the first subject whose settings are known.
pub fn state_differences(report: &mut Report) {
    let Some(reference) = reference(&report.subjects) else { return };
    let name = reference.name.clone();
    let Some(settings) = reference.settings.clone() else { return };
    for subject in &mut report.subjects {
        let Some(own) = &mut subject.settings else { continue };
        own.differences = Vec::new();
        if subject.name != name {
            own.differences = compare(&Sides { base: &settings, candidate: own }, &name);
            // Subjects that ran on several CPUs at once differ in them on purpose.
            let is_bound = subject.cpu.is_some();
            own.differences.retain(|d| !(is_bound && d.setting == SettingName::Affinity));
        }
    }
}

fn reference(subjects: &[Subject]) -> Option<&Subject> {
    let mut known = subjects.iter().filter(|subject| subject.settings.is_some());
    let control = known.clone().find(|subject| subject.name == SLEEPING_CONTROL.name);
    control.or_else(|| known.next())
}

/// Returns the settings in which the candidate differs from the base, which is called `reference`.
#[must_use]
pub fn compare(sides: &Sides<&SubjectSettings>, reference: &str) -> Vec<SettingDifference> {
    let mut differences = Vec::new();
    differences.extend(compare_slack(sides, reference));
    for (setting, format) in FORMATS {
        let [base, candidate] =
            [sides.base, sides.candidate].map(|side| describe_threads(side, format));
        let (Some(base), Some(candidate)) = (base, candidate) else { continue };
        if base != candidate && !has_common_value(sides, format) {
            differences.push(SettingDifference {
                setting,
                value: candidate,
                reference: reference.to_owned(),
                reference_value: base,
                max_cost_ns: None,
            });
        }
    }
    differences
}

/// The settings without a bound of what they cost, and the text of their values.
const FORMATS: [(SettingName, FormatSetting); 4] = [
    (SettingName::Sched, |thread| thread.sched.clone()),
    (SettingName::Nice, format_nice),
    (SettingName::Affinity, |thread| Some(format_cpus(thread.affinity.as_ref()?))),
    (SettingName::Quota, format_quota),
];

/// Returns the text of a setting; `None` if it is not known.
type FormatSetting = fn(&ThreadSettings) -> Option<String>;

/// Formats the nice value, which has no effect on a real-time thread.
fn format_nice(thread: &ThreadSettings) -> Option<String> {
    let is_real_time = thread.sched.as_ref().is_some_and(|class| class.contains(':'));
    thread.nice.filter(|_| !is_real_time).map(|nice| nice.to_string())
}

/// Formats the CPU quota; `None` if the control group cannot be read.
fn format_quota(thread: &ThreadSettings) -> Option<String> {
    match (thread.quota_cpus, thread.has_quota) {
        (Some(cpus), _) => Some(format!("{cpus:.2} CPUs")),
        (None, Some(false)) => Some("none".to_owned()),
        (None, _) => None,
    }
}

/// Formats a sorted list of CPUs: `0-3,8`.
fn format_cpus(cpus: &[usize]) -> String {
    let ranges = cpus.chunk_by(|a, b| a.checked_add(1) == Some(*b));
    let range = |range: &[usize]| match range {
        [first, .., last] => format!("{first}-{last}"),
        single => single.iter().map(usize::to_string).collect(),
    };
    ranges.map(range).collect::<Vec<_>>().join(",")
}

/// A value of a setting, and the number of threads that have it.
type ThreadCount = (String, u64);

/// Returns the known values of a setting over all threads.
fn count_threads(settings: &SubjectSettings, format: FormatSetting) -> Vec<ThreadCount> {
    let mut values: Vec<ThreadCount> = Vec::new();
    for group in &settings.threads {
        let Some(value) = format(group) else { continue };
        match values.iter_mut().find(|(known, _)| *known == value) {
            Some((_, threads)) => *threads = threads.saturating_add(group.threads),
            None => values.push((value, group.threads)),
        }
    }
    values
}

/// Describes the values of a setting over all threads; `None` if none is known.
fn describe_threads(settings: &SubjectSettings, format: FormatSetting) -> Option<String> {
    let threads = settings.threads.iter().map(|group| group.threads);
    let total = threads.fold(0, u64::saturating_add);
    let values = count_threads(settings, format);
    match values.as_slice() {
        [] => None,
        [(value, threads)] if *threads == total => Some(value.clone()),
        some => {
            let parts = some.iter().map(|(value, n)| format!("{value} ({n} of {total} threads)"));
            Some(parts.collect::<Vec<_>>().join(", "))
        }
    }
}

/// Whether all threads of both sides have the same value, as far as it is known.
fn has_common_value(sides: &Sides<&SubjectSettings>, format: FormatSetting) -> bool {
    let [base, candidate] = [sides.base, sides.candidate].map(|side| count_threads(side, format));
    matches!((&base[..], &candidate[..]), ([(a, _)], [(b, _)]) if a == b)
}

/// Compares the timer slack of the threads with the largest one.
fn compare_slack(sides: &Sides<&SubjectSettings>, reference: &str) -> Option<SettingDifference> {
    let format = |thread: &ThreadSettings| thread.timer_slack_ns.map(format_slack);
    let base_ns = max_slack_ns(sides.base)?;
    let known_ns = max_slack_ns(sides.candidate);
    let value = match (known_ns, sides.candidate.initial_timer_slack_ns) {
        (Some(_), _) => describe_threads(sides.candidate, format)?,
        (None, Some(ns)) => format!("unknown, initially {}", format_slack(ns)),
        (None, None) => return None,
    };
    let candidate_ns = known_ns.or(sides.candidate.initial_timer_slack_ns)?;
    if candidate_ns.abs_diff(base_ns) < MIN_SLACK_NS {
        return None;
    }
    Some(SettingDifference {
        setting: SettingName::TimerSlack,
        value,
        reference: reference.to_owned(),
        reference_value: describe_threads(sides.base, format)?,
        max_cost_ns: known_ns.map(|known_ns| known_ns.abs_diff(base_ns)),
    })
}

/// Returns the largest timer slack of the threads; `None` if one is not known.
fn max_slack_ns(settings: &SubjectSettings) -> Option<u64> {
    let slacks: Option<Vec<u64>> = settings.threads.iter().map(|t| t.timer_slack_ns).collect();
    slacks?.into_iter().max()
}

/// Formats a timer slack in the largest unit in which it is whole.
fn format_slack(ns: u64) -> String {
    for (unit_ns, unit) in [(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us")] {
        if ns >= unit_ns && ns.is_multiple_of(unit_ns) {
            return format!("{} {unit}", ns / unit_ns);
        }
    }
    format!("{ns} ns")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(threads: Vec<ThreadSettings>) -> SubjectSettings {
        SubjectSettings { threads, initial_timer_slack_ns: Some(50_000), differences: Vec::new() }
    }

    fn thread(threads: u64, slack_ns: Option<u64>, sched: &str) -> ThreadSettings {
        ThreadSettings {
            threads,
            timer_slack_ns: slack_ns,
            sched: Some(sched.to_owned()),
            nice: Some(0),
            affinity: Some(vec![0, 1, 2, 5]),
            quota_cpus: None,
            has_quota: Some(false),
        }
    }

    fn compare_with_control(candidate: Vec<ThreadSettings>) -> Vec<SettingDifference> {
        let control = settings(vec![thread(1, Some(1), "other")]);
        let candidate = settings(candidate);
        compare(&Sides { base: &control, candidate: &candidate }, "nanosleep")
    }

    #[test]
    fn equal_settings_have_no_difference() {
        assert_eq!(compare_with_control(vec![thread(3, Some(1), "other")]), []);
        assert_eq!(compare_with_control(vec![thread(1, Some(0), "other")]), []);
    }

    #[test]
    fn slack_is_bounded() {
        let found = compare_with_control(vec![thread(1, Some(50_000), "other")]);
        let [slack] = found.as_slice() else { panic!("{found:?}") };
        assert_eq!(slack.setting, SettingName::TimerSlack);
        assert_eq!((slack.value.as_str(), slack.reference_value.as_str()), ("50 us", "1 ns"));
        assert_eq!(slack.max_cost_ns, Some(49_999));
    }

    #[test]
    fn unknown_slack_has_no_bound() {
        let found = compare_with_control(vec![thread(1, None, "other")]);
        let [slack] = found.as_slice() else { panic!("{found:?}") };
        assert_eq!(slack.value, "unknown, initially 50 us");
        assert_eq!(slack.max_cost_ns, None);
    }

    #[test]
    fn differing_threads_are_counted() {
        let found =
            compare_with_control(vec![thread(3, Some(1), "other"), thread(1, Some(0), "fifo:50")]);
        let [sched] = found.as_slice() else { panic!("{found:?}") };
        assert_eq!(sched.setting, SettingName::Sched);
        assert_eq!(sched.value, "other (3 of 4 threads), fifo:50 (1 of 4 threads)");
        assert_eq!(sched.reference_value, "other");
    }

    #[test]
    fn other_settings_are_compared() {
        let other = ThreadSettings {
            nice: Some(10),
            affinity: Some(vec![1]),
            quota_cpus: Some(0.5),
            has_quota: Some(true),
            ..thread(1, Some(1), "other")
        };
        let found = compare_with_control(vec![other]);
        let values: Vec<_> = found
            .iter()
            .map(|d| (d.setting, d.value.as_str(), d.reference_value.as_str()))
            .collect();
        let expected = [
            (SettingName::Nice, "10", "0"),
            (SettingName::Affinity, "1", "0-2,5"),
            (SettingName::Quota, "0.50 CPUs", "none"),
        ];
        assert_eq!(values, expected);
    }

    #[test]
    fn unknown_quota_is_not_none() {
        let unknown = ThreadSettings { has_quota: None, ..thread(1, Some(1), "other") };
        let limited = settings(vec![ThreadSettings { quota_cpus: Some(0.5), ..unknown.clone() }]);
        let unknown = settings(vec![unknown]);
        let unlimited = settings(vec![thread(1, Some(1), "other")]);
        assert_eq!(compare(&Sides { base: &unknown, candidate: &limited }, "nanosleep"), []);
        let found = compare(&Sides { base: &unlimited, candidate: &limited }, "nanosleep");
        let [quota] = found.as_slice() else { panic!("{found:?}") };
        let values = (quota.value.as_str(), quota.reference_value.as_str());
        assert_eq!(values, ("0.50 CPUs", "none"));
    }

    #[test]
    fn partly_known_values_are_counted() {
        let nice = |nice| ThreadSettings { nice, ..thread(1, Some(1), "other") };
        let unknown = ThreadSettings { threads: 2, ..nice(None) };
        assert_eq!(compare_with_control(vec![nice(Some(0)), unknown.clone()]), []);
        let found = compare_with_control(vec![nice(Some(10)), unknown]);
        let [nice] = found.as_slice() else { panic!("{found:?}") };
        assert_eq!((nice.value.as_str(), nice.setting), ("10 (1 of 3 threads)", SettingName::Nice));
    }
}
