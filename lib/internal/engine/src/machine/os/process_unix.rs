//! A program and everything that it starts on Unix, in a process group of its own.
//!
//! On Linux, this process also adopts orphans. It therefore finds and ends processes that have left
//! the group, for example by `setsid`. On other systems such processes escape.

use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, kill_process, kill_process_group, waitid,
};

use crate::machine::os::types::{ProcessTreeExit, StartedTree, TreeUsage};

/// A running program with everything that it starts.
pub struct ProcessTree {
    leader: Pid,
    /// Children of this process that are older than the program, such as those of a shell that
    /// became this process.
    #[cfg(target_os = "linux")]
    older_children: Vec<Pid>,
    reaped: Mutex<Reaped>,
}

/// Leaders of all running trees, so that a tree does not end the processes of another.
static LEADERS: Mutex<Vec<Pid>> = Mutex::new(Vec::new());

fn leaders() -> MutexGuard<'static, Vec<Pid>> {
    LEADERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Results of the processes that have been reaped.
#[derive(Default)]
struct Reaped {
    /// Exit status of the program itself.
    status: Option<ExitStatus>,
    usage: TreeUsage,
    /// No process is left. Children that this process starts later are not part of the tree.
    is_complete: bool,
}

impl ProcessTree {
    /// Starts the program as the leader of a new process group.
    #[allow(clippy::disallowed_methods, reason = "the time of the start")]
    pub fn start(command: &mut Command) -> io::Result<StartedTree> {
        adopt_children();
        #[cfg(target_os = "linux")]
        let older_children = children()?.map(|child| child.id).collect();
        // The search for children above can take milliseconds, which are not part of the run.
        let started = Instant::now();
        let mut child = command.process_group(0).spawn()?;
        let leader = Pid::from_child(&child);
        leaders().push(leader);
        let tree = Self {
            leader,
            #[cfg(target_os = "linux")]
            older_children,
            reaped: Mutex::default(),
        };
        Ok(StartedTree { tree, stderr: child.stderr.take(), started })
    }

    /// Returns the id of the program's process.
    pub fn id(&self) -> u32 {
        self.leader.as_raw_nonzero().get().unsigned_abs()
    }

    /// Returns a function that blocks until the program itself has exited, and leaves it to be
    /// reaped by [`Self::end`].
    pub fn exit_waiter(&self) -> impl FnOnce() -> io::Result<()> + Send + use<> {
        let leader = self.leader;
        move || Ok(wait_for(WaitId::Pid(leader), WaitIdOptions::empty())?)
    }

    /// Stops the process group. Returns true, since this platform can stop one. Processes that have
    /// left the group continue to run.
    pub fn pause(&self) -> bool {
        self.signal(Signal::STOP);
        true
    }

    /// Continues the process group.
    pub fn resume(&self) {
        self.signal(Signal::CONT);
    }

    fn signal(&self, signal: Signal) {
        // The id of a reaped process may belong to another process.
        if self.reaped().status.is_none() {
            // It fails for a group that is gone.
            let _ = kill_process_group(self.leader, signal);
        }
    }

    /// Kills and reaps all remaining processes.
    ///
    /// # Errors
    ///
    /// Returns an error if a process remains after `timeout`, since it belongs to another user or
    /// hangs in the kernel.
    #[allow(clippy::disallowed_methods, reason = "a time limit on other processes needs a clock")]
    pub fn end(&self, timeout: Duration) -> io::Result<ProcessTreeExit> {
        let started = Instant::now();
        loop {
            let remaining = self.kill_remaining()?;
            let mut reaped = self.reaped();
            let was_reaped = reaped.status.is_some();
            for child in &remaining {
                let status = reap(child.id, &mut reaped.usage);
                if child.id == self.leader {
                    reaped.status = status.or(reaped.status);
                } else if status.is_some_and(|status| status.signal() == Some(libc::SIGKILL)) {
                    reaped.usage.killed_processes += 1;
                }
            }
            // Other systems do not adopt the processes of the group: they can only be noticed.
            if cfg!(not(target_os = "linux")) && was_reaped && !remaining.is_empty() {
                reaped.usage.killed_processes = 1;
            }
            reaped.is_complete |= remaining.is_empty();
            if reaped.is_complete {
                leaders().retain(|leader| *leader != self.leader);
            }
            match reaped.status {
                Some(status) if reaped.is_complete => {
                    return Ok(ProcessTreeExit { status, usage: reaped.usage });
                }
                _ if started.elapsed() > timeout => {
                    let ids: Vec<String> = remaining
                        .iter()
                        .map(|child| child.id.as_raw_nonzero().to_string())
                        .collect();
                    return Err(io::Error::other(format!(
                        "cannot be ended: process {}",
                        ids.join(", ")
                    )));
                }
                _ => {}
            }
            drop(reaped);
            // Do not sleep: a chain of processes, each of which starts the next and exits, would
            // get ahead.
            std::thread::yield_now();
        }
    }

