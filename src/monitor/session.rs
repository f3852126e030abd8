//! A monitor that runs: its probes, the meters it watches, their books, and the interval that is
//! open.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use cli::exit::{self, Error};
use cli::time::format_share;
use cli::units;
use engine::machine::os;
use engine::measure::metered_loop::MeteredLoop;
use engine::measure::order;
use engine::scenario::Scenario;
use jitterstat::stats::random::SplitMix64;
use tickmeter::Snapshot;

use crate::meters::Watch;
use crate::monitor::books::{BINNING, Books, Figures, Loop};
use crate::monitor::budget::{Budget, MAX_POLL_PERIOD, stretched};
use crate::monitor::exposition::{self, Form, Moment};
use crate::monitor::limits::{Breaches, Limit, SCHEMA};
use crate::terminal::note;
use files::bins::{Interval, Key, Labels, cell, stamp};

/// More files of meters than this are not read.
pub const MAX_FILES: usize = 256;
/// A scrape sees what is no older than this; more scrapes than that cost nothing.
const FRESH: Duration = Duration::from_secs(1);

/// What stays the same.
#[derive(Debug)]
pub struct Setup {
    pub host: String,
    pub run_id: String,
    pub labels: Labels,
    pub limits: Vec<Limit>,
    pub budget: f64,
    /// Label names and values of `osjitter_info`.
    pub info: Vec<(&'static str, String)>,
    pub quiet: bool,
}

#[derive(Debug)]
struct Probe {
    number: usize,
    scenario: Scenario,
    running: MeteredLoop,
    /// CPU time and waiting when the interval was opened.
    times: Option<os::ThreadTimes>,
}

/// What tells meters apart.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Source {
    Probe(usize),
    Meter(PathBuf),
}

/// What the machine had accounted for when the interval was opened.
#[derive(Debug)]
struct Opened {
    at: tach::Instant,
    start: SystemTime,
    cpu_ns: Option<u64>,
    steal_ns: Option<u64>,
    throttled_ns: Option<u64>,
}

impl Opened {
    fn now() -> Self {
        Self {
            at: tach::Instant::now(),
            start: SystemTime::now(),
            cpu_ns: os::usage().cpu_ns,
            steal_ns: os::steal_ns(),
            throttled_ns: os::throttled_ns(),
        }
    }
}

/// An interval that has ended.
#[derive(Debug)]
pub struct Closed {
    /// RFC 3339, UTC, with microseconds.
    pub start: String,
    pub rows: Vec<Interval>,
    /// A file of its own, where limits were broken.
    pub breaches: Option<String>,
}

#[derive(Debug)]
pub struct Session {
    setup: Setup,
    probes: Vec<Probe>,
    started: usize,
    random: SplitMix64,
    watch: Option<Watch>,
    books: Books<Source>,
    /// What could not be read at the last look.
    faults: Vec<String>,
    looked: tach::Instant,
    opened: Opened,
    budget: Budget,
    breaches: BTreeMap<(Loop, String), u64>,
    stretches: u64,
    probes_ended: u64,
    intervals_closed: u64,
    pub intervals_lost: u64,
}

impl Session {
    /// Starts the probes; the first interval is open then.
    pub fn start(
        setup: Setup,
        scenarios: &[Scenario],
        watch: Option<Watch>,
        seed: u64,
    ) -> exit::Result<Self> {
        let opened = Opened::now();
        let mut session = Self {
            books: Books::new(opened.start),
            budget: Budget::new(setup.budget),
            setup,
            probes: Vec::new(),
            started: 0,
            random: SplitMix64::new(seed),
            watch,
            faults: Vec::new(),
            looked: opened.at,
            opened,
            breaches: BTreeMap::new(),
            stretches: 0,
            probes_ended: 0,
            intervals_closed: 0,
            intervals_lost: 0,
        };
        for scenario in scenarios {
            session
                .probe(scenario.clone())
                .map_err(|reason| Error::measure(format!("{}: {reason}", scenario.id)))?;
        }
        session.opened = Opened::now();
        session.look();
        Ok(session)
    }

    fn probe(&mut self, scenario: Scenario) -> Result<(), String> {
        let phase = order::phase_from_draw(scenario.period, self.random.next_u64());
        // What a limit is about is recorded one by one.
        let of = name_of(&scenario);
        let limits = self
            .setup
            .limits
            .iter()
            .filter(|limit| limit.is_of(&of))
            .filter_map(Limit::late_from)
            .min();
        let running = MeteredLoop::start(&scenario, phase, limits.unwrap_or(scenario.period / 2))?;
        self.started += 1;
        self.probes.push(Probe {
            number: self.started,
            times: running.thread_times(),
            scenario,
            running,
        });
        Ok(())
    }

    pub fn probes(&self) -> usize {
        self.probes.len()
    }

    pub fn meters(&self) -> usize {
        self.books.meters()
    }

    pub fn looked(&self) -> tach::Instant {
        self.looked
    }

