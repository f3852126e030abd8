//! Derives the waits of threads on timers from the events of all CPUs, in order of time.
//!
//! Each wait is a timer that a thread waited for, with the lateness split into its causes:
//!
//! ```text
//!  deadline        expired   woken          ran     end
//!  ---|---------------|--------|--------------|-------|--->
//!      slack, or below  below    queue          the way back
//! ```

mod tracked_thread;
mod wait;

use std::collections::{HashMap, HashSet, VecDeque};

use engine::machine::os::{ThreadName, TraceEvent, TraceEventKind, WAITS};
use files::report::why::Class;

use crate::trace::tracker::tracked_thread::{
    MAX_RETURN_NS, PendingTimer, SchedState, TracedCpuInterval, TrackedThread,
};
pub use crate::trace::tracker::wait::Wait;
use crate::trace::tracker::wait::{TIMERFD, span};

/// Name of the call with which a thread resumes a wait that a signal interrupted.
const RESTART: &str = "restart";
/// Kinds of timers by the kernel function that they call on expiry. Other timers have the kind of
/// the call that set them.
pub const FUNCTIONS: [(&str, &str); 6] = [
    ("timerfd_tmrproc", TIMERFD),
    ("timerfd_alarmproc", TIMERFD),
    ("posix_timer_fn", "timer_create"),
    ("it_real_fn", "setitimer"),
    ("io_timeout_fn", "io_uring"),
    ("io_link_timeout_fn", "io_uring"),
];
/// Maximum number of armed timers to track. Like the maxima below, it is more than any real program
/// needs, and bounds the memory.
const MAX_TIMERS: usize = 1 << 16;
const MAX_THREADS: usize = 1 << 15;
/// Maximum number of expired timers per thread that it has not handled yet.
const MAX_PENDING: usize = 64;
/// Maximum number of timer functions that run nested on a CPU.
const MAX_NESTED: usize = 8;
/// Maximum number of context switches per CPU to which a wait can be attributed.
const MAX_CPU_INTERVALS: usize = 1 << 12;
/// Maximum distance from the deadline. A timer further away was set by a clock that jumped.
const MAX_LATENESS_NS: u64 = 100_000_000_000_000_000;
/// Maximum number of waits to keep.
pub const MAX_TRACKED_WAITS: usize = 1 << 20;

/// Counts of events, and of timers that are in no wait or in an incomplete one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TraceCounts {
    pub events: u64,
    /// Records that did not fit the kernel's buffers, or that could not be decoded.
    pub lost: u64,
    /// Timers that woke a thread but were set before the trace.
    pub without_start: u64,
    /// Waits without a record of the timer's expiry.
    pub without_expiry: u64,
    /// Waits without an end, because of lost records or a maximum.
    pub incomplete: u64,
    /// Events that arrived too late to be sorted.
    pub out_of_order: u64,
}

/// A timer that is set.
#[derive(Clone, Copy, Debug)]
struct ArmedTimer {
    thread: u32,
    /// The call in which the thread set it.
    call: Option<&'static str>,
    /// The number of that call.
    call_number: u64,
    function: u64,
    set_ns: i64,
    soft_ns: i64,
    hard_ns: i64,
    /// Whether it was cancelled: by the thread, or by a kernel that does so just before the expiry.
    cancelled: bool,
}

impl ArmedTimer {
    fn new(event: &TraceEvent, function: u64, soft_ns: i64, hard_ns: i64) -> Self {
        Self {
            thread: event.thread,
            call: None,
            call_number: 0,
            function,
            set_ns: event.at_ns,
            soft_ns,
            hard_ns,
            cancelled: false,
        }
    }

    fn slack_ns(&self) -> u64 {
        u64::try_from(self.hard_ns.saturating_sub(self.soft_ns)).unwrap_or(0)
    }

    /// Returns whether the thread set the timer in the call with that number.
    fn is_from_call(&self, thread: u32, call_number: u64) -> bool {
        (self.thread, self.call_number) == (thread, call_number)
    }
}

/// A timer whose function is running.
#[derive(Clone, Copy, Debug)]
struct ExpiringTimer {
    timer: u64,
    armed: Option<ArmedTimer>,
    at_ns: i64,
    /// The expiry by the timer's own clock.
    now_ns: i64,
    /// Whether it has woken a tracked thread.
    woke: bool,
}

