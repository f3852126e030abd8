//! A comparison for the terminal and for Markdown.

use std::fmt::Write as _;

use cli::align::fit;
use cli::amount::format_amount;
use cli::markdown::escape_cell;
use cli::printable::to_printable;
use cli::time::{format_interval, format_time};
use cli::wrap::wrap_paragraph;
use files::compare::{
    ComparedMetric, Comparison, Estimate, Finding, Method, Origin, RunEstimate, SubjectComparison,
};
use files::environment::Difference;

use crate::render::fitness;

/// What the estimates other than those over all rounds are called, with what that means.
const QUIET: (&str, &str) =
    ("quiet", "over the quieter half of the pairs, by the sum of both sides");
/// See [`QUIET`].
const CONTROL: (&str, &str) =
    ("ctl", "what each side has beyond the control nanosleep of its own run");

/// The same of whole runs.
const BASELINE: (&str, &str) = ("beside", "as multiples of the baseline of each side's own gate");

/// What a percentile is here, and what it is not.
const MEDIAN_ROUND: &str =
    "percentiles of the median round (`osjitter run` shows those of all ticks)";

/// For a terminal of so many columns; only a file's name may be longer.
pub fn table(comparison: &Comparison, columns: usize) -> String {
    let paragraph = |text: &str| wrap_paragraph(text, columns);
    let mut text = forced(comparison).map_or(String::new(), |forced| paragraph(&forced) + "\n");
    for (i, compared) in comparison.subjects.iter().enumerate() {
        if i > 0 {
            text.push('\n');
        }
        let names =
            [("A", &compared.a.id, &comparison.a.file), ("B", &compared.b.id, &comparison.b.file)];
        for (side, id, file) in names {
            let _ = writeln!(text, "{side}  {id}\n   in {file}");
        }
        let rows = rows(compared);
        let heading = ["", "A", "B", "B/A, 95 %", "B-A, 95 %", "rounds"].map(str::to_owned);
        let cells = rows.iter().map(cells);
        let _ = writeln!(text, "{}{}", paragraph(&method(compared)), paragraph(MEDIAN_ROUND));
        text += &fit(
            &std::iter::once(heading).chain(cells).map(Vec::from).collect::<Vec<_>>(),
            columns,
        );
        for (mark, means) in marks(&rows) {
            text += &paragraph(&format!("{mark}: {means}"));
        }
        text.push('\n');
        text += &paragraph(&reading(compared));
        text += &paragraph(&surroundings(compared));
    }
    text += &metrics_table(comparison, columns);
    for line in by_chance(comparison).into_iter().chain(fitness_lines(comparison)) {
        text.push('\n');
        text += &paragraph(&line);
    }
    for warning in &comparison.warnings {
        text.push('\n');
        text += &paragraph(&format!("{} {}", warning.message, warning.hint));
    }
    to_printable(&text)
}

/// For a pull request or a step summary.
pub fn markdown(comparison: &Comparison) -> String {
    let of_runs = !comparison.metrics.is_empty();
    let mut text =
        if of_runs { "### Runs of B against A\n" } else { "### Lateness of B against A\n" }
            .to_owned();
    if let Some(forced) = forced(comparison) {
        let _ = writeln!(text, "\n> **{}**", escape_cell(&forced));
    }
    for compared in &comparison.subjects {
        let [a, b] =
            [(&compared.a.id, &comparison.a), (&compared.b.id, &comparison.b)].map(|(id, of)| {
                format!(
                    "{} in {}, {}",
                    escape_cell(id),
                    escape_cell(&of.file),
                    escape_cell(&of.started_utc)
                )
            });
        let _ = writeln!(text, "\nA: {a}  \nB: {b}\n");
        text += "| Percentile | A | B | B/A, 95 % | B-A, 95 % | Rounds | |\n|---|---:|---:|---:|---:|---:|---|\n";
        let rows = rows(compared);
        for row in &rows {
            let cells = cells(row).map(|text| escape_cell(&text));
            let _ = writeln!(text, "| {} | {} |", cells.join(" | "), finding(row.estimate.finding));
        }
        let marks: String =
            marks(&rows).map(|(mark, means)| format!(" {mark}: {means}.")).collect();
        let _ = writeln!(
            text,
            "\nCompared {}: {MEDIAN_ROUND}.{marks}\n{}",
            method(compared),
            escape_cell(&surroundings(compared))
        );
    }
    if of_runs {
        let [a, b] = [&comparison.a, &comparison.b].map(|of| {
            let program = of.program.as_deref().unwrap_or("?");
            format!(
                "{} in {}, {}",
                escape_cell(program),
                escape_cell(&of.file),
                escape_cell(&of.started_utc)
            )
        });
        let _ = writeln!(text, "\nA: {a}  \nB: {b}\n");
        text += "| Metric | A | B | B/A, 95 % | Runs | |\n|---|---:|---:|---:|---:|---|\n";
        for (cells, of) in metric_rows(comparison) {
            let _ = writeln!(
                text,
                "| {} | {} |",
                cells.map(|text| escape_cell(&text)).join(" | "),
                finding(of.finding)
            );
        }
        let _ = writeln!(
            text,
            "\nCompared {}.{}",
            metrics_method(comparison),
            beside_means(comparison, " ")
        );
    }
    for line in by_chance(comparison).into_iter().chain(fitness_lines(comparison)) {
        let _ = writeln!(text, "\n> {}", escape_cell(&line));
    }
    for warning in &comparison.warnings {
        let _ = writeln!(
            text,
            "\n> **{}** {} {}",
            escape_cell(&warning.code),
            escape_cell(&warning.message),
            escape_cell(&warning.hint)
        );
    }
    text
}