    /// Reaps the program, which has exited, and leaves what it started running.
    ///
    /// # Errors
    ///
    /// Returns an error if the program has not exited.
    pub fn leave(&self) -> io::Result<ExitStatus> {
        let mut reaped = self.reaped();
        let status = reap(self.leader, &mut reaped.usage).or(reaped.status);
        (reaped.status, reaped.is_complete) = (status, status.is_some());
        leaders().retain(|leader| *leader != self.leader || status.is_none());
        status.ok_or_else(|| io::ErrorKind::WouldBlock.into())
    }

    /// Kills the remaining processes and returns them.
    fn kill_remaining(&self) -> io::Result<Vec<Child>> {
        let mut killed = Vec::new();
        if self.reaped().is_complete {
            return Ok(killed);
        }
        let remaining = self.remaining();
        if remaining.is_err() {
            // Without a free descriptor, processes cannot be listed.
            self.signal(Signal::KILL);
        }
        // Kill each process as soon as it is found: a moment later it could have started another
        // one and exited.
        for child in remaining? {
            // A process keeps its id until it is reaped, so this cannot hit another one. It fails for
            // a process that has exited, and for one that may not be ended, which remains.
            let _ = kill_process(child.id, Signal::KILL);
            if child.group == Some(child.id) {
                let _ = kill_process_group(child.id, Signal::KILL);
            }
            killed.push(child);
        }
        Ok(killed)
    }

    fn reaped(&self) -> MutexGuard<'_, Reaped> {
        self.reaped.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the processes of the tree that are children of this process. Their children are
    /// adopted when they exit. With several trees, an orphan that has left its group belongs to the
    /// tree that ends first.
    #[cfg(target_os = "linux")]
    fn remaining(&self) -> io::Result<impl Iterator<Item = Child>> {
        let mut other_leaders = leaders().clone();
        other_leaders.retain(|leader| *leader != self.leader);
        let mut remaining: Vec<Child> = listed_children().collect();
        remaining.retain(|child| self.may_contain(child, &other_leaders));
        if remaining.is_empty() {
            remaining.extend(children()?.filter(|child| self.may_contain(child, &other_leaders)));
        }
        // Without a free descriptor, the lists are incomplete.
        let is_listed = remaining.iter().any(|child| child.id == self.leader);
        if !is_listed && self.reaped().status.is_none() {
            remaining.push(Child { id: self.leader, group: Some(self.leader) });
        }
        Ok(remaining.into_iter())
    }

    /// Returns whether a child of this process can belong to the tree: it was started later, and is
    /// not in the group of another tree.
    #[cfg(target_os = "linux")]
    fn may_contain(&self, child: &Child, other_leaders: &[Pid]) -> bool {
        !self.older_children.contains(&child.id)
            && !child.group.is_some_and(|group| other_leaders.contains(&group))
    }

    /// Returns the leader as long as its group has a member.
    #[cfg(not(target_os = "linux"))]
    fn remaining(&self) -> io::Result<impl Iterator<Item = Child>> {
        let has_member = rustix::process::test_kill_process_group(self.leader).is_ok()
            || self.reaped().status.is_none();
        Ok(has_member.then_some(Child { id: self.leader, group: Some(self.leader) }).into_iter())
    }
}

struct Child {
    id: Pid,
    /// The process group, unless the process is exiting and has none.
    group: Option<Pid>,
}

/// Makes this process adopt orphaned descendants and keep exited children until they are reaped.
///
/// The program that this process ran before osjitter may have set both differently.
pub fn adopt_children() {
    // SAFETY: the default action of a signal needs no handler to stay valid.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
    #[cfg(target_os = "linux")]
    let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
}

