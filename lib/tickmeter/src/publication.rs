//! The publication protocol of [`layout`](crate::layout): one [`Writer`] that never waits, and
//! readers that take a [`RawSnapshot`] without any coordination with it.

use std::ops::RangeInclusive;

use crate::layout::{
    BinsLayout, HEADER_WORDS, Layout, RECORD_WORDS, RingLayout, UNKNOWN_WORK, at, bin_index,
    bin_start,
};
use crate::sync::{AtomicU64, Ordering, fence};

/// A wake-up of a loop, as it is recorded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wakeup {
    /// Time since registration.
    pub(crate) at_ns: u64,
    /// Lateness of the first tick; negative if it was early.
    pub(crate) lateness_ns: i64,
    /// Number of ticks that share the wake-up. Each is due a period after the previous one.
    pub(crate) ticks: u64,
    pub(crate) period_ns: u64,
    /// Number of ticks before these that never came.
    pub(crate) skipped: u64,
    /// Whether the first tick was early by more than the error of the clock.
    pub(crate) early: bool,
    /// Duration of the work before the wake-up, if known.
    pub(crate) work_ns: Option<u64>,
    /// The part of the lateness that is due to work.
    pub(crate) overrun_ns: u64,
    /// Whether the work is why these ticks are late.
    pub(crate) late_by_work: bool,
    /// Whether the work is why the skipped ticks were skipped.
    pub(crate) skipped_by_work: bool,
    /// Smallest lateness at which a tick is recorded individually.
    pub(crate) late_from_ns: u64,
}

impl Wakeup {
    /// Returns the number of ticks that were delivered only after the next one was due.
    #[inline]
    fn overdue_ticks(&self, lateness_ns: u64) -> u64 {
        match self.ticks {
            _ if lateness_ns < self.period_ns => 0,
            1 => 1,
            ticks => (lateness_ns / self.period_ns).min(ticks),
        }
    }
}

/// A meter with very few bins and records, for Miri and loom, which are a thousand times slower.
#[cfg(all(test, any(miri, loom)))]
const SMALL: Layout = Layout {
    bin_bits: 1,
    lateness: BinsLayout { first: HEADER_WORDS, bins: 4 },
    work: BinsLayout { first: HEADER_WORDS + 4, bins: 1 },
    recorder: RingLayout { first: HEADER_WORDS + 5, records: 1, words: RECORD_WORDS },
    words: HEADER_WORDS + 5 + RECORD_WORDS,
};

/// Records wake-ups in the words of a meter.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Writer<'a> {
    header: &'a [AtomicU64; HEADER_WORDS],
    words: &'a [AtomicU64],
    layout: &'a Layout,
}

#[inline]
fn add(word: &AtomicU64, more: u64) {
    word.store(word.load(Ordering::Relaxed).wrapping_add(more), Ordering::Relaxed);
}

#[inline]
fn raise(word: &AtomicU64, value: u64) {
    if value > word.load(Ordering::Relaxed) {
        word.store(value, Ordering::Relaxed);
    }
}

impl<'a> Writer<'a> {
    /// Creates a writer. There must be as many words as the layout has.
    #[inline]
    pub(crate) fn new(words: &'a [AtomicU64], layout: &'a Layout) -> Self {
        Self { header: words.first_chunk().expect("a header"), words, layout }
    }

    #[inline]
    fn add(&self, at: usize, more: u64) {
        add(&self.header[at], more);
    }

    #[inline]
    fn add_to_bin(&self, BinsLayout { first, bins }: BinsLayout, ns: u64, more: u64) {
        add(&self.words[first + bin_index(self.layout.bin_bits, ns).min(bins - 1)], more);
    }

