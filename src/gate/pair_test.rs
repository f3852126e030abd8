//! A test by pairs of rounds, before it is measured: its sides, rules, looks, and expected
//! duration.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use cli::exit::{self, usage};
use cli::time::format_duration;
use engine::machine::os;
use engine::measure::child;
use engine::measure::program::{self, DEFAULT_START_TIMEOUT, ProgramStart};
use engine::measure::round_settings::RoundSettings;
use engine::program::Program;
use engine::scenario::{self, Length, RoundLength, Scenario, ScenarioArgs};
use engine::subject::SubjectInfo;
use files::gate::verdict::{GateDesign, Mode, Tolerance};
use files::report::Warning;
use jitterstat::gate::decision::{DUET_LOOKS, LOOKS, Rules};
use jitterstat::gate::metric;
use jitterstat::gate::round::{tail_name, tail_quantile};
use jitterstat::gate::{Side, Sides};
use render::report::settings;

use crate::gate::args::{self, JudgedArgs, RoundArgs, tolerated_rise};

/// Default maximum number of pairs of interleaved rounds.
pub const DEFAULT_MAX_PAIRS: u64 = 400;
/// Expected time between two rounds, to set up a runtime or a process.
pub const ROUND_SETUP_TIME: Duration = Duration::from_millis(4);
/// Expected time before a round in which both sides run at once.
const DUET_SETUP_TIME: Duration = Duration::from_millis(14);
/// Advice for a pair of rounds that takes too long.
pub const SHORTER_ROUNDS_ADVICE: &str = "choose shorter rounds with --round-ticks";
/// Length of a scenario whose rounds continue until the pairs suffice.
pub const ENDLESS: Option<Length> = Some(Length::Rounds(u64::MAX));

/// The measured sides of a test.
pub enum PairSource {
    /// Subjects, measured in this process.
    Subjects(Box<Sides<Scenario>>),
    /// Programs of the user.
    Programs(Box<Sides<Program>>),
}

/// A test of the candidate against the base by pairs of rounds, ready to be measured.
pub struct PairTest {
    pub source: PairSource,
    pub names: Sides<String>,
    pub mode: Mode,
    pub rules: Rules,
    pub design: GateDesign,
    /// Expected or maximum number of pairs.
    pub pairs: u64,
    /// Time limit of one round of a program.
    pub max_round_time: Duration,
    /// Time limit of the start of a program.
    pub start_timeout: Duration,
    /// Expected time before a round of each side.
    setup_times: Sides<Duration>,
    /// Starts of the programs, if they are known.
    starts: Sides<Option<ProgramStart>>,
}

impl PairTest {
    /// Creates a test of two interleaved subjects. Rounds of both are as long as those of the
    /// candidate.
    pub fn from_subjects(mut scenarios: Sides<Scenario>, rounds: &RoundArgs, rules: Rules) -> Self {
        if scenarios.base.id == scenarios.candidate.id {
            scenarios.candidate.id.push_str("#2");
        }
        let design = gate_design(scenarios.candidate.round_length(), rounds, choose_cpu(rounds));
        let names = scenarios.as_ref().map(|scenario| scenario.id.clone());
        Self::new(names, PairSource::Subjects(Box::new(scenarios)), design, rules)
    }

    /// Creates a test of two interleaved programs.
    pub fn from_programs(
        programs: Sides<Program>,
        length: RoundLength,
        rounds: &RoundArgs,
        rules: Rules,
    ) -> Self {
        let names = programs.as_ref().map(|program| program.text().to_owned());
        let design = gate_design(length, rounds, rounds.cpu);
        Self::new(names, PairSource::Programs(Box::new(programs)), design, rules)
    }

    fn new(names: Sides<String>, source: PairSource, design: GateDesign, rules: Rules) -> Self {
        let mut test = Self {
            source,
            names,
            mode: Mode::Interleaved,
            rules,
            design,
            pairs: 0,
            max_round_time: Duration::ZERO,
            start_timeout: DEFAULT_START_TIMEOUT,
            setup_times: Sides { base: ROUND_SETUP_TIME, candidate: ROUND_SETUP_TIME },
            starts: Sides { base: None, candidate: None },
        };
        test.max_round_time = child::hang_timeout(test.pair_time() / 2);
        test.set_looks(test.rules.looks.clone());
        test
    }

    /// Replaces the looks. The test ends at the last one.
    pub fn set_looks(&mut self, looks: Vec<usize>) {
        self.pairs = looks.last().map_or(0, |&pairs| pairs as u64);
        self.design.looks = looks.iter().map(|&pairs| pairs as u64).collect();
        self.design.alpha = self.rules.alpha;
        self.design.tolerance = Some(Tolerance::from(&self.rules));
        self.rules.looks = looks;
    }

