//! The flight record: the last second before a late tick, tick by tick.

use std::collections::VecDeque;
use std::time::{Duration, Instant, SystemTime};

use engine::machine::os;
use engine::measure::round::{Instance, MeasuredRound};
use engine::scenario::Scenario;
use files::report::why::{Behind, Shares};
use files::why::SwitchKind;

use crate::file_io::model;

/// Value of [`Flight::schema`].
pub const SCHEMA: &str = "osjitter.flight/1";
/// How much of the time before the late tick is kept.
const LENGTH: Duration = Duration::from_secs(1);

model! {
    /// What happened in the second before a late tick. Times are counted from the moment at which
    /// that tick came: those before it are negative.
    pub struct Flight {
        /// Always `osjitter.flight/1`.
        pub schema: String,
        /// When the late tick came, RFC 3339, UTC.
        pub at_utc: String,
        /// How much of the time before it is here.
        pub length_ns: u64,
        /// A tick is late from here on.
        pub limit_ns: u64,
        /// Whether the run was ended for it.
        pub ended: bool,
        /// The late tick.
        pub late: Late,
        /// What ran in that time, the oldest first.
        pub rounds: Vec<FlightRound>,
    }

    /// The tick that this is about.
    pub struct Late {
        /// Id of its scenario.
        pub subject: String,
        /// Index of its round.
        pub round: u64,
        /// Which instance.
        pub instance: u64,
        /// Index on the grid.
        pub tick: u64,
        /// How late it came.
        pub lateness_ns: i64,
    }

    /// One instance in one round, or what of it was in that time.
    pub struct FlightRound {
        /// Id of the scenario.
        pub subject: String,
        /// Index of the round.
        pub round: u64,
        /// Which instance.
        pub instance: u64,
        /// Nominal period.
        pub period_ns: u64,
        /// Whether it was asked why its ticks were late: such a round has causes and switches, as
        /// far as they could be had.
        pub asked: bool,
        /// Recorded ticks that came, in order.
        pub ticks: Vec<FlightTick>,
        /// Switches of the threads that ran the ticks, in order, with the first instance of a round
        /// that was asked; null where they were not recorded.
        pub switches: Option<Vec<FlightSwitch>>,
        /// Who was given a CPU, in order; null where that was not recorded.
        pub given: Option<Vec<Given>>,
    }

    /// One tick.
    pub struct FlightTick {
        /// Index on the grid.
        pub tick: u64,
        /// When it was due.
        pub deadline_ns: i64,
        /// By how much later it came.
        pub lateness_ns: i64,
        /// What the lateness consists of; null where it was within the limit, or not asked for.
        pub causes_ns: Option<Shares>,
        /// Who ran while it waited; null where that was not recorded.
        pub behind: Option<Vec<Behind>>,
    }

    /// A thread that ran ticks was given a CPU, or left it.
    pub struct FlightSwitch {
        /// When.
        pub at_ns: i64,
        /// Which of the threads, in the order they began.
        pub thread: u64,
        /// On which CPU.
        pub cpu: u32,
        /// `on`: it runs from here on; `preempted`: it could have gone on; `waits`: it waits for
        /// something.
        pub kind: String,
    }

    /// A CPU was given to a thread.
    pub struct Given {
        /// When.
        pub at_ns: i64,
        /// Which CPU.
        pub cpu: u32,
        /// The thread; 0 where there was none.
        pub thread: u32,
        /// Its name; null where it has ended since.
        pub comm: Option<String>,
    }
}

/// One tick of a round that is kept.
#[derive(Clone, Copy)]
struct KeptTick {
    index: u64,
    due: Instant,
    lateness_ns: i64,
}

impl KeptTick {
    fn came(&self) -> Instant {
        let lateness = Duration::from_nanos(self.lateness_ns.unsigned_abs());
        if self.lateness_ns < 0 { self.due - lateness } else { self.due + lateness }
    }
}

/// One instance of a round, as long as it may be needed.
struct Kept {
    of: FlightRound,
    ticks: Vec<KeptTick>,
    /// What the times of switches are counted from.
    origin: Instant,
    ended: Instant,
}

/// Keeps the last second while a run goes on, and the second before its latest late tick.
pub struct Recorder {
    limit_ns: i64,
    ends: bool,
    kept: VecDeque<Kept>,
    late_ticks: u64,
    flight: Option<Flight>,
}

