//! From counts to nanoseconds for the whole process: a piecewise-linear fit that only ever grows.
//!
//! The line starts at an [`Anchor`] taken when the crate is first used. Each piece is valid up to a
//! *threshold*, a count by which the time since that anchor has doubled (or an hour has passed).
//! The first conversion of a count beyond the threshold takes a new anchor, and adds a piece that
//! begins at the threshold and meets the OS clock, by what the anchors predict, at the next one.
//!
//! - Nothing converted before changes: no count beyond the threshold is converted until the piece
//!   that covers it is there. So a span keeps its length, and later is never less.
//! - Errors do not accumulate: each piece heads for the clock, not for a rate. The line is off by a
//!   few brackets of an anchor, and its rate by that over the time since the first anchor.
//! - Nobody waits: an anchor costs microseconds, and an hour's run takes about thirty.
//! - To have an anchor sooner, [`Timeline::recalibrate`] moves the threshold to a few microseconds
//!   ahead.

use std::sync::atomic::{AtomicI64, AtomicU64, AtomicUsize, Ordering, fence};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::anchor::Anchor;
use crate::{counter, os};

/// Pieces there is room for: 512 for each time the age grows by a factor of e (see `AGE_SHARE`),
/// from a microsecond to some years. Those not in use are untouched zero pages, which are in no
/// file; Miri has none.
const PIECES: usize = if cfg!(miri) { 64 } else { 16_384 };
/// This many are reserved for doubling again, once a process has outlived the hourly pieces.
const RESERVED_PIECES: usize = 32;
/// Least time between the first two anchors: the first rate is good to a bracket in this.
const FIRST_BASELINE: Duration = Duration::from_micros(10);
/// A piece is at most this long: the rate of a counter against a disciplined clock changes with the
/// temperature.
const LONGEST_PIECE: Duration = Duration::from_secs(3_600);
/// A piece is never shorter than this share of the time since the first anchor, however often
/// anchors are asked for.
const AGE_SHARE: u64 = 512;
/// How far ahead a recalibration moves the threshold: the time of a few anchors.
const RECALIBRATION_LEAD: Duration = Duration::from_micros(10);
/// How much of that must be left when every thread sees the threshold: far longer than any CPU
/// delays an instruction.
const VISIBILITY_MARGIN: Duration = Duration::from_micros(2);
/// A stated rate that differs from the first two anchors by more than this, beyond their own error,
/// is not believed.
const STATED_TOLERANCE: f64 = 1e-3;
/// Slopes are nanoseconds per count times two to this power.
const SLOPE_BITS: u32 = 50;
/// Powers of two that the counts since the first anchor can reach, and the one beyond.
const OCTAVES: usize = u64::BITS as usize + 1;

/// Counts from `start` up to `end` are `base_ns + (count * slope >> SLOPE_BITS)`: between two of
/// them only the products differ. Written once, before anything points to it, but for the end of
/// the last one (see [`Timeline::recalibrate`]). The first is pointed to from the start: it is
/// there when its end, stored last and with `Release`, is not zero.
#[derive(Debug)]
#[repr(align(32))]
pub(crate) struct Piece {
    start: AtomicU64,
    end: AtomicU64,
    base_ns: AtomicI64,
    slope: AtomicU64,
}

impl Piece {
    const fn none() -> Self {
        let (start, end) = (AtomicU64::new(0), AtomicU64::new(0));
        Self { start, end, base_ns: AtomicI64::new(0), slope: AtomicU64::new(0) }
    }

    #[inline]
    fn start(&self) -> u64 {
        self.start.load(Ordering::Relaxed)
    }

    /// The product of `count`, which is not of a future beyond `i64::MAX` nanoseconds.
    #[inline]
    fn product_ns(&self, count: u64) -> u64 {
        ((u128::from(count) * u128::from(self.slope.load(Ordering::Relaxed))) >> SLOPE_BITS) as u64
    }