    /// Records a wake-up. Only one thread may call this at a time.
    #[inline]
    pub(crate) fn record(&self, wakeup: &Wakeup) {
        let lateness_ns = u64::try_from(wakeup.lateness_ns).unwrap_or(0);
        let done = self.header[at::BEGUN].load(Ordering::Relaxed).wrapping_add(wakeup.ticks);
        let is_late = lateness_ns >= wakeup.late_from_ns;
        self.header[at::BEGUN].store(done, Ordering::Relaxed);
        if is_late {
            self.add(at::LATE_BEGUN, 1);
        }
        // A reader that sees any of the following stores also sees that the recording has begun.
        fence(Ordering::Release);
        if wakeup.ticks == 1 {
            self.add_to_bin(self.layout.lateness, lateness_ns, 1);
        } else {
            self.record_coalesced(wakeup, lateness_ns);
        }
        self.header[at::LAST].store(wakeup.at_ns, Ordering::Relaxed);
        raise(&self.header[at::MAX_LATENESS], lateness_ns);
        if let Some(work_ns) = wakeup.work_ns {
            self.add_to_bin(self.layout.work, work_ns, 1);
            self.add(at::WORKS, 1);
            self.add(at::WORK_SUM, work_ns);
            raise(&self.header[at::MAX_WORK], work_ns);
        }
        if wakeup.overrun_ns > 0 {
            self.add(at::OVERRUNS, 1);
        }
        if is_late {
            self.record_late_tick(wakeup, lateness_ns);
        }
        if wakeup.early {
            self.add(at::EARLY, 1);
        }
        let overdue = wakeup.overdue_ticks(lateness_ns);
        if overdue + wakeup.skipped > 0 {
            self.record_missed(wakeup, overdue);
        }
        self.header[at::DONE].store(done, Ordering::Release);
    }

    #[inline(never)]
    fn record_missed(&self, wakeup: &Wakeup, overdue: u64) {
        let overdue_by_work = if wakeup.late_by_work { overdue } else { 0 };
        let skipped_by_work = if wakeup.skipped_by_work { wakeup.skipped } else { 0 };
        self.add(at::MISSED, overdue + wakeup.skipped);
        self.add(at::MISSED_OVERRUN, overdue_by_work + skipped_by_work);
        self.add(at::SKIPPED, wakeup.skipped);
    }

    /// Adds the lateness of each of several ticks that share a wake-up. Costs one step per bin,
    /// however many ticks there are.
    #[cold]
    fn record_coalesced(&self, wakeup: &Wakeup, mut lateness_ns: u64) {
        self.add(at::COALESCED, wakeup.ticks.saturating_sub(1));
        let BinsLayout { first, bins } = self.layout.lateness;
        let mut remaining = wakeup.ticks;
        while remaining > 0 {
            let bin = bin_index(self.layout.bin_bits, lateness_ns).min(bins - 1);
            let above_start_ns = lateness_ns - bin_start(self.layout.bin_bits, bin);
            let in_bin = (above_start_ns / wakeup.period_ns + 1).min(remaining);
            // Ticks that are due only after the wake-up count as on time.
            let in_bin = if lateness_ns == 0 { remaining } else { in_bin };
            add(&self.words[first + bin], in_bin);
            lateness_ns = lateness_ns.saturating_sub(in_bin.saturating_mul(wakeup.period_ns));
            remaining -= in_bin;
        }
    }

    #[cold]
    fn record_late_tick(&self, wakeup: &Wakeup, lateness_ns: u64) {
        let number = self.header[at::LATE_BEGUN].load(Ordering::Relaxed);
        let start = self.layout.recorder.record_start(number);
        let work_ns = wakeup.work_ns.unwrap_or(UNKNOWN_WORK);
        let fields: [u64; RECORD_WORDS] =
            [number, wakeup.at_ns, lateness_ns, work_ns, wakeup.overrun_ns];
        for (i, field) in fields.into_iter().enumerate() {
            self.words[start + i].store(field, Ordering::Relaxed);
        }
        self.header[at::LATE_DONE].store(number, Ordering::Release);
    }
}

/// A copy of a meter: its parts, and the header as it was before and after the copy.
#[derive(Debug)]
pub(crate) struct RawSnapshot {
    pub(crate) before: [u64; HEADER_WORDS],
    pub(crate) header: [u64; HEADER_WORDS],
    /// The first bins of the lateness. The others are empty.
    pub(crate) lateness: Vec<u64>,
    /// The first bins of the work. The others are empty.
    pub(crate) work: Vec<u64>,
    /// The words of the recorder, or none if no tick was late.
    pub(crate) records: Vec<u64>,
    pub(crate) after: [u64; HEADER_WORDS],
}

/// Selects the words that a copy contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CopyExtent {
    /// Those that were used so far, by the maxima and counts of the header.
    Used,
    /// All words.
    Whole,
}