impl Recorder {
    /// For ticks later than a limit; the first one ends the run, or the latest one is wanted.
    pub fn new(limit: Duration, ends: bool) -> Self {
        let limit_ns = i64::try_from(limit.as_nanos()).unwrap_or(i64::MAX);
        Self { limit_ns, ends, kept: VecDeque::new(), late_ticks: 0, flight: None }
    }

    /// Takes a round; `ended` where a late tick was noticed while it ran. Returns the late tick of
    /// it that counts.
    pub fn add(&mut self, scenario: &Scenario, round: &MeasuredRound, ended: bool) -> Option<Late> {
        let first = self.kept.len();
        let instances = (0..).zip(&round.instances);
        self.kept.extend(
            instances.filter_map(|(i, instance)| kept(scenario, round, i, instance, self.limit_ns)),
        );
        let came_last = self.kept.iter().skip(first).map(|kept| kept.ended).max()?;
        let ticks = || {
            (first..self.kept.len())
                .flat_map(|place| self.kept[place].ticks.iter().map(move |t| (place, *t)))
        };
        let late = || ticks().filter(|(_, tick)| tick.lateness_ns > self.limit_ns);
        self.late_ticks += late().count() as u64;
        let latest =
            |a: &(usize, KeptTick), b: &(usize, KeptTick)| a.1.lateness_ns.cmp(&b.1.lateness_ns);
        let first_late = || late().min_by_key(|(_, tick)| tick.came());
        let counts = match self.ends {
            // By the clock of the loop it was over the limit, by that of the round a few
            // nanoseconds below.
            true if ended => first_late().or_else(|| ticks().max_by(latest)),
            true => first_late(),
            false => late().max_by(latest),
        };
        let known = self.flight.as_ref().map(|flight| flight.late.lateness_ns);
        let is_new = |tick: &KeptTick| known.is_none_or(|ns| !self.ends && tick.lateness_ns > ns);
        let flight =
            counts.filter(|(_, tick)| is_new(tick)).map(|(place, tick)| self.record(place, tick));
        let counts = counts.map(|(place, tick)| self.late(place, &tick));
        self.flight = flight.or_else(|| self.flight.take());
        // What is older than a second is in no record to come.
        while self
            .kept
            .front()
            .is_some_and(|kept| came_last.saturating_duration_since(kept.ended) > LENGTH)
        {
            self.kept.pop_front();
        }
        counts
    }

    fn late(&self, place: usize, tick: &KeptTick) -> Late {
        let FlightRound { subject, round, instance, .. } = &self.kept[place].of;
        let (subject, round, instance) = (subject.clone(), *round, *instance);
        Late { subject, round, instance, tick: tick.index, lateness_ns: tick.lateness_ns }
    }

    /// Late ticks so far.
    pub fn late_ticks(&self) -> u64 {
        self.late_ticks
    }

    /// The record, where there was a late tick.
    pub fn finish(self) -> Option<Flight> {
        self.flight
    }

    #[allow(clippy::disallowed_methods, reason = "the tick by the calendar")]
    fn record(&self, place: usize, late: KeptTick) -> Flight {
        let came = late.came();
        let at = SystemTime::now() - Instant::now().saturating_duration_since(came);
        Flight {
            schema: SCHEMA.to_owned(),
            at_utc: humantime::format_rfc3339_micros(at).to_string(),
            length_ns: LENGTH.as_nanos() as u64,
            limit_ns: self.limit_ns.unsigned_abs(),
            ended: self.ends,
            late: self.late(place, &late),
            rounds: self.kept.iter().filter_map(|kept| kept.before(came)).collect(),
        }
    }
}

/// Nanoseconds from one instant to another, negative backwards.
fn between(from: Instant, to: Instant) -> i64 {
    let ns = |duration: Duration| i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX);
    to.checked_duration_since(from).map_or_else(|| -ns(from.saturating_duration_since(to)), ns)
}

