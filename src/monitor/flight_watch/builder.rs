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

/// Returns the file of the record before `late_tick`, a tick of the first loop. `past` contains the
/// explanations of the loops in the same order.
pub fn build(
    late_tick: AccountedTick,
    limit: Duration,
    loops: &[(&LoopId, LateLoop)],
    mut past: Past,
) -> String {
    let arrival = late_tick.wake;
    let mut rounds = Vec::new();
    for ((loop_id, late_loop), explained) in loops.iter().zip(&past.loops) {
        rounds.push(flight_round(loop_id, late_loop, explained, arrival));
    }
    let mut length_ns = to_ns(past.length);
    if let (Some(first), Some(occupants)) = (rounds.first_mut(), &past.occupants) {
        first.assignments = cpu_assignments(occupants);
        length_ns = length_ns.min(max_length_ns(first));
        first.retain(&span_ns(length_ns));
        first.name_threads(|thread| past.names.find(thread));
    }
    let flight = Flight {
        schema: Flight::SCHEMA.to_owned(),
        at_utc: calendar_time(arrival),
        length_ns,
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
    to_bounded_json(flight)
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

/// Returns the length of a record that has as many entries of the CPUs as a file may contain.
fn max_length_ns(round: &FlightRound) -> u64 {
    let assignments = round.assignments.iter().flatten();
    let mut distances_ns: Vec<u64> = assignments.map(|a| a.at_ns.unsigned_abs()).collect();
    if distances_ns.len() <= MAX_ASSIGNMENTS {
        return u64::MAX;
    }
    *distances_ns.select_nth_unstable(MAX_ASSIGNMENTS).1
}

/// Returns the time span of a record. On a busy machine, a late tick may be noticed long after it
/// came: what follows it is recorded for at most as long as what was before it.
fn span_ns(length_ns: u64) -> RangeInclusive<i64> {
    let length_ns = to_signed(length_ns);
    -length_ns..=length_ns
}

/// Returns the JSON of a record. If it is too large, the outer half of its time is left out,
/// repeatedly.
fn to_bounded_json(mut flight: Flight) -> String {
    loop {
        let span_ns = span_ns(flight.length_ns);
        flight.rounds.iter_mut().for_each(|round| round.retain(&span_ns));
        flight.rounds.retain(|round| !round.ticks.is_empty());
        let json = flight.to_json();
        if json.len() <= MAX_FLIGHT_BYTES || flight.length_ns == 0 {
            return json;
        }
        flight.length_ns /= 2;
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

    /// Builds the record of a tick, of which `length` is complete, with a switch of a CPU at each of
    /// these microseconds.
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
        let json = super::build(tick, Duration::from_millis(2), &[(&loop_id, late_loop)], past);
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

    /// A late tick that was noticed late: its record is what was before it, not what followed.
    #[test]
    fn later_time_has_no_priority() {
        let (json, flight) = build_with(Duration::from_secs(2), -50_000..500_000);
        assert!(json.len() <= MAX_FLIGHT_BYTES, "{}", json.len());
        assert!(flight.length_ns >= 10_000_000, "{}", flight.length_ns);
        let assignments = flight.rounds[0].assignments.as_ref().unwrap();
        let is_before = |assignment: &&CpuAssignment| assignment.at_ns < 0;
        assert_eq!(assignments.iter().filter(is_before).count(), assignments.len() / 2);
        assert_eq!(flight.rounds[0].ticks.len(), 1);
    }

    #[test]
    fn records_without_past_are_bounded() {
        let (json, flight) = build_with(Duration::ZERO, 0..500_000);
        assert!(json.len() <= MAX_FLIGHT_BYTES, "{}", json.len());
        assert_eq!((flight.length_ns, flight.rounds[0].ticks.len()), (0, 1));
    }
}
