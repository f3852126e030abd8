//! The comparison of CPUs on which a subject ran at once.
//!
//! In each round, a percentile of a CPU is compared with the median of the other CPUs. If no CPU
//! differs, each of them is as often above that median as below it, whatever the distribution of
//! the lateness. The sign test over the rounds is exact under this assumption. Its error rate is
//! divided by the number of CPUs and percentiles, so that a report names any CPU with a probability
//! of at most 5 % if none differs.

use std::collections::{BTreeMap, BTreeSet};

use jitterstat::stats::Interval;
use jitterstat::stats::sign_test::median_interval;

use crate::compare::rounds::{QUANTILES, Rounds};
use crate::report::{CpuComparison, CpuDifference, CpuFinding, Report, Scenario, Subject};

/// Probability with which a comparison names a CPU if none differs.
const ERROR_RATE: f64 = 0.05;
/// Names of the compared percentiles of [`QUANTILES`].
const COMPARED: [&str; 2] = ["p50", "p99"];

/// The rounds on a CPU.
struct CpuRounds {
    cpu: u64,
    rounds: Rounds,
}

/// Compares the CPUs on which subjects of a report ran at once.
#[must_use]
pub fn compare_cpus(report: &Report) -> Vec<CpuComparison> {
    let mut comparisons = Vec::new();
    for subjects in concurrent_subjects(report) {
        if subjects.len() < 2 {
            continue;
        }
        let mut cpus = Vec::with_capacity(subjects.len());
        for subject in &subjects {
            let rounds = Rounds::new(report, subject);
            cpus.push(CpuRounds { cpu: subject.cpu.unwrap_or(0), rounds });
        }
        let subjects = subjects.iter().map(|subject| subject.id.clone()).collect();
        comparisons.push(CpuComparison { subjects, differences: find_differences(&cpus) });
    }
    comparisons
}

/// Returns the subjects that ran at once on different CPUs: their scenarios differ only in the CPU.
fn concurrent_subjects(report: &Report) -> Vec<Vec<&Subject>> {
    let mut groups: Vec<(Scenario, Vec<&Subject>)> = Vec::new();
    for scenario in report.plan.scenarios.iter().filter(|scenario| scenario.cpu.is_some()) {
        let Some(subject) = report.subjects.iter().find(|s| s.id == scenario.id) else { continue };
        let shared = Scenario { id: String::new(), cpu: None, ticks: 0, ..scenario.clone() };
        match groups.iter_mut().find(|(other, _)| *other == shared) {
            Some((_, subjects)) => subjects.push(subject),
            None => groups.push((shared, vec![subject])),
        }
    }
    groups.into_iter().map(|(_, subjects)| subjects).collect()
}

/// Compares CPUs by their rounds. Returns a difference for each percentile and CPU.
///
/// The CPU with the largest shown difference is named first and then left out of the comparison of
/// the others, until no difference is shown: a CPU that is much later raises the median of the
/// others, which would make equal CPUs look earlier.
fn find_differences(cpus: &[CpuRounds]) -> Vec<CpuDifference> {
    let columns: Vec<Column> = COMPARED.map(|percentile| Column::new(cpus, percentile)).into();
    let comparisons: usize = columns.iter().map(|column| column.cpus.len()).sum();
    let confidence = 1.0 - ERROR_RATE / comparisons.max(1) as f64;
    let mut named = BTreeSet::new();
    while named.len() + 1 < cpus.len() {
        let largest = |column: &Column| column.largest_difference(&named, confidence);
        let Some(cpu) = columns.iter().find_map(largest) else { break };
        named.insert(cpu);
    }
    columns.iter().flat_map(|column| column.differences(&named, confidence)).collect()
}

/// The value of a CPU in a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct CpuValue {
    cpu: u64,
    ns: i64,
}

/// One percentile of all CPUs.
#[derive(Debug)]
struct Column {
    percentile: &'static str,
    /// The values of each round with at least two of them, in ascending order.
    rounds: Vec<Vec<CpuValue>>,
    /// CPUs with a value.
    cpus: BTreeSet<u64>,
}

impl Column {
    fn new(cpus: &[CpuRounds], percentile: &'static str) -> Self {
        let quantile = QUANTILES.iter().position(|(name, _)| *name == percentile);
        let quantile = quantile.expect("a compared percentile");
        let mut by_round: BTreeMap<u64, Vec<CpuValue>> = BTreeMap::new();
        for CpuRounds { cpu, rounds } in cpus {
            for values in &rounds.values {
                let value = values.ns[quantile].map(|ns| CpuValue { cpu: *cpu, ns });
                by_round.entry(values.index).or_default().extend(value);
            }
        }
        let mut rounds: Vec<Vec<CpuValue>> = by_round.into_values().collect();
        rounds.retain(|values| values.len() > 1);
        for values in &mut rounds {
            values.sort_unstable_by_key(|value| value.ns);
        }
        let cpus = rounds.iter().flatten().map(|value| value.cpu).collect();
        Self { percentile, rounds, cpus }
    }