/// The metrics of whole runs, for the terminal; empty where there are none.
fn metrics_table(comparison: &Comparison, columns: usize) -> String {
    if comparison.metrics.is_empty() {
        return String::new();
    }
    let paragraph = |text: &str| wrap_paragraph(text, columns);
    let program =
        |of: &Origin| format!("{}\n   in {}", of.program.as_deref().unwrap_or("?"), of.file);
    let [a, b] = [&comparison.a, &comparison.b].map(program);
    let mut text = format!("A  {a}\nB  {b}\n{}\n", paragraph(&metrics_method(comparison)));
    let heading = ["", "A", "B", "B/A, 95 %", "runs"].map(str::to_owned);
    let rows: Vec<_> = metric_rows(comparison).collect();
    let cells =
        std::iter::once(heading).chain(rows.iter().map(|(cells, _)| cells.clone())).map(Vec::from);
    text += &fit(&cells.collect::<Vec<_>>(), columns);
    text += &paragraph(beside_means(comparison, "").trim_end_matches('.'));
    text.push('\n');
    text + &paragraph(&told(rows.iter().map(|(cells, of)| (cells[0].as_str(), of.finding))))
}

fn metric_rows(comparison: &Comparison) -> impl Iterator<Item = ([String; 5], &RunEstimate)> {
    comparison.metrics.iter().flat_map(|metric| {
        let ComparedMetric { name, unit, .. } = metric;
        let row = |name: String, of: &RunEstimate, [a, b]: [String; 2]| {
            let runs = if of.runs_a == of.runs_b {
                of.runs_a.to_string()
            } else {
                format!("{}/{}", of.runs_a, of.runs_b)
            };
            [name, a, b, with_interval(of.ratio, of.ratio_ci95), runs]
        };
        let all = &metric.all;
        let of_all =
            (row(name.clone(), all, [all.a, all.b].map(|value| format_amount(value, unit))), all);
        let beside = metric.beside_baseline.iter();
        let of_beside = beside.map(move |of| {
            (row(format!("{name} {}", BASELINE.0), of, [of.a, of.b].map(ratio)), of)
        });
        std::iter::once(of_all).chain(of_beside)
    })
}

/// Explains the mark of a row, if there is one.
fn beside_means(comparison: &Comparison, before: &str) -> String {
    let any = comparison.metrics.iter().any(|metric| metric.beside_baseline.is_some());
    if any { format!("{before}{}: {}.", BASELINE.0, BASELINE.1) } else { String::new() }
}

fn metrics_method(comparison: &Comparison) -> String {
    let estimates =
        comparison.metrics.iter().flat_map(|m| std::iter::once(&m.all).chain(&m.beside_baseline));
    let paired = comparison.metrics.iter().all(|m| m.method == Method::PairedByRound);
    let normal = intervals(estimates.map(|of| of.exact));
    if paired {
        format!("paired by run (signed-rank interval, {normal})")
    } else {
        format!("two gates, not paired (Mann-Whitney interval, {normal})")
    }
}

/// One line of a table.
struct Row<'a> {
    /// Name of the percentile, as people write it, and of which rounds.
    name: String,
    estimate: &'a Estimate,
}