/// Copies a meter by the protocol. `read` fills a slice with the words from an index on.
///
/// Ticks that are recorded before the first header are within the extent of the second one, since
/// the maxima do not decrease.
pub(crate) fn copy_meter<E>(
    layout: &Layout,
    extent: CopyExtent,
    mut read: impl FnMut(usize, &mut [u64]) -> Result<(), E>,
) -> Result<RawSnapshot, E> {
    let (mut before, mut header, mut after) =
        ([0; HEADER_WORDS], [0; HEADER_WORDS], [0; HEADER_WORDS]);
    read(0, &mut before)?;
    fence(Ordering::Acquire);
    read(0, &mut header)?;
    let used_bins = |BinsLayout { bins, .. }: BinsLayout, count: usize, max: usize| match extent {
        CopyExtent::Used if header[count] == 0 => 0,
        CopyExtent::Used => bin_index(layout.bin_bits, header[max]).saturating_add(1).min(bins),
        CopyExtent::Whole => bins,
    };
    let RingLayout { first, records, words } = layout.recorder;
    let has_records = extent == CopyExtent::Whole || header[at::LATE_DONE] > 0;
    let parts = [
        (layout.lateness.first, used_bins(layout.lateness, at::DONE, at::MAX_LATENESS)),
        (layout.work.first, used_bins(layout.work, at::WORKS, at::MAX_WORK)),
        (first, if has_records { records * words } else { 0 }),
    ];
    let [mut lateness, mut work, mut records] = parts.map(|(_, length)| vec![0; length]);
    for ((first, length), into) in parts.into_iter().zip([&mut lateness, &mut work, &mut records]) {
        if length > 0 {
            read(first, into)?;
        }
    }
    fence(Ordering::Acquire);
    read(0, &mut after)?;
    Ok(RawSnapshot { before, header, lateness, work, records, after })
}

/// Reads words of this process's memory, for [`copy_meter`].
pub(crate) fn load_words(words: &[AtomicU64], from: usize, into: &mut [u64]) {
    for (word, copied) in words[from..].iter().zip(into) {
        *copied = word.load(Ordering::Relaxed);
    }
}

impl RawSnapshot {
    /// Returns whether nothing was recorded during the copy.
    pub(crate) fn is_exact(&self) -> bool {
        self.before[at::DONE] == self.after[at::BEGUN]
    }

    /// Returns whether the counts are possible for a meter that had the first header before the copy
    /// and the last one after it.
    pub(crate) fn is_consistent(&self) -> bool {
        let works = sum_bins(&self.work);
        if self.is_exact() && works != Some(self.header[at::WORKS]) {
            return false;
        }
        let possible_ticks = self.before[at::DONE]..=self.after[at::BEGUN];
        sum_bins(&self.lateness).is_some_and(|ticks| possible_ticks.contains(&ticks))
    }

    /// Returns the numbers of the late ticks whose records are complete.
    pub(crate) fn complete_records(&self, layout: &Layout) -> RangeInclusive<u64> {
        let (begun, done) = if self.is_exact() {
            // No late tick began between the two headers, but one may have begun or ended while a
            // header was read.
            (self.header[at::LATE_DONE], self.header[at::LATE_DONE])
        } else {
            (self.after[at::LATE_BEGUN], self.before[at::LATE_DONE])
        };
        begun.max(done).saturating_sub(layout.recorder.records as u64).saturating_add(1)..=done
    }

    /// Returns the words of the record of late tick `number`, if the copy contains them.
    pub(crate) fn record(&self, layout: &Layout, number: u64) -> Option<&[u64]> {
        let start = layout.recorder.record_start(number) - layout.recorder.first;
        self.records.get(start..start + layout.recorder.words)
    }
}

