//! Converts counts to nanoseconds for the whole process, by a piecewise-linear fit that only ever
//! grows.
//!
//! The line starts at an [`Anchor`] taken when the crate is first used. Each piece is valid up to a
//! *threshold*, the count at which the time since that anchor has doubled (or an hour has passed).
//! The first conversion of a count beyond the threshold takes a new anchor and adds a piece. The
//! new piece begins at the threshold and meets the OS clock, as the anchors predict it, at the next
//! threshold.
//!
//! - Earlier conversions do not change, because no count beyond the threshold is converted until
//!   the piece that covers it exists. So a span keeps its length, and a later count never converts
//!   to less.
//! - Errors do not accumulate, because each piece is aimed at the clock, not at a rate. The line is
//!   off by a few brackets of an anchor, and its rate by that over the time since the first anchor.
//! - No caller waits for long: an anchor costs microseconds, and a run of an hour takes about
//!   thirty.
//! - To take an anchor sooner, [`Timeline::recalibrate`] moves the threshold to a few microseconds
//!   ahead.

#[cfg(all(test, loom))]
mod model;
#[cfg(all(test, not(loom)))]
mod tests;

use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::anchor::Anchor;
use crate::{counter, os};

#[cfg(not(all(test, loom)))]
use {
    crate::atomic_words::{AtomicI64, AtomicU64},
    std::sync::atomic::{AtomicUsize, fence},
    std::sync::{Mutex, MutexGuard},
};

#[cfg(all(test, loom))]
use loom::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicI64, AtomicU64, AtomicUsize, fence},
};

/// The capacity of the line in pieces: 512 each time the age grows by a factor of e (see
/// `AGE_DIVISOR`), from a microsecond to some years. Unused pieces are untouched zero pages, which
/// are not stored in any file. Miri has no such pages, and loom has few words, so they get fewer.
const MAX_PIECES: usize = if IS_MODEL {
    4
} else if cfg!(miri) {
    64
} else {
    16_384
};
/// The pieces that are reserved for doubling the age again when the hourly pieces are used up.
const RESERVED_PIECES: usize = if IS_MODEL { 1 } else { 32 };
/// Whether loom runs the tests under every schedule.
const IS_MODEL: bool = cfg!(all(test, loom));
/// The minimum time between the first two anchors. The error of the first rate is a bracket over
/// this time.
const MIN_FIRST_BASELINE: Duration = Duration::from_micros(10);
/// The maximum length of a piece. The rate of a counter relative to a disciplined clock changes
/// with the temperature.
const MAX_PIECE_LENGTH: Duration = Duration::from_secs(3_600);
/// The minimum length of a piece is the time since the first anchor divided by this, however often
/// the line is recalibrated.
const AGE_DIVISOR: u64 = 512;
/// The time by which a recalibration moves the threshold ahead of now: that of a few anchors.
const RECALIBRATION_LEAD: Duration = Duration::from_micros(10);
/// The part of the lead that must remain when this thread has published the new threshold. It is far
/// longer than any CPU delays a store or executes a load ahead of time.
const VISIBILITY_MARGIN: Duration = Duration::from_micros(2);
/// The maximum relative difference between a stated rate and that of the first two anchors, in
/// addition to the error of the anchors.
const MAX_STATED_DEVIATION: f64 = 1e-3;
/// The minimum age of a line from which a suspend that the OS does not report is found by the rate.
/// The rate of a younger line may be off by as much.
const MIN_SUSPEND_BASELINE: Duration = Duration::from_secs(1);
/// The maximum error of the length of a suspend that Linux reports: it may be that of a clock of
/// whole seconds.
const RTC_ERROR: Duration = Duration::from_secs(2);
/// A slope is stored as nanoseconds per count times two to this power.
const SLOPE_BITS: u32 = 50;
/// The powers of two up to the largest number of counts since the first anchor, and the one beyond.
const OCTAVES: usize = if IS_MODEL { 10 } else { u64::BITS as usize + 1 };

