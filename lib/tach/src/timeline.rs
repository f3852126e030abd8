//! From counts to nanoseconds for the whole process: a piecewise-linear fit that only ever grows.
//!
//! The line starts at an [`Anchor`] taken when the crate is first used. Each piece is valid up to a *threshold*, a count by
//! which the time since that anchor has doubled (or an hour has passed). The first conversion of a count beyond the
//! threshold takes a new anchor, and adds a piece that begins at the threshold and meets the OS clock, by what the anchors
//! predict, at the next one.
//!
//! - Nothing converted before changes: no count beyond the threshold is converted until the piece that covers it is
//!   there. So a span keeps its length, and later is never less.
//! - Errors do not accumulate: each piece heads for the clock, not for a rate. The line is off by a few brackets of an
//!   anchor, and its rate by that over the time since the first anchor.
//! - Nobody waits: an anchor costs microseconds, and an hour's run takes about thirty.
//! - To have an anchor sooner, [`Timeline::recalibrate`] moves the threshold to a few microseconds ahead.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering, fence};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::anchor::Anchor;
use crate::counter;

/// Pieces there is room for: 512 for each time the age grows by a factor of e (see `AGE_SHARE`), from a microsecond to
/// some years. Those not in use are untouched zero pages.
const PIECES: usize = 16_384;
/// This many are reserved for doubling again, once a process has outlived the hourly pieces.
const RESERVED_PIECES: usize = 32;
/// Least time between the first two anchors: the first rate is good to a bracket in this.
const FIRST_BASELINE: Duration = Duration::from_micros(10);
/// A piece is at most this long: the rate of a counter against a disciplined clock changes with the temperature.
const LONGEST_PIECE: Duration = Duration::from_secs(3_600);
/// A piece is never shorter than this share of the time since the first anchor, however often anchors are asked for.
const AGE_SHARE: u64 = 512;
/// How far ahead a recalibration moves the threshold: the time of a few anchors.
const RECALIBRATION_LEAD: Duration = Duration::from_micros(10);
/// How much of that must be left when every thread sees the threshold: far longer than any CPU delays an instruction.
const VISIBILITY_MARGIN: Duration = Duration::from_micros(2);
/// A stated rate that differs from the first two anchors by more than this, beyond their own error, is not believed.
const STATED_TOLERANCE: f64 = 1e-3;
/// Slopes are nanoseconds per count times two to this power.
const SLOPE_BITS: u32 = 50;

#[derive(Debug)]
struct Piece {
    count: AtomicU64,
    ns: AtomicU64,
    slope: AtomicU64,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Timeline {
    stated_ns_per_count: fn() -> Option<f64>,
    pieces: [Piece; PIECES],
    /// Pieces that are complete; stored with `Release` after the piece.
    len: AtomicUsize,
    /// Conversions of counts beyond this one need a new piece first.
    threshold: AtomicU64,
    anchors: Mutex<Anchors>,
}

#[derive(Debug)]
struct Anchors {
    origin: Option<Anchor>,
    last: Option<Anchor>,
    /// The widest bracket of an anchor that a piece rests on.
    bracket_ns: f64,
}

/// The line of this process.
pub(crate) static TIMELINE: Timeline =
    Timeline::new(|| counter::rate_stated_cheaply().map(|stated| 1e9 / stated.hz as f64));

/// What is known about the line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Quality {
    /// Nanoseconds per count, from the anchors.
    pub(crate) ns_per_count: f64,
    pub(crate) bracket_ns: f64,
    /// Between the first anchor and the last.
    pub(crate) baseline_ns: f64,
}

impl Timeline {
    /// `stated_ns_per_count`: the nominal rate, if any is stated; called once.
    pub(crate) const fn new(stated_ns_per_count: fn() -> Option<f64>) -> Self {
        Self {
            stated_ns_per_count,
            pieces: [const { Piece { count: AtomicU64::new(0), ns: AtomicU64::new(0), slope: AtomicU64::new(0) } };
                PIECES],
            len: AtomicUsize::new(0),
            threshold: AtomicU64::new(0),
            anchors: Mutex::new(Anchors { origin: None, last: None, bracket_ns: 0.0 }),
        }
    }

    /// Takes the first anchor, unless it is there.
    pub(crate) fn begin(&self, anchor: impl FnOnce() -> Anchor) {
        let mut anchors = self.anchors.lock().unwrap_or_else(PoisonError::into_inner);
        anchors.origin.get_or_insert_with(anchor);
    }

    /// Nanoseconds from the first anchor to `count`; negative before it. Beyond the present it is an estimate, which
    /// later pieces may change.
    pub(crate) fn ns(&self, count: u64, now: impl Fn() -> u64, anchor: impl Fn() -> Anchor) -> i64 {
        loop {
            let threshold = self.threshold.load(Ordering::Acquire);
            let begun = self.len.load(Ordering::Acquire) > 0;
            // A count of the future needs no piece: nothing of what it converts to is kept.
            if begun && (count <= threshold || now() <= threshold) {
                return self.ns_on_line(count);
            }
            let stated = if begun { None } else { (self.stated_ns_per_count)() };
            self.add_piece(threshold, &now, &anchor, stated);
        }
    }

