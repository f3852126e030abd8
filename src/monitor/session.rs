//! A running monitor: its probes, the meters it watches, their records, and the open interval.

mod budget_keeping;
mod interval_clocks;
mod probes;

use std::collections::BTreeMap;
use std::time::Duration;

use cli::exit::{self, Error, ExitStatus};
use cli::terminal::note;
use cli::time::format_duration;
use cli::units::to_ns;
use cli::words::pluralize;
use engine::machine::os;
use engine::scenario::Scenario;

use crate::meters::{MeterClocks, MeterPoll, MeterReader, ReadMeter};
use crate::monitor::accumulator::{Accumulator, MAX_LOOPS, PolledMeter};
use crate::monitor::breaches::{Breach, Breaches};
use crate::monitor::budget::{Budget, MAX_PROBE_PERIOD, StretchedPeriod};
use crate::monitor::exposition::{self, ExpositionFormat, FlightCounts, MonitorState};
use crate::monitor::flight_watch::{FlightWatch, LateRule};
use crate::monitor::limit_coverage::LimitCoverage;
use crate::monitor::loop_id::LoopId;
use crate::monitor::loop_record::{BINNING, IntervalStats};
use crate::monitor::session::interval_clocks::{IntervalDeltas, IntervalStart, clock_set_back};
use crate::monitor::session::probes::{MeterSource, Probe, Probes};
use crate::monitor::setup::Setup;
use files::bins::{Interval, Key, stamp};
use files::file::File as _;

/// Maximum number of meter files to read.
pub const MAX_FILES: usize = MAX_LOOPS;
/// Maximum time between two polls, unless the budget requires a longer one. A program that ends
/// removes its meters, so at most the ticks of this time are lost.
const POLL_INTERVAL: Duration = Duration::from_secs(10);
/// Maximum time between two polls that keeps the budget.
const MAX_POLL_INTERVAL: Duration = Duration::from_secs(80);
/// Maximum time without a turn of the main thread, which has one at least every 50 ms. A disk may
/// keep it waiting.
const MAX_PAUSE: Duration = Duration::from_secs(60);
/// Maximum number of messages about unreadable files and directories.
const MAX_REPORTED_FAULTS: usize = 1_000;
/// Maximum age of the data in a scrape, unless polls are expensive. More frequent scrapes do not
/// cause more polls.
const MAX_SCRAPE_AGE: Duration = Duration::from_secs(1);
/// Part of the budget that polls for scrapes may need.
const SCRAPED_PART: f64 = 0.25;

/// An interval that has ended.
#[derive(Debug)]
pub struct ClosedInterval {
    /// Start of the interval: RFC 3339, UTC, with microseconds.
    pub start: String,
    pub rows: Vec<Interval>,
    /// Contents of the breaches file, if limits were broken.
    pub breaches: Option<String>,
    /// Contents of the flight records.
    pub flights: Vec<String>,
}

#[derive(Debug)]
pub struct Session {
    setup: Setup,
    probes: Probes,
    meters: Option<MeterReader>,
    accumulator: Accumulator<MeterSource>,
    /// Messages about files and directories that could not be read.
    reported_faults: Vec<String>,
    last_poll: tach::Instant,
    /// When the main thread last polled or closed an interval, or found nothing to do.
    last_turn: tach::Instant,
    poll_interval: StretchedPeriod,
    /// CPU time of the last poll.
    poll_cost: Duration,
    /// Bodies of scrapes since the last poll.
    rendered: Vec<(ExpositionFormat, Vec<u8>)>,
    interval: IntervalStart,
    budget: Budget,
    /// Whether the monitor has reported that other periods would not keep the budget.
    is_budget_reported: bool,
    /// Number of intervals in which each limit of each loop was broken.
    breaches: BTreeMap<(LoopId, String), u64>,
    coverage: LimitCoverage,
    stretches: u64,
    intervals_closed: u64,
    intervals_lost: u64,
    /// Reason why the last interval could not be written.
    lost_interval: Option<String>,
    flight: Option<FlightWatch>,
    pub flights_written: u64,
    pub flights_lost: u64,
}

