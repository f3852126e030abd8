//! A program and everything it starts, on Unix: a process group of its own. On Linux this process
//! adopts orphans, too, so that what has left the group, by `setsid` for example, is found and
//! ended as well; elsewhere it gets away.

use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{ChildStderr, Command, ExitStatus};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::machine::os::types::{Ended, TreeUsage};

/// A program that was started, with everything that it starts.
pub struct ProcessTree {
    leader: libc::pid_t,
    /// Children of this process that were there before it: of a shell that became this process, for
    /// example.
    #[cfg(target_os = "linux")]
    others: Vec<libc::pid_t>,
    reaped: Mutex<Reaped>,
}

/// Leaders of the trees that are there, of which none takes what belongs to another.
static LEADERS: Mutex<Vec<libc::pid_t>> = Mutex::new(Vec::new());

fn leaders() -> MutexGuard<'static, Vec<libc::pid_t>> {
    LEADERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What is known of those that are reaped already.
#[derive(Default)]
struct Reaped {
    /// Of the program itself.
    status: Option<ExitStatus>,
    usage: TreeUsage,
    /// Nothing is left: what this process starts from now on is no part of the tree.
    all: bool,
}

impl ProcessTree {
    /// StartupCosts the program, as the leader of a process group of its own.
    pub fn start(command: &mut Command) -> io::Result<(Self, Option<ChildStderr>)> {
        keep_children();
        #[cfg(target_os = "linux")]
        let others = children()?.map(|child| child.id).collect();
        let mut child = command.process_group(0).spawn()?;
        let leader = libc::pid_t::try_from(child.id()).map_err(io::Error::other)?;
        leaders().push(leader);
        let tree = Self {
            leader,
            #[cfg(target_os = "linux")]
            others,
            reaped: Mutex::default(),
        };
        Ok((tree, child.stderr.take()))
    }

    /// Number of the program's process.
    pub fn id(&self) -> u32 {
        self.leader.unsigned_abs()
    }

    /// What blocks until the program itself has exited, and leaves it to be reaped by
    /// [`Self::end`].
    pub fn exit(&self) -> impl FnOnce() -> io::Result<()> + Send + use<> {
        let leader = self.leader;
        move || wait_for(libc::P_PID, leader, 0)
    }

    /// Lets its process group stand still, and whether that can be done; what has left the group
    /// runs on.
    pub fn pause(&self) -> bool {
        self.signal(libc::SIGSTOP);
        true
    }

    /// Lets it go on.
    pub fn resume(&self) {
        self.signal(libc::SIGCONT);
    }

    fn signal(&self, signal: libc::c_int) {
        // Reaped, its number may be another's.
        if self.reaped().status.is_none() {
            // SAFETY: the call takes numbers only. It fails for a group that is gone.
            unsafe { libc::kill(-self.leader, signal) };
        }
    }

    /// Ends all of it that is still there, and reaps it.
    ///
    /// # Errors
    /// Some of it is still there after `limit`: it belongs to another user, or hangs in the kernel.
    #[allow(clippy::disallowed_methods, reason = "a time limit on other processes needs a clock")]
    pub fn end(&self, limit: Duration) -> io::Result<Ended> {
        let started = Instant::now();
        loop {
            let mut left = Vec::new();
            if !self.reaped().all {
                // Each at once when it is found: a moment later it may have started another one,
                // and be gone.
                left.extend(self.left()?.inspect(|child| {
                    // Not reaped yet, it keeps its number: no other process can be hit.
                    kill(child.id);
                    if child.group == child.id {
                        kill(-child.id);
                    }
                }));
            }
            let mut reaped = self.reaped();
            for child in &left {
                let status = reap(child.id, &mut reaped.usage);
                if child.id == self.leader {
                    reaped.status = status.or(reaped.status);
                }
            }
            reaped.all |= left.is_empty();
            if reaped.all {
                leaders().retain(|leader| *leader != self.leader);
            }
            match reaped.status {
                Some(status) if reaped.all => return Ok(Ended { status, usage: reaped.usage }),
                _ if started.elapsed() > limit => {
                    let ids: Vec<String> = left.iter().map(|child| child.id.to_string()).collect();
                    return Err(io::Error::other(format!(
                        "cannot be ended: process {}",
                        ids.join(", ")
                    )));
                }
                _ => {}
            }
            drop(reaped);
            // No sleep: it would give a chain of processes, each of which starts the next and ends,
            // time to run ahead.
            std::thread::yield_now();
        }
    }

    fn reaped(&self) -> MutexGuard<'_, Reaped> {
        self.reaped.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Processes that are of the tree and children of this one; what they started becomes so once
    /// they have ended. Of several trees, an orphan that has left its group is of the one that ends
    /// first.
    #[cfg(target_os = "linux")]
    fn left(&self) -> io::Result<impl Iterator<Item = Child>> {
        let mut of_others = leaders().clone();
        of_others.retain(|leader| *leader != self.leader);
        let is_ours =
            move |c: &Child| !self.others.contains(&c.id) && !of_others.contains(&c.group);
        let mut left: Vec<Child> = listed().filter(&is_ours).collect();
        if left.is_empty() {
            left.extend(children()?.filter(is_ours));
        }
        Ok(left.into_iter())
    }

