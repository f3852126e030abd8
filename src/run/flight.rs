//! The flight record: the last second before a late tick, tick by tick.

use std::collections::{BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use cli::units::{ns_after, to_ns, to_signed_ns};
use engine::machine::os;
use engine::measure::round::MeasuredRound;
use engine::measure::why::RoundDiagnosis;
use engine::scenario::Scenario;
use files::file::File as _;
use jitterstat::sample::RoundSamples;

use crate::flight_record::conversion::{
    calendar_time, cpu_assignments, flight_samples, flight_switches,
};
use crate::flight_record::{Flight, FlightRound, FlightTick, FlightTrigger};

/// The recorded time before the late tick.
const RECORDED_TIME: Duration = Duration::from_secs(1);

/// Keeps the last second of a run, and the record of its late tick.
pub struct FlightRecorder {
    limit_ns: i64,
    /// Whether the first late tick ends the run.
    ends_run: bool,
    /// The start of the first round, from which the times of the kept rounds count.
    origin: Option<Instant>,
    kept: VecDeque<FlightRound>,
    late_ticks: u64,
    flight: Option<Flight>,
}

impl FlightRecorder {
    /// Creates a recorder for ticks later than a limit. Records the first one if it ends the run,
    /// otherwise the worst.
    pub fn new(limit: Duration, ends_run: bool) -> Self {
        let limit_ns = to_signed_ns(limit);
        let kept = VecDeque::new();
        Self { limit_ns, ends_run, origin: None, kept, late_ticks: 0, flight: None }
    }

    /// Adds a round. `was_stopped` tells whether a late tick was noticed while it ran.
    ///
    /// Returns the late tick of the round that would be recorded, if there is one.
    pub fn add(
        &mut self,
        scenario: &Scenario,
        round: &MeasuredRound,
        was_stopped: bool,
    ) -> Option<FlightTrigger> {
        let origin = *self.origin.get_or_insert(round.instances.first()?.start);
        let added = flight_rounds(scenario, round, origin, self.limit_ns);
        let end_ns = added.iter().filter_map(last_arrival_ns).max()?;
        let trigger = self.select_trigger(&added, was_stopped);
        let trigger = trigger.map(|(round, tick)| (describe(round, tick), tick.arrival_ns()));
        self.kept.extend(added);
        let recorded_ns = self.flight.as_ref().map(|flight| flight.late.lateness_ns);
        if let Some((late, arrival_ns)) = &trigger
            && recorded_ns.is_none_or(|ns| !self.ends_run && late.lateness_ns > ns)
        {
            self.flight = Some(self.build_flight(late.clone(), origin, *arrival_ns));
        }
        let oldest_ns = end_ns.saturating_sub(to_signed_ns(RECORDED_TIME));
        while self.kept.front().is_some_and(|round| last_arrival_ns(round) < Some(oldest_ns)) {
            self.kept.pop_front();
        }
        trigger.map(|(late, _)| late)
    }

    /// Counts the late ticks of rounds, and selects the one to record.
    fn select_trigger<'a>(
        &mut self,
        rounds: &'a [FlightRound],
        was_stopped: bool,
    ) -> Option<(&'a FlightRound, &'a FlightTick)> {
        let mut ticks: Vec<(&FlightRound, &FlightTick)> = Vec::new();
        for round in rounds {
            ticks.extend(round.ticks.iter().map(|tick| (round, tick)));
        }
        let worst = ticks.iter().copied().max_by_key(|(_, tick)| tick.lateness_ns);
        ticks.retain(|(_, tick)| tick.lateness_ns > self.limit_ns);
        self.late_ticks += ticks.len() as u64;
        let first_late = ticks.into_iter().min_by_key(|(_, tick)| tick.arrival_ns());
        match self.ends_run {
            // The tick was over the limit by the clock of the loop, but can be a few nanoseconds
            // below it by the clock of the round.
            true if was_stopped => first_late.or(worst),
            true => first_late,
            false => worst.filter(|_| first_late.is_some()),
        }
    }

    /// The number of late ticks so far.
    pub fn late_ticks(&self) -> u64 {
        self.late_ticks
    }

    /// Returns the record, if there was a late tick.
    pub fn finish(self) -> Option<Flight> {
        self.flight
    }

    fn build_flight(&self, late: FlightTrigger, origin: Instant, arrival_ns: i64) -> Flight {
        let arrival = origin + Duration::from_nanos(arrival_ns.unsigned_abs());
        let recorded = self.kept.iter().filter_map(|round| recorded_part(round, arrival_ns));
        Flight {
            schema: Flight::SCHEMA.to_owned(),
            at_utc: calendar_time(arrival),
            length_ns: to_ns(RECORDED_TIME),
            limit_ns: self.limit_ns.unsigned_abs(),
            ended: self.ends_run,
            late,
            rounds: recorded.collect(),
            hint: None,
        }
    }
}