impl Session {
    /// Starts the probes and opens the first interval.
    pub fn start(
        setup: Setup,
        scenarios: &[Scenario],
        meters: Option<MeterReader>,
        flight: Option<FlightWatch>,
        seed: u64,
    ) -> exit::Result<Self> {
        let interval = IntervalStart::now(flight.as_ref());
        let poll_interval = match &flight {
            // Late ticks have to be noticed while the rings still contain the time before them.
            Some(flight) => {
                let interval = POLL_INTERVAL.min(flight.length() / 3);
                StretchedPeriod::new(interval, interval)
            }
            None => StretchedPeriod::new(POLL_INTERVAL, MAX_POLL_INTERVAL),
        };
        let mut session = Self {
            accumulator: Accumulator::new(MeterClocks::read().at(), MAX_LOOPS),
            budget: Budget::new(setup.budget),
            is_budget_reported: false,
            setup,
            probes: Probes::new(seed),
            meters,
            reported_faults: Vec::new(),
            last_poll: interval.at,
            last_turn: interval.at,
            poll_interval,
            poll_cost: Duration::ZERO,
            rendered: Vec::new(),
            interval,
            breaches: BTreeMap::new(),
            coverage: LimitCoverage::default(),
            stretches: 0,
            intervals_closed: 0,
            intervals_lost: 0,
            lost_interval: None,
            flight,
            flights_written: 0,
            flights_lost: 0,
        };
        for scenario in scenarios {
            let period = StretchedPeriod::new(scenario.period, MAX_PROBE_PERIOD);
            let (limits, flight) = (&session.setup.limits, session.flight.as_ref());
            let started = session.probes.start(scenario.clone(), period, limits, flight);
            started.map_err(|reason| Error::measure(format!("{}: {reason}", scenario.id)))?;
        }
        session.poll();
        Ok(session)
    }

    pub fn probe_count(&self) -> usize {
        self.probes.active.len()
    }

    pub fn meter_count(&self) -> usize {
        self.accumulator.meter_count()
    }

    /// Records whether a closed interval could be written.
    pub fn record_write(&mut self, result: Result<(), String>) {
        self.intervals_lost += u64::from(result.is_err());
        self.lost_interval = result.err();
    }

    /// Returns an error if the main thread of the monitor does not continue.
    pub fn check_health(&self) -> Result<(), String> {
        check_pause(self.last_turn.elapsed())
    }

    /// Returns an error if the monitor is not healthy, or could not write its last interval.
    pub fn check_readiness(&self) -> Result<(), String> {
        self.check_health()?;
        let lost = self.lost_interval.as_ref();
        lost.map_or(Ok(()), |reason| Err(format!("the last interval is lost: {reason}")))
    }

    /// Polls if the last poll is too long ago.
    pub fn poll_if_due(&mut self) {
        self.last_turn = tach::Instant::now();
        if self.last_poll.elapsed() >= self.poll_interval.period() {
            self.poll();
        }
    }

    /// Records what probes and meters counted since the last poll.
    fn poll(&mut self) {
        self.last_poll = tach::Instant::now();
        self.rendered.clear();
        let cpu_before_ns = os::thread_cpu_ns();
        let left_out = self.left_out();
        let MeterPoll { read, unread } = self.poll_foreign_meters();
        let clocks = MeterClocks::read();
        self.watch_late_ticks(&read, &clocks);
        let foreign = read.into_iter().map(|meter| PolledMeter {
            loop_id: LoopId::from(&meter.snapshot),
            source: MeterSource::File(meter.id),
            snapshot: meter.snapshot,
            is_new: meter.is_new,
        });
        // Taken one by one: each snapshot of a probe reuses the memory of the one before it.
        let polled = self.probes.active.iter().map(Probe::poll).chain(foreign);
        self.accumulator.record_poll(&clocks, polled, unread.into_iter().map(MeterSource::File));
        if left_out == 0 && self.left_out() > 0 {
            let meters = pluralize(self.left_out() as u64, "meter");
            note(
                false,
                &format!("{meters} left out: unreadable, or beyond the maximum of {MAX_LOOPS}"),
            );
        }
        self.coverage.record_left_out(self.left_out());
        if let Some(flight) = &mut self.flight {
            flight.capture(false);
        }
        self.probes.reap_finished();
        let cost_ns = os::thread_cpu_ns().zip(cpu_before_ns).map(|(now, before)| now - before);
        self.poll_cost = cost_ns.map_or_else(|| self.last_poll.elapsed(), Duration::from_nanos);
    }

