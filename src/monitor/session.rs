//! A running monitor: its probes, the meters it watches, their records, and the open interval.

mod budget_keeping;
mod interval_clocks;

use std::collections::BTreeMap;
use std::time::Duration;

use cli::exit::{self, Error, ExitStatus};
use cli::terminal::note;
use cli::time::format_duration;
use cli::units::to_ns;
use cli::words::pluralize;
use engine::machine::os;
use engine::measure::late_tick_log::LateTickLog;
use engine::measure::metered_loop::MeteredLoop;
use engine::measure::metered_loop_error::MeteredLoopError;
use engine::measure::order;
use engine::scenario::Scenario;
use jitterstat::stats::random::SplitMix64;
use tickmeter::Snapshot;
use tickmeter::read::FileId;

use crate::meters::{MeterClocks, MeterPoll, MeterReader, ReadMeter};
use crate::monitor::accumulator::{
    Accumulator, BINNING, IntervalStats, LoopId, MAX_LOOPS, PolledMeter,
};
use crate::monitor::breaches::{Breach, Breaches};
use crate::monitor::budget::{Budget, MAX_PROBE_PERIOD, StretchedPeriod};
use crate::monitor::exposition::{self, ExpositionFormat, FlightCounts, MonitorState};
use crate::monitor::flight_watch::{FlightWatch, LateRule};
use crate::monitor::limit_coverage::LimitCoverage;
use crate::monitor::limits::Limit;
use crate::monitor::session::interval_clocks::{IntervalDeltas, IntervalStart, clock_set_back};
use crate::monitor::setup::Setup;
use files::bins::{Interval, Key, cell, stamp};
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

#[derive(Debug)]
struct Probe {
    number: usize,
    scenario: Scenario,
    period: StretchedPeriod,
    running: MeteredLoop,
    /// File of its meter.
    file: Option<FileId>,
    /// Thread times at the start of the interval, or of the probe if that was later.
    times: Option<os::ThreadTimes>,
    late_ticks: Option<LateTickLog>,
}

impl Probe {
    fn poll(&self) -> PolledMeter<MeterSource> {
        PolledMeter {
            source: MeterSource::Probe(self.number),
            loop_id: LoopId::from(&self.scenario),
            snapshot: self.running.reader().snapshot(),
            is_new: true,
        }
    }
}

