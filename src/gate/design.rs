//! What is settled before pairs are measured: their two sides, the rules, the looks, how long they
//! take.

use std::time::Duration;

use cli::exit::{self, usage};
use engine::machine::os;
use engine::measure::child;
use engine::program::Program;
use engine::scenario::{self, DEFAULT_PERIOD, Length, Scenario, ScenarioArgs};
use engine::subject::SubjectInfo;
use files::gate::verdict::{GateDesign, Mode, Tolerance};
use jitterstat::gate::decision::Rules;
use jitterstat::gate::round::{tail_name, tail_quantile};

use crate::gate::args::{JudgedArgs, RoundArgs};

/// Time between two rounds that is not spent ticking: a runtime, or a process.
const SET_UP: Duration = Duration::from_millis(4);
/// Time before a round of two at once.
const DUET_SET_UP: Duration = Duration::from_millis(14);
/// Of a scenario whose rounds go on until the pairs suffice.
pub const ENDLESS: Option<Length> = Some(Length::Rounds(u64::MAX));

pub enum Sides {
    /// Kinds of ticker, in this process.
    Subjects(Box<[Scenario; 2]>),
    /// Programs of the user's own.
    Programs([Program; 2]),
}

/// A test of side B against side A by pairs of rounds, ready to be measured.
pub struct PairTest {
    pub sides: Sides,
    pub names: [String; 2],
    pub mode: Mode,
    pub rules: Rules,
    pub design: GateDesign,
    /// It takes about so many pairs, or at most.
    pub pairs: u64,
    /// When one round of a program is ended by force.
    pub max_round_time: Duration,
}

impl PairTest {
    /// Two subjects in turn; the rounds of both are as long as those of the second.
    pub fn of_subjects([a, mut b]: [Scenario; 2], rounds: &RoundArgs, rules: Rules) -> Self {
        if a.id == b.id {
            b.id.push_str("#2");
        }
        let design = design(&b, rounds, one_cpu(rounds));
        Self::new([a.id.clone(), b.id.clone()], Sides::Subjects(Box::new([a, b])), design, rules)
    }

    /// Two programs in turn, in rounds as long as those of a subject.
    pub fn of_programs(
        programs: [Program; 2],
        like: &Scenario,
        rounds: &RoundArgs,
        rules: Rules,
    ) -> Self {
        let names = programs.each_ref().map(|program| program.text().to_owned());
        Self::new(names, Sides::Programs(programs), design(like, rounds, rounds.cpu), rules)
    }

    fn new(names: [String; 2], sides: Sides, design: GateDesign, rules: Rules) -> Self {
        let mut test = Self {
            sides,
            names,
            mode: Mode::Interleaved,
            rules,
            design,
            pairs: 0,
            max_round_time: Duration::ZERO,
        };
        test.max_round_time = child::hang_timeout(test.pair_time() / 2);
        let looks = test.rules.looks.clone();
        test.with_looks(looks)
    }

    /// The same with other looks; it ends at the last.
    pub fn with_looks(mut self, looks: Vec<usize>) -> Self {
        self.pairs = looks.last().map_or(0, |&n| n as u64);
        self.design.looks = looks.iter().map(|&n| n as u64).collect();
        self.design.alpha = self.rules.alpha;
        self.design.tolerance = Some(Tolerance::from(&self.rules));
        self.rules.looks = looks;
        self
    }

    /// Quantile that stands for the tail.
    pub fn tail(&self) -> f64 {
        tail_quantile(self.design.round_ticks)
    }

    /// How long one round of each side takes.
    pub fn pair_time(&self) -> Duration {
        let ticks = self.design.round_ticks + self.design.warmup_ticks;
        let ticking =
            Duration::from_nanos(self.design.period_ns) * u32::try_from(ticks).unwrap_or(u32::MAX);
        match self.mode {
            Mode::Interleaved => (ticking + SET_UP) * 2,
            Mode::Duet => ticking + DUET_SET_UP,
        }
    }

    /// How long so many pairs take, in seconds.
    pub fn seconds(&self, pairs: u64) -> f64 {
        self.pair_time().mul_f64(pairs as f64).as_secs_f64()
    }

    /// Said before measuring where rounds are too short for a p99.
    pub fn short_rounds(&self) -> Option<String> {
        let tail = tail_name(self.tail());
        (tail != "p99").then(|| format!("rounds this short are judged by {tail} instead of p99"))
    }
}

fn design(like: &Scenario, rounds: &RoundArgs, cpu: Option<usize>) -> GateDesign {
    GateDesign {
        period_ns: like.period_ns(),
        round_ticks: like.round_ticks,
        warmup_ticks: like.warmup_ticks,
        seed: rounds.seed.unwrap_or_else(scenario::draw_seed),
        cpu,
        alpha: 0.0,
        looks: Vec::new(),
        tolerance: None,
    }
}

pub fn periods(judged: &JudgedArgs) -> Vec<Duration> {
    if judged.period.is_empty() { vec![DEFAULT_PERIOD] } else { judged.period.clone() }
}

/// The CPU that subjects are bound to: the one asked for, or one that is allowed.
pub fn one_cpu(rounds: &RoundArgs) -> Option<usize> {
    rounds.cpu.or_else(|| os::affinity()?.last().copied())
}

/// One subject as a scenario; without a length, of the default number of ticks.
pub fn scenario(
    rounds: &RoundArgs,
    subject: &'static SubjectInfo,
    period: Duration,
    length: Option<Length>,
) -> exit::Result<Scenario> {
    let args = ScenarioArgs {
        subjects: vec![subject],
        periods: vec![period],
        runtimes: rounds.runtime.into_iter().collect(),
        length,
        round_ticks: rounds.round_ticks,
        warmup: rounds.warmup,
        instances: None,
        ..ScenarioArgs::default()
    };
    args.single_scenario()
}

/// The rules for rounds like these, with the tolerances asked for.
pub fn rules(judged: &JudgedArgs, like: &Scenario) -> exit::Result<Rules> {
    let mut rules = Rules::new(like.period_ns());
    rules.floor_ns = judged.floor.as_nanos() as f64;
    let tail = tail_name(tail_quantile(like.round_ticks));
    for tolerance in &judged.tolerance {
        match tolerance.name.as_str() {
            "p50" => rules.tolerance_median = tolerance.rise,
            name if name == tail => rules.tolerance_tail = tolerance.rise,
            name => {
                return Err(usage!(
                    "rounds of {} ticks are judged by {tail}, not by {name}",
                    like.round_ticks
                ));
            }
        }
    }
    Ok(rules)
}
