//! Measures two functions in pairs of batches of calls.

use std::fmt;
use std::hint::black_box;
use std::time::Duration;

use crate::gate::{Side, Sides};
use crate::stats::quantile::median;
use crate::stats::random::SplitMix64;

/// Minimum duration of a batch. Shorter batches follow the machine more closely, but more of their
/// time is that of the first calls, which find the caches as the other function left them.
const MIN_BATCH_TIME: Duration = Duration::from_micros(100);
/// Minimum duration of a batch in steps of the clock, whose resolution is then 0.1 % of the batch.
const MIN_BATCH_STEPS: u32 = 1_000;
/// Maximum number of calls in a batch. An empty function reaches it within milliseconds.
const MAX_BATCH_CALLS: u64 = 1 << 24;
/// Number of calls in a batch for one call before it that is not timed.
const CALLS_PER_UNTIMED_CALL: u64 = 32;
/// Number of changes of the clock from which its step is measured.
const CLOCK_CHANGES: u32 = 50;
/// Maximum number of reads in which the step of the clock is measured: 20 ms or less.
const MAX_CLOCK_READS: u32 = 500_000;

/// A function whose calls are timed.
///
/// The batches call both functions through this trait, from the same machine code. The optimizer
/// thus cannot move work out of a batch, and two uses of one function execute the same
/// instructions.
trait Call {
    fn call(&mut self);
}

impl<T, F: FnMut() -> T> Call for F {
    fn call(&mut self) {
        black_box(self());
    }
}

/// Measures two functions in turn, in short batches of calls.
///
/// [`CallComparison`](super::CallComparison) measures as many pairs as a decision needs. This type
/// is for programs that plan the decision themselves:
///
/// ```
/// use jitterstat::gate::calls::CallPairs;
/// use std::time::{Duration, Instant};
///
/// let numbers: Vec<u32> = (0..100).collect();
/// let started = Instant::now();
/// let mut pairs = CallPairs::new(
///     1,
///     || started.elapsed(),
///     || numbers.iter().sum::<u32>(),
///     || numbers.iter().rev().sum::<u32>(),
/// );
/// let ns = pairs.measure(Duration::from_millis(5));
/// println!("{:.1} ns and {:.1} ns, {} calls in a batch", ns.base, ns.candidate, pairs.batch_calls());
/// ```
pub struct CallPairs<'a> {
    clock: Box<dyn FnMut() -> Duration + 'a>,
    functions: Sides<Box<dyn Call + 'a>>,
    random: SplitMix64,
    /// Number of timed calls in a batch, the same on both sides.
    calls: u64,
    /// Duration of a batch of both sides, with the untimed calls.
    round_time: Duration,
}

impl<'a> CallPairs<'a> {
    /// Prepares two functions and chooses the number of calls in a batch: the faster function
    /// fills 100 us, and 1,000 steps of the clock.
    ///
    /// `clock` returns the time since any fixed moment. `seed` determines the order of the batches.
    ///
    /// # Panics
    /// Panics if a function panics, or if the clock does not advance while the functions run.
    #[must_use]
    #[track_caller]
    pub fn new<T, U>(
        seed: u64,
        clock: impl FnMut() -> Duration + 'a,
        a: impl FnMut() -> T + 'a,
        b: impl FnMut() -> U + 'a,
    ) -> Self {
        let mut pairs = Self {
            clock: Box::new(clock),
            functions: Sides { base: Box::new(a), candidate: Box::new(b) },
            random: SplitMix64::new(seed),
            calls: 1,
            round_time: Duration::ZERO,
        };
        let step = pairs.clock_step();
        pairs.choose_batch(MIN_BATCH_TIME.max(step.saturating_mul(MIN_BATCH_STEPS)));
        pairs
    }

    /// Returns the number of timed calls in a batch.
    #[must_use]
    pub fn batch_calls(&self) -> u64 {
        self.calls
    }

    /// Returns the duration of one batch of each side, as it was when the batches were chosen.
    pub(super) fn round_time(&self) -> Duration {
        self.round_time
    }

    /// Reads the clock.
    pub(super) fn now(&mut self) -> Duration {
        (self.clock)()
    }

    /// Measures a pair: the median time of a call of each function over the batches of about
    /// `duration`, in nanoseconds. There is at least one batch of each.
    ///
    /// The batches take turns, one of each function at a time, in an order that is drawn each time.
    pub fn measure(&mut self, duration: Duration) -> Sides<f64> {
        let mut batches = Sides { base: Vec::new(), candidate: Vec::new() };
        let started = self.now();
        loop {
            let mut order = [Side::Base, Side::Candidate];
            self.random.shuffle(&mut order);
            for side in order {
                batches[side].push(self.time_call(side));
            }
            // Both sides have the same number of batches, and the end of a pair does not depend on
            // which of them was slow.
            let elapsed = self.now().saturating_sub(started);
            if elapsed.saturating_add(self.round_time / 2) >= duration {
                return batches.map(median);
            }
        }
    }

    /// Returns the mean time of a call in one batch, in nanoseconds and above zero.
    fn time_call(&mut self, side: Side) -> f64 {
        let batch_time = self.time_batch(side).max(Duration::from_nanos(1));
        batch_time.as_nanos() as f64 / self.calls as f64
    }

    fn time_batch(&mut self, side: Side) -> Duration {
        run_calls(&mut *self.functions[side], self.calls / CALLS_PER_UNTIMED_CALL);
        let started = (self.clock)();
        run_calls(&mut *self.functions[side], self.calls);
        (self.clock)().saturating_sub(started)
    }

    /// Returns the smallest observed step of the clock; zero if it only advances with the
    /// functions.
    fn clock_step(&mut self) -> Duration {
        let mut previous = self.now();
        let mut step: Option<Duration> = None;
        let mut changes = 0;
        for _ in 0..MAX_CLOCK_READS {
            let now = self.now();
            if now > previous {
                step = Some(step.map_or(now - previous, |step| step.min(now - previous)));
                changes += 1;
            }
            if changes == CLOCK_CHANGES {
                break;
            }
            previous = now;
        }
        step.unwrap_or_default()
    }

    /// Doubles the number of calls until a batch of either side has the duration.
    #[track_caller]
    fn choose_batch(&mut self, duration: Duration) {
        loop {
            let started = self.now();
            let base = self.time_batch(Side::Base);
            let candidate = self.time_batch(Side::Candidate);
            self.round_time = self.now().saturating_sub(started);
            let shorter = base.min(candidate);
            if shorter >= duration || self.calls >= MAX_BATCH_CALLS {
                assert!(
                    !shorter.is_zero(),
                    "the clock does not advance in {} calls of a function",
                    self.calls
                );
                return;
            }
            self.calls *= 2;
        }
    }
}

/// Calls a function a number of times. It is not inlined, so that both sides use the same loop.
#[inline(never)]
fn run_calls(function: &mut dyn Call, calls: u64) {
    let function = black_box(function);
    for _ in 0..calls {
        function.call();
    }
}

impl fmt::Debug for CallPairs<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallPairs")
            .field("calls", &self.calls)
            .field("round_time", &self.round_time)
            .finish_non_exhaustive()
    }
}