    /// Books what probes and meters have booked since the last look.
    pub fn look(&mut self) {
        self.looked = tach::Instant::now();
        let mut others = Vec::new();
        if let Some(watch) = &mut self.watch {
            let is_ours = |path: &Path| {
                self.probes.iter().any(|probe| probe.running.file().is_some_and(|of| of == path))
            };
            others = watch.look(|path| !is_ours(path));
            for fault in watch.faults().iter().filter(|fault| !self.faults.contains(fault)) {
                note(self.setup.quiet, fault);
            }
            self.faults = watch.faults().to_vec();
        }
        let left_out = self.left_out();
        // One after the other: where the last one of a probe lay, the next will lie.
        let of_probe = |p: &Probe| {
            (Source::Probe(p.number), name_of(&p.scenario), p.running.reader().snapshot())
        };
        let of_meter = |(path, snapshot): (PathBuf, Snapshot)| {
            (Source::Meter(path), meter_of(&snapshot), snapshot)
        };
        self.books.take(self.probes.iter().map(of_probe).chain(others.into_iter().map(of_meter)));
        if left_out == 0 && self.left_out() > 0 {
            note(
                false,
                &format!(
                    "{} meters are left out: there is room for {}",
                    self.left_out(),
                    super::books::MAX_LOOPS
                ),
            );
        }
        self.bury();
    }

    fn left_out(&self) -> usize {
        self.books.left_out() + self.watch.as_ref().map_or(0, Watch::left_out)
    }

    /// Probes that have ended by themselves are reported, once.
    fn bury(&mut self) {
        let (over, running) = std::mem::take(&mut self.probes)
            .into_iter()
            .partition(|probe| probe.running.is_finished());
        self.probes = running;
        for mut probe in over {
            self.probes_ended += 1;
            let reason = probe.running.stop().unwrap_or_else(|| "without a reason".to_owned());
            note(false, &format!("{} has ended: {reason}", probe.scenario.id));
        }
    }

    /// Ends the interval and opens the next.
    pub fn close(&mut self) -> Closed {
        self.look();
        let before = std::mem::replace(&mut self.opened, Opened::now());
        let (now, of) = (&self.opened, self.opened.at.duration_since(before.at));
        let delta = |now: Option<u64>, then: Option<u64>| Some(now?.saturating_sub(then?));
        let steal_ns = delta(now.steal_ns, before.steal_ns);
        let throttled_ns = delta(now.throttled_ns, before.throttled_ns);
        let cpu_ns = delta(now.cpu_ns, before.cpu_ns);
        let costs = self.costs();
        let start_us =
            before.start.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_micros();
        let start_us = u64::try_from(start_us).unwrap_or(u64::MAX);
        let start = stamp(start_us);
        let (mut rows, mut broken) = (Vec::new(), Vec::new());
        for (of_loop, mut figures) in self.books.close() {
            let cost = costs.get(&of_loop).copied().flatten();
            let facts = &mut figures.facts;
            (facts.cpu_ns, facts.run_queue_ns) =
                (cost.map(|[cpu, _]| cpu), cost.map(|[_, waited]| waited));
            facts.steal_ns = steal_ns;
            // Of this process's control group: it says nothing about other programs.
            facts.throttled_ns = throttled_ns.filter(|_| matches!(of_loop, Loop::Probe { .. }));
            let key = self.key(&of_loop, start_us, of);
            self.judge(&of_loop, &key, &start, &figures, &mut broken);
            rows.push(Interval::from_values(
                key,
                BINNING,
                figures.bins.iter(),
                Some(figures.facts),
            ));
        }
        self.intervals_closed += 1;
        let shown: Vec<Loop> = self.books.totals().map(|(of, _)| of.clone()).collect();
        self.breaches.retain(|(of, _), _| shown.contains(of));
        if let Some(used) = cpu_ns.and_then(|cpu_ns| self.budget.exceeded(of, cpu_ns)) {
            self.stretch(used);
        }
        let breaches = (!broken.is_empty()).then(|| {
            let (host, run_id) = (self.setup.host.clone(), self.setup.run_id.clone());
            let file = Breaches {
                schema: SCHEMA.to_owned(),
                host,
                run_id,
                start: start.clone(),
                duration_ns: nanoseconds(of),
                breaches: broken,
            };
            serde_json::to_string_pretty(&file).expect("plain data") + "\n"
        });
        Closed { start, rows, breaches }
    }

    /// What each probe's threads used in the interval.
    fn costs(&mut self) -> BTreeMap<Loop, Option<[u64; 2]>> {
        let mut costs = BTreeMap::new();
        for probe in &mut self.probes {
            let now = probe.running.thread_times();
            let before = std::mem::replace(&mut probe.times, now);
            let used = now.zip(before).map(|(now, before)| {
                [
                    now.cpu_ns.saturating_sub(before.cpu_ns),
                    now.run_queue_ns.saturating_sub(before.run_queue_ns),
                ]
            });
            costs.insert(name_of(&probe.scenario), used);
        }
        costs
    }

