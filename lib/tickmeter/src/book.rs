//! The publication protocol of [`layout`](crate::layout): one writer that never waits, readers that
//! only copy.

use crate::layout::{HEADER, Layout, RECORD, UNKNOWN, at, bin};
use crate::sync::{AtomicU64, Ordering, fence};

/// What one wake-up of a loop adds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    /// Since registration.
    pub(crate) at_ns: u64,
    /// Of the first tick of the wake-up; negative if it came early.
    pub(crate) lateness_ns: i64,
    /// Ticks that share the wake-up: each is due a period after the one before.
    pub(crate) ticks: u64,
    pub(crate) period_ns: u64,
    /// Ticks before these that never came.
    pub(crate) skipped: u64,
    /// Beyond the error of the clock.
    pub(crate) early: bool,
    pub(crate) work_ns: Option<u64>,
    /// How far the work before ran past the deadline.
    pub(crate) overrun_ns: u64,
    /// Whether that is why these ticks are late, and why the skipped ones were skipped.
    pub(crate) by_work: bool,
    pub(crate) skipped_by_work: bool,
    /// Late ticks are recorded from here on.
    pub(crate) late_from_ns: u64,
}

/// A meter with hardly any bins and records, for what takes a thousand times as long.
#[cfg(all(test, any(miri, loom)))]
const SMALL: Layout = Layout {
    bin_bits: 1,
    lateness: (HEADER, 4),
    work: (HEADER + 4, 1),
    recorder: (HEADER + 5, 1, RECORD),
    words: HEADER + 5 + RECORD,
};

/// The writer's side of a meter's words.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Book<'a> {
    header: &'a [AtomicU64; HEADER],
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

impl<'a> Book<'a> {
    /// Words as long as the layout says.
    #[inline]
    pub(crate) fn new(words: &'a [AtomicU64], layout: &'a Layout) -> Self {
        Self { header: words.first_chunk().expect("a header"), words, layout }
    }

    #[inline]
    fn add(&self, at: usize, more: u64) {
        add(&self.header[at], more);
    }

    #[inline]
    fn add_to_bin(&self, (first, bins): (usize, usize), ns: u64, more: u64) {
        add(&self.words[first + bin(self.layout.bin_bits, ns).min(bins - 1)], more);
    }

    /// Books a wake-up. Only one thread may do so at a time.
    #[inline]
    pub(crate) fn enter(&self, entry: &Entry) {
        let lateness_ns = u64::try_from(entry.lateness_ns).unwrap_or(0);
        let done = self.header[at::BEGUN].load(Ordering::Relaxed).wrapping_add(entry.ticks);
        let is_late = lateness_ns >= entry.late_from_ns;
        self.header[at::BEGUN].store(done, Ordering::Relaxed);
        if is_late {
            self.add(at::LATE_BEGUN, 1);
        }
        // Whoever sees anything of what follows sees that it has begun.
        fence(Ordering::Release);
        if entry.ticks == 1 {
            self.add_to_bin(self.layout.lateness, lateness_ns, 1);
        } else {
            self.coalesced(entry, lateness_ns);
        }
        self.header[at::LAST].store(entry.at_ns, Ordering::Relaxed);
        raise(&self.header[at::MAX_LATENESS], lateness_ns);
        if let Some(work_ns) = entry.work_ns {
            self.add_to_bin(self.layout.work, work_ns, 1);
            self.add(at::WORKS, 1);
            self.add(at::WORK_SUM, work_ns);
            raise(&self.header[at::MAX_WORK], work_ns);
        }
        if entry.overrun_ns > 0 {
            self.add(at::OVERRUNS, 1);
        }
        if is_late {
            self.record(entry, lateness_ns);
        }
        if entry.early {
            self.add(at::EARLY, 1);
        }
        // Delivered only after the next was due, or never.
        let overdue = match entry.ticks {
            _ if lateness_ns < entry.period_ns => 0,
            1 => 1,
            ticks => (lateness_ns / entry.period_ns).min(ticks),
        };
        if overdue + entry.skipped > 0 {
            self.missed(entry, overdue);
        }
        self.header[at::DONE].store(done, Ordering::Release);
    }

    #[inline(never)]
    fn missed(&self, entry: &Entry, overdue: u64) {
        let by_work = |ticks, by_work| if by_work { ticks } else { 0 };
        let by_work =
            by_work(overdue, entry.by_work) + by_work(entry.skipped, entry.skipped_by_work);
        self.add(at::MISSED, overdue + entry.skipped);
        self.add(at::MISSED_OVERRUN, by_work);
        self.add(at::SKIPPED, entry.skipped);
    }