    /// Hands the late ticks since the last poll to the flight records.
    fn watch_late_ticks(&mut self, meters: &[ReadMeter], clocks: &MeterClocks) {
        let Some(flight) = &mut self.flight else { return };
        let mut all_threads = Vec::new();
        for probe in &self.probes.active {
            let threads = probe.running.thread_ids();
            all_threads.extend(threads.iter().copied());
            let loop_id = LoopId::from(&probe.scenario);
            let rule = LateRule::new(&self.setup.limits, &loop_id);
            if let (Some(log), Some(rule)) = (&probe.late_ticks, rule) {
                flight.add_ticks(&loop_id, rule, threads, log.take());
            }
        }
        flight.hindsight.watch_threads(&all_threads);
        flight.retain_meters(meters);
        for meter in meters {
            let loop_id = LoopId::from(&meter.snapshot);
            if let Some(rule) = LateRule::new(&self.setup.limits, &loop_id) {
                flight.add_meter(meter, clocks, &loop_id, rule);
            }
        }
    }

    /// Reads the meters of other programs. Reports each file and directory that cannot be read
    /// once.
    fn poll_foreign_meters(&mut self) -> MeterPoll {
        // A limit that is not checked for one of them does not count as kept.
        let quiet = self.setup.quiet && !self.has_limits();
        let Some(meters) = &mut self.meters else { return MeterPoll::default() };
        let own: Vec<_> = self.probes.active.iter().filter_map(|probe| probe.file).collect();
        let poll = meters.poll(&own);
        for fault in meters.faults() {
            if self.reported_faults.len() < MAX_REPORTED_FAULTS
                && !self.reported_faults.contains(fault)
            {
                self.reported_faults.push(fault.clone());
                note(quiet, fault);
            }
        }
        poll
    }

    fn left_out(&self) -> usize {
        self.accumulator.left_out() + self.meters.as_ref().map_or(0, MeterReader::left_out)
    }

    /// Ends the interval and opens the next one.
    pub fn close_interval(&mut self) -> ClosedInterval {
        self.last_turn = tach::Instant::now();
        self.poll();
        // The ticks, the CPU time and the length of the interval end here.
        let now = IntervalStart::now(self.flight.as_ref());
        let before = std::mem::replace(&mut self.interval, now);
        let deltas = IntervalDeltas::between(&before, &self.interval);
        let mut thread_times = self.probes.take_thread_times();
        let probes_ns = thread_times.values().map(|times| times.as_ref().map(|t| t.cpu_ns)).sum();
        for ended in std::mem::take(&mut self.probes.ended_loops) {
            if let Some(times) = thread_times.get_mut(&ended) {
                *times = None;
            }
        }
        if let Some(flight) = &mut self.flight {
            flight.capture(true);
        }
        if let Some(step) = clock_set_back(before.time, self.interval.time, deltas.length) {
            let step = format_duration(step.as_secs_f64());
            note(false, &format!("the clock was set back by {step}: dates of intervals overlap"));
        }

        // Each loop becomes a row, whose limits are checked.
        let start_us = before.unix_us();
        let start = stamp(start_us);
        let (mut rows, mut breaches, mut breached) = (Vec::new(), Vec::new(), Vec::new());
        for (loop_id, mut stats) in self.accumulator.close_interval() {
            let times = thread_times.get(&loop_id).copied().flatten();
            deltas.add_to(&mut stats.counts, &loop_id, times);
            let key = self.key(&loop_id, start_us, deltas.length);
            let broken = self.check_limits(&loop_id, &key, &start, &stats);
            if !broken.is_empty() {
                breached.push(loop_id.clone());
            }
            breaches.extend(broken);
            let IntervalStats { bins, counts, .. } = stats;
            rows.push(Interval::from_values(key, BINNING, bins.iter(), Some(counts)));
        }
        self.intervals_closed += 1;
        for message in self.coverage.close_interval(&self.setup.limits) {
            note(!self.has_limits(), &message);
        }
        // Loops that have ended are no longer exported, and neither are their breaches.
        self.breaches.retain(|(loop_id, _), _| self.accumulator.has_loop(loop_id));

        // The files of breaches and flights exist only if a limit was broken.
        let flight = self.flight.as_mut();
        let flights = flight.map_or(Vec::new(), |flight| flight.close_interval(&breached));
        let breaches = if breaches.is_empty() {
            None
        } else {
            let file = Breaches {
                schema: Breaches::SCHEMA.to_owned(),
                host: self.setup.host.clone(),
                run_id: self.setup.run_id.clone(),
                start: start.clone(),
                duration_ns: to_ns(deltas.length),
                breaches,
            };
            Some(file.to_json())
        };

        self.enforce_budget(&deltas, probes_ns);
        ClosedInterval { start, rows, breaches, flights }
    }

