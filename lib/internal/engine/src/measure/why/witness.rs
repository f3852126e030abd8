//! Two threads that wait for nothing but the clock, beside a round that is asked: where neither is
//! woken, nothing was.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use files::why::{MIN_STANDSTILL_NS, Standstill, WitnessGap, find_standstills};

use crate::machine::os::{self, ThreadStats};
use crate::measure::why::kernel::ns_after;

/// Each sleeps for so many periods at a time: being woken on an idle CPU costs tens of microseconds
/// in a virtual machine.
const PERIODS: u32 = 40;
/// But for a time within these: what stands still for less is not seen, and nobody waits longer for
/// the end of a round.
const MIN_PERIOD: Duration = Duration::from_millis(4);
const MAX_PERIOD: Duration = Duration::from_millis(20);
/// It reads its account so often where it was woken in time. What it waited for a CPU in between
/// counts against the next time that it is late.
const READ_EVERY: u32 = 16;
/// More than that is not kept of one round.
const MAX_LATE: usize = 1 << 12;
/// Woken so late, and not waiting for a CPU, it is kept.
const MIN_STANDSTILL: Duration = Duration::from_nanos(MIN_STANDSTILL_NS);

/// The witnesses of one round. Dropped, they end.
#[derive(Debug)]
pub struct Witnesses {
    ended: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Option<Vec<Late>>>>,
}

/// A time at which a witness was due, and when it was ready for a CPU.
#[derive(Clone, Copy, Debug)]
struct Late {
    due: Instant,
    ready: Instant,
}

impl Witnesses {
    /// On the first and the last CPU that the process may use; none where it may use only one, or
    /// where nothing says how long a thread waits for its CPU.
    #[allow(clippy::disallowed_methods, reason = "both sleep by one grid")]
    pub fn begin(period: Duration) -> Self {
        let ended = Arc::new(AtomicBool::new(false));
        let cpus = os::affinity().unwrap_or_default();
        let two = match cpus[..] {
            [first, .., last] if ThreadStats::for_current_thread(&[]).is_ok() => vec![first, last],
            _ => Vec::new(),
        };
        let asleep = period.saturating_mul(PERIODS).clamp(MIN_PERIOD, MAX_PERIOD);
        let start = Instant::now();
        let witness = |cpu: usize| {
            let ended = Arc::clone(&ended);
            Builder::new()
                .name("witness".to_owned())
                .spawn(move || watch(cpu, start, asleep, &ended))
                .ok()
        };
        let threads = two.into_iter().filter_map(witness).collect();
        Self { ended, threads }
    }

    /// When everything stood still, counted from `origin`; `None` without two witnesses.
    pub fn end(mut self, origin: Instant) -> Option<Vec<Standstill>> {
        let of = |late: Late| WitnessGap {
            from_ns: ns_after(late.due, origin),
            to_ns: ns_after(late.ready, origin),
        };
        let all: Vec<Vec<WitnessGap>> =
            self.join().into_iter().map(|w| w.into_iter().map(of).collect()).collect();
        (all.len() > 1).then(|| find_standstills(&all))
    }

    fn join(&mut self) -> Vec<Vec<Late>> {
        self.ended.store(true, Ordering::Relaxed);
        self.threads.iter().for_each(|thread| thread.thread().unpark());
        self.threads.drain(..).filter_map(|thread| thread.join().ok().flatten()).collect()
    }
}

impl Drop for Witnesses {
    fn drop(&mut self) {
        self.join();
    }
}

/// Sleeps until the end, and returns when it was not woken though it was due; `None` where it is no
/// witness.
#[allow(clippy::disallowed_methods, reason = "a witness reads the time")]
fn watch(cpu: usize, start: Instant, asleep: Duration, ended: &AtomicBool) -> Option<Vec<Late>> {
    // Anywhere it is a witness, too.
    let _ = os::bind(&[cpu]);
    // It inherits that of the thread that is measured, which may be long.
    os::set_timer_slack_ns(1).ok()?;
    let accounts = ThreadStats::for_current_thread(&[]).ok()?;
    let waited = || accounts.times().map(|times| times.run_queue_ns);
    let mut before_ns = waited()?;
    let mut late = Vec::new();
    let mut due = start;
    let mut in_time = 0;
    while !ended.load(Ordering::Relaxed) {
        let mut now = Instant::now();
        // The next of the grid, whatever it slept through.
        while due <= now {
            due += asleep;
        }
        std::thread::park_timeout(due - now);
        now = Instant::now();
        in_time += 1;
        let is_late = now.saturating_duration_since(due) >= MIN_STANDSTILL;
        if !is_late && in_time < READ_EVERY {
            continue;
        }
        in_time = 0;
        let waited_ns = waited()?;
        let ready = now
            .checked_sub(Duration::from_nanos(waited_ns.saturating_sub(before_ns)))
            .unwrap_or(due);
        before_ns = waited_ns;
        if ready.saturating_duration_since(due) >= MIN_STANDSTILL && late.len() < MAX_LATE {
            late.push(Late { due, ready });
        }
    }
    Some(late)
}
