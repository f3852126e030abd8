//! The question of two sides: is B later than A?

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use cli::exit::{self, Error, usage};
use cli::time::{format_duration, format_time};
use engine::machine::tuning;
use engine::measure::duet;
use engine::program::Program;
use engine::scenario::{Scenario, draw_seed, parse_subject};
use files::fitness::Fitness;
use files::gate::verdict::{self, Metric, Mode, PairVerdict, Verdict};
use jitterstat::gate::decision::{self, DUET_LOOKS, LOOKS, Look, Outcome, Reason};
use jitterstat::gate::round::Pair;

use crate::gate::args::{GateArgs, JudgedArgs, RoundArgs, Tolerance};
use crate::gate::calibration;
use crate::gate::design::{ENDLESS, PairTest, Sides, periods, rules, scenario};
use crate::gate::pairs::{Collecting, Pairs};
use crate::gate::question::{Gate, Question};
use crate::gate::reading::{self, Judged};
use crate::gate::text::{Section, code, counted};

/// Pairs after which a test ends undecided, in turn and at once.
pub const DEFAULT_PAIRS: [u64; 2] = [400, 200];
/// A side that keeps the CPU busy for more of the period than this is in the way of the other.
const MAX_BUSY: f64 = 0.2;
/// From this share of all CPUs on, two sides at once share so many stalls that their difference
/// drowns.
const MUCH_STEAL: f64 = 0.1;

/// Every test that the arguments ask for; they share alpha and the time.
struct PairTests {
    tests: Vec<PairTest>,
    calibration: Option<files::gate::calibration::Calibration>,
}

pub fn plan(args: &GateArgs) -> exit::Result<Option<Box<dyn Question>>> {
    let mut judged = args.judged.clone();
    // A change without a name is one of the median.
    let of_median = |t: &Tolerance| {
        if t.name.is_empty() { Tolerance { name: "p50".to_owned(), ..*t } } else { t.clone() }
    };
    let see: Vec<Tolerance> = args.see.iter().map(of_median).collect();
    judged.tolerance.extend(see.iter().cloned());
    judged.rounds.seed.get_or_insert_with(draw_seed);
    if args.a.len() != args.b.len() {
        return Err(usage!(
            "{} times --a and {} times --b; give as many of each",
            args.a.len(),
            args.b.len()
        ));
    }
    let mut tests = Vec::new();
    for period in periods(&judged) {
        for (a, b) in args.a.iter().zip(&args.b) {
            let a = scenario(&judged.rounds, a, period, ENDLESS)?;
            let b = scenario(&judged.rounds, b, period, ENDLESS)?;
            let rules = rules(&judged, &b)?;
            tests.push(PairTest::of_subjects([a, b], &judged.rounds, rules));
        }
    }
    if let (Some(a), Some(b), true) =
        (&args.baseline_cmd, &args.candidate_cmd, args.runs.metric.is_empty())
    {
        let like = like_a_program(&judged.rounds, one_period(&judged)?)?;
        let rules = rules(&judged, &like)?;
        let mut test = PairTest::of_programs([a.clone(), b.clone()], &like, &judged.rounds, rules);
        test.names = names(args, [a, b]);
        test.max_round_time = args.max_round_time.unwrap_or(test.max_round_time);
        tests.push(test);
    }
    let whole_runs = !args.runs.metric.is_empty();
    if tests.is_empty() && !args.see.is_empty() && !whole_runs {
        return Err(Error::usage(
            "--see plans the pairs of two sides; give --a and --b, or two commands",
        ));
    }
    if !tests.is_empty() && whole_runs && args.calibration.is_some() {
        return Err(Error::usage(
            "--calibration covers lateness or whole runs, not both; ask for --metric in a gate of its own",
        ));
    }
    let several = tests.len();
    let calibration =
        args.calibration.as_deref().filter(|_| !whole_runs).map(calibration::read).transpose()?;
    let most_time =
        args.max_time.map(|time| time / u32::try_from(several.max(1)).unwrap_or(u32::MAX));
    let share = |mut test: PairTest| {
        test.mode = if args.duet { Mode::Duet } else { Mode::Interleaved };
        test.rules = test.rules.shared_by(several);
        let looks = |pairs: u64| looks(test.mode, pairs, test.pair_time(), most_time, SHORTER);
        let looks = match &calibration {
            Some(calibration) if !see.is_empty() => {
                let untimed =
                    |pairs| self::looks(test.mode, pairs, test.pair_time(), None, SHORTER);
                looks(calibration::pairs_to_detect(calibration, &test, &see, most_time, untimed)?)?
            }
            _ => looks(args.max_pairs.unwrap_or(DEFAULT_PAIRS[usize::from(args.duet)]))?,
        };
        Ok(test.with_looks(looks))
    };
    let tests: Vec<PairTest> = tests.into_iter().map(share).collect::<exit::Result<_>>()?;
    Ok((!tests.is_empty()).then(|| Box::new(PairTests { tests, calibration }) as Box<dyn Question>))
}

