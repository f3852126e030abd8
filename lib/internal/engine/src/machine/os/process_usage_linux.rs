//! Resources that running processes have used so far.

use std::collections::BTreeMap;
use std::mem::MaybeUninit;

use crate::machine::os::types::{TreeUsage, Usage};

/// Resources of a running program and of the processes that it has started.
#[derive(Clone, Debug)]
pub struct ProcessUsage(BTreeMap<u32, Usage>);

impl ProcessUsage {
    /// Reads the resources of a process and its descendants; `None` if the kernel does not list
    /// them. A descendant that exits during the reading is left out.
    pub fn read(id: u32) -> Option<Self> {
        let (usage, mut waiting) = read_process(id)?;
        let mut processes = BTreeMap::new();
        processes.insert(id, usage);
        while let Some(id) = waiting.pop() {
            match read_process(id) {
                Some((usage, children)) => {
                    processes.insert(id, usage);
                    waiting.extend(children);
                }
                None if has_exited(id) => {}
                None => return None,
            }
        }
        Some(Self(processes))
    }

    /// Returns the CPU time of all these processes.
    pub fn cpu_ns(&self) -> u64 {
        self.0.values().filter_map(|usage| usage.cpu_ns).sum()
    }

    /// Returns the resources that were used since an earlier reading; `None` if a process was
    /// started or has exited since then.
    pub fn since(&self, before: &Self) -> Option<TreeUsage> {
        if !self.0.keys().eq(before.0.keys()) {
            return None;
        }
        let mut sum = TreeUsage {
            switches_voluntary: Some(0),
            switches_involuntary: Some(0),
            ..TreeUsage::default()
        };
        for (now, then) in self.0.values().zip(before.0.values()) {
            let delta = |now: Option<u64>, then: Option<u64>| now?.checked_sub(then?);
            let add = |sum: Option<u64>, more: Option<u64>| Some(sum? + more?);
            sum.cpu_ns += delta(now.cpu_ns, then.cpu_ns)?;
            let voluntary = delta(now.switches_voluntary, then.switches_voluntary);
            sum.switches_voluntary = add(sum.switches_voluntary, voluntary);
            let involuntary = delta(now.switches_involuntary, then.switches_involuntary);
            sum.switches_involuntary = add(sum.switches_involuntary, involuntary);
        }
        Some(sum)
    }
}

/// Reads the resources of a process, and the ids of its children.
fn read_process(id: u32) -> Option<(Usage, Vec<u32>)> {
    let (mut voluntary, mut involuntary, mut children) = (0, 0, Vec::new());
    for thread in std::fs::read_dir(format!("/proc/{id}/task")).ok()?.flatten() {
        // A thread may end between the listing and the reading.
        let Ok(status) = std::fs::read_to_string(thread.path().join("status")) else { continue };
        let list = match std::fs::read_to_string(thread.path().join("children")) {
            Ok(list) => list,
            Err(_) if !thread.path().exists() => continue,
            Err(_) => return None,
        };
        voluntary += status_number(&status, "voluntary_ctxt_switches:")?;
        involuntary += status_number(&status, "nonvoluntary_ctxt_switches:")?;
        children.extend(list.split_whitespace().filter_map(|id| id.parse::<u32>().ok()));
    }
    let usage = Usage {
        cpu_ns: Some(process_cpu_ns(id)?),
        switches_voluntary: Some(voluntary),
        switches_involuntary: Some(involuntary),
    };
    Some((usage, children))
}

/// Returns whether a process has exited, and its parent has collected its exit code.
fn has_exited(id: u32) -> bool {
    !std::path::Path::new(&format!("/proc/{id}")).exists()
}

/// Returns the number at a key of `/proc/ID/status`.
fn status_number(status: &str, key: &str) -> Option<u64> {
    status.lines().find_map(|line| line.strip_prefix(key))?.trim().parse().ok()
}

/// Returns the CPU time of all threads of a process, including those that have exited.
fn process_cpu_ns(id: u32) -> Option<u64> {
    let id = libc::pid_t::try_from(id).ok()?;
    let mut clock: libc::clockid_t = 0;
    // SAFETY: the pointer is to a clock id of ours, which the call sets and does not keep.
    if unsafe { libc::clock_getcpuclockid(id, &raw mut clock) } != 0 {
        return None;
    }
    let mut time = MaybeUninit::<libc::timespec>::zeroed();
    // SAFETY: the pointer is to a whole `timespec` of ours, which the call fills and does not keep.
    if unsafe { libc::clock_gettime(clock, time.as_mut_ptr()) } != 0 {
        return None;
    }
    // SAFETY: the call succeeded, and all-zero was a valid `timespec` before.
    let time = unsafe { time.assume_init() };
    let seconds = u64::try_from(time.tv_sec).ok()?;
    Some(seconds * 1_000_000_000 + u64::try_from(time.tv_nsec).ok()?)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[test]
    fn running_processes_are_included() {
        let own = std::process::id();
        let before = ProcessUsage::read(own).expect("this process");
        let mut child =
            std::process::Command::new("sleep").arg("100").spawn().expect("a child process");
        let with_child = ProcessUsage::read(own).expect("this process");
        assert!(with_child.0.contains_key(&child.id()), "{with_child:?}");
        assert!(with_child.since(&before).is_none(), "a process was started");
        child.kill().expect("it runs");
        child.wait().expect("it exits");
        assert!(ProcessUsage::read(u32::MAX).is_none());
    }

    #[test]
    fn exiting_processes_are_left_out() {
        let ids = std::sync::mpsc::sync_channel(0);
        let ended = Arc::new(AtomicU32::new(0));
        let counter = Arc::clone(&ended);
        let starter = std::thread::spawn(move || {
            let start = || std::process::Command::new("true").status().expect("a child process");
            while ids.0.try_send(()) == Err(std::sync::mpsc::TrySendError::Full(())) {
                assert!(start().success());
                counter.fetch_add(1, Ordering::Relaxed);
            }
        });
        let mut reads = 0;
        let has_few = || ended.load(Ordering::Relaxed) < 20 && !starter.is_finished();
        while reads < 500 || has_few() {
            assert!(ProcessUsage::read(std::process::id()).is_some());
            reads += 1;
        }
        drop(ids.1);
        starter.join().expect("every child succeeds");
    }

    #[test]
    fn differences_are_sums_of_processes() {
        let usage = |cpu_ns, switches| Usage {
            cpu_ns: Some(cpu_ns),
            switches_voluntary: Some(switches),
            switches_involuntary: None,
        };
        let before = ProcessUsage(BTreeMap::from_iter([(1, usage(5, 1)), (2, usage(10, 2))]));
        let after = ProcessUsage(BTreeMap::from_iter([(1, usage(7, 2)), (2, usage(40, 4))]));
        let used = after.since(&before).expect("the same processes");
        assert_eq!(
            (used.cpu_ns, used.switches_voluntary, used.switches_involuntary),
            (32, Some(3), None)
        );
        assert!(before.since(&after).is_none(), "the ids were reused");
    }
}
