//! The question of whole runs: is program B worse than A by its wall time, or by any other number?

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use jitterstat::gate::look::{Outcome, Reason, Rules};
use jitterstat::gate::metric::{JudgedMetric, MetricRule};
use jitterstat::gate::verdict::{Mode, RunMetric, RunsVerdict, Verdict};
use jitterstat::stats::random::SplitMix64;

use crate::exit::{self, Error, usage};
use crate::gate::args::{GateArgs, Tolerance};
use crate::gate::pairs::now;
use crate::gate::question::{Gate, Question};
use crate::gate::reading::Judged;
use crate::gate::sides::{DEFAULT_PAIRS, like_a_program, looks, names};
use crate::gate::text::{Section, code, counted};
use crate::machine::tuning;
use crate::measure::child::{self, Asked, NotMeasured};
use crate::measure::metric::{self, Number, Shown, Wanted};
use crate::program::Program;
use crate::scenario::draw_seed;
use crate::terminal::{self, Progress};
use crate::text::time::{long, time};
use crate::text::units::short;

/// Tolerated of a number, and of a tail percentile, unless told otherwise.
const TOLERANCE: [f64; 2] = [0.05, 0.20];
/// Time limit of the first run, of which nothing is known.
const FIRST_LIMIT: Duration = Duration::from_secs(600);
/// What makes a pair of runs shorter.
const SHORTER: &str = "give the programs less to do";

/// Two programs to be judged by numbers of their runs.
struct Runs {
    programs: [Program; 2],
    prepare: Option<Program>,
    names: [String; 2],
    wanted: Vec<Wanted>,
    tolerances: Vec<Tolerance>,
    floor_ns: f64,
    warmup_runs: u64,
    min_run_time: Duration,
    /// What they are asked, should they tick.
    period: Duration,
    ticks: [u64; 2],
    limit: Option<Duration>,
    most_pairs: u64,
    most_time: Option<Duration>,
    seed: u64,
    cpu: Option<usize>,
}

/// Why there is no number.
enum Stop {
    /// Nothing was measured: bad usage.
    Refused(Error),
    Cut(NotMeasured),
}

impl From<NotMeasured> for Stop {
    fn from(why: NotMeasured) -> Self {
        match why {
            NotMeasured::NotStarted(what) => Self::Refused(Error::usage(what)),
            why => Self::Cut(why),
        }
    }
}

pub fn plan(args: &GateArgs) -> exit::Result<Option<Box<dyn Question>>> {
    if args.metric.is_empty() {
        return Ok(None);
    }
    let (Some(a), Some(b)) = (&args.baseline_cmd, &args.candidate_cmd) else {
        return Err(Error::usage("--metric is of two programs; give --baseline-cmd and --candidate-cmd"));
    };
    let like = like_a_program(&args.judged)?;
    let rounds = &args.judged.rounds;
    Ok(Some(Box::new(Runs {
        programs: [a.clone(), b.clone()],
        prepare: args.prepare.clone(),
        names: names(args, [a, b]),
        wanted: args.metric.clone(),
        tolerances: args.judged.tolerance.clone(),
        floor_ns: args.judged.floor.as_nanos() as f64,
        warmup_runs: args.warmup_runs,
        min_run_time: args.min_run_time,
        period: like.period,
        ticks: [like.round_ticks, like.warmup_ticks],
        limit: args.max_round_time,
        most_pairs: args.max_pairs.unwrap_or(DEFAULT_PAIRS[0]),
        most_time: args.max_time,
        seed: rounds.seed.unwrap_or_else(draw_seed),
        cpu: rounds.cpu,
    })))
}

impl Question for Runs {
    fn announce(&self) -> Vec<String> {
        vec![format!("first {} of each side, to be dropped", counted(self.warmup_runs, "run"))]
    }

    fn prepare(&self, _stop: &std::sync::Arc<std::sync::atomic::AtomicBool>) -> exit::Result<()> {
        self.programs.iter().chain(&self.prepare).try_for_each(Program::find).map_err(Error::usage)?;
        self.cpu.map_or(Ok(()), tuning::bind)
    }

