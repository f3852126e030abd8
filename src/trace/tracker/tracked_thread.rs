//! The state of a traced thread. Attributes the time between its events to the expired timers that
//! it has not handled yet.

use std::collections::VecDeque;

use engine::machine::os::ThreadName;
use files::report::why::Class;
use files::why::Parts;

use crate::trace::tracker::wait::{Segment, TIMERFD, Wait, span};

/// Maximum time that the return from a wait takes. More than this means an interruption.
pub(super) const MAX_RETURN_NS: u64 = 20_000;
const MAX_SEGMENTS: usize = 1 << 10;

/// State of a thread in the kernel's scheduler.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum SchedState {
    #[default]
    Unknown,
    Running,
    Ready,
    Sleeping,
    Stopped,
}

impl SchedState {
    /// Converts the state of a thread that the kernel switches away from.
    pub(super) fn from_kernel(state: i64) -> Self {
        match state & 0xff {
            0 => Self::Ready,
            0x04 | 0x08 => Self::Stopped,
            _ => Self::Sleeping,
        }
    }
}

/// Interval in which a CPU runs one thread. It ends with the next one of that CPU.
#[derive(Clone, Copy, Debug)]
pub(super) struct TracedCpuInterval {
    pub(super) since_ns: i64,
    /// Number of the thread; 0 is the idle thread.
    pub(super) thread: u32,
    pub(super) name: ThreadName,
}

/// A time span in which a thread was stopped.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stop {
    from_ns: i64,
    to_ns: i64,
}

#[derive(Debug, Default)]
pub(super) struct TrackedThread {
    pub(super) name: ThreadName,
    pub(super) state: SchedState,
    /// The call in which the thread waits.
    pub(super) call: Option<&'static str>,
    /// The last call in which the thread waited or waits.
    pub(super) last_call: Option<&'static str>,
    /// Number of calls so far.
    pub(super) call_number: u64,
    /// The timer that the thread set in the last call.
    pub(super) set_timer: Option<u64>,
    /// The last time at which the thread got a CPU.
    pub(super) on_cpu_ns: i64,
    /// The last time at which the thread returned from a call.
    pub(super) returned_ns: i64,
    /// The last time span in which the thread was stopped.
    pub(super) stop: Option<Stop>,
    pub(super) pending: Vec<PendingTimer>,
    /// Activity of the thread until `accounted_ns`, for timers that are overdue when they are set.
    pub(super) segments: VecDeque<Segment>,
    pub(super) accounted_ns: i64,
}

/// A timer that has expired, but whose thread has not continued yet.
#[derive(Debug)]
pub(super) struct PendingTimer {
    pub(super) timer: u64,
    pub(super) wait: Wait,
    /// The time at which the timer was set. It may be later than the deadline.
    pub(super) set_ns: i64,
    /// The time until which the lateness is attributed.
    pub(super) accounted_ns: i64,
    /// Time for which the thread has run since it was woken.
    pub(super) ran_ns: u64,
}

impl TrackedThread {
    pub(super) fn set_state(&mut self, state: SchedState, at_ns: i64) {
        if state == SchedState::Stopped {
            self.stop = Some(Stop { from_ns: at_ns, to_ns: i64::MAX });
        } else if self.state == SchedState::Stopped
            && let Some(stop) = &mut self.stop
        {
            stop.to_ns = at_ns;
        }
        self.state = state;
    }

    /// Accounts for the time since the thread's last event. `intervals` are those of the CPU that
    /// it gets now.
    pub(super) fn account(&mut self, at_ns: i64, intervals: Option<&VecDeque<TracedCpuInterval>>) {
        let state = self.state;
        self.record_activity(at_ns, intervals);
        for pending in &mut self.pending {
            pending.account(state, at_ns, intervals);
        }
    }

    fn record_activity(&mut self, at_ns: i64, intervals: Option<&VecDeque<TracedCpuInterval>>) {
        match (self.state, intervals) {
            (SchedState::Running, _) => self.record_until(at_ns, Class::OwnCpu),
            (SchedState::Sleeping, _) => self.record_until(at_ns, Class::Blocked),
            (SchedState::Stopped, _) => self.record_until(at_ns, Class::Stopped),
            (SchedState::Ready, Some(intervals)) => {
                // The latest comes first.
                let mut segments = Vec::new();
                for_each_queue_segment(self.accounted_ns, at_ns, intervals, |s| segments.push(s));
                for segment in segments.into_iter().rev() {
                    self.push_segment(segment);
                }
                self.accounted_ns = at_ns;
            }
            (SchedState::Unknown, _) => self.accounted_ns = at_ns,
            // The CPU that it will get shows which threads it waits for.
            (SchedState::Ready, None) => {}
        }
    }

    fn record_until(&mut self, to_ns: i64, class: Class) {
        self.push_segment(Segment { from_ns: self.accounted_ns, to_ns, class, behind: None });
        self.accounted_ns = self.accounted_ns.max(to_ns);
    }

    /// Accounts for a sleep that lasted until `at_ns`, although it was due to end at `due_ns`.
    pub(super) fn account_sleep(&mut self, due_ns: i64, at_ns: i64) {
        if self.state == SchedState::Sleeping {
            self.record_until(due_ns.min(at_ns), Class::Blocked);
            self.record_until(at_ns, Class::Below);
        }
    }