/// Lets this process continue if it is stopped when its parent dies.
///
/// The kernel sends the signal at the end of each thread that is the parent, which changes nothing for
/// a process that runs.
pub fn continue_at_parent_death() {
    #[cfg(target_os = "linux")]
    let _ = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::CONT));
}

/// Returns the children of this process, including those that wait to be reaped.
///
/// Kernels before 3.4 leave orphans to process 1. If osjitter itself is process 1, every orphan of
/// its container counts as a process of the program.
#[cfg(target_os = "linux")]
fn children() -> io::Result<impl Iterator<Item = Child>> {
    let has_none = wait_for(WaitId::All, WaitIdOptions::NOHANG) == Err(rustix::io::Errno::CHILD);
    let processes = if has_none { None } else { Some(std::fs::read_dir("/proc")?) };
    let entries = processes.into_iter().flatten().flatten();
    Ok(entries.filter_map(|entry| read_child(entry.file_name().to_str()?)))
}

/// Returns the children of this process from a list of the kernel.
///
/// The list can miss children while others exit, and not every kernel has it. It is faster than
/// reading all processes, so that a chain of processes, each of which starts the next and exits,
/// can be stopped on a busy machine.
#[cfg(target_os = "linux")]
fn listed_children() -> impl Iterator<Item = Child> {
    let threads = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let lists =
        threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("children")).ok());
    lists.flat_map(|list| list.split_whitespace().filter_map(read_child).collect::<Vec<_>>())
}

/// Reads the process with an id, if it is a child of this process.
#[cfg(target_os = "linux")]
fn read_child(id: &str) -> Option<Child> {
    let id = parse_pid(id)?;
    let stat = std::fs::read(format!("/proc/{}/stat", id.as_raw_nonzero())).ok()?;
    // The name, in parentheses, can contain any character.
    let after = &stat[stat.iter().rposition(|&byte| byte == b')')?..];
    let mut fields = std::str::from_utf8(after).ok()?.split_whitespace().skip(2);
    let parent: u32 = fields.next()?.parse().ok()?;
    let group = parse_pid(fields.next()?);
    (parent == std::process::id()).then_some(Child { id, group })
}

/// Parses the id of a process or group; those of an exiting process are 0 or -1.
#[cfg(target_os = "linux")]
fn parse_pid(text: &str) -> Option<Pid> {
    text.parse().ok().filter(|&id| id > 0).and_then(Pid::from_raw)
}

/// Waits until a child has exited, without reaping it.
fn wait_for(child: WaitId<'_>, options: WaitIdOptions) -> rustix::io::Result<()> {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | options;
    rustix::io::retry_on_intr(|| waitid(child.clone(), options)).map(drop)
}

/// Reaps a child that has exited, and adds its resources to `total`.
fn reap(id: Pid, total: &mut TreeUsage) -> Option<ExitStatus> {
    let id = id.as_raw_nonzero().get();
    let mut status = 0;
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    loop {
        // SAFETY: both pointers are to whole values of ours, which the call fills and does not
        // keep.
        match unsafe { libc::wait4(id, &mut status, libc::WNOHANG, usage.as_mut_ptr()) } {
            reaped if reaped == id => break,
            -1 if io::Error::last_os_error().kind() == io::ErrorKind::Interrupted => {}
            _ => return None,
        }
    }
    // SAFETY: the call succeeded, and all-zero was a valid `rusage` before.
    let usage = unsafe { usage.assume_init() };
    #[allow(clippy::unnecessary_cast, reason = "the fields differ in width from system to system")]
    let ns = |t: libc::timeval| t.tv_sec as u64 * 1_000_000_000 + t.tv_usec as u64 * 1_000;
    // The unit is KiB, except on Apple's systems, where it is a byte.
    let unit = if cfg!(target_vendor = "apple") { 1 } else { 1024 };
    total.cpu_ns += ns(usage.ru_utime) + ns(usage.ru_stime);
    let more =
        |sum: Option<u64>, n: libc::c_long| Some(sum.unwrap_or(0) + u64::try_from(n).unwrap_or(0));
    total.switches_voluntary = more(total.switches_voluntary, usage.ru_nvcsw);
    total.switches_involuntary = more(total.switches_involuntary, usage.ru_nivcsw);
    total.max_rss = total.max_rss.max(u64::try_from(usage.ru_maxrss).unwrap_or(0) * unit);
    Some(ExitStatus::from_raw(status))
}