    /// Nanoseconds from the first anchor to a count of this piece.
    #[inline]
    fn ns_at(&self, count: u64) -> i64 {
        self.base_ns.load(Ordering::Relaxed).wrapping_add(self.product_ns(count) as i64)
    }

    /// As [`Piece::ns_at`]; `None` for a count of another piece.
    ///
    /// The count has been read before this is called, in the order of the program: see
    /// [`Timeline::recalibrate`].
    #[inline]
    pub(crate) fn ns(&self, count: u64) -> Option<i64> {
        (count <= self.end.load(Ordering::Acquire) && count >= self.start())
            .then(|| self.ns_at(count))
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Timeline<'p> {
    stated_ns_per_count: fn() -> Option<f64>,
    pieces: &'p Pieces,
    /// For each power of two of counts since the first anchor, the last piece that begins by then:
    /// where to look for a count's piece, in however long a line. Stored with `Release` after the
    /// piece, and before `newest`.
    octaves: [AtomicUsize; OCTAVES],
    /// The last piece that is complete; stored with `Release` after the piece.
    newest: AtomicUsize,
    /// How far the line can be off the OS clock; zero while there is none.
    error_bound_ns: AtomicU64,
    anchors: Mutex<Anchors>,
}

#[derive(Debug)]
struct Anchors {
    origin: Option<Anchor>,
    last: Option<Anchor>,
    /// The widest bracket of an anchor that a piece rests on.
    bracket_ns: f64,
}

type Pieces = [Piece; PIECES];

const fn no_pieces() -> Pieces {
    [const { Piece::none() }; PIECES]
}

/// The line of this process.
pub(crate) static TIMELINE: Timeline<'static> = {
    // In a static of their own, all zeros: else half a megabyte of them would be in every program's
    // file.
    static PIECES: Pieces = no_pieces();
    Timeline::new(&PIECES, || counter::rate_stated_cheaply().map(|stated| 1e9 / stated.hz as f64))
};

/// What is known about the rate.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Quality {
    /// Nanoseconds per count, from the anchors.
    pub(crate) ns_per_count: f64,
    /// By how much the time between the first anchor and the last can be off.
    pub(crate) error_ns: f64,
    /// Between the first anchor and the last.
    pub(crate) baseline_ns: f64,
    /// How long the machine was suspended between them, where the OS says so.
    pub(crate) suspended: Option<Duration>,
}

impl<'p> Timeline<'p> {
    /// `stated_ns_per_count`: the nominal rate, if any is stated; called once.
    const fn new(pieces: &'p Pieces, stated_ns_per_count: fn() -> Option<f64>) -> Self {
        Self {
            stated_ns_per_count,
            pieces,
            octaves: [const { AtomicUsize::new(0) }; OCTAVES],
            newest: AtomicUsize::new(0),
            error_bound_ns: AtomicU64::new(0),
            anchors: Mutex::new(Anchors { origin: None, last: None, bracket_ns: 0.0 }),
        }
    }

    /// Takes the first anchor, unless it is there.
    pub(crate) fn begin(&self, anchor: impl FnOnce() -> Anchor) {
        let mut anchors = self.anchors.lock().unwrap_or_else(PoisonError::into_inner);
        anchors.origin.get_or_insert_with(anchor);
    }

    /// The newest piece, which most spans lie on.
    #[inline]
    pub(crate) fn newest(&self) -> &Piece {
        &self.pieces[self.newest.load(Ordering::Acquire) % PIECES]
    }

    /// Conversions of counts beyond this one need a new piece first; zero while there is none.
    fn threshold(&self) -> u64 {
        self.newest().end.load(Ordering::Acquire)
    }

    /// Nanoseconds from the first anchor to `count`; negative before it. Beyond the present it is
    /// an estimate, which later pieces may change. `count` has been read before, as for
    /// [`Piece::ns`].
    pub(crate) fn ns(&self, count: u64, now: impl Fn() -> u64, anchor: impl Fn() -> Anchor) -> i64 {
        let settled =
            self.newest().ns(count).filter(|_| count > 0).or_else(|| self.earlier_ns(count));
        settled.unwrap_or_else(|| self.ns_beyond(count, now, anchor))
    }