    /// Returns the CPU that is not yet named and has the largest shown difference from the others
    /// that are not named. Of two equal differences, the later CPU is returned.
    fn largest_difference(&self, named: &BTreeSet<u64>, confidence: f64) -> Option<u64> {
        let mut differences = self.differences(named, confidence);
        differences.retain(|difference| {
            let is_shown = [CpuFinding::Later, CpuFinding::Earlier].contains(&difference.finding);
            is_shown && !named.contains(&difference.cpu)
        });
        let largest = differences.iter().max_by_key(|difference| {
            (difference.difference_ns.unsigned_abs(), difference.difference_ns)
        });
        largest.map(|difference| difference.cpu)
    }

    /// Returns the difference of each CPU from the others that are not named.
    fn differences(&self, named: &BTreeSet<u64>, confidence: f64) -> Vec<CpuDifference> {
        let mut deviations: BTreeMap<u64, Deviations> = BTreeMap::new();
        for values in &self.rounds {
            let mut unnamed = values.clone();
            unnamed.retain(|value| !named.contains(&value.cpu));
            for value in values {
                let others = middle_of_others(&unnamed, value.cpu)
                    .or_else(|| middle_of_others(values, value.cpu));
                if let Some(others) = others {
                    deviations.entry(value.cpu).or_default().add(value.ns, others);
                }
            }
        }
        let mut differences = Vec::with_capacity(deviations.len());
        for (cpu, deviations) in deviations {
            differences.extend(deviations.difference(cpu, self.percentile, confidence));
        }
        differences
    }
}

/// Returns the two middle values of all sorted values except that of a CPU; `None` without others.
fn middle_of_others(sorted: &[CpuValue], cpu: u64) -> Option<Interval<i64>> {
    let own = sorted.iter().position(|value| value.cpu == cpu).unwrap_or(sorted.len());
    let others = sorted.len() - usize::from(own < sorted.len());
    let other = |i: usize| sorted[if i < own { i } else { i + 1 }].ns;
    if others == 0 {
        return None;
    }
    Some(Interval { lower: other((others - 1) / 2), upper: other(others / 2) })
}

/// The deviations of a CPU from the others, one per round.
#[derive(Clone, Debug, Default)]
struct Deviations {
    /// Lateness minus the median of the other CPUs.
    differences_ns: Vec<i64>,
    /// Distance to the two middle values of the other CPUs, which are equal if their number is odd;
    /// zero between them. Its sign is that of the rank of the CPU, so both signs are equally likely
    /// if no CPU differs.
    distances_ns: Vec<i64>,
}

impl Deviations {
    fn add(&mut self, ns: i64, others: Interval<i64>) {
        self.differences_ns.push(ns.saturating_sub(others.lower.midpoint(others.upper)));
        let nearest = ns.clamp(others.lower, others.upper);
        self.distances_ns.push(ns.saturating_sub(nearest));
    }

    /// Returns the difference of a CPU; `None` without a round.
    fn difference(&self, cpu: u64, percentile: &str, confidence: f64) -> Option<CpuDifference> {
        let (difference_ns, interval) = median_interval(&self.differences_ns, confidence)?;
        let (_, distance) = median_interval(&self.distances_ns, confidence)?;
        let finding = match distance {
            None => CpuFinding::TooFewRounds,
            Some(distance) if distance.lower > 0 => CpuFinding::Later,
            Some(distance) if distance.upper < 0 => CpuFinding::Earlier,
            Some(_) => CpuFinding::NoDifferenceShown,
        };
        Some(CpuDifference {
            cpu,
            percentile: percentile.to_owned(),
            rounds: self.differences_ns.len() as u64,
            difference_ns,
            difference_ns_ci95: interval.map(Into::into),
            finding,
        })
    }
}

#[cfg(test)]
mod tests {
    use jitterstat::stats::random::SplitMix64;

    use super::*;
    use crate::compare::rounds::RoundValues;

    /// Draws the lateness of a round: skewed, heavy-tailed, and partly common to all CPUs.
    fn draw(random: &mut SplitMix64, common: f64) -> f64 {
        let unit = |random: &mut SplitMix64| random.unit().mul_add(0.999, 1e-3);
        50_000.0 * common * (1.0 + 0.1 * (unit(random) / unit(random)))
    }

