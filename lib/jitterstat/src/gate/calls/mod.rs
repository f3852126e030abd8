//! A gate for the time of a call: compares two functions of one program, down to changes of one
//! per cent.
//!
//! Two processes of one program differ by more than that: each has its own addresses, and starts
//! at another moment. In one process, both functions share the addresses of everything but
//! themselves, the state of the machine, and its frequency.

mod pairs;
#[cfg(test)]
mod tests;

use std::time::Duration;

use super::in_turn::{InTurn, JudgedInTurn, MIN_MAX_PAIRS};

pub use pairs::CallPairs;

/// Default of the maximum duration.
const DEFAULT_MAX_TIME: Duration = Duration::from_secs(10);

/// Compares the time of a call of two functions, A and B, that run in turn in one process.
///
/// ```
/// use jitterstat::gate::calls::CallComparison;
/// use std::hint::black_box;
/// use std::time::{Duration, Instant};
///
/// # /*
/// #[test]
/// fn parsing_is_not_slower() {
/// # */
///     let old = || black_box("1,2,3").split(',').count();
///     let new = || black_box("1,2,3").bytes().filter(|&byte| byte == b',').count() + 1;
///     let started = Instant::now();
///     let judged = CallComparison::new(0.005)
///         .max_time(Duration::from_secs(1))
///         .run(|| started.elapsed(), old, new);
///     // improved: B is 0.3170 of A [0.3157, 0.3184], tolerated 1.0050; 50 pairs; ...
///     println!("{judged}");
///     # /*
///     judged.assert_no_regression();
/// }
/// # */
/// ```
///
/// # Choosing the tolerance
///
/// A rise of at least the tolerance is found if the interval is narrow enough. A rise whose estimate
/// is less than half of the tolerance is never a regression. To find a change of 1 %, tolerate half
/// of it: 0.005. [`JudgedInTurn::found_ratio`] is the change that this machine shows.
///
/// # How it measures
///
/// The clock is read before and after batches of calls, so that reading it is a small part of
/// the time: a batch takes at least 100 us and 1,000 steps of the clock. Batches of A and B
/// take turns in an order that is drawn each time, so that neither the frequency of the CPU nor the
/// order of the two favours one of them. A pair is the median batch of A and of B over 1/400 of the
/// maximum duration. The pairs are judged as [`InTurn`] judges its own.
///
/// Pass inputs through [`black_box`](std::hint::black_box), or the compiler computes the result in
/// advance. Results need none: they are returned to a caller that the compiler cannot see through.
///
/// # What it can see
///
/// Without a change, such as with the same function on both sides, at most one comparison in 200
/// finds a regression. Limits:
///
/// - **Two copies of the same source are two functions.** A compiler places them at different
///   addresses, which by itself can change the time of a loop by several per cent. Such a difference
///   is real in this program, but it is not a property of the source. Only the same function on both
///   sides is free of it.
/// - **Two closures are two functions.** To run the same machine code on both sides with two inputs,
///   call one function through a pointer, or make both closures in the same expression.
/// - **Medians of batches hide rare calls.** A call that is slow less than once in two batches, such
///   as one that grows a table, is in neither median. Use [`InTurn`] with a percentile for these.
/// - **Warm caches.** All calls of a batch follow each other. The first calls of a batch, which find
///   the caches as the other function left them, are not timed.
/// - **State.** Both functions are called equally often. A function that keeps state, such as a
///   buffer that grows, gets slower as the comparison goes on, but equally on both sides.
#[derive(Clone, Debug, PartialEq)]
pub struct CallComparison {
    test: InTurn,
    max_time: Duration,
    seed: u64,
}

impl CallComparison {
    /// Creates a comparison that tolerates a relative rise of the time: 0.005 for 0.5 %.
    ///
    /// # Panics
    /// Panics if the tolerance is not above zero.
    #[must_use]
    #[track_caller]
    pub fn new(tolerance: f64) -> Self {
        Self { test: InTurn::lower_is_better(tolerance), max_time: DEFAULT_MAX_TIME, seed: 1 }
    }

    /// Sets the duration after which the comparison ends even if undecided: 10 s unless set. Looks
    /// are taken after an eighth, a quarter and half of it, and at the end. With [`Duration::MAX`],
    /// the first look is never reached.
    ///
    /// Functions so slow that 400 pairs do not fit are measured in fewer pairs, but in at least 24.
    #[must_use]
    pub fn max_time(mut self, max_time: Duration) -> Self {
        self.max_time = max_time;
        self
    }

    /// Sets the ratio of B to A that counts as no change; 1 unless set. See [`InTurn::ratio`].
    ///
    /// # Panics
    /// Panics if the ratio is not above zero.
    #[must_use]
    #[track_caller]
    pub fn ratio(mut self, b_over_a: f64) -> Self {
        self.test = self.test.ratio(b_over_a);
        self
    }

    /// Sets the seed of the order of the batches.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Runs both functions in turn until a look decides.
    ///
    /// `clock` returns the time since any fixed moment, such as `|| started.elapsed()` of an
    /// [`Instant`](std::time::Instant). [`JudgedInTurn::sides`] are in nanoseconds.
    ///
    /// # Panics
    /// Panics if a function panics, or if the clock does not advance while the functions run.
    #[track_caller]
    pub fn run<T, U>(
        &self,
        mut clock: impl FnMut() -> Duration,
        a: impl FnMut() -> T,
        b: impl FnMut() -> U,
    ) -> JudgedInTurn {
        let started = clock();
        let mut pairs = CallPairs::new(self.seed, clock, a, b);
        let test = self.test.clone().max_pairs(self.max_pairs(pairs.round_time()));
        let first_pair = pairs.now();
        let remaining = started.saturating_add(self.max_time).saturating_sub(first_pair);
        let pair_time = remaining.div_f64(test.last_look() as f64);
        let mut pair_end = first_pair;
        test.judge_pairs(|| {
            // After a stall, pairs are shorter until the schedule is met.
            pair_end = pair_end.saturating_add(pair_time);
            let duration = pair_end.saturating_sub(pairs.now());
            pairs.measure(duration)
        })
    }

    /// Returns the number of pairs that fit into the maximum duration, if each has only one batch
    /// of each side.
    fn max_pairs(&self, round_time: Duration) -> usize {
        let fitting = self.max_time.as_secs_f64() / round_time.as_secs_f64().max(1e-9);
        (fitting as usize).clamp(MIN_MAX_PAIRS, self.test.last_look())
    }
}
