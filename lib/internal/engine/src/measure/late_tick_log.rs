//! Late ticks of a metered loop, with the accounts of its thread.
//!
//! A meter keeps when a tick was late. To explain it, one also needs to know for how long its thread
//! waited for a CPU since the previous tick, which only the thread itself can read in time.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use files::why::Reading;

use crate::machine::os::{self, Quota, ThreadStats};

/// Maximum number of ticks that are kept until they are taken; a meter keeps as many.
const MAX_TICKS: usize = 128;

/// A late tick of a loop of this process.
#[derive(Clone, Copy, Debug)]
pub struct AccountedTick {
    /// Number among the late ticks of the loop, from 1.
    pub number: u64,
    pub due: Instant,
    pub wake: Instant,
    /// Accounts since the previous tick; `None` if that was on another thread, or is not known.
    pub accounts: Option<TickAccounts>,
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
    thread: u32,
    stats: ThreadStats,
    previous: Option<PreviousTick>,
}

#[derive(Clone, Copy, Debug)]
struct PreviousTick {
    wake: Instant,
    reading: Reading,
}

impl LateTickRecorder {
    pub fn new(log: LateTickLog) -> Self {
        let stats = ThreadStats::without_files();
        Self { log, late_ticks: 0, thread: 0, stats, previous: None }
    }

    /// Records a tick of the calling thread that woke up just now.
    pub fn record(&mut self, due: Instant, woke: tach::Instant) {
        let anchor = tach::Anchor::take();
        let since_wake = tach::Instant::from_count(anchor.count()).duration_since(woke);
        let wake = anchor.std() - since_wake;
        self.follow_thread();
        let reading = self.stats.read();
        let now = PreviousTick { wake, reading };
        let before = self.previous.replace(now);
        if wake.saturating_duration_since(due) >= self.log.late_from {
            self.late_ticks += 1;
            let accounts = before.and_then(|before| accounts_between(&before, &now));
            self.log.push(AccountedTick { number: self.late_ticks, due, wake, accounts });
        }
    }

    /// Opens the statistics of the calling thread, unless they are open.
    fn follow_thread(&mut self) {
        let thread = os::thread_id();
        if thread != self.thread {
            let opened = ThreadStats::for_current_thread(&self.log.quotas);
            self.stats = opened.unwrap_or_else(|_| ThreadStats::without_files());
            (self.thread, self.previous) = (thread, None);
        }
    }
}

fn accounts_between(before: &PreviousTick, now: &PreviousTick) -> Option<TickAccounts> {
    let waited_ns = now.reading.delay_ns?.saturating_sub(before.reading.delay_ns?);
    let throttled = now.reading.throttled.zip(before.reading.throttled);
    let throttled = throttled.map_or(0, |(now, before)| now.saturating_sub(before));
    Some(TickAccounts { previous_wake: before.wake, waited_ns, throttled })
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