    /// As [`Timeline::ns`], for a count that an earlier piece than the newest covers.
    #[inline(never)]
    pub(crate) fn earlier_ns(&self, count: u64) -> Option<i64> {
        if count >= self.newest().start() { None } else { Some(self.piece_of(count)?.ns_at(count)) }
    }

    /// The piece of a count from before the newest one.
    fn piece_of(&self, count: u64) -> Option<&Piece> {
        let since = count.checked_sub(self.pieces[0].start())?;
        let octave = (since | 1).ilog2() as usize;
        // Either may name a piece that has just been added: it begins at the threshold, so no
        // earlier than `count`, and is seen whole.
        let first = self.octaves[octave].load(Ordering::Acquire) % PIECES;
        let last = self.octaves[octave + 1].load(Ordering::Acquire) % PIECES;
        let is_by = |piece: &&Piece| piece.start() <= count;
        // An octave has one or two, unless anchors were asked for or the pieces last an hour.
        let near =
            [last, last.wrapping_sub(1) % PIECES].map(|i| &self.pieces[i]).into_iter().find(is_by);
        near.or_else(|| {
            let pieces = self.pieces.get(first..=last)?;
            pieces.get(pieces.partition_point(|piece| is_by(&piece)).checked_sub(1)?)
        })
    }

    #[cold]
    fn ns_beyond(&self, count: u64, now: impl Fn() -> u64, anchor: impl Fn() -> Anchor) -> i64 {
        loop {
            let threshold = self.threshold();
            let begun = threshold > 0;
            // A count of the future needs no piece: nothing of what it converts to is kept.
            if begun && (count <= threshold || now() <= threshold) {
                return self.ns_on_line(count);
            }
            let stated = if begun { None } else { (self.stated_ns_per_count)() };
            self.add_piece(threshold, &now, &anchor, stated);
        }
    }

    /// The line at any count, the future and the time before the first anchor included.
    fn ns_on_line(&self, count: u64) -> i64 {
        let pieces = &self.pieces[..=self.newest.load(Ordering::Acquire)];
        let piece = &pieces[pieces.partition_point(|p| p.start() <= count).saturating_sub(1)];
        let product =
            (i128::from(count) * i128::from(piece.slope.load(Ordering::Relaxed))) >> SLOPE_BITS;
        i64::try_from(i128::from(piece.base_ns.load(Ordering::Relaxed)) + product)
            .unwrap_or(i64::MAX)
    }

