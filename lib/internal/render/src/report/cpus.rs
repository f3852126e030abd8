//! Names the CPUs that differ from the others, if a subject ran on several at once.

use std::collections::BTreeMap;

use cli::time::{format_interval, format_time};
use cli::words::{pluralize, prefix_or_empty};
use files::fitness::Verdict;
use files::report::{CpuComparison, CpuDifference, CpuFinding, Report};

/// Maximum number of CPUs that are described. The others are counted.
const MAX_DESCRIBED: usize = 3;

/// Returns the sentences on all comparisons of CPUs in a report.
pub fn sentences(report: &Report) -> Vec<String> {
    let has_several = report.cpu_comparisons.len() > 1;
    let mut sentences = Vec::new();
    for comparison in &report.cpu_comparisons {
        let name = if has_several { common_name(comparison) } else { String::new() };
        sentences.extend(describe(comparison).into_iter().map(|text| format!("{name}{text}.")));
    }
    let is_named = report.cpu_comparisons.iter().any(|cpus| !named_cpus(cpus).is_empty());
    let is_quiet = report.fitness.as_ref().is_none_or(|fitness| fitness.verdict == Verdict::Quiet);
    if is_named && !is_quiet {
        let caveat =
            "The machine was not quiet: a program that stays on one CPU makes it differ as well.";
        sentences.push(caveat.to_owned());
    }
    sentences
}

/// Returns the identifier of the compared subjects without their CPU, for the start of a sentence.
fn common_name(comparison: &CpuComparison) -> String {
    let Some(id) = comparison.subjects.first() else { return String::new() };
    let Some((name, rest)) = id.split_once("/cpu-") else { return format!("{id}: ") };
    format!("{name}{}: ", rest.trim_start_matches(|c: char| c.is_ascii_digit()))
}

fn describe(comparison: &CpuComparison) -> Vec<String> {
    let differences = &comparison.differences;
    let Some(rounds) = differences.iter().map(|difference| difference.rounds).max() else {
        return vec!["The rounds have too few ticks to compare the CPUs".to_owned()];
    };
    let rounds = pluralize(rounds, "round");
    if differences.iter().all(|difference| difference.finding == CpuFinding::TooFewRounds) {
        return vec![format!("{rounds} are too few to compare the CPUs")];
    }
    let named = named_cpus(comparison);
    if named.is_empty() {
        return vec![format!("No CPU was shown to differ from the others, in {rounds}")];
    }
    let described = named.iter().take(MAX_DESCRIBED);
    let mut sentences: Vec<String> =
        described.map(|cpu| describe_cpu(cpu, comparison, &rounds)).collect();
    match named.len().saturating_sub(MAX_DESCRIBED) {
        0 => {}
        1 => sentences.push("1 more CPU differs from the others".to_owned()),
        more => sentences.push(format!("{more} more CPUs differ from the others")),
    }
    sentences
}

/// Returns the shown differences of each CPU that differs, the largest first. Of two CPUs, only the
/// later one is returned.
fn named_cpus(comparison: &CpuComparison) -> Vec<Vec<&CpuDifference>> {
    let is_pair = comparison.subjects.len() == 2;
    let mut by_cpu: BTreeMap<u64, Vec<&CpuDifference>> = BTreeMap::new();
    for difference in &comparison.differences {
        let is_shown = match difference.finding {
            CpuFinding::Later => true,
            CpuFinding::Earlier => !is_pair,
            CpuFinding::NoDifferenceShown | CpuFinding::TooFewRounds => false,
        };
        if is_shown {
            by_cpu.entry(difference.cpu).or_default().push(difference);
        }
    }
    let mut named: Vec<Vec<&CpuDifference>> = by_cpu.into_values().collect();
    named.sort_by_key(|cpu| std::cmp::Reverse(cpu[0].difference_ns.unsigned_abs()));
    named
}

fn describe_cpu(shown: &[&CpuDifference], comparison: &CpuComparison, rounds: &str) -> String {
    let cpu = shown[0].cpu;
    let mut others = comparison.differences.iter().map(|d| d.cpu).filter(|other| *other != cpu);
    let others = match others.next() {
        Some(first) if others.all(|other| other == first) => format!("CPU {first}"),
        _ => "the other CPUs".to_owned(),
    };
    let amounts: Vec<String> = shown.iter().copied().map(format_difference).collect();
    format!("CPU {cpu} differs from {others}, in {rounds}: {}", amounts.join(", "))
}