impl ExpiringTimer {
    /// Returns the time from which it may expire, by `CLOCK_MONOTONIC`.
    fn due_ns(&self, clock_offsets_ns: &[i64]) -> Option<i64> {
        let offset_ns = self.now_ns.saturating_sub(self.at_ns);
        Some(monotonic_ns(clock_offsets_ns, self.armed?.soft_ns, offset_ns))
    }
}

/// Returns the kinds of the timers by the address of their function.
fn kinds_by_address(functions: &HashMap<u64, String>) -> HashMap<u64, &'static str> {
    let mut kinds = HashMap::new();
    for (address, name) in functions {
        let known = FUNCTIONS.iter().find(|(function, _)| function == name);
        kinds.extend(known.map(|(_, kind)| (*address, *kind)));
    }
    kinds
}

#[derive(Debug, Default)]
struct CpuState {
    expiring: Vec<ExpiringTimer>,
    /// In order of time.
    intervals: VecDeque<TracedCpuInterval>,
}

/// Tracks the waits of some threads through the events of a machine.
#[derive(Debug)]
pub struct WaitTracker {
    processes: HashSet<u32>,
    with_children: bool,
    functions: HashMap<u64, &'static str>,
    clock_offsets_ns: Vec<i64>,
    calls: HashMap<i64, &'static str>,
    /// Name of the threads whose waits are stored; `None` for all.
    chosen_name: Option<String>,
    threads: HashMap<u32, TrackedThread>,
    timers: HashMap<u64, ArmedTimer>,
    cpus: HashMap<u32, CpuState>,
    last_ns: i64,
    /// Events before this time may be incomplete, since records were lost.
    blind_until_ns: i64,
    pub waits: Vec<Wait>,
    pub counts: TraceCounts,
}

impl WaitTracker {
    /// Creates a tracker for a process, and optionally for the processes that it starts.
    ///
    /// `functions` are the names of kernel functions by address. `clock_offsets_ns` are the offsets
    /// of the kernel's other clocks from `CLOCK_MONOTONIC`.
    pub fn new(
        process: u32,
        with_children: bool,
        functions: &HashMap<u64, String>,
        clock_offsets_ns: Vec<i64>,
    ) -> Self {
        Self {
            processes: HashSet::from([process]),
            with_children,
            functions: kinds_by_address(functions),
            clock_offsets_ns,
            calls: WAITS.iter().copied().collect(),
            chosen_name: None,
            threads: HashMap::new(),
            timers: HashMap::new(),
            cpus: HashMap::new(),
            last_ns: i64::MIN,
            blind_until_ns: i64::MIN,
            waits: Vec::new(),
            counts: TraceCounts::default(),
        }
    }

    /// Stores and counts only the waits of threads that have this name when their timer expires, if
    /// it is given.
    pub fn with_chosen_name(self, name: Option<String>) -> Self {
        Self { chosen_name: name, ..self }
    }

    /// Tracks a thread that already exists.
    pub fn track_thread(&mut self, thread: u32, name: ThreadName) {
        if self.threads.len() < MAX_THREADS {
            self.threads.entry(thread).or_default().name = name;
        }
    }

