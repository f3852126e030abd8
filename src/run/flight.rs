//! The flight record: the last second before a late tick, tick by tick.

use std::collections::VecDeque;
use std::time::{Duration, Instant, SystemTime};

use cli::units::{ns_after, to_ns, to_signed_ns};
use engine::machine::os;
use engine::measure::round::{Instance, MeasuredRound};
use engine::measure::why::RoundDiagnosis;
use engine::scenario::Scenario;
use files::file::File as _;

use crate::flight_record::conversion::{cpu_assignments, flight_switches, threads_behind};
use crate::flight_record::{Flight, FlightRound, FlightTick, FlightTrigger};

/// The recorded time before the late tick.
const RECORDED_TIME: Duration = Duration::from_secs(1);

/// One tick of a kept round.
#[derive(Clone, Copy)]
struct KeptTick {
    index: u64,
    due: Instant,
    lateness_ns: i64,
}

impl KeptTick {
    fn arrival(&self) -> Instant {
        let lateness = Duration::from_nanos(self.lateness_ns.unsigned_abs());
        if self.lateness_ns < 0 { self.due - lateness } else { self.due + lateness }
    }
}

/// One instance of a round, kept as long as a record may need it.
struct KeptInstance {
    /// The instance, with times relative to `origin`.
    round: FlightRound,
    ticks: Vec<KeptTick>,
    /// The start of the round.
    origin: Instant,
    /// The arrival of the last tick.
    end: Instant,
}

/// A tick of a kept instance.
#[derive(Clone, Copy)]
struct TickRef {
    /// Index of the instance among the kept ones.
    instance: usize,
    tick: KeptTick,
}

/// Keeps the last second of a run, and the record of its late tick.
pub struct FlightRecorder {
    limit_ns: i64,
    /// Whether the first late tick ends the run.
    ends_run: bool,
    kept: VecDeque<KeptInstance>,
    late_ticks: u64,
    flight: Option<Flight>,
}

impl FlightRecorder {
    /// Creates a recorder for ticks later than a limit. Records the first one if it ends the run,
    /// otherwise the latest.
    pub fn new(limit: Duration, ends_run: bool) -> Self {
        let limit_ns = to_signed_ns(limit);
        Self { limit_ns, ends_run, kept: VecDeque::new(), late_ticks: 0, flight: None }
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
        let first = self.kept.len();
        for (index, instance) in (0..).zip(&round.instances) {
            self.kept.extend(keep_instance(scenario, round, index, instance, self.limit_ns));
        }
        let end = self.kept.iter().skip(first).map(|kept| kept.end).max()?;
        let trigger = self.select_trigger(first, was_stopped);
        let recorded_ns = self.flight.as_ref().map(|flight| flight.late.lateness_ns);
        let is_new = |trigger: &TickRef| {
            recorded_ns.is_none_or(|ns| !self.ends_run && trigger.tick.lateness_ns > ns)
        };
        if let Some(trigger) = trigger.filter(is_new) {
            self.flight = Some(self.build_flight(trigger));
        }
        let trigger = trigger.map(|trigger| self.describe(trigger));
        let is_too_old =
            |kept: &KeptInstance| end.saturating_duration_since(kept.end) > RECORDED_TIME;
        while self.kept.front().is_some_and(is_too_old) {
            self.kept.pop_front();
        }
        trigger
    }

    /// Counts the late ticks of the instances from `first` on, and selects the one to record.
    fn select_trigger(&mut self, first: usize, was_stopped: bool) -> Option<TickRef> {
        let mut ticks: Vec<TickRef> = Vec::new();
        for instance in first..self.kept.len() {
            let kept = self.kept[instance].ticks.iter();
            ticks.extend(kept.map(|&tick| TickRef { instance, tick }));
        }
        let latest = ticks.iter().copied().max_by_key(|t| t.tick.lateness_ns);
        ticks.retain(|t| t.tick.lateness_ns > self.limit_ns);
        self.late_ticks += ticks.len() as u64;
        let first_late = ticks.iter().copied().min_by_key(|t| t.tick.arrival());
        match self.ends_run {
            // The tick was over the limit by the clock of the loop, but can be a few nanoseconds
            // below it by the clock of the round.
            true if was_stopped => first_late.or(latest),
            true => first_late,
            false => latest.filter(|t| t.tick.lateness_ns > self.limit_ns),
        }
    }

