//! What a thread does from one event to the next, booked to the timers that it has not answered
//! yet.

use std::collections::VecDeque;

use engine::machine::os::ThreadName;
use files::report::why::Class;
use files::why::Parts;

use crate::trace::waits::wait::{Piece, TIMERFD, Wait, span};

/// The way back from a wait is believed to take this long; beyond it, something interrupted it.
pub(super) const MAX_WAY_NS: u64 = 20_000;
const MAX_PIECES: usize = 1 << 10;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum State {
    #[default]
    Unknown,
    Runs,
    Ready,
    Sleeps,
    Stopped,
}

#[derive(Debug, Default)]
pub(super) struct Thread {
    pub(super) name: ThreadName,
    pub(super) state: State,
    /// The wait that it is in, and the one before.
    pub(super) call: Option<&'static str>,
    pub(super) last_call: Option<&'static str>,
    /// So many waits it has begun.
    pub(super) calls: u64,
    /// The timer that it set in the last one.
    pub(super) set: Option<u64>,
    /// When it got its CPU, and returned from a wait, the last time.
    pub(super) on_ns: i64,
    pub(super) returned_ns: i64,
    /// When it stood still the last time.
    pub(super) stopped: Option<[i64; 2]>,
    pub(super) pending: Vec<Pending>,
    /// What it did until `since_ns`, for timers that are set when they are overdue.
    pub(super) pieces: VecDeque<Piece>,
    pub(super) since_ns: i64,
}

/// A timer that has expired, and whose thread has not gone on.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) timer: u64,
    pub(super) wait: Wait,
    /// Before that it was not set; it is overdue since, if so.
    pub(super) set_ns: i64,
    /// Accounted for until here.
    pub(super) mark_ns: i64,
    pub(super) ran_for_ns: u64,
}

impl Thread {
    pub(super) fn become_(&mut self, state: State, at_ns: i64) {
        if state == State::Stopped {
            self.stopped = Some([at_ns, i64::MAX]);
        } else if let Some([_, to_ns]) =
            self.stopped.as_mut().filter(|_| self.state == State::Stopped)
        {
            *to_ns = at_ns;
        }
        self.state = state;
    }

    /// Books the time since the last event of the thread; `occupants` are those of the CPU that it
    /// gets now.
    pub(super) fn account(
        &mut self,
        at_ns: i64,
        occupants: Option<&VecDeque<(i64, u32, ThreadName)>>,
    ) {
        let (state, from_ns) = (self.state, self.since_ns);
        match (state, occupants) {
            (State::Runs, _) => self.did(at_ns, Class::OwnCpu),
            (State::Sleeps, _) => self.did(at_ns, Class::Blocked),
            (State::Stopped, _) => self.did(at_ns, Class::Stopped),
            (State::Ready, Some(occupants)) => {
                // The latest first.
                let mut pieces = Vec::new();
                queued(from_ns, at_ns, occupants, |piece| pieces.push(piece));
                pieces.into_iter().rev().for_each(|piece| self.keep(piece));
                self.since_ns = at_ns;
            }
            (State::Unknown, _) => self.since_ns = at_ns,
            // Behind whom, its next CPU shows.
            (State::Ready, None) => {}
        }
        for pending in &mut self.pending {
            let from_ns = pending.mark_ns.max(pending.wait.deadline_ns);
            pending.mark_ns = pending.mark_ns.max(at_ns);
            let ns = span(from_ns, at_ns);
            let parts = &mut pending.wait.parts;
            match (state, occupants) {
                (State::Runs, _) if pending.wait.woken_ns.is_some() => pending.ran_for_ns += ns,
                (State::Runs, _) => parts.add(Class::OwnCpu, ns),
                (State::Ready, Some(occupants)) => {
                    queued(from_ns, at_ns, occupants, |piece| pending.wait.book(&piece))
                }
                (State::Sleeps, _) => parts.add(Class::Blocked, ns),
                (State::Stopped, _) => parts.add(Class::Stopped, ns),
                (State::Unknown | State::Ready, _) => parts.add(Class::Unexplained, ns),
            }
        }
    }