fn sum_bins(bins: &[u64]) -> Option<u64> {
    bins.iter().try_fold(0_u64, |sum, &count| sum.checked_add(count))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// More wake-ups than there are records of late ticks, except under Miri, which is too slow.
    const MAX_WAKEUPS: usize = if cfg!(miri) { 5 } else { 300 };

    fn new_words(layout: &Layout) -> Vec<AtomicU64> {
        (0..layout.words).map(|_| AtomicU64::new(0)).collect()
    }

    fn take_snapshot(words: &[AtomicU64], layout: &Layout, extent: CopyExtent) -> RawSnapshot {
        copy_meter(layout, extent, |from, into: &mut [u64]| {
            load_words(words, from, into);
            Ok::<_, ()>(())
        })
        .unwrap()
    }

    fn arbitrary_wakeup() -> impl Strategy<Value = Wakeup> {
        let lateness = (0_u32..45).prop_flat_map(|bits| -100_i64..(2 << bits));
        let work = proptest::option::of((0_u32..40).prop_flat_map(|bits| 0_u64..(2 << bits)));
        let flags = (any::<bool>(), any::<bool>(), any::<bool>());
        let fields = (lateness, 1_u64..4, 1_u64..1 << 30, 0_u64..3, work, 0_u64..3, flags);
        fields.prop_map(|(lateness_ns, ticks, period_ns, skipped, work_ns, overrun_ns, flags)| {
            Wakeup {
                at_ns: 1,
                lateness_ns,
                ticks,
                period_ns,
                skipped,
                early: flags.0 && lateness_ns < 0,
                work_ns,
                overrun_ns,
                late_by_work: flags.1,
                skipped_by_work: flags.2,
                late_from_ns: 1 << 20,
            }
        })
    }

    /// Tests what Miri lets a weakly ordered memory show. The loom model below has fewer words to
    /// copy, and covers all schedules.
    #[test]
    fn copies_are_consistent_across_threads() {
        const TICKS: u64 = if cfg!(miri) { 20 } else { 20_000 };
        #[cfg(miri)]
        let layout = SMALL;
        #[cfg(not(miri))]
        let layout = Layout::CURRENT;
        let words = new_words(&layout);
        let wakeup = |tick: u64| Wakeup {
            at_ns: tick,
            lateness_ns: tick as i64,
            ticks: 1,
            period_ns: 1 << 30,
            skipped: 0,
            early: false,
            work_ns: Some(tick),
            overrun_ns: tick,
            late_by_work: false,
            skipped_by_work: false,
            late_from_ns: 0,
        };
        let checked_snapshot = || {
            let raw = take_snapshot(&words, &layout, CopyExtent::Used);
            assert!(raw.is_consistent());
            for number in raw.complete_records(&layout) {
                let record = raw.record(&layout, number).unwrap();
                assert_eq!(record[..RECORD_WORDS], [number; RECORD_WORDS]);
            }
            raw
        };
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                (1..=TICKS).for_each(|tick| Writer::new(&words, &layout).record(&wakeup(tick)))
            });
            while !writer.is_finished() {
                checked_snapshot();
            }
        });
        let last = checked_snapshot();
        assert!(last.is_exact() && last.header[at::DONE] == TICKS);
    }

    /// The kernel may copy a header while the writer changes it.
    #[test]
    fn exact_copies_keep_all_records() {
        let layout = Layout::CURRENT;
        let words = new_words(&layout);
        let wakeup = Wakeup {
            at_ns: 1,
            lateness_ns: 1,
            ticks: 1,
            period_ns: 1 << 30,
            skipped: 0,
            early: false,
            work_ns: None,
            overrun_ns: 0,
            late_by_work: false,
            skipped_by_work: false,
            late_from_ns: 0,
        };
        (0..200).for_each(|_| Writer::new(&words, &layout).record(&wakeup));
        let mut raw = take_snapshot(&words, &layout, CopyExtent::Used);
        // The last late tick ended after the first header's `LATE_DONE` was read; the next one
        // began after the last header's `BEGUN` was read.
        raw.before[at::LATE_DONE] -= 1;
        raw.after[at::LATE_BEGUN] += 1;
        assert!(raw.is_exact());
        assert_eq!(raw.complete_records(&layout), 73..=200);
    }

    /// Lateness of tick `k` of a wake-up, in the model.
    fn lateness_ns(wakeup: &Wakeup, k: u64) -> u64 {
        u64::try_from(wakeup.lateness_ns).unwrap_or(0).saturating_sub(k * wakeup.period_ns)
    }

    /// Number of ticks of a wake-up that came after the next one was due, in the model.
    fn overdue(wakeup: &Wakeup) -> u64 {
        let is_overdue = |k: &u64| lateness_ns(wakeup, *k) >= wakeup.period_ns;
        (0..wakeup.ticks).filter(is_overdue).count() as u64
    }

    fn missed_by_work(wakeup: &Wakeup) -> u64 {
        let overdue = if wakeup.late_by_work { overdue(wakeup) } else { 0 };
        let skipped = if wakeup.skipped_by_work { wakeup.skipped } else { 0 };
        overdue + skipped
    }

    fn check_counters(raw: &RawSnapshot, wakeups: &[Wakeup]) {
        let value = |at: usize| raw.header[at];
        let total = |count: &dyn Fn(&Wakeup) -> u64| wakeups.iter().map(count).sum::<u64>();
        let max = |value: &dyn Fn(&Wakeup) -> u64| wakeups.iter().map(value).max().unwrap_or(0);
        assert_eq!(value(at::DONE), total(&|w| w.ticks));
        assert_eq!(value(at::COALESCED), total(&|w| w.ticks - 1));
        assert_eq!(value(at::SKIPPED), total(&|w| w.skipped));
        assert_eq!(value(at::MISSED), total(&|w| w.skipped + overdue(w)));
        assert_eq!(value(at::MISSED_OVERRUN), total(&missed_by_work));
        assert_eq!(value(at::EARLY), total(&|w| w.early.into()));
        assert_eq!(value(at::OVERRUNS), total(&|w| (w.overrun_ns > 0).into()));
        assert_eq!(value(at::MAX_LATENESS), max(&|w| lateness_ns(w, 0)));
        assert_eq!(value(at::WORKS), total(&|w| w.work_ns.is_some().into()));
        assert_eq!(value(at::WORK_SUM), total(&|w| w.work_ns.unwrap_or(0)));
        assert_eq!(value(at::MAX_WORK), max(&|w| w.work_ns.unwrap_or(0)));
    }

    fn check_lateness_bins(raw: &RawSnapshot, layout: &Layout, wakeups: &[Wakeup]) {
        let bins = layout.lateness.bins;
        let mut counts = vec![0; bins];
        for wakeup in wakeups {
            for k in 0..wakeup.ticks {
                counts[bin_index(7, lateness_ns(wakeup, k)).min(bins - 1)] += 1;
            }
        }
        // Bins that are not copied are empty.
        let (copied, others) = counts.split_at(raw.lateness.len());
        assert_eq!(raw.lateness, copied);
        assert!(others.iter().all(|count| *count == 0));
    }

    fn check_records(raw: &RawSnapshot, layout: &Layout, wakeups: &[Wakeup]) {
        let is_late = |wakeup: &&Wakeup| lateness_ns(wakeup, 0) >= wakeup.late_from_ns;
        let late: Vec<&Wakeup> = wakeups.iter().filter(is_late).collect();
        let numbers: Vec<u64> = raw.complete_records(layout).collect();
        assert_eq!(numbers.len(), late.len().min(128));
        for number in numbers {
            let record = &raw.records[(number as usize - 1) % 128 * 8..];
            let late = late[number as usize - 1];
            let work_ns = late.work_ns.unwrap_or(UNKNOWN_WORK);
            let expected = [number, 1, lateness_ns(late, 0), work_ns, late.overrun_ns];
            assert_eq!(record[..RECORD_WORDS], expected);
        }
    }

    proptest! {
        #[test]
        fn records_match_model(
            wakeups in prop::collection::vec(arbitrary_wakeup(), 0..MAX_WAKEUPS),
        ) {
            let layout = Layout::CURRENT;
            let words = new_words(&layout);
            for wakeup in &wakeups {
                Writer::new(&words, &layout).record(wakeup);
            }
            for extent in [CopyExtent::Used, CopyExtent::Whole] {
                let raw = take_snapshot(&words, &layout, extent);
                prop_assert!(raw.is_exact() && raw.is_consistent());
                check_counters(&raw, &wakeups);
                check_lateness_bins(&raw, &layout, &wakeups);
                check_records(&raw, &layout, &wakeups);
            }
        }

        #[test]
        fn coalesced_ticks_match_single_ticks(
            late_ns in 0_u64..1 << 38,
            period_ns in 1_u64..1 << 30,
            ticks in 2..MAX_WAKEUPS as u64,
        ) {
            let layout = Layout::CURRENT;
            let (coalesced, single) = (new_words(&layout), new_words(&layout));
            let wakeup = Wakeup {
                at_ns: 5,
                lateness_ns: late_ns as i64,
                ticks,
                period_ns,
                skipped: 0,
                early: false,
                work_ns: None,
                overrun_ns: 0,
                late_by_work: true,
                skipped_by_work: false,
                late_from_ns: u64::MAX,
            };
            Writer::new(&coalesced, &layout).record(&wakeup);
            for k in 0..ticks {
                let lateness_ns = late_ns.saturating_sub(k * period_ns) as i64;
                let wakeup = Wakeup { lateness_ns, ticks: 1, ..wakeup };
                Writer::new(&single, &layout).record(&wakeup);
            }
            let [mut coalesced, single] = [&coalesced, &single]
                .map(|words| words.iter().map(|word| word.load(Ordering::Relaxed)).collect::<Vec<_>>());
            prop_assert_eq!(coalesced[at::COALESCED], ticks - 1);
            coalesced[at::COALESCED] = 0;
            prop_assert_eq!(coalesced, single);
        }
    }
}