    fn key(&self, loop_id: &LoopId, start_us: u64, length: Duration) -> Key {
        let mut labels = self.setup.labels.clone();
        let (subject, period_ns, runtime) = match loop_id {
            LoopId::Probe { subject, period_ns, runtime } => (subject, *period_ns, runtime.clone()),
            LoopId::Meter { meter, period_ns, program } => {
                labels.set("program", program).expect("an identifier");
                (meter, *period_ns, String::new())
            }
        };
        Key {
            host: self.setup.host.clone(),
            subject: subject.clone(),
            period_ns,
            runtime,
            labels,
            start_us: Some(start_us),
            duration_ns: to_ns(length),
            run_id: self.setup.run_id.clone(),
        }
    }

    /// Reports, counts and returns the limits that an interval of a loop breaks.
    fn check_limits(
        &mut self,
        loop_id: &LoopId,
        key: &Key,
        start: &str,
        stats: &IntervalStats,
    ) -> Vec<Breach> {
        let mut breaches = Vec::new();
        for limit in &self.setup.limits {
            if limit.needs_more_ticks(loop_id, stats) {
                let ticks = stats.counts.ticks.came();
                if let Some(message) = self.coverage.record_few_ticks(limit, loop_id, ticks) {
                    note(false, &message);
                }
                continue;
            }
            if limit.applies_to(loop_id) {
                self.coverage.record_checked(limit);
            }
            let Some(breach) = limit.breach(loop_id, key, stats) else { continue };
            let (name, ticks) = (loop_id.name(), pluralize(stats.counts.ticks.planned, "tick"));
            let length = format_duration(key.duration_ns as f64 / 1e9);
            let measured = &breach.shown;
            let causes = breach.causes().map_or_else(String::new, |causes| format!("; {causes}"));
            let message = format!(
                "limit broken: {name}: {}, measured {measured} in {length} from {start} ({ticks}{causes})",
                limit.text
            );
            note(false, &message);
            *self.breaches.entry((loop_id.clone(), limit.text.clone())).or_default() += 1;
            breaches.push(breach);
        }
        breaches
    }

    /// Returns the body of a scrape.
    pub fn scrape(&mut self, format: ExpositionFormat) -> Vec<u8> {
        if self.last_poll.elapsed() >= self.max_scrape_age() {
            self.poll();
        }
        let rendered = self.rendered.iter().find(|(rendered, _)| *rendered == format);
        if let Some((_, body)) = rendered {
            return body.clone();
        }
        let breaches = self.breaches.iter().map(|((loop_id, limit), count)| {
            exposition::BreachCount { loop_id, limit, count: *count }
        });
        let flights = self.flight.as_ref().map(|flight| FlightCounts {
            cpu_ns: flight.hindsight.cpu_ns(),
            memory_bytes: flight.hindsight.memory_bytes(),
            written: self.flights_written,
            lost: self.flights_lost,
        });
        let state = MonitorState {
            loops: self.accumulator.totals().collect(),
            breaches: breaches.collect(),
            info: &self.setup.info(),
            cpu_ns: os::usage().cpu_ns,
            budget: self.setup.budget,
            stretches: self.stretches,
            probes_ended: self.probes.ended,
            intervals_closed: self.intervals_closed,
            intervals_lost: self.intervals_lost,
            meters: self.accumulator.meter_count(),
            meters_left_out: self.left_out(),
            limits: &self.setup.limits,
            coverage: self.coverage.closed(),
            poll_interval: self.poll_interval.period(),
            flights,
        };
        let body = exposition::render(&state, format);
        self.rendered.push((format, body.clone()));
        body
    }

