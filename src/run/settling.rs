//! When a run without a given length may end: its answer is settled.
//!
//! After each round the competing subjects of a period and a load are ordered by their p50. The run
//! ends when every two neighbours either differ clearly or by less than [`MAX_RATIO`], and every
//! p50 is known that well. "Clearly" is a 95 % interval of Wilcoxon's signed-rank test over the
//! rounds, which ran in pairs. Controls are not waited for: they show the machine and are not
//! ranked.
//!
//! The rule looks at orders and widths, not at values, so that it favours neither high nor low
//! percentiles.

use std::collections::BTreeMap;

use cli::time::format_time;
use engine::measure::round::RoundResult;
use engine::scenario::Scenario;
use files::fitness::{Fitness, Tally};
use files::report::{Round, Settled};
use files::trust::Trust;
use jitterstat::stats::signed_rank::Shift;
use jitterstat::stats::{bootstrap, quantile, shift};
use render::report::tradeoff::MAX_MISSED_SHARE;

/// Rounds before the first look. With fewer, the report has no intervals, and its answer is that
/// nothing can be judged.
pub const MIN_ROUNDS: u64 = bootstrap::MIN_ROUNDS as u64;
/// Two subjects whose p50 differ by less than this factor have no order, and a p50 is known if it
/// may be wrong by no more.
const MAX_RATIO: f64 = 1.25;

/// The rounds of a run so far.
#[derive(Debug)]
pub struct Settling {
    subjects: Vec<Option<WatchedSubject>>,
    /// Lateness of the spinning control, which shows that of the machine.
    machine: Tally,
    is_settled: bool,
    /// The answer after the last complete round.
    answer: Option<String>,
}

#[derive(Debug)]
struct WatchedSubject {
    name: String,
    /// Subjects of different groups are not compared. `None` for a control among competitors, of
    /// which only the rounds count.
    group: Option<String>,
    period_ns: u64,
    /// Whether it runs under a load, so that its lateness is not caused by the machine.
    has_load: bool,
    ticks: u64,
    missed: u64,
    /// Number of rounds of the plan.
    planned: u64,
    /// Natural logarithm of the p50 of each round, by its index; `None` if the round is excluded.
    rounds: BTreeMap<u64, Option<f64>>,
}

impl Settling {
    /// Watches the competing subjects of a plan, or all if none competes.
    pub fn new(scenarios: &[Scenario]) -> Self {
        let competes = |s: &Scenario| !s.subject.as_builtin().is_some_and(|b| b.is_control());
        let has_competitor = scenarios.iter().any(competes);
        let watch = |s: &Scenario| {
            let group = || format!("{} {} {:?}", s.period_ns(), s.load, s.runtime);
            let group = (competes(s) || !has_competitor).then(group);
            Some(WatchedSubject {
                name: s.subject.name(),
                group,
                period_ns: s.period_ns(),
                has_load: !s.load.is_none(),
                ticks: 0,
                missed: 0,
                planned: s.rounds(),
                rounds: BTreeMap::new(),
            })
        };
        Self::watching(scenarios.iter().map(watch).collect())
    }

    fn watching(subjects: Vec<Option<WatchedSubject>>) -> Self {
        Self { subjects, machine: Tally::default(), is_settled: false, answer: None }
    }

    /// Adds a round of a scenario, which is given by its index. One that cannot be measured is not
    /// waited for.
    pub fn add(&mut self, scenario: usize, result: &RoundResult) {
        let Some(subject) = self.subjects.get_mut(scenario) else { return };
        let Ok(round) = result else {
            *subject = None;
            return;
        };
        if let Some(subject) = subject {
            let mut lateness_ns = Vec::new();
            for instance in round.instances.iter().filter(|_| round.setting_changes.is_empty()) {
                let samples = &instance.samples;
                subject.ticks += samples.grid.ticks;
                subject.missed += samples.missed();
                lateness_ns.extend_from_slice(&samples.lateness_ns);
                if !subject.has_load {
                    let (round, late) = (Round::default(), &samples.lateness_ns);
                    self.machine.add(&subject.name, subject.period_ns, &round, late);
                }
            }
            subject.add(round.index, lateness_ns);
        }
        let is_complete = self.is_complete(round.index);
        self.is_settled = is_complete && self.is_settled_now();
        if is_complete {
            self.answer = self.find_answer();
        }
    }