/// What two programs are called.
pub fn names(args: &GateArgs, programs: [&Program; 2]) -> [String; 2] {
    let [a, b] = programs.map(|program| program.text().to_owned());
    [args.baseline_name.clone().unwrap_or(a), args.candidate_name.clone().unwrap_or(b)]
}

/// The period of two programs.
pub fn one_period(judged: &JudgedArgs) -> exit::Result<Duration> {
    match periods(judged)[..] {
        [period] => Ok(period),
        _ => Err(Error::usage("commands run at one period of their own; give --period once")),
    }
}

/// Programs follow the same rule for the length of a round as any subject does.
pub fn like_a_program(rounds: &RoundArgs, period: Duration) -> exit::Result<Scenario> {
    if rounds.runtime.is_some() {
        return Err(Error::usage("--runtime is for tokio subjects; a command chooses its own"));
    }
    let thread = parse_subject("nanosleep").map_err(Error::usage)?;
    scenario(rounds, thread, period, ENDLESS)
}

/// What makes a pair of rounds shorter.
const SHORTER: &str = "choose shorter rounds with --round-ticks";

/// 50, 100, 200 and so on up to `most_pairs`, as far as the time allows; `shorter` is the advice
/// where it allows none.
pub fn looks(
    mode: Mode,
    most_pairs: u64,
    pair_time: Duration,
    most_time: Option<Duration>,
    shorter: &str,
) -> exit::Result<Vec<usize>> {
    let first = match mode {
        Mode::Interleaved => LOOKS[0],
        Mode::Duet => DUET_LOOKS[0],
    };
    let most_pairs = usize::try_from(most_pairs).unwrap_or(usize::MAX);
    let mut looks: Vec<usize> = std::iter::successors(Some(first), |n| Some(n * 2))
        .take_while(|&n| n < most_pairs)
        .collect();
    looks.push(most_pairs);
    if let Some(time) = most_time {
        let takes = |n: usize| pair_time.as_secs_f64() * n as f64;
        let first = looks[0];
        looks.retain(|&n| takes(n) <= time.as_secs_f64());
        if looks.is_empty() {
            return Err(usage!(
                "the first look, at {first} pairs, takes about {}; allow more with --max-time, or {shorter}",
                format_duration(takes(first))
            ));
        }
    }
    Ok(looks)
}

impl Question for PairTests {
    fn announce(&self) -> Vec<String> {
        let all = |pairs: fn(&PairTest) -> u64| {
            self.tests.iter().map(|t| t.seconds(pairs(t))).sum::<f64>()
        };
        let (first, last) = (all(|t| t.design.looks[0]), all(|t| t.pairs));
        let mut said = vec![format!(
            "{} to the first look, at most {} to the last",
            format_duration(first),
            format_duration(last)
        )];
        said.extend(self.tests.iter().filter_map(PairTest::short_rounds));
        said
    }

