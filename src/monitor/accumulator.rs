//! Accumulates what probes and meters recorded, from one poll to the next.
//!
//! Each poll hands over a snapshot of every meter. The accumulator adds the difference to the
//! previous snapshot to the total of its loop and to the open interval. Memory is bounded by the
//! number of loops. This module does no I/O.

use std::collections::BTreeMap;
use std::time::Instant;

use tickmeter::Snapshot;

use crate::meters::MeterClocks;
use crate::monitor::loop_id::LoopId;
use crate::monitor::loop_record::{IntervalStats, LoopRecord, LoopTotal};

/// Maximum number of loops with records. Meters beyond it are only counted.
pub const MAX_LOOPS: usize = 4_096;
/// Number of loops whose memory is allocated and touched when they begin.
const MAX_PREALLOCATED_LOOPS: usize = 64;

/// Latest snapshot of a meter. It is kept as long as the meter may exist, so that no tick is
/// counted twice.
#[derive(Debug)]
struct MeterState {
    loop_id: LoopId,
    snapshot: Snapshot,
    /// Number of the last poll in which the meter existed.
    last_poll: u64,
    /// Whether its loop is recorded; false beyond the maximum number of loops.
    is_recorded: bool,
}

/// A snapshot of one meter, taken by a poll. `S` identifies the meter.
#[derive(Debug)]
pub struct PolledMeter<S> {
    pub source: S,
    pub loop_id: LoopId,
    pub snapshot: Snapshot,
    /// Whether the meter has appeared since the previous poll. All its ticks are then counted;
    /// those of other meters from their first poll on.
    pub is_new: bool,
}

/// Records of all loops. `S` identifies a meter.
#[derive(Debug)]
pub struct Accumulator<S> {
    meters: BTreeMap<S, MeterState>,
    loops: BTreeMap<LoopId, LoopRecord>,
    polls: u64,
    /// Start of the monitor. Ticks of older meters are counted from their first poll on.
    started: Instant,
    max_loops: usize,
    /// Loops without a record at the last poll.
    left_out: usize,
}

impl<S: Ord> Accumulator<S> {
    pub fn new(started: Instant, max_loops: usize) -> Self {
        Self {
            meters: BTreeMap::new(),
            loops: BTreeMap::new(),
            polls: 0,
            started,
            max_loops,
            left_out: 0,
        }
    }

    /// Records a poll of all meters, at the time of the clocks. Those in `unread` may exist and
    /// could not be read. Any other meter that is missing has ended.
    pub fn record_poll(
        &mut self,
        clocks: &MeterClocks,
        polled: impl IntoIterator<Item = PolledMeter<S>>,
        unread: impl IntoIterator<Item = S>,
    ) {
        self.polls += 1;
        self.left_out = 0;
        for record in self.loops.values_mut() {
            record.is_live = false;
        }
        self.record(clocks, polled);
        let polls = self.polls;
        for source in unread {
            if let Some(meter) = self.meters.get_mut(&source) {
                meter.last_poll = polls;
                if let Some(record) = self.loops.get_mut(&meter.loop_id) {
                    record.last_poll = polls;
                }
            }
        }
        self.meters.retain(|_, meter| meter.last_poll == polls);
        self.loops.retain(|_, record| record.is_kept(polls));
    }

    /// Records a poll of some meters.
    pub fn record(
        &mut self,
        clocks: &MeterClocks,
        polled: impl IntoIterator<Item = PolledMeter<S>>,
    ) {
        for PolledMeter { source, loop_id, snapshot, is_new } in polled {
            let previous = self.meters.remove(&source).map(|meter| meter.snapshot);
            let is_recorded = self.can_record(&loop_id);
            if is_recorded {
                let is_new = is_new && self.is_since_start(clocks, &snapshot);
                self.record_ticks(clocks, &loop_id, &snapshot, previous.as_ref(), is_new);
            } else {
                self.left_out += 1;
            }
            let last_poll = self.polls;
            self.meters.insert(source, MeterState { loop_id, snapshot, last_poll, is_recorded });
        }
    }