    /// Adds the piece that begins at `threshold`, unless another thread has.
    #[cold]
    fn add_piece(
        &self,
        threshold: u64,
        now: &impl Fn() -> u64,
        anchor: &impl Fn() -> Anchor,
        stated_ns_per_count: Option<f64>,
    ) {
        let mut anchors = self.anchors.lock().unwrap_or_else(PoisonError::into_inner);
        if self.threshold() != threshold {
            return;
        }
        let len = if threshold > 0 { self.newest.load(Ordering::Relaxed) + 1 } else { 0 };
        let origin = *anchors.origin.get_or_insert_with(anchor);
        let mut last = anchor();
        let mut stated = None;
        while len == 0 && last.std().saturating_duration_since(origin.std()) < FIRST_BASELINE {
            stated = stated_ns_per_count.filter(|&stated| agrees(stated, &origin, &last));
            if stated.is_some() {
                break;
            }
            std::hint::spin_loop();
            last = anchor();
        }
        let baseline = last.count().saturating_sub(origin.count()).max(1);
        let mean_rate = stated.unwrap_or_else(|| {
            (ns_between(&last, &origin) / baseline as f64).max(f64::MIN_POSITIVE)
        });
        let longest = (LONGEST_PIECE.as_nanos() as f64 / mean_rate) as u64;
        let longest = longest.max(baseline / AGE_SHARE);
        let step = if len < PIECES - RESERVED_PIECES { baseline.min(longest) } else { baseline };
        // The last hour predicts the present rate better than last week does, but for no longer
        // than it lasted.
        let rate = match anchors.last {
            Some(recent) if len > 0 && last.count().saturating_sub(recent.count()) >= step => {
                ns_between(&last, &recent) / (last.count() - recent.count()) as f64
            }
            _ => mean_rate,
        };
        anchors.bracket_ns = anchors
            .bracket_ns
            .max(last.bracket_counts().max(origin.bracket_counts()) as f64 * rate);
        anchors.last = Some(last);

        let (start, start_ns) =
            if len == 0 { (origin.count(), 0) } else { (threshold, self.ns_on_line(threshold)) };
        let next =
            if len + 1 == PIECES { u64::MAX } else { last.count().saturating_add(step.max(1)) };
        // Where the clock will be at the next threshold, as far as is known now. In whole numbers:
        // the nanoseconds of some months are more than an `f64` counts.
        let ahead_ns = (rate * (next - last.count()) as f64) as i128;
        let target_ns =
            last.std().saturating_duration_since(origin.std()).as_nanos() as i128 + ahead_ns;
        let exact =
            ((target_ns - i128::from(start_ns)) << SLOPE_BITS) / i128::from((next - start).max(1));
        let scaled_rate = rate * (1_u64 << SLOPE_BITS) as f64;
        // An OS clock that went back or stood still must not bend the line backwards.
        let slope = exact.clamp((scaled_rate / 2.0) as i128, (scaled_rate * 2.0) as i128);

        let piece = &self.pieces[len];
        let slope = u64::try_from(slope).unwrap_or(u64::MAX);
        piece.start.store(start, Ordering::Relaxed);
        piece.slope.store(slope, Ordering::Relaxed);
        piece
            .base_ns
            .store(start_ns.wrapping_sub(piece.product_ns(start) as i64), Ordering::Relaxed);
        piece.end.store(next, Ordering::Release);
        let begins_at = start.saturating_sub(self.pieces[0].start());
        let first_octave = u64::BITS - begins_at.saturating_sub(1).leading_zeros();
        for octave in &self.octaves[first_octave as usize..] {
            octave.store(len, Ordering::Release);
        }
        // Two anchors, carried on to a threshold twice as far away.
        let error_bound_ns = 2.0 * span_error_ns(anchors.bracket_ns, rate);
        let error_bound_ns = error_bound_ns.ceil() as u64 + 2;
        self.error_bound_ns.fetch_max(error_bound_ns, Ordering::Relaxed);
        self.newest.store(len, Ordering::Release);
        debug_assert!(now() >= last.count());
    }

    /// Takes an anchor now and bends the line to it, some microseconds ahead; nothing converted
    /// before is changed. False if the last anchor is so recent that another would add nothing.
    pub(crate) fn recalibrate(&self, now: impl Fn() -> u64, anchor: impl Fn() -> Anchor) -> bool {
        let _ = self.ns(now(), &now, &anchor);
        let moved = {
            let anchors = self.anchors.lock().unwrap_or_else(PoisonError::into_inner);
            let (Some(origin), Some(last)) = (anchors.origin, anchors.last) else { return false };
            let newest = self.newest.load(Ordering::Relaxed);
            let piece = &self.pieces[newest];
            let old = piece.end.load(Ordering::Relaxed);
            let rate = ns_between(&last, &origin)
                / last.count().saturating_sub(origin.count()).max(1) as f64;
            let counts = |length: Duration| (length.as_nanos() as f64 / rate) as u64;
            let asked = now();
            let moved = asked.saturating_add(counts(RECALIBRATION_LEAD)).max(piece.start() + 1);
            let age = asked.saturating_sub(origin.count());
            if moved >= old
                || asked.saturating_sub(last.count()) < age / AGE_SHARE
                || newest + RESERVED_PIECES >= PIECES
            {
                return false;
            }
            // A thread that loaded the old threshold did so before the fence, so it converts a
            // count from before now; up to what a CPU reads ahead of time. That lies below the new
            // threshold: no such span is ever changed.
            piece.end.store(moved, Ordering::Release);
            fence(Ordering::SeqCst);
            if now().saturating_add(counts(VISIBILITY_MARGIN)) >= moved {
                // This thread was held up, and others may have gone on. The old piece simply stays.
                piece.end.store(old, Ordering::Release);
                return false;
            }
            moved
        };
        while now() <= moved {
            std::hint::spin_loop();
        }
        self.add_piece(moved, &now, &anchor, None);
        true
    }

