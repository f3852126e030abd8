//! From what happened on the CPUs to the timers that threads waited for: a function of events in
//! order of time.
//!
//! ```text
//!  deadline        expired   woken          ran     end
//!  ---|---------------|--------|--------------|-------|--->
//!      slack, or below  below    queue          the way back
//! ```

mod thread;
mod wait;

use std::collections::{HashMap, HashSet, VecDeque};

use engine::machine::os::{ThreadName, TraceEvent, TraceEventKind, WAITS};
use files::report::why::Class;

use crate::trace::waits::thread::{MAX_WAY_NS, Pending, State, Thread};
pub use crate::trace::waits::wait::Wait;
use crate::trace::waits::wait::{TIMERFD, span};

/// What a wait is called in which a thread goes on with the one that a signal interrupted.
const RESTART: &str = "restart";
/// What becomes of a timer by the kernel's function that it calls; of the others, by the call that
/// set it.
pub const FUNCTIONS: [(&str, &str); 6] = [
    ("timerfd_tmrproc", TIMERFD),
    ("timerfd_alarmproc", TIMERFD),
    ("posix_timer_fn", "timer_create"),
    ("it_real_fn", "setitimer"),
    ("io_timeout_fn", "io_uring"),
    ("io_link_timeout_fn", "io_uring"),
];
/// More than any program has armed or pending, any CPU nests or a wait looks back at: what is
/// beyond is not followed.
const MAX_TIMERS: usize = 1 << 16;
const MAX_THREADS: usize = 1 << 15;
const MAX_PENDING: usize = 64;
const MAX_NESTED: usize = 8;
const MAX_OCCUPANTS: usize = 1 << 12;
/// Whatever is further from its deadline was set by a clock that jumped.
const FURTHEST_NS: u64 = 100_000_000_000_000_000;
/// So many waits are kept.
pub const MAX_TRACKED_WAITS: usize = 1 << 20;

/// What is not in any wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub events: u64,
    /// Records that the kernel had no room for, or that cannot be read.
    pub lost: u64,
    /// Timers that woke a thread, of which nobody saw when they were set.
    pub undated: u64,
    /// Waits of which nobody saw that the timer expired.
    pub unseen: u64,
    /// Waits whose end was not seen, because of lost records or for want of room.
    pub dropped: u64,
    /// Events that came too late to be put in order.
    pub disordered: u64,
}

/// A timer that is set.
#[derive(Clone, Copy, Debug)]
struct Armed {
    thread: u32,
    /// In which of the thread's waits.
    call: Option<&'static str>,
    calls: u64,
    function: u64,
    set_ns: i64,
    soft_ns: i64,
    hard_ns: i64,
    /// By the thread, or by a kernel that does so just before it expires.
    cancelled: bool,
}

impl Armed {
    fn slack_ns(&self) -> u64 {
        u64::try_from(self.hard_ns.saturating_sub(self.soft_ns)).unwrap_or(0)
    }
}

/// A timer whose function runs.
#[derive(Clone, Copy, Debug)]
struct Expiring {
    timer: u64,
    armed: Option<Armed>,
    at_ns: i64,
    now_ns: i64,
    woke: bool,
}

#[derive(Debug, Default)]
struct Cpu {
    expiring: Vec<Expiring>,
    /// Who has it from when on.
    occupants: VecDeque<(i64, u32, ThreadName)>,
}

/// Follows some threads through the events of a machine.
#[derive(Debug)]
pub struct Waits {
    processes: HashSet<u32>,
    with_children: bool,
    functions: HashMap<u64, &'static str>,
    clocks_ahead_ns: Vec<i64>,
    calls: HashMap<i64, &'static str>,
    threads: HashMap<u32, Thread>,
    timers: HashMap<u64, Armed>,
    cpus: HashMap<u32, Cpu>,
    last_ns: i64,
    blind_until_ns: i64,
    pub waits: Vec<Wait>,
    pub counts: Counts,
}

impl Waits {
    /// Of a process, and of those that it starts; `functions` are names by address,
    /// `clocks_ahead_ns` the kernel's other clocks.
    pub fn new(
        process: u32,
        with_children: bool,
        functions: &HashMap<u64, String>,
        clocks_ahead_ns: Vec<i64>,
    ) -> Self {
        let known = |(address, name): (&u64, &String)| {
            let (_, kind) = FUNCTIONS.iter().find(|(function, _)| function == name)?;
            Some((*address, *kind))
        };
        Self {
            processes: HashSet::from([process]),
            with_children,
            functions: functions.iter().filter_map(known).collect(),
            clocks_ahead_ns,
            calls: WAITS.iter().copied().collect(),
            threads: HashMap::new(),
            timers: HashMap::new(),
            cpus: HashMap::new(),
            last_ns: i64::MIN,
            blind_until_ns: i64::MIN,
            waits: Vec::new(),
            counts: Counts::default(),
        }
    }