    fn describe(&self, TickRef { instance, tick }: TickRef) -> FlightTrigger {
        let FlightRound { subject, round, instance, .. } = &self.kept[instance].round;
        FlightTrigger {
            subject: subject.clone(),
            round: *round,
            instance: *instance,
            tick: tick.index,
            lateness_ns: tick.lateness_ns,
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

    #[allow(clippy::disallowed_methods, reason = "the calendar time of the tick")]
    fn build_flight(&self, trigger: TickRef) -> Flight {
        let arrival = trigger.tick.arrival();
        let at = SystemTime::now() - Instant::now().saturating_duration_since(arrival);
        Flight {
            schema: Flight::SCHEMA.to_owned(),
            at_utc: humantime::format_rfc3339_micros(at).to_string(),
            length_ns: to_ns(RECORDED_TIME),
            limit_ns: self.limit_ns.unsigned_abs(),
            ended: self.ends_run,
            late: self.describe(trigger),
            rounds: self.kept.iter().filter_map(|kept| kept.relative_to(arrival)).collect(),
        }
    }
}

/// Keeps an instance of a round, unless none of its ticks came.
fn keep_instance(
    scenario: &Scenario,
    round: &MeasuredRound,
    index: u64,
    instance: &Instance,
    limit_ns: i64,
) -> Option<KeptInstance> {
    let samples = &instance.samples;
    let due = |tick: u64| {
        instance.start + Duration::from_nanos(samples.grid.deadline_ns(tick).unsigned_abs())
    };
    let ticks = samples.ticks.iter().zip(&samples.lateness_ns);
    let ticks: Vec<KeptTick> = ticks
        .map(|(&index, &lateness_ns)| KeptTick { index, due: due(index), lateness_ns })
        .collect();
    let end = ticks.iter().map(KeptTick::arrival).max()?;
    let origin = round.instances.first()?.start;
    let diagnosis = round.diagnosis.as_ref();
    // Switches belong to the round as a whole and are listed with its first instance.
    let round_diagnosis = diagnosis.filter(|_| index == 0);
    let round = FlightRound {
        subject: scenario.id.clone(),
        round: round.index,
        instance: index,
        period_ns: scenario.period_ns(),
        profiled: diagnosis.is_some(),
        ticks: flight_ticks(&ticks, diagnosis, index, origin, limit_ns),
        switches: round_diagnosis.and_then(|d| flight_switches(&d.threads)),
        assignments: round_diagnosis.and_then(|d| cpu_assignments(&d.occupants)),
    };
    Some(KeptInstance { round, ticks, origin, end })
}

/// Converts the ticks of an instance. Adds the causes of late ticks if the round was profiled.
fn flight_ticks(
    ticks: &[KeptTick],
    diagnosis: Option<&RoundDiagnosis>,
    instance: u64,
    origin: Instant,
    limit_ns: i64,
) -> Vec<FlightTick> {
    let known = diagnosis.map(|d| d.round.known).unwrap_or_default();
    let profiled = diagnosis.into_iter().flat_map(|d| &d.round.ticks);
    // Both sequences are in the order of the ticks.
    let mut profiled = profiled.filter(|tick| tick.instance == instance).peekable();
    let mut converted = Vec::with_capacity(ticks.len());
    for tick in ticks {
        while profiled.next_if(|p| p.tick < tick.index).is_some() {}
        let is_late = tick.lateness_ns > limit_ns;
        let cause = profiled.peek().filter(|p| p.tick == tick.index && is_late);
        converted.push(FlightTick {
            tick: tick.index,
            deadline_ns: ns_after(tick.due, origin),
            lateness_ns: tick.lateness_ns,
            causes_ns: cause.map(|p| p.parts.shares(known)),
            behind: cause.and_then(|p| threads_behind(p)),
        });
    }
    converted
}

impl KeptInstance {
    /// Converts the times to be relative to the late tick's arrival, and removes what is older than
    /// a record. Returns `None` if no tick remains.
    fn relative_to(&self, arrival: Instant) -> Option<FlightRound> {
        let mut round = self.round.clone();
        round.shift(ns_after(self.origin, arrival));
        round.remove_before(-to_signed_ns(RECORDED_TIME));
        for assignment in round.assignments.iter_mut().flatten() {
            assignment.comm = thread_name(assignment.thread);
        }
        (!round.ticks.is_empty()).then_some(round)
    }
}

fn thread_name(thread: u32) -> Option<String> {
    if thread == 0 { None } else { os::thread_name(thread) }
}
