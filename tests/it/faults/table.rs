//! The table of faults: the command, the fault, its moments, and the expected result.

use super::scene::{
    AGAIN, CHANNEL, CLOCK_THREADS, CLOCKS, CONFIGURED, CONTROL, DISPATCH, DUET, EACH, FLEET, GATE,
    GATED, LISTENING, LOADED, METERS, MONITOR, PAGE, PICTURES, PROGRAM, REDRAWN, ROUND, SETTINGS,
    SPECIAL, STORE, Scene, TIMERS, URGENT, WHY, WORKERS,
};

/// A line of the table, with one row per moment.
#[derive(Debug)]
pub struct FaultLine {
    scene: &'static Scene,
    fault: Fault,
    at: &'static [Moment],
    expected: Expectation,
}

/// One fault at one moment.
#[derive(Clone, Copy, Debug)]
pub struct FaultRow {
    pub scene: &'static Scene,
    pub fault: Fault,
    pub at: Moment,
    pub expected: Expectation,
}

#[derive(Clone, Copy, Debug)]
pub enum Fault {
    /// A system call, optionally with a part of a path after an `@`, and the action on it, in the
    /// syntax of `inject.c`.
    Call { call: &'static str, action: &'static str },
    /// A limit, as shell commands.
    Limit(&'static str),
    /// A clock that jumps, in the syntax of `clock.c`.
    Clock(&'static str),
    /// A time namespace with this offset of its monotonic clock, in seconds.
    TimeNamespace(&'static str),
}

/// The calls with the fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    Start,
    Middle,
    /// The last call, or one of the last.
    End,
    /// All calls from this one on.
    From(u64),
    /// All calls.
    Always,
    /// Every second call.
    Half,
}

/// The expected result of a row. In addition, every command must end in time, without a panic, and
/// without unexpected or truncated files.
#[derive(Clone, Copy, Debug)]
pub enum Expectation {
    /// Exit code 0, and every subject has all of its ticks; other commands have a complete result.
    Unharmed,
    /// Exit code 0 or 4. The rounds after the fault are excluded, since their thread was moved to
    /// another CPU.
    Moved,
    /// Exit code 4. At least one of these subjects fails with this reason, or exactly one if the
    /// fault is in a single call. The others have all of their ticks, and the report is written.
    Fails(&'static [&'static str], &'static str),
    /// Exit code 4 with this reason on stderr. The results are printed, but nothing is written.
    Unwritten(&'static str),
    /// Exit code 4 with this text on stderr. Nothing is measured or written.
    Stopped(&'static str),
    /// Exit code 2 with this text on stderr. Nothing is run or written.
    Refused(&'static str),
    /// Exit code 4 with a result that is marked as partial.
    Interrupted,
    /// Exit code 0 with a complete result, because the signal comes after the last tick.
    TooLate,
    /// Killed by this signal. The written files are complete, and none is older than the report.
    Killed(i32),
    /// Exit code 0, and every subject has all of its ticks. The report and the table contain this
    /// duration of a suspension, within a round.
    Suspended(&'static str),
    /// Exit code 4 with a verdict that contains this reason.
    NotMeasured(&'static str),
    /// Exit code 0 or 4 with this text on stderr. The written files are complete.
    Says(&'static str),
}

use Expectation::{
    Fails, Interrupted, Killed, Moved, NotMeasured, Refused, Says, Stopped, Suspended, TooLate,
    Unharmed, Unwritten,
};
use Moment::{Always, End, From, Half, Middle, Start};

const EDGES: &[Moment] = &[Start, Middle, End];
const ONCE: &[Moment] = &[Start];
const ALWAYS: &[Moment] = &[Always];

impl FaultLine {
    pub fn rows(&self) -> impl Iterator<Item = FaultRow> {
        let Self { scene, fault, expected, .. } = *self;
        self.at.iter().map(move |&at| FaultRow { scene, fault, at, expected })
    }

    /// Returns one of the rows; lines with successive indices use different moments.
    pub fn row(&self, index: usize) -> FaultRow {
        let Self { scene, fault, at, expected } = *self;
        FaultRow { scene, fault, at: at[index % at.len()], expected }
    }
}

impl FaultRow {
    pub fn name(&self) -> String {
        let fault = match self.fault {
            Fault::Call { call, action } => format!("{call}={action}"),
            Fault::Limit(text) | Fault::Clock(text) => text.to_owned(),
            Fault::TimeNamespace(offset) => format!("time namespace {offset}"),
        };
        format!("{}, {fault}, {:?}", self.scene.name, self.at).to_lowercase()
    }
}

const fn call(
    scene: &'static Scene,
    call: &'static str,
    action: &'static str,
    at: &'static [Moment],
    expected: Expectation,
) -> FaultLine {
    FaultLine { scene, fault: Fault::Call { call, action }, at, expected }
}

const fn limit(scene: &'static Scene, limit: &'static str, expected: Expectation) -> FaultLine {
    FaultLine { scene, fault: Fault::Limit(limit), at: ALWAYS, expected }
}

const fn clock(scene: &'static Scene, jump: &'static str, expected: Expectation) -> FaultLine {
    FaultLine { scene, fault: Fault::Clock(jump), at: ALWAYS, expected }
}

const NATIVE: &[&str] = &["os-interval", "periodic-interval"];
const TOKIO: &[&str] = &["os-interval", "periodic-interval", "tokio-interval"];
const DRIVEN: &[&str] =
    &["os-interval-precise", "os-interval-group", "busypoll-interval", "tokio-timeout"];
const SHARED: &[&str] = &["os-interval-precise", "os-interval-group"];

const FULL: &str = "No space left";
const DESCRIPTORS: &str = "Too many open files";

#[rustfmt::skip]
pub const FAULT_LINES: &[FaultLine] = &[
    // Measurement: kernel timers.
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
    // Threads. The first one waits for Ctrl-C. A round first checks that two threads can be
    // started, then tokio starts two. If it gets only its first one, it waits for the end of that
    // thread.
    call(&WORKERS, "thread", "EAGAIN", &[From(2), From(3), From(4), From(22)],
        Fails(&["os-interval"], "Resource temporarily unavailable")),
    call(&WORKERS, "thread", "EAGAIN", &[From(5)], Fails(&["os-interval"], "cannot start 2 threads: ")),
    call(&CLOCK_THREADS, "thread", "EAGAIN", &[From(2), Middle, End], Stopped("cannot start the threads: Resource temporarily unavailable")),
    call(&CHANNEL, "thread", "EAGAIN", &[Middle, End], Stopped("cannot measure: ")),
    call(&DISPATCH, "thread", "EAGAIN", &[Middle, End], Stopped("cannot measure: Resource temporarily unavailable")),
    call(&CONTROL, "thread", "EAGAIN", ONCE, Stopped("cannot watch for Ctrl-C: Resource temporarily unavailable")),
    call(&PROGRAM, "thread", "EAGAIN", &[Middle, End], Fails(&["program"], "cannot start the watcher thread")),
    call(&LOADED, "thread", "EAGAIN", &[End], Stopped("cannot start the watcher thread")),
    call(&DUET, "thread", "EAGAIN", &[Middle, End], NotMeasured("cannot start the second thread")),
    call(&MONITOR, "thread", "EAGAIN", EDGES, Says("Resource temporarily unavailable")),
    // Kernel statistics: without them, some figures are missing.
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
    // Settings: the command fails if a requested one is not available.
    call(&SETTINGS, "setaffinity", "EINVAL", ONCE, Refused("cannot bind to CPU 0")),
    call(&SETTINGS, "prctl", "EPERM", ALWAYS, Refused("cannot set the timer slack")),
    call(&URGENT, "setscheduler", "EPERM", ONCE, Refused("cannot run as fifo:1")),
    call(&URGENT, "mlock", "ENOMEM", ONCE, Refused("cannot lock memory")),
    call(&TIMERS, "epoll_wait", "cpu", &[Start, Middle, End, Always], Moved),
    // A CPU that goes offline: its threads are moved, and no other can be bound to it.
    call(&SETTINGS, "sleep", "offline", &[Middle, Always], Moved),
    call(&EACH, "sleep", "offline", &[Middle, Always], Moved),
    call(&EACH, "setaffinity", "EINVAL", EDGES, Fails(&["nanosleep"], "cannot bind to CPU 0")),
    // Memory and descriptors.
    limit(&TIMERS, "ulimit -n 7", Fails(TOKIO, "ulimit -n")),
    limit(&TIMERS, "ulimit -n 6", Fails(TOKIO, "ulimit -n")),
    limit(&PROGRAM, "ulimit -n 7", Stopped(DESCRIPTORS)),
    limit(&GATE, "ulimit -n 6", NotMeasured(DESCRIPTORS)),
    limit(&TIMERS, "ulimit -v 200000", Unharmed),
    limit(&WORKERS, "ulimit -v 300000", Unharmed),
    call(&TIMERS, "brk", "ENOMEM", ALWAYS, Unharmed),
    call(&CONTROL, "sigaltstack", "ENOMEM", ALWAYS, Unharmed),
    // Children.
    call(&PROGRAM, "fork", "EAGAIN", &[Middle, End], Fails(&["program"], "cannot start sh")),
    call(&PROGRAM, "fork", "EAGAIN", ONCE, Stopped("cannot start sh")),
    call(&PROGRAM, "execve", "ENOMEM", &[End], Fails(&["program"], "cannot start sh")),
    call(&PROGRAM, "pipe", "EMFILE", &[Middle, End], Fails(&["program"], DESCRIPTORS)),
    call(&PROGRAM, "pipe", "EMFILE", ONCE, Stopped(DESCRIPTORS)),
    call(&PROGRAM, "mkdir@/temporary/osjitter-run-", "ENOSPC", &[Middle, End], Fails(&["program"], "no temporary directory for it in")),
    call(&PROGRAM, "open@/series", "EIO", &[Middle, End], Fails(&["program"], "cannot be read")),
    call(&PROGRAM, "read@/series", "EIO", &[Middle, End], Fails(&["program"], "cannot be read")),
    call(&PROGRAM, "read@/series", "EINTR", &[Half], Unharmed),
    call(&PROGRAM, "wait", "EINTR", &[Start, Half], Unharmed),
    call(&PROGRAM, "kill", "EPERM", ALWAYS, Unharmed),
    call(&LOADED, "pipe", "EMFILE", EDGES, Stopped("nothing was measured")),
    call(&LOADED, "fork", "ENOMEM", ONCE, Stopped("cannot be started")),
    call(&LOADED, "execve", "ENOENT", ONCE, Stopped("cannot be started")),
    call(&GATED, "fork", "EAGAIN", &[Middle, End], NotMeasured("cannot start sh")),
    call(&GATED, "read@/series", "EIO", &[Middle, End], NotMeasured("cannot be read")),
    call(&GATED, "thread", "EAGAIN", &[Middle, End], NotMeasured("cannot start the watcher thread")),
    call(&GATED, "pipe", "ENFILE", &[Middle, End], NotMeasured("Too many open files in system")),
    // Gates with built-in subjects.
    call(&GATE, "timerfd_create", "EMFILE", EDGES, NotMeasured(DESCRIPTORS)),
    call(&GATE, "epoll_wait", "EIO", EDGES, NotMeasured("Input/output error")),
    call(&GATE, "sleep", "EINVAL", EDGES, NotMeasured("Invalid argument")),
    // Writing: a new directory appears with all files or not at all.
    call(&CONTROL, "mkdir@/out", "EROFS", ONCE, Refused("Read-only file system")),
    call(&CONTROL, "mkdir@/out", "EDQUOT", ONCE, Refused("quota")),
    call(&PICTURES, "open@.tmp", "ENOSPC", ALWAYS, Refused(FULL)),
    call(&PICTURES, "open@.tmp", "ENOSPC", &[Middle, End], Unwritten(FULL)),
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
    // Writing into an existing directory: earlier files remain until all new ones are complete.
    call(&AGAIN, "open@/out/.osjitter-", "EROFS", ALWAYS, Refused("Read-only file system")),
    call(&AGAIN, "open@/out/.osjitter-", "ENOSPC", &[Middle, End], Unwritten(FULL)),
    call(&AGAIN, "write@/out/", "ENOSPC", EDGES, Unwritten(FULL)),
    call(&AGAIN, "fsync", "EDQUOT", EDGES, Unwritten("quota")),
    call(&AGAIN, "rename", "EACCES", EDGES, Unwritten("Permission denied")),
    limit(&CONTROL, "ulimit -f 1", Unwritten("File too large")),
    limit(&AGAIN, "ulimit -f 8", Unwritten("File too large")),
    limit(&PAGE, "ulimit -f 2", Unwritten("File too large")),
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
    // The listener of a monitor.
    call(&LISTENING, "socket", "EMFILE", ONCE, Refused(DESCRIPTORS)),
    call(&LISTENING, "bind", "EADDRINUSE", ONCE, Refused("the address is in use")),
    call(&LISTENING, "bind", "EACCES", ONCE, Refused("Permission denied")),
    call(&LISTENING, "listen", "EADDRINUSE", ONCE, Refused("the address is in use")),
    call(&LISTENING, "thread", "EAGAIN", &[End], Says("cannot serve metrics: Resource temporarily unavailable")),
    call(&LISTENING, "accept", "EMFILE", ALWAYS, Unharmed),
    call(&LISTENING, "accept", "ECONNABORTED", ONCE, Unharmed),
    call(&LISTENING, "accept", "EINTR", &[Half], Unharmed),
    call(&LISTENING, "write@/out/", "ENOSPC", EDGES, Says(FULL)),
    // Files of meters. Without one, a probe has a meter that only the monitor sees.
    call(&MONITOR, "open@.new", "ENOSPC", ALWAYS, Unharmed),
    call(&MONITOR, "open@.new", "EMFILE", ONCE, Unharmed),
    call(&MONITOR, "write@/temporary", "ENOSPC", ALWAYS, Unharmed),
    call(&MONITOR, "rename@.tickmeter", "EINVAL", ALWAYS, Unharmed),
    call(&MONITOR, "fallocate", "EPERM", ALWAYS, Unharmed),
    call(&METERS, "open@/temporary", "EACCES", ALWAYS, Says("Permission denied")),
    call(&METERS, "open@/temporary", "EMFILE", ALWAYS, Says(DESCRIPTORS)),
    call(&METERS, "getdents@/temporary", "EIO", ALWAYS, Unharmed),
    // A file of settings.
    call(&CONFIGURED, "open@osjitter.toml", "EACCES", ONCE, Refused("cannot read")),
    call(&CONFIGURED, "open@osjitter.toml", "EMFILE", ONCE, Stopped(DESCRIPTORS)),
    call(&CONFIGURED, "read@osjitter.toml", "EIO", ONCE, Refused("Input/output error")),
    call(&CONFIGURED, "read@osjitter.toml", "EINTR", &[Half], Unharmed),
    // A directory of bins.
    call(&FLEET, "open@a.bins.csv", "EACCES", ONCE, Refused("1 damaged or missing file: cannot read ")),
    call(&FLEET, "read@b.bins.csv", "EIO", ONCE, Refused("1 damaged or missing file: cannot read ")),
    call(&FLEET, "read@.bins.csv", "EINTR", &[Half], Unharmed),
    call(&FLEET, "getdents@/logs", "EIO", ONCE, Refused("Input/output error")),
    call(&FLEET, "write@/.osjitter-", "ENOSPC", EDGES, Says(FULL)),
    call(&FLEET, "fsync", "EIO", EDGES, Says("Input/output error")),
    call(&FLEET, "rename", "EROFS", ONCE, Says("Read-only file system")),
    // Signals during a call.
    call(&LISTENING, "accept", "SIGTERM", ONCE, Unharmed),
    call(&FLEET, "read@.bins.csv", "SIGINT", ONCE, Says("")),
    call(&FLEET, "fsync", "SIGTERM", EDGES, Says("")),
    call(&PAGE, "rename", "SIGHUP", ONCE, Says("")),
    call(&PAGE, "thread", "EAGAIN", ONCE, Unharmed),
    call(&TIMERS, "epoll_wait", "SIGINT", EDGES, Interrupted),
    // After the last tick, a thread may still sleep.
    call(&TIMERS, "sleep", "SIGTERM", &[Start, Middle], Interrupted),
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
    // Clocks that jump: the grid uses another clock, so it does not move.
    clock(&TIMERS, "realtime:3600:2", Unharmed),
    clock(&TIMERS, "realtime:-86400:2", Unharmed),
    clock(&TIMERS, "boottime:3600:5", Unharmed),
    clock(&TIMERS, "boottime:30:60", Unharmed),
    // The fourth anchor is at the end of the only round: tach, the run and the round start with one
    // each.
    clock(&ROUND, "boottime:3600:4", Suspended("3600.0 s")),
    clock(&GATED, "boottime:3600:5", Unharmed),
    clock(&MONITOR, "realtime:3600:20", Unharmed),
    clock(&MONITOR, "realtime:-3600:20", Unharmed),
];