/// Formats a difference: `12.0 us later [10.1, 14.2] at p50`.
fn format_difference(difference: &CpuDifference) -> String {
    let CpuDifference { percentile, difference_ns, difference_ns_ci95, .. } = difference;
    let is_later = difference.finding == CpuFinding::Later;
    let sign = if is_later { 1 } else { -1 };
    let amount = format_time(difference_ns.saturating_mul(sign));
    let direction = if is_later { "later" } else { "less late" };
    let bounds = difference_ns_ci95.map(|ci| ci.map(|ns| ns.saturating_mul(sign)));
    let interval = bounds.map(|[a, b]| format_interval(a.min(b), a.max(b)));
    format!("{amount} {direction}{} at {percentile}", prefix_or_empty(" ", interval))
}

#[cfg(test)]
mod tests {
    use files::file::File as _;
    use files::fitness::{Facts, Fitness};

    use super::*;

    fn difference(cpu: u64, percentile: &str, us: i64, finding: CpuFinding) -> CpuDifference {
        let ns = us * 1_000;
        let ci = Some([ns - 500, ns + 500]);
        let percentile = percentile.to_owned();
        CpuDifference {
            cpu,
            percentile,
            rounds: 40,
            difference_ns: ns,
            difference_ns_ci95: ci,
            finding,
        }
    }

    /// Returns the sentences on CPUs with these differences at p50.
    fn describe_all(findings: &[(i64, CpuFinding)]) -> String {
        sentences(&report_of_cpus(findings)).join(" ")
    }

    fn report_of_cpus(findings: &[(i64, CpuFinding)]) -> Report {
        let mut report =
            Report::from_json(include_str!("../../../../../tests/fixtures/report.json"))
                .expect("a report");
        let mut comparison = CpuComparison { subjects: Vec::new(), differences: Vec::new() };
        for (cpu, &(us, finding)) in (0..).zip(findings) {
            comparison.subjects.push(format!("nanosleep@1ms/cpu-{cpu}+cpu:2"));
            comparison.differences.push(difference(cpu, "p50", us, finding));
        }
        report.cpu_comparisons = vec![comparison];
        report.fitness = None;
        report
    }

    #[test]
    fn differing_cpus_are_named() {
        use CpuFinding::{Earlier, Later, NoDifferenceShown, TooFewRounds};
        for (findings, expected) in [
            (
                &[(0, NoDifferenceShown), (12, Later), (-3, Earlier)][..],
                "CPU 1 differs from the other CPUs, in 40 rounds: 12.0 us later [11.5, 12.5 us] at p50. \
                 CPU 2 differs from the other CPUs, in 40 rounds: 3.00 us less late [2.50, 3.50 us] at p50.",
            ),
            (
                &[(-12, Earlier), (12, Later)],
                "CPU 1 differs from CPU 0, in 40 rounds: 12.0 us later [11.5, 12.5 us] at p50.",
            ),
            (
                &[(1, NoDifferenceShown); 3],
                "No CPU was shown to differ from the others, in 40 rounds.",
            ),
            (&[(1, TooFewRounds); 3], "40 rounds are too few to compare the CPUs."),
            (&[], "The rounds have too few ticks to compare the CPUs."),
        ] {
            assert_eq!(describe_all(findings), expected);
        }
        let many = describe_all(&[(5, Later), (9, Later), (7, Later), (6, Later), (-9, Earlier)]);
        assert_eq!(many.matches("differs from").count(), 3, "{many}");
        assert!(
            many.starts_with("CPU 1 ") && many.ends_with("2 more CPUs differ from the others."),
            "{many}"
        );
    }

    #[test]
    fn unquiet_machines_have_a_caveat() {
        let facts = Facts { waited: Some(0.05), ..Facts::default() };
        let fitness = Fitness::from_facts(facts, None, Some(2));
        for (finding, has_caveat) in
            [(CpuFinding::Later, true), (CpuFinding::NoDifferenceShown, false)]
        {
            let mut report = report_of_cpus(&[(9, finding), (0, CpuFinding::NoDifferenceShown)]);
            report.fitness = Some(fitness.clone());
            let text = sentences(&report).join(" ");
            assert_eq!(text.contains("The machine was not quiet"), has_caveat, "{text}");
        }
    }

    #[test]
    fn several_comparisons_have_names() {
        let subjects = vec!["nanosleep@1ms/cpu-12+cpu:2".to_owned()];
        let comparison = CpuComparison { subjects, differences: Vec::new() };
        assert_eq!(common_name(&comparison), "nanosleep@1ms+cpu:2: ");
    }
}