    /// Several ticks of one wake-up: each has its lateness. However many they are, it takes one
    /// step a bin.
    #[cold]
    fn coalesced(&self, entry: &Entry, mut lateness_ns: u64) {
        self.add(at::COALESCED, entry.ticks.saturating_sub(1));
        let mut left = entry.ticks;
        while left > 0 {
            let bin = bin(self.layout.bin_bits, lateness_ns).min(self.layout.lateness.1 - 1);
            let above = lateness_ns - crate::layout::bin_start(self.layout.bin_bits, bin);
            let here = (above / entry.period_ns + 1).min(left);
            // What is due only after the wake-up is booked as on time.
            let here = if lateness_ns == 0 { left } else { here };
            add(&self.words[self.layout.lateness.0 + bin], here);
            lateness_ns = lateness_ns.saturating_sub(here.saturating_mul(entry.period_ns));
            left -= here;
        }
    }

    #[cold]
    fn record(&self, entry: &Entry, lateness_ns: u64) {
        let number = self.header[at::LATE_BEGUN].load(Ordering::Relaxed);
        let (first, records, each) = self.layout.recorder;
        let place = first + (number.wrapping_sub(1) % records as u64) as usize * each;
        let fields: [u64; RECORD] =
            [number, entry.at_ns, lateness_ns, entry.work_ns.unwrap_or(UNKNOWN), entry.overrun_ns];
        for (i, field) in fields.into_iter().enumerate() {
            self.words[place + i].store(field, Ordering::Relaxed);
        }
        self.header[at::LATE_DONE].store(number, Ordering::Release);
    }
}

/// A copy of a meter's words, and of its header from before and after.
#[derive(Debug)]
pub(crate) struct Copied {
    pub(crate) before: [u64; HEADER],
    pub(crate) words: Vec<u64>,
    pub(crate) after: [u64; HEADER],
}

/// Copies by the protocol: `copy` fills a slice with the words from a place on.
pub(crate) fn copy<E>(
    length: usize,
    mut copy: impl FnMut(usize, &mut [u64]) -> Result<(), E>,
) -> Result<Copied, E> {
    let mut copied = Copied { before: [0; HEADER], words: vec![0; length], after: [0; HEADER] };
    copy(0, &mut copied.before)?;
    fence(Ordering::Acquire);
    copy(0, &mut copied.words)?;
    fence(Ordering::Acquire);
    copy(0, &mut copied.after)?;
    Ok(copied)
}

/// For [`copy`], out of this process's own memory.
pub(crate) fn load(words: &[AtomicU64], from: usize, into: &mut [u64]) {
    for (word, copied) in words[from..].iter().zip(into) {
        *copied = word.load(Ordering::Relaxed);
    }
}

impl Copied {
    /// Whether nothing was booked meanwhile.
    pub(crate) fn is_exact(&self) -> bool {
        self.before[at::DONE] == self.after[at::BEGUN]
    }

    /// Whether the words can be what a meter had between the first header and the last.
    pub(crate) fn is_whole(&self, layout: &Layout) -> bool {
        let ticks = sum(&self.words, layout.lateness);
        let works = sum(&self.words, layout.work);
        let exact = !self.is_exact() || works == Some(self.words[at::WORKS]);
        exact
            && ticks.is_some_and(|ticks| {
                (self.before[at::DONE]..=self.after[at::BEGUN]).contains(&ticks)
            })
    }

    /// The numbers of the late ticks whose records are whole.
    pub(crate) fn recorded(&self, layout: &Layout) -> std::ops::RangeInclusive<u64> {
        let (begun, done) = (self.after[at::LATE_BEGUN], self.before[at::LATE_DONE]);
        begun.max(done).saturating_sub(layout.recorder.1 as u64).saturating_add(1)..=done
    }
}

