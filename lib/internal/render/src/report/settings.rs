//! Notes on settings in which the subjects of a report differ: both values, the price, and the way
//! to change it.

use cli::time::format_unsigned_time;
use cli::words::capitalize;
use files::report::{Report, SettingDifference, SettingName, Warning};

use crate::report::label::{is_program, labels};
use crate::report::summary::name_list::join_with;

/// Code of the warning that two compared programs ran with different settings.
const UNEQUAL_SETTINGS: &str = "unequal-settings";

/// Subjects that differ from another one in the same way.
struct Group<'a> {
    names: Vec<String>,
    difference: &'a SettingDifference,
    are_programs: bool,
}

/// Returns a note for each setting in which subjects differ from the control.
pub fn notes(report: &Report) -> Vec<String> {
    let mut groups: Vec<Group<'_>> = Vec::new();
    for (subject, name) in report.subjects.iter().zip(labels(report).names) {
        let are_programs = is_program(report, subject);
        let settings = subject.settings.iter();
        for difference in settings.flat_map(|settings| &settings.differences) {
            let is_same = |group: &&mut Group<'_>| {
                group.difference == difference && group.are_programs == are_programs
            };
            match groups.iter_mut().find(is_same) {
                Some(group) => group.names.push(name.clone()),
                None => {
                    let names = vec![name.clone()];
                    groups.push(Group { names, difference, are_programs });
                }
            }
        }
    }
    groups.iter().map(|group| format!("{}; {}", describe(group), remedy(group))).collect()
}

/// Returns a warning for each setting in which a program differs from the one that it is compared
/// with.
pub fn warnings(program: &str, differences: &[SettingDifference]) -> Vec<Warning> {
    let mut warnings = Vec::new();
    for difference in differences {
        let group = Group { names: vec![program.to_owned()], difference, are_programs: true };
        let (message, hint) = (capitalize(&describe(&group)), capitalize(remedy(&group)));
        warnings.push(Warning::new(UNEQUAL_SETTINGS, format!("{message}."), &format!("{hint}.")));
    }
    warnings
}

/// Describes both values and the price of the difference.
fn describe(group: &Group<'_>) -> String {
    let SettingDifference { setting, value, reference, reference_value, .. } = group.difference;
    let names = join_with(&group.names, "and");
    let quantity = match setting {
        SettingName::TimerSlack => "timer slack",
        SettingName::Sched => "scheduling class",
        SettingName::Nice => "nice value",
        SettingName::Affinity => "CPUs",
        SettingName::Quota => "CPU quota",
    };
    let price = price(group.difference);
    format!("{quantity} of {names}: {value}, of {reference}: {reference_value}; {price}")
}

/// Describes what a setting can cost: a bound that it implies, or that there is none.
fn price(difference: &SettingDifference) -> String {
    match (difference.setting, difference.max_cost_ns) {
        (SettingName::TimerSlack, Some(ns)) => {
            let ns = format_unsigned_time(ns);
            format!(
                "it can add up to {ns} to each sleep or timeout, but not to timers such as timerfd"
            )
        }
        (SettingName::TimerSlack, None) => {
            "it can add up to its length to each sleep or timeout".to_owned()
        }
        (SettingName::Sched, _) => {
            "a thread waits for all threads of higher classes, without a bound".to_owned()
        }
        (SettingName::Nice, _) => {
            "a higher value waits longer for a busy CPU, without a bound".to_owned()
        }
        (SettingName::Affinity, _) => {
            "a thread waits while other threads use its CPUs, without a bound".to_owned()
        }
        (SettingName::Quota, _) => {
            "a quota that is used up stops the threads until its next period".to_owned()
        }
    }
}

/// Returns the way to change a setting.
fn remedy(group: &Group<'_>) -> &'static str {
    let is_unknown = group.difference.value.starts_with("unknown");
    match group.difference.setting {
        SettingName::TimerSlack if is_unknown => {
            "reading it needs CAP_SYS_NICE; remove it with prctl(PR_SET_TIMERSLACK, 1) in the thread"
        }
        SettingName::TimerSlack if group.are_programs => {
            "remove it with prctl(PR_SET_TIMERSLACK, 1) in the thread, or for all with --timer-slack 1ns"
        }
        SettingName::TimerSlack => "remove it with --timer-slack 1ns",
        SettingName::Sched => "set the class of all with --sched, or that of a program with chrt",
        SettingName::Nice => "start both with the same nice value",
        SettingName::Affinity => {
            "set the CPU of all with --cpu, or those of a program with taskset"
        }
        SettingName::Quota => "start both in the same control group",
    }
}

#[cfg(test)]
mod tests {
    use files::file::File as _;
    use files::report::{SubjectSettings, ThreadSettings};
    use files::settings::state_differences;

    use super::*;

    fn thread(slack_ns: u64) -> Option<SubjectSettings> {
        let thread =
            ThreadSettings { threads: 1, timer_slack_ns: Some(slack_ns), ..Default::default() };
        Some(SubjectSettings { threads: vec![thread], ..Default::default() })
    }

    /// The report fixture, whose second subject is a program with this timer slack.
    fn report(slack_ns: u64) -> Report {
        let mut report =
            Report::from_json(include_str!("../../../../../tests/fixtures/report.json"))
                .expect("a report");
        for (subject, slack_ns) in report.subjects.iter_mut().zip([0, slack_ns, 1]) {
            subject.settings = thread(slack_ns);
        }
        report.plan.scenarios[1].command = Some(vec!["./loop".to_owned()]);
        state_differences(&mut report);
        report
    }

    #[test]
    fn slack_of_program_is_noted() {
        let notes = notes(&report(50_000));
        let [note] = notes.as_slice() else { panic!("{notes:?}") };
        assert!(
            note.starts_with("timer slack of tokio-interval-skip: 50 us, of nanosleep: 1 ns; "),
            "{note}"
        );
        assert!(note.contains("up to 50.0 us") && note.contains("PR_SET_TIMERSLACK"), "{note}");
    }

    #[test]
    fn minimum_of_slack_has_no_note() {
        assert_eq!(notes(&report(1)), Vec::<String>::new());
    }

    #[test]
    fn builtin_subjects_share_a_note() {
        let mut report = report(50_000);
        report.plan.scenarios[1].command = None;
        report.subjects[0].settings = thread(50_000);
        state_differences(&mut report);
        let notes = notes(&report);
        let [note] = notes.as_slice() else { panic!("{notes:?}") };
        assert!(note.contains("os-interval and tokio-interval-skip: 50 us"), "{note}");
        assert!(note.ends_with("remove it with --timer-slack 1ns"), "{note}");
    }
}