/// A piece of the line: `base_ns + (count * slope >> SLOPE_BITS)` for the counts from `start` up to
/// `end`. Between two counts of a piece only the products differ.
///
/// A piece is written once, before any index refers to it. Only the end of the last piece can
/// change (see [`Timeline::recalibrate`]). The indexes refer to the first piece from the start: it
/// is complete when its end, which is stored last and with `Release`, is not zero.
#[derive(Debug)]
#[repr(align(32))]
pub(crate) struct Piece {
    start: AtomicU64,
    end: AtomicU64,
    base_ns: AtomicI64,
    slope: AtomicU64,
}

impl Piece {
    #[cfg(not(all(test, loom)))]
    const fn empty() -> Self {
        let (start, end) = (AtomicU64::new(0), AtomicU64::new(0));
        Self { start, end, base_ns: AtomicI64::new(0), slope: AtomicU64::new(0) }
    }

    #[inline]
    fn start(&self) -> u64 {
        self.start.load(Ordering::Relaxed)
    }

    /// Returns the nanoseconds from the first anchor to a count of this piece.
    #[inline]
    fn ns_at(&self, count: u64) -> i64 {
        let product_ns = scale(count, self.slope.load(Ordering::Relaxed));
        self.base_ns.load(Ordering::Relaxed).wrapping_add(product_ns as i64)
    }

    /// Returns the nanoseconds from the first anchor to a count; `None` for a count of another
    /// piece.
    ///
    /// The count must have been read before this call, in program order (see
    /// [`Timeline::recalibrate`]).
    #[inline]
    pub(crate) fn checked_ns_at(&self, count: u64) -> Option<i64> {
        (count <= self.end.load(Ordering::Acquire) && count >= self.start())
            .then(|| self.ns_at(count))
    }
}

/// Returns the product of a count and a slope in nanoseconds. The count must not be of a future
/// beyond `i64::MAX` nanoseconds.
#[inline]
fn scale(count: u64, slope: u64) -> u64 {
    ((u128::from(count) * u128::from(slope)) >> SLOPE_BITS) as u64
}

/// A piecewise-linear conversion from counts to nanoseconds; see the module.
#[derive(Debug)]
pub(crate) struct Timeline<'p> {
    stated_ns_per_count: fn() -> Option<f64>,
    pieces: &'p Pieces,
    /// The index of the last piece that begins by each power of two of counts since the first
    /// anchor. It finds the piece of a count in a line of any length. Stored with `Release` after
    /// the piece and before `newest`.
    octaves: [AtomicUsize; OCTAVES],
    /// The index of the last complete piece. Stored with `Release` after the piece.
    newest: AtomicUsize,
    /// The error bound of the line relative to the OS clock; zero before the first piece.
    error_bound_ns: AtomicU64,
    anchors: Mutex<Anchors>,
}

#[derive(Debug)]
struct Anchors {
    origin: Option<Anchor>,
    last: Option<Anchor>,
    /// The widest bracket of the anchors that determine the pieces.
    bracket_ns: f64,
    /// The time that is added to the OS clock; see [`Anchors::bridge_suspend`].
    os_delay: Duration,
}

type Pieces = [Piece; MAX_PIECES];

#[cfg(not(all(test, loom)))]
const fn empty_pieces() -> Pieces {
    [const { Piece::empty() }; MAX_PIECES]
}

#[cfg(all(test, loom))]
fn empty_pieces() -> &'static Pieces {
    let word = || AtomicU64::new(0);
    let empty = |_| Piece { start: word(), end: word(), base_ns: AtomicI64::new(0), slope: word() };
    Box::leak(Box::new(std::array::from_fn(empty)))
}

/// Returns the stated rate of the counter in nanoseconds per count, if it is stated.
fn stated_rate() -> Option<f64> {
    counter::cheap_stated_rate().map(|stated| 1e9 / stated.hz as f64)
}

/// The line of this process.
#[cfg(not(all(test, loom)))]
pub(crate) static TIMELINE: Timeline<'static> = {
    // The pieces are all zeros and have a static of their own. Otherwise every program file would
    // contain half a megabyte of zeros.
    static PIECES: Pieces = empty_pieces();
    Timeline::new(&PIECES, stated_rate)
};

/// The words of loom exist within a model only, so no test of loom uses the line of the process.
#[cfg(all(test, loom))]
pub(crate) static TIMELINE: std::sync::LazyLock<Timeline<'static>> =
    std::sync::LazyLock::new(|| Timeline::new(empty_pieces(), stated_rate));

