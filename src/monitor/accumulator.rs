//! What probes and meters booked: pure, from one look at them to the next. Memory is bounded by the
//! number of loops.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use files::bins::{Binning, Interval, IntervalCounts, Key};
use files::report::MAX_NS;
use jitterstat::stats::quantile;
use tickmeter::{LateTick, Snapshot};

/// How wide the bins of an interval are.
pub const BINNING: Binning = Binning::Hdr2;
/// Meters beyond so many loops have no books; they are counted.
pub const MAX_LOOPS: usize = 64;
/// Late ticks of an interval that are kept: as many as a meter keeps.
const MAX_LATE: usize = 128;
/// A loop has room for so many bins from the start, and has them touched: few meet more in a month,
/// so that a monitor takes in its first minute what it takes for ever.
const ROOM_FOR_BINS: usize = 1_024;
/// A loop that has ended is shown for so many looks: a scrape every minute sees its last ticks.
const SHOWN_LOOKS: u64 = 30;

/// What a loop is called; loops of the same name are one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Loop {
    Probe { subject: String, period_ns: u64, runtime: String },
    Meter { meter: String, period_ns: u64, program: String },
}

impl Loop {
    /// For people.
    pub fn name(&self) -> String {
        let period = |ns: &u64| cli::units::format_exact_duration(Duration::from_nanos(*ns));
        match self {
            Self::Probe { subject, period_ns, .. } => format!("{subject}@{}", period(period_ns)),
            Self::Meter { meter, period_ns, program } => {
                format!("{meter}@{} of {program}", period(period_ns))
            }
        }
    }
}

/// Counts by the least values of [`BINNING`], in ascending order. In one piece: a total stays for
/// months among what comes and goes, and the nodes of a map would lie scattered between.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bins(Vec<(i64, u64)>);

impl Bins {
    fn with_room() -> Self {
        Self(touched((i64::MAX, u64::MAX), ROOM_FOR_BINS))
    }

    fn add(&mut self, lower: i64, count: u64) {
        match self.0.binary_search_by_key(&lower, |(lower, _)| *lower) {
            Ok(at) => self.0[at].1 += count,
            Err(at) => self.0.insert(at, (lower, count)),
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = (i64, u64)> + '_ {
        self.0.iter().copied()
    }

    pub fn count(&self) -> u64 {
        self.iter().map(|(_, count)| count).sum()
    }
}

#[cfg(test)]
impl FromIterator<(i64, u64)> for Bins {
    fn from_iter<I: IntoIterator<Item = (i64, u64)>>(counted: I) -> Self {
        let mut bins = Self::default();
        counted.into_iter().for_each(|(lower, count)| bins.add(lower, count));
        bins
    }
}

/// Since the monitor began.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Total {
    pub bins: Bins,
    pub ticks: u64,
    pub coalesced: u64,
    pub skipped: u64,
    pub missed: u64,
    pub early: u64,
    /// Of the last closed interval, if a tick came in it.
    pub closed_max_ns: Option<u64>,
}

/// A tick that came late, by the calendar.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Late {
    pub at: SystemTime,
    pub lateness_ns: u64,
    pub work_ns: Option<u64>,
    pub overrun_ns: u64,
}

/// Of one interval.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    pub bins: Bins,
    pub facts: IntervalCounts,
    /// The last late ticks, the oldest first.
    pub late: Vec<Late>,
}

#[derive(Debug)]
struct Account {
    total: Total,
    open: Figures,
    /// The look at which it was last seen.
    seen: u64,
    live: bool,
}

/// What was seen of a meter.
#[derive(Debug)]
struct Source {
    of: Loop,
    last: Snapshot,
    seen: u64,
}

/// The books of all loops. `S` tells the meters apart.
#[derive(Debug)]
pub struct Books<S> {
    sources: BTreeMap<S, Source>,
    accounts: BTreeMap<Loop, Account>,
    looks: u64,
    /// Meters that are older than this have a past that is not ours.
    began: SystemTime,
    /// Loops without books at the last look.
    left_out: usize,
}