    /// Runs each program for a single tick, before anything is measured, which measures the time of
    /// its start.
    ///
    /// # Errors
    /// Returns an error if a program does not follow the contract.
    pub fn rehearse(&mut self, stop: &AtomicBool) -> exit::Result<()> {
        let PairSource::Programs(programs) = &self.source else { return Ok(()) };
        for side in [Side::Base, Side::Candidate] {
            let (period_ns, timeout) = (self.design.period_ns, self.start_timeout);
            if let Some(start) = program::rehearse(&programs[side], period_ns, timeout, stop)? {
                self.setup_times[side] = start.duration;
                self.starts[side] = Some(start);
            }
        }
        Ok(())
    }

    /// Reads the settings with which the rounds of this test have to run.
    pub fn read_round_settings(&self) -> RoundSettings {
        RoundSettings::read_bound_to(self.design.cpu)
    }

    /// Returns warnings about settings in which the programs differ. Runs each of them once more,
    /// after [`Self::rehearse`].
    pub fn settings_warnings(&self, stop: &AtomicBool) -> Vec<Warning> {
        let PairSource::Programs(programs) = &self.source else { return Vec::new() };
        let read = |side: Side| {
            let period_ns = self.design.period_ns;
            program::read_settings(&programs[side], period_ns, self.starts[side]?, stop)
        };
        let (Some(base), Some(candidate)) = (read(Side::Base), read(Side::Candidate)) else {
            return Vec::new();
        };
        let sides = Sides { base: &base, candidate: &candidate };
        let differences = files::settings::compare(&sides, &self.names.base);
        settings::warnings(&self.names.candidate, &differences)
    }

    /// Drops the looks that come after a time limit, now that the time of a pair is known.
    ///
    /// # Errors
    /// Returns an error if no look is left, or if one is dropped although all are `required`.
    pub fn limit_looks(&mut self, max_time: Option<Duration>, required: bool) -> exit::Result<()> {
        let planned = self.rules.looks.clone();
        let looks =
            looks_within(planned.clone(), self.pair_time(), max_time, SHORTER_ROUNDS_ADVICE)?;
        if required && looks != planned {
            return Err(usage!(
                "--detect needs {}, which is more than --max-time",
                format_duration(self.seconds(self.pairs))
            ));
        }
        self.set_looks(looks);
        Ok(())
    }

    /// Returns the quantile that represents the tail.
    pub fn tail(&self) -> f64 {
        tail_quantile(self.design.round_ticks)
    }

    /// Returns the expected duration of a pair: one round of each side.
    pub fn pair_time(&self) -> Duration {
        let ticks = self.design.round_ticks + self.design.warmup_ticks;
        let ticks = u32::try_from(ticks).unwrap_or(u32::MAX);
        let ticking_time = Duration::from_nanos(self.design.period_ns) * ticks;
        match self.mode {
            Mode::Interleaved => {
                ticking_time * 2 + self.setup_times.base + self.setup_times.candidate
            }
            Mode::Duet => ticking_time + DUET_SETUP_TIME,
        }
    }

    /// Returns the expected duration of a number of pairs, in seconds.
    pub fn seconds(&self, pairs: u64) -> f64 {
        self.pair_time().mul_f64(pairs as f64).as_secs_f64()
    }

    /// Returns a note for the user if rounds are too short for a p99.
    pub fn short_round_note(&self) -> Option<String> {
        let tail = tail_name(self.tail());
        (tail != "p99").then(|| format!("rounds this short are judged by {tail} instead of p99"))
    }
}

fn gate_design(length: RoundLength, rounds: &RoundArgs, cpu: Option<usize>) -> GateDesign {
    GateDesign {
        period_ns: length.period_ns(),
        round_ticks: length.ticks,
        warmup_ticks: length.warmup_ticks,
        seed: rounds.seed.unwrap_or_else(scenario::draw_seed),
        cpu,
        alpha: 0.0,
        looks: Vec::new(),
        tolerance: None,
    }
}

/// Returns the CPU that subjects are bound to: the requested one, or the last allowed one.
pub fn choose_cpu(rounds: &RoundArgs) -> Option<usize> {
    rounds.cpu.or_else(|| os::affinity()?.last().copied())
}

