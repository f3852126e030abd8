//! Counts how often the intervals of a report contain the true value, on recorded rounds.
//!
//! `interval-coverage DRAWS REPORT...` prints a table; `scripts/studies/interval-coverage.py` calls
//! it. The rounds of a subject in one report represent everything that could have been measured, so
//! their percentiles and cost are the true values. A run consists of forty rounds, the default of
//! `osjitter run`: once drawn independently, as the method assumes, and once forty successive
//! rounds, as in a real run. The 95 % interval should contain the true value in 95 % of the runs.

use files::file::File as _;
use files::report::{Report, Round, Subject};
use jitterstat::stats::bootstrap::{percentile_intervals, ratio_interval};
use jitterstat::stats::quantile::nearest_rank;
use jitterstat::stats::random::SplitMix64;

const QUANTILES: [f64; 3] = [0.50, 0.90, 0.99];
const NAMES: [&str; 4] = ["p50", "p90", "p99", "CPU"];
const RUN_ROUNDS: usize = 40;
const CONFIDENCE: f64 = 0.95;

/// Number of runs with an interval, and of those whose interval contains the true value.
#[derive(Clone, Copy, Default)]
struct Coverage {
    covered: u64,
    runs: u64,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let usage = "usage: interval-coverage DRAWS REPORT...";
    let mut arguments = std::env::args().skip(1);
    let draws: u64 = arguments.next().ok_or(usage)?.parse()?;
    let reports: Vec<Report> = arguments
        .map(|file| Ok(Report::from_json(&std::fs::read_to_string(file)?)?))
        .collect::<Result<_, Box<dyn std::error::Error>>>()?;
    let mut names: Vec<&str> =
        reports.iter().flat_map(|r| &r.subjects).map(|s| s.name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    println!("| Subject | Rounds of a run | {} |", NAMES.join(" | "));
    println!("|---|---|{}", "---:|".repeat(NAMES.len()));
    for name in names {
        for (method, in_succession) in [("drawn independently", false), ("in succession", true)] {
            let mut coverage = [Coverage::default(); NAMES.len()];
            let subjects = reports.iter().flat_map(|r| &r.subjects).filter(|s| s.name == name);
            for subject in subjects.filter(|s| s.rounds.len() >= 4 * RUN_ROUNDS) {
                cover(subject, draws, in_succession, &mut coverage);
            }
            let share = |c: &Coverage| match c.runs {
                0 => "-".to_owned(),
                runs => format!("{:.1} %", 100.0 * c.covered as f64 / runs as f64),
            };
            let shares: Vec<String> = coverage.iter().map(share).collect();
            println!("| `{name}` | {method} | {} |", shares.join(" | "));
        }
    }
    Ok(())
}

fn cover(
    subject: &Subject,
    draws: u64,
    in_succession: bool,
    coverage: &mut [Coverage; NAMES.len()],
) {
    let mut all: Vec<i64> =
        subject.rounds.iter().flat_map(|round| round.lateness_ns.iter().copied()).collect();
    all.sort_unstable();
    let truth = QUANTILES.map(|q| nearest_rank(&all, q));
    let costs: Vec<Option<(f64, f64)>> = subject.rounds.iter().map(cost).collect();
    let sums = costs.iter().flatten().fold((0.0, 0.0), |sum, c| (sum.0 + c.0, sum.1 + c.1));
    let mut random = SplitMix64::new(1);
    for _ in 0..draws {
        let from = random.index(subject.rounds.len());
        let run: Vec<usize> = (0..RUN_ROUNDS)
            .map(|i| {
                if in_succession {
                    (from + i) % subject.rounds.len()
                } else {
                    random.index(subject.rounds.len())
                }
            })
            .collect();
        let rounds: Vec<&[i64]> =
            run.iter().map(|&i| subject.rounds[i].lateness_ns.as_slice()).collect();
        let intervals = percentile_intervals(&rounds, &QUANTILES, CONFIDENCE);
        for ((interval, truth), coverage) in intervals.iter().zip(truth).zip(&mut *coverage) {
            if let (Some(interval), Some(truth)) = (interval, truth) {
                coverage.runs += 1;
                coverage.covered += u64::from(interval.contains(truth));
            }
        }
        let run_costs: Option<Vec<(f64, f64)>> = run.iter().map(|&i| costs[i]).collect();
        if let Some(interval) = run_costs.and_then(|costs| ratio_interval(&costs, CONFIDENCE)) {
            let cost_coverage = &mut coverage[QUANTILES.len()];
            cost_coverage.runs += 1;
            cost_coverage.covered += u64::from(interval.contains(sums.0 / sums.1));
        }
    }
}

/// Returns the CPU time of a round and its ticks.
fn cost(round: &Round) -> Option<(f64, f64)> {
    let summary = round.summary.as_ref()?;
    Some((summary.cpu_ns_per_tick? * summary.ticks as f64, summary.ticks as f64))
}
