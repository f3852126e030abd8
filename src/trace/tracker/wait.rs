//! A timer that a thread waited for, and the segments of its lateness.

use engine::machine::os::ThreadName;
use files::report::why::{Chain, Class};
use files::why::{Parts, WakeupPath};

/// The kind of timers that outlive a call, and may expire while their thread is busy.
pub(super) const TIMERFD: &str = "timerfd";

/// A timer that a thread waited for, from its deadline until the thread continued.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Wait {
    pub thread: u32,
    pub name: ThreadName,
    /// Kind of the timer, or the call in which the thread waited.
    pub kind: &'static str,
    pub deadline_ns: i64,
    /// Expiry of the timer, or `None` if it was not recorded. The trace may have holes; then the
    /// thread's progress shows that the timer did expire.
    pub expired_ns: Option<i64>,
    /// Wake-up of the thread, or `None` if it was awake at the expiry or the wake-up was not
    /// recorded.
    pub woken_ns: Option<i64>,
    /// Time at which the thread got a CPU, or `None` if it had one already or this was not
    /// recorded.
    pub ran_ns: Option<i64>,
    /// Time at which the thread's call returned or the thread set the timer again.
    pub end_ns: i64,
    /// Time by which the kernel was allowed to delay the timer.
    pub slack_ns: u64,
    /// The causes of the lateness. Their sum is the lateness.
    pub parts: Parts,
    /// The threads that ran while this one was ready, and for how long.
    pub behind: Vec<(ThreadName, u64)>,
}

impl Wait {
    pub fn lateness_ns(&self) -> i64 {
        self.end_ns.saturating_sub(self.deadline_ns)
    }

    /// Returns the stages from the deadline to the thread, as far as they were recorded.
    pub fn wakeup_path(&self) -> WakeupPath {
        match (self.expired_ns, self.woken_ns, self.ran_ns) {
            (Some(expired_ns), Some(woken_ns), Some(ran_ns)) => {
                let chain = Chain {
                    timer_ns: expired_ns.saturating_sub(self.deadline_ns),
                    woken_ns: woken_ns.saturating_sub(expired_ns),
                    on_cpu_ns: ran_ns.saturating_sub(woken_ns),
                    runtime_ns: None,
                    task_ns: self.end_ns.saturating_sub(ran_ns),
                };
                WakeupPath::Whole { chain, apart_ns: None }
            }
            (Some(_), None, _) => WakeupPath::Awake,
            _ => WakeupPath::Broken,
        }
    }

    /// Adds a segment to the causes of the lateness.
    pub(super) fn add_segment(&mut self, segment: &Segment) {
        let ns = span(segment.from_ns, segment.to_ns);
        self.parts.add(segment.class, ns);
        if let Some(name) = segment.behind.filter(|_| ns > 0) {
            match self.behind.iter_mut().find(|(known, _)| *known == name) {
                Some((_, sum)) => *sum += ns,
                None => self.behind.push((name, ns)),
            }
        }
    }
}

/// A time span in which the activity of a thread does not change.
#[derive(Clone, Copy, Debug)]
pub(super) struct Segment {
    pub(super) from_ns: i64,
    pub(super) to_ns: i64,
    pub(super) class: Class,
    /// The thread that had the CPU while this one was ready.
    pub(super) behind: Option<ThreadName>,
}

/// Returns the length of a time span, or zero if it ends before it starts.
pub(super) fn span(from_ns: i64, to_ns: i64) -> u64 {
    if to_ns > from_ns { to_ns.abs_diff(from_ns) } else { 0 }
}