    /// Returns the answer after the last complete round as a sentence, if one question is asked:
    /// which of several subjects is the least late at one period? Like a report, it ranks only
    /// subjects that keep up, and none if the machine itself was late.
    pub fn answer(&self) -> Option<&str> {
        self.answer.as_deref()
    }

    fn find_answer(&self) -> Option<String> {
        let mut competitors: Vec<&WatchedSubject> =
            self.watched().filter(|subject| subject.group.is_some()).collect();
        let is_comparable = competitors.len() > 1
            && competitors.iter().all(|s| s.group == competitors[0].group && !s.rounds.is_empty());
        if !is_comparable {
            return None;
        }
        let fitness = Fitness::from_tally(&self.machine, None);
        if !Trust::from_fitness(fitness.as_ref()).covers("p50") {
            return Some("So far, not ranked: even at p50, the machine itself was late".to_owned());
        }
        competitors.retain(|subject| subject.keeps_up());
        if competitors.len() < 2 {
            return None;
        }
        competitors.sort_by(|a, b| a.median().total_cmp(&b.median()));
        let (best, others) = competitors.split_first()?;
        let is_unclear = |other: &&&WatchedSubject| {
            difference(best, other).is_none_or(|difference| difference.lower <= 0.0)
        };
        let unclear: Vec<&str> =
            others.iter().filter(is_unclear).map(|other| other.name.as_str()).collect();
        let time = format_time(best.median().exp().round() as i64);
        let others = match unclear.as_slice() {
            [] => return Some(format!("So far, {} is the least late at p50: {time}", best.name)),
            [name] => (*name).to_owned(),
            names => format!("{} others", names.len()),
        };
        Some(format!(
            "So far, no clear difference at p50 between {}, {time}, and {others}",
            best.name
        ))
    }

    /// Returns the end of the run, if rounds of its plan are missing.
    pub fn early_end(&self) -> Option<Settled> {
        let rounds = self.watched().map(|subject| subject.rounds.len() as u64).max()?;
        let planned_rounds = self.watched().map(|subject| subject.planned).max()?;
        let is_early = self.is_settled && rounds < planned_rounds;
        is_early.then_some(Settled { rounds, planned_rounds })
    }

    /// Returns whether the run may end. Never true within a round.
    pub fn is_settled(&self) -> bool {
        self.is_settled
    }

    fn watched(&self) -> impl Iterator<Item = &WatchedSubject> {
        self.subjects.iter().flatten()
    }

    /// Returns whether every subject that has the round has been measured in it.
    fn is_complete(&self, round: u64) -> bool {
        self.watched().all(|s| round >= s.planned || s.rounds.contains_key(&round))
    }

    fn is_settled_now(&self) -> bool {
        let mut groups: BTreeMap<&str, Vec<&WatchedSubject>> = BTreeMap::new();
        for subject in self.watched() {
            if let Some(group) = &subject.group {
                groups.entry(group).or_default().push(subject);
            }
        }
        !groups.is_empty()
            && groups.into_values().all(|mut group| {
                group.sort_by(|a, b| a.median().total_cmp(&b.median()));
                group.iter().all(|subject| subject.is_known())
                    && group.windows(2).all(|pair| is_order_settled(pair[0], pair[1]))
            })
    }
}

impl WatchedSubject {
    fn add(&mut self, round: u64, mut lateness_ns: Vec<i64>) {
        lateness_ns.sort_unstable();
        let p50 = quantile::nearest_rank(&lateness_ns, 0.5);
        self.rounds.insert(round, p50.map(|ns| (ns.max(1) as f64).ln()));
    }

    fn keeps_up(&self) -> bool {
        self.missed as f64 <= self.ticks as f64 * MAX_MISSED_SHARE
    }

    fn median(&self) -> f64 {
        quantile::median(self.rounds.values().copied().flatten())
    }

    fn is_known(&self) -> bool {
        let values: Vec<f64> = self.rounds.values().copied().flatten().collect();
        if (values.len() as u64) < MIN_ROUNDS {
            return false;
        }
        let shift = shift::paired(&values).map(|interval| interval.shift);
        shift.is_some_and(|s| (s.upper - s.lower) / 2.0 <= MAX_RATIO.ln())
    }
}

