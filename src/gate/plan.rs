//! What is settled before anything runs: the comparisons, their looks, their share of alpha, how long they take.

use std::time::Duration;

use jitterstat::gate::look::{DUET_LOOKS, LOOKS, Rules};
use jitterstat::gate::round::{tail_name, tail_quantile};
use jitterstat::gate::verdict::{self, GatePlan, Mode};

use crate::gate::args::{GateArgs, JudgedArgs};
use crate::machine::{host, os};
use crate::measure::child::Program;
use crate::scenario::{self, Length, Scenario, ScenarioArgs};
use crate::subject::Entry;

/// Time between two rounds that is not spent ticking: a runtime, or a process.
const SET_UP: Duration = Duration::from_millis(4);
/// A command that takes so many times its length, and this, hangs.
const HANGS: (u32, Duration) = (10, Duration::from_secs(10));
/// Pairs after which a comparison ends undecided, in turn and at once.
const DEFAULT_PAIRS: [u64; 2] = [400, 200];
/// Time before a round of two at once.
const DUET_SET_UP: Duration = Duration::from_millis(14);
/// What is compared.
pub enum Sides {
    /// Two kinds of ticker, in this process.
    Subjects(Box<[Scenario; 2]>),
    /// Two programs of the user's own.
    Programs(Program, Program),
}

/// One comparison, ready to run.
pub struct Comparison {
    pub sides: Sides,
    pub names: [String; 2],
    pub mode: Mode,
    pub rules: Rules,
    pub plan: GatePlan,
    /// When one round of a program is ended by force.
    pub round_limit: Duration,
    /// Step of the clock that stamps the ticks.
    pub resolution_ns: i64,
}

impl Comparison {
    /// Nominal period.
    pub fn period(&self) -> Duration {
        Duration::from_nanos(self.plan.period_ns)
    }

    /// Quantile that stands for the tail.
    pub fn tail(&self) -> f64 {
        tail_quantile(self.plan.round_ticks)
    }

    /// How long so many pairs take.
    pub fn time_of(&self, pairs: u64) -> Duration {
        pair_time(self.period(), self.plan.round_ticks + self.plan.warmup_ticks, self.mode).mul_f64(pairs as f64)
    }

    /// Pairs at the last look.
    pub fn most_pairs(&self) -> u64 {
        self.plan.looks.last().copied().unwrap_or(0)
    }
}

/// Every comparison that the arguments ask for; they share alpha and the time.
pub fn comparisons(args: &GateArgs) -> Result<Vec<Comparison>, String> {
    let judged = &args.judged;
    let seed = judged.seed.unwrap_or_else(scenario::draw_seed);
    let mode = if args.duet { Mode::Duet } else { Mode::Interleaved };
    let pairs = args.max_rounds.unwrap_or(DEFAULT_PAIRS[usize::from(args.duet)]);
    let mut planned = Vec::new();
    if args.a.len() != args.b.len() {
        return Err(format!("{} times --a and {} times --b; give as many of each", args.a.len(), args.b.len()));
    }
    for period in periods(judged) {
        for (a, b) in args.a.iter().zip(&args.b) {
            let a = scenario(judged, scenario::one_subject(a)?, period, pairs)?;
            let mut b = scenario(judged, scenario::one_subject(b)?, period, pairs)?;
            if a.id == b.id {
                b.id.push_str("#2");
            }
            let names = [a.id.clone(), b.id.clone()];
            planned.push((a.clone(), Sides::Subjects(Box::new([a, b])), names, one_cpu(judged)));
        }
    }
    if let (Some(a), Some(b)) = (&args.baseline_cmd, &args.candidate_cmd) {
        let [period] = periods(judged)[..] else {
            return Err("commands run at one period of their own; give --period once".to_owned());
        };
        if judged.runtime.is_some() {
            return Err("--runtime is for tokio subjects; a command chooses its own".to_owned());
        }
        let (a, b) = (Program::parse(a)?, Program::parse(b)?);
        let names = [a.text().to_owned(), b.text().to_owned()];
        // Commands follow the same rule for the length of a round as any subject does.
        planned.push((
            scenario(judged, scenario::one_subject("nanosleep")?, period, pairs)?,
            Sides::Programs(a, b),
            names,
            judged.cpu,
        ));
    }
    let several = planned.len();
    let most_time = args.max_time.map(|time| time / u32::try_from(several.max(1)).unwrap_or(u32::MAX));
    let round_limit = args.round_time_limit;
    let of = |(like, sides, names, cpu): (Scenario, Sides, [String; 2], Option<usize>)| {
        let mut rules = rules(judged, &like)?.one_of(several);
        let period = like.period;
        let pair_time = pair_time(period, like.round_ticks + like.warmup_ticks, mode);
        rules.looks = looks(mode, pairs, pair_time, most_time)?;
        let plan = gate_plan(&like, &rules, seed, cpu);
        let round_limit = round_limit.unwrap_or(pair_time / 2 * HANGS.0 + HANGS.1);
        Ok(Comparison { sides, names, mode, rules, plan, round_limit, resolution_ns: host::clock_resolution_ns() })
    };
    planned.into_iter().map(of).collect()
}