impl<S: Ord> Books<S> {
    pub fn new(began: SystemTime) -> Self {
        Self { sources: BTreeMap::new(), accounts: BTreeMap::new(), looks: 0, began, left_out: 0 }
    }

    /// Books what is new in each meter.
    pub fn take(&mut self, looked: impl IntoIterator<Item = (S, Loop, Snapshot)>) {
        self.looks += 1;
        self.left_out = 0;
        self.accounts.values_mut().for_each(|account| account.live = false);
        self.add(looked);
        let looks = self.looks;
        self.sources.retain(|_, source| source.seen == looks);
        // An interval that is open keeps what it has; a total may go.
        self.accounts.retain(|_, a| {
            a.live || a.seen + SHOWN_LOOKS >= looks || a.open.facts != IntervalCounts::default()
        });
    }

    /// Books what is new in some of them.
    pub fn add(&mut self, looked: impl IntoIterator<Item = (S, Loop, Snapshot)>) {
        for (source, of, now) in looked {
            let is_room = self.accounts.len() < MAX_LOOPS || matches!(of, Loop::Probe { .. });
            if !is_room && !self.accounts.contains_key(&of) {
                self.left_out += 1;
                continue;
            }
            let account = self.accounts.entry(of.clone()).or_insert_with(Account::new);
            (account.seen, account.live) = (self.looks, true);
            let known = self.sources.remove(&source).map(|known| known.last);
            let since = match known.as_ref().and_then(|known| now.since(known)) {
                Some(since) => Some((since, known.and_then(|known| known.lateness.max()))),
                None if now.registered >= self.began => Some((now.clone(), None)),
                None => None,
            };
            if let Some((since, max_before)) = since {
                account.book(&now, &since, max_before);
            }
            self.sources.insert(source, Source { of, last: now, seen: self.looks });
        }
    }

    /// Ends the interval: its figures, of each loop that is there or was.
    pub fn close(&mut self) -> Vec<(Loop, Figures)> {
        let open = self
            .accounts
            .iter_mut()
            .filter(|(_, a)| a.live || a.open.facts != IntervalCounts::default());
        let closed = open.map(|(of, account)| {
            let figures = account.open.clone();
            account.open.clear();
            account.total.closed_max_ns =
                figures.facts.max_ns.and_then(|ns| u64::try_from(ns).ok());
            (of.clone(), figures)
        });
        closed.collect()
    }

    pub fn totals(&self) -> impl Iterator<Item = (&Loop, &Total)> {
        self.accounts.iter().map(|(of, account)| (of, &account.total))
    }

    pub fn left_out(&self) -> usize {
        self.left_out
    }

    /// Meters that are there, of programs that are not this one.
    pub fn meters(&self) -> usize {
        self.sources.values().filter(|source| matches!(source.of, Loop::Meter { .. })).count()
    }
}

impl Account {
    fn new() -> Self {
        let total = Total { bins: Bins::with_room(), ..Total::default() };
        let late = Late { at: SystemTime::now(), lateness_ns: 1, work_ns: Some(1), overrun_ns: 1 };
        let open = Figures {
            bins: Bins::with_room(),
            late: touched(late, 2 * MAX_LATE),
            ..Figures::default()
        };
        Self { total, open, seen: 0, live: false }
    }