fn sum(words: &[u64], (first, bins): (usize, usize)) -> Option<u64> {
    words[first..first + bins].iter().try_fold(0_u64, |sum, &count| sum.checked_add(count))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn entry() -> impl Strategy<Value = Entry> {
        let lateness = (0_u32..45).prop_flat_map(|bits| -100_i64..(2 << bits));
        let work = proptest::option::of((0_u32..40).prop_flat_map(|bits| 0_u64..(2 << bits)));
        let flags = (any::<bool>(), any::<bool>(), any::<bool>());
        let all = (lateness, 1_u64..4, 1_u64..1 << 30, 0_u64..3, work, 0_u64..3, flags);
        all.prop_map(|(lateness_ns, ticks, period_ns, skipped, work_ns, overrun_ns, flags)| Entry {
            at_ns: 1,
            lateness_ns,
            ticks,
            period_ns,
            skipped,
            early: flags.0 && lateness_ns < 0,
            work_ns,
            overrun_ns,
            by_work: flags.1,
            skipped_by_work: flags.2,
            late_from_ns: 1 << 20,
        })
    }

    /// Of entries: more than there are records of late ticks, but in Miri, where they take too
    /// long.
    const MOST: usize = if cfg!(miri) { 5 } else { 300 };

    /// With whatever Miri lets a weakly ordered memory show; loom's model below has less to copy,
    /// and all schedules.
    #[test]
    fn copies_are_whole_while_a_thread_writes() {
        const TICKS: u64 = if cfg!(miri) { 20 } else { 20_000 };
        #[cfg(miri)]
        let layout = SMALL;
        #[cfg(not(miri))]
        let layout = Layout::CURRENT;
        let words: Vec<_> = (0..layout.words).map(|_| AtomicU64::new(0)).collect();
        let entered = |tick: u64| Entry {
            at_ns: tick,
            lateness_ns: tick as i64,
            ticks: 1,
            period_ns: 1 << 30,
            skipped: 0,
            early: false,
            work_ns: Some(tick),
            overrun_ns: tick,
            by_work: false,
            skipped_by_work: false,
            late_from_ns: 0,
        };
        let copied = || {
            let copied = copy(layout.words, |from, into: &mut [u64]| {
                load(&words, from, into);
                Ok::<_, ()>(())
            });
            let copied = copied.unwrap();
            assert!(copied.is_whole(&layout));
            for number in copied.recorded(&layout) {
                let (first, records, each) = layout.recorder;
                let place = first + (number as usize - 1) % records * each;
                assert_eq!(copied.words[place..][..RECORD], [number; RECORD]);
            }
            copied
        };
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                (1..=TICKS).for_each(|tick| Book::new(&words, &layout).enter(&entered(tick)))
            });
            while !writer.is_finished() {
                copied();
            }
        });
        let last = copied();
        assert!(last.is_exact() && last.words[at::DONE] == TICKS);
    }

    proptest! {
        #[test]
        fn the_books_are_those_of_a_model(entries in prop::collection::vec(entry(), 0..MOST)) {
            let layout = Layout::CURRENT;
            let words: Vec<_> = (0..layout.words).map(|_| AtomicU64::new(0)).collect();
            entries.iter().for_each(|entry| Book::new(&words, &layout).enter(entry));
            let copied = copy(layout.words, |from, into: &mut [u64]| {
                load(&words, from, into);
                Ok::<_, ()>(())
            }).unwrap();
            prop_assert!(copied.is_exact() && copied.is_whole(&layout));
            let value = |at: usize| copied.words[at];
            let total = |each: &dyn Fn(&Entry) -> u64| entries.iter().map(each).sum::<u64>();
            let lateness = |e: &Entry, k: u64| u64::try_from(e.lateness_ns).unwrap_or(0).saturating_sub(k * e.period_ns);
            let overdue = |e: &Entry| (0..e.ticks).filter(|&k| lateness(e, k) >= e.period_ns).count() as u64;
            prop_assert_eq!(value(at::DONE), total(&|e| e.ticks));
            prop_assert_eq!(value(at::COALESCED), total(&|e| e.ticks - 1));
            prop_assert_eq!(value(at::SKIPPED), total(&|e| e.skipped));
            prop_assert_eq!(value(at::MISSED), total(&|e| e.skipped + overdue(e)));
            let by_work = |e: &Entry| if e.by_work { overdue(e) } else { 0 } + if e.skipped_by_work { e.skipped } else { 0 };
            prop_assert_eq!(value(at::MISSED_OVERRUN), total(&by_work));
            prop_assert_eq!(value(at::EARLY), total(&|e| e.early.into()));
            prop_assert_eq!(value(at::OVERRUNS), total(&|e| (e.overrun_ns > 0).into()));
            prop_assert_eq!(value(at::MAX_LATENESS), entries.iter().map(|e| lateness(e, 0)).max().unwrap_or(0));
            prop_assert_eq!(value(at::WORKS), total(&|e| e.work_ns.is_some().into()));
            prop_assert_eq!(value(at::WORK_SUM), total(&|e| e.work_ns.unwrap_or(0)));
            prop_assert_eq!(value(at::MAX_WORK), entries.iter().filter_map(|e| e.work_ns).max().unwrap_or(0));
            let mut bins = vec![0; layout.lateness.1];
            for e in &entries {
                (0..e.ticks).for_each(|k| bins[bin(7, lateness(e, k)).min(layout.lateness.1 - 1)] += 1);
            }
            prop_assert_eq!(&copied.words[layout.lateness.0..][..bins.len()], &bins[..]);
            let late: Vec<&Entry> = entries.iter().filter(|e| lateness(e, 0) >= e.late_from_ns).collect();
            let recorded: Vec<u64> = copied.recorded(&layout).collect();
            prop_assert_eq!(recorded.len(), late.len().min(128));
            for number in recorded {
                let record = &copied.words[layout.recorder.0 + (number as usize - 1) % 128 * 8..][..RECORD];
                let e = late[number as usize - 1];
                prop_assert_eq!(record, [number, 1, lateness(e, 0), e.work_ns.unwrap_or(UNKNOWN), e.overrun_ns]);
            }
        }

        #[test]
        fn coalesced_ticks_are_booked_one_by_one(late in 0_u64..1 << 38, period_ns in 1_u64..1 << 30, ticks in 2..MOST as u64) {
            let layout = Layout::CURRENT;
            let new = || (0..layout.words).map(|_| AtomicU64::new(0)).collect::<Vec<_>>();
            let (together, apart) = (new(), new());
            let entry = Entry {
                at_ns: 5, lateness_ns: late as i64, ticks, period_ns, skipped: 0, early: false, work_ns: None, overrun_ns: 0,
                by_work: true, skipped_by_work: false, late_from_ns: u64::MAX,
            };
            Book::new(&together, &layout).enter(&entry);
            for k in 0..ticks {
                let lateness_ns = late.saturating_sub(k * period_ns) as i64;
                Book::new(&apart, &layout).enter(&Entry { lateness_ns, ticks: 1, ..entry });
            }
            let all = |words: &[AtomicU64]| words.iter().map(|w| w.load(Ordering::Relaxed)).collect::<Vec<_>>();
            let (mut together, apart) = (all(&together), all(&apart));
            prop_assert_eq!(together[at::COALESCED], ticks - 1);
            together[at::COALESCED] = 0;
            prop_assert_eq!(together, apart);
        }
    }
}

