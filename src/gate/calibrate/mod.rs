//! `osjitter calibrate`: what a gate can see on this machine.

pub mod args;
mod text;

use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use jitterstat::environment::EnvironmentKey;
use jitterstat::file::File as _;
use jitterstat::gate::calibration::{self, Calibration, LEAST_PAIRS, SCHEMA};
use jitterstat::gate::look::Rules;
use jitterstat::gate::round::{Pair, RoundValue, tail_quantile};
use jitterstat::gate::verdict;
use jitterstat::report::Host;

use crate::exit::{self, Error, ExitStatus, usage};
use crate::gate::calibrate;
use crate::gate::calibrate::args::CalibrateArgs;
use crate::machine::{host, os, tuning};
use crate::measure::order::{self, Observer};
use crate::measure::round::MeasuredRound;
use crate::render::formats::Format;
use crate::scenario::{self, Length, Plan, Scenario, ScenarioArgs};
use crate::text::units;
use crate::{files, interrupt, terminal};

/// Time between two rounds that is not spent ticking.
const SET_UP: Duration = Duration::from_millis(4);

/// Plans, measures for as long as asked, works out what it means, writes.
pub fn run(args: &CalibrateArgs) -> Result<ExitStatus, Error> {
    let planned = Planned::of(args)?;
    prove_writable(&args.out)?;
    planned.plan.tuning.cpu.map_or(Ok(()), tuning::bind)?;
    let host = host::capture();
    let started_utc = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    let (subject, seconds) = (&planned.plan.scenarios[0].id, planned.time.as_secs_f64());
    terminal::note(args.quiet, &format!("calibrate: {subject} against itself for {seconds:.0}s"));
    let stop = Arc::default();
    interrupt::stop_on_interrupt(&stop)?;

    let started = now();
    let mut recording = Recording::new(&planned, started, args.quiet);
    order::run(&planned.plan, &stop, &mut recording, |_, _| ());
    recording.progress.finish();
    let calibration = recording.calibration(host, started_utc, started.elapsed());

    let json = calibration.to_json();
    files::write_atomically(&args.out, json.as_bytes())
        .map_err(|e| Error::measure(format!("cannot write {}: {e}", args.out.display())))?;
    let text = match args.format {
        Format::Table => calibrate::text::table(&calibration),
        Format::Json => json,
    };
    let written = std::io::stdout().write_all(text.as_bytes()).map_err(Error::writing);
    terminal::note(args.quiet, &format!("calibration: {}", args.out.display()));
    written?;
    if let Some(failure) = calibration.failure {
        return Err(Error::measure(failure));
    }
    Ok(if calibration.partial { ExitStatus::NotMeasured } else { ExitStatus::Done })
}

/// What is settled before anything runs.
struct Planned {
    plan: Plan,
    rules: Rules,
    time: Duration,
    /// Pairs that the time holds, about.
    pairs: u64,
}

impl Planned {
    fn of(args: &CalibrateArgs) -> exit::Result<Self> {
        let time = args.time;
        let scenario_args = ScenarioArgs {
            subjects: vec![args.subject],
            periods: vec![args.period],
            runtimes: args.runtime.into_iter().collect(),
            length: Some(Length::Rounds(1)),
            round_ticks: args.round_ticks,
            warmup: args.warmup,
            ..ScenarioArgs::default()
        };
        let mut scenario = scenario_args.only()?;
        let ticks = u32::try_from(scenario.round_ticks + scenario.warmup_ticks).unwrap_or(u32::MAX);
        let pair_time = (scenario.period * ticks + SET_UP) * 2;
        let pairs = u64::try_from(time.as_nanos() / pair_time.as_nanos()).unwrap_or(u64::MAX);
        if pairs < LEAST_PAIRS as u64 {
            let least = pair_time.as_secs_f64() * LEAST_PAIRS as f64;
            return Err(usage!(
                "{} holds {pairs} pairs of rounds, and a calibration takes {LEAST_PAIRS}: give --time {:.0}s or more, or \
                 shorter rounds with --round-ticks",
                units::short(time),
                least.ceil()
            ));
        }
        // As many as could come if no time went by between the rounds; the clock ends it.
        scenario.ticks = scenario.round_ticks.saturating_mul(pairs.saturating_mul(2));
        let rules = Rules::new(scenario.period_ns());
        let plan = Plan {
            seed: args.seed.unwrap_or_else(scenario::draw_seed),
            tuning: tuning::Settings {
                cpu: args.cpu.or_else(|| os::affinity()?.last().copied()),
                ..tuning::Settings::default()
            },
            samples: false,
            scenarios: vec![scenario.clone(), Scenario { id: format!("{}#2", scenario.id), ..scenario }],
        };
        Ok(Self { plan, rules, time, pairs })
    }
}