    pub(crate) fn quality(&self) -> Option<Quality> {
        let anchors = self.anchors.lock().unwrap_or_else(PoisonError::into_inner);
        let (origin, last) = anchors.origin.zip(anchors.last)?;
        let counts = last.count().saturating_sub(origin.count()).max(1) as f64;
        let baseline_ns = ns_between(&last, &origin);
        let ns_per_count = baseline_ns / counts;
        Some(Quality {
            ns_per_count,
            error_ns: span_error_ns(anchors.bracket_ns, ns_per_count),
            baseline_ns,
            suspended: origin.suspended_until(&last),
        })
    }

    /// How far the conversion of a count of the past can be off the OS clock, in nanoseconds; it
    /// may grow with a later anchor. `None` before the first conversion.
    pub(crate) fn error_bound_ns(&self) -> Option<u64> {
        Some(self.error_bound_ns.load(Ordering::Relaxed)).filter(|&ns| ns > 0)
    }

    /// The count at `ns` after the first anchor: the inverse of [`Timeline::ns`], up to a rounding.
    pub(crate) fn count_at(&self, ns: i64) -> u64 {
        let pieces = &self.pieces[..=self.newest.load(Ordering::Acquire)];
        let begins_by = |p: &Piece| self.ns_on_line(p.start()) <= ns;
        let piece = &pieces[pieces.partition_point(begins_by).saturating_sub(1)];
        // Rounded up: what is added and taken away again is not less.
        let product =
            (i128::from(ns) - i128::from(piece.base_ns.load(Ordering::Relaxed))) << SLOPE_BITS;
        let count = -(-product).div_euclid(i128::from(piece.slope.load(Ordering::Relaxed).max(1)));
        u64::try_from(count).unwrap_or(if count < 0 { 0 } else { u64::MAX })
    }
}

/// By how much the time between two anchors can be off: each by its bracket, a count and the step
/// of the OS clock.
fn span_error_ns(bracket_ns: f64, ns_per_count: f64) -> f64 {
    2.0 * (bracket_ns + ns_per_count + (os::STEP_NS - 1) as f64)
}

/// Whether two anchors confirm a stated rate, within their error.
fn agrees(stated: f64, first: &Anchor, last: &Anchor) -> bool {
    let counts = last.count().saturating_sub(first.count()) as f64;
    let off = (ns_between(last, first) - counts * stated).abs();
    let brackets = (first.bracket_counts() + last.bracket_counts() + 2) as f64 * stated;
    // Anchors that could not tell the rate from twice the rate check nothing.
    off <= brackets + counts * stated * STATED_TOLERANCE && brackets < counts * stated / 2.0
}

