//! `osjitter gate`: two subjects, or two programs, in turn until the difference is known.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime};

use jitterstat::gate::look::{self, Look, Outcome, Rules};
use jitterstat::gate::round::{Pair, RoundValue, tail_quantile};
use jitterstat::gate::verdict::{self, GatePlan, SCHEMA, Side, Verdict};
use jitterstat::report::{Host, Plan, Scenario, Tool, Warning};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use crate::child::{self, Ask, Ended, Program};
use crate::cli::{GateArgs, OnInconclusive, VerdictFormat};
use crate::exit::{ExitStatus, Failure};
use crate::export::directory::Directory;
use crate::measure::{self, MeasuredRound, Observer, Shared};
use crate::plan::{self, File, OneOrMany, Options, RunOptions};
use crate::{export, host, interrupt, os, output, units};

/// Time between two rounds that is not spent ticking: a runtime, or a process.
const SET_UP: Duration = Duration::from_millis(4);
/// A command that takes so many times its length, and this, hangs.
const LIMIT: (u32, Duration) = (10, Duration::from_secs(10));

/// What is compared.
enum Sides {
    Subjects(Box<Plan>),
    Programs(Program, Program),
}

/// Plans, measures until a look decides, writes the verdict.
pub fn run(args: &GateArgs) -> Result<ExitStatus, Failure> {
    let planned = Planned::of(args).map_err(Failure::Usage)?;
    bind(planned.plan.cpu).map_err(Failure::Usage)?;
    let started_utc = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    let out = Directory::open(args.out.as_deref(), &started_utc).map_err(Failure::Usage)?;
    announce(&planned, args.quiet);
    let shared = Arc::new(Shared::default());
    interrupt::stop_on_interrupt(&shared)?;
    let host = host::capture();

    let started = now();
    let progress = output::Progress::new(*planned.plan.looks.last().unwrap_or(&0), args.quiet);
    let mut session = Session::new(&planned, Arc::clone(&shared), progress);
    match &planned.sides {
        Sides::Subjects(plan) => measure::run(plan, &shared, &mut session),
        Sides::Programs(a, b) => programs(a, b, &planned, &mut session),
    }
    let verdict = session.verdict(started_utc, started.elapsed(), host);

    let json = verdict.to_json();
    let file = out.write("verdict.json", &json)?;
    let text = match args.format {
        VerdictFormat::Table => export::verdict::table(&verdict),
        VerdictFormat::Json => json,
        VerdictFormat::Markdown => export::verdict::markdown(&verdict),
        VerdictFormat::Junit => export::verdict::junit(&verdict),
    };
    let written = std::io::stdout().write_all(text.as_bytes()).map_err(Failure::writing);
    output::note(args.quiet, &format!("verdict: {}", file.display()));
    if verdict.verdict == Outcome::Inconclusive {
        // Said even when asked to be quiet: an exit code of 0 must not be taken for a pass.
        output::note(false, &format!("NOT A PASS. {}", export::verdict::sentence(&verdict)));
    }
    written?;
    Ok(match verdict.verdict {
        _ if verdict.partial => ExitStatus::NotMeasured,
        Outcome::Regressed => ExitStatus::Regressed,
        Outcome::Inconclusive if args.on_inconclusive == OnInconclusive::Fail => ExitStatus::Inconclusive,
        _ => ExitStatus::Done,
    })
}

/// What is settled before anything runs.
struct Planned {
    sides: Sides,
    names: [String; 2],
    rules: Rules,
    plan: GatePlan,
    limit: Duration,
}