/// Identifies a meter.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum MeterSource {
    Probe(usize),
    File(FileId),
}

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
    probes: Vec<Probe>,
    /// Number of probes started so far.
    probes_started: usize,
    random: SplitMix64,
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
    /// Loops with a probe that ended in the open interval: some of their ticks have no CPU time.
    ended_loops: Vec<LoopId>,
    stretches: u64,
    probes_ended: u64,
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
            probes: Vec::new(),
            probes_started: 0,
            random: SplitMix64::new(seed),
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
            ended_loops: Vec::new(),
            stretches: 0,
            probes_ended: 0,
            intervals_closed: 0,
            intervals_lost: 0,
            lost_interval: None,
            flight,
            flights_written: 0,
            flights_lost: 0,
        };
        for scenario in scenarios {
            session
                .start_probe(
                    scenario.clone(),
                    StretchedPeriod::new(scenario.period, MAX_PROBE_PERIOD),
                )
                .map_err(|reason| Error::measure(format!("{}: {reason}", scenario.id)))?;
        }
        session.poll();
        Ok(session)
    }

    fn start_probe(
        &mut self,
        mut scenario: Scenario,
        period: StretchedPeriod,
    ) -> Result<(), MeteredLoopError> {
        scenario.period = period.period();
        let phase = order::phase_from_draw(scenario.period, self.random.next_u64());
        let loop_id = LoopId::from(&scenario);
        // Ticks are recorded one by one from the lowest limit on, or else from half a period on.
        let limits = self.setup.limits.iter().filter(|limit| limit.applies_to(&loop_id));
        let late_from = limits.filter_map(Limit::late_from).min().unwrap_or(scenario.period / 2);
        let rule = LateRule::new(&self.setup.limits, &loop_id);
        let late_ticks = self.flight.as_ref().zip(rule).map(|(flight, rule)| flight.new_log(rule));
        let running = MeteredLoop::start(&scenario, phase, late_from, late_ticks.clone())?;
        self.probes_started += 1;
        self.probes.push(Probe {
            number: self.probes_started,
            times: running.thread_times(),
            file: running.file().and_then(|path| FileId::from_path(path)),
            scenario,
            period,
            running,
            late_ticks,
        });
        Ok(())
    }

    pub fn probe_count(&self) -> usize {
        self.probes.len()
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
        let polled = self.probes.iter().map(Probe::poll).chain(foreign);
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
        self.reap_finished_probes();
        let cost_ns = os::thread_cpu_ns().zip(cpu_before_ns).map(|(now, before)| now - before);
        self.poll_cost = cost_ns.map_or_else(|| self.last_poll.elapsed(), Duration::from_nanos);
    }

    /// Hands the late ticks since the last poll to the flight records.
    fn watch_late_ticks(&mut self, meters: &[ReadMeter], clocks: &MeterClocks) {
        let Some(flight) = &mut self.flight else { return };
        let mut all_threads = Vec::new();
        for probe in &self.probes {
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
        let Some(meters) = &mut self.meters else { return MeterPoll::default() };
        let own: Vec<_> = self.probes.iter().filter_map(|probe| probe.file).collect();
        let poll = meters.poll(&own);
        for fault in meters.faults() {
            if self.reported_faults.len() < MAX_REPORTED_FAULTS
                && !self.reported_faults.contains(fault)
            {
                self.reported_faults.push(fault.clone());
                note(self.setup.quiet, fault);
            }
        }
        poll
    }

    fn left_out(&self) -> usize {
        self.accumulator.left_out() + self.meters.as_ref().map_or(0, MeterReader::left_out)
    }

    /// Removes and reports the probes that have ended without being stopped.
    fn reap_finished_probes(&mut self) {
        let (finished, running) = std::mem::take(&mut self.probes)
            .into_iter()
            .partition(|probe| probe.running.is_finished());
        self.probes = running;
        for mut probe in finished {
            self.probes_ended += 1;
            self.ended_loops.push(LoopId::from(&probe.scenario));
            let failure = probe.running.stop().map(|error| error.to_string());
            let reason = failure.unwrap_or("without a reason".to_owned());
            note(false, &format!("{} has ended: {reason}", probe.scenario.id));
        }
    }

    /// Ends the interval and opens the next one.
    pub fn close_interval(&mut self) -> ClosedInterval {
        self.last_turn = tach::Instant::now();
        self.poll();
        // The ticks, the CPU time and the length of the interval end here.
        let now = IntervalStart::now(self.flight.as_ref());
        let before = std::mem::replace(&mut self.interval, now);
        let deltas = IntervalDeltas::between(&before, &self.interval);
        let mut thread_times = self.probe_thread_times();
        let probes_ns = thread_times.values().map(|times| times.as_ref().map(|t| t.cpu_ns)).sum();
        for ended in std::mem::take(&mut self.ended_loops) {
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

    /// Returns the times that the threads of each loop's probes used in the interval.
    fn probe_thread_times(&mut self) -> BTreeMap<LoopId, Option<os::ThreadTimes>> {
        let mut all_times = BTreeMap::new();
        for probe in &mut self.probes {
            let now = probe.running.thread_times();
            let before = std::mem::replace(&mut probe.times, now);
            let used = now.zip(before).map(|(now, before)| now.since(before));
            let sum = all_times
                .entry(LoopId::from(&probe.scenario))
                .or_insert(Some(os::ThreadTimes::default()));
            *sum = sum.zip(used).map(|(sum, used)| sum + used);
        }
        all_times
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
                    note(self.setup.quiet, &message);
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
            probes_ended: self.probes_ended,
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
        self.probes.clear();
        let closed = pluralize(self.intervals_closed, "interval");
        let mut faults = Vec::new();
        if self.probes_ended > 0 {
            let probes = pluralize(self.probes_ended, "probe");
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

impl From<&Scenario> for LoopId {
    fn from(scenario: &Scenario) -> Self {
        Self::Probe {
            subject: scenario.subject.name(),
            period_ns: scenario.period_ns(),
            runtime: scenario.runtime.map_or(String::new(), |runtime| runtime.to_string()),
        }
    }
}

impl From<&Snapshot> for LoopId {
    fn from(snapshot: &Snapshot) -> Self {
        Self::Meter {
            meter: cell(&snapshot.name).into_owned(),
            period_ns: to_ns(snapshot.period),
            program: cell(&snapshot.program).into_owned(),
        }
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
                let probe = &session.probes[0].running;
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