    /// The leader stands for its group as long as that has a member.
    #[cfg(not(target_os = "linux"))]
    fn left(&self) -> io::Result<impl Iterator<Item = Child>> {
        // SAFETY: the signal 0 is sent to nobody; the call only reports whether there is such a
        // group.
        let is_there =
            unsafe { libc::kill(-self.leader, 0) } == 0 || self.reaped().status.is_none();
        Ok(is_there.then_some(Child { id: self.leader, group: self.leader }).into_iter())
    }
}

struct Child {
    id: libc::pid_t,
    group: libc::pid_t,
}

/// Makes this process the parent of every orphan among its descendants, and keeps those that have
/// exited until they are reaped: both may have been set otherwise before this process became
/// osjitter.
fn keep_children() {
    // SAFETY: the default action of a signal needs no handler to stay valid.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
    #[cfg(target_os = "linux")]
    // SAFETY: this operation takes a number, no pointer, and concerns this process alone.
    unsafe {
        libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    };
}

/// Children of this process, with those that wait to be reaped. A kernel before 3.4 leaves orphans
/// to process 1; as process 1 itself, osjitter takes every orphan of its container for one of the
/// program's.
#[cfg(target_os = "linux")]
fn children() -> io::Result<impl Iterator<Item = Child>> {
    let none = wait_for(libc::P_ALL, 0, libc::WNOHANG)
        .is_err_and(|e| e.raw_os_error() == Some(libc::ECHILD));
    let processes = if none { None } else { Some(std::fs::read_dir("/proc")?) };
    Ok(processes
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| child(entry.file_name().to_str()?)))
}

/// The same from the kernel's list, which may miss some while others end, and which not every
/// kernel has. It takes no look at all other processes: a chain of which each starts the next and
/// ends is caught up with although the machine is busy.
#[cfg(target_os = "linux")]
fn listed() -> impl Iterator<Item = Child> {
    let threads = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let lists =
        threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("children")).ok());
    lists.flat_map(|list| list.split_whitespace().filter_map(child).collect::<Vec<_>>())
}

/// The process of that number, if it is a child of this one.
#[cfg(target_os = "linux")]
fn child(id: &str) -> Option<Child> {
    let id: libc::pid_t = id.parse().ok()?;
    let stat = std::fs::read(format!("/proc/{id}/stat")).ok()?;
    // The name, in parentheses, may hold anything.
    let after = &stat[stat.iter().rposition(|&byte| byte == b')')?..];
    let mut fields = std::str::from_utf8(after).ok()?.split_whitespace().skip(2);
    let (parent, group): (u32, libc::pid_t) =
        (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    (parent == std::process::id()).then_some(Child { id, group })
}

fn kill(id: libc::pid_t) {
    // SAFETY: the call takes numbers only. It fails for what is gone, and for what may not be
    // ended, which stays.
    unsafe { libc::kill(id, libc::SIGKILL) };
}

/// Waits until a child has exited, without reaping it.
fn wait_for(which: libc::idtype_t, id: libc::pid_t, options: libc::c_int) -> io::Result<()> {
    let id = libc::id_t::try_from(id).map_err(io::Error::other)?;
    loop {
        let mut info = std::mem::MaybeUninit::<libc::siginfo_t>::zeroed();
        // SAFETY: the pointer is to a whole `siginfo_t` of ours, which the call fills and does not
        // keep.
        match unsafe {
            libc::waitid(which, id, info.as_mut_ptr(), libc::WEXITED | libc::WNOWAIT | options)
        } {
            0 => return Ok(()),
            _ => match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::Interrupted => {}
                error => return Err(error),
            },
        }
    }
}

/// Takes a child that has exited, and adds what it used.
fn reap(id: libc::pid_t, to: &mut TreeUsage) -> Option<ExitStatus> {
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
    // In KiB, but on Apple's systems in bytes.
    let unit = if cfg!(target_vendor = "apple") { 1 } else { 1024 };
    to.cpu_ns += ns(usage.ru_utime) + ns(usage.ru_stime);
    let more =
        |sum: Option<u64>, n: libc::c_long| Some(sum.unwrap_or(0) + u64::try_from(n).unwrap_or(0));
    to.switches_voluntary = more(to.switches_voluntary, usage.ru_nvcsw);
    to.switches_involuntary = more(to.switches_involuntary, usage.ru_nivcsw);
    to.max_rss = to.max_rss.max(u64::try_from(usage.ru_maxrss).unwrap_or(0) * unit);
    Some(ExitStatus::from_raw(status))
}