/// The rows of a pair of subjects, percentile by percentile.
fn rows(compared: &SubjectComparison) -> Vec<Row<'_>> {
    let mut rows = Vec::new();
    for percentile in &compared.percentiles {
        let name = percentile.name.replace('_', ".");
        rows.push(Row { name: name.clone(), estimate: &percentile.all });
        for (mark, estimate) in
            [(QUIET.0, &percentile.quiet_half), (CONTROL.0, &percentile.beside_control)]
        {
            rows.extend(
                estimate.iter().map(|estimate| Row { name: format!("{name} {mark}"), estimate }),
            );
        }
    }
    rows
}

fn cells(row: &Row<'_>) -> [String; 6] {
    let of = row.estimate;
    let (a, b) = (format_time(of.a_ns), format_time(of.b_ns));
    [row.name.clone(), a, b, ratio_with_interval(of), difference_with_interval(of), rounds(of)]
}

/// The marks in the names of rows, with what they mean.
fn marks(rows: &[Row<'_>]) -> impl Iterator<Item = (&'static str, &'static str)> {
    [QUIET, CONTROL].into_iter().filter(|(mark, _)| rows.iter().any(|row| row.name.ends_with(mark)))
}

/// A ratio with three digits.
fn ratio(value: f64) -> String {
    // Rounded first: 0.9996 has its digits where 1.00 has them.
    let rounded: f64 = format!("{value:.2e}").parse().unwrap_or(value);
    let whole_digits = if rounded > 0.0 { rounded.log10().floor() } else { 0.0 };
    let digits = (2.0 - whole_digits).clamp(0.0, 9.0) as usize;
    format!("{value:.digits$}")
}

/// The ratio with its interval.
fn ratio_with_interval(of: &Estimate) -> String {
    with_interval(of.ratio, of.ratio_ci95)
}

fn with_interval(of: f64, interval: Option<[f64; 2]>) -> String {
    let interval = interval.map(|[low, high]| format!(" [{}, {}]", ratio(low), ratio(high)));
    ratio(of) + &interval.unwrap_or_default()
}

/// The difference with its interval.
fn difference_with_interval(of: &Estimate) -> String {
    let plus = |ns: i64| if ns > 0 { "+" } else { "" };
    let both = |ci: [i64; 2]| {
        let [low, high] = ci.map(plus);
        let text = format_interval(ci[0], ci[1]);
        // The signs of the ends stand before their numbers.
        text.replacen('[', &format!(" [{low}"), 1).replacen(", ", &format!(", {high}"), 1)
    };
    format!(
        "{}{}{}",
        plus(of.difference_ns),
        format_time(of.difference_ns),
        of.difference_ns_ci95.map_or(String::new(), both)
    )
}

/// Rounds of both sides; a pair is one.
fn rounds(of: &Estimate) -> String {
    if of.rounds_a == of.rounds_b {
        of.rounds_a.to_string()
    } else {
        format!("{}/{}", of.rounds_a, of.rounds_b)
    }
}

/// What an interval says, in words.
fn finding(of: Finding) -> &'static str {
    match of {
        Finding::NoDifferenceShown => "no difference shown",
        Finding::Later => "B is later",
        Finding::Earlier => "B is less late",
        Finding::Worse => "B is worse",
        Finding::Better => "B is better",
        Finding::TooFewRounds => "too few rounds for an interval",
    }
}

/// How it was compared, with the way the intervals were found.
fn method(compared: &SubjectComparison) -> String {
    let normal = intervals(rows(compared).iter().map(|row| row.estimate.exact));
    match compared.method {
        Method::PairedByRound => format!("paired by round (signed-rank interval, {normal})"),
        Method::TwoRuns => format!("two runs, not paired (Mann-Whitney interval, {normal})"),
    }
}

/// What the intervals are of.
fn intervals(exact: impl IntoIterator<Item = bool>) -> &'static str {
    if exact.into_iter().all(|exact| exact) { "exact" } else { "normal approximation" }
}

/// Each percentile with what it says.
fn reading(compared: &SubjectComparison) -> String {
    let rows = rows(compared);
    if rows.is_empty() {
        return "The rounds are too short for any percentile.".to_owned();
    }
    told(rows.iter().map(|row| (row.name.as_str(), row.estimate.finding)))
}

/// Those that say the same, together.
fn told<'a>(named: impl Iterator<Item = (&'a str, Finding)>) -> String {
    let mut groups: Vec<(Finding, Vec<&str>)> = Vec::new();
    for (name, of) in named {
        match groups.iter_mut().find(|(finding, _)| *finding == of) {
            Some((_, names)) => names.push(name),
            None => groups.push((of, vec![name])),
        }
    }
    let told = groups.iter().map(|(of, names)| format!("{}: {}.", names.join(", "), finding(*of)));
    told.collect::<Vec<_>>().join(" ")
}

