//! Builds the file of a flight record.

use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use cli::units::{ns_after, to_ns, to_signed};
use engine::measure::late_tick_log::AccountedTick;
use engine::measure::why::hindsight::{ExplainedLoop, LateLoop, Past};
use files::file::File as _;

use crate::flight_record::conversion::{
    calendar_time, cpu_assignments, flight_samples, flight_switches,
};
use crate::flight_record::{Flight, FlightRound, FlightTick, FlightTrigger};
use crate::monitor::loop_id::LoopId;

/// Maximum size of a file.
const MAX_FLIGHT_BYTES: usize = 5_000_000;
/// Number of entries of CPUs above which the file is certainly too large.
const MAX_ASSIGNMENTS: usize = 100_000;

/// A file, with the loops that it contains.
pub struct BuiltFlight {
    pub json: String,
    /// Loops with a late tick in it.
    pub loops: Vec<LoopId>,
}

/// The recorded time before and after a late tick.
#[derive(Clone, Copy)]
struct Span {
    before_ns: u64,
    after_ns: u64,
}

impl Span {
    /// Returns the span with times relative to the late tick.
    fn range_ns(self) -> RangeInclusive<i64> {
        -to_signed(self.before_ns)..=to_signed(self.after_ns)
    }

    /// Leaves out the outer half of the time before or after the late tick, of that in which more
    /// happened. Returns false if nothing is left to leave out.
    fn shorten(&mut self, rounds: &[FlightRound]) -> bool {
        let count = |range_ns: RangeInclusive<i64>| {
            rounds.iter().flat_map(FlightRound::times).filter(|ns| range_ns.contains(ns)).count()
        };
        let range_ns = self.range_ns();
        let has_more_after = count(1..=*range_ns.end()) >= count(*range_ns.start()..=-1);
        let is_after = self.before_ns == 0 || (self.after_ns > 0 && has_more_after);
        let shortened = if is_after { &mut self.after_ns } else { &mut self.before_ns };
        let had_time = *shortened > 0;
        *shortened /= 2;
        had_time
    }
}

/// Returns the file of the record before `late_tick`, a tick of the first loop. `past` contains the
/// explanations of the loops in the same order.
pub fn build(
    late_tick: AccountedTick,
    limit: Duration,
    loops: &[(&LoopId, LateLoop)],
    mut past: Past,
) -> BuiltFlight {
    let arrival = late_tick.wake;
    let mut rounds = Vec::new();
    for ((loop_id, late_loop), explained) in loops.iter().zip(&past.loops) {
        rounds.push(flight_round(loop_id, late_loop, explained, arrival));
    }
    if let (Some(first), Some(occupants)) = (rounds.first_mut(), &past.occupants) {
        first.assignments = cpu_assignments(occupants);
    }
    // On a busy machine, a late tick may be noticed long after it came.
    let latest_ns = rounds.iter().flat_map(FlightRound::times).max();
    let after_ns = latest_ns.and_then(|ns| u64::try_from(ns).ok()).unwrap_or(0);
    let mut span = Span { before_ns: to_ns(past.length), after_ns };
    if let Some(first) = rounds.first_mut() {
        while has_excess_assignments(first, span) && span.shorten(std::slice::from_ref(first)) {}
        first.retain(&span.range_ns());
        first.name_threads(|thread| past.names.find(thread));
    }
    let flight = Flight {
        schema: Flight::SCHEMA.to_owned(),
        at_utc: calendar_time(arrival),
        length_ns: span.before_ns,
        limit_ns: to_ns(limit),
        ended: false,
        late: FlightTrigger {
            subject: loops.first().map_or(String::new(), |(loop_id, _)| loop_id.name()),
            round: 0,
            instance: 0,
            tick: late_tick.number,
            lateness_ns: ns_after(arrival, late_tick.due),
        },
        rounds,
        hint: past.hint,
    };
    let loops = loops.iter().map(|(loop_id, _)| (*loop_id).clone()).collect();
    build_bounded(flight, loops, span)
}