/// How a gate is measured, as the verdict tells it.
pub fn gate_plan(like: &Scenario, rules: &Rules, seed: u64, cpu: Option<usize>) -> GatePlan {
    GatePlan {
        period_ns: like.period_ns(),
        round_ticks: like.round_ticks,
        warmup_ticks: like.warmup_ticks,
        seed,
        cpu,
        alpha: rules.alpha,
        looks: verdict::looks(rules),
    }
}

pub fn periods(judged: &JudgedArgs) -> Vec<Duration> {
    if judged.period.is_empty() { vec![scenario::DEFAULT_PERIOD] } else { judged.period.clone() }
}

/// The CPU that subjects are bound to: the one asked for, or one that is allowed.
pub fn one_cpu(judged: &JudgedArgs) -> Option<usize> {
    judged.cpu.or_else(|| os::affinity()?.last().copied())
}

/// One subject as a scenario of so many full rounds.
pub fn scenario(
    judged: &JudgedArgs,
    subject: &'static Entry,
    period: Duration,
    rounds: u64,
) -> Result<Scenario, String> {
    let args = ScenarioArgs {
        subjects: vec![subject],
        periods: vec![period],
        runtimes: judged.runtime.into_iter().collect(),
        length: Some(Length::Rounds(rounds)),
        round_ticks: judged.round_ticks,
        warmup: judged.warmup,
        ..ScenarioArgs::default()
    };
    args.only().map_err(|e| e.to_string())
}

/// The rules for rounds like these.
pub fn rules(judged: &JudgedArgs, like: &Scenario) -> Result<Rules, String> {
    let mut rules = Rules::new(like.period_ns());
    rules.floor_ns = judged.floor.as_nanos() as f64;
    let tail_name = tail_name(tail_quantile(like.round_ticks));
    for text in &judged.tolerance {
        let bad = || format!("no tolerance {text:?}; write p50=20% or {tail_name}=50%");
        let (name, value) = text.split_once('=').ok_or_else(bad)?;
        let percent: f64 = value.strip_suffix('%').and_then(|v| v.trim().parse().ok()).ok_or_else(bad)?;
        if !(percent > 0.0 && percent.is_finite()) {
            return Err(bad());
        }
        match name {
            "p50" => rules.tolerance_median = percent / 100.0,
            name if name == tail_name => rules.tolerance_tail = percent / 100.0,
            "p99" | "p95" | "p90" => {
                let ticks = like.round_ticks;
                return Err(format!("rounds of {ticks} ticks are judged by {tail_name}, not by {name}"));
            }
            _ => return Err(bad()),
        }
    }
    Ok(rules)
}

/// How long one round of each side takes.
pub fn pair_time(period: Duration, ticks: u64, mode: Mode) -> Duration {
    let ticking = period * u32::try_from(ticks).unwrap_or(u32::MAX);
    match mode {
        Mode::Interleaved => (ticking + SET_UP) * 2,
        Mode::Duet => ticking + DUET_SET_UP,
    }
}

/// 50, 100, 200 and so on up to `most_pairs`, as far as the time allows.
fn looks(mode: Mode, most_pairs: u64, pair_time: Duration, most_time: Option<Duration>) -> Result<Vec<usize>, String> {
    let first = match mode {
        Mode::Interleaved => LOOKS[0],
        Mode::Duet => DUET_LOOKS[0],
    };
    let most_pairs = usize::try_from(most_pairs).unwrap_or(usize::MAX);
    let mut looks: Vec<usize> =
        std::iter::successors(Some(first), |n| Some(n * 2)).take_while(|&n| n < most_pairs).collect();
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_double_up_to_the_last_and_the_time_cuts_them() {
        let pair = Duration::from_secs(1);
        let of = |mode, most, time: Option<u64>| looks(mode, most, pair, time.map(Duration::from_secs));
        assert_eq!(of(Mode::Interleaved, 400, None).unwrap(), [50, 100, 200, 400]);
        assert_eq!(of(Mode::Interleaved, 24, None).unwrap(), [24]);
        assert_eq!(of(Mode::Interleaved, 150, None).unwrap(), [50, 100, 150]);
        assert_eq!(of(Mode::Duet, 200, None).unwrap(), [25, 50, 100, 200]);
        assert_eq!(of(Mode::Interleaved, 400, Some(110)).unwrap(), [50, 100]);
        let refused = of(Mode::Interleaved, 400, Some(49)).unwrap_err();
        assert!(refused.contains("50 pairs, takes about 50s"), "{refused}");
    }
}