    fn ask(self: Box<Self>, gate: &mut Gate) -> exit::Result<()> {
        if gate.over().is_some() {
            gate.cut_short(None);
            return Ok(());
        }
        let mut verdict = RunsVerdict {
            a: self.names[0].clone(),
            b: self.names[1].clone(),
            duration_ns: 0,
            verdict: Outcome::Inconclusive,
            reason: None,
            warmup_runs: self.warmup_runs,
            prepare: self.prepare.as_ref().map(|program| program.text().to_owned()),
            seed: self.seed,
            cpu: self.cpu,
            alpha: Rules::new(1).alpha,
            looks: Vec::new(),
            pairs: 0,
            looks_taken: 0,
            metrics: Vec::new(),
        };
        let started = now();
        match self.measure(gate, &mut verdict, started) {
            Ok(()) => {}
            Err(Stop::Refused(error)) if verdict.pairs == 0 => return Err(error),
            Err(stop) => {
                let (reason, failure) = match stop {
                    Stop::Refused(error) => (Reason::NotMeasured, Some(error.to_string())),
                    Stop::Cut(NotMeasured::Interrupted) => (Reason::Interrupted, None),
                    Stop::Cut(why) => (Reason::NotMeasured, why.message()),
                };
                verdict.metrics.iter_mut().for_each(|m| (m.verdict, m.reason) = (Outcome::Inconclusive, Some(reason)));
                (verdict.verdict, verdict.reason) = (Outcome::Inconclusive, Some(reason));
                gate.cut_short(failure);
            }
        }
        verdict.duration_ns = u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX);
        gate.verdict.runs = Some(verdict);
        Ok(())
    }
}

impl Runs {
    /// Runs both until a look decides; what there is of it is in the verdict in any case.
    fn measure(&self, gate: &Gate, verdict: &mut RunsVerdict, started: Instant) -> Result<(), Stop> {
        let first = self.warm_up(gate)?;
        let numbers = self.numbers(&first).map_err(Stop::Refused)?;
        let pair_time = started.elapsed() / u32::try_from(self.warmup_runs).unwrap_or(u32::MAX);
        let looks =
            looks(Mode::Interleaved, self.most_pairs, pair_time, self.most_time, SHORTER).map_err(Stop::Refused)?;
        let rules: Vec<MetricRule> = numbers.iter().map(|number| self.rule(number)).collect();
        let takes = |pairs: usize| pair_time.as_secs_f64() * pairs as f64;
        let last = looks[looks.len() - 1];
        let announced =
            format!("gate: {} to the first look, at most {} to the last", long(takes(looks[0])), long(takes(last)));
        terminal::note(gate.quiet, &announced);
        verdict.looks = looks.iter().map(|&n| n as u64).collect();
        let longest = first[0].wall.max(first[1].wall);
        let limit = self.limit.unwrap_or(child::limit(longest));
        let share = verdict.alpha / (numbers.len() * looks.len()) as f64;
        let mut random = SplitMix64::new(self.seed);
        let mut values: Vec<Vec<[f64; 2]>> = vec![Vec::new(); numbers.len()];
        let progress = Progress::new(last as u64, gate.quiet);
        let mut result = Ok(());
        let mut over = false;
        for pair in 1..=last {
            // The looks were planned by the first runs; later ones may take longer.
            over = self.most_time.is_some_and(|most| started.elapsed() > most);
            if over {
                break;
            }
            let one = |side: usize| {
                progress.show(&self.names[side], verdict.pairs);
                self.run(side, limit, gate).and_then(|run| self.read(side, &numbers, &run))
            };
            let both = if random.coin() {
                one(0).and_then(|a| Ok([a, one(1)?]))
            } else {
                one(1).and_then(|b| Ok([one(0)?, b]))
            };
            match both {
                Ok([a, b]) => values.iter_mut().zip(a.into_iter().zip(b)).for_each(|(of, (a, b))| of.push([a, b])),
                Err(why) => {
                    result = Err(why.into());
                    break;
                }
            }
            verdict.pairs = pair as u64;
            progress.step();
            if !looks.contains(&pair) {
                continue;
            }
            verdict.looks_taken += 1;
            let judged = rules.iter().zip(&values).map(|(rule, values)| rule.judge(values, share, pair == last));
            let judged: Vec<JudgedMetric> = judged.collect();
            verdict.verdict = Outcome::of_all(judged.iter().map(|j| j.outcome));
            if verdict.verdict != Outcome::Inconclusive {
                break;
            }
        }
        progress.finish();
        // The last look, or what there is without one.
        let of = |((number, rule), values): ((&Number, &MetricRule), &Vec<[f64; 2]>)| {
            let judged = rule.judge(values, share, verdict.pairs == last as u64);
            metric_of(number, judged, values)
        };
        let mut metrics: Vec<RunMetric> = numbers.iter().zip(&rules).zip(&values).map(of).collect();
        for metric in metrics.iter_mut().filter(|_| over) {
            // Between two looks nothing is decided.
            metric.verdict = Outcome::Inconclusive;
            metric.reason.get_or_insert(Reason::TooFewRounds);
        }
        let open = metrics.iter().find_map(|m| m.reason.filter(|_| m.verdict == Outcome::Inconclusive));
        verdict.reason = open.filter(|_| verdict.verdict == Outcome::Inconclusive);
        verdict.metrics = if verdict.pairs == 0 { Vec::new() } else { metrics };
        result
    }