/// Refuses a place that could not be written to in the end.
fn prove_writable(file: &Path) -> Result<(), Error> {
    let directory = file.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let probe = if file.is_dir() { Err(std::io::ErrorKind::IsADirectory.into()) } else { Ok(()) };
    let probe = probe.and_then(|()| tempfile::NamedTempFile::new_in(directory).map(drop));
    probe.map_err(|e| {
        let file = file.display();
        Error::usage(format!("cannot write {file}: {e}; choose another place with --out; nothing was run"))
    })
}

#[allow(clippy::disallowed_methods, reason = "wall time of the calibration")]
fn now() -> Instant {
    Instant::now()
}

/// The pairs so far.
struct Recording<'a> {
    planned: &'a Planned,
    until: Instant,
    progress: terminal::Progress,
    pairs: Vec<Pair>,
    /// The round of a side whose partner is still to come.
    open: [Option<RoundValue>; 2],
    resolution_ns: i64,
    steal_ns: Option<u64>,
    ended: bool,
    failure: Option<String>,
}

impl<'a> Recording<'a> {
    fn new(planned: &'a Planned, started: Instant, quiet: bool) -> Self {
        Self {
            planned,
            until: started + planned.time,
            progress: terminal::Progress::new(planned.pairs, quiet),
            pairs: Vec::new(),
            open: [None; 2],
            resolution_ns: host::clock_resolution_ns(),
            steal_ns: Some(0),
            ended: false,
            failure: None,
        }
    }

    fn scenario(&self) -> &Scenario {
        &self.planned.plan.scenarios[0]
    }

    fn calibration(self, host: Host, started_utc: String, elapsed: Duration) -> Calibration {
        let scenario = self.scenario();
        let (rules, pairs) = (&self.planned.rules, &self.pairs[..]);
        let ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let pair_ns = ns(elapsed) / (pairs.len() as u64).max(1);
        let metrics = calibration::metrics(pairs, rules, tail_quantile(scenario.round_ticks), pair_ns);
        let ticks = scenario.round_ticks + scenario.warmup_ticks;
        let ticking_ns = scenario.period_ns() as f64 * ticks as f64 * 2.0 * pairs.len() as f64;
        let cpus = host.cpus_online.filter(|_| !pairs.is_empty());
        Calibration {
            schema: SCHEMA.to_owned(),
            tool: host::tool(),
            started_utc,
            duration_ns: ns(elapsed),
            partial: !self.ended,
            failure: self.failure.clone(),
            environment: EnvironmentKey::of(&host),
            subject: scenario.id.clone(),
            plan: calibration::plan(
                scenario.period_ns(),
                scenario.round_ticks,
                scenario.warmup_ticks,
                rules,
                self.planned.plan.seed,
                self.planned.plan.tuning.cpu,
            ),
            pairs: pairs.len() as u64,
            pair_ns,
            warnings: calibration::warnings(&metrics, pairs.len()),
            metrics,
            inconclusive: calibration::inconclusive(pairs, rules, pair_ns),
            real_gates: calibration::real_gates(pairs, rules),
            same_stall_share: calibration::same_stall_share(pairs),
            steal_share: self.steal_ns.zip(cpus).map(|(ns, cpus)| ns as f64 / (ticking_ns * cpus as f64)),
            rounds: verdict::records(pairs),
        }
    }
}

impl Observer for Recording<'_> {
    fn before(&mut self, scenario: &Scenario, index: u64) {
        self.progress.show(&scenario.id, index);
    }

    fn after(&mut self, scenario: &Scenario, result: &Result<MeasuredRound, String>) {
        let round = match result {
            Err(reason) => {
                self.failure = Some(format!("{}: {reason}", scenario.id));
                return;
            }
            // An interrupted round is no round.
            Ok(round) if round.stopped => return,
            Ok(round) => round,
        };
        let tail = tail_quantile(scenario.round_ticks);
        let ticks = round.instances[0].samples.pairs();
        let Some(value) = RoundValue::of_ticks(ticks, scenario.period_ns(), tail, self.resolution_ns) else {
            self.failure = Some(format!("{}: a round delivered no tick", scenario.id));
            return;
        };
        self.open[usize::from(scenario.id != self.scenario().id)] = Some(value);
        self.steal_ns = self.steal_ns.zip(round.cost.steal_ns).map(|(sum, more)| sum + more);
        let [Some(a), Some(b)] = self.open else { return };
        self.open = [None; 2];
        self.pairs.push(Pair { a, b });
        self.progress.step();
        self.ended = now() >= self.until || self.pairs.len() as u64 == self.scenario().rounds();
    }

    fn knows_enough(&self) -> bool {
        self.ended || self.failure.is_some()
    }
}
