//! `osjitter find`: what period can this machine hold, and what can be promised at one. Every look
//! is a plan that the one loop measures, all tickers in the same rounds; `files::find` decides
//! what to look at, and what it says.

pub mod args;
pub mod formats;
mod picture;
mod text;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use cli::exit::{self, ExitStatus, usage};
use cli::units;
use engine::load::Load;
use engine::machine::{host, tuning};
use engine::measure::load::Loads;
use engine::measure::order::Observer;
use engine::measure::program::StartupCosts;
use engine::measure::record::{self, Conditions};
use engine::measure::round::MeasuredRound;
use engine::scenario::{
    Length, Plan, Runtime, Scenario, ScenarioArgs, Subjects, check_scenario_count, draw_seed,
};
use engine::subject::{self, RuntimeKind, SubjectInfo};
use files::file::File as _;
use files::find::{
    self, CONFIDENCE, Find, Goal, Look, MAX_GOALS, MAX_LOOKS, PeriodRange, SCHEMA, Step,
    StopReason, Ticker,
};
use files::fitness::{Fitness, Tally};
use files::gate::limit::RoundTicks;
use files::report::{self, Status};

use crate::file_io::Directory;
use crate::find::args::FindArgs;
use crate::render::formats::{Format, make};
use crate::terminal::Progress;
use crate::{file_io, interrupt, terminal};

/// Rounds of a look: twice as many as an interval needs.
const ROUNDS: u64 = 20;
/// Recorded ticks of a round, at most.
const ROUND_TICKS: u64 = 250;
/// Share of the time that looks are planned for; the rest is set-up and what a busy machine takes
/// longer.
const PLANNED: f64 = 0.8;
/// What is promised at one period.
const PROMISES: [&str; 6] = ["p50", "p90", "p99", "p99.9", "missed", "cpu"];
/// Ticks behind a promise, where the time allows.
const PROMISED_TICKS: u64 = 20_000;

/// What is to be found, and how.
struct Search {
    goals: Vec<Goal>,
    range: PeriodRange,
    tickers: Vec<Loop>,
    /// Runs in the same rounds, without a load: by it the machine is judged.
    control: Option<Loop>,
    load: Load,
    /// Looks of a ticker, at most.
    looks: usize,
    look_confidence: f64,
    least_ticks: u64,
    max_time: Duration,
    seed: u64,
}

fn first_look(period_ns: u64) -> Step {
    Step { period_ns, times: 1 }
}