    /// Follows a thread that is there already.
    pub fn follow(&mut self, thread: u32, name: ThreadName) {
        if self.threads.len() < MAX_THREADS {
            self.threads.entry(thread).or_default().name = name;
        }
    }

    /// The threads that are followed, as long as they live.
    pub fn threads(&self) -> impl Iterator<Item = (u32, ThreadName)> + '_ {
        self.threads.iter().map(|(id, thread)| (*id, thread.name))
    }

    /// The next event.
    pub fn take(&mut self, event: &TraceEvent) {
        self.counts.events += 1;
        if let TraceEventKind::Lost { records, until_ns } = event.kind {
            self.lose(records, until_ns);
            return;
        }
        if event.at_ns < self.last_ns {
            self.counts.disordered += 1;
            return;
        }
        self.last_ns = event.at_ns;
        let (at_ns, current) = (event.at_ns, event.thread);
        match event.kind {
            TraceEventKind::Forked { process, thread, parent } => {
                if self.processes.contains(&process)
                    || (self.with_children && self.processes.contains(&parent))
                {
                    self.processes.insert(process);
                    let name = self
                        .threads
                        .get(&current)
                        .map_or_else(ThreadName::default, |parent| parent.name);
                    self.follow(thread, name);
                }
            }
            TraceEventKind::Ended { thread } => {
                let gone = self.threads.remove(&thread);
                self.counts.dropped += gone.map_or(0, |gone| gone.pending.len() as u64);
            }
            TraceEventKind::Named { thread, name } => {
                self.threads.entry(thread).and_modify(|thread| thread.name = name);
            }
            _ if at_ns < self.blind_until_ns => {}
            TraceEventKind::Enter { call } => {
                let call = self.calls.get(&call).copied();
                if let Some(thread) = self.threads.get_mut(&current) {
                    thread.call = if call == Some(RESTART) { thread.last_call } else { call };
                    thread.last_call = thread.call;
                    thread.calls += 1;
                    thread.set = None;
                }
            }
            TraceEventKind::Return { .. } => self.returns(current, at_ns),
            TraceEventKind::Start { timer, function, soft_ns, hard_ns } => {
                self.starts(
                    event,
                    timer,
                    Armed {
                        thread: current,
                        call: None,
                        calls: 0,
                        function,
                        set_ns: at_ns,
                        soft_ns,
                        hard_ns,
                        cancelled: false,
                    },
                );
            }
            TraceEventKind::Cancel { timer } => {
                self.timers.entry(timer).and_modify(|armed| armed.cancelled = true);
            }
            TraceEventKind::Expire { timer, now_ns, .. } => {
                let armed = self.timers.remove(&timer);
                let expiring = &mut self.cpus.entry(event.cpu).or_default().expiring;
                if expiring.len() < MAX_NESTED {
                    expiring.push(Expiring { timer, armed, at_ns, now_ns, woke: false });
                }
            }
            TraceEventKind::Expired { timer } => self.expired(event.cpu, timer),
            TraceEventKind::Waking { thread } => self.wakes(event.cpu, thread, at_ns),
            TraceEventKind::Switch { state, next, next_name } => {
                self.switches(event, state, next, next_name)
            }
            TraceEventKind::Lost { .. } => {}
        }
    }

    /// Ends the window: what is still pending has no end.
    pub fn finish(&mut self) {
        self.counts.dropped +=
            self.threads.values().map(|thread| thread.pending.len() as u64).sum::<u64>();
        self.threads.values_mut().for_each(|thread| thread.pending.clear());
    }

    /// Whether there is no room for more.
    pub fn is_full(&self) -> bool {
        self.waits.len() >= MAX_TRACKED_WAITS
    }

    /// What was known may be wrong from here on.
    fn lose(&mut self, records: u64, until_ns: i64) {
        self.counts.lost = self.counts.lost.saturating_add(records);
        self.blind_until_ns = self.blind_until_ns.max(until_ns);
        self.timers.clear();
        self.cpus.clear();
        for thread in self.threads.values_mut() {
            self.counts.dropped += thread.pending.len() as u64;
            *thread =
                Thread { name: thread.name, last_call: thread.last_call, ..Thread::default() };
        }
    }

    fn starts(&mut self, event: &TraceEvent, timer: u64, armed: Armed) {
        if let Some(old) = self
            .timers
            .remove(&timer)
            .filter(|old| self.functions.get(&old.function) == Some(&TIMERFD))
        {
            self.unseen(old, event.at_ns);
        }
        let expiring = self
            .cpus
            .get(&event.cpu)
            .and_then(|cpu| cpu.expiring.iter().find(|e| e.timer == timer));
        let armed = match (expiring, self.threads.get_mut(&event.thread)) {
            // Its own function sets it again.
            (Some(expiring), _) => expiring.armed.map(|owner| {
                let Armed { set_ns, soft_ns, hard_ns, .. } = armed;
                Armed { set_ns, soft_ns, hard_ns, ..owner }
            }),
            (None, Some(thread)) => {
                let seen: Vec<usize> = (0..thread.pending.len())
                    .filter(|&i| {
                        thread.pending[i].timer == timer
                            && thread.pending[i].wait.woken_ns.is_none()
                    })
                    .collect();
                thread.account(event.at_ns, None);
                for i in seen.into_iter().rev() {
                    let pending = thread.pending.swap_remove(i);
                    keep(&mut self.waits, &mut self.counts, pending.ended(event.at_ns, thread));
                }
                thread.set = Some(timer);
                Some(Armed { call: thread.call, calls: thread.calls, ..armed })
            }
            (None, None) => None,
        };
        if let Some(armed) = armed.filter(|_| self.timers.len() < MAX_TIMERS) {
            self.timers.insert(timer, armed);
        }
    }

    fn wakes(&mut self, cpu: u32, id: u32, at_ns: i64) {
        let expiring = self.cpus.get_mut(&cpu).and_then(|cpu| cpu.expiring.last_mut());
        let expiring = expiring.map(|expiring| {
            expiring.woke |= self.threads.contains_key(&id);
            *expiring
        });
        if let Some(thread) = self.threads.get_mut(&id) {
            // What it slept beyond a deadline was not its own choice.
            let armed = expiring.and_then(|expiring| {
                Some((expiring.armed?, expiring.now_ns.saturating_sub(expiring.at_ns)))
            });
            let due_ns = armed.map(|(armed, about)| {
                armed.soft_ns.saturating_sub(ahead(&self.clocks_ahead_ns, about))
            });
            thread.slept_until(due_ns.unwrap_or(at_ns), at_ns);
            thread.account(at_ns, None);
            if thread.state != State::Runs {
                thread.become_(State::Ready, at_ns);
            }
        }
        if let Some(expiring) = expiring {
            self.pend(id, &expiring, Some(at_ns));
        }
    }

    fn expired(&mut self, cpu: u32, timer: u64) {
        let Some(cpu) = self.cpus.get_mut(&cpu) else { return };
        let Some(place) = cpu.expiring.iter().rposition(|expiring| expiring.timer == timer) else {
            return;
        };
        let expiring = cpu.expiring[place];
        cpu.expiring.truncate(place);
        if let (false, Some(armed)) = (expiring.woke, expiring.armed)
            && self.functions.get(&armed.function) == Some(&TIMERFD)
        {
            self.pend(armed.thread, &expiring, None);
        }
    }

    /// A timer has expired for a thread.
    fn pend(&mut self, id: u32, expiring: &Expiring, woken_ns: Option<i64>) {
        let Some(thread) = self.threads.get_mut(&id) else { return };
        let Some(armed) = expiring.armed else {
            self.counts.undated += 1;
            return;
        };
        if thread.pending.len() >= MAX_PENDING {
            self.counts.dropped += 1;
            return;
        }
        let same_wait = thread.call.is_some() && (armed.thread, armed.calls) == (id, thread.calls);
        let by_call = armed.call.filter(|_| same_wait || !self.functions.is_empty());
        let kind = self.functions.get(&armed.function).copied().or(by_call);
        let ahead = ahead(&self.clocks_ahead_ns, expiring.now_ns.saturating_sub(expiring.at_ns));
        let kind = kind.unwrap_or(if self.functions.is_empty() { TIMERFD } else { "other" });
        let deadline_ns = armed.soft_ns.saturating_sub(ahead);
        let due = Wait::due((id, thread.name), kind, deadline_ns, armed.slack_ns(), expiring.at_ns);
        let wait = Wait { expired_ns: Some(expiring.at_ns), woken_ns, ..due };
        let mark_ns = woken_ns.unwrap_or(expiring.at_ns);
        let set_ns = armed.set_ns.min(expiring.at_ns);
        thread.account(expiring.at_ns, None);
        let mut pending = Pending { timer: expiring.timer, wait, set_ns, mark_ns, ran_for_ns: 0 };
        pending.overdue(&thread.pieces);
        thread.pending.push(pending);
    }

    /// A timer that is over, although nobody saw that it expired or was cancelled: by `at_ns` its
    /// thread has gone on.
    fn unseen(&mut self, armed: Armed, at_ns: i64) {
        let ahead = ahead(&self.clocks_ahead_ns, armed.soft_ns.saturating_sub(at_ns));
        let deadline_ns = armed.soft_ns.saturating_sub(ahead);
        let Some(thread) =
            self.threads.get(&armed.thread).filter(|_| !armed.cancelled && deadline_ns <= at_ns)
        else {
            return;
        };
        let end_ns = if thread.returned_ns >= deadline_ns { thread.returned_ns } else { at_ns };
        let ran_ns = Some(thread.on_ns).filter(|on| (deadline_ns..=end_ns).contains(on));
        let kind = self.functions.get(&armed.function).copied().or(armed.call).unwrap_or("other");
        let due =
            Wait::due((armed.thread, thread.name), kind, deadline_ns, armed.slack_ns(), end_ns);
        let mut wait = Wait { ran_ns, ..due };
        let way_ns = ran_ns.map_or(0, |ran| span(ran, end_ns).min(MAX_WAY_NS));
        wait.parts.add(Class::Path, way_ns);
        wait.parts.add(Class::Unexplained, span(deadline_ns, end_ns) - way_ns);
        self.counts.unseen += 1;
        keep(&mut self.waits, &mut self.counts, wait);
    }

    fn switches(&mut self, event: &TraceEvent, state: i64, next: u32, next_name: ThreadName) {
        let at_ns = event.at_ns;
        if let Some(before) = self.threads.get_mut(&event.thread) {
            before.account(at_ns, None);
            before.become_(
                match state & 0xff {
                    0 => State::Ready,
                    0x04 | 0x08 => State::Stopped,
                    _ => State::Sleeps,
                },
                at_ns,
            );
        }
        let cpu = self.cpus.entry(event.cpu).or_default();
        if let Some(thread) = self.threads.get_mut(&next) {
            thread.account(at_ns, Some(&cpu.occupants));
            thread.become_(State::Runs, at_ns);
            thread.name = next_name;
            thread.on_ns = at_ns;
            for pending in &mut thread.pending {
                if pending.wait.woken_ns.is_some() {
                    pending.wait.ran_ns.get_or_insert(at_ns);
                }
            }
            if thread.call.is_none() {
                // It waited in a call that is not watched.
                self.goes_on(next, at_ns, |pending| pending.wait.woken_ns.is_some());
            }
        }
        let occupants = &mut self.cpus.entry(event.cpu).or_default().occupants;
        if occupants.len() >= MAX_OCCUPANTS {
            occupants.pop_front();
        }
        occupants.push_back((at_ns, next, next_name));
    }

    fn returns(&mut self, id: u32, at_ns: i64) {
        let Some(thread) = self.threads.get_mut(&id) else { return };
        thread.account(at_ns, None);
        thread.returned_ns = at_ns;
        let (call, calls, set) = (thread.call.take(), thread.calls, thread.set.take());
        // A call that waits for descriptors returns what expired before it, too.
        let of_descriptors = matches!(call, Some("epoll" | "poll" | "select" | "io_uring"));
        self.goes_on(id, at_ns, |pending| of_descriptors || pending.wait.woken_ns.is_some());
        let set = set.filter(|timer| {
            let of = self.timers.get(timer);
            of.is_some_and(|of| (of.thread, of.calls) == (id, calls) && of.call.is_some())
        });
        // A timer of this wait, which is over, is gone.
        if let Some(armed) = set.and_then(|timer| self.timers.remove(&timer)) {
            let outlives = self.functions.get(&armed.function) == Some(&TIMERFD);
            if !outlives {
                self.unseen(armed, at_ns);
            }
        }
    }

    fn goes_on(&mut self, id: u32, at_ns: i64, ends: impl Fn(&Pending) -> bool) {
        let Some(thread) = self.threads.get_mut(&id) else { return };
        let (ended, pending) = std::mem::take(&mut thread.pending).into_iter().partition(ends);
        thread.pending = pending;
        let ended: Vec<Pending> = ended;
        for pending in ended {
            keep(&mut self.waits, &mut self.counts, pending.ended(at_ns, thread));
        }
    }
}

fn keep(waits: &mut Vec<Wait>, counts: &mut Counts, wait: Wait) {
    if waits.len() < MAX_TRACKED_WAITS && wait.lateness_ns().unsigned_abs() < FURTHEST_NS {
        waits.push(wait);
    } else {
        counts.dropped += 1;
    }
}

/// Of the clocks, the one that is about so far ahead.
fn ahead(clocks_ahead_ns: &[i64], about_ns: i64) -> i64 {
    let clocks = clocks_ahead_ns.iter().copied().chain([0]);
    clocks.min_by_key(|clock| clock.abs_diff(about_ns)).unwrap_or(0)
}

#[cfg(all(test, target_os = "linux"))]
mod tests;