/// The rate of the line and its quality.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RateQuality {
    /// Nanoseconds per count, by the first anchor and the last.
    pub(crate) ns_per_count: f64,
    /// The error bound of the time between the first anchor and the last.
    pub(crate) error_ns: f64,
    /// The time between the first anchor and the last.
    pub(crate) baseline_ns: f64,
    /// How long the machine was suspended between them; `None` if the OS does not report it.
    pub(crate) suspended: Option<Duration>,
}

/// A rate that predicts the clock, and the length of the piece for which it is used.
struct Prediction {
    ns_per_count: f64,
    step: u64,
}

/// A point of the line.
struct LinePoint {
    count: u64,
    ns: i64,
}

/// The values of a piece that is not published yet.
struct PieceValues {
    start: u64,
    end: u64,
    base_ns: i64,
    slope: u64,
}

impl<'p> Timeline<'p> {
    /// Creates a line without pieces. `stated_ns_per_count` returns the nominal rate, if one is
    /// stated, and is called once.
    #[cfg(not(all(test, loom)))]
    const fn new(pieces: &'p Pieces, stated_ns_per_count: fn() -> Option<f64>) -> Self {
        Self {
            stated_ns_per_count,
            pieces,
            octaves: [const { AtomicUsize::new(0) }; OCTAVES],
            newest: AtomicUsize::new(0),
            error_bound_ns: AtomicU64::new(0),
            anchors: Mutex::new(Anchors::new()),
        }
    }

    #[cfg(all(test, loom))]
    fn new(pieces: &'p Pieces, stated_ns_per_count: fn() -> Option<f64>) -> Self {
        Self {
            stated_ns_per_count,
            pieces,
            octaves: std::array::from_fn(|_| AtomicUsize::new(0)),
            newest: AtomicUsize::new(0),
            error_bound_ns: AtomicU64::new(0),
            anchors: Mutex::new(Anchors::new()),
        }
    }

    fn lock_anchors(&self) -> MutexGuard<'_, Anchors> {
        self.anchors.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the first anchor, unless it has been taken.
    pub(crate) fn begin(&self, anchor: impl FnOnce() -> Anchor) {
        self.lock_anchors().origin.get_or_insert_with(anchor);
    }

    /// Returns the newest piece, which covers most spans.
    #[inline]
    pub(crate) fn newest(&self) -> &Piece {
        &self.pieces[self.newest.load(Ordering::Acquire) % MAX_PIECES]
    }

    /// Returns the count beyond which conversions need a new piece; zero before the first piece.
    fn threshold(&self) -> u64 {
        self.newest().end.load(Ordering::Acquire)
    }

    /// Returns the nanoseconds from the first anchor to `count`; negative if the count is earlier.
    /// The result for a future count is an estimate, which later pieces may change.
    ///
    /// The count must have been read before this call, as for [`Piece::checked_ns_at`].
    pub(crate) fn ns_at(
        &self,
        count: u64,
        now: impl Fn() -> u64,
        anchor: impl Fn() -> Anchor,
    ) -> i64 {
        let newest_ns = self.newest().checked_ns_at(count).filter(|_| count > 0);
        let settled_ns = newest_ns.or_else(|| self.earlier_ns_at(count));
        settled_ns.unwrap_or_else(|| self.ns_beyond_pieces(count, now, anchor))
    }

    /// Returns the nanoseconds from the first anchor to a count of a piece before the newest;
    /// `None` for any other count.
    #[inline(never)]
    pub(crate) fn earlier_ns_at(&self, count: u64) -> Option<i64> {
        if count >= self.newest().start() {
            None
        } else {
            Some(self.find_piece(count)?.ns_at(count))
        }
    }

