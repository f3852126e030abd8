//! The table: what fails, while what runs, when, and how that must end.

use super::scene::{
    AGAIN, CLOCKS, CONTROL, DUET, GATE, GATED, LOADED, MONITOR, PAGE, PICTURES, PROGRAM, REDRAWN,
    ROUND, SETTINGS, SPECIAL, STORE, Scene, TIMERS, URGENT, WHY, WORKERS,
};

/// A line of the table: as many rows as it has moments.
#[derive(Debug)]
pub struct Line {
    scene: &'static Scene,
    fault: Fault,
    at: &'static [Moment],
    ends: Ends,
}

/// One fault at one moment.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    pub scene: &'static Scene,
    pub fault: Fault,
    pub at: Moment,
    pub ends: Ends,
}

#[derive(Clone, Copy, Debug)]
pub enum Fault {
    /// A system call, or where it works after an "@"; and what happens to it: both in the words of
    /// `inject.c`.
    Call { call: &'static str, action: &'static str },
    /// A limit, in the words of the shell.
    Limit(&'static str),
    /// A clock that jumps, in the words of `clock.c`.
    Clock(&'static str),
}

/// Which of the calls is met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    Start,
    Middle,
    /// The last one, or nearly.
    End,
    /// All, from this one on.
    From(u64),
    /// Each.
    Always,
    /// Every second one.
    Half,
}

/// How it ends. Whatever it is: within a time, without a panic, without a file that nobody has
/// asked for or that is cut off.
#[derive(Clone, Copy, Debug)]
pub enum Ends {
    /// 0, and every subject has all of its ticks; or the result that another command promises.
    Unharmed,
    /// 4: of these subjects at least one fails with this reason, exactly one where a single call
    /// was met. The others have all of their ticks, and the report is written.
    Fails(&'static [&'static str], &'static str),
    /// 4, with this reason on stderr, and nothing is written; what was measured is shown.
    Unwritten(&'static str),
    /// 4, with this on stderr: nothing was measured, nothing is written.
    Stopped(&'static str),
    /// 2, with this on stderr: nothing was run, nothing is written.
    Refused(&'static str),
    /// 4, and what is written is marked as partial.
    Interrupted,
    /// 0 with a whole result: the signal came after the last tick.
    TooLate,
    /// By this signal; what is written is whole, and no file is of an older run than the report
    /// beside it.
    Killed(i32),
    /// 0, and every subject has all of its ticks; report and table say that the machine slept for
    /// so long, and within a round.
    Suspended(&'static str),
    /// 4, and a verdict that says why nothing was decided.
    NotMeasured(&'static str),
    /// 0 or 4, and this is said on stderr; the files are whole.
    Says(&'static str),
}

use Ends::{
    Fails, Interrupted, Killed, NotMeasured, Refused, Says, Stopped, Suspended, TooLate, Unharmed,
    Unwritten,
};
use Moment::{Always, End, From, Half, Middle, Start};

const EDGES: &[Moment] = &[Start, Middle, End];
const ONCE: &[Moment] = &[Start];
const ALWAYS: &[Moment] = &[Always];

impl Line {
    pub fn rows(&self) -> impl Iterator<Item = Row> {
        let Self { scene, fault, ends, .. } = *self;
        self.at.iter().map(move |&at| Row { scene, fault, at, ends })
    }

    /// One of its rows; lines with successive indices take different moments.
    pub fn row(&self, index: usize) -> Row {
        let Self { scene, fault, at, ends } = *self;
        Row { scene, fault, at: at[index % at.len()], ends }
    }
}

impl Row {
    pub fn name(&self) -> String {
        let fault = match self.fault {
            Fault::Call { call, action } => format!("{call}={action}"),
            Fault::Limit(what) | Fault::Clock(what) => what.to_owned(),
        };
        format!("{}, {fault}, {:?}", self.scene.name, self.at).to_lowercase()
    }
}

const fn call(
    scene: &'static Scene,
    call: &'static str,
    action: &'static str,
    at: &'static [Moment],
    ends: Ends,
) -> Line {
    Line { scene, fault: Fault::Call { call, action }, at, ends }
}

const fn limit(scene: &'static Scene, limit: &'static str, ends: Ends) -> Line {
    Line { scene, fault: Fault::Limit(limit), at: ALWAYS, ends }
}

const fn clock(scene: &'static Scene, jump: &'static str, ends: Ends) -> Line {
    Line { scene, fault: Fault::Clock(jump), at: ALWAYS, ends }
}

const NATIVE: &[&str] = &["os-interval", "periodic-interval"];
const TOKIO: &[&str] = &["os-interval", "periodic-interval", "tokio-interval"];
const DRIVEN: &[&str] =
    &["os-interval-precise", "os-interval-group", "busypoll-interval", "tokio-timeout"];
const SHARED: &[&str] = &["os-interval-precise", "os-interval-group"];

const FULL: &str = "No space left";
const DESCRIPTORS: &str = "Too many open files";

#[rustfmt::skip]
pub const ROWS: &[Line] = &[
    // The measuring path: kernel timers.
    call(&TIMERS, "timerfd_create", "EMFILE", EDGES, Fails(NATIVE, "ulimit -n")),
    call(&TIMERS, "timerfd_create", "ENOMEM", ALWAYS, Fails(NATIVE, "Cannot allocate memory")),
    call(&TIMERS, "timerfd_settime", "EINVAL", EDGES, Fails(NATIVE, "Invalid argument")),
    call(&SPECIAL, "timerfd_settime", "ECANCELED", EDGES, Fails(SHARED, "canceled")),
    call(&TIMERS, "read@[timerfd]", "EIO", EDGES, Fails(&["periodic-interval"], "Input/output error")),
    call(&TIMERS, "read@[timerfd]", "EINTR", &[Start, Half], Unharmed),
    call(&TIMERS, "sleep", "EINVAL", EDGES, Fails(&["nanosleep", "spin"], "22")),
    call(&TIMERS, "sleep", "EINTR", &[Start, Middle, End, Half], Unharmed),
    // Pollers and their wakers.
    call(&TIMERS, "epoll_create", "EMFILE", EDGES, Fails(TOKIO, DESCRIPTORS)),
    call(&TIMERS, "epoll_create", "ENOMEM", ALWAYS, Fails(TOKIO, "Cannot allocate memory")),
    call(&SPECIAL, "epoll_create", "ENFILE", EDGES, Fails(DRIVEN, "ulimit -n")),
    call(&TIMERS, "epoll_ctl", "ENOSPC", &[Start, Always], Fails(TOKIO, FULL)),
    call(&TIMERS, "epoll_wait", "EIO", EDGES, Fails(TOKIO, "Input/output error")),
    call(&SPECIAL, "epoll_wait", "EBADF", EDGES, Fails(DRIVEN, "Bad file descriptor")),
    call(&TIMERS, "epoll_wait", "EINTR", &[Start, Middle, End, Half], Unharmed),
    call(&SPECIAL, "epoll_wait", "EINTR", &[Half], Unharmed),
    call(&TIMERS, "eventfd", "EMFILE", EDGES, Fails(TOKIO, DESCRIPTORS)),
    // Threads. The first watches for Ctrl-C. A round proves two, then tokio starts two; where it
    // gets only its first, it waits for ever: that moment is left out.
    call(&WORKERS, "thread", "EAGAIN", &[From(2), From(3), From(4), From(22)],
        Fails(&["os-interval"], "Resource temporarily unavailable")),
    call(&CONTROL, "thread", "EAGAIN", ONCE, Stopped("cannot watch for Ctrl-C: Resource temporarily unavailable")),
    call(&PROGRAM, "thread", "EAGAIN", &[Middle, End], Fails(&["sh"], "no thread to watch it")),
    call(&LOADED, "thread", "EAGAIN", &[End], Refused("no thread to watch it")),
    call(&DUET, "thread", "EAGAIN", &[Middle, End], NotMeasured("no thread for two at once")),
    call(&MONITOR, "thread", "EAGAIN", EDGES, Says("Resource temporarily unavailable")),
    // What the kernel accounts for: without it, a figure is missing.
    call(&TIMERS, "getrusage", "EPERM", ALWAYS, Unharmed),
    call(&TIMERS, "clock", "EINVAL", ALWAYS, Unharmed),
    call(&TIMERS, "open@/proc", "EACCES", ALWAYS, Unharmed),
    call(&TIMERS, "open@/sys", "EACCES", ALWAYS, Unharmed),
    call(&TIMERS, "read@/proc", "EIO", &[Middle, Always], Unharmed),
    call(&TIMERS, "getaffinity", "EPERM", ALWAYS, Unharmed),
    call(&TIMERS, "getrandom", "ENOSYS", ALWAYS, Unharmed),
    call(&TIMERS, "prctl", "EPERM", ALWAYS, Unharmed),
    call(&WHY, "perf_event_open", "EACCES", &[Start, Middle, End, Always], Unharmed),
    call(&WHY, "perf_event_open", "EMFILE", &[Middle, Always], Unharmed),
    call(&WHY, "perf_event_open", "ENOSYS", ALWAYS, Unharmed),
    // Settings: what was asked for and cannot be had is refused.
    call(&SETTINGS, "setaffinity", "EINVAL", ONCE, Refused("cannot bind to CPU 0")),
    call(&SETTINGS, "prctl", "EPERM", ALWAYS, Refused("cannot set the timer slack")),
    call(&URGENT, "setscheduler", "EPERM", ONCE, Refused("cannot run as fifo:1")),
    call(&URGENT, "mlock", "ENOMEM", ONCE, Refused("cannot lock memory")),
    call(&TIMERS, "epoll_wait", "cpu", &[Start, Middle, End, Always], Unharmed),
    call(&SETTINGS, "sleep", "cpu", &[Middle, Always], Unharmed),
    // Memory and descriptors.
    limit(&TIMERS, "ulimit -n 5", Fails(TOKIO, "ulimit -n")),
    limit(&TIMERS, "ulimit -n 6", Fails(TOKIO, "ulimit -n")),
    limit(&PROGRAM, "ulimit -n 6", Refused(DESCRIPTORS)),
    limit(&GATE, "ulimit -n 5", NotMeasured(DESCRIPTORS)),
    limit(&TIMERS, "ulimit -v 200000", Unharmed),
    limit(&WORKERS, "ulimit -v 300000", Unharmed),
    call(&TIMERS, "brk", "ENOMEM", ALWAYS, Unharmed),
    call(&CONTROL, "sigaltstack", "ENOMEM", ALWAYS, Unharmed),
    // Children.
    call(&PROGRAM, "fork", "EAGAIN", &[Middle, End], Fails(&["sh"], "cannot start sh")),
    call(&PROGRAM, "fork", "EAGAIN", ONCE, Refused("cannot start sh")),
    call(&PROGRAM, "execve", "ENOMEM", &[End], Fails(&["sh"], "cannot start sh")),
    call(&PROGRAM, "pipe", "EMFILE", &[Middle, End], Fails(&["sh"], DESCRIPTORS)),
    call(&PROGRAM, "pipe", "EMFILE", ONCE, Refused(DESCRIPTORS)),
    call(&PROGRAM, "mkdir@/temporary/.tmp", "ENOSPC", &[Middle, End], Fails(&["sh"], "no temporary directory for it in")),
    call(&PROGRAM, "open@/series", "EIO", &[Middle, End], Fails(&["sh"], "cannot be read")),
    call(&PROGRAM, "read@/series", "EIO", &[Middle, End], Fails(&["sh"], "cannot be read")),
    call(&PROGRAM, "read@/series", "EINTR", &[Half], Unharmed),
    call(&PROGRAM, "wait", "EINTR", &[Start, Half], Unharmed),
    call(&PROGRAM, "kill", "EPERM", ALWAYS, Unharmed),
    call(&LOADED, "pipe", "EMFILE", EDGES, Refused("nothing was measured")),
    call(&LOADED, "fork", "ENOMEM", ONCE, Refused("cannot be started")),
    call(&LOADED, "execve", "ENOENT", ONCE, Refused("cannot be started")),
    call(&GATED, "fork", "EAGAIN", &[Middle, End], NotMeasured("cannot start sh")),
    call(&GATED, "read@/series", "EIO", &[Middle, End], NotMeasured("cannot be read")),
    call(&GATED, "thread", "EAGAIN", &[Middle, End], NotMeasured("no thread to watch it")),
    call(&GATED, "pipe", "ENFILE", &[Middle, End], NotMeasured("Too many open files in system")),
    // Gates of our own subjects.
    call(&GATE, "timerfd_create", "EMFILE", EDGES, NotMeasured(DESCRIPTORS)),
    call(&GATE, "epoll_wait", "EIO", EDGES, NotMeasured("Input/output error")),
    call(&GATE, "sleep", "EINVAL", EDGES, NotMeasured("Invalid argument")),
    // The writing path: a fresh directory appears whole or not at all.
    call(&CONTROL, "mkdir@/.osjitter", "EROFS", ONCE, Refused("Read-only file system")),
    call(&CONTROL, "mkdir@/.osjitter", "EDQUOT", &[End], Unwritten("quota")),
    call(&PICTURES, "open@.tmp", "ENOSPC", ALWAYS, Unwritten(FULL)),
    call(&PICTURES, "write@/.osjitter", "ENOSPC", EDGES, Unwritten(FULL)),
    call(&PICTURES, "write@/.osjitter", "EDQUOT", EDGES, Unwritten("quota")),
    call(&PICTURES, "write@/.osjitter", "EIO", ALWAYS, Unwritten("Input/output error")),
    call(&PICTURES, "write@/.osjitter", "EINTR", &[Half], Unharmed),
    call(&PICTURES, "fsync", "EIO", EDGES, Unwritten("Input/output error")),
    call(&PICTURES, "fsync", "ENOSPC", EDGES, Unwritten(FULL)),
    call(&PICTURES, "fchmod", "EPERM", ALWAYS, Unharmed),
    call(&PICTURES, "rename", "ENOSPC", EDGES, Unwritten(FULL)),
    call(&PICTURES, "rename", "EROFS", ALWAYS, Unwritten("Read-only file system")),
    call(&PICTURES, "rename@/out", "EIO", &[End], Unwritten("Input/output error")),
    // In one that is there, earlier files stay until all of the new ones are there.
    call(&AGAIN, "open@/out/.osjitter-", "EROFS", ALWAYS, Refused("Read-only file system")),
    call(&AGAIN, "open@/out/.osjitter-", "ENOSPC", &[Middle, End], Unwritten(FULL)),
    call(&AGAIN, "write@/out/", "ENOSPC", EDGES, Unwritten(FULL)),
    call(&AGAIN, "fsync", "EDQUOT", EDGES, Unwritten("quota")),
    call(&AGAIN, "rename", "EACCES", EDGES, Unwritten("Permission denied")),
    limit(&CONTROL, "trap '' XFSZ; ulimit -f 1", Unwritten("File too large")),
    limit(&AGAIN, "trap '' XFSZ; ulimit -f 8", Unwritten("File too large")),
    limit(&PAGE, "trap '' XFSZ; ulimit -f 2", Unwritten("File too large")),
    // Other results.
    call(&PAGE, "write@/.osjitter-", "ENOSPC", ONCE, Unwritten(FULL)),
    call(&PAGE, "fsync", "EIO", ONCE, Unwritten("Input/output error")),
    call(&PAGE, "rename", "EROFS", ONCE, Unwritten("Read-only file system")),
    call(&PAGE, "read@cyclictest", "EIO", EDGES, Refused("Input/output error")),
    call(&PAGE, "open@cyclictest", "EACCES", &[End], Refused("Permission denied")),
    call(&GATE, "write@/.osjitter", "ENOSPC", ONCE, Unwritten(FULL)),
    call(&GATE, "fsync", "EIO", ONCE, Unwritten("Input/output error")),
    call(&GATE, "rename", "EDQUOT", EDGES, Unwritten("quota")),
    call(&STORE, "write@/.osjitter-", "ENOSPC", &[End], Unwritten(FULL)),
    call(&STORE, "rename", "EIO", &[End], Unwritten("Input/output error")),
    call(&MONITOR, "write@/out/", "ENOSPC", EDGES, Says(FULL)),
    call(&MONITOR, "fsync@/out/", "EIO", EDGES, Says("Input/output error")),
    call(&MONITOR, "rename@.csv", "ENOSPC", EDGES, Says(FULL)),
    call(&MONITOR, "epoll_wait", "EIO", &[Middle, End], Says("Input/output error")),
    call(&MONITOR, "sleep", "EINVAL", &[Middle], Says("Invalid argument")),
    // Signals, at the moment of a call.
    call(&TIMERS, "epoll_wait", "SIGINT", EDGES, Interrupted),
    call(&TIMERS, "sleep", "SIGTERM", EDGES, Interrupted),
    call(&TIMERS, "timerfd_settime", "SIGHUP", EDGES, Interrupted),
    call(&TIMERS, "epoll_wait", "SIGPIPE", &[Start, Middle, End, Half], Unharmed),
    call(&TIMERS, "epoll_wait", "SIGWINCH", &[Half], Unharmed),
    call(&TIMERS, "epoll_wait", "pause", EDGES, Unharmed),
    call(&TIMERS, "sleep", "pause", EDGES, Unharmed),
    call(&TIMERS, "epoll_wait", "SIGKILL", EDGES, Killed(9)),
    call(&PICTURES, "write@/.osjitter", "SIGTERM", EDGES, TooLate),
    call(&PICTURES, "fsync", "SIGINT", EDGES, TooLate),
    call(&PICTURES, "rename", "SIGHUP", EDGES, TooLate),
    call(&AGAIN, "fsync", "SIGKILL", EDGES, Killed(9)),
    call(&AGAIN, "rename", "SIGKILL", EDGES, Killed(9)),
    call(&REDRAWN, "fsync", "SIGKILL", EDGES, Killed(9)),
    call(&REDRAWN, "rename", "SIGKILL", &[Start, From(2), Middle, End], Killed(9)),
    call(&PICTURES, "fsync", "SIGKILL", EDGES, Killed(9)),
    call(&PICTURES, "rename", "SIGKILL", EDGES, Killed(9)),
    call(&CLOCKS, "rename", "SIGKILL", EDGES, Killed(9)),
    call(&PICTURES, "fsync", "pause", &[Middle], Unharmed),
    call(&PROGRAM, "fork", "SIGINT", &[Middle, End], Interrupted),
    call(&PROGRAM, "wait", "SIGTERM", &[Middle], Interrupted),
    call(&PROGRAM, "fork", "pause", EDGES, Unharmed),
    call(&GATED, "fork", "SIGTERM", &[Middle, End], Interrupted),
    call(&GATE, "epoll_wait", "SIGINT", EDGES, Interrupted),
    call(&MONITOR, "sleep", "SIGTERM", &[Middle], Unharmed),
    // Clocks that jump: the grid is on another, and does not move.
    clock(&TIMERS, "realtime:3600:2", Unharmed),
    clock(&TIMERS, "realtime:-86400:2", Unharmed),
    clock(&TIMERS, "boottime:3600:5", Unharmed),
    clock(&TIMERS, "boottime:30:60", Unharmed),
    // The fourth anchor ends the only round: tach, the run and the round begin with one each.
    clock(&ROUND, "boottime:3600:4", Suspended("3600.0 s")),
    clock(&GATED, "boottime:3600:5", Unharmed),
    clock(&MONITOR, "realtime:3600:20", Unharmed),
    clock(&MONITOR, "realtime:-3600:20", Unharmed),
];