impl Planned {
    fn of(args: &GateArgs) -> Result<Self, String> {
        let period = units::period(&args.period)?;
        let seed = args.seed.unwrap_or_else(plan::draw_seed);
        let scenario = |subject: &str| scenario(args, subject, args.max_rounds);
        // Commands follow the same rule for the length of a round as any subject does.
        let mut like = scenario(args.a.as_deref().unwrap_or("nanosleep"))?;
        let mut rules = Rules::new(like.period_ns);
        rules.floor_ns = units::duration(&args.floor)?.as_nanos() as f64;
        let tail = tail_quantile(like.round_ticks);
        tolerances(&args.tolerance, tail, &mut rules)?;
        let pair_time = (period * u32::try_from(like.round_ticks + like.warmup_ticks).unwrap_or(u32::MAX) + SET_UP) * 2;
        let most = args.max_time.as_deref().map(units::duration).transpose()?;
        rules.looks = looks(args.max_rounds, pair_time, most)?;
        let rounds = rules.looks.last().map_or(0, |&n| n as u64);
        let (sides, names, cpu) = match (&args.a, &args.b, &args.baseline_cmd, &args.candidate_cmd) {
            (Some(_), Some(b), _, _) => {
                like.ticks = like.round_ticks * rounds;
                let mut other = Scenario { ticks: like.round_ticks * rounds, ..scenario(b)? };
                if other.id == like.id {
                    other.id.push_str("#2");
                }
                let names = [like.id.clone(), other.id.clone()];
                let cpu = args.cpu.or_else(|| os::affinity()?.last().copied());
                let scenarios = vec![like.clone(), other];
                let run =
                    Plan { seed, samples: false, cpu, sched: None, mlock: false, timer_slack_ns: None, scenarios };
                (Sides::Subjects(Box::new(run)), names, cpu)
            }
            (_, _, Some(a), Some(b)) => {
                let (a, b) = (Program::parse(a)?, Program::parse(b)?);
                let names = [a.text().to_owned(), b.text().to_owned()];
                (Sides::Programs(a, b), names, args.cpu)
            }
            _ => return Err("give --a and --b, or --baseline-cmd and --candidate-cmd".to_owned()),
        };
        let limit = match args.round_time_limit.as_deref().map(units::duration).transpose()? {
            Some(limit) => limit,
            None => pair_time / 2 * LIMIT.0 + LIMIT.1,
        };
        let plan = GatePlan {
            period_ns: like.period_ns,
            round_ticks: like.round_ticks,
            warmup_ticks: like.warmup_ticks,
            seed,
            cpu,
            alpha: rules.alpha,
            looks: verdict::looks(&rules),
        };
        Ok(Self { sides, names, rules, plan, limit })
    }

    fn period(&self) -> Duration {
        Duration::from_nanos(self.plan.period_ns)
    }

    fn pair_time(&self) -> Duration {
        let ticks = self.plan.round_ticks + self.plan.warmup_ticks;
        (self.period() * u32::try_from(ticks).unwrap_or(u32::MAX) + SET_UP) * 2
    }

    fn tail(&self) -> f64 {
        tail_quantile(self.plan.round_ticks)
    }
}

fn scenario(args: &GateArgs, subject: &str, rounds: u64) -> Result<Scenario, String> {
    const MANY_TICKS: u64 = 100_000;
    let options = Options {
        subject: Some(OneOrMany::One(subject.to_owned())),
        period: Some(OneOrMany::One(args.period.clone())),
        // Enough that a round takes its full length.
        ticks: Some(args.round_ticks.map_or(MANY_TICKS, |n| n.saturating_mul(rounds))),
        round_ticks: args.round_ticks,
        warmup: args.warmup,
        runtime: args.runtime.clone().map(OneOrMany::One),
        ..Options::default()
    };
    let run = RunOptions { seed: Some(0), ..RunOptions::default() };
    let mut scenarios = plan::build(&File::default(), &options, &run)?.scenarios;
    match (scenarios.pop(), scenarios.is_empty()) {
        (Some(one), true) => Ok(one),
        _ => Err(format!("{subject:?} stands for several subjects; name one")),
    }
}

fn tolerances(given: &[String], tail: f64, rules: &mut Rules) -> Result<(), String> {
    let tail_name = if tail > 0.95 { "p99" } else { "p90" };
    for text in given {
        let bad = || format!("no tolerance {text:?}; write p50=20% or {tail_name}=50%");
        let (name, value) = text.split_once('=').ok_or_else(bad)?;
        let percent: f64 = value.strip_suffix('%').and_then(|v| v.trim().parse().ok()).ok_or_else(bad)?;
        if !(percent > 0.0 && percent.is_finite()) {
            return Err(bad());
        }
        match name {
            "p50" => rules.tolerance_median = percent / 100.0,
            name if name == tail_name => rules.tolerance_tail = percent / 100.0,
            "p99" => return Err("rounds this short carry no p99; the gate judges p90 instead".to_owned()),
            _ => return Err(bad()),
        }
    }
    Ok(())
}