/// Builds the scenario of one subject. Without a length it has the default number of ticks.
pub fn build_scenario(
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

/// Builds the rules for rounds of a length, with the tolerances of the arguments and the changes
/// that the gate must detect.
pub fn build_rules(
    judged: &JudgedArgs,
    changes: &[args::Tolerance],
    length: RoundLength,
) -> exit::Result<Rules> {
    let mut rules = Rules::new(length.period_ns());
    if let Some(floor) = judged.floor {
        rules.floor_ns = floor.as_nanos() as f64;
    }
    let tail = tail_name(tail_quantile(length.ticks));
    let mut names = judged.tolerance.iter().chain(changes).map(|rise| rise.name.as_str());
    if let Some(name) = names.find(|name| !["", "p50", tail].contains(name)) {
        return Err(usage!("rounds of {} ticks are judged by {tail}, not by {name}", length.ticks));
    }
    let tolerated = |number: &str| tolerated_rise(&judged.tolerance, changes, number);
    rules.tolerance_median = tolerated("p50").unwrap_or(rules.tolerance_median);
    rules.tolerance_tail = tolerated(tail).unwrap_or(rules.tolerance_tail);
    Ok(rules)
}

/// Returns looks at 50, 100, 200 and so on up to `max_pairs`; a duet looks at half as many pairs.
pub fn looks_up_to(mode: Mode, max_pairs: u64) -> Vec<usize> {
    let first = match mode {
        Mode::Interleaved => LOOKS[0],
        Mode::Duet => DUET_LOOKS[0],
    };
    let max_pairs = usize::try_from(max_pairs).unwrap_or(usize::MAX);
    let doubling = std::iter::successors(Some(first), |pairs| Some(pairs * 2));
    doubling.take_while(|&pairs| pairs < max_pairs).chain([max_pairs]).collect()
}

/// Returns the looks of a gate that judges metrics of whole runs.
pub fn looks_of_runs(metrics: usize, max_pairs: u64) -> Vec<usize> {
    metric::run_looks(metrics, usize::try_from(max_pairs).unwrap_or(usize::MAX))
}

/// Returns the looks that the time limit allows.
///
/// # Errors
/// Returns an error with `advice` if the time limit allows no look.
pub fn looks_within(
    mut looks: Vec<usize>,
    pair_time: Duration,
    max_time: Option<Duration>,
    advice: &str,
) -> exit::Result<Vec<usize>> {
    if let Some(max_time) = max_time {
        let seconds = |pairs: usize| pair_time.as_secs_f64() * pairs as f64;
        let first = looks[0];
        looks.retain(|&pairs| seconds(pairs) <= max_time.as_secs_f64());
        if looks.is_empty() {
            return Err(usage!(
                "the first look, at {first} pairs, takes about {}; allow more with --max-time, or {advice}",
                format_duration(seconds(first))
            ));
        }
    }
    Ok(looks)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAIR_TIME: Duration = Duration::from_secs(1);

    #[test]
    fn stricter_rises_hold_in_any_order() {
        let parse = |texts: &[&str]| -> Vec<args::Tolerance> {
            texts.iter().map(|text| args::parse_tolerance(text).unwrap()).collect()
        };
        for (tolerances, changes, expected) in [
            (&["p50=10%", "40%"][..], &[][..], [0.1, 0.4]),
            (&["40%", "p50=10%"], &[], [0.1, 0.4]),
            (&["p99=10%"], &["p50=30%"], [0.3, 0.1]),
            (&["2%"], &["p50=9%"], [0.02, 0.02]),
            (&["p50=2%"], &["9%"], [0.02, 0.09]),
            (&["p50=9%"], &["2%"], [0.02, 0.02]),
        ] {
            let rounds = RoundArgs {
                runtime: None,
                round_ticks: None,
                warmup: None,
                cpu: None,
                seed: None,
                quiet: true,
            };
            let tolerance = parse(tolerances);
            let judged = JudgedArgs { period: Vec::new(), rounds, tolerance, floor: None };
            let length = RoundLength::new(Duration::from_micros(500), None, None).unwrap();
            let rules = build_rules(&judged, &parse(changes), length).unwrap();
            let found = [rules.tolerance_median, rules.tolerance_tail];
            assert_eq!(found, expected, "{tolerances:?} {changes:?}");
        }
        let rise = |texts: &[&str], number| args::find_rise(&parse(texts), number);
        assert_eq!(rise(&["lat=3%", "lat:p99=5%", "7%"], "lat:p99"), Some(0.05));
        assert_eq!(rise(&["lat:p99=5%", "lat=3%"], "lat:p50"), Some(0.03));
        assert_eq!(rise(&["lat=3%"], "latency"), None);
    }

    fn looks(mode: Mode, max_pairs: u64, max_seconds: Option<u64>) -> exit::Result<Vec<usize>> {
        let max_time = max_seconds.map(Duration::from_secs);
        looks_within(looks_up_to(mode, max_pairs), PAIR_TIME, max_time, "be patient")
    }

    #[test]
    fn looks_double_up_to_the_last() {
        assert_eq!(looks(Mode::Interleaved, 400, None).unwrap(), [50, 100, 200, 400]);
        assert_eq!(looks(Mode::Interleaved, 24, None).unwrap(), [24]);
        assert_eq!(looks(Mode::Interleaved, 150, None).unwrap(), [50, 100, 150]);
        assert_eq!(looks(Mode::Duet, 200, None).unwrap(), [25, 50, 100, 200]);
    }

    #[test]
    fn time_limit_drops_looks() {
        assert_eq!(looks(Mode::Interleaved, 400, Some(110)).unwrap(), [50, 100]);
        let refused = looks(Mode::Interleaved, 400, Some(49)).unwrap_err().to_string();
        assert!(refused.contains("50 pairs, takes about 50s"), "{refused}");
    }
}
