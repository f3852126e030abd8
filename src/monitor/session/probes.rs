//! The probes of a session: their start, the times of their threads, and their end.

use std::collections::BTreeMap;

use cli::terminal::note;
use engine::machine::os;
use engine::measure::late_tick_log::LateTickLog;
use engine::measure::metered_loop::MeteredLoop;
use engine::measure::metered_loop_error::MeteredLoopError;
use engine::measure::order;
use engine::scenario::Scenario;
use jitterstat::stats::random::SplitMix64;
use tickmeter::read::FileId;

use crate::monitor::accumulator::PolledMeter;
use crate::monitor::budget::StretchedPeriod;
use crate::monitor::flight_watch::{FlightWatch, LateRule};
use crate::monitor::limits::Limit;
use crate::monitor::loop_id::LoopId;

/// Identifies a meter.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MeterSource {
    Probe(usize),
    File(FileId),
}

#[derive(Debug)]
pub struct Probe {
    number: usize,
    pub scenario: Scenario,
    pub period: StretchedPeriod,
    pub running: MeteredLoop,
    /// File of its meter.
    pub file: Option<FileId>,
    /// Thread times at the start of the interval, or of the probe if that was later.
    times: Option<os::ThreadTimes>,
    pub late_ticks: Option<LateTickLog>,
}

impl Probe {
    pub fn poll(&self) -> PolledMeter<MeterSource> {
        PolledMeter {
            source: MeterSource::Probe(self.number),
            loop_id: LoopId::from(&self.scenario),
            snapshot: self.running.reader().snapshot(),
            is_new: true,
        }
    }
}

/// The probes of a session, and which of them have ended.
#[derive(Debug)]
pub struct Probes {
    pub active: Vec<Probe>,
    /// Number of probes started so far.
    started: usize,
    /// Number of probes that ended before the monitor.
    pub ended: u64,
    /// Loops with a probe that ended in the open interval: some of their ticks have no CPU time.
    pub ended_loops: Vec<LoopId>,
    random: SplitMix64,
}

impl Probes {
    pub fn new(seed: u64) -> Self {
        Self {
            active: Vec::new(),
            started: 0,
            ended: 0,
            ended_loops: Vec::new(),
            random: SplitMix64::new(seed),
        }
    }

    /// Starts a probe with a period. It records its late ticks for the limits that apply to it.
    pub fn start(
        &mut self,
        mut scenario: Scenario,
        period: StretchedPeriod,
        limits: &[Limit],
        flight: Option<&FlightWatch>,
    ) -> Result<(), MeteredLoopError> {
        scenario.period = period.period();
        let phase = order::phase_from_draw(scenario.period, self.random.next_u64());
        let loop_id = LoopId::from(&scenario);
        // Ticks are recorded one by one from the lowest limit on, or else from half a period on.
        let applying = limits.iter().filter(|limit| limit.applies_to(&loop_id));
        let late_from = applying.filter_map(Limit::late_from).min().unwrap_or(scenario.period / 2);
        let rule = LateRule::new(limits, &loop_id);
        let late_ticks = flight.zip(rule).map(|(flight, rule)| flight.new_log(rule));
        let running = MeteredLoop::start(&scenario, phase, late_from, late_ticks.clone())?;
        self.started += 1;
        self.active.push(Probe {
            number: self.started,
            times: running.thread_times(),
            file: running.file().and_then(|path| FileId::from_path(path)),
            scenario,
            period,
            running,
            late_ticks,
        });
        Ok(())
    }

    /// Removes and reports the probes that have ended without being stopped.
    pub fn reap_finished(&mut self) {
        let (finished, running) = std::mem::take(&mut self.active)
            .into_iter()
            .partition(|probe| probe.running.is_finished());
        self.active = running;
        for mut probe in finished {
            self.ended += 1;
            self.ended_loops.push(LoopId::from(&probe.scenario));
            let failure = probe.running.stop().map(|error| error.to_string());
            let reason = failure.unwrap_or("without a reason".to_owned());
            note(false, &format!("{} has ended: {reason}", probe.scenario.id));
        }
    }

    /// Ends the interval, and returns the times that the threads of each loop's probes used in it.
    pub fn take_thread_times(&mut self) -> BTreeMap<LoopId, Option<os::ThreadTimes>> {
        let mut all_times = BTreeMap::new();
        for probe in &mut self.active {
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
}