    /// Finds the piece of a count from before the newest piece.
    fn find_piece(&self, count: u64) -> Option<&Piece> {
        let since = count.checked_sub(self.pieces[0].start())?;
        let octave = (since | 1).ilog2() as usize;
        // Either index may refer to a piece that has just been added. That piece begins at the
        // threshold, so no earlier than `count`, and is complete.
        let first = self.octaves[octave].load(Ordering::Acquire) % MAX_PIECES;
        let last = self.octaves[octave + 1].load(Ordering::Acquire) % MAX_PIECES;
        // An octave has one or two pieces, unless it was recalibrated or the pieces last an hour.
        for i in [last, last.wrapping_sub(1) % MAX_PIECES] {
            if self.pieces[i].start() <= count {
                return Some(&self.pieces[i]);
            }
        }
        let pieces = self.pieces.get(first..=last)?;
        pieces.get(pieces.partition_point(|piece| piece.start() <= count).checked_sub(1)?)
    }

    /// Returns the nanoseconds for a count that no piece covers: adds pieces until one does, unless
    /// the count is in the future or before the first anchor.
    #[cold]
    fn ns_beyond_pieces(
        &self,
        count: u64,
        now: impl Fn() -> u64,
        anchor: impl Fn() -> Anchor,
    ) -> i64 {
        loop {
            let threshold = self.threshold();
            let has_pieces = threshold > 0;
            // A future count needs no piece, because its conversion is not final.
            if has_pieces && (count <= threshold || now() <= threshold) {
                return self.ns_on_line(count);
            }
            let stated = if has_pieces { None } else { (self.stated_ns_per_count)() };
            self.add_piece(threshold, &now, &anchor, stated);
        }
    }

    /// Evaluates the line at any count, including the future and the time before the first anchor.
    fn ns_on_line(&self, count: u64) -> i64 {
        let pieces = &self.pieces[..=self.newest.load(Ordering::Acquire)];
        let piece = &pieces[pieces.partition_point(|p| p.start() <= count).saturating_sub(1)];
        let product_ns =
            (i128::from(count) * i128::from(piece.slope.load(Ordering::Relaxed))) >> SLOPE_BITS;
        i64::try_from(i128::from(piece.base_ns.load(Ordering::Relaxed)) + product_ns)
            .unwrap_or(i64::MAX)
    }

    /// Adds the piece that begins at `threshold`, unless another thread has added it.
    #[cold]
    fn add_piece(
        &self,
        threshold: u64,
        now: &impl Fn() -> u64,
        anchor: &impl Fn() -> Anchor,
        stated_ns_per_count: Option<f64>,
    ) {
        let mut anchors = self.lock_anchors();
        if self.threshold() != threshold {
            return;
        }
        let index = if threshold > 0 { self.newest.load(Ordering::Relaxed) + 1 } else { 0 };
        let mut origin = *anchors.origin.get_or_insert_with(anchor);
        let (last, confirmed_rate) = if index == 0 {
            let mut second = take_second_anchor(&origin, anchor, stated_ns_per_count);
            if origin.suspended_until(&second.0).is_some_and(|time| !time.is_zero()) {
                // Only one of the clocks may have stopped, so these two would give a wrong rate.
                origin = second.0;
                anchors.origin = Some(origin);
                second = take_second_anchor(&origin, anchor, stated_ns_per_count);
            }
            second
        } else {
            (anchors.bridge_suspend(anchor()), None)
        };

        let prediction = anchors.predict(index, &origin, &last, confirmed_rate);
        anchors.record(&origin, last, prediction.ns_per_count);

        let start = if index == 0 {
            LinePoint { count: origin.count(), ns: 0 }
        } else {
            LinePoint { count: threshold, ns: self.ns_on_line(threshold) }
        };
        let end = if index + 1 == MAX_PIECES {
            u64::MAX
        } else {
            last.count().saturating_add(prediction.step.max(1))
        };
        let values = fit_piece(&start, end, &origin, &last, prediction.ns_per_count);

        self.raise_error_bound(anchors.bracket_ns, prediction.ns_per_count);
        self.publish(index, &values);
        debug_assert!(now() >= last.count());
    }

    /// Raises the error bound to that of the pieces so far. It must be raised before the first
    /// piece is published: a thread that has converted a count relies on a bound that is not zero.
    fn raise_error_bound(&self, bracket_ns: f64, ns_per_count: f64) {
        // A piece continues two anchors to a threshold twice as far away.
        let error_bound_ns = 2.0 * span_error_ns(bracket_ns, ns_per_count);
        self.error_bound_ns.fetch_max(error_bound_ns.ceil() as u64 + 2, Ordering::Relaxed);
    }