    /// Returns the maximum age of the data in a scrape: so long that frequent scrapes do not exceed
    /// the budget.
    fn max_scrape_age(&self) -> Duration {
        let age = self.poll_cost.as_secs_f64() / (SCRAPED_PART * self.setup.budget);
        Duration::try_from_secs_f64(age)
            .unwrap_or(Duration::MAX)
            .min(self.poll_interval.period())
            .max(MAX_SCRAPE_AGE)
    }

    fn has_limits(&self) -> bool {
        !self.setup.limits.is_empty()
    }

    /// Stops the probes, removes their meters, and prints what the monitor could not do.
    pub fn conclude(&mut self) -> ExitStatus {
        self.probes.active.clear();
        let closed = pluralize(self.intervals_closed, "interval");
        let mut faults = Vec::new();
        if self.probes.ended > 0 {
            let probes = pluralize(self.probes.ended, "probe");
            faults.push(format!("{probes} ended before the monitor, as reported above"));
        }
        let unchecked = self.coverage.closed().incomplete_intervals;
        if self.has_limits() && unchecked > 0 {
            faults
                .push(format!("limits were not checked on all meters in {unchecked} of {closed}"));
        }
        let never_checked = self.coverage.never_checked(&self.setup.limits);
        if !never_checked.is_empty() {
            faults.push(format!("never checked, on no loop: {}", never_checked.join(", ")));
        }
        if self.intervals_lost > 0 {
            faults.push(format!("{} of {closed} could not be written", self.intervals_lost));
        }
        if faults.is_empty() {
            note(self.setup.quiet, &format!("ended after {closed}"));
            return ExitStatus::Done;
        }
        for fault in &faults {
            note(false, fault);
        }
        ExitStatus::NotMeasured
    }
}

fn check_pause(pause: Duration) -> Result<(), String> {
    if pause > MAX_PAUSE {
        return Err(format!("no turn for {}", format_duration(pause.as_secs_f64())));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use engine::scenario::{ScenarioArgs, parse_subject};
    use files::bins::Labels;

    use super::*;

    #[test]
    fn dead_probe_fails_the_monitor() {
        let conclude = |kills_probe: bool| {
            let args = ScenarioArgs {
                subjects: vec![parse_subject("nanosleep").unwrap()],
                periods: vec![Duration::from_millis(1)],
                ..ScenarioArgs::default()
            };
            let setup = Setup {
                host: "host".to_owned(),
                run_id: "run".to_owned(),
                labels: Labels::default(),
                limits: Vec::new(),
                budget: 4.0,
                kernel: "unknown".to_owned(),
                quiet: true,
            };
            let scenarios = [args.single_scenario().unwrap()];
            let mut session = Session::start(setup, &scenarios, None, None, 1).unwrap();
            if kills_probe {
                let probe = &session.probes.active[0].running;
                probe.request_stop();
                while !probe.is_finished() {
                    std::thread::yield_now();
                }
            }
            session.close_interval();
            session.conclude()
        };
        assert_eq!(conclude(false), ExitStatus::Done);
        assert_eq!(conclude(true), ExitStatus::NotMeasured);
    }

    #[test]
    fn long_pause_is_unhealthy() {
        assert_eq!(check_pause(Duration::from_secs(60)), Ok(()));
        let reason = check_pause(Duration::from_secs(90)).unwrap_err();
        assert!(reason.starts_with("no turn for "), "{reason}");
    }
}