fn ns_between(later: &Anchor, earlier: &Anchor) -> f64 {
    later.std().saturating_duration_since(earlier.std()).as_nanos() as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::cell::Cell;

    /// A counter of 3 counts a nanosecond that reads its clock with an error of up to 20 ns, both
    /// ways.
    struct Fake {
        ns: Cell<u64>,
        noise: Cell<u64>,
        base: crate::os::OsInstant,
    }

    impl Fake {
        fn new() -> Self {
            Self { ns: Cell::new(0), noise: Cell::new(1), base: crate::os::now() }
        }

        fn now(&self) -> u64 {
            1_000 + self.ns.get() * 3
        }

        /// As `now`, and time goes on by itself.
        fn passing(&self) -> u64 {
            self.ns.set(self.ns.get() + 30);
            self.now()
        }

        fn anchor(&self) -> Anchor {
            self.ns.set(self.ns.get() + 2_000);
            self.noise
                .set(self.noise.get().wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
            let error = self.noise.get() >> 59;
            Anchor::new(
                self.now(),
                self.base + Duration::from_nanos(self.ns.get() + 20 - error),
                120,
            )
        }
    }

    fn line<'p>(pieces: &'p Pieces, fake: &Fake) -> Timeline<'p> {
        let timeline = Timeline::new(pieces, || None);
        timeline.begin(|| fake.anchor());
        timeline
    }

    proptest! {
        #[test]
        fn spans_keep_their_length_and_the_line_follows_the_clock(
            steps in proptest::collection::vec((prop_oneof![1_u64..1_000, 1_000_u64..10_000_000, 1_000_000_u64..10_000_000_000], any::<bool>()), 1..60)
        ) {
            let fake = Fake::new();
            let pieces = no_pieces();
            let timeline = line(&pieces, &fake);
            let mut seen: Vec<(u64, i64)> = Vec::new();
            for (step, recalibrate) in steps {
                fake.ns.set(fake.ns.get() + step);
                if recalibrate {
                    timeline.recalibrate(|| fake.passing(), || fake.anchor());
                }
                let count = fake.now();
                let ns = timeline.ns(count, || fake.now(), || fake.anchor());
                // The first anchor was taken at 2,000 ns.
                let truth = (count as i64 - 1_000) / 3 - 2_000;
                prop_assert!((ns - truth).abs() <= 200, "{ns} against {truth}");
                for &(count, before) in &seen {
                    prop_assert_eq!(timeline.ns(count, || fake.now(), || fake.anchor()), before);
                    prop_assert!(before <= ns);
                }
                seen.push((count, ns));
            }
        }

        /// Whatever way a piece is found, it is the one that a search of them all finds.
        #[test]
        fn every_count_is_converted_by_the_piece_that_covers_it(
            steps in proptest::collection::vec((1_u64..10_000_000_000_000, any::<bool>()), 1..80),
            shares in proptest::collection::vec(0.0..1.0_f64, 50),
        ) {
            let fake = Fake::new();
            let pieces = no_pieces();
            let timeline = line(&pieces, &fake);
            for (step, recalibrate) in steps {
                fake.ns.set(fake.ns.get() + step);
                if recalibrate {
                    timeline.recalibrate(|| fake.passing(), || fake.anchor());
                }
                timeline.ns(fake.now(), || fake.now(), || fake.anchor());
                let pieces = &timeline.pieces[..=timeline.newest.load(Ordering::Relaxed)];
                let ends = pieces.iter().flat_map(|piece| (piece.start() - 1)..=(piece.start() + 1));
                let within = shares.iter().map(|share| (fake.now() as f64 * share) as u64);
                for count in ends.chain(within).filter(|&count| count <= fake.now()) {
                    let ns = timeline.ns(count, || fake.now(), || fake.anchor());
                    prop_assert_eq!(ns, timeline.ns_on_line(count));
                    if let Some(ns_of_newest) = timeline.newest().ns(count) {
                        prop_assert_eq!(ns, ns_of_newest);
                    }
                }
            }
        }

        #[test]
        fn counts_come_back_from_nanoseconds(step in 1_u64..10_000_000_000, ns in 0_i64..10_000_000_000) {
            let fake = Fake::new();
            let pieces = no_pieces();
            let timeline = line(&pieces, &fake);
            fake.ns.set(step);
            timeline.ns(fake.now(), || fake.now(), || fake.anchor());
            let count = timeline.count_at(ns);
            let again = timeline.ns_on_line(count);
            prop_assert!((again - ns).abs() <= 1, "{again} {ns}");
        }
    }

    #[test]
    fn a_stated_rate_saves_the_first_wait_only_if_it_is_right() {
        for (stated, believed) in
            [(1.0 / 3.0, true), (1.0 / 3.00001, true), (0.5, false), (0.2, false)]
        {
            let fake = Fake::new();
            let origin = fake.anchor();
            let last = fake.anchor();
            assert_eq!(agrees(stated, &origin, &last), believed, "{stated}");
        }
        let fake = Fake::new();
        let pieces = no_pieces();
        let timeline = Timeline::new(&pieces, || Some(1.0 / 3.0));
        timeline.begin(|| fake.anchor());
        let count = fake.now();
        timeline.ns(count, || fake.now(), || fake.anchor());
        assert!(
            fake.ns.get() <= 4_000,
            "one anchor after the first, not {} ns of them",
            fake.ns.get()
        );
    }

    #[test]
    fn recalibrating_all_the_time_fills_no_memory_and_changes_no_span() {
        let fake = Fake::new();
        let pieces = no_pieces();
        let timeline = line(&pieces, &fake);
        let mut added = 0;
        let mut seen = Vec::new();
        for i in 0..200_000_u64 {
            // From microseconds to weeks.
            fake.ns.set(fake.ns.get() + 1 + fake.ns.get() / 8_192);
            added += u64::from(timeline.recalibrate(|| fake.passing(), || fake.anchor()));
            if i % 20_000 == 0 {
                let count = fake.now();
                seen.push((count, timeline.ns(count, || fake.now(), || fake.anchor())));
            }
        }
        assert!(added > 1_000, "{added}");
        assert!(timeline.newest.load(Ordering::Relaxed) < PIECES - RESERVED_PIECES);
        for (count, before) in seen {
            assert_eq!(timeline.ns_on_line(count), before);
        }
    }

    /// While pieces are added, with whatever Miri lets a weakly ordered memory show.
    #[test]
    fn threads_agree_on_the_line() {
        const DOUBLINGS: u32 = if cfg!(miri) { 8 } else { 40 };
        let (clock, base) = (AtomicU64::new(0), crate::os::now());
        let passed_ns = |ns: u64| clock.fetch_add(ns, Ordering::Relaxed) + ns;
        let now = || 3 * passed_ns(30);
        let anchor = || {
            let ns = passed_ns(2_000);
            Anchor::new(3 * ns, base + Duration::from_nanos(ns + ns % 17), 120)
        };
        let pieces = no_pieces();
        let timeline = Timeline::new(&pieces, || None);
        timeline.begin(anchor);
        let converted = || {
            let at = |doubling: u32| {
                passed_ns(1_000 << doubling);
                [(); 3].map(|()| {
                    let count = now();
                    (count, timeline.ns(count, now, anchor))
                })
            };
            (0..DOUBLINGS).flat_map(at).collect::<Vec<_>>()
        };
        let mut all: Vec<(u64, i64)> = std::thread::scope(|scope| {
            let threads = [(); 3].map(|()| scope.spawn(converted));
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        all.sort_unstable();
        assert!(timeline.newest.load(Ordering::Relaxed) > 0);
        for pair in all.windows(2) {
            assert!(pair[0].1 <= pair[1].1, "{pair:?}");
        }
        for (count, ns) in all {
            assert_eq!(timeline.ns_on_line(count), ns);
        }
    }

    #[test]
    fn it_goes_on_for_years() {
        let fake = Fake::new();
        let pieces = no_pieces();
        let timeline = line(&pieces, &fake);
        let hour = 3_600_000_000_000;
        for _ in 0..20 * 365 {
            fake.ns.set(fake.ns.get() + 24 * hour);
            let count = fake.now();
            let ns = timeline.ns(count, || fake.now(), || fake.anchor());
            assert!((ns - ((count as i64 - 1_000) / 3 - 2_000)).abs() < 1_000);
        }
        assert!(timeline.newest.load(Ordering::Relaxed) < PIECES);
    }
}