    /// Makes a piece visible to all threads. The caller holds the lock of the anchors.
    fn publish(&self, index: usize, values: &PieceValues) {
        let piece = &self.pieces[index];
        piece.start.store(values.start, Ordering::Relaxed);
        piece.slope.store(values.slope, Ordering::Relaxed);
        piece.base_ns.store(values.base_ns, Ordering::Relaxed);
        // The end is stored last and with `Release`, because it completes the first piece.
        piece.end.store(values.end, Ordering::Release);
        // A later piece is complete before any index refers to it. `newest` is the last index: only
        // then are counts beyond the old threshold converted.
        let offset = values.start.saturating_sub(self.pieces[0].start());
        let first_octave = u64::BITS - offset.saturating_sub(1).leading_zeros();
        for octave in &self.octaves[first_octave as usize..] {
            octave.store(index, Ordering::Release);
        }
        self.newest.store(index, Ordering::Release);
    }

    /// Takes an anchor now and bends the line towards it, from some microseconds ahead on. Earlier
    /// conversions do not change. Returns false if the last anchor is so recent that another would
    /// not improve the line, or if this thread was delayed.
    pub(crate) fn recalibrate(&self, now: impl Fn() -> u64, anchor: impl Fn() -> Anchor) -> bool {
        // A conversion adds the piece of the present, if it is missing.
        let _ = self.ns_at(now(), &now, &anchor);
        let Some(threshold) = self.move_threshold(&now) else { return false };
        while now() <= threshold {
            std::hint::spin_loop();
        }
        self.add_piece(threshold, &now, &anchor, None);
        true
    }

    /// Moves the end of the newest piece to some microseconds from now, and returns it; `None` if
    /// it was not moved.
    fn move_threshold(&self, now: &impl Fn() -> u64) -> Option<u64> {
        let anchors = self.lock_anchors();
        let (origin, last) = anchors.origin.zip(anchors.last)?;
        let newest = self.newest.load(Ordering::Relaxed);
        let piece = &self.pieces[newest];
        let old_end = piece.end.load(Ordering::Relaxed);
        let ns_per_count =
            ns_between(&last, &origin) / last.count().saturating_sub(origin.count()).max(1) as f64;
        let to_counts = |length: Duration| (length.as_nanos() as f64 / ns_per_count) as u64;

        let present = now();
        let lead = to_counts(RECALIBRATION_LEAD);
        let new_end = present.saturating_add(lead).max(piece.start() + 1);
        let age = present.saturating_sub(origin.count());
        let is_anchor_recent = present.saturating_sub(last.count()) < age / AGE_DIVISOR;
        if new_end >= old_end || is_anchor_recent || newest + RESERVED_PIECES >= MAX_PIECES {
            return None;
        }
        // No thread may convert a count beyond the new end by the old one. The counter is not part
        // of the memory model, so the argument is one about time:
        //
        // - This thread: the fence comes after the store and before `now()`. So all threads can see
        //   the new end at the count that `now()` returns, or at most as much later as a CPU delays
        //   a store.
        // - A thread that loads the old end has done so before that moment. Its count precedes the
        //   load in program order (see `Piece::checked_ns_at`). It is therefore from before that
        //   moment as well, or at most as much later as a CPU executes a load ahead of time.
        // - A thread that loads the new end converts counts up to it as before. For counts beyond,
        //   it waits for the lock of the anchors, which this thread holds.
        //
        // `VISIBILITY_MARGIN` is longer than both delays together. So if the new end is further
        // ahead than the margin, every count that was converted by the old end is below the new one,
        // and its conversion never changes.
        piece.end.store(new_end, Ordering::Release);
        fence(Ordering::SeqCst);
        if now().saturating_add(to_counts(VISIBILITY_MARGIN)) >= new_end {
            // This thread was delayed, and others may have converted counts beyond the new end.
            // Therefore the old end remains. It is right for those that have loaded the new one as
            // well, because both are ends of the same piece.
            piece.end.store(old_end, Ordering::Release);
            return None;
        }
        Some(new_end)
    }