/// Converts the late ticks of a loop. Those whose thread was recorded have their causes.
fn flight_round(
    loop_id: &LoopId,
    late_loop: &LateLoop,
    explained: &ExplainedLoop,
    arrival: Instant,
) -> FlightRound {
    let mut ticks = Vec::with_capacity(late_loop.ticks.len());
    for &AccountedTick { number, due, wake, .. } in &late_loop.ticks {
        let cause = explained.ticks.iter().find(|cause| cause.tick == number);
        let (deadline_ns, lateness_ns) = (ns_after(due, arrival), ns_after(wake, due));
        ticks.push(FlightTick::new(number, deadline_ns, lateness_ns, cause, explained.known));
    }
    ticks.sort_by_key(|tick| tick.deadline_ns);
    FlightRound {
        subject: loop_id.name(),
        round: 0,
        instance: 0,
        period_ns: to_ns(loop_id.period()),
        profiled: true,
        ticks,
        switches: flight_switches(&explained.threads),
        assignments: None,
        samples: flight_samples(explained.ticks.iter()),
    }
}

/// Returns whether a span has more entries of CPUs than a file can contain.
fn has_excess_assignments(round: &FlightRound, span: Span) -> bool {
    let range_ns = span.range_ns();
    let assignments = round.assignments.iter().flatten();
    assignments.filter(|assignment| range_ns.contains(&assignment.at_ns)).count() > MAX_ASSIGNMENTS
}