#[cfg(all(test, loom))]
mod schedules {
    use super::*;
    use crate::page::Page;
    use loom::sync::Arc;

    /// Number of ticks that are recorded while a copy is made.
    const TICKS: u64 = 2;

    fn record_ticks(words: &[AtomicU64]) {
        for tick in 1..=TICKS {
            Writer::new(words, &SMALL).record(&Wakeup {
                at_ns: tick,
                lateness_ns: tick as i64,
                ticks: 1,
                period_ns: 100,
                skipped: 0,
                early: false,
                work_ns: None,
                overrun_ns: 0,
                late_by_work: false,
                skipped_by_work: false,
                late_from_ns: 0,
            });
        }
    }

    /// Copies a meter; `load` reads the word with an index.
    ///
    /// Reads only the words that `check_copy` uses, because every other one would multiply the
    /// schedules.
    fn copy(load: impl Fn(usize) -> u64) -> RawSnapshot {
        let (bins, record) = (SMALL.lateness.first, SMALL.recorder.first);
        let before = [at::DONE, at::LATE_DONE];
        let header = [at::LATE_DONE, at::MAX_LATENESS];
        let after = [at::BEGUN, at::LATE_BEGUN];
        let mut headers = [&before[..], &header, &after].into_iter();
        copy_meter(&SMALL, CopyExtent::Used, |from, into: &mut [u64]| {
            let used: Vec<usize> = if from == 0 {
                headers.next().expect("a copy reads three headers").to_vec()
            } else if from == bins {
                (bins + 1..bins + into.len()).collect()
            } else {
                (record..record + 3).collect()
            };
            for at in &used {
                into[at - from] = load(*at);
            }
            if used == header {
                // The copy then contains the bins up to the maximum.
                into[at::DONE] = 1;
            }
            Ok::<_, ()>(())
        })
        .unwrap()
    }

