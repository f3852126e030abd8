//! Builds the file of a flight record.

use std::time::{Duration, Instant, SystemTime};

use cli::units::{ns_after, to_ns};
use engine::measure::late_tick_log::AccountedTick;
use engine::measure::why::hindsight::{ExplainedLoop, LateLoop, Past};
use files::file::File as _;

use crate::flight_record::conversion::{cpu_assignments, flight_switches, threads_behind};
use crate::flight_record::{CpuAssignment, Flight, FlightRound, FlightTick, FlightTrigger};
use crate::monitor::accumulator::LoopId;

/// Maximum size of a file.
const MAX_FLIGHT_BYTES: usize = 5_000_000;
/// Number of entries of CPUs above which the file is certainly too large.
const MAX_ASSIGNMENTS: usize = 100_000;

pub struct FlightBuilder {
    flight: Flight,
    arrival: Instant,
    past: Past,
    explained: std::vec::IntoIter<ExplainedLoop>,
}

impl FlightBuilder {
    #[allow(clippy::disallowed_methods, reason = "the calendar time of the tick")]
    pub fn new(subject: String, trigger: AccountedTick, mut past: Past) -> Self {
        let arrival = trigger.wake;
        let at = SystemTime::now() - Instant::now().saturating_duration_since(arrival);
        let flight = Flight {
            schema: Flight::SCHEMA.to_owned(),
            at_utc: humantime::format_rfc3339_micros(at).to_string(),
            length_ns: to_ns(past.length),
            limit_ns: 0,
            ended: false,
            late: FlightTrigger {
                subject,
                round: 0,
                instance: 0,
                tick: trigger.number,
                lateness_ns: ns_after(arrival, trigger.due),
            },
            rounds: Vec::new(),
        };
        let explained = std::mem::take(&mut past.loops).into_iter();
        Self { flight, arrival, past, explained }
    }

    /// Adds the loops in the order in which they were explained. The first one is that of the
    /// trigger, which also has the CPUs.
    pub fn add_loop(&mut self, loop_id: &LoopId, late_loop: &LateLoop) {
        let explained = self.explained.next().unwrap_or_default();
        let ticks = late_loop.ticks.iter().map(|tick| self.flight_tick(tick, &explained));
        let mut ticks: Vec<FlightTick> = ticks.collect();
        ticks.sort_by_key(|tick| tick.deadline_ns);
        let is_first = self.flight.rounds.is_empty();
        let assignments = if is_first { self.assignments() } else { None };
        self.flight.rounds.push(FlightRound {
            subject: loop_id.name(),
            round: 0,
            instance: 0,
            period_ns: to_ns(loop_id.period()),
            profiled: true,
            ticks,
            switches: flight_switches(&explained.threads),
            assignments,
        });
    }

    /// Converts a late tick. If its thread was recorded, it has its causes.
    fn flight_tick(&self, tick: &AccountedTick, explained: &ExplainedLoop) -> FlightTick {
        let cause = explained.ticks.iter().find(|cause| cause.tick == tick.number);
        FlightTick {
            tick: tick.number,
            deadline_ns: ns_after(tick.due, self.arrival),
            lateness_ns: ns_after(tick.wake, tick.due),
            causes_ns: cause.map(|cause| cause.parts.shares(explained.known)),
            behind: cause.and_then(threads_behind),
        }
    }

    /// Returns the last entries of the CPUs, with the names of the threads that still exist.
    fn assignments(&mut self) -> Option<Vec<CpuAssignment>> {
        let mut assignments = cpu_assignments(&self.past.occupants.take()?)?;
        let excess = assignments.len().saturating_sub(MAX_ASSIGNMENTS);
        assignments.drain(..excess);
        if let Some(first) = assignments.first().filter(|_| excess > 0) {
            self.flight.length_ns = first.at_ns.min(0).unsigned_abs();
        }
        for assignment in &mut assignments {
            if assignment.thread != 0 {
                assignment.comm = self.past.names.find(assignment.thread);
            }
        }
        Some(assignments)
    }

    /// Returns the file. If it is too large, the older half of its time is left out, repeatedly.
    pub fn finish(self, limit: Duration) -> String {
        let mut flight = Flight { limit_ns: to_ns(limit), ..self.flight };
        loop {
            let oldest_ns = -i64::try_from(flight.length_ns).unwrap_or(i64::MAX);
            flight.rounds.iter_mut().for_each(|round| round.remove_before(oldest_ns));
            flight.rounds.retain(|round| !round.ticks.is_empty());
            let json = flight.to_json();
            if json.len() <= MAX_FLIGHT_BYTES || flight.length_ns == 0 {
                return json;
            }
            flight.length_ns /= 2;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use files::why::{CpuOccupants, Occupant};

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
        let (loop_id, tick) = trigger(5);
        let turn = |n: i64| Occupant { at_ns: -1_000 * (turns - n), thread: u32::MAX };
        let occupants = CpuOccupants::from([(3, (0..turns).map(turn).collect())]);
        let past = Past {
            length: Duration::from_secs(2),
            loops: vec![ExplainedLoop::default()],
            occupants: Some(occupants),
            ..Past::default()
        };
        let late_loop = LateLoop { threads: vec![1], is_own: true, ticks: vec![tick] };
        let mut builder = FlightBuilder::new(loop_id.name(), tick, past);
        builder.add_loop(&loop_id, &late_loop);
        let json = builder.finish(Duration::from_millis(2));
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
}