    /// Books what came since the last look, before which the largest lateness was `max_before`.
    fn book(&mut self, now: &Snapshot, since: &Snapshot, max_before: Option<Duration>) {
        let (total, facts) = (&mut self.total, &mut self.open.facts);
        // A tick that came early is in the meter's bin of zero.
        let mut early = since.early;
        for (lower, upper, count) in since.lateness.bins() {
            let negative = if lower == 0 { early.min(count) } else { 0 };
            early -= negative;
            let upper = upper.min(since.lateness.max().map_or(upper, ns));
            for (value, count) in
                [(-1, negative), (i64::try_from(upper).unwrap_or(i64::MAX), count - negative)]
            {
                if count > 0 {
                    let lower = BINNING.bin(value.min(MAX_NS as i64)).lower;
                    self.open.bins.add(lower, count);
                    total.bins.add(lower, count);
                }
            }
        }
        let asked = since.ticks + since.skipped;
        for (sum, more) in [
            (&mut total.ticks, asked),
            (&mut total.coalesced, since.coalesced),
            (&mut total.skipped, since.skipped),
            (&mut total.missed, since.missed),
            (&mut total.early, since.early),
            (&mut facts.ticks, asked),
            (&mut facts.delivered, since.ticks.saturating_sub(since.coalesced)),
            (&mut facts.coalesced, since.coalesced),
            (&mut facts.skipped, since.skipped),
            (&mut facts.missed, since.missed),
            (&mut facts.early, since.early),
        ] {
            *sum += more;
        }
        let max_ns =
            largest(now, since, max_before).map(|max| i64::try_from(ns(max)).unwrap_or(i64::MAX));
        facts.max_ns = facts.max_ns.max(max_ns);
        let late = &mut self.open.late;
        late.extend(since.late.iter().map(|tick| Late::of(since.registered, tick)));
        late.drain(..late.len().saturating_sub(MAX_LATE));
    }
}

/// The largest lateness since the last look: exact where it is the largest of all, or recorded;
/// else the end of its bin.
fn largest(now: &Snapshot, since: &Snapshot, max_before: Option<Duration>) -> Option<Duration> {
    let within = since.lateness.max()?;
    let of_all = now.lateness.max().filter(|max| max_before.is_none_or(|before| *max > before));
    let (lower, _, _) = since.lateness.bins().last()?;
    let recorded =
        since.late.iter().map(|tick| tick.lateness).max().filter(|max| ns(*max) >= lower);
    Some(of_all.or(recorded).unwrap_or(within))
}

impl Late {
    fn of(registered: SystemTime, tick: &LateTick) -> Self {
        Self {
            at: registered.checked_add(tick.at).unwrap_or(registered),
            lateness_ns: ns(tick.lateness),
            work_ns: tick.work.map(ns),
            overrun_ns: ns(tick.overrun),
        }
    }
}

/// Room for so many.
fn touched<T: Clone>(of: T, room: usize) -> Vec<T> {
    let mut all = vec![of; room];
    all.clear();
    all
}

fn ns(length: Duration) -> u64 {
    u64::try_from(length.as_nanos()).unwrap_or(u64::MAX)
}

impl Figures {
    /// Begins again where they lie: an interval after the other, they take no new memory.
    fn clear(&mut self) {
        self.bins.0.clear();
        self.late.clear();
        self.facts = IntervalCounts::default();
    }

