//! The settings with which subjects run.

use files::report::{SubjectSettings, ThreadSettings};

use crate::measure::program::StartupCosts;
use crate::measure::round_settings::RoundSettings;
use crate::scenario::Scenario;
use crate::subject::{self, RuntimeKind, WaitKind};

/// Returns the settings of a scenario, which is given with its index in the plan. A built-in
/// subject has those of the measuring thread, with which its rounds are verified, or inherits them.
/// `None` if they are not known.
pub fn subject_settings(
    scenario: &Scenario,
    index: usize,
    starts: &StartupCosts,
    verified: Option<&RoundSettings>,
) -> Option<SubjectSettings> {
    let Some(subject) = scenario.subject.as_builtin() else {
        return starts.settings(index);
    };
    if subject.runtime_kind == RuntimeKind::Script {
        // A script has no thread.
        return None;
    }
    let thread = verified?.thread()?;
    let applied_slack_ns = |slack_ns| applied_slack_ns(subject.wait_kind, slack_ns);
    let settings = ThreadSettings {
        timer_slack_ns: thread.timer_slack_ns.map(applied_slack_ns),
        ..thread.clone()
    };
    Some(SubjectSettings { threads: vec![settings], ..SubjectSettings::default() })
}

/// Returns the timer slack that applies to a wait of a thread with this slack.
fn applied_slack_ns(wait_kind: WaitKind, thread_slack_ns: u64) -> u64 {
    match wait_kind {
        WaitKind::Timer | WaitKind::Spin => 0,
        WaitKind::Wheel => thread_slack_ns,
        WaitKind::Sleep => thread_slack_ns.min(subject::CONTROL_SLACK_NS),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::parse_subject;

    #[test]
    fn slack_applies_to_timeouts_only() {
        let applied = |name| applied_slack_ns(parse_subject(name).unwrap().wait_kind, 50_000);
        let names = ["os-interval", "tokio-interval", "tokio-sleep-reused", "nanosleep", "spin"];
        assert_eq!(names.map(applied), [0, 50_000, 50_000, 1, 0]);
    }
}