    pub(super) fn did(&mut self, until_ns: i64, class: Class) {
        self.keep(Piece { from_ns: self.since_ns, to_ns: until_ns, class, behind: None });
        self.since_ns = self.since_ns.max(until_ns);
    }

    pub(super) fn slept_until(&mut self, due_ns: i64, at_ns: i64) {
        if self.state == State::Sleeps {
            self.did(due_ns.min(at_ns), Class::Blocked);
            self.did(at_ns, Class::Below);
        }
    }

    pub(super) fn keep(&mut self, piece: Piece) {
        if piece.from_ns < piece.to_ns {
            if self.pieces.len() >= MAX_PIECES {
                self.pieces.pop_front();
            }
            self.pieces.push_back(piece);
        }
    }
}

impl Pending {
    /// Books the time from its deadline until it was set: by what its thread did meanwhile.
    pub(super) fn overdue(&mut self, pieces: &VecDeque<Piece>) {
        let (mut until_ns, deadline_ns) = (self.set_ns, self.wait.deadline_ns);
        for piece in pieces.iter().rev().take_while(|piece| piece.to_ns > deadline_ns) {
            let (from_ns, to_ns) = (piece.from_ns.max(deadline_ns), piece.to_ns.min(until_ns));
            if from_ns < to_ns {
                self.wait.parts.add(Class::Unexplained, span(to_ns, until_ns));
                self.wait.book(&Piece { from_ns, to_ns, ..*piece });
                until_ns = from_ns;
            }
        }
        self.wait.parts.add(Class::Unexplained, span(deadline_ns, until_ns));
    }

    /// What it came to; the thread is accounted for until `end_ns`.
    pub(super) fn ended(self, end_ns: i64, thread: &Thread) -> Wait {
        let Self { mut wait, ran_for_ns, set_ns, .. } = self;
        wait.end_ns = end_ns;
        if wait.lateness_ns() <= 0 {
            return Wait { parts: Parts::default(), behind: Vec::new(), ..wait };
        }
        let parts = &mut wait.parts;
        let expired_ns = wait.expired_ns.unwrap_or(end_ns);
        let due_ns = wait.deadline_ns.max(set_ns);
        let late_ns = span(due_ns, expired_ns);
        let stood = |[from, to]: [i64; 2]| span(from.max(due_ns), to.min(expired_ns));
        let stopped_ns = thread.stopped.map_or(0, stood);
        let slack_ns =
            if wait.kind == TIMERFD { 0 } else { wait.slack_ns.min(late_ns - stopped_ns) };
        parts.add(Class::Stopped, stopped_ns);
        parts.add(Class::Slack, slack_ns);
        parts.add(Class::Below, late_ns - stopped_ns - slack_ns);
        if let Some(woken_ns) = wait.woken_ns {
            parts.add(Class::Below, span(expired_ns.max(wait.deadline_ns), woken_ns));
        }
        parts.add(Class::Path, ran_for_ns.min(MAX_WAY_NS));
        parts.add(Class::Below, ran_for_ns.saturating_sub(MAX_WAY_NS));
        wait
    }
}

/// Who had the CPU in a stretch of time in which a thread was ready, the latest first.
fn queued(
    from_ns: i64,
    to_ns: i64,
    occupants: &VecDeque<(i64, u32, ThreadName)>,
    mut each: impl FnMut(Piece),
) {
    let mut until_ns = to_ns;
    for &(since_ns, thread, name) in occupants.iter().rev() {
        let since_ns = since_ns.max(from_ns);
        if since_ns < until_ns {
            let (class, behind) =
                if thread == 0 { (Class::Below, None) } else { (Class::Queue, Some(name)) };
            each(Piece { from_ns: since_ns, to_ns: until_ns, class, behind });
            until_ns = since_ns;
        }
        if until_ns <= from_ns {
            return;
        }
    }
    each(Piece { from_ns, to_ns: until_ns, class: Class::Queue, behind: None });
}