    /// The nearest-rank percentile, to the end of its bin; `None` where too few ticks support it.
    pub fn quantile_ns(&self, q: f64) -> Option<i64> {
        let came = usize::try_from(self.facts.came()).unwrap_or(usize::MAX);
        let interval = Interval::from_values(Key::default(), BINNING, self.bins.iter(), None);
        let end = interval.percentile(q).filter(|_| quantile::is_supported(came, q))?;
        Some(end.min(self.facts.max_ns.unwrap_or(i64::MAX)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;
    use tickmeter::Meter;

    fn named(name: &str) -> Loop {
        Loop::Meter { meter: name.to_owned(), period_ns: 1_000_000, program: "p".to_owned() }
    }

    fn meter() -> Meter {
        Meter::register_with("of-the-books", Duration::from_millis(1), Duration::from_micros(500))
            .unwrap()
    }

    #[allow(clippy::disallowed_methods, reason = "deadlines for ticks that nothing waits for")]
    fn tick(meter: &mut Meter, late_us: u64) {
        meter.tick(Instant::now() - Duration::from_micros(late_us));
    }

    #[test]
    fn intervals_and_totals_have_every_tick_once() {
        let mut books = Books::new(SystemTime::UNIX_EPOCH);
        let mut meter = meter();
        (0..10).for_each(|n| tick(&mut meter, n * 100));
        books.take([(1, named("a"), meter.snapshot())]);
        (0..7).for_each(|_| tick(&mut meter, 20));
        books.take([(1, named("a"), meter.snapshot())]);
        let closed = books.close();
        assert_eq!((closed.len(), closed[0].1.facts.ticks), (1, 17));
        let exact = meter.snapshot().lateness.max().unwrap();
        assert_eq!(closed[0].1.facts.max_ns, i64::try_from(exact.as_nanos()).ok());
        assert_eq!(closed[0].1.bins.count(), 17);
        assert!(!closed[0].1.late.is_empty(), "500 us and more are recorded");
        tick(&mut meter, 30);
        books.take([(1, named("a"), meter.snapshot())]);
        let second = books.close();
        let facts = &second[0].1.facts;
        assert_eq!((facts.ticks, second[0].1.late.len()), (1, 0));
        assert!(
            facts.max_ns.unwrap() < closed[0].1.facts.max_ns.unwrap(),
            "of this interval alone"
        );
        let total = books.totals().next().unwrap().1;
        assert_eq!((total.ticks, total.bins.count()), (18, 18));
        // Without a tick there is a row all the same.
        books.take([(1, named("a"), meter.snapshot())]);
        assert_eq!(books.close()[0].1, Figures::default());
    }

    #[test]
    fn a_past_that_was_not_watched_is_not_booked_and_loops_of_one_name_are_one() {
        let mut books = Books::new(SystemTime::now() + Duration::from_secs(3_600));
        let mut meters = [meter(), meter()];
        let look = |meters: &[Meter; 2]| {
            let each = meters.iter().enumerate();
            each.map(|(n, meter)| (n, named("same"), meter.snapshot())).collect::<Vec<_>>()
        };
        meters.iter_mut().for_each(|meter| tick(meter, 5));
        books.take(look(&meters));
        assert_eq!(books.close()[0].1.facts.ticks, 0);
        meters.iter_mut().for_each(|meter| tick(meter, 5));
        books.take(look(&meters));
        let closed = books.close();
        assert_eq!((closed.len(), closed[0].1.facts.ticks), (1, 2));
        // They end, and their total is shown for a while.
        for _ in 0..=SHOWN_LOOKS {
            assert_eq!(books.totals().count(), 1);
            books.take([]);
        }
        assert_eq!((books.totals().count(), books.close().len()), (0, 0));
    }

    #[test]
    fn more_loops_than_there_is_room_for_are_counted() {
        let mut books = Books::new(SystemTime::UNIX_EPOCH);
        let meter = meter();
        for _ in 0..3 {
            books.take((0..MAX_LOOPS + 5).map(|n| (n, named(&n.to_string()), meter.snapshot())));
        }
        assert_eq!(
            (books.totals().count(), books.left_out(), books.meters()),
            (MAX_LOOPS, 5, MAX_LOOPS)
        );
    }

    #[test]
    fn early_ticks_are_negative() {
        let mut books = Books::new(SystemTime::UNIX_EPOCH);
        let mut meter = meter();
        #[allow(clippy::disallowed_methods, reason = "a deadline that is not reached")]
        meter.tick(Instant::now() + Duration::from_secs(5));
        tick(&mut meter, 0);
        books.take([(1, named("a"), meter.snapshot())]);
        let closed = books.close();
        assert_eq!(closed[0].1.bins.iter().next(), Some((BINNING.bin(-1).lower, 1)));
        assert_eq!(closed[0].1.facts.early, 1);
    }
}
