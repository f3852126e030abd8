//! The settings with which a round has to run, which are verified after it.
//!
//! Another program, an administrator or the kernel can change them at any time: `taskset -a`, a
//! cpuset, a CPU quota, `chrt`, a daemon that sets the governor, or a counter that the kernel no
//! longer trusts. A round with other settings than those of the report is not evidence about them,
//! so it is excluded.

use std::collections::BTreeSet;
use std::time::Duration;

use cli::units::{format_exact_ns, to_ns};
use files::report::{Change, ThreadSettings};

use crate::machine::os::{self, Sched, Scheduling};
use crate::machine::{host, tuning};

/// The timer slack of real-time threads, even if the kernel stores another one.
const NO_SLACK_NS: u64 = 0;

/// Settings of the calling thread, its process and the machine, as far as they are known.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RoundSettings {
    thread: ThreadSettings,
    /// The slice of the scheduler; zero for threads and kernels without one.
    slice: Option<Duration>,
    has_locked_memory: Option<bool>,
    clock_source: Option<String>,
    /// Governors of the CPUs on which the thread may run.
    governors: Option<BTreeSet<String>>,
}

impl RoundSettings {
    /// Reads the settings.
    pub fn read() -> Self {
        let thread = os::own_settings();
        let governors = thread.affinity.as_deref().and_then(read_governors);
        Self {
            thread,
            slice: Scheduling::now().ok().map(|scheduling| scheduling.slice()),
            has_locked_memory: os::has_locked_memory(),
            clock_source: host::clock_source(),
            governors,
        }
    }

    /// Reads the settings, with those that the plan of a run has applied: a change in between counts
    /// as one of the first round.
    pub fn read_with(tuning: &tuning::Settings) -> Self {
        let mut settings = Self::read();
        if let Some(cpu) = tuning.cpu {
            settings = settings.bound_to(cpu);
        }
        let thread = &mut settings.thread;
        if let Some(slack) = tuning.timer_slack {
            thread.timer_slack_ns = Some(to_ns(slack));
        }
        if let Some(class) = tuning.sched {
            thread.sched = Some(class.to_string());
            if matches!(class, Sched::Fifo(_) | Sched::RoundRobin(_)) {
                thread.timer_slack_ns = Some(NO_SLACK_NS);
                settings.slice = settings.slice.map(|_| Duration::ZERO);
            }
        }
        if tuning.mlock {
            settings.has_locked_memory = Some(true);
        }
        settings
    }

    /// Returns the settings of the thread; `None` if the platform does not list them.
    pub fn thread(&self) -> Option<&ThreadSettings> {
        Some(&self.thread).filter(|thread| thread.threads > 0)
    }

    /// Reads the settings, with the CPU to which the thread was bound, if it was.
    pub fn read_bound_to(cpu: Option<usize>) -> Self {
        Self::read_with(&tuning::Settings { cpu, ..tuning::Settings::default() })
    }

    /// Returns the settings of a thread that is bound to a CPU, and otherwise has these.
    pub fn bound_to(&self, cpu: usize) -> Self {
        let thread = ThreadSettings { affinity: Some(vec![cpu]), ..self.thread.clone() };
        Self { thread, governors: read_governors(&[cpu]), ..self.clone() }
    }

    /// Returns the differences of the current settings from these, as far as both are known.
    pub fn changes(&self) -> Vec<Change> {
        self.differences(&Self::read())
    }

    fn differences(&self, now: &Self) -> Vec<Change> {
        let mut changes = Vec::new();
        let mut compare = |what: &str, from: Option<String>, to: Option<String>| {
            if let (Some(from), Some(to)) = (from, to)
                && from != to
            {
                changes.push(Change { what: what.to_owned(), from, to });
            }
        };
        let cpus =
            |settings: &Self| settings.thread.affinity.as_ref().map(|cpus| format!("{cpus:?}"));
        compare("CPU affinity", cpus(self), cpus(now));
        compare("scheduling class", self.thread.sched.clone(), now.thread.sched.clone());
        let nice = |settings: &Self| settings.thread.nice.map(|nice| nice.to_string());
        compare("nice value", nice(self), nice(now));
        let slack = |settings: &Self| settings.thread.timer_slack_ns.map(format_exact_ns);
        compare("timer slack", slack(self), slack(now));
        let slice = |settings: &Self| settings.slice.map(|slice| format_exact_ns(to_ns(slice)));
        compare("slice of the scheduler", slice(self), slice(now));
        compare("CPU quota", format_quota(&self.thread), format_quota(&now.thread));
        if self.has_locked_memory == Some(true) {
            let memory = |is_locked| if is_locked { "locked" } else { "pageable" }.to_owned();
            compare("memory", Some(memory(true)), now.has_locked_memory.map(memory));
        }
        compare("clock source", self.clock_source.clone(), now.clock_source.clone());
        let governors = |settings: &Self| {
            let names = settings.governors.as_ref()?.iter().map(String::as_str);
            Some(names.collect::<Vec<_>>().join(", "))
        };
        compare("CPU governor", governors(self), governors(now));
        changes
    }
}