    fn prepare(&self, stop: &Arc<AtomicBool>) -> exit::Result<()> {
        for test in &self.tests {
            if let Sides::Programs(programs) = &test.sides {
                programs.iter().try_for_each(Program::check_exists).map_err(Error::usage)?;
            }
        }
        self.tests[0].design.cpu.map_or(Ok(()), tuning::bind)?;
        self.tests
            .iter()
            .filter(|t| t.mode == Mode::Duet)
            .try_for_each(|test| can_run_at_once(test, stop))
    }

    fn ask(self: Box<Self>, gate: &mut Gate) -> exit::Result<()> {
        if let Some(calibration) = &self.calibration {
            gate.warn_early(calibration::warnings(calibration, &self.tests, &gate.verdict.host));
        }
        for test in &self.tests {
            if gate.over().is_some() {
                gate.cut_short(None);
                return Ok(());
            }
            judge(test, gate)?;
        }
        Ok(())
    }
}

/// Whether two subjects can run at once without being in each other's way; measures each alone, for
/// a moment.
fn can_run_at_once(test: &PairTest, stop: &Arc<AtomicBool>) -> exit::Result<()> {
    let Sides::Subjects(scenarios) = &test.sides else { return Ok(()) };
    if test.design.cpu.is_none() {
        return Err(Error::usage(
            "--duet needs both sides on one CPU, and this platform binds a thread to none",
        ));
    }
    for scenario in scenarios.iter() {
        let id = &scenario.id;
        match duet::busy_share(scenario, stop).map_err(|e| usage!("{id}: {e}"))? {
            Some(busy) if busy <= MAX_BUSY => {}
            None => {
                let what = "the platform does not report how busy it keeps the CPU";
                return Err(usage!("{id}: {what}; compare them in turn, without --duet"));
            }
            Some(busy) => {
                return Err(usage!(
                    "{id}: it keeps the CPU busy for {:.0} % of the period, and --duet allows {:.0} %; compare them in \
                     turn, without --duet",
                    busy * 100.0,
                    MAX_BUSY * 100.0
                ));
            }
        }
    }
    Ok(())
}

/// Measures a test, look by look, until one decides.
fn judge(test: &PairTest, gate: &mut Gate) -> exit::Result<()> {
    let looks = &test.rules.looks;
    let (mut looks_taken, mut decisive) = (0, None);
    let enough = |pairs: &[Pair]| {
        let Some(which) = looks.iter().position(|&n| n == pairs.len()) else { return false };
        let last = which + 1 == looks.len();
        let look = decision::look(pairs, &test.rules, last);
        looks_taken = which as u64 + 1;
        decisive = Some(look).filter(|look| last || look.outcome != Outcome::Inconclusive);
        decisive.is_some()
    };
    let pairs =
        Collecting { stop: &gate.stop, quiet: gate.quiet, keep_ticks: true, enough }.run(test);
    if pairs.not_started && pairs.values.is_empty() {
        return Err(Error::usage(pairs.failure.unwrap_or_default()));
    }
    let verdict = pair_verdict(test, &pairs, looks_taken, decisive, gate.cpus());
    if matches!(verdict.reason, Some(Reason::Interrupted | Reason::NotMeasured)) {
        gate.cut_short(pairs.failure.clone());
    }
    gate.met(Fitness::from_tally(&pairs.tally, gate.verdict.host.cpus_online));
    let stolen = verdict.sides.iter().filter_map(|side| side.steal_share).fold(0.0, f64::max);
    if verdict.mode == Mode::Duet && stolen > MUCH_STEAL {
        let message = format!(
            "The hypervisor took {:.0} % of the CPUs while both sides ran at once.",
            stolen * 100.0
        );
        gate.warn(
            "duet-under-steal",
            &message,
            "Run them in turn, without --duet: that decides more surely here.",
        );
    }
    if pairs.without_tick > 0 {
        let message = format!(
            "{} of rounds left out: a side delivered no tick.",
            counted(pairs.without_tick, "pair")
        );
        gate.warn(
            "no-tick",
            &message,
            "The machine stalled for a whole round: use a quieter one, or longer rounds.",
        );
    }
    gate.verdict.comparisons.push(verdict);
    Ok(())
}