    /// The runs that are dropped: they fill the caches, and the last of each side shows what can be judged.
    fn warm_up(&self, gate: &Gate) -> Result<[Shown; 2], Stop> {
        let limit = self.limit.unwrap_or(FIRST_LIMIT);
        for _ in 1..self.warmup_runs {
            [0, 1].into_iter().try_for_each(|side| self.run(side, limit, gate).map(drop))?;
        }
        Ok([self.run(0, limit, gate)?, self.run(1, limit, gate)?])
    }

    fn run(&self, side: usize, limit: Duration, gate: &Gate) -> Result<Shown, NotMeasured> {
        let asked = Asked { period: self.period, ticks: self.ticks[0], warmup: self.ticks[1], series: false, limit };
        if let Some(prepare) = &self.prepare {
            child::run(prepare, Asked { limit: self.limit.unwrap_or(FIRST_LIMIT), ..asked }, &gate.stop)?;
        }
        if gate.stop.load(Ordering::Relaxed) {
            return Err(NotMeasured::Interrupted);
        }
        metric::run(&self.programs[side], &self.wanted, asked, &gate.stop)
    }

    /// What is judged, by a run of each side; refused where a side does not show it, or they show different things.
    fn numbers(&self, first: &[Shown; 2]) -> exit::Result<Vec<Number>> {
        let of = |side: usize| {
            let name = self.programs[side].text();
            metric::numbers(&self.wanted, &first[side]).map_err(|what| usage!("{name}: {what}; nothing was judged"))
        };
        let [a, b] = [of(0)?, of(1)?];
        let said = |n: &Number| (n.name.clone(), n.unit.clone(), n.higher_is_better);
        if let Some((a, b)) = a.iter().zip(&b).find(|(a, b)| said(a) != said(b)) {
            return Err(usage!(
                "the sides write different metrics: {} in {} and {} in {}",
                a.name,
                a.unit,
                b.name,
                b.unit
            ));
        }
        if let Some(twice) = (1..a.len()).find(|&i| a[..i].contains(&a[i])) {
            return Err(usage!("--metric asks twice for {}", a[twice].name));
        }
        if let Some(unknown) = self.tolerances.iter().find(|t| !a.iter().any(|number| is_for(t, number))) {
            let names: Vec<&str> = a.iter().map(|number| number.name.as_str()).collect();
            return Err(usage!("--tolerance is of {}, and judged are {}", unknown.name, names.join(", ")));
        }
        let shortest = first[0].wall.min(first[1].wall);
        if self.wanted.iter().any(Wanted::has_the_start) && shortest < self.min_run_time {
            return Err(usage!(
                "a run takes {}, and starting the process is much of that; give it more to do, or a shorter \
                 --min-run-time than {}",
                time(i64::try_from(shortest.as_nanos()).unwrap_or(i64::MAX)),
                short(self.min_run_time)
            ));
        }
        if let Some(t) =
            self.tolerances.iter().find(|t| t.rise >= 1.0 && a.iter().any(|n| n.higher_is_better && is_for(t, n)))
        {
            return Err(usage!("more of {} is better: it cannot fall by {:.0}%", t.name, t.rise * 100.0));
        }
        Ok(b)
    }