/// Returns how much later a subject is than another, as the logarithm of a factor.
fn difference(low: &WatchedSubject, high: &WatchedSubject) -> Option<Shift> {
    let difference =
        |(round, high): (&u64, &Option<f64>)| Some((*high)? - (*low.rounds.get(round)?)?);
    let differences: Vec<f64> = high.rounds.iter().filter_map(difference).collect();
    shift::paired(&differences).map(|interval| interval.shift)
}

fn is_order_settled(low: &WatchedSubject, high: &WatchedSubject) -> bool {
    let Some(Shift { lower, upper, .. }) = difference(low, high) else { return false };
    let is_clear = lower > 0.0 || upper < 0.0;
    let is_tie = lower > -MAX_RATIO.ln() && upper < MAX_RATIO.ln();
    is_clear || is_tie
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use cli::file_io;
    use files::file::File as _;
    use files::report::Report;
    use files::subjects::{self, DefaultSelection};
    use jitterstat::stats::random::SplitMix64;

    use super::*;

    const PERIOD_NS: u64 = 1_000_000;

    fn subject(medians_ns: impl IntoIterator<Item = i64>) -> WatchedSubject {
        let mut subject = WatchedSubject {
            name: "os-interval".to_owned(),
            group: Some(String::new()),
            period_ns: PERIOD_NS,
            has_load: false,
            ticks: 0,
            missed: 0,
            planned: 40,
            rounds: BTreeMap::new(),
        };
        for (round, ns) in (0..).zip(medians_ns) {
            subject.add(round, vec![ns]);
        }
        subject
    }

    /// Returns whether subjects with these medians in each round are settled.
    fn are_settled(subjects: impl IntoIterator<Item = WatchedSubject>) -> bool {
        Settling::watching(subjects.into_iter().map(Some).collect()).is_settled_now()
    }

    #[test]
    fn clear_orders_and_ties_are_settled() {
        let near = |ns: i64| subject((0..10).map(move |round| ns + round * 10));
        assert!(are_settled([near(30_000), near(1_000_000), near(600)]));
        assert!(are_settled([near(30_000), near(33_000)]), "clear, although near");
        let uneven = |sign: i64| subject((0..10).map(move |r| 30_000 + sign * (r % 3 - 1) * 2_000));
        assert!(are_settled([uneven(1), uneven(-1)]), "a tie");
    }

    #[test]
    fn unknown_orders_are_not_settled() {
        let wide =
            |odd: i64| subject((0..10).map(move |r| if r % 2 == odd { 20_000 } else { 40_000 }));
        assert!(!are_settled([wide(0)]), "one p50 is not known");
        let drift = |offset: i64| subject((0..10).map(move |r| 30_000 + offset * (r - 3) * 2_000));
        assert!(!are_settled([drift(1), drift(-1)]), "the order changed");
        assert!(!are_settled([subject([1; 9]), subject([9; 9])]), "too few rounds");
    }

    #[test]
    fn groups_are_not_compared() {
        let drift = |offset: i64| subject((0..10).map(move |r| 30_000 + offset * (r - 3) * 2_000));
        let other = WatchedSubject { group: Some("1ms".to_owned()), ..drift(-1) };
        assert!(are_settled([drift(1), other]));
    }

    #[test]
    fn rounds_of_controls_are_completed() {
        let control = |rounds| WatchedSubject { group: None, ..subject(vec![9; rounds]) };
        let settling =
            |rounds| Settling::watching(vec![Some(subject([1; 10])), Some(control(rounds))]);
        assert!(!settling(9).is_complete(9) && settling(10).is_complete(9));
        assert!(settling(10).is_settled_now());
        assert!(!are_settled([control(10)]), "no subject competes any more");
    }

    #[test]
    fn answer_names_ties() {
        let named = |name: &str, medians_ns: &[i64]| {
            Some(WatchedSubject { name: name.to_owned(), ..subject(medians_ns.iter().copied()) })
        };
        let answer = |subjects| Settling::watching(subjects).find_answer();
        let (low, high) = (named("low", &[20_000; 10]), named("high", &[90_000; 10]));
        let clear = "So far, low is the least late at p50: 20.0 us";
        assert_eq!(answer(vec![high, low]).unwrap(), clear);
        let (low, near) = (named("low", &[20_000; 2]), named("near", &[21_000; 2]));
        let tie = "So far, no clear difference at p50 between low, 20.0 us, and near";
        assert_eq!(answer(vec![low, near]).unwrap(), tie);
        assert_eq!(answer(vec![named("low", &[20_000; 10])]), None, "nothing to compare");
        assert_eq!(answer(vec![named("low", &[1; 10]), named("new", &[])]), None);
    }

    #[test]
    fn late_machine_ranks_nothing() {
        let answer = |late: usize| {
            let mut settling =
                Settling::watching(vec![Some(subject([1; 8])), Some(subject([9; 8]))]);
            let lateness_ns: Vec<i64> =
                (0..100).map(|tick| if tick < late { 900_000 } else { 100 }).collect();
            settling.machine.add("spin", PERIOD_NS, &Round::default(), &lateness_ns);
            settling.find_answer().unwrap()
        };
        assert!(answer(40).contains("least late"), "it is punctual at p50");
        assert_eq!(answer(60), "So far, not ranked: even at p50, the machine itself was late");
    }

    #[test]
    fn missed_ticks_prevent_an_answer() {
        let answer = |missed| {
            let slow = WatchedSubject { ticks: 10, missed, ..subject([9; 8]) };
            Settling::watching(vec![Some(subject([1; 8])), Some(slow)]).find_answer()
        };
        assert!(answer(5).is_some());
        assert_eq!(answer(6), None);
    }

    #[test]
    fn excluded_rounds_count_for_nothing() {
        let mut subject = subject([100; 10]);
        subject.add(10, Vec::new());
        assert_eq!((subject.rounds.len(), subject.median()), (11, 100_f64.ln()));
        assert!(subject.is_known());
    }

    /// Returns the default subjects of the published reference run with the lateness of each round.
    fn reference_run() -> Vec<Vec<Vec<i64>>> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let path = root.join("results/2026-11-27-epyc-kvm-2cpu/report.json.gz");
        let report = Report::from_json(&file_io::read_text(&path).unwrap()).unwrap();
        let defaults = subjects::defaults_of(DefaultSelection::Run).filter(|s| !s.is_control());
        defaults
            .map(|info| {
                let subject = report.subjects.iter().find(|s| s.name == info.name).unwrap();
                subject.rounds.iter().map(|round| round.lateness_ns.clone()).collect()
            })
            .collect()
    }

    /// Replays rounds in this order until they are settled; returns the p50 of each subject and the
    /// number of rounds.
    fn replay(run: &[Vec<Vec<i64>>], order: &[usize]) -> (Vec<f64>, u64) {
        let subjects = run.iter().map(|_| Some(subject([]))).collect();
        let mut settling = Settling::watching(subjects);
        let mut rounds = 0;
        for &index in order {
            for (subject, samples) in settling.subjects.iter_mut().flatten().zip(run) {
                subject.add(rounds, samples[index].clone());
            }
            rounds += 1;
            if settling.is_settled_now() {
                break;
            }
        }
        (settling.watched().map(WatchedSubject::median).collect(), rounds)
    }

    #[test]
    fn resampled_runs_keep_the_order() {
        const RUNS: usize = 100;
        let run = reference_run();
        let mut random = SplitMix64::new(1);
        let mut order: Vec<usize> = (0..run[0].len()).collect();
        let whole: Vec<f64> = run
            .iter()
            .map(|rounds| {
                let mut whole = subject([]);
                (0..).zip(rounds).for_each(|(index, samples)| whole.add(index, samples.clone()));
                whole.median()
            })
            .collect();
        let (mut kept, mut all_rounds, mut bias) = (0, Vec::new(), 0.0);
        for _ in 0..RUNS {
            random.shuffle(&mut order);
            let (early, rounds) = replay(&run, &order);
            let is_swapped = |(a, b): (usize, usize)| {
                early[a] < early[b] && whole[a] > whole[b] + MAX_RATIO.ln()
            };
            let pairs = (0..run.len()).flat_map(|a| (0..run.len()).map(move |b| (a, b)));
            kept += usize::from(!pairs.into_iter().any(is_swapped));
            bias += early.iter().zip(&whole).map(|(e, w)| e - w).sum::<f64>() / whole.len() as f64;
            all_rounds.push(rounds);
        }
        all_rounds.sort_unstable();
        let (median, max) = (all_rounds[RUNS / 2], all_rounds[RUNS - 1]);
        assert_eq!((kept, median, max), (RUNS, 10, 11), "bias {}", bias / RUNS as f64);
        assert!((bias / RUNS as f64).abs() < 0.01, "bias {}", bias / RUNS as f64);
    }
}