/// 50, 100, 200 and so on up to `most_pairs`, as far as the time allows.
fn looks(most_pairs: u64, pair_time: Duration, most_time: Option<Duration>) -> Result<Vec<usize>, String> {
    let most_pairs = usize::try_from(most_pairs).unwrap_or(usize::MAX);
    let mut looks: Vec<usize> =
        std::iter::successors(Some(look::LOOKS[0]), |n| Some(n * 2)).take_while(|&n| n < most_pairs).collect();
    looks.push(most_pairs);
    if let Some(time) = most_time {
        let takes = |n: usize| pair_time.as_secs_f64() * n as f64;
        let first = looks[0];
        looks.retain(|&n| takes(n) <= time.as_secs_f64());
        if looks.is_empty() {
            return Err(format!(
                "the first look, at {first} pairs, takes about {:.0}s; allow more with --max-time, or choose shorter \
                 rounds with --round-ticks",
                takes(first)
            ));
        }
    }
    Ok(looks)
}

fn bind(cpu: Option<usize>) -> Result<(), String> {
    let Some(cpu) = cpu else { return Ok(()) };
    if os::affinity().is_some_and(|allowed| !allowed.contains(&cpu)) {
        return Err(format!("CPU {cpu} is not there or not allowed; nothing was run"));
    }
    os::bind(cpu).map_err(|e| format!("cannot bind to CPU {cpu}: {e}; nothing was run"))
}

fn announce(planned: &Planned, quiet: bool) {
    let takes = |n: u64| planned.pair_time().as_secs_f64() * n as f64;
    let (first, last) = (planned.plan.looks[0], *planned.plan.looks.last().unwrap_or(&0));
    let tail = if planned.tail() > 0.95 { "" } else { "; rounds this short are judged by p90 instead of p99" };
    output::note(
        quiet,
        &format!("gate: {:.0}s to the first look, at most {:.0}s to the last{tail}", takes(first), takes(last)),
    );
}

#[allow(clippy::disallowed_methods, reason = "wall time of the gate")]
fn now() -> Instant {
    Instant::now()
}

/// The pairs so far.
struct Session<'a> {
    planned: &'a Planned,
    shared: Arc<Shared>,
    progress: output::Progress,
    pairs: Vec<Pair>,
    /// The round of a side whose partner is still to come.
    open: [Option<RoundValue>; 2],
    steal_ns: [Option<u64>; 2],
    last: Option<Look>,
    looks_taken: u64,
    decided: bool,
    failure: Option<String>,
}

impl<'a> Session<'a> {
    fn new(planned: &'a Planned, shared: Arc<Shared>, progress: output::Progress) -> Self {
        Self {
            planned,
            shared,
            progress,
            pairs: Vec::new(),
            open: [None; 2],
            steal_ns: [Some(0); 2],
            last: None,
            looks_taken: 0,
            decided: false,
            failure: None,
        }
    }

    /// Takes the round of a side (0 is A); looks if a look is due.
    fn add(&mut self, side: usize, lateness_ns: &[i64], steal_ns: Option<u64>) {
        let value = RoundValue::of(lateness_ns, self.planned.plan.period_ns, self.planned.tail());
        let Some(value) = value else { return self.fail("a round delivered no tick".to_owned()) };
        self.open[side] = Some(value);
        self.steal_ns[side] = self.steal_ns[side].zip(steal_ns).map(|(sum, more)| sum + more);
        let [Some(a), Some(b)] = self.open else { return };
        self.open = [None; 2];
        self.pairs.push(Pair { a, b });
        self.progress.step();
        let looks = &self.planned.rules.looks;
        if let Some(which) = looks.iter().position(|&n| n == self.pairs.len()) {
            let last = which + 1 == looks.len();
            let look = look::look(&self.pairs, &self.planned.rules, last);
            (self.last, self.looks_taken) = (Some(look), which as u64 + 1);
            self.decided = last || look.outcome != Outcome::Inconclusive;
        }
    }

    fn fail(&mut self, why: String) {
        self.failure = Some(why);
        self.shared.stop.store(true, Ordering::Relaxed);
    }