/// How many figures are apart, where there are enough that chance alone makes some of them so.
fn by_chance(comparison: &Comparison) -> Option<String> {
    const ENOUGH: usize = 10;
    let findings: Vec<Finding> = comparison
        .subjects
        .iter()
        .flat_map(rows)
        .map(|row| row.estimate.finding)
        .filter(|finding| *finding != Finding::TooFewRounds)
        .collect();
    let apart = findings.iter().filter(|finding| **finding != Finding::NoDifferenceShown).count();
    let all = findings.len();
    (apart > 0 && all >= ENOUGH).then(|| {
        format!("Clearly apart: {apart} of {all} figures, where chance alone makes one in twenty.")
    })
}

/// What the sides met while they were measured; empty where that is not known.
fn surroundings(compared: &SubjectComparison) -> String {
    let percent =
        |share: Option<f64>| share.map_or("unknown".to_owned(), |s| format!("{:.1} %", s * 100.0));
    let (a, b) = (&compared.a, &compared.b);
    let mut text = String::new();
    if a.same_stall_share.is_some() || b.same_stall_share.is_some() {
        let (x, y) = (percent(a.same_stall_share), percent(b.same_stall_share));
        let _ = write!(text, "Ticks inside a stall already counted: A {x}, B {y}. ");
    }
    let lifted = compared
        .percentiles
        .iter()
        .filter_map(|p| p.lift.map(|lift| (p.name.replace('_', "."), lift)));
    for (name, [a, b]) in lifted.filter(|(_, lift)| lift.iter().any(|&ratio| ratio >= 1.000_5)) {
        let [x, y] = [a, b].map(|ratio| percent(Some(ratio - 1.0)));
        let _ = write!(text, "Stalls raise {name} by: A {x}, B {y}. ");
    }
    if a.steal_share.is_some() || b.steal_share.is_some() {
        let (x, y) = (percent(a.steal_share), percent(b.steal_share));
        let _ = write!(text, "Of all CPUs stolen by the hypervisor: A {x}, B {y}.");
    }
    text.trim_end().to_owned()
}

/// Whether to believe each side; once where both are of one run.
fn fitness_lines(comparison: &Comparison) -> Vec<String> {
    let [a, b] =
        [&comparison.a, &comparison.b].map(|side| fitness::sentence(side.fitness.as_ref()));
    if a == b {
        return a.into_iter().collect();
    }
    let side = |name: &str, line: Option<String>| line.map(|line| format!("{name}: {line}"));
    [side("A", a), side("B", b)].into_iter().flatten().collect()
}

/// Said loudest of all: that this should not have been compared; `None` where nothing is wrong.
pub fn forced(comparison: &Comparison) -> Option<String> {
    let and = "The numbers hold these differences, too";
    let differences = listed(&comparison.forced);
    (!comparison.forced.is_empty())
        .then(|| format!("FORCED: not comparable: {differences}. {and}."))
}

pub fn listed(differences: &[Difference]) -> String {
    differences.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn estimate(ratio: f64, ratio_ci95: Option<[f64; 2]>, finding: Finding) -> Estimate {
        Estimate {
            a_ns: 14_200,
            b_ns: 15_000,
            ratio,
            ratio_ci95,
            difference_ns: 800,
            difference_ns_ci95: ratio_ci95.map(|_| [-20, 1_300]),
            rounds_a: 40,
            rounds_b: 38,
            exact: true,
            finding,
        }
    }

    #[test]
    fn numbers_keep_three_digits_and_a_sign() {
        let of = estimate(1.0563, Some([0.9984, 12.345]), Finding::NoDifferenceShown);
        assert_eq!(ratio_with_interval(&of), "1.06 [0.998, 12.3]");
        assert_eq!(difference_with_interval(&of), "+800 ns [-20 ns, +1.30 us]");
        assert_eq!(rounds(&of), "40/38");
        let told = [0.034_94, 0.999_6, 0.000_061_2, 9.996, 88.31, 1_234.5].map(ratio);
        assert_eq!(told, ["0.0349", "1.00", "0.0000612", "10.0", "88.3", "1234"]);
        let few = estimate(1.0563, None, Finding::TooFewRounds);
        assert_eq!(
            (ratio_with_interval(&few).as_str(), difference_with_interval(&few).as_str()),
            ("1.06", "+800 ns")
        );
    }
}