    /// Returns the tracked threads that have not ended.
    pub fn threads(&self) -> impl Iterator<Item = (u32, ThreadName)> + '_ {
        self.threads.iter().map(|(id, thread)| (*id, thread.name))
    }

    /// Handles the next event.
    pub fn handle_event(&mut self, event: &TraceEvent) {
        self.counts.events += 1;
        if let TraceEventKind::Lost { records, until_ns } = event.kind {
            self.on_lost_records(records, until_ns);
            return;
        }
        if event.at_ns < self.last_ns {
            self.counts.out_of_order += 1;
            return;
        }
        self.last_ns = event.at_ns;
        match event.kind {
            TraceEventKind::Forked { process, thread, parent } => {
                self.on_fork(event.thread, process, thread, parent)
            }
            TraceEventKind::Ended { thread } => self.on_thread_exit(thread),
            TraceEventKind::Named { thread, name } => {
                self.threads.entry(thread).and_modify(|thread| thread.name = name);
            }
            _ if event.at_ns < self.blind_until_ns => {}
            TraceEventKind::Enter { call } => self.on_syscall_enter(event.thread, call),
            TraceEventKind::Return { .. } => self.on_syscall_exit(event.thread, event.at_ns),
            TraceEventKind::Start { timer, function, soft_ns, hard_ns } => {
                let armed = ArmedTimer::new(event, function, soft_ns, hard_ns);
                self.on_timer_start(event, timer, armed);
            }
            TraceEventKind::Cancel { timer } => {
                self.timers.entry(timer).and_modify(|armed| armed.cancelled = true);
            }
            TraceEventKind::Expire { timer, now_ns, .. } => {
                self.on_timer_expiring(event, timer, now_ns)
            }
            TraceEventKind::Expired { timer } => self.on_timer_expired(event.cpu, timer),
            TraceEventKind::Waking { thread } => self.on_wakeup(event.cpu, thread, event.at_ns),
            TraceEventKind::Switch { state, next, next_name } => {
                self.on_switch(event, state, next, next_name)
            }
            TraceEventKind::Lost { .. } => {}
        }
    }

    /// Ends the trace and drops the waits that are still pending.
    pub fn finish(&mut self) {
        self.counts.incomplete +=
            self.threads.values().map(|thread| thread.pending.len() as u64).sum::<u64>();
        for thread in self.threads.values_mut() {
            thread.pending.clear();
        }
    }

    /// Returns whether the maximum number of waits is reached.
    pub fn is_full(&self) -> bool {
        self.waits.len() >= MAX_TRACKED_WAITS
    }

    /// Discards all state, which the lost records may have changed.
    fn on_lost_records(&mut self, records: u64, until_ns: i64) {
        self.counts.lost = self.counts.lost.saturating_add(records);
        self.blind_until_ns = self.blind_until_ns.max(until_ns);
        self.timers.clear();
        self.cpus.clear();
        for thread in self.threads.values_mut() {
            self.counts.incomplete += thread.pending.len() as u64;
            let (name, last_call) = (thread.name, thread.last_call);
            *thread = TrackedThread { name, last_call, ..TrackedThread::default() };
        }
    }

    fn on_fork(&mut self, current: u32, process: u32, thread: u32, parent: u32) {
        let is_child = self.with_children && self.processes.contains(&parent);
        if self.processes.contains(&process) || is_child {
            self.processes.insert(process);
            let name = self.threads.get(&current).map_or_else(ThreadName::default, |t| t.name);
            self.track_thread(thread, name);
        }
    }

    fn on_thread_exit(&mut self, id: u32) {
        let exited = self.threads.remove(&id);
        self.counts.incomplete += exited.map_or(0, |thread| thread.pending.len() as u64);
    }

    fn on_syscall_enter(&mut self, id: u32, call: i64) {
        let call = self.calls.get(&call).copied();
        if let Some(thread) = self.threads.get_mut(&id) {
            thread.call = if call == Some(RESTART) { thread.last_call } else { call };
            thread.last_call = thread.call;
            thread.call_number += 1;
            thread.set_timer = None;
        }
    }

    fn on_timer_start(&mut self, event: &TraceEvent, timer: u64, armed: ArmedTimer) {
        if let Some(replaced) = self.timers.remove(&timer).filter(|old| self.is_timerfd(old)) {
            self.record_unseen_expiry(replaced, event.at_ns);
        }
        let expiring = self
            .cpus
            .get(&event.cpu)
            .and_then(|cpu| cpu.expiring.iter().find(|e| e.timer == timer));
        let armed = if let Some(expiring) = expiring {
            // The timer's own function sets it again, on behalf of the thread that set it first.
            let ArmedTimer { set_ns, soft_ns, hard_ns, .. } = armed;
            expiring.armed.map(|first| ArmedTimer { set_ns, soft_ns, hard_ns, ..first })
        } else if let Some(thread) = self.threads.get_mut(&event.thread) {
            thread.account(event.at_ns, None);
            for pending in thread.take_unwoken(timer) {
                store_wait(
                    &mut self.waits,
                    &mut self.counts,
                    pending.into_wait(event.at_ns, thread),
                );
            }
            thread.set_timer = Some(timer);
            Some(ArmedTimer { call: thread.call, call_number: thread.call_number, ..armed })
        } else {
            None
        };
        if let Some(armed) = armed.filter(|_| self.timers.len() < MAX_TIMERS) {
            self.timers.insert(timer, armed);
        }
    }

    /// Handles the start of a timer's function.
    fn on_timer_expiring(&mut self, event: &TraceEvent, timer: u64, now_ns: i64) {
        let armed = self.timers.remove(&timer);
        let expiring = &mut self.cpus.entry(event.cpu).or_default().expiring;
        if expiring.len() < MAX_NESTED {
            expiring.push(ExpiringTimer { timer, armed, at_ns: event.at_ns, now_ns, woke: false });
        }
    }

    /// Handles the end of a timer's function. A `timerfd` that woke no thread is pending for the
    /// thread that set it.
    fn on_timer_expired(&mut self, cpu: u32, timer: u64) {
        let Some(cpu) = self.cpus.get_mut(&cpu) else { return };
        let Some(index) = cpu.expiring.iter().rposition(|expiring| expiring.timer == timer) else {
            return;
        };
        let expiring = cpu.expiring[index];
        cpu.expiring.truncate(index);
        if let (false, Some(armed)) = (expiring.woke, expiring.armed)
            && self.is_timerfd(&armed)
        {
            self.add_pending(armed.thread, &expiring, None);
        }
    }

    fn on_wakeup(&mut self, cpu: u32, id: u32, at_ns: i64) {
        let expiring = self.cpus.get_mut(&cpu).and_then(|cpu| cpu.expiring.last_mut());
        let is_traced = self.threads.contains_key(&id);
        let expiring = expiring.map(|expiring| {
            expiring.woke |= is_traced;
            *expiring
        });
        if let Some(thread) = self.threads.get_mut(&id) {
            // A thread that sleeps beyond a deadline does not do so by choice.
            let due_ns = expiring.and_then(|expiring| expiring.due_ns(&self.clock_offsets_ns));
            thread.account_sleep(due_ns.unwrap_or(at_ns), at_ns);
            thread.account(at_ns, None);
            if thread.state != SchedState::Running {
                thread.set_state(SchedState::Ready, at_ns);
            }
        }
        if let Some(expiring) = expiring {
            self.add_pending(id, &expiring, Some(at_ns));
        }
    }

    fn on_switch(&mut self, event: &TraceEvent, state: i64, next: u32, next_name: ThreadName) {
        let at_ns = event.at_ns;
        if let Some(previous) = self.threads.get_mut(&event.thread) {
            previous.account(at_ns, None);
            previous.set_state(SchedState::from_kernel(state), at_ns);
        }
        let cpu = self.cpus.entry(event.cpu).or_default();
        if let Some(thread) = self.threads.get_mut(&next) {
            thread.account(at_ns, Some(&cpu.intervals));
            thread.set_state(SchedState::Running, at_ns);
            thread.name = next_name;
            thread.on_cpu_ns = at_ns;
            for pending in &mut thread.pending {
                if pending.wait.woken_ns.is_some() {
                    pending.wait.ran_ns.get_or_insert(at_ns);
                }
            }
            if thread.call.is_none() {
                // It waited in a call that is not traced, so its return is not seen.
                self.finish_pending(next, at_ns, |pending| pending.wait.woken_ns.is_some());
            }
        }
        let intervals = &mut self.cpus.entry(event.cpu).or_default().intervals;
        if intervals.len() >= MAX_CPU_INTERVALS {
            intervals.pop_front();
        }
        intervals.push_back(TracedCpuInterval { since_ns: at_ns, thread: next, name: next_name });
    }

    fn on_syscall_exit(&mut self, id: u32, at_ns: i64) {
        let Some(thread) = self.threads.get_mut(&id) else { return };
        thread.account(at_ns, None);
        thread.returned_ns = at_ns;
        let (call, call_number) = (thread.call.take(), thread.call_number);
        let set_timer = thread.set_timer.take();
        // A call that waits for descriptors also returns those that were ready before it.
        let polls_descriptors = matches!(call, Some("epoll" | "poll" | "select" | "io_uring"));
        self.finish_pending(id, at_ns, |p| polls_descriptors || p.wait.woken_ns.is_some());
        // The timer of this call ends with it, except for a timerfd.
        let Some(timer) = set_timer else { return };
        let is_of_call =
            |armed: &ArmedTimer| armed.is_from_call(id, call_number) && armed.call.is_some();
        if self.timers.get(&timer).is_some_and(is_of_call)
            && let Some(armed) = self.timers.remove(&timer)
            && !self.is_timerfd(&armed)
        {
            self.record_unseen_expiry(armed, at_ns);
        }
    }

    fn is_timerfd(&self, armed: &ArmedTimer) -> bool {
        self.functions.get(&armed.function) == Some(&TIMERFD)
    }

    /// Adds an expired timer to those that a thread has not handled yet.
    fn add_pending(&mut self, id: u32, expiring: &ExpiringTimer, woken_ns: Option<i64>) {
        let Some(thread) = self.threads.get_mut(&id) else { return };
        if !is_chosen(self.chosen_name.as_deref(), thread) {
            return;
        }
        let Some(armed) = expiring.armed else {
            self.counts.without_start += 1;
            return;
        };
        if thread.pending.len() >= MAX_PENDING {
            self.counts.incomplete += 1;
            return;
        }
        let is_same_wait = thread.call.is_some() && armed.is_from_call(id, thread.call_number);
        let call_kind = armed.call.filter(|_| is_same_wait || !self.functions.is_empty());
        let kind = self.functions.get(&armed.function).copied().or(call_kind);
        let kind = kind.unwrap_or(if self.functions.is_empty() { TIMERFD } else { "other" });
        let offset_ns = expiring.now_ns.saturating_sub(expiring.at_ns);
        let deadline_ns = monotonic_ns(&self.clock_offsets_ns, armed.soft_ns, offset_ns);
        let wait = Wait {
            thread: id,
            name: thread.name,
            kind,
            deadline_ns,
            expired_ns: Some(expiring.at_ns),
            woken_ns,
            end_ns: expiring.at_ns,
            slack_ns: armed.slack_ns(),
            ..Wait::default()
        };
        thread.account(expiring.at_ns, None);
        let mut pending = PendingTimer {
            timer: expiring.timer,
            wait,
            set_ns: armed.set_ns.min(expiring.at_ns),
            accounted_ns: woken_ns.unwrap_or(expiring.at_ns),
            ran_ns: 0,
        };
        pending.attribute_overdue(&thread.segments);
        thread.pending.push(pending);
    }

    /// Records the wait on a timer that is over without a record of its expiry. Its thread has
    /// continued by `at_ns`.
    fn record_unseen_expiry(&mut self, armed: ArmedTimer, at_ns: i64) {
        let offset_ns = armed.soft_ns.saturating_sub(at_ns);
        let deadline_ns = monotonic_ns(&self.clock_offsets_ns, armed.soft_ns, offset_ns);
        if armed.cancelled || deadline_ns > at_ns {
            return;
        }
        let Some(thread) = self.threads.get(&armed.thread) else { return };
        if !is_chosen(self.chosen_name.as_deref(), thread) {
            return;
        }
        let end_ns = if thread.returned_ns >= deadline_ns { thread.returned_ns } else { at_ns };
        let ran_ns = Some(thread.on_cpu_ns).filter(|ns| (deadline_ns..=end_ns).contains(ns));
        let kind = self.functions.get(&armed.function).copied().or(armed.call).unwrap_or("other");
        let mut wait = Wait {
            thread: armed.thread,
            name: thread.name,
            kind,
            deadline_ns,
            ran_ns,
            end_ns,
            slack_ns: armed.slack_ns(),
            ..Wait::default()
        };
        let return_ns = ran_ns.map_or(0, |ran| span(ran, end_ns).min(MAX_RETURN_NS));
        wait.parts.add(Class::Path, return_ns);
        wait.parts.add(Class::Unexplained, span(deadline_ns, end_ns) - return_ns);
        self.counts.without_expiry += 1;
        store_wait(&mut self.waits, &mut self.counts, wait);
    }

    /// Stores the waits on those pending timers that the thread has handled.
    fn finish_pending(&mut self, id: u32, at_ns: i64, is_handled: impl Fn(&PendingTimer) -> bool) {
        let Some(thread) = self.threads.get_mut(&id) else { return };
        let (handled, pending): (Vec<_>, Vec<_>) =
            std::mem::take(&mut thread.pending).into_iter().partition(is_handled);
        thread.pending = pending;
        for pending in handled {
            store_wait(&mut self.waits, &mut self.counts, pending.into_wait(at_ns, thread));
        }
    }
}

fn is_chosen(name: Option<&str>, thread: &TrackedThread) -> bool {
    name.is_none_or(|name| thread.name.to_string() == name)
}

fn store_wait(waits: &mut Vec<Wait>, counts: &mut TraceCounts, wait: Wait) {
    if waits.len() < MAX_TRACKED_WAITS && wait.lateness_ns().unsigned_abs() < MAX_LATENESS_NS {
        waits.push(wait);
    } else {
        counts.incomplete += 1;
    }
}

/// Converts a time of an unknown clock to `CLOCK_MONOTONIC`. The clock is the one whose offset is
/// closest to `offset_ns`.
fn monotonic_ns(clock_offsets_ns: &[i64], clock_ns: i64, offset_ns: i64) -> i64 {
    let offsets = clock_offsets_ns.iter().copied().chain([0]);
    let offset = offsets.min_by_key(|clock| clock.abs_diff(offset_ns)).unwrap_or(0);
    clock_ns.saturating_sub(offset)
}

#[cfg(all(test, target_os = "linux"))]
mod tests;
