//! Reports with known differences, for tests.

use std::collections::BTreeMap;

use files::file::File as _;
use files::report::{PERCENTILES, Report, Round, Scenario, Subject, Summary};
use jitterstat::stats::bootstrap::percentile_intervals;
use jitterstat::stats::quantile::supported_nearest_rank;
use jitterstat::stats::random::SplitMix64;

pub const ROUNDS: usize = 40;
const TICKS: usize = 250;
const PERIOD_NS: u64 = 1_000_000;

/// A subject of which three ticks in a hundred are in the tail.
#[derive(Clone, Copy, Debug)]
pub struct SyntheticSubject {
    pub name: &'static str,
    pub typical_us: f64,
    pub tail_us: f64,
    pub cost_us: f64,
}

pub const fn subject(
    name: &'static str,
    typical_us: f64,
    tail_us: f64,
    cost_us: f64,
) -> SyntheticSubject {
    SyntheticSubject { name, typical_us, tail_us, cost_us }
}

/// Creates a report in which the subjects ran in the same rounds, with the same disturbances.
pub fn report(subjects: &[SyntheticSubject], rounds: usize) -> Report {
    let text = include_str!("../../../../../tests/fixtures/report.json");
    let mut report = Report::from_json(text).expect("a report");
    let (template, scenario) = (report.subjects.swap_remove(0), report.plan.scenarios.remove(0));
    let mut random = SplitMix64::new(11);
    let levels: Vec<f64> = (0..rounds).map(|_| 0.8 + 0.4 * random.unit()).collect();
    report.subjects.clear();
    report.plan.scenarios.clear();
    for &subject in subjects {
        let name = subject.name.to_owned();
        let id = format!("{name}@1ms");
        report.plan.scenarios.push(Scenario {
            id: id.clone(),
            subject: name.clone(),
            period_ns: PERIOD_NS,
            ..scenario.clone()
        });
        let measured = measure(subject, &template.rounds[0], &levels, &mut random);
        report.subjects.push(Subject { id, name, period_ns: PERIOD_NS, ..template.clone() });
        let last = report.subjects.last_mut().expect("a subject");
        last.summary = Some(summarize(&measured, subject.cost_us));
        last.rounds = measured;
    }
    report
}

/// Removes the samples and the rounds, so that only the intervals remain.
pub fn remove_rounds(report: &mut Report) {
    report.subjects.iter_mut().for_each(|subject| subject.rounds.clear());
}

/// Removes all intervals, as in files of other tools.
pub fn remove_evidence(report: &mut Report) {
    remove_rounds(report);
    for summary in report.subjects.iter_mut().filter_map(|subject| subject.summary.as_mut()) {
        summary.lateness_ns.ci95.clear();
    }
}

fn measure(
    subject: SyntheticSubject,
    template: &Round,
    levels: &[f64],
    random: &mut SplitMix64,
) -> Vec<Round> {
    let mut rounds = Vec::new();
    for (index, level) in (0..).zip(levels) {
        let mut lateness_ns = Vec::with_capacity(TICKS);
        for tick in 0..TICKS {
            let noise = 0.7 + 0.3 * (random.unit() + random.unit());
            let typical_us = if tick % 33 == 7 { subject.tail_us } else { subject.typical_us };
            lateness_ns.push((typical_us * 1e3 * level * noise) as i64);
        }
        let mut round = Round { index, lateness_ns, tick: None, ..template.clone() };
        round.until_unpark_ns = None;
        let cost_us = subject.cost_us * (0.95 + 0.1 * random.unit());
        round.summary = Some(summarize(std::slice::from_ref(&round), cost_us));
        rounds.push(round);
    }
    rounds
}

fn summarize(rounds: &[Round], cost_us: f64) -> Summary {
    let by_round: Vec<&[i64]> = rounds.iter().map(|round| &round.lateness_ns[..]).collect();
    let mut ticks = by_round.concat();
    ticks.sort_unstable();
    let at = |q: f64| supported_nearest_rank(&ticks, q);
    let quantiles = PERCENTILES.map(|percentile| percentile.quantile);
    let intervals = percentile_intervals(&by_round, &quantiles, 0.95);
    let mut ci95 = BTreeMap::new();
    for (percentile, interval) in PERCENTILES.iter().zip(intervals) {
        ci95.extend(interval.map(|interval| (percentile.key.to_owned(), interval.into())));
    }
    let [p50, p90, p99, p99_9, p99_99] = quantiles.map(at);
    let (min, max) = (ticks[0], ticks[ticks.len() - 1]);
    let mean = ticks.iter().sum::<i64>() / ticks.len() as i64;
    let count = ticks.len() as u64;
    Summary {
        ticks: count,
        delivered: count,
        coalesced: Some(0),
        skipped: Some(0),
        missed: Some(0),
        early: Some(0),
        cpu_ns_per_tick: Some(cost_us * 1e3),
        lateness_ns: files::report::Distribution {
            min,
            mean: Some(mean),
            p50,
            p90,
            p99,
            p99_9,
            p99_99,
            max,
            ci95,
        },
        ..Summary::default()
    }
}