    /// Simulates the rounds of `cpus` CPUs; the lateness of CPU 1 is multiplied by `factor`.
    fn simulate(random: &mut SplitMix64, cpus: u64, count: u64, factor: f64) -> Vec<CpuRounds> {
        let rounds = || Rounds { values: Vec::new(), has_samples: true };
        let mut cpus: Vec<CpuRounds> =
            (0..cpus).map(|cpu| CpuRounds { cpu, rounds: rounds() }).collect();
        for index in 0..count {
            let common = 1.0 + random.unit();
            for CpuRounds { cpu, rounds } in &mut cpus {
                let factor = if *cpu == 1 { factor } else { 1.0 };
                let ns = COMPARED.map(|_| Some((draw(random, common) * factor) as i64));
                let ns = [ns[0], None, ns[1], None];
                rounds.values.push(RoundValues { index, ns, ticks: 250, ..RoundValues::default() });
            }
        }
        cpus
    }

    /// Returns the CPUs that differ, each once.
    fn named_cpus(cpus: &[CpuRounds]) -> Vec<u64> {
        let mut named = BTreeSet::new();
        for difference in find_differences(cpus) {
            if [CpuFinding::Later, CpuFinding::Earlier].contains(&difference.finding) {
                named.insert(difference.cpu);
            }
        }
        named.into_iter().collect()
    }

    #[test]
    fn equal_cpus_are_rarely_named() {
        let mut random = SplitMix64::new(7);
        for cpus in [2, 3, 5, 8] {
            const RUNS: usize = 1_000;
            let named = (0..RUNS).filter(|_| {
                let cpus = simulate(&mut random, cpus, 40, 1.0);
                !named_cpus(&cpus).is_empty()
            });
            let named = named.count();
            assert!(named * 20 <= RUNS, "{cpus} CPUs: {named} of {RUNS}");
        }
    }

    #[test]
    fn slower_cpu_is_named_alone() {
        let mut random = SplitMix64::new(8);
        for cpus in [3, 4, 8] {
            let mut found = 0;
            for _ in 0..100 {
                let named = named_cpus(&simulate(&mut random, cpus, 40, 1.25));
                found += usize::from(named == [1]);
            }
            assert!(found >= 90, "{cpus} CPUs: {found} of 100");
        }
        assert_eq!(named_cpus(&simulate(&mut random, 2, 40, 1.5)), [0, 1], "one of two: both");
    }

    #[test]
    fn two_slow_cpus_are_named_alone() {
        let mut random = SplitMix64::new(10);
        let mut found = 0;
        for _ in 0..50 {
            let mut cpus = simulate(&mut random, 8, 40, 1.25);
            for values in &mut cpus[6].rounds.values {
                values.ns = values.ns.map(|ns| ns.map(|ns| ns * 3 / 2));
            }
            found += usize::from(named_cpus(&cpus) == [1, 6]);
        }
        assert!(found >= 45, "{found} of 50");
    }

    #[test]
    fn few_rounds_name_nothing() {
        let mut random = SplitMix64::new(9);
        let differences = find_differences(&simulate(&mut random, 4, 5, 100.0));
        assert_eq!(differences.len(), 8, "two percentiles of four CPUs");
        for difference in differences {
            assert_eq!(difference.finding, CpuFinding::TooFewRounds);
            assert_eq!((difference.rounds, difference.difference_ns_ci95), (5, None));
        }
    }

    #[test]
    fn middles_leave_out_the_cpu() {
        let values = [10, 20, 30, 40];
        let sorted: Vec<CpuValue> =
            (0..).zip(values).map(|(cpu, ns)| CpuValue { cpu, ns }).collect();
        let middles = |n: usize, cpu| {
            let Interval { lower, upper } = middle_of_others(&sorted[..n], cpu)?;
            Some([lower, upper])
        };
        assert_eq!(middles(4, 0), Some([30, 30]));
        assert_eq!(middles(4, 3), Some([20, 20]));
        assert_eq!(middles(3, 1), Some([10, 30]));
        assert_eq!(middles(2, 1), Some([10, 10]));
        assert_eq!((middles(2, 7), middles(1, 0)), (Some([10, 20]), None));
        let mut between = Deviations::default();
        between.add(25, Interval { lower: 10, upper: 30 });
        between.add(35, Interval { lower: 10, upper: 30 });
        assert_eq!((between.differences_ns, between.distances_ns), (vec![5, 15], vec![0, 5]));
    }
}