    /// The numbers of a run.
    fn read(&self, side: usize, numbers: &[Number], run: &Shown) -> Result<Vec<f64>, NotMeasured> {
        let values: Result<Vec<f64>, String> = numbers.iter().map(|number| number.value(run)).collect();
        values.map_err(|what| NotMeasured::Failed(format!("{}: {what}", self.programs[side].text())))
    }

    fn rule(&self, number: &Number) -> MetricRule {
        let is_tail = ["p90", "p95", "p99"].iter().any(|tail| number.name.ends_with(&format!(":{tail}")));
        let asked = self.tolerances.iter().rev().find(|tolerance| is_for(tolerance, number));
        MetricRule {
            higher_is_better: number.higher_is_better,
            tolerance: asked.map_or(TOLERANCE[usize::from(is_tail)], |tolerance| tolerance.rise),
            floor: if number.unit == "ns" && !number.higher_is_better { self.floor_ns } else { 0.0 },
        }
    }
}

/// By its whole name, or by that of the metric for all its percentiles.
fn is_for(tolerance: &Tolerance, number: &Number) -> bool {
    let rest = number.name.strip_prefix(&tolerance.name);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(':'))
}

fn metric_of(number: &Number, judged: JudgedMetric, values: &[[f64; 2]]) -> RunMetric {
    RunMetric {
        name: number.name.clone(),
        unit: number.unit.clone(),
        higher_is_better: number.higher_is_better,
        verdict: judged.outcome,
        reason: judged.reason,
        ratio: judged.ratio,
        ratio_interval: judged.ratio_interval,
        tolerated_ratio: judged.tolerated_ratio,
        a: judged.sides[0],
        b: judged.sides[1],
        pairs: judged.pairs as u64,
        pairs_to_decide: judged.pairs_to_decide,
        values: values.to_vec(),
    }
}

/// A value in its unit, with three digits.
fn shown(value: f64, unit: &str) -> String {
    match unit {
        "ns" => time(value.round() as i64),
        "bytes" if value >= 1024.0 * 1024.0 => format!("{:.1} MiB", value / 1024.0 / 1024.0),
        "bytes" => format!("{value:.0} bytes"),
        _ if value >= 100.0 => format!("{value:.0} {unit}"),
        _ => format!("{value:.*} {unit}", (2.0 - value.log10().floor()).clamp(0.0, 12.0) as usize),
    }
}

pub fn sections(verdict: &Verdict) -> Vec<Section> {
    verdict.runs.iter().map(section).collect()
}

fn section(of: &RunsVerdict) -> Section {
    let RunsVerdict { a, b, pairs, .. } = of;
    let seconds = of.duration_ns as f64 / 1e9;
    let row = |m: &RunMetric| Judged::from(m).row(b, &m.name, vec![shown(m.a, &m.unit), shown(m.b, &m.unit)]);
    let open = of.metrics.iter().filter(|m| m.verdict == Outcome::Inconclusive);
    let to_decide = open.filter_map(|m| m.pairs_to_decide).max();
    let advice = to_decide.filter(|_| of.verdict == Outcome::Inconclusive && *pairs > 0).map(|n| {
        let takes = seconds / *pairs as f64 * n as f64;
        let takes = long(takes);
        format!("about {n} pairs of runs ({takes}) would probably decide {b} against {a}: --max-pairs {n}")
    });
    Section {
        title: [format!("A  {a}\nB  {b}"), format!("A: {}, B: {}", code(a), code(b))],
        of: ("Metric", code),
        headings: vec!["median A", "median B", "change in pairs", "interval", "tolerated"],
        rows: of.metrics.iter().map(row).collect(),
        measured: format!("{pairs} pairs of runs, {}, {seconds:.1}s", counted(of.looks_taken, "look")),
        sides: Vec::new(),
        notes: Vec::new(),
        lifts: Vec::new(),
        advice,
    }
}
