//! One timer that a thread waited for, and the stretches that its lateness is made of.

use engine::machine::os::ThreadName;
use files::report::why::{Chain, Class};
use files::why::{Parts, WakeupPath};

/// Timers that outlive a call, and may expire while their thread is busy.
pub(super) const TIMERFD: &str = "timerfd";

/// A timer that a thread waited for, from its deadline to the thread's going on.
#[derive(Clone, Debug, PartialEq)]
pub struct Wait {
    pub thread: u32,
    pub name: ThreadName,
    /// What it waited in.
    pub kind: &'static str,
    pub deadline_ns: i64,
    /// `None` where nobody saw it: while a kernel's own records have holes, the thread's going on
    /// shows that it did.
    pub expired_ns: Option<i64>,
    /// `None` where the timer found it awake, or nobody saw it.
    pub woken_ns: Option<i64>,
    /// When it got its CPU; `None` where it had one, or that was not seen.
    pub ran_ns: Option<i64>,
    /// When its call returned, or it set the timer again.
    pub end_ns: i64,
    /// How far the kernel might delay the timer on purpose.
    pub slack_ns: u64,
    /// Its lateness taken apart: the parts add up to it.
    pub parts: Parts,
    /// Who ran while it was ready.
    pub behind: Vec<(ThreadName, u64)>,
}

impl Wait {
    pub fn lateness_ns(&self) -> i64 {
        self.end_ns.saturating_sub(self.deadline_ns)
    }

    /// Its stations, as far as they were seen.
    pub fn way(&self) -> WakeupPath {
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

    /// Of a timer that nothing is known of but when it was due; until more is known, it ends when
    /// it expired, or was gone.
    pub(super) fn due(
        of: (u32, ThreadName),
        kind: &'static str,
        deadline_ns: i64,
        slack_ns: u64,
        end_ns: i64,
    ) -> Self {
        let ((thread, name), parts, behind) = (of, Parts::default(), Vec::new());
        let (expired_ns, woken_ns, ran_ns) = (None, None, None);
        Self {
            thread,
            name,
            kind,
            deadline_ns,
            expired_ns,
            woken_ns,
            ran_ns,
            end_ns,
            slack_ns,
            parts,
            behind,
        }
    }

    pub(super) fn book(&mut self, piece: &Piece) {
        let ns = span(piece.from_ns, piece.to_ns);
        self.parts.add(piece.class, ns);
        if let Some(name) = piece.behind.filter(|_| ns > 0) {
            match self.behind.iter_mut().find(|(of, _)| *of == name) {
                Some((_, sum)) => *sum += ns,
                None => self.behind.push((name, ns)),
            }
        }
    }
}

/// A stretch of a thread's life.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece {
    pub(super) from_ns: i64,
    pub(super) to_ns: i64,
    pub(super) class: Class,
    /// Who had its CPU.
    pub(super) behind: Option<ThreadName>,
}

pub(super) fn span(from_ns: i64, to_ns: i64) -> u64 {
    if to_ns > from_ns { to_ns.abs_diff(from_ns) } else { 0 }
}
