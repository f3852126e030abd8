//! Witness threads, which detect standstills of the machine during a profiled round.
//!
//! Two threads on different CPUs only wait for the clock. If neither wakes up in time, the whole
//! machine was paused.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use files::why::{MIN_STANDSTILL_NS, Standstill, WitnessGap, find_standstills};

use crate::machine::os::{self, ThreadStats};
use cli::units::ns_after;

/// Number of periods for which a witness sleeps at a time. In a virtual machine, a wake-up of an
/// idle CPU costs tens of microseconds.
const SLEEP_PERIODS: u32 = 40;
/// Minimum sleep of a witness.
const MIN_SLEEP: Duration = Duration::from_millis(4);
/// Maximum sleep of a witness. Shorter standstills can go undetected, and the end of a round waits
/// no longer than this.
const MAX_SLEEP: Duration = Duration::from_millis(20);
/// Number of punctual wake-ups after which a witness reads its statistics. Time for which it waited
/// for a CPU since the last reading is subtracted from the next late wake-up.
const WAKEUPS_PER_READING: u32 = 16;
/// Maximum number of late wake-ups that are kept per round.
const MAX_LATE_WAKEUPS: usize = 1 << 12;
/// Minimum lateness, without waiting for a CPU, that is kept.
const MIN_STANDSTILL: Duration = Duration::from_nanos(MIN_STANDSTILL_NS);

/// The witnesses of a round. They end when this is dropped.
#[derive(Debug)]
pub struct Witnesses {
    ended: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Option<Vec<LateWakeup>>>>,
}

/// A late wake-up of a witness.
#[derive(Clone, Copy, Debug)]
struct LateWakeup {
    due: Instant,
    /// Time at which the thread was ready for a CPU.
    ready: Instant,
}

impl Witnesses {
    /// Starts witnesses on the first and the last CPU that the process may use.
    ///
    /// There are no witnesses if the process may use only one CPU, or if the kernel does not report
    /// how long a thread waits for a CPU.
    #[allow(clippy::disallowed_methods, reason = "both witnesses sleep on one grid")]
    pub fn begin(period: Duration) -> Self {
        let ended = Arc::new(AtomicBool::new(false));
        let cpus = os::affinity().unwrap_or_default();
        let witness_cpus = match cpus[..] {
            [first, .., last] if ThreadStats::for_current_thread(&[]).is_ok() => vec![first, last],
            _ => Vec::new(),
        };
        let sleep = period.saturating_mul(SLEEP_PERIODS).clamp(MIN_SLEEP, MAX_SLEEP);
        let start = Instant::now();
        let mut threads = Vec::with_capacity(witness_cpus.len());
        for cpu in witness_cpus {
            let ended = Arc::clone(&ended);
            let builder = Builder::new().name("witness".to_owned());
            threads.extend(builder.spawn(move || run_witness(cpu, start, sleep, &ended)));
        }
        Self { ended, threads }
    }

    /// Ends the witnesses and returns the standstills, in nanoseconds after `origin`.
    ///
    /// Returns `None` without two witnesses.
    pub fn end(mut self, origin: Instant) -> Option<Vec<Standstill>> {
        let mut gaps = Vec::new();
        for late in self.join() {
            let gaps_of_witness = late.iter().map(|wakeup| WitnessGap {
                from_ns: ns_after(wakeup.due, origin),
                to_ns: ns_after(wakeup.ready, origin),
            });
            gaps.push(gaps_of_witness.collect::<Vec<WitnessGap>>());
        }
        if gaps.len() > 1 { Some(find_standstills(&gaps)) } else { None }
    }

    fn join(&mut self) -> Vec<Vec<LateWakeup>> {
        self.ended.store(true, Ordering::Relaxed);
        for thread in &self.threads {
            thread.thread().unpark();
        }
        self.threads.drain(..).filter_map(|thread| thread.join().ok().flatten()).collect()
    }
}

impl Drop for Witnesses {
    fn drop(&mut self) {
        self.join();
    }
}

/// Sleeps repeatedly until `ended` is set, and returns the late wake-ups.
///
/// Returns `None` if the thread cannot be a witness.
fn run_witness(
    cpu: usize,
    start: Instant,
    sleep: Duration,
    ended: &AtomicBool,
) -> Option<Vec<LateWakeup>> {
    // If this fails, the thread is still a witness on another CPU.
    let _ = os::bind(&[cpu]);
    // The thread has inherited the slack of the measured thread, which may be long.
    os::set_timer_slack_ns(1).ok()?;
    let stats = ThreadStats::for_current_thread(&[]).ok()?;
    let waited = || stats.times().map(|times| times.run_queue_ns);
    let mut before_ns = waited()?;
    let mut late = Vec::new();
    let mut due = start;
    let mut in_time = 0;
    while !ended.load(Ordering::Relaxed) {
        let now = sleep_until_next(&mut due, sleep);
        in_time += 1;
        let is_late = now.saturating_duration_since(due) >= MIN_STANDSTILL;
        if !is_late && in_time < WAKEUPS_PER_READING {
            continue;
        }
        in_time = 0;
        let waited_ns = waited()?;
        let ready = now
            .checked_sub(Duration::from_nanos(waited_ns.saturating_sub(before_ns)))
            .unwrap_or(due);
        before_ns = waited_ns;
        if ready.saturating_duration_since(due) >= MIN_STANDSTILL && late.len() < MAX_LATE_WAKEUPS {
            late.push(LateWakeup { due, ready });
        }
    }
    Some(late)
}

/// Sleeps until the next deadline of the grid, and returns the time after that.
#[allow(clippy::disallowed_methods, reason = "a witness reads the time")]
fn sleep_until_next(due: &mut Instant, sleep: Duration) -> Instant {
    let now = Instant::now();
    while *due <= now {
        *due += sleep;
    }
    std::thread::park_timeout(*due - now);
    Instant::now()
}