    fn ns_on_line(&self, count: u64) -> i64 {
        let pieces = &self.pieces[..self.len.load(Ordering::Acquire)];
        let begins_by = |p: &&Piece| p.count.load(Ordering::Relaxed) <= count;
        // Most counts are recent.
        let recent = pieces.iter().rev().take(4).find(begins_by);
        let piece = recent.unwrap_or_else(|| &pieces[pieces.partition_point(|p| begins_by(&p)).saturating_sub(1)]);
        let (start, ns, slope) = (
            piece.count.load(Ordering::Relaxed),
            piece.ns.load(Ordering::Relaxed),
            piece.slope.load(Ordering::Relaxed),
        );
        let counts = i128::from(count) - i128::from(start);
        let after = (counts * i128::from(slope)) >> SLOPE_BITS;
        i64::try_from(i128::from(ns) + after).unwrap_or(if after < 0 { i64::MIN } else { i64::MAX })
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
        let len = self.len.load(Ordering::Relaxed);
        if len > 0 && self.threshold.load(Ordering::Relaxed) != threshold {
            return;
        }
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
        let mean_rate = stated.unwrap_or_else(|| (ns_between(&last, &origin) / baseline as f64).max(f64::MIN_POSITIVE));
        let longest = (LONGEST_PIECE.as_nanos() as f64 / mean_rate) as u64;
        let longest = longest.max(baseline / AGE_SHARE);
        let step = if len < PIECES - RESERVED_PIECES { baseline.min(longest) } else { baseline };
        // The last hour predicts the present rate better than last week does, but for no longer than it lasted.
        let rate = match anchors.last {
            Some(recent) if len > 0 && last.count().saturating_sub(recent.count()) >= step => {
                ns_between(&last, &recent) / (last.count() - recent.count()) as f64
            }
            _ => mean_rate,
        };
        anchors.bracket_ns = anchors.bracket_ns.max(last.bracket_counts().max(origin.bracket_counts()) as f64 * rate);
        anchors.last = Some(last);

        let (start, start_ns) = if len == 0 { (origin.count(), 0) } else { (threshold, self.ns_on_line(threshold)) };
        let next = if len + 1 == PIECES { u64::MAX } else { last.count().saturating_add(step.max(1)) };
        // Where the clock will be at the next threshold, as far as is known now. In whole numbers: the nanoseconds of
        // some months are more than an `f64` counts.
        let ahead_ns = (rate * (next - last.count()) as f64) as i128;
        let target_ns = last.std().saturating_duration_since(origin.std()).as_nanos() as i128 + ahead_ns;
        let exact = ((target_ns - i128::from(start_ns)) << SLOPE_BITS) / i128::from((next - start).max(1));
        let scaled_rate = rate * (1_u64 << SLOPE_BITS) as f64;
        // An OS clock that went back or stood still must not bend the line backwards.
        let slope = exact.clamp((scaled_rate / 2.0) as i128, (scaled_rate * 2.0) as i128);

        let piece = &self.pieces[len];
        piece.count.store(start, Ordering::Relaxed);
        piece.ns.store(u64::try_from(start_ns).unwrap_or(0), Ordering::Relaxed);
        piece.slope.store(u64::try_from(slope).unwrap_or(u64::MAX), Ordering::Relaxed);
        self.len.store(len + 1, Ordering::Release);
        self.threshold.store(next, Ordering::Release);
        debug_assert!(now() >= last.count());
    }