    fn key(&self, of: &Loop, start_us: u64, length: Duration) -> Key {
        let mut labels = self.setup.labels.clone();
        let (subject, period_ns, runtime) = match of {
            Loop::Probe { subject, period_ns, runtime } => (subject, *period_ns, runtime.clone()),
            Loop::Meter { meter, period_ns, program } => {
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
            duration_ns: nanoseconds(length),
            run_id: self.setup.run_id.clone(),
        }
    }

    fn judge(
        &mut self,
        of: &Loop,
        key: &Key,
        start: &str,
        figures: &Figures,
        broken: &mut Vec<super::limits::Breach>,
    ) {
        for limit in &self.setup.limits {
            let Some(breach) = limit.breach(of, key, figures) else { continue };
            let (name, ticks) = (of.name(), figures.facts.ticks);
            let length = cli::time::format_duration(key.duration_ns as f64 / 1e9);
            let shown = &breach.shown;
            let causes = breach.causes().map_or_else(String::new, |causes| format!("; {causes}"));
            note(
                false,
                &format!(
                    "limit broken: {name}: {}, and it was {shown} in {length} from {start} ({ticks} ticks{causes})",
                    limit.text
                ),
            );
            *self.breaches.entry((of.clone(), limit.text.clone())).or_default() += 1;
            broken.push(breach);
        }
    }

    /// Doubles the periods of the probes; their last ticks are booked.
    fn stretch(&mut self, used: f64) {
        let of_core = |of: f64| format_share((of * 1e6).round() as u64, 1_000_000);
        let over = format!(
            "the monitor used {} of a core, and may use {}",
            of_core(used),
            of_core(self.setup.budget)
        );
        let (mut short, long): (Vec<Probe>, Vec<Probe>) = std::mem::take(&mut self.probes)
            .into_iter()
            .partition(|probe| probe.scenario.period < MAX_POLL_PERIOD);
        if short.is_empty() {
            self.probes = long;
            note(
                false,
                &format!(
                    "{over}; no probe can be stretched further: give a larger --budget or fewer loops"
                ),
            );
            return;
        }
        // One after the other would take the sum of their periods.
        short.iter().for_each(|probe| probe.running.request_stop());
        let ends: Vec<Option<String>> =
            short.iter_mut().map(|probe| probe.running.stop()).collect();
        self.probes = short;
        let last = self.probes.iter();
        let last: Vec<_> = last
            .map(|p| (Source::Probe(p.number), name_of(&p.scenario), p.running.reader().snapshot()))
            .collect();
        self.books.add(last);
        let short = std::mem::replace(&mut self.probes, long);
        self.stretches += 1;
        let mut now = Vec::new();
        for (probe, end) in short.into_iter().zip(ends) {
            let mut scenario = probe.scenario;
            scenario.period = stretched(scenario.period).unwrap_or(MAX_POLL_PERIOD);
            now.push(format!(
                "{} every {}",
                scenario.subject.name(),
                units::format_exact_duration(scenario.period)
            ));
            if let Some(reason) = end.or(self.probe(scenario).err()) {
                self.probes_ended += 1;
                note(false, &format!("{}: {reason}", now[now.len() - 1]));
            }
        }
        note(false, &format!("{over}; its probes are stretched: {}", now.join(", ")));
    }

    /// What a scrape sees.
    pub fn page(&mut self, form: Form) -> Vec<u8> {
        if self.looked.elapsed() >= FRESH {
            self.look();
        }
        let breaches =
            self.breaches.iter().map(|((of, limit), times)| (of, limit.as_str(), *times));
        let moment = Moment {
            loops: self.books.totals().collect(),
            breaches: breaches.collect(),
            info: &self.setup.info,
            cpu_ns: os::usage().cpu_ns,
            budget: self.setup.budget,
            stretches: self.stretches,
            probes_ended: self.probes_ended,
            intervals_closed: self.intervals_closed,
            intervals_lost: self.intervals_lost,
            meters: self.books.meters(),
            meters_left_out: self.left_out(),
        };
        exposition::page(&moment, form)
    }

    /// Ends the probes, and takes their meters away.
    pub fn end(&mut self) {
        self.probes.clear();
    }

    pub fn intervals_closed(&self) -> u64 {
        self.intervals_closed
    }
}

fn name_of(scenario: &Scenario) -> Loop {
    Loop::Probe {
        subject: scenario.subject.name(),
        period_ns: scenario.period_ns(),
        runtime: scenario.runtime.map_or(String::new(), |runtime| runtime.to_string()),
    }
}

fn meter_of(snapshot: &Snapshot) -> Loop {
    Loop::Meter {
        meter: cell(&snapshot.name).into_owned(),
        period_ns: nanoseconds(snapshot.period),
        program: cell(&snapshot.program).into_owned(),
    }
}

fn nanoseconds(length: Duration) -> u64 {
    u64::try_from(length.as_nanos()).unwrap_or(u64::MAX)
}