    fn check_copy(raw: &RawSnapshot) {
        assert!(raw.is_consistent(), "{raw:?}");
        for number in raw.complete_records(&SMALL) {
            let record = raw.record(&SMALL, number).expect("a late tick");
            assert_eq!(record[..3], [number, number, number], "{raw:?}");
        }
        if raw.is_exact() {
            let ticks = raw.before[at::DONE];
            let expected: &[u64] = match ticks {
                0 => &[0],
                1 => &[0, 1],
                _ => &[0, 1, 1],
            };
            assert_eq!(raw.lateness, expected, "{raw:?}");
        }
    }

    /// Whatever the schedule is and whatever a weakly ordered memory shows, a copy is consistent
    /// and reports correctly whether it is exact.
    #[test]
    fn copies_are_consistent() {
        loom::model(|| {
            let words: Arc<Vec<AtomicU64>> =
                Arc::new((0..SMALL.words).map(|_| AtomicU64::new(0)).collect());
            let written = Arc::clone(&words);
            let writer = loom::thread::spawn(move || record_ticks(&written));
            check_copy(&copy(|at| words[at].load(Ordering::Relaxed)));
            writer.join().unwrap();
        });
    }

    /// So are the copies of a meter that moves to private memory, although each read of a copy may
    /// be of another page.
    #[test]
    fn copies_span_a_move() {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(3);
        builder.check(|| {
            let page = Arc::new(Page::private(&[0; HEADER_WORDS], SMALL.words));
            let moved = Arc::clone(&page);
            let writer = loom::thread::spawn(move || record_ticks(&moved.replace()));
            let load = |at: usize| page.current()[at].load(Ordering::Relaxed);
            check_copy(&copy(load));
            writer.join().unwrap();
            let last = copy(load);
            assert!(last.is_exact(), "{last:?}");
            assert_eq!(last.before[at::DONE], TICKS, "{last:?}");
            check_copy(&last);
        });
    }
}
