//! Late ticks of a metered loop, with the accounts of its thread.
//!
//! A meter keeps when a tick was late. To explain it, one also needs to know for how long its thread
//! waited for a CPU since the previous tick, which only the thread itself can read in time.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::ThreadId;
use std::time::{Duration, Instant};

use crate::machine::os::{Quota, ThreadStats};

/// Maximum number of ticks that are kept until they are taken; a meter keeps as many.
const MAX_TICKS: usize = 128;

/// A late tick of a loop.
#[derive(Clone, Copy, Debug)]
pub struct AccountedTick {
    /// Number among the late ticks of the log, from 1.
    pub number: u64,
    pub due: Instant,
    pub wake: Instant,
    /// Accounts since the previous tick; `None` if that was on another thread, or in another
    /// process.
    pub accounts: Option<TickAccounts>,
}

impl AccountedTick {
    pub fn lateness(&self) -> Duration {
        self.wake.saturating_duration_since(self.due)
    }
}

/// Accounts of a thread between two of its ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TickAccounts {
    /// Wake-up of the previous tick.
    pub previous_wake: Instant,
    /// Time for which the thread waited for a CPU.
    pub waited_ns: u64,
    /// Number of periods in which its control groups were throttled.
    pub throttled: u64,
}

/// Late ticks that one thread records and another one takes.
#[derive(Clone, Debug)]
pub struct LateTickLog {
    late_from: Duration,
    quotas: Arc<[Quota]>,
    ticks: Arc<Mutex<VecDeque<AccountedTick>>>,
}

impl LateTickLog {
    /// Creates a log of ticks that are late by at least `late_from`.
    pub fn new(late_from: Duration, quotas: Arc<[Quota]>) -> Self {
        let ticks = Mutex::new(VecDeque::with_capacity(MAX_TICKS));
        Self { late_from, quotas, ticks: Arc::new(ticks) }
    }

    /// Takes the recorded ticks, oldest first.
    pub fn take(&self) -> Vec<AccountedTick> {
        self.ticks.lock().unwrap_or_else(PoisonError::into_inner).drain(..).collect()
    }

    fn push(&self, tick: AccountedTick) {
        let mut ticks = self.ticks.lock().unwrap_or_else(PoisonError::into_inner);
        if ticks.len() == MAX_TICKS {
            ticks.pop_front();
        }
        ticks.push_back(tick);
    }
}

/// The recording end of a log, owned by the loop.
#[derive(Debug)]
pub struct LateTickRecorder {
    log: LateTickLog,
    late_ticks: u64,
    /// Thread of the previous tick, and its statistics.
    thread: Option<ThreadId>,
    stats: ThreadStats,
    previous: Option<TickReading>,
}

/// Statistics of the thread, read after a tick.
#[derive(Clone, Copy, Debug)]
struct TickReading {
    woke: tach::Instant,
    waited_ns: u64,
    throttled: Option<u64>,
}

impl TickReading {
    /// Returns the accounts since an earlier reading, whose tick woke up at `previous_wake`.
    fn since(&self, before: &Self, previous_wake: Instant) -> TickAccounts {
        let throttled = self.throttled.zip(before.throttled);
        TickAccounts {
            previous_wake,
            waited_ns: self.waited_ns.saturating_sub(before.waited_ns),
            throttled: throttled.map_or(0, |(now, before)| now.saturating_sub(before)),
        }
    }
}

impl LateTickRecorder {
    pub fn new(log: LateTickLog) -> Self {
        let stats = ThreadStats::without_files();
        Self { log, late_ticks: 0, thread: None, stats, previous: None }
    }

    /// Records a tick of the calling thread that woke up just now.
    ///
    /// This runs at every tick of a probe, so a tick that is not late costs only the reading of the
    /// statistics that explain the next one.
    #[allow(clippy::disallowed_methods, reason = "an anchor would cost 32 readings of the clock")]
    pub fn record(&mut self, due: Instant, woke: tach::Instant) {
        self.follow_thread();
        let now = self.read(woke);
        let before = std::mem::replace(&mut self.previous, now);
        // If the thread is interrupted between the two clocks, the tick seems later than it was.
        let since_wake = woke.elapsed();
        let wake = Instant::now() - since_wake;
        if wake.saturating_duration_since(due) >= self.log.late_from {
            self.record_if_late(due, woke, before.zip(now));
        }
    }

    fn record_if_late(
        &mut self,
        due: Instant,
        woke: tach::Instant,
        readings: Option<(TickReading, TickReading)>,
    ) {
        let anchor = tach::Anchor::take();
        let anchored = tach::Instant::from_count(anchor.count());
        let to_std = |at: tach::Instant| anchor.os_instant() - anchored.duration_since(at);
        let wake = to_std(woke);
        if wake.saturating_duration_since(due) < self.log.late_from {
            return;
        }
        let accounts = readings.map(|(before, now)| now.since(&before, to_std(before.woke)));
        self.late_ticks += 1;
        self.log.push(AccountedTick { number: self.late_ticks, due, wake, accounts });
    }

    /// Opens the statistics of the calling thread, unless they are open.
    fn follow_thread(&mut self) {
        let thread = Some(std::thread::current().id());
        if thread != self.thread {
            let opened = ThreadStats::for_current_thread(&self.log.quotas);
            self.stats = opened.unwrap_or_else(|_| ThreadStats::without_files());
            (self.thread, self.previous) = (thread, None);
        }
    }

    fn read(&self, woke: tach::Instant) -> Option<TickReading> {
        let waited_ns = self.stats.times()?.run_queue_ns;
        Some(TickReading { woke, waited_ns, throttled: self.stats.throttled() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[allow(clippy::disallowed_methods, reason = "deadlines in the past and in the future")]
    fn only_late_ticks_are_kept() {
        let log = LateTickLog::new(Duration::from_secs(5), Arc::from([]));
        let mut recorder = LateTickRecorder::new(log.clone());
        let now = Instant::now();
        let mut tick = |due| recorder.record(due, tach::Instant::now());
        tick(now + Duration::from_secs(100));
        tick(now);
        assert!(log.take().is_empty());
        for _ in 0..MAX_TICKS + 3 {
            tick(now - Duration::from_secs(9));
        }
        let ticks = log.take();
        assert_eq!(ticks.len(), MAX_TICKS);
        assert_eq!((ticks[0].number, ticks[MAX_TICKS - 1].number), (4, MAX_TICKS as u64 + 3));
        for tick in &ticks {
            assert!(tick.wake - tick.due >= Duration::from_secs(5), "{tick:?}");
            let accounts = tick.accounts;
            assert_eq!(accounts.is_some(), cfg!(target_os = "linux"), "{tick:?}");
            assert!(accounts.is_none_or(|accounts| accounts.previous_wake <= tick.wake));
        }
        assert!(log.take().is_empty());
    }
}