/// Without a look that decides there is no verdict, only what the pairs look like.
fn pair_verdict(
    test: &PairTest,
    pairs: &Pairs,
    looks_taken: u64,
    decisive: Option<Look>,
    cpus: f64,
) -> PairVerdict {
    let so_far =
        || (!pairs.values.is_empty()).then(|| decision::look(&pairs.values, &test.rules, false));
    let mut metrics =
        decisive.or_else(so_far).map_or_else(Vec::new, |look| verdict::metrics(&look, test.tail()));
    let reason = match decisive {
        Some(look) if look.outcome == Outcome::Inconclusive => {
            look.median.reason.or(look.tail.reason)
        }
        Some(_) => None,
        None => {
            let why =
                if pairs.failure.is_some() { Reason::NotMeasured } else { Reason::Interrupted };
            metrics
                .iter_mut()
                .for_each(|m| (m.verdict, m.reason) = (Outcome::Inconclusive, Some(why)));
            Some(why)
        }
    };
    let [a, b] = test.names.clone();
    PairVerdict {
        a,
        b,
        mode: test.mode,
        duration_ns: pairs.duration_ns(),
        verdict: decisive.map_or(Outcome::Inconclusive, |look| look.outcome),
        reason,
        plan: test.design.clone(),
        pairs: pairs.values.len() as u64,
        looks_taken,
        metrics,
        sides: pairs.sides(test, cpus),
        rounds: verdict::records(&pairs.values),
    }
}

pub fn sections(verdict: &Verdict) -> Vec<Section> {
    verdict.comparisons.iter().map(section).collect()
}

fn section(of: &PairVerdict) -> Section {
    let PairVerdict { a, b, pairs, .. } = of;
    let seconds = of.duration_ns as f64 / 1e9;
    let row = |m: &Metric| {
        Judged::from(m).row(b, &m.name, vec![format_time(m.a_ns), format_time(m.b_ns)])
    };
    Section {
        title: [format!("A  {a}\nB  {b}"), format!("A: {}, B: {}", code(a), code(b))],
        of: ("Percentile", str::to_owned),
        headings: vec!["median A", "median B", "change", "interval", "tolerated"],
        rows: of.metrics.iter().map(row).collect(),
        measured: format!(
            "{pairs} pairs of rounds {}, {}, {seconds:.1}s",
            of.mode,
            counted(of.looks_taken, "look")
        ),
        notes: reading::notes(of),
        sides: of.sides.clone(),
        lifts: of
            .metrics
            .iter()
            .filter_map(|m| Some((m.name.clone(), m.lift.as_ref().map(|l| [l.a, l.b])?)))
            .collect(),
        advice: reading::advice(of),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_double_up_to_the_last_and_the_time_cuts_them() {
        let pair = Duration::from_secs(1);
        let of = |mode, most, time: Option<u64>| {
            looks(mode, most, pair, time.map(Duration::from_secs), SHORTER)
        };
        assert_eq!(of(Mode::Interleaved, 400, None).unwrap(), [50, 100, 200, 400]);
        assert_eq!(of(Mode::Interleaved, 24, None).unwrap(), [24]);
        assert_eq!(of(Mode::Interleaved, 150, None).unwrap(), [50, 100, 150]);
        assert_eq!(of(Mode::Duet, 200, None).unwrap(), [25, 50, 100, 200]);
        assert_eq!(of(Mode::Interleaved, 400, Some(110)).unwrap(), [50, 100]);
        let refused = of(Mode::Interleaved, 400, Some(49)).unwrap_err().to_string();
        assert!(refused.contains("50 pairs, takes about 50s"), "{refused}");
    }
}