    /// Returns whether a meter was registered after the start of the monitor.
    fn is_since_start(&self, clocks: &MeterClocks, snapshot: &Snapshot) -> bool {
        let running = clocks.at().saturating_duration_since(self.started);
        clocks.age(snapshot).is_none_or(|age| age <= running)
    }

    fn record_ticks(
        &mut self,
        clocks: &MeterClocks,
        loop_id: &LoopId,
        snapshot: &Snapshot,
        previous: Option<&Snapshot>,
        is_new: bool,
    ) {
        let is_preallocated = self.loops.len() < MAX_PREALLOCATED_LOOPS;
        let new = if is_preallocated { LoopRecord::preallocated } else { LoopRecord::new };
        let record = self.loops.entry(loop_id.clone()).or_insert_with(new);
        (record.last_poll, record.is_live) = (self.polls, true);
        if let Some(delta) = previous.and_then(|previous| snapshot.since(previous)) {
            let previous_max = previous.and_then(|previous| previous.lateness.max());
            record.add(clocks, snapshot, &delta, previous_max);
        } else if is_new {
            record.add(clocks, snapshot, snapshot, None);
        }
    }

    fn can_record(&self, loop_id: &LoopId) -> bool {
        self.loops.len() < self.max_loops
            || matches!(loop_id, LoopId::Probe { .. })
            || self.loops.contains_key(loop_id)
    }

    /// Ends the interval and returns its statistics for every loop that is live or ticked in it.
    pub fn close_interval(&mut self) -> Vec<(LoopId, IntervalStats)> {
        let mut closed = Vec::new();
        for (loop_id, record) in &mut self.loops {
            if let Some(stats) = record.close_interval() {
                closed.push((loop_id.clone(), stats));
            }
        }
        closed
    }

    pub fn totals(&self) -> impl Iterator<Item = (&LoopId, &LoopTotal)> {
        self.loops.iter().map(|(loop_id, record)| (loop_id, &record.total))
    }

    /// Returns whether a loop has a record.
    pub fn has_loop(&self, loop_id: &LoopId) -> bool {
        self.loops.contains_key(loop_id)
    }

    /// Returns the number of loops that had no record at the last poll.
    pub fn left_out(&self) -> usize {
        self.left_out
    }

