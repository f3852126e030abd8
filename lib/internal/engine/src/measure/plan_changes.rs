//! The settings that a plan changes.

use cli::exit;
use cli::units::format_exact_ns;
use files::report::Change;

use crate::machine::tuning;
use crate::scenario::{Plan, Scenario};
use crate::subject::WaitKind;
use crate::subject::bare_threads::MinSlack;

/// Applies the settings of a plan. Returns all changes, including those that subjects make.
///
/// # Errors
///
/// Returns an error if a setting cannot be applied.
pub fn apply_changes(plan: &Plan) -> exit::Result<Vec<Change>> {
    let mut changes = plan.tuning.apply()?;
    changes.extend(slack_change(&plan.scenarios));
    Ok(changes)
}

/// Returns the change of the timer slack of this thread by the subjects that sleep, as it is read
/// back.
fn slack_change(scenarios: &[Scenario]) -> Option<Change> {
    let builtin = scenarios.iter().filter_map(|scenario| scenario.subject.as_builtin());
    let sleeping = builtin.filter(|subject| subject.wait_kind == WaitKind::Sleep);
    let mut names: Vec<&str> = sleeping.map(|subject| subject.name).collect();
    names.sort_unstable();
    names.dedup();
    if names.is_empty() {
        return None;
    }
    let before_ns = tuning::timer_slack_ns()?;
    let slack = MinSlack::new().ok()?;
    let during_ns = tuning::timer_slack_ns()?;
    drop(slack);
    let names = names.join(", ");
    let what = format!("timer slack of the measuring thread, during rounds of {names}");
    let [from, to] = [before_ns, during_ns].map(format_exact_ns);
    (from != to).then_some(Change { what, from, to })
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use crate::scenario::{ScenarioArgs, parse_subject};

    /// Scenarios with these subjects.
    fn scenarios(subjects: &[&str]) -> Vec<Scenario> {
        let scenario = |name: &&str| {
            let args = ScenarioArgs {
                subjects: vec![parse_subject(name).unwrap()],
                ..ScenarioArgs::default()
            };
            args.single_scenario().unwrap()
        };
        subjects.iter().map(scenario).collect()
    }

    #[test]
    fn sleeping_subjects_change_slack() {
        let change = |subjects: &[&str]| {
            let scenarios = scenarios(subjects);
            let measure = move || {
                crate::machine::os::set_timer_slack_ns(777).unwrap();
                slack_change(&scenarios)
            };
            std::thread::spawn(measure).join().unwrap().map(|change| change.what)
        };
        let slack_of = |names: &str| {
            Some(format!("timer slack of the measuring thread, during rounds of {names}"))
        };
        assert_eq!(change(&["os-interval", "spin"]), None);
        assert_eq!(change(&["os-interval-blocking"]), slack_of("os-interval-blocking"));
        assert_eq!(
            change(&["nanosleep", "os-interval", "os-interval-blocking-precise", "nanosleep"]),
            slack_of("nanosleep, os-interval-blocking-precise")
        );
    }

    #[test]
    fn real_time_control_changes_no_slack() {
        use crate::machine::os::{self, Sched};
        let change = |class: Option<Sched>| {
            os::set_timer_slack_ns(777).unwrap();
            class.map_or(Ok(()), os::set_sched).map(|()| slack_change(&scenarios(&["nanosleep"])))
        };
        let run = |class| std::thread::spawn(move || change(class)).join().unwrap();
        let normal = run(None).unwrap().unwrap();
        assert_eq!([normal.from, normal.to], ["777ns", "1ns"]);
        // Without the privilege there is no such thread.
        if let Ok(change) = run(Some(Sched::Fifo(1))) {
            assert_eq!(change, None);
        }
    }
}