fn kept(
    scenario: &Scenario,
    round: &MeasuredRound,
    i: u64,
    instance: &Instance,
    limit_ns: i64,
) -> Option<Kept> {
    let samples = &instance.samples;
    let ticks = samples.ticks.iter().zip(&samples.lateness_ns);
    let due = |tick: u64| {
        instance.start + Duration::from_nanos(samples.grid.deadline_ns(tick).unsigned_abs())
    };
    let ticks: Vec<KeptTick> = ticks
        .map(|(&index, &lateness_ns)| KeptTick { index, due: due(index), lateness_ns })
        .collect();
    let ended = ticks.iter().map(KeptTick::came).max()?;
    let origin = round.instances.first()?.start;
    let why = round.diagnosis.as_ref();
    let asked = why.map(|why| &why.round);
    // In the order of the ticks: those that came, and no others, are asked.
    let mut explained = asked
        .into_iter()
        .flat_map(|asked| asked.ticks.iter().filter(|tick| tick.instance == i))
        .peekable();
    let known = asked.map(|asked| asked.known).unwrap_or_default();
    let tick = |tick: &KeptTick| {
        while explained.next_if(|asked| asked.tick < tick.index).is_some() {}
        let cause = explained
            .peek()
            .filter(|asked| asked.tick == tick.index && tick.lateness_ns > limit_ns);
        let behind = |(comm, ns): &(String, u64)| Behind { comm: comm.clone(), ns: *ns };
        FlightTick {
            tick: tick.index,
            deadline_ns: 0,
            lateness_ns: tick.lateness_ns,
            causes_ns: cause.map(|asked| asked.parts.shares(known)),
            behind: cause
                .map(|asked| asked.behind.iter().map(behind).collect())
                .filter(|all: &Vec<_>| !all.is_empty()),
        }
    };
    let of = FlightRound {
        subject: scenario.id.clone(),
        round: round.index,
        instance: i,
        period_ns: scenario.period_ns(),
        asked: why.is_some(),
        ticks: ticks.iter().map(tick).collect(),
        switches: why.filter(|_| i == 0).and_then(|why| {
            let of_thread = |(thread, switches): (u64, &Vec<files::why::Switch>)| {
                let switch = |s: &files::why::Switch| FlightSwitch {
                    at_ns: s.at_ns,
                    thread,
                    cpu: s.cpu,
                    kind: kind(s.kind).to_owned(),
                };
                switches.iter().map(switch).collect::<Vec<_>>()
            };
            let recorded =
                (0..).zip(&why.threads).filter_map(|(n, t)| Some((n, t.switches.as_ref()?)));
            let mut all: Vec<FlightSwitch> = recorded.flat_map(of_thread).collect();
            all.sort_by_key(|switch| switch.at_ns);
            (!all.is_empty()).then_some(all)
        }),
        given: why.filter(|why| i == 0 && !why.occupants.is_empty()).map(|why| {
            let of_cpu = |(&cpu, list): (&u32, &Vec<files::why::Occupant>)| {
                let given = |o: &files::why::Occupant| Given {
                    at_ns: o.at_ns,
                    cpu,
                    thread: o.thread,
                    comm: None,
                };
                list.iter().map(given).collect::<Vec<_>>()
            };
            let mut all: Vec<Given> = why.occupants.iter().flat_map(of_cpu).collect();
            all.sort_by_key(|given| (given.at_ns, given.cpu));
            all
        }),
    };
    Some(Kept { of, ticks, origin, ended })
}

fn kind(kind: SwitchKind) -> &'static str {
    match kind {
        SwitchKind::On => "on",
        SwitchKind::Preempted => "preempted",
        SwitchKind::Waits => "waits",
    }
}

impl Kept {
    /// What of it was in the time before a moment, or after it; `None` where nothing was.
    fn before(&self, came: Instant) -> Option<FlightRound> {
        let least = -(LENGTH.as_nanos() as i64);
        let ticks = self.of.ticks.iter().zip(&self.ticks);
        let ticks = ticks.map(|(tick, kept)| FlightTick {
            deadline_ns: between(came, kept.due),
            ..tick.clone()
        });
        let ticks: Vec<FlightTick> =
            ticks.filter(|tick| tick.deadline_ns + tick.lateness_ns >= least).collect();
        if ticks.is_empty() {
            return None;
        }
        let shift_ns = between(came, self.origin);
        let switches = self.of.switches.as_ref().map(|all| {
            let shifted =
                all.iter().map(|s| FlightSwitch { at_ns: s.at_ns + shift_ns, ..s.clone() });
            shifted.filter(|s| s.at_ns >= least).collect()
        });
        let given = self.of.given.as_ref().map(|all| {
            let comm = |thread| if thread == 0 { None } else { os::thread_name(thread) };
            let shifted = all.iter().map(|g| Given {
                at_ns: g.at_ns + shift_ns,
                comm: comm(g.thread),
                ..g.clone()
            });
            shifted.filter(|g| g.at_ns >= least).collect()
        });
        Some(FlightRound { ticks, switches, given, ..self.of.clone() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_schema_is_of_this_document() {
        let schema = serde_json::to_value(schemars::schema_for!(Flight)).unwrap();
        crate::file_io::check_schema("osjitter.flight.1.json", &schema);
    }
}