#[cfg(all(test, loom))]
mod schedules {
    use super::*;
    use loom::sync::Arc;

    /// Whatever the schedule and whatever a weakly ordered memory may show, a copy is whole, and
    /// says whether it is exact.
    #[test]
    fn a_copy_is_whole() {
        loom::model(|| {
            // What the checks below look at, of the header before, of the words, of the header
            // after: a load more, of what nobody stores or looks at, only multiplies the schedules.
            let (bins, record) = (SMALL.lateness.0, SMALL.recorder.0);
            let words_used = [bins + 1, bins + 2, record, record + 1, record + 2];
            let mut used =
                [&[at::DONE, at::LATE_DONE][..], &words_used, &[at::BEGUN, at::LATE_BEGUN]]
                    .into_iter();
            let words: Arc<Vec<AtomicU64>> =
                Arc::new((0..SMALL.words).map(|_| AtomicU64::new(0)).collect());
            let written = Arc::clone(&words);
            let writer = loom::thread::spawn(move || {
                for tick in 1..=2_u64 {
                    Book::new(&written, &SMALL).enter(&Entry {
                        at_ns: tick,
                        lateness_ns: tick as i64,
                        ticks: 1,
                        period_ns: 100,
                        skipped: 0,
                        early: false,
                        work_ns: None,
                        overrun_ns: 0,
                        by_work: false,
                        skipped_by_work: false,
                        late_from_ns: 0,
                    });
                }
            });
            let copied = copy(SMALL.words, |from, into: &mut [u64]| {
                for at in used.next().expect("a copy takes three parts") {
                    into[at - from] = words[*at].load(Ordering::Relaxed);
                }
                Ok::<_, ()>(())
            })
            .unwrap();
            assert!(copied.is_whole(&SMALL), "{copied:?}");
            for number in copied.recorded(&SMALL) {
                assert_eq!(
                    copied.words[SMALL.recorder.0..][..3],
                    [number, number, number],
                    "{copied:?}"
                );
            }
            if copied.is_exact() {
                let ticks = copied.before[at::DONE];
                let expected = [0, u64::from(ticks >= 1), u64::from(ticks >= 2), 0];
                assert_eq!(copied.words[HEADER..HEADER + 4], expected, "{copied:?}");
            }
            writer.join().unwrap();
        });
    }
}
