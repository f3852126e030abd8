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
/// Indices of the compared percentiles in [`QUANTILES`]: p50 and p99.
const COMPARED: [usize; 2] = [0, 2];

/// Compares the CPUs on which subjects of a report ran at once.
#[must_use]
pub fn compare_cpus(report: &Report) -> Vec<CpuComparison> {
    let groups = concurrent_subjects(report);
    groups.iter().filter_map(|subjects| compare_group(report, subjects)).collect()
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

/// Compares the CPUs of one group; `None` for a single CPU.
fn compare_group(report: &Report, subjects: &[&Subject]) -> Option<CpuComparison> {
    if subjects.len() < 2 {
        return None;
    }
    let rounds: Vec<Rounds> = subjects.iter().map(|s| Rounds::new(report, s)).collect();
    let mut differences = Vec::new();
    for (position, difference) in find_differences(&rounds) {
        differences.push(CpuDifference { cpu: subjects[position].cpu.unwrap_or(0), ..difference });
    }
    Some(CpuComparison { subjects: subjects.iter().map(|s| s.id.clone()).collect(), differences })
}

/// Compares CPUs by their rounds. Returns a difference for each percentile and CPU, with the
/// position of the CPU.
///
/// The CPU with the largest shown difference is named first and then left out of the comparison of
/// the others, until no difference is shown: a CPU that is much later raises the median of the
/// others, which would make equal CPUs look earlier.
fn find_differences(rounds: &[Rounds]) -> Vec<(usize, CpuDifference)> {
    let columns = COMPARED.map(|quantile| Column::new(rounds, quantile));
    let comparisons: usize = columns.iter().map(Column::compared_cpus).sum();
    let confidence = 1.0 - ERROR_RATE / comparisons.max(1) as f64;
    let mut named = BTreeSet::new();
    while let Some(cpu) =
        columns.iter().find_map(|column| column.largest_difference(&named, confidence))
    {
        named.insert(cpu);
    }
    let mut differences = Vec::with_capacity(comparisons);
    for column in &columns {
        differences.extend(column.differences(&named, confidence));
    }
    differences
}

/// The value of a CPU in a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct CpuValue {
    /// Position of the CPU among the compared ones.
    cpu: usize,
    ns: i64,
}

/// One percentile of all CPUs.
#[derive(Debug)]
struct Column {
    percentile: &'static str,
    /// The values of each round with at least two of them, in ascending order.
    rounds: Vec<Vec<CpuValue>>,
    /// Number of CPUs, including those without a value.
    cpus: usize,
}

impl Column {
    fn new(cpus: &[Rounds], quantile: usize) -> Self {
        let mut by_round: BTreeMap<u64, Vec<CpuValue>> = BTreeMap::new();
        for (cpu, rounds) in cpus.iter().enumerate() {
            for values in &rounds.values {
                let value = values.ns[quantile].map(|ns| CpuValue { cpu, ns });
                by_round.entry(values.index).or_default().extend(value);
            }
        }
        let mut rounds: Vec<Vec<CpuValue>> = by_round.into_values().collect();
        rounds.retain(|values| values.len() > 1);
        for values in &mut rounds {
            values.sort_unstable_by_key(|value| value.ns);
        }
        Self { percentile: QUANTILES[quantile].0, rounds, cpus: cpus.len() }
    }

    /// Returns the number of CPUs with a value.
    fn compared_cpus(&self) -> usize {
        let cpus: BTreeSet<usize> = self.rounds.iter().flatten().map(|value| value.cpu).collect();
        cpus.len()
    }

    /// Returns the CPU that is not yet named and has the largest shown difference from the others
    /// that are not named. Of two equal differences, the later CPU is returned.
    fn largest_difference(&self, named: &BTreeSet<usize>, confidence: f64) -> Option<usize> {
        if self.cpus - named.len() < 2 {
            return None;
        }
        let mut differences = self.differences(named, confidence);
        differences.retain(|(cpu, difference)| {
            let is_shown = [CpuFinding::Later, CpuFinding::Earlier].contains(&difference.finding);
            is_shown && !named.contains(cpu)
        });
        let largest = differences.iter().max_by_key(|(_, difference)| {
            (difference.difference_ns.unsigned_abs(), difference.difference_ns)
        });
        largest.map(|(cpu, _)| *cpu)
    }