    /// Returns the number of recorded meters of other programs.
    pub fn meter_count(&self) -> usize {
        let is_foreign = |meter: &&MeterState| matches!(meter.loop_id, LoopId::Meter { .. });
        self.meters.values().filter(is_foreign).filter(|meter| meter.is_recorded).count()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tickmeter::Meter;

    use super::*;
    use crate::monitor::loop_record::{BINNING, MAX_POLLS_AFTER_END};

    const MAX_LOOPS: usize = 64;

    fn loop_id(name: &str) -> LoopId {
        LoopId::Meter { meter: name.to_owned(), period_ns: 1_000_000, program: "p".to_owned() }
    }

    fn accumulator() -> Accumulator<usize> {
        Accumulator::new(MeterClocks::read().at(), MAX_LOOPS)
    }

    fn record_poll(
        accumulator: &mut Accumulator<usize>,
        polled: impl IntoIterator<Item = PolledMeter<usize>>,
        unread: impl IntoIterator<Item = usize>,
    ) {
        accumulator.record_poll(&MeterClocks::read(), polled, unread);
    }

    fn meter() -> Meter {
        // No machine is so busy that a tick is late by a minute.
        Meter::register_with("accumulator", Duration::from_millis(1), Duration::from_secs(60))
            .unwrap()
    }

    fn poll(source: usize, name: &str, meter: &Meter) -> PolledMeter<usize> {
        PolledMeter { source, loop_id: loop_id(name), snapshot: meter.snapshot(), is_new: true }
    }

    #[allow(clippy::disallowed_methods, reason = "deadlines for ticks that nothing waits for")]
    fn tick(meter: &mut Meter, late_us: u64) {
        meter.tick(Instant::now() - Duration::from_micros(late_us));
    }

    #[test]
    fn each_tick_is_counted_once() {
        let mut accumulator = accumulator();
        let mut meter = meter();
        for n in 0..10 {
            tick(&mut meter, n * 8_000_000);
        }
        record_poll(&mut accumulator, [poll(1, "a", &meter)], []);
        for _ in 0..7 {
            tick(&mut meter, 20);
        }
        record_poll(&mut accumulator, [poll(1, "a", &meter)], []);
        let closed = accumulator.close_interval();
        assert_eq!((closed.len(), closed[0].1.counts.ticks.planned), (1, 17));
        let exact = meter.snapshot().lateness.max().unwrap();
        assert_eq!(closed[0].1.counts.max_ns, i64::try_from(exact.as_nanos()).ok());
        assert_eq!(closed[0].1.bins.count(), 17);
        assert!(!closed[0].1.late_ticks.is_empty(), "a minute and more is recorded");
        tick(&mut meter, 30);
        record_poll(&mut accumulator, [poll(1, "a", &meter)], []);
        let second = accumulator.close_interval();
        let counts = &second[0].1.counts;
        assert_eq!((counts.ticks.planned, second[0].1.late_ticks.len()), (1, 0));
        assert!(
            counts.max_ns.unwrap() < closed[0].1.counts.max_ns.unwrap(),
            "the maximum is that of the interval"
        );
        let total = accumulator.totals().next().unwrap().1;
        assert_eq!((total.ticks.planned, total.bins.count()), (18, 18));
    }

    #[test]
    fn idle_loop_has_an_empty_interval() {
        let mut accumulator = accumulator();
        let mut meter = meter();
        tick(&mut meter, 5);
        record_poll(&mut accumulator, [poll(1, "a", &meter)], []);
        accumulator.close_interval();
        record_poll(&mut accumulator, [poll(1, "a", &meter)], []);
        assert_eq!(accumulator.close_interval()[0].1, IntervalStats::default());
    }

    #[test]
    fn history_before_start_is_ignored() {
        let mut meter = meter();
        let mut accumulator = accumulator();
        tick(&mut meter, 5);
        record_poll(&mut accumulator, [poll(1, "a", &meter)], []);
        assert_eq!(accumulator.close_interval()[0].1.counts.ticks.planned, 0);
        tick(&mut meter, 5);
        record_poll(&mut accumulator, [poll(1, "a", &meter)], []);
        assert_eq!(accumulator.close_interval()[0].1.counts.ticks.planned, 1);
    }

    #[test]
    fn missed_polls_do_not_recount() {
        let mut accumulator = accumulator();
        let mut meter = meter();
        for _ in 0..10 {
            tick(&mut meter, 5);
        }
        record_poll(&mut accumulator, [poll(1, "a", &meter)], []);
        for _ in 0..3 {
            for _ in 0..10 {
                tick(&mut meter, 5);
            }
            record_poll(&mut accumulator, [], [1]);
            assert_eq!(accumulator.meter_count(), 1);
        }
        record_poll(&mut accumulator, [poll(1, "a", &meter)], []);
        let total = accumulator.totals().next().unwrap().1;
        assert_eq!((total.ticks.planned, total.bins.count()), (40, 40));
        assert_eq!(accumulator.close_interval()[0].1.counts.ticks.planned, 40);
        // A meter that no poll mentions has ended.
        record_poll(&mut accumulator, [], []);
        assert_eq!(accumulator.meter_count(), 0);
    }

    #[test]
    fn late_watched_loops_have_no_past() {
        let mut accumulator = accumulator();
        let mut meter = meter();
        for _ in 0..10 {
            tick(&mut meter, 5);
        }
        let seen_late = PolledMeter { is_new: false, ..poll(1, "a", &meter) };
        record_poll(&mut accumulator, [seen_late], []);
        assert_eq!(accumulator.close_interval()[0].1.counts.ticks.planned, 0);
        tick(&mut meter, 5);
        record_poll(&mut accumulator, [poll(1, "a", &meter)], []);
        assert_eq!(accumulator.close_interval()[0].1.counts.ticks.planned, 1);
    }

    #[test]
    fn room_found_late_brings_no_past() {
        let mut accumulator = accumulator();
        let others = meter();
        let mut late = meter();
        let poll_others = || (0..MAX_LOOPS).map(|n| poll(n, &n.to_string(), &others));
        for _ in 0..3 {
            tick(&mut late, 5);
            let late = poll(MAX_LOOPS, "late", &late);
            record_poll(&mut accumulator, poll_others().chain([late]), []);
        }
        assert_eq!((accumulator.left_out(), accumulator.meter_count()), (1, MAX_LOOPS));
        accumulator.close_interval();
        for _ in 0..=MAX_POLLS_AFTER_END {
            record_poll(&mut accumulator, [poll(MAX_LOOPS, "late", &late)], []);
        }
        for _ in 0..2 {
            tick(&mut late, 5);
        }
        record_poll(&mut accumulator, [poll(MAX_LOOPS, "late", &late)], []);
        let closed = accumulator.close_interval();
        assert_eq!((closed.len(), closed[0].1.counts.ticks.planned), (1, 2));
    }

    #[test]
    fn loops_with_equal_ids_merge() {
        let mut accumulator = accumulator();
        let mut meters = [meter(), meter()];
        for meter in &mut meters {
            tick(meter, 5);
        }
        record_poll(
            &mut accumulator,
            meters.iter().enumerate().map(|(n, meter)| poll(n, "same", meter)),
            [],
        );
        let closed = accumulator.close_interval();
        assert_eq!((closed.len(), closed[0].1.counts.ticks.planned), (1, 2));
    }

    /// Any process of the same user can write such a meter.
    #[test]
    fn impossible_counts_saturate() {
        let mut accumulator = accumulator();
        let mut meters = [meter(), meter()];
        let polled = meters.each_mut().map(|meter| {
            #[allow(clippy::disallowed_methods, reason = "a deadline that nothing waits for")]
            meter.ticks(Instant::now(), u64::MAX);
            let mut polled = poll(0, "same", meter);
            polled.snapshot.skipped = u64::MAX;
            polled
        });
        for (source, polled) in polled.into_iter().enumerate() {
            record_poll(&mut accumulator, [PolledMeter { source, ..polled }], []);
        }
        let stats = &accumulator.close_interval()[0].1;
        assert_eq!((stats.counts.ticks.planned, stats.bins.count()), (u64::MAX, u64::MAX));
    }

    #[test]
    fn ended_loops_remain_for_some_polls() {
        let mut accumulator = accumulator();
        record_poll(&mut accumulator, [poll(1, "a", &meter())], []);
        for _ in 0..=MAX_POLLS_AFTER_END {
            assert_eq!(accumulator.totals().count(), 1);
            record_poll(&mut accumulator, [], []);
        }
        assert_eq!((accumulator.totals().count(), accumulator.close_interval().len()), (0, 0));
    }

    #[test]
    fn excess_loops_are_only_counted() {
        let mut accumulator = accumulator();
        let meter = meter();
        for _ in 0..3 {
            record_poll(
                &mut accumulator,
                (0..MAX_LOOPS + 5).map(|n| poll(n, &n.to_string(), &meter)),
                [],
            );
        }
        assert_eq!(
            (accumulator.totals().count(), accumulator.left_out(), accumulator.meter_count()),
            (MAX_LOOPS, 5, MAX_LOOPS)
        );
    }

    #[test]
    fn early_ticks_are_negative() {
        let mut accumulator = accumulator();
        let mut meter = meter();
        #[allow(clippy::disallowed_methods, reason = "a deadline that is not reached")]
        meter.tick(Instant::now() + Duration::from_secs(3_600));
        tick(&mut meter, 0);
        record_poll(&mut accumulator, [poll(1, "a", &meter)], []);
        let closed = accumulator.close_interval();
        assert_eq!(closed[0].1.bins.iter().next(), Some((BINNING.bin(-1).lower, 1)));
        assert_eq!(closed[0].1.counts.ticks.early, Some(1));
    }
}
