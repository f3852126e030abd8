//! Settings of the threads of running processes, from `/proc`.

use std::path::Path;

use files::report::ThreadSettings;

use crate::machine::cgroup;
use crate::machine::os::types::SessionProcess;
use crate::machine::os::{self, ThreadReading, cpu_list};

/// Reads the threads of a process and its descendants. Threads that exit during the reading are
/// left out.
pub fn read_threads(process: u32) -> Vec<ThreadReading> {
    let mut readings = Vec::new();
    let mut waiting = vec![process];
    while let Some(process) = waiting.pop() {
        let (threads, children) = list_threads(process);
        let quota = with_quota(&process.to_string(), ThreadSettings::default());
        for thread in threads {
            let Some((switches, settings)) = read_thread(&thread.to_string()) else { continue };
            let ThreadSettings { quota_cpus, has_quota, .. } = quota;
            let settings = ThreadSettings { quota_cpus, has_quota, ..settings };
            readings.push(ThreadReading {
                thread,
                is_leaf: children.is_empty(),
                switches,
                settings,
            });
        }
        waiting.extend(children);
    }
    readings
}

/// Returns the ids of the threads of a process, and those of its children.
fn list_threads(process: u32) -> (Vec<u32>, Vec<u32>) {
    let (mut threads, mut children) = (Vec::new(), Vec::new());
    let entries =
        std::fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    for entry in entries {
        threads.extend(entry.file_name().to_str().and_then(|id| id.parse::<u32>().ok()));
        let list = std::fs::read_to_string(entry.path().join("children")).unwrap_or_default();
        children.extend(list.split_whitespace().filter_map(|id| id.parse::<u32>().ok()));
    }
    (threads, children)
}

/// Returns the settings of the calling thread.
pub fn own_settings() -> ThreadSettings {
    let settings = read_thread("thread-self").map(|(_, settings)| settings).unwrap_or_default();
    // The class comes from a system call, so that it is known without `/proc`.
    let timer_slack_ns = effective_slack_ns(os::sched().as_deref(), os::timer_slack_ns());
    with_quota("self", ThreadSettings { timer_slack_ns, ..settings })
}

/// Adds the CPU quota of a process, which is an id or `self`, to the settings of its threads.
fn with_quota(process: &str, settings: ThreadSettings) -> ThreadSettings {
    let root = Path::new("/");
    let quota = cgroup::process_quota(root, process);
    let has_quota = cgroup::is_known(root, process).then_some(quota.is_some());
    ThreadSettings { quota_cpus: quota.map(|quota| quota.cpus()), has_quota, ..settings }
}

/// Reads a thread by its name in `/proc`: how often it has run, and its settings.
fn read_thread(name: &str) -> Option<(u64, ThreadSettings)> {
    let read = |file: &str| std::fs::read_to_string(format!("/proc/{name}/{file}")).ok();
    // Threads other than those of this process need a capability, and older kernels lack the file. It
    // comes first, so that it is not missing because the thread has exited: the others are then as well.
    let slack_ns = read("timerslack_ns").and_then(|text| text.trim().parse().ok());
    let status = read("status")?;
    let number = |key: &str| status_value(&status, key)?.parse::<u64>().ok();
    let switches =
        number("voluntary_ctxt_switches:")?.saturating_add(number("nonvoluntary_ctxt_switches:")?);
    let stat = read("stat")?;
    let sched = scheduling_class(&stat);
    let settings = ThreadSettings {
        threads: 1,
        timer_slack_ns: effective_slack_ns(sched.as_deref(), slack_ns),
        nice: stat_field(&stat, 19),
        affinity: status_value(&status, "Cpus_allowed_list:").map(cpu_list),
        sched,
        ..ThreadSettings::default()
    };
    Some((switches, settings))
}

/// Returns the timer slack that applies to a thread: none to a real-time thread, even if the kernel
/// stores one.
fn effective_slack_ns(sched: Option<&str>, slack_ns: Option<u64>) -> Option<u64> {
    let real_time = ["fifo", "rr", "deadline"];
    let has_none = sched.is_some_and(|class| real_time.iter().any(|name| class.starts_with(name)));
    if has_none { Some(0) } else { slack_ns }
}