/// Returns the file of a record whose rounds belong to these loops. If it is too large, its span is
/// shortened, repeatedly.
fn build_bounded(mut flight: Flight, mut loops: Vec<LoopId>, mut span: Span) -> BuiltFlight {
    loop {
        let range_ns = span.range_ns();
        flight.length_ns = span.before_ns;
        flight.rounds.iter_mut().for_each(|round| round.retain(&range_ns));
        let mut has_ticks = flight.rounds.iter().map(|round| !round.ticks.is_empty());
        loops.retain(|_| has_ticks.next().unwrap_or(false));
        flight.rounds.retain(|round| !round.ticks.is_empty());
        let json = flight.to_json();
        if json.len() <= MAX_FLIGHT_BYTES || !span.shorten(&flight.rounds) {
            return BuiltFlight { json, loops };
        }
    }
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use super::*;
    use crate::flight_record::CpuAssignment;
    use files::why::{CpuInterval, CpuIntervals};

    fn trigger(number: u64) -> (LoopId, AccountedTick) {
        #[allow(clippy::disallowed_methods, reason = "any instant will do")]
        let wake = Instant::now();
        let due = wake - Duration::from_millis(7);
        let tick = AccountedTick { number, due, wake, accounts: None };
        let loop_id = LoopId::Probe {
            subject: "spin".to_owned(),
            period_ns: 1_000_000,
            runtime: String::new(),
        };
        (loop_id, tick)
    }

    /// Builds the record of a tick before which a CPU switched `turns` times, every microsecond.
    fn build(turns: i64) -> (String, Flight) {
        build_with(Duration::from_secs(2), -turns..0)
    }

    /// Builds the record of a tick, of whose past `length` is complete, with a switch of a CPU at
    /// each of these microseconds.
    fn build_with(length: Duration, turns_us: Range<i64>) -> (String, Flight) {
        let (loop_id, tick) = trigger(5);
        let turn = |us: i64| CpuInterval { at_ns: 1_000 * us, thread: u32::MAX };
        let occupants = CpuIntervals::from([(3, turns_us.map(turn).collect())]);
        let past = Past {
            length,
            loops: vec![ExplainedLoop::default()],
            occupants: Some(occupants),
            ..Past::default()
        };
        let late_loop = LateLoop { threads: vec![1], is_own: true, ticks: vec![tick] };
        let loops = [(&loop_id, late_loop)];
        let json = super::build(tick, Duration::from_millis(2), &loops, past).json;
        let flight = Flight::from_json(&json).unwrap();
        (json, flight)
    }

    #[test]
    fn record_describes_its_tick() {
        let (_, flight) = build(3);
        assert_eq!((flight.late.subject.as_str(), flight.late.tick), ("spin@1ms", 5));
        assert_eq!((flight.late.lateness_ns, flight.limit_ns), (7_000_000, 2_000_000));
        assert_eq!(flight.length_ns, 2_000_000_000);
        let [round] = &flight.rounds[..] else { panic!("{flight:?}") };
        assert_eq!((round.ticks.len(), round.ticks[0].deadline_ns), (1, -7_000_000));
        assert_eq!(round.ticks[0].causes_ns, None, "its thread was not recorded");
        let assignments = round.assignments.as_ref().unwrap();
        assert_eq!(
            assignments.iter().map(|a| a.at_ns).collect::<Vec<_>>(),
            [-3_000, -2_000, -1_000]
        );
    }

    #[test]
    fn large_records_lose_older_time() {
        let (json, flight) = build(500_000);
        assert!(json.len() <= MAX_FLIGHT_BYTES, "{}", json.len());
        let assignments = flight.rounds[0].assignments.as_ref().unwrap();
        assert!(assignments.len() > 10_000, "{}", assignments.len());
        assert_eq!(assignments.last().unwrap().at_ns, -1_000, "the newest are kept");
        assert!(assignments[0].at_ns >= -i64::try_from(flight.length_ns).unwrap());
        assert!(flight.length_ns >= 10_000_000, "{}", flight.length_ns);
    }

    #[test]
    fn emptier_time_is_kept() {
        let (json, flight) = build_with(Duration::from_secs(2), -10_000..500_000);
        assert!(json.len() <= MAX_FLIGHT_BYTES, "{}", json.len());
        let assignments = flight.rounds[0].assignments.as_ref().unwrap();
        let is_before = |assignment: &&CpuAssignment| assignment.at_ns < 0;
        assert_eq!(assignments.iter().filter(is_before).count(), 10_000);
        assert!(assignments.len() > 20_000, "{}", assignments.len());
        assert_eq!(flight.length_ns, 2_000_000_000);
    }

    #[test]
    fn records_without_past_are_bounded() {
        let (json, flight) = build_with(Duration::ZERO, 0..500_000);
        assert!(json.len() <= MAX_FLIGHT_BYTES, "{}", json.len());
        assert_eq!((flight.length_ns, flight.rounds[0].ticks.len()), (0, 1));
        let (_, flight) = build_with(Duration::ZERO, -1_000..1_000);
        let assignments = flight.rounds[0].assignments.as_ref().unwrap();
        assert_eq!(assignments.len(), 1_000, "what followed fits");
    }

    /// Builds the record of a tick of the first loop, a second before one of the second loop, with
    /// this number of later switches. Returns the loops that it contains.
    fn loops_within(loop_ids: [&LoopId; 2], turns: i64) -> Vec<LoopId> {
        let (_, tick) = trigger(5);
        let later = AccountedTick { wake: tick.wake + Duration::from_secs(1), ..tick };
        let late_loop = |tick| LateLoop { threads: vec![1], is_own: true, ticks: vec![tick] };
        let turn = |us: i64| CpuInterval { at_ns: 1_000 * us, thread: u32::MAX };
        let past = Past {
            length: Duration::from_millis(10),
            loops: vec![ExplainedLoop::default(), ExplainedLoop::default()],
            occupants: Some(CpuIntervals::from([(3, (0..turns).map(turn).collect())])),
            ..Past::default()
        };
        let loops = [(loop_ids[0], late_loop(tick)), (loop_ids[1], late_loop(later))];
        super::build(tick, Duration::from_millis(2), &loops, past).loops
    }

    #[test]
    fn loops_without_ticks_are_omitted() {
        let (loop_id, _) = trigger(5);
        let other_id =
            LoopId::Probe { subject: "o".to_owned(), period_ns: 1, runtime: String::new() };
        let loop_ids = [&loop_id, &other_id];
        assert_eq!(loops_within(loop_ids, 10).iter().collect::<Vec<_>>(), loop_ids);
        // The time of the other loop is left out.
        assert_eq!(loops_within(loop_ids, 500_000).iter().collect::<Vec<_>>(), [&loop_id]);
    }
}