/// A subject, with the runtime that it runs on.
type Loop = (&'static SubjectInfo, Option<Runtime>);

pub fn run(args: &FindArgs) -> exit::Result<ExitStatus> {
    let search = Search::plan(args)?;
    let host = host::capture();
    let settings =
        tuning::Settings { cpu: args.cpu, sched: args.sched, ..tuning::Settings::default() };
    let started_utc = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    let stop = Arc::default();
    interrupt::stop_on_interrupt(&stop)?;
    // Before this thread is bound or made urgent: a load is the rest of the machine.
    let first = search
        .tickers
        .first()
        .map(|one| search.scenario(*one, first_look(search.range.shortest_ns)))
        .transpose()?;
    let mut loads = Loads::start(first.as_slice())?;
    settings.apply()?;
    // Last: what is refused above leaves no directory behind.
    let out = Directory::open(args.out.as_deref(), &started_utc)?;
    terminal::note(args.quiet, &search.announcement());

    let mut find = Find {
        schema: SCHEMA.to_owned(),
        tool: host::tool(),
        started_utc,
        duration_ns: 0,
        partial: false,
        host,
        goals: search.goals.clone(),
        range_ns: [search.range.shortest_ns, search.range.longest_ns],
        confidence: CONFIDENCE,
        look_confidence: search.look_confidence,
        max_time_ns: ns(search.max_time),
        seed: search.seed,
        cpu: args.cpu,
        sched: args.sched.map(|class| class.to_string()),
        fitness: None,
        load: None,
        warnings: Vec::new(),
        tickers: Vec::new(),
    };
    search.measure(&mut find, &mut loads, &stop, args.quiet)?;
    find.load = loads.end().pop();

    let picture = picture::picture(&find);
    let json = find.to_json();
    let picture = picture.as_ref().map(|p| (p.name.as_str(), p.svg.as_str()));
    let saved = out.place(&picture.into_iter().chain([(FILE, json.as_str())]).collect::<Vec<_>>());
    let made = match args.format {
        Format::Json => json.into_bytes(),
        format => make("what was found", &formats::FORMATS, format, &find)?.into_bytes(),
    };
    let written = file_io::deliver(made, None);
    if saved.is_ok() {
        terminal::note(args.quiet, &format!("found: {}", out.path(FILE).display()));
    }
    saved.and(written)?;
    let measured = !find.partial && find.tickers.iter().all(|ticker| ticker.failure.is_none());
    Ok(if measured { ExitStatus::Done } else { ExitStatus::NotMeasured })
}

const FILE: &str = "find.json";

impl Search {
    fn plan(args: &FindArgs) -> exit::Result<Self> {
        let goals = match args.period {
            Some(_) => PROMISES.iter().filter_map(|name| Goal::new(name, None)).collect(),
            None => agreed(&args.goal)?,
        };
        let [from, to] = args.period.map_or([args.from, args.to], |period| [period; 2]);
        if from >= to && args.period.is_none() {
            let [from, to] = [from, to].map(units::format_exact_duration);
            return Err(usage!(
                "--from {from} is no shorter than --to {to}; for one period give --period"
            ));
        }
        let subjects = match Subjects::union(args.subject.iter().cloned()) {
            // It takes a whole core at any period.
            none if none.is_empty() => {
                subject::ALL.iter().filter(|e| e.default && e.name != "spin").collect()
            }
            asked => asked,
        };
        let (runtimes, loads) = (args.runtime.clone(), vec![args.load.clone()]);
        let mut all =
            ScenarioArgs { subjects, runtimes, loads, ..ScenarioArgs::default() }.scenarios()?;
        // Tasks run beside the tickers that have a runtime.
        all.retain(|scenario| scenario.load == args.load);
        let tickers: Vec<Loop> =
            all.iter().filter_map(|s| Some((s.subject.as_builtin()?, s.runtime))).collect();
        let spin = subject::ALL.iter().find(|e| e.name == "spin").map(|entry| (entry, None));
        let looks = if args.period.is_some() { 1 } else { MAX_LOOKS };
        let look_confidence = find::look_confidence(looks, goals.len());
        let search = Self {
            least_ticks: find::least_ticks(&goals, look_confidence),
            goals,
            range: PeriodRange { shortest_ns: ns(from), longest_ns: ns(to) },
            control: spin.filter(|spin| {
                !tickers.contains(spin)
                    && tickers.iter().any(|t| t.0.runtime_kind != RuntimeKind::Script)
            }),
            tickers,
            load: args.load.clone(),
            looks,
            look_confidence,
            max_time: args.max_time,
            seed: args.seed.unwrap_or_else(draw_seed),
        };
        search.fits()?;
        Ok(search)
    }

    /// Refuses what the time does not hold, before anything runs.
    fn fits(&self) -> exit::Result<()> {
        check_scenario_count(self.tickers.len())?;
        let first = if self.looks > 1 {
            find::coarse_periods(self.range)
        } else {
            vec![self.range.shortest_ns]
        };
        let mut time = Duration::ZERO;
        for period in &first {
            for one in self.tickers.iter().chain(&self.control) {
                time = time
                    .saturating_add(self.scenario(*one, first_look(*period))?.expected_duration());
            }
        }
        if time > self.max_time.mul_f64(PLANNED) {
            let longest =
                self.goals.iter().max_by_key(|goal| goal.least_ticks(self.look_confidence));
            let name = longest.map_or("", |goal| &goal.name);
            return Err(usage!(
                "{} at {} ticks each, which {name} takes, last {:.0}s; give --max-time {:.0}s or more, fewer --subject, or a \
                 shorter {}",
                if first.len() > 1 {
                    format!("the first {} periods of {} tickers", first.len(), self.tickers.len())
                } else {
                    format!("{} tickers", self.tickers.len())
                },
                self.least_ticks,
                time.as_secs_f64().ceil(),
                (time.as_secs_f64() * 2.0).ceil(),
                if first.len() > 1 { "--to" } else { "--period" },
            ));
        }
        Ok(())
    }

    fn announcement(&self) -> String {
        let [from, to] = [self.range.shortest_ns, self.range.longest_ns]
            .map(|ns| units::format_exact_duration(Duration::from_nanos(ns)));
        let tickers = match self.tickers.len() {
            1 => "1 ticker".to_owned(),
            n => format!("{n} tickers"),
        };
        let looks = if from == to {
            format!("at {to}")
        } else {
            format!("up to {} looks each, {from} to {to}", self.looks)
        };
        format!("{tickers}, {looks}: at most {}", units::format_exact_duration(self.max_time))
    }

    /// A look at a loop: as many ticks as its share of the time holds, and at least as many as the
    /// goals take; more rounds of them where a period is looked at again.
    fn scenario(
        &self,
        (entry, runtime): Loop,
        Step { period_ns, times }: Step,
    ) -> exit::Result<Scenario> {
        let load = if self.control == Some((entry, runtime)) { &Load::None } else { &self.load };
        let period = Duration::from_nanos(period_ns);
        let of = |rounds: u64, round_ticks: u64| {
            let args = ScenarioArgs {
                subjects: vec![entry],
                periods: vec![period],
                runtimes: runtime.into_iter().collect(),
                loads: vec![load.clone()],
                length: Some(Length::Ticks(rounds * round_ticks)),
                round_ticks: Some(round_ticks),
                ..ScenarioArgs::default()
            };
            args.single_scenario()
        };
        let least = self.least_ticks.div_ceil(ROUNDS);
        let loops = self.tickers.len() + self.control.iter().len();
        let time = self.max_time.mul_f64(PLANNED / (self.looks * loops) as f64);
        // What a round takes beside its recorded ticks.
        let beside = of(1, 1)?.expected_duration().saturating_sub(period);
        let ticks_in =
            |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX) / period_ns.max(1);
        if self.looks == 1 {
            let full = beside + period * ROUND_TICKS as u32;
            let fit = (time.as_nanos() / full.as_nanos().max(1)) as u64;
            let rounds = fit.min(PROMISED_TICKS / ROUND_TICKS);
            if rounds >= ROUNDS {
                return of(rounds, ROUND_TICKS);
            }
        }
        let fit = ticks_in((time / ROUNDS as u32).saturating_sub(beside));
        of(ROUNDS * times, fit.min(ROUND_TICKS).max(least).max(1))
    }

    /// The next look of several tickers together, and the control beside them.
    fn look_at(&self, looks: &[(usize, Step)], seed: u64) -> exit::Result<Plan> {
        let mut scenarios = looks
            .iter()
            .map(|(i, step)| self.scenario(self.tickers[*i], *step))
            .collect::<exit::Result<Vec<_>>>()?;
        let (longest, times) =
            (looks.iter().map(|l| l.1.period_ns).max(), looks.iter().map(|l| l.1.times).max());
        if let (Some(control), Some((period_ns, times))) = (self.control, longest.zip(times)) {
            scenarios.push(self.scenario(control, Step { period_ns, times })?);
        }
        Ok(Plan { seed, scenarios, tuning: tuning::Settings::default(), samples: true, why: None })
    }

    /// Those of the looks that fit into the time, with fewer ticks for what is looked at again
    /// where it takes that, but twice as many as before.
    fn fitting(
        &self,
        looks: &[(usize, Step)],
        seed: u64,
        time: Duration,
    ) -> exit::Result<Option<Plan>> {
        for quarters in [4, 3, 2] {
            let scaled = |step: Step| Step { times: (step.times * quarters / 4).max(1), ..step };
            let looks: Vec<_> = looks.iter().map(|(i, step)| (*i, scaled(*step))).collect();
            let plan = self.look_at(&looks, seed)?;
            if plan.expected_duration() <= time {
                return Ok(Some(plan));
            }
        }
        Ok(None)
    }

    /// Takes the looks, all tickers in the same rounds, until each knows enough or the time is up.
    fn measure(
        &self,
        find: &mut Find,
        loads: &mut Loads,
        stop: &Arc<AtomicBool>,
        quiet: bool,
    ) -> exit::Result<()> {
        let started = now();
        let mut open: Vec<Option<StopReason>> = vec![None; self.tickers.len()];
        find.tickers =
            self.tickers.iter().map(|(entry, runtime)| ticker(entry, *runtime)).collect();
        // How much longer looks take here than planned.
        let mut slowness = 1.0_f64;
        let mut tally = Tally::default();
        for number in 0.. {
            let mut looks = Vec::new();
            for (i, stopped) in open.iter_mut().enumerate().filter(|(_, stopped)| stopped.is_none())
            {
                let taken = &find.tickers[i].looks;
                let next = if self.looks == 1 {
                    Some(first_look(self.range.shortest_ns)).filter(|_| taken.is_empty())
                } else {
                    find::next_step(self.range, taken)
                };
                match next {
                    Some(step) => looks.push((i, step)),
                    None => {
                        *stopped = Some(if taken.len() == MAX_LOOKS {
                            StopReason::Looks
                        } else {
                            StopReason::Found
                        })
                    }
                }
            }
            if looks.is_empty() {
                break;
            }
            let (left, began) = (self.max_time.saturating_sub(started.elapsed()), now());
            let Some(plan) =
                self.fitting(&looks, self.seed.wrapping_add(number), left.div_f64(slowness))?
            else {
                // What is looked at again takes the most, and says the least.
                let first = looks.iter().all(|(_, step)| step.times == 1);
                looks
                    .iter()
                    .filter(|(_, step)| first || step.times > 1)
                    .for_each(|l| open[l.0] = Some(StopReason::Time));
                continue;
            };
            plan.check_memory()?;
            let conditions = Conditions {
                host: find.host.clone(),
                changes: Vec::new(),
                started_utc: find.started_utc.clone(),
                starts: StartupCosts::default(),
            };
            let mut watch =
                Watch { progress: Progress::new(plan.rounds(), quiet), until: began + left };
            let report = record::measure(&plan, conditions, loads, stop, &mut watch, None);
            watch.progress.finish();
            slowness = slowness
                .max(
                    began.elapsed().as_secs_f64()
                        / plan.expected_duration().as_secs_f64().max(1e-3),
                )
                .min(4.0);
            tally.add_report(&report);
            for warning in report.warnings {
                if find.warnings.iter().all(|known| known.code != warning.code) {
                    find.warnings.push(warning);
                }
            }
            for (&(i, _), subject) in looks.iter().zip(&report.subjects) {
                open[i] = self.add(&mut find.tickers[i], subject, stop.load(Ordering::Relaxed));
            }
        }
        for (ticker, stopped) in find.tickers.iter_mut().zip(open) {
            let found = find::bracket(&ticker.looks);
            (ticker.broken_ns, ticker.kept_ns) = (found.broken_ns, found.kept_ns);
            (ticker.broken_above_ns, ticker.stopped) =
                (found.broken_above_ns, stopped.unwrap_or(StopReason::Found));
        }
        find.fitness = Fitness::from_tally(&tally, find.host.cpus_online);
        find.partial = stop.load(Ordering::Relaxed);
        find.duration_ns = ns(started.elapsed());
        Ok(())
    }

    /// Adds a look; why there are no more of this ticker, if so.
    fn add(
        &self,
        ticker: &mut Ticker,
        subject: &report::Subject,
        interrupted: bool,
    ) -> Option<StopReason> {
        match &subject.status {
            Status::Failed { reason } => {
                ticker.failure = Some(reason.clone());
                Some(StopReason::Failed)
            }
            // Fewer rounds than planned are no look: its end was not drawn beforehand.
            Status::Partial => {
                Some(if interrupted { StopReason::Interrupted } else { StopReason::Time })
            }
            Status::Measured => match RoundTicks::from_subject(subject) {
                Ok(rounds) => {
                    ticker.looks.push(Look::new(
                        subject.period_ns,
                        &rounds,
                        &self.goals,
                        self.look_confidence,
                    ));
                    None
                }
                Err(why) => {
                    ticker.failure = Some(why.to_string());
                    Some(StopReason::Failed)
                }
            },
        }
    }
}

