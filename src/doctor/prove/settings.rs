//! The settings that a proof tries: those that this process may change for itself.

use std::time::Duration;

use engine::machine::os::Sched;
use engine::machine::setting::Setting;
use engine::measure::trial_commands::TrialCommands;
use engine::subject::SubjectInfo;
use files::report::Warning;

use crate::doctor::file::CONTROL_KEY;

/// A setting to try, with its names.
#[derive(Clone, Debug)]
pub struct SettingTrial {
    /// Stable name, part of a scenario's id.
    pub key: String,
    /// Common name.
    pub name: String,
    pub setting: Setting,
    /// A subject with the setting built in, which is measured instead.
    pub subject: Option<&'static str>,
    /// The commands of a setting of the user.
    pub commands: Option<TrialCommands>,
    /// How to make the setting permanent.
    pub keep: String,
}

/// Real-time priority to try: above normal threads, below those of the kernel.
const PRIORITY: u8 = 10;
/// The shortest slice that the kernel accepts.
const SLICE: Duration = Duration::from_micros(100);
const SHORT_SLACK: Duration = Duration::from_nanos(1);
const USUAL_SLACK: Duration = Duration::from_micros(50);
/// Maximum number of CPUs to try; if there are more, an evenly spaced selection is tried.
const MAX_CPUS: usize = 8;

/// Lists the settings to try with a subject on these CPUs. The first one changes nothing.
pub fn list_trials(
    subject: &SubjectInfo,
    allowed: &[usize],
    slack_ns: Option<u64>,
) -> Vec<SettingTrial> {
    let mut trials =
        vec![trial(CONTROL_KEY, "no change (control)".to_owned(), Setting::Nothing, "")];
    let slack = if slack_ns.is_some_and(|ns| ns <= 1_000) { USUAL_SLACK } else { SHORT_SLACK };
    let slack_text = if slack == SHORT_SLACK { "1 ns" } else { "50 us" };
    let keep = format!(
        "TimerSlackNSec={} in the systemd unit, or prctl(PR_SET_TIMERSLACK)",
        slack.as_nanos()
    );
    let name = format!("timer slack {slack_text}");
    trials.push(trial("slack", name, Setting::TimerSlack(slack), &keep));
    for &cpu in &select_cpus(allowed) {
        let (key, name) = (format!("cpu-{cpu}"), format!("CPU {cpu} only"));
        trials.push(trial(&key, name, Setting::Cpu(cpu), &format!("taskset -c {cpu} CMD")));
    }
    let fifo = Setting::Class(Sched::Fifo(PRIORITY));
    let keep = format!("chrt -f {PRIORITY} CMD");
    trials.push(trial("fifo", format!("SCHED_FIFO {PRIORITY}"), fifo, &keep));
    let keep = "sched_setattr(sched_runtime = 100000) in the thread";
    trials.push(trial("slice", "slice 100 us".to_owned(), Setting::Slice(SLICE), keep));
    let keep = "mlockall(MCL_CURRENT | MCL_FUTURE) in the program";
    trials.push(trial("mlock", "memory locked".to_owned(), Setting::LockedMemory, keep));
    let keep = "hold /dev/cpu_dma_latency open with 0 written to it";
    trials.push(trial("idle", "cpu_dma_latency 0".to_owned(), Setting::NoIdleLatency, keep));
    if subject.precise_mode.is_some() {
        let keep = "OsInterval::builder(period).precision(Precision::spin())";
        let precise = trial("precise", "precise mode".to_owned(), Setting::Nothing, keep);
        trials.push(SettingTrial { subject: subject.precise_mode, ..precise });
    }
    trials
}

fn trial(key: &str, name: String, setting: Setting, keep: &str) -> SettingTrial {
    let (key, keep) = (key.to_owned(), keep.to_owned());
    SettingTrial { key, name, setting, subject: None, commands: None, keep }
}

/// Returns the trial of a setting of the user.
pub fn user_trial(commands: &TrialCommands) -> SettingTrial {
    let name = &commands.name;
    let trial = trial(name, name.clone(), Setting::Nothing, commands.change.text());
    SettingTrial { commands: Some(commands.clone()), ..trial }
}

/// Selects at most [`MAX_CPUS`] CPUs, the first and the last among them.
fn select_cpus(cpus: &[usize]) -> Vec<usize> {
    match cpus.len() {
        0..=MAX_CPUS => cpus.to_vec(),
        n => (0..MAX_CPUS).map(|i| cpus[i * (n - 1) / (MAX_CPUS - 1)]).collect(),
    }
}

/// Warns of the CPUs that are not tried, if there are more than [`MAX_CPUS`].
pub fn untried_cpus(cpu_count: usize) -> Option<Warning> {
    let message = format!("{MAX_CPUS} of {cpu_count} CPUs were tried");
    let hint = "start osjitter with taskset -c to try others";
    (cpu_count > MAX_CPUS).then(|| Warning::new("untried-cpus", message, hint))
}

#[cfg(test)]
mod tests {
    use super::*;
    use files::subjects::SPINNING_CONTROL;

    #[test]
    fn many_cpus_are_sampled_evenly() {
        assert_eq!(select_cpus(&[2, 5]), [2, 5]);
        let cpus: Vec<usize> = (0..64).collect();
        assert_eq!(select_cpus(&cpus), [0, 9, 18, 27, 36, 45, 54, 63]);
    }

    #[test]
    fn untried_cpus_are_counted() {
        let message = |count| untried_cpus(count).map(|warning| warning.message);
        assert_eq!([1, 8].map(message), [None, None]);
        assert_eq!(message(64).unwrap(), "8 of 64 CPUs were tried");
    }

    #[test]
    fn tried_slack_differs_from_current() {
        let slack = |now| list_trials(SPINNING_CONTROL, &[0], now)[1].setting;
        assert_eq!(slack(Some(50_000)), Setting::TimerSlack(SHORT_SLACK));
        assert_eq!(slack(Some(1)), Setting::TimerSlack(USUAL_SLACK));
    }
}