fn last_arrival_ns(round: &FlightRound) -> Option<i64> {
    round.ticks.iter().map(FlightTick::arrival_ns).max()
}

fn describe(round: &FlightRound, tick: &FlightTick) -> FlightTrigger {
    FlightTrigger {
        subject: round.subject.clone(),
        round: round.round,
        instance: round.instance,
        tick: tick.tick,
        lateness_ns: tick.lateness_ns,
    }
}

/// Converts the instances of a round of which ticks came, with times that count from `origin`.
fn flight_rounds(
    scenario: &Scenario,
    round: &MeasuredRound,
    origin: Instant,
    limit_ns: i64,
) -> Vec<FlightRound> {
    let diagnosis = round.diagnosis.as_ref();
    let mut converted = Vec::new();
    for (index, instance) in (0..).zip(&round.instances) {
        // Switches belong to the round as a whole and are listed with its first instance.
        let round_diagnosis = diagnosis.filter(|_| index == 0);
        let mut flight_round = FlightRound {
            subject: scenario.id.clone(),
            round: round.index,
            instance: index,
            period_ns: scenario.period_ns(),
            profiled: diagnosis.is_some(),
            ticks: flight_ticks(&instance.samples, diagnosis, index, limit_ns),
            switches: round_diagnosis.and_then(|d| flight_switches(&d.threads)),
            assignments: round_diagnosis.and_then(|d| cpu_assignments(&d.occupants)),
            samples: None,
        };
        let late = flight_round.ticks.iter().filter(|tick| tick.causes_ns.is_some());
        let late: BTreeSet<u64> = late.map(|tick| tick.tick).collect();
        let profiled = diagnosis.into_iter().flat_map(|d| &d.round.ticks);
        flight_round.samples = flight_samples(
            profiled.filter(|tick| tick.instance == index && late.contains(&tick.tick)),
        );
        flight_round.shift(ns_after(instance.start, origin));
        if !flight_round.ticks.is_empty() {
            converted.push(flight_round);
        }
    }
    converted
}

/// Converts the ticks of an instance. Adds the causes of late ticks if the round was profiled.
fn flight_ticks(
    samples: &RoundSamples,
    diagnosis: Option<&RoundDiagnosis>,
    instance: u64,
    limit_ns: i64,
) -> Vec<FlightTick> {
    let known = diagnosis.map(|d| d.round.known).unwrap_or_default();
    let profiled = diagnosis.into_iter().flat_map(|d| &d.round.ticks);
    // Both sequences are in the order of the ticks.
    let mut profiled = profiled.filter(|tick| tick.instance == instance).peekable();
    let mut converted = Vec::with_capacity(samples.ticks.len());
    for (&index, &lateness_ns) in samples.ticks.iter().zip(&samples.lateness_ns) {
        while profiled.next_if(|p| p.tick < index).is_some() {}
        let is_late = lateness_ns > limit_ns;
        let cause = profiled.peek().copied().filter(|p| p.tick == index && is_late);
        let deadline_ns = samples.grid.deadline_ns(index);
        converted.push(FlightTick::new(index, deadline_ns, lateness_ns, cause, known));
    }
    converted
}

/// Returns the part of a round that a record contains, with times relative to the arrival of the
/// late tick; `None` if no tick remains.
fn recorded_part(round: &FlightRound, arrival_ns: i64) -> Option<FlightRound> {
    let mut round = round.clone();
    round.shift(arrival_ns.saturating_neg());
    round.retain(&(-to_signed_ns(RECORDED_TIME)..=i64::MAX));
    round.name_threads(os::thread_name);
    (!round.ticks.is_empty()).then_some(round)
}