    fn push_segment(&mut self, segment: Segment) {
        if segment.from_ns < segment.to_ns {
            if self.segments.len() >= MAX_SEGMENTS {
                self.segments.pop_front();
            }
            self.segments.push_back(segment);
        }
    }

    /// Removes the pending expiries of a timer that did not wake the thread.
    pub(super) fn take_unwoken(&mut self, timer: u64) -> Vec<PendingTimer> {
        let is_unwoken = |p: &PendingTimer| p.timer == timer && p.wait.woken_ns.is_none();
        let indices: Vec<usize> =
            (0..self.pending.len()).filter(|&i| is_unwoken(&self.pending[i])).collect();
        // From the last index on, since a removal moves the last element.
        indices.into_iter().rev().map(|i| self.pending.swap_remove(i)).collect()
    }
}

impl PendingTimer {
    /// Attributes the time since the thread's last event, in which it had a state.
    fn account(
        &mut self,
        state: SchedState,
        at_ns: i64,
        intervals: Option<&VecDeque<TracedCpuInterval>>,
    ) {
        let from_ns = self.accounted_ns.max(self.wait.deadline_ns);
        self.accounted_ns = self.accounted_ns.max(at_ns);
        let ns = span(from_ns, at_ns);
        let wait = &mut self.wait;
        match (state, intervals) {
            (SchedState::Running, _) if wait.woken_ns.is_some() => self.ran_ns += ns,
            (SchedState::Running, _) => wait.parts.add(Class::OwnCpu, ns),
            (SchedState::Ready, Some(intervals)) => {
                for_each_queue_segment(from_ns, at_ns, intervals, |s| wait.add_segment(&s))
            }
            (SchedState::Sleeping, _) => wait.parts.add(Class::Blocked, ns),
            (SchedState::Stopped, _) => wait.parts.add(Class::Stopped, ns),
            (SchedState::Unknown | SchedState::Ready, _) => wait.parts.add(Class::Unexplained, ns),
        }
    }

    /// Attributes the time from the deadline until the timer was set to the thread's activity.
    pub(super) fn attribute_overdue(&mut self, segments: &VecDeque<Segment>) {
        let (mut until_ns, deadline_ns) = (self.set_ns, self.wait.deadline_ns);
        for segment in segments.iter().rev().take_while(|segment| segment.to_ns > deadline_ns) {
            let (from_ns, to_ns) = (segment.from_ns.max(deadline_ns), segment.to_ns.min(until_ns));
            if from_ns < to_ns {
                self.wait.parts.add(Class::Unexplained, span(to_ns, until_ns));
                self.wait.add_segment(&Segment { from_ns, to_ns, ..*segment });
                until_ns = from_ns;
            }
        }
        self.wait.parts.add(Class::Unexplained, span(deadline_ns, until_ns));
    }

    /// Completes the wait. The thread is accounted for until `end_ns`.
    pub(super) fn into_wait(self, end_ns: i64, thread: &TrackedThread) -> Wait {
        let Self { mut wait, ran_ns, set_ns, .. } = self;
        wait.end_ns = end_ns;
        if wait.lateness_ns() <= 0 {
            return Wait { parts: Parts::default(), behind: Vec::new(), ..wait };
        }
        let expired_ns = wait.expired_ns.unwrap_or(end_ns);
        let due_ns = wait.deadline_ns.max(set_ns);
        let late_ns = span(due_ns, expired_ns);
        let stopped_ns = thread
            .stop
            .map_or(0, |stop| span(stop.from_ns.max(due_ns), stop.to_ns.min(expired_ns)));
        let slack_ns =
            if wait.kind == TIMERFD { 0 } else { wait.slack_ns.min(late_ns - stopped_ns) };
        let parts = &mut wait.parts;
        parts.add(Class::Stopped, stopped_ns);
        parts.add(Class::Slack, slack_ns);
        parts.add(Class::Below, late_ns - stopped_ns - slack_ns);
        if let Some(woken_ns) = wait.woken_ns {
            parts.add(Class::Below, span(expired_ns.max(wait.deadline_ns), woken_ns));
        }
        parts.add(Class::Path, ran_ns.min(MAX_RETURN_NS));
        parts.add(Class::Below, ran_ns.saturating_sub(MAX_RETURN_NS));
        wait
    }
}

/// Calls a function with the threads that a CPU ran while another one was ready, the latest
/// first.
fn for_each_queue_segment(
    from_ns: i64,
    to_ns: i64,
    intervals: &VecDeque<TracedCpuInterval>,
    mut function: impl FnMut(Segment),
) {
    let mut until_ns = to_ns;
    for interval in intervals.iter().rev() {
        let since_ns = interval.since_ns.max(from_ns);
        if since_ns < until_ns {
            let (class, behind) = match interval.thread {
                0 => (Class::Below, None),
                _ => (Class::Queue, Some(interval.name)),
            };
            function(Segment { from_ns: since_ns, to_ns: until_ns, class, behind });
            until_ns = since_ns;
        }
        if until_ns <= from_ns {
            return;
        }
    }
    function(Segment { from_ns, to_ns: until_ns, class: Class::Queue, behind: None });
}