fn status_value<'a>(status: &'a str, key: &str) -> Option<&'a str> {
    Some(status.lines().find_map(|line| line.strip_prefix(key))?.trim())
}

/// Returns a field of `/proc/ID/stat` by its number in the manual.
fn stat_field(stat: &str, number: usize) -> Option<i64> {
    // The name, in parentheses, can contain any character. The field after it is the third.
    let (_, fields) = stat.rsplit_once(')')?;
    fields.split_whitespace().nth(number.checked_sub(3)?)?.parse().ok()
}

/// Returns the scheduling class as on the command line.
fn scheduling_class(stat: &str) -> Option<String> {
    let priority = stat_field(stat, 40)?;
    let class = match stat_field(stat, 41)? {
        0 => "other".to_owned(),
        1 => format!("fifo:{priority}"),
        2 => format!("rr:{priority}"),
        3 => "batch".to_owned(),
        5 => "idle".to_owned(),
        6 => "deadline".to_owned(),
        7 => "ext".to_owned(),
        _ => return None,
    };
    Some(class)
}

/// Returns the processes of a session that have not exited.
pub fn session_processes(session: u32) -> Vec<SessionProcess> {
    let mut processes = Vec::new();
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(id) = entry.file_name().to_str().and_then(|id| id.parse().ok()) else { continue };
        let Some(stat) = read_stat(id) else { continue };
        let number = |field| stat_field(&stat, field).and_then(|id| u32::try_from(id).ok());
        let has_exited = matches!(process_state(&stat), Some('Z' | 'X'));
        if let (Some(group), true, false) = (number(5), number(6) == Some(session), has_exited) {
            processes.push(SessionProcess {
                id,
                group,
                is_stopped: process_state(&stat) == Some('T'),
            });
        }
    }
    processes
}

/// Returns whether a process is stopped by a signal.
pub fn is_stopped(process: u32) -> bool {
    read_stat(process).is_some_and(|stat| process_state(&stat) == Some('T'))
}

fn read_stat(process: u32) -> Option<String> {
    let stat = std::fs::read(format!("/proc/{process}/stat")).ok()?;
    Some(String::from_utf8_lossy(&stat).into_owned())
}

/// Returns the state in the text of `/proc/ID/stat`, the field after the name.
fn process_state(stat: &str) -> Option<char> {
    stat.rsplit_once(')')?.1.trim_start().chars().next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_thread_is_read() {
        let own = own_settings();
        assert_eq!(own.timer_slack_ns, os::timer_slack_ns());
        assert_eq!(own.affinity, os::affinity());
        let class = own.sched.expect("a class");
        assert_eq!(class.split(':').next(), os::sched().as_deref());
        assert!(own.nice.is_some_and(|nice| (-20..=19).contains(&nice)));
    }

    /// A process that ends with the test, even if that fails.
    struct KilledOnDrop(std::process::Child);

    impl Drop for KilledOnDrop {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    #[test]
    fn started_processes_inherit_settings() {
        let child =
            std::process::Command::new("sleep").arg("100").spawn().expect("a child process");
        let child = KilledOnDrop(child);
        let process = child.0.id();
        let readings = read_threads(process);
        drop(child);
        let [reading] = readings.as_slice() else { panic!("{readings:?}") };
        let own = own_settings();
        assert!(reading.is_leaf && reading.thread == process);
        assert_eq!(reading.settings.affinity, own.affinity);
        assert_eq!(reading.settings.sched, own.sched);
        let quota = |settings: &ThreadSettings| (settings.quota_cpus, settings.has_quota);
        assert_eq!(quota(&reading.settings), quota(&own));
        // Reading it needs a capability.
        assert!([None, own.timer_slack_ns].contains(&reading.settings.timer_slack_ns));
        assert!(read_threads(u32::MAX).is_empty());
    }

    #[test]
    fn stat_of_strange_names_is_parsed() {
        let mut fields = vec!["0"; 50];
        (fields[0], fields[16], fields[37], fields[38]) = ("S", "-5", "50", "1");
        let stat = format!("7 (a) b 1) {}", fields.join(" "));
        assert_eq!(stat_field(&stat, 19), Some(-5));
        assert_eq!(scheduling_class(&stat).as_deref(), Some("fifo:50"));
        assert_eq!(effective_slack_ns(Some("fifo:50"), Some(50_000)), Some(0));
    }
}