    /// Returns the difference of each CPU from the others that are not named.
    fn differences(&self, named: &BTreeSet<usize>, confidence: f64) -> Vec<(usize, CpuDifference)> {
        let mut deviations = vec![Deviations::default(); self.cpus];
        for values in &self.rounds {
            let mut unnamed = values.clone();
            unnamed.retain(|value| !named.contains(&value.cpu));
            for value in values {
                let others = middle_of_others(&unnamed, value.cpu)
                    .or_else(|| middle_of_others(values, value.cpu));
                if let Some(others) = others {
                    deviations[value.cpu].add(value.ns, others);
                }
            }
        }
        let mut differences = Vec::with_capacity(self.cpus);
        for (cpu, deviations) in deviations.iter().enumerate() {
            let difference = deviations.difference(self.percentile, confidence);
            differences.extend(difference.map(|difference| (cpu, difference)));
        }
        differences
    }
}

/// Returns the two middle values of all sorted values except that of a CPU; `None` without others.
fn middle_of_others(sorted: &[CpuValue], cpu: usize) -> Option<Interval<i64>> {
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

    /// Returns the difference of the CPU, whose number the caller sets; `None` without a round.
    fn difference(&self, percentile: &str, confidence: f64) -> Option<CpuDifference> {
        let (difference_ns, interval) = median_interval(&self.differences_ns, confidence)?;
        let (_, distance) = median_interval(&self.distances_ns, confidence)?;
        let finding = match distance {
            None => CpuFinding::TooFewRounds,
            Some(distance) if distance.lower > 0 => CpuFinding::Later,
            Some(distance) if distance.upper < 0 => CpuFinding::Earlier,
            Some(_) => CpuFinding::NoDifferenceShown,
        };
        Some(CpuDifference {
            cpu: 0,
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
    fn simulate(random: &mut SplitMix64, cpus: usize, count: u64, factor: f64) -> Vec<Rounds> {
        let mut rounds = vec![Rounds { values: Vec::new(), has_samples: true }; cpus];
        for index in 0..count {
            let common = 1.0 + random.unit();
            for (cpu, rounds) in rounds.iter_mut().enumerate() {
                let factor = if cpu == 1 { factor } else { 1.0 };
                let ns = COMPARED.map(|_| Some((draw(random, common) * factor) as i64));
                let ns = [ns[0], None, ns[1], None];
                rounds.values.push(RoundValues { index, ns, ticks: 250, ..RoundValues::default() });
            }
        }
        rounds
    }

    /// Returns the CPUs that differ, each once.
    fn named_cpus(rounds: &[Rounds]) -> Vec<usize> {
        let mut named = BTreeSet::new();
        for (cpu, difference) in find_differences(rounds) {
            if [CpuFinding::Later, CpuFinding::Earlier].contains(&difference.finding) {
                named.insert(cpu);
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
                let rounds = simulate(&mut random, cpus, 40, 1.0);
                !named_cpus(&rounds).is_empty()
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
            let mut rounds = simulate(&mut random, 8, 40, 1.25);
            for values in &mut rounds[6].values {
                values.ns = values.ns.map(|ns| ns.map(|ns| ns * 3 / 2));
            }
            found += usize::from(named_cpus(&rounds) == [1, 6]);
        }
        assert!(found >= 45, "{found} of 50");
    }

    #[test]
    fn few_rounds_name_nothing() {
        let mut random = SplitMix64::new(9);
        let differences = find_differences(&simulate(&mut random, 4, 5, 100.0));
        assert_eq!(differences.len(), 8, "two percentiles of four CPUs");
        for (_, difference) in differences {
            assert_eq!(difference.finding, CpuFinding::TooFewRounds);
            assert_eq!((difference.rounds, difference.difference_ns_ci95), (5, None));
        }
    }

    #[test]
    fn middles_leave_out_the_cpu() {
        let values = [10, 20, 30, 40];
        let sorted: Vec<CpuValue> =
            values.iter().enumerate().map(|(cpu, &ns)| CpuValue { cpu, ns }).collect();
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