    fn verdict(self, started_utc: String, duration: Duration, host: Host) -> Verdict {
        self.progress.finish();
        let partial = !self.decided;
        // Without a planned look there is no verdict, only what the pairs look like.
        let look = self.last.filter(|_| self.decided);
        let outcome = look.map_or(Outcome::Inconclusive, |l| l.outcome);
        let shown = look.or_else(|| partial.then(|| look::look(&self.pairs, &self.planned.rules, false)));
        let mut metrics = shown.map_or_else(Vec::new, |l| verdict::metrics(&l, self.planned.tail()));
        if partial {
            metrics.iter_mut().for_each(|m| m.verdict = Outcome::Inconclusive);
        }
        let open = |l: &Look| [l.median.reason, l.tail.reason].into_iter().flatten().next();
        let plan = self.planned.plan.clone();
        let cpus = host.cpus_online.unwrap_or(1).max(1) as f64;
        let round_ns = plan.period_ns as f64 * (plan.round_ticks + plan.warmup_ticks) as f64;
        let side = |which: usize, name: &str| {
            let of = |p: &Pair| if which == 0 { p.a } else { p.b };
            let all: usize = self.pairs.iter().map(|p| of(p).kept + of(p).same_stall).sum();
            let stalled: usize = self.pairs.iter().map(|p| of(p).same_stall).sum();
            let steal = self.steal_ns[which].filter(|_| !self.pairs.is_empty());
            Side {
                side: name.to_owned(),
                same_stall_share: stalled as f64 / all.max(1) as f64,
                steal_share: steal.map(|ns| ns as f64 / (round_ns * self.pairs.len() as f64 * cpus)),
            }
        };
        let sides = vec![side(0, "a"), side(1, "b")];
        let [a, b] = self.planned.names.clone();
        Verdict {
            schema: SCHEMA.to_owned(),
            tool: Tool {
                name: env!("CARGO_PKG_NAME").to_owned(),
                version: env!("CARGO_PKG_VERSION").to_owned(),
                commit: Some(env!("OSJITTER_COMMIT").to_owned()).filter(|c| !c.is_empty()),
            },
            started_utc,
            duration_ns: u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX),
            partial,
            verdict: outcome,
            reason: look.as_ref().filter(|l| l.outcome == Outcome::Inconclusive).and_then(open),
            a,
            b,
            plan,
            pairs: self.pairs.len() as u64,
            looks_taken: self.looks_taken,
            metrics: if self.pairs.is_empty() { Vec::new() } else { metrics },
            sides,
            failure: self.failure,
            host,
            warnings: Vec::<Warning>::new(),
            rounds: verdict::records(&self.pairs),
        }
    }
}

impl Observer for Session<'_> {
    fn before(&mut self, scenario: &Scenario, index: u64) {
        self.progress.show(&scenario.id, index);
    }

    fn after(&mut self, scenario: &Scenario, result: Result<MeasuredRound, String>) {
        match result {
            Err(reason) => self.fail(format!("{}: {reason}", scenario.id)),
            // An interrupted round is no round.
            Ok(round) if round.stopped => {}
            Ok(round) => {
                let side = usize::from(scenario.id != self.planned.names[0]);
                self.add(side, &round.instances[0].samples.lateness_ns, round.cost.steal_ns);
                if self.decided {
                    self.shared.stop.store(true, Ordering::Relaxed);
                }
            }
        }
    }
}

fn programs(a: &Program, b: &Program, planned: &Planned, session: &mut Session<'_>) {
    let mut random = SmallRng::seed_from_u64(planned.plan.seed);
    let ask = Ask {
        period: planned.period(),
        ticks: planned.plan.round_ticks,
        warmup: planned.plan.warmup_ticks,
        limit: planned.limit,
    };
    let shared = Arc::clone(&session.shared);
    while !session.decided {
        let order = if random.random::<bool>() { [0, 1] } else { [1, 0] };
        for side in order {
            let before = os::steal_ns();
            match child::round([a, b][side], ask, &shared.stop) {
                Ok(lateness_ns) => {
                    let steal_ns = os::steal_ns().zip(before).map(|(now, then)| now.saturating_sub(then));
                    session.add(side, &lateness_ns, steal_ns);
                }
                Err(Ended::Interrupted) => return,
                Err(Ended::Failed(why)) => return session.fail(why),
            }
            if session.failure.is_some() {
                return;
            }
        }
    }
}