    /// Returns the rate between the first anchor and the last; `None` before the first conversion.
    pub(crate) fn quality(&self) -> Option<RateQuality> {
        let anchors = self.lock_anchors();
        let (origin, last) = anchors.origin.zip(anchors.last)?;
        let counts = last.count().saturating_sub(origin.count()).max(1) as f64;
        let baseline_ns = ns_between(&last, &origin);
        let ns_per_count = baseline_ns / counts;
        Some(RateQuality {
            ns_per_count,
            error_ns: span_error_ns(anchors.bracket_ns, ns_per_count),
            baseline_ns,
            suspended: origin.suspended_until(&last),
        })
    }

    /// Returns the error bound for the conversion of a past count, relative to the OS clock, in
    /// nanoseconds. It may grow with a later anchor. `None` before the first conversion.
    pub(crate) fn error_bound_ns(&self) -> Option<u64> {
        Some(self.error_bound_ns.load(Ordering::Relaxed)).filter(|&ns| ns > 0)
    }

    /// Returns the count at `ns` after the first anchor: the inverse of [`Timeline::ns_at`], up to
    /// rounding.
    pub(crate) fn count_at(&self, ns: i64) -> u64 {
        let pieces = &self.pieces[..=self.newest.load(Ordering::Acquire)];
        let begins_by_ns = |p: &Piece| self.ns_on_line(p.start()) <= ns;
        let piece = &pieces[pieces.partition_point(begins_by_ns).saturating_sub(1)];
        // Rounded up, so that adding a duration and subtracting it again does not yield less.
        let product =
            (i128::from(ns) - i128::from(piece.base_ns.load(Ordering::Relaxed))) << SLOPE_BITS;
        let count = -(-product).div_euclid(i128::from(piece.slope.load(Ordering::Relaxed).max(1)));
        u64::try_from(count).unwrap_or(if count < 0 { 0 } else { u64::MAX })
    }
}

impl Anchors {
    const fn new() -> Self {
        Self { origin: None, last: None, bracket_ns: 0.0, os_delay: Duration::ZERO }
    }

    /// Moves the OS clock of a new anchor by the time for which it has stopped during suspends of
    /// the machine, if the counter has not. The line follows the counter then. A line that returned
    /// to the OS clock would have a wrong rate for hours.
    fn bridge_suspend(&mut self, new: Anchor) -> Anchor {
        let last = new.with_os_delay(self.os_delay);
        let Some((origin, recent)) = self.origin.zip(self.last) else { return last };
        let baseline_ns = ns_between(&recent, &origin);
        let baseline = recent.count().saturating_sub(origin.count()).max(1);
        let counts = last.count().saturating_sub(recent.count());
        let passed_ns = counts as f64 * (baseline_ns / baseline as f64);
        let missing_ns = passed_ns - ns_between(&last, &recent);
        let missing = Duration::from_nanos(missing_ns as u64);
        let is_rate_known = baseline_ns > MIN_SUSPEND_BASELINE.as_nanos() as f64;
        let stopped = match recent.suspended_until(&new) {
            Some(Duration::ZERO) => return last,
            Some(suspended) if is_rate_known && suspended.abs_diff(missing) < RTC_ERROR => missing,
            // Otherwise the counter has stopped as well.
            Some(suspended) if missing > suspended / 2 => suspended,
            // Apple's systems report no suspend.
            None if cfg!(target_vendor = "apple")
                && is_rate_known
                && missing_ns > passed_ns * MAX_STATED_DEVIATION =>
            {
                missing
            }
            _ => return last,
        };
        self.os_delay = self.os_delay.saturating_add(stopped);
        new.with_os_delay(self.os_delay)
    }

    /// Predicts the rate of the piece at `index`, and chooses its length. `confirmed_rate` is the
    /// stated rate, if the anchors confirm it.
    fn predict(
        &self,
        index: usize,
        origin: &Anchor,
        last: &Anchor,
        confirmed_rate: Option<f64>,
    ) -> Prediction {
        let baseline = last.count().saturating_sub(origin.count()).max(1);
        let measure_mean = || (ns_between(last, origin) / baseline as f64).max(f64::MIN_POSITIVE);
        let mean_rate = confirmed_rate.unwrap_or_else(measure_mean);

        let max_step = (MAX_PIECE_LENGTH.as_nanos() as f64 / mean_rate) as u64;
        let max_step = max_step.max(baseline / AGE_DIVISOR);
        let is_reserved = index >= MAX_PIECES - RESERVED_PIECES;
        let step = if is_reserved { baseline } else { baseline.min(max_step) };

        // The last hour predicts the present rate better than the last week does, but for no longer
        // than it lasted.
        let ns_per_count = match &self.last {
            Some(recent) if index > 0 && last.count().saturating_sub(recent.count()) >= step => {
                ns_between(last, recent) / (last.count() - recent.count()) as f64
            }
            _ => mean_rate,
        };
        Prediction { ns_per_count, step }
    }