/// Formats the CPU quota of the control group, if it is known.
fn format_quota(thread: &ThreadSettings) -> Option<String> {
    match thread.quota_cpus {
        Some(cpus) => Some(format!("{cpus} CPUs")),
        None => thread.has_quota.filter(|has_quota| !has_quota).map(|_| "none".to_owned()),
    }
}

/// Reads the governors of CPUs; `None` if one of them is not known.
fn read_governors(cpus: &[usize]) -> Option<BTreeSet<String>> {
    cpus.iter().map(|&cpu| host::governor(cpu)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_changed_setting_is_named() {
        let thread = ThreadSettings {
            affinity: Some(vec![1]),
            sched: Some("fifo:50".to_owned()),
            nice: Some(0),
            timer_slack_ns: Some(50_000),
            has_quota: Some(false),
            ..ThreadSettings::default()
        };
        let expected = RoundSettings {
            thread,
            slice: Some(Duration::from_millis(3)),
            has_locked_memory: Some(true),
            clock_source: Some("tsc".to_owned()),
            governors: Some(["performance".to_owned()].into()),
        };
        assert_eq!(expected.differences(&expected), []);
        let thread = ThreadSettings {
            affinity: Some(vec![0, 1]),
            sched: Some("other".to_owned()),
            nice: Some(10),
            timer_slack_ns: Some(1),
            has_quota: Some(true),
            quota_cpus: Some(0.5),
            ..ThreadSettings::default()
        };
        let now = RoundSettings {
            thread,
            slice: Some(Duration::from_micros(100)),
            has_locked_memory: Some(false),
            clock_source: Some("hpet".to_owned()),
            governors: Some(["performance".to_owned(), "powersave".to_owned()].into()),
        };
        let shown: Vec<String> = expected
            .differences(&now)
            .iter()
            .map(|change| format!("{}: {} -> {}", change.what, change.from, change.to))
            .collect();
        assert_eq!(
            shown,
            [
                "CPU affinity: [1] -> [0, 1]",
                "scheduling class: fifo:50 -> other",
                "nice value: 0 -> 10",
                "timer slack: 50us -> 1ns",
                "slice of the scheduler: 3ms -> 100us",
                "CPU quota: none -> 0.5 CPUs",
                "memory: locked -> pageable",
                "clock source: tsc -> hpet",
                "CPU governor: performance -> performance, powersave",
            ]
        );
        let unknown = RoundSettings::default();
        assert_eq!(expected.differences(&unknown), []);
        assert_eq!(unknown.differences(&now), []);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn real_time_threads_have_no_slack() {
        let read = |sched| {
            let timer_slack = Some(std::time::Duration::from_nanos(777));
            let tuning = tuning::Settings { sched, timer_slack, ..tuning::Settings::default() };
            RoundSettings::read_with(&tuning).thread().unwrap().timer_slack_ns
        };
        assert_eq!([read(None), read(Some(Sched::Fifo(10)))], [Some(777), Some(0)]);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn changed_slice_is_found() {
        use crate::machine::setting::Setting;
        let changes = std::thread::spawn(|| {
            let slice = Setting::Slice(Duration::from_micros(100)).hold().ok()?;
            let settings = RoundSettings::read();
            assert_eq!(settings.changes(), []);
            slice.release().unwrap();
            Some(settings.changes())
        });
        // Not every kernel has slices.
        if let Some(changes) = changes.join().unwrap() {
            assert_eq!(changes[0].what, "slice of the scheduler");
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn bound_thread_differs_in_affinity() {
        let free = RoundSettings::read();
        let allowed = os::affinity().unwrap();
        let cpu = allowed[0];
        let [bound, free_changes] = std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                os::bind(&[cpu]).unwrap();
                [free.bound_to(cpu).changes(), free.changes()]
            });
            thread.join().unwrap()
        });
        assert_eq!(bound, []);
        let has_changed = free_changes.iter().any(|change| change.what == "CPU affinity");
        assert_eq!(has_changed, allowed.len() > 1, "{free_changes:?}");
    }
}