    /// Takes an anchor now and bends the line to it, some microseconds ahead; nothing converted before is changed.
    /// False if the last anchor is so recent that another would add nothing.
    pub(crate) fn recalibrate(&self, now: impl Fn() -> u64, anchor: impl Fn() -> Anchor) -> bool {
        let _ = self.ns(now(), &now, &anchor);
        let moved = {
            let anchors = self.anchors.lock().unwrap_or_else(PoisonError::into_inner);
            let (Some(origin), Some(last)) = (anchors.origin, anchors.last) else { return false };
            let old = self.threshold.load(Ordering::Relaxed);
            let len = self.len.load(Ordering::Relaxed);
            let start = self.pieces[len - 1].count.load(Ordering::Relaxed);
            let rate = ns_between(&last, &origin) / last.count().saturating_sub(origin.count()).max(1) as f64;
            let counts = |length: Duration| (length.as_nanos() as f64 / rate) as u64;
            let asked = now();
            let moved = asked.saturating_add(counts(RECALIBRATION_LEAD)).max(start + 1);
            let age = asked.saturating_sub(origin.count());
            if moved >= old || asked.saturating_sub(last.count()) < age / AGE_SHARE || len + RESERVED_PIECES >= PIECES {
                return false;
            }
            // A thread that loaded the old threshold did so before the fence, so it converts a count from before now;
            // up to what a CPU reads ahead of time. That lies below the new threshold: no such span is ever changed.
            self.threshold.store(moved, Ordering::Relaxed);
            fence(Ordering::SeqCst);
            if now().saturating_add(counts(VISIBILITY_MARGIN)) >= moved {
                // This thread was held up, and others may have gone on. The old piece simply stays.
                self.threshold.store(old, Ordering::Release);
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
        Some(Quality { ns_per_count: baseline_ns / counts, bracket_ns: anchors.bracket_ns, baseline_ns })
    }

    /// The count at `ns` after the first anchor: the inverse of [`Timeline::ns`], up to a rounding.
    pub(crate) fn count_at(&self, ns: i64) -> u64 {
        let len = self.len.load(Ordering::Acquire);
        let begins_by = |p: &&Piece| i64::try_from(p.ns.load(Ordering::Relaxed)).is_ok_and(|start| start <= ns);
        let piece = &self.pieces[self.pieces[..len].partition_point(|p| begins_by(&p)).saturating_sub(1)];
        let after = i128::from(ns) - i128::from(piece.ns.load(Ordering::Relaxed));
        let slope = i128::from(piece.slope.load(Ordering::Relaxed).max(1));
        // Rounded up: what is added and taken away again is not less.
        let counts = -((-after << SLOPE_BITS).div_euclid(slope));
        u64::try_from(i128::from(piece.count.load(Ordering::Relaxed)) + counts).unwrap_or(if ns < 0 {
            0
        } else {
            u64::MAX
        })
    }
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

    /// A counter of 3 counts a nanosecond that reads its clock with an error of up to 20 ns, both ways.
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
            self.noise.set(self.noise.get().wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
            let error = self.noise.get() >> 59;
            Anchor::new(self.now(), self.base + Duration::from_nanos(self.ns.get() + 20 - error), 120)
        }
    }

    fn line(fake: &Fake) -> Timeline {
        let timeline = Timeline::new(|| None);
        timeline.begin(|| fake.anchor());
        timeline
    }

    proptest! {
        #[test]
        fn spans_keep_their_length_and_the_line_follows_the_clock(
            steps in proptest::collection::vec((prop_oneof![1_u64..1_000, 1_000_u64..10_000_000, 1_000_000_u64..10_000_000_000], any::<bool>()), 1..60)
        ) {
            let fake = Fake::new();
            let timeline = line(&fake);
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

        #[test]
        fn counts_come_back_from_nanoseconds(step in 1_u64..10_000_000_000, ns in 0_i64..10_000_000_000) {
            let fake = Fake::new();
            let timeline = line(&fake);
            fake.ns.set(step);
            timeline.ns(fake.now(), || fake.now(), || fake.anchor());
            let count = timeline.count_at(ns);
            let again = timeline.ns_on_line(count);
            prop_assert!((again - ns).abs() <= 1, "{again} {ns}");
        }
    }

    #[test]
    fn a_stated_rate_saves_the_first_wait_only_if_it_is_right() {
        for (stated, believed) in [(1.0 / 3.0, true), (1.0 / 3.00001, true), (0.5, false), (0.2, false)] {
            let fake = Fake::new();
            let origin = fake.anchor();
            let last = fake.anchor();
            assert_eq!(agrees(stated, &origin, &last), believed, "{stated}");
        }
        let fake = Fake::new();
        let timeline = Timeline::new(|| Some(1.0 / 3.0));
        timeline.begin(|| fake.anchor());
        let count = fake.now();
        timeline.ns(count, || fake.now(), || fake.anchor());
        assert!(fake.ns.get() <= 4_000, "one anchor after the first, not {} ns of them", fake.ns.get());
    }

    #[test]
    fn recalibrating_all_the_time_fills_no_memory_and_changes_no_span() {
        let fake = Fake::new();
        let timeline = line(&fake);
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
        assert!(timeline.len.load(Ordering::Relaxed) < PIECES - RESERVED_PIECES);
        for (count, before) in seen {
            assert_eq!(timeline.ns_on_line(count), before);
        }
    }

    #[test]
    fn it_goes_on_for_years() {
        let fake = Fake::new();
        let timeline = line(&fake);
        let hour = 3_600_000_000_000;
        for _ in 0..20 * 365 {
            fake.ns.set(fake.ns.get() + 24 * hour);
            let count = fake.now();
            let ns = timeline.ns(count, || fake.now(), || fake.anchor());
            assert!((ns - ((count as i64 - 1_000) / 3 - 2_000)).abs() < 1_000);
        }
        assert!(timeline.len.load(Ordering::Relaxed) <= PIECES);
    }
}