    /// Records an anchor that determines a piece.
    fn record(&mut self, origin: &Anchor, last: Anchor, ns_per_count: f64) {
        let bracket_counts = last.bracket_counts().max(origin.bracket_counts());
        self.bracket_ns = self.bracket_ns.max(bracket_counts as f64 * ns_per_count);
        self.last = Some(last);
    }
}

/// Takes anchors until one is late enough after `origin` for a first rate, or until one confirms
/// the stated rate. Returns the last anchor, and the stated rate if it is confirmed.
fn take_second_anchor(
    origin: &Anchor,
    anchor: &impl Fn() -> Anchor,
    stated_ns_per_count: Option<f64>,
) -> (Anchor, Option<f64>) {
    let mut last = anchor();
    while last.os_instant().saturating_duration_since(origin.os_instant()) < MIN_FIRST_BASELINE {
        if let Some(stated) = stated_ns_per_count
            && is_confirmed(stated, origin, &last)
        {
            return (last, Some(stated));
        }
        std::hint::spin_loop();
        last = anchor();
    }
    (last, None)
}

/// Fits a piece from `start` to `end` that meets the predicted OS clock at its end.
fn fit_piece(
    start: &LinePoint,
    end: u64,
    origin: &Anchor,
    last: &Anchor,
    ns_per_count: f64,
) -> PieceValues {
    // The OS clock at the end, as predicted now. It is a whole number, because an `f64` cannot
    // represent every number of nanoseconds in some months.
    let ahead_ns = (ns_per_count * (end - last.count()) as f64) as i128;
    let last_ns =
        last.os_instant().saturating_duration_since(origin.os_instant()).as_nanos() as i128;
    let rise_ns = last_ns + ahead_ns - i128::from(start.ns);
    let exact_slope = (rise_ns << SLOPE_BITS) / i128::from((end - start.count).max(1));
    // An OS clock that went back or stopped must not bend the line backwards.
    let scaled_rate = ns_per_count * (1_u64 << SLOPE_BITS) as f64;
    let slope = exact_slope.clamp((scaled_rate / 2.0) as i128, (scaled_rate * 2.0) as i128);
    let slope = u64::try_from(slope).unwrap_or(u64::MAX);
    let base_ns = start.ns.wrapping_sub(scale(start.count, slope) as i64);
    PieceValues { start: start.count, end, base_ns, slope }
}

/// Returns the error bound of the time between two anchors. Each anchor is off by up to its
/// bracket, a count and the step of the OS clock.
fn span_error_ns(bracket_ns: f64, ns_per_count: f64) -> f64 {
    2.0 * (bracket_ns + ns_per_count + (os::STEP_NS - 1) as f64)
}

/// Returns whether two anchors confirm a stated rate, within their error.
fn is_confirmed(stated_ns_per_count: f64, first: &Anchor, last: &Anchor) -> bool {
    let counts = last.count().saturating_sub(first.count()) as f64;
    let stated_ns = counts * stated_ns_per_count;
    let deviation_ns = (ns_between(last, first) - stated_ns).abs();
    let bracket_counts = first.bracket_counts() + last.bracket_counts() + 2;
    let bracket_ns = bracket_counts as f64 * stated_ns_per_count;
    // Anchors that cannot distinguish the rate from twice the rate confirm nothing.
    deviation_ns <= bracket_ns + stated_ns * MAX_STATED_DEVIATION && bracket_ns < stated_ns / 2.0
}

fn ns_between(later: &Anchor, earlier: &Anchor) -> f64 {
    later.os_instant().saturating_duration_since(earlier.os_instant()).as_nanos() as f64
}
