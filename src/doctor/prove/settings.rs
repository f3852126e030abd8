//! What a proof tries: every setting that this process may change for itself, in words.

use std::time::Duration;

use engine::machine::os::Sched;
use engine::machine::setting::Setting;

/// A setting with its words.
#[derive(Clone, Debug)]
pub struct Tried {
    /// Stable name, part of a scenario's id.
    pub key: String,
    /// As people call it.
    pub name: String,
    pub setting: Setting,
    /// Another subject that stands for the setting.
    pub subject: Option<&'static str>,
    /// What keeps it for good.
    pub keep: String,
}

/// Priority that is tried: above normal threads, below the kernel's own.
const PRIORITY: u8 = 10;
/// The shortest slice the kernel takes.
const SLICE: Duration = Duration::from_micros(100);
const SHORT_SLACK: Duration = Duration::from_nanos(1);
const USUAL_SLACK: Duration = Duration::from_micros(50);
/// So many CPUs are tried; of more, some that are evenly spread.
const MAX_CPUS: usize = 8;
/// The key of what changes nothing.
pub const AGAIN: &str = "again";

/// All that is tried with a subject, on these CPUs.
pub fn tried(subject: &str, allowed: &[usize], slack_ns: Option<u64>) -> Vec<Tried> {
    let new = |key: &str, name: String, setting, keep: &str| Tried {
        key: key.to_owned(),
        name,
        setting,
        subject: None,
        keep: keep.to_owned(),
    };
    let mut all = vec![new(AGAIN, "nothing, once more".to_owned(), Setting::Nothing, "")];
    let slack = if slack_ns.is_some_and(|ns| ns <= 1_000) { USUAL_SLACK } else { SHORT_SLACK };
    let words = if slack == SHORT_SLACK { "1 ns" } else { "50 us" };
    let keep = format!(
        "TimerSlackNSec={} in the systemd unit, or prctl(PR_SET_TIMERSLACK)",
        slack.as_nanos()
    );
    all.push(new("slack", format!("timer slack {words}"), Setting::TimerSlack(slack), &keep));
    for &cpu in &spread(allowed) {
        let keep = format!("taskset -c {cpu} CMD");
        all.push(new(&format!("cpu-{cpu}"), format!("CPU {cpu} alone"), Setting::Cpu(cpu), &keep));
    }
    let fifo = Setting::Class(Sched::Fifo(PRIORITY));
    all.push(new(
        "fifo",
        format!("SCHED_FIFO {PRIORITY}"),
        fifo,
        &format!("chrt -f {PRIORITY} CMD"),
    ));
    let keep = "sched_setattr(sched_runtime = 100000) in the thread";
    all.push(new("slice", "slice 100 us".to_owned(), Setting::Slice(SLICE), keep));
    let keep = "mlockall(MCL_CURRENT | MCL_FUTURE) in the program";
    all.push(new("mlock", "memory locked".to_owned(), Setting::LockedMemory, keep));
    let keep = "hold /dev/cpu_dma_latency open with 0 written to it";
    all.push(new("idle", "cpu_dma_latency 0".to_owned(), Setting::NoIdleLatency, keep));
    if subject == "os-interval" {
        let keep = "OsInterval::builder(period).precision(Precision::spin())";
        let precise = new("precise", "precise mode".to_owned(), Setting::Nothing, keep);
        all.push(Tried { subject: Some("os-interval-precise"), ..precise });
    }
    all
}

/// Some of the CPUs, the first and the last among them.
fn spread(cpus: &[usize]) -> Vec<usize> {
    match cpus.len() {
        0..=MAX_CPUS => cpus.to_vec(),
        n => (0..MAX_CPUS).map(|i| cpus[i * (n - 1) / (MAX_CPUS - 1)]).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_cpus_some_are_tried() {
        assert_eq!(spread(&[2, 5]), [2, 5]);
        let all: Vec<usize> = (0..64).collect();
        assert_eq!(spread(&all), [0, 9, 18, 27, 36, 45, 54, 63]);
    }

    #[test]
    fn the_slack_that_is_tried_is_another_one() {
        let slack = |now| tried("spin", &[0], now)[1].setting;
        assert_eq!(slack(Some(50_000)), Setting::TimerSlack(SHORT_SLACK));
        assert_eq!(slack(Some(1)), Setting::TimerSlack(USUAL_SLACK));
    }
}