fn ticker(entry: &SubjectInfo, runtime: Option<Runtime>) -> Ticker {
    Ticker {
        subject: entry.name.to_owned(),
        runtime: runtime.map(|runtime| runtime.to_string()),
        broken_ns: None,
        kept_ns: None,
        broken_above_ns: Vec::new(),
        stopped: StopReason::Found,
        failure: None,
        looks: Vec::new(),
    }
}

/// Goals that can hold together, and of which each asks for something.
fn agreed(goals: &[Goal]) -> exit::Result<Vec<Goal>> {
    if goals.len() > MAX_GOALS {
        return Err(usage!("{} goals; at most {MAX_GOALS} can be shown together", goals.len()));
    }
    for (i, goal) in goals.iter().enumerate() {
        if goals[..i].iter().any(|other| other.name == goal.name) {
            return Err(usage!(
                "--goal {} is given twice, and only the stricter one can matter; give it once",
                goal.name
            ));
        }
        let implied =
            |other: &&Goal| other.quantile() > goal.quantile() && other.limit <= goal.limit;
        if let Some(other) = goals.iter().filter(|_| goal.quantile().is_some()).find(implied) {
            let (weak, strong) = (text::goal(goal), text::goal(other));
            return Err(usage!(
                "where {strong} holds, so does {weak}: leave one of them out, or correct it"
            ));
        }
    }
    Ok(goals.to_vec())
}

/// Shows the progress, and ends the look when the time is up.
struct Watch {
    progress: Progress,
    until: Instant,
}

impl Observer for Watch {
    fn before_round(&mut self, scenario: &Scenario, index: u64) {
        self.progress.show(&scenario.id, index);
    }

    fn after_round(&mut self, _: &Scenario, _: &Result<MeasuredRound, String>) {
        self.progress.step();
    }

    fn should_stop(&self) -> bool {
        now() >= self.until
    }
}

fn ns(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[allow(clippy::disallowed_methods, reason = "the time that a search is given")]
fn now() -> Instant {
    Instant::now()
}
