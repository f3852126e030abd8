use std::ops::Range;

use serde_json::{Value, json};

use super::*;
use crate::file::File as _;
use crate::report::{self, Tool};
use jitterstat::stats::random::SplitMix64;

const PERIOD_NS: u64 = 500_000;
const TICKS: usize = 200;

/// A simulated machine whose level drifts from round to round.
struct Machine {
    random: SplitMix64,
    level: f64,
}

impl Machine {
    fn new(seed: u64) -> Self {
        Self { random: SplitMix64::new(seed), level: 0.0 }
    }

    fn uniform(&mut self) -> f64 {
        self.random.unit()
    }

    /// One round of a subject that is late by `median_ns` on a quiet machine.
    fn round(&mut self, median_ns: f64) -> Vec<i64> {
        (0..TICKS)
            .map(|_| {
                let noise = self.uniform() + self.uniform() - self.uniform() - self.uniform();
                (median_ns * (self.level + 0.4 * noise).exp()) as i64
            })
            .collect()
    }

    fn drift(&mut self) {
        self.level = 0.8 * self.level + 0.5 * (self.uniform() - 0.5);
    }
}

fn subject(name: &str, runtime: Option<&str>, rounds: &[Vec<i64>]) -> Value {
    let ticks = if rounds.is_empty() { vec![1] } else { rounds.concat() };
    let rounds: Vec<Value> = rounds
        .iter()
        .enumerate()
        .map(|(index, lateness)| {
            json!({
                "index": index, "slot": 0, "start_ns": 0, "phase_ns": 0, "cpu_ns": null, "steal_ns": 1_000_000,
                "run_queue_ns": null, "switches_voluntary": null, "switches_involuntary": null, "summary": summary(lateness),
                "first_tick": 20, "lateness_ns": lateness,
            })
        })
        .collect();
    json!({
        "id": format!("{name}@500us"), "name": name, "period_ns": PERIOD_NS, "runtime": runtime, "backend": null,
        "status": {"state": "measured"}, "histogram": null, "summary": summary(&ticks), "rounds": rounds,
    })
}

fn summary(lateness: &[i64]) -> Value {
    let d = crate::summary::distribution(&[lateness]);
    let missed = lateness.iter().filter(|&&late_ns| late_ns >= PERIOD_NS as i64).count();
    json!({
        "ticks": lateness.len(), "delivered": lateness.len(), "coalesced": 0, "skipped": 0, "missed": missed, "early": 0,
        "no_park": null, "drift_ppb": null, "elapsed_ns": 0, "ideal_ns": 0, "cpu_ns_per_tick": null,
        "wakeups_per_tick": null, "lateness_ns": d, "jitter_consecutive_ns": null, "jitter_spread_ns": null,
        "until_unpark_ns": null, "after_unpark_ns": null,
    })
}

fn report(started_utc: &str, subjects: &[Value]) -> Report {
    let scenarios: Vec<Value> = subjects
        .iter()
        .map(|s| {
            json!({
                "id": s["id"], "subject": s["name"], "period_ns": PERIOD_NS, "ticks": 8_000, "round_ticks": TICKS,
                "warmup_ticks": 20, "runtime": s["runtime"],
            })
        })
        .collect();
    let text = json!({
        "schema": report::SCHEMA, "tool": {"name": "osjitter", "version": "0", "commit": null},
        "started_utc": started_utc, "duration_ns": 1, "partial": false,
        "plan": {"seed": 1, "samples": true, "cpu": null, "sched": null, "mlock": false, "timer_slack_ns": null,
                 "scenarios": scenarios},
        "host": {"os": "linux", "arch": "x86_64", "kernel": "6.1", "preempt": null, "cpu_model": "One", "cpus_online": 4,
                 "affinity": null, "clock_source": "tsc", "timer_slack_ns": 50_000, "governor": null,
                 "idle_driver": null, "virtualisation": null, "quota_cpus": null, "sched": null, "versions": {}},
        "clock": {"source": "tsc", "rate_hz": 1e9, "rate_known_by": "test", "error_bound_ns": 1, "why_not_counter": null},
        "changes": [], "warnings": [], "subjects": subjects,
    });
    Report::from_json(&text.to_string()).unwrap()
}

/// A run of `n` rounds, in each of which all subjects have the same level.
fn run(machine: &mut Machine, started_utc: &str, n: usize, medians_ns: &[(&str, f64)]) -> Report {
    let mut rounds: Vec<Vec<Vec<i64>>> = vec![Vec::new(); medians_ns.len()];
    for _ in 0..n {
        machine.drift();
        for (rounds, (_, median_ns)) in rounds.iter_mut().zip(medians_ns) {
            rounds.push(machine.round(*median_ns));
        }
    }
    let runtime = |name: &str| (name != SLEEPING_CONTROL.name).then_some("current-thread");
    let subjects: Vec<Value> = medians_ns
        .iter()
        .zip(&rounds)
        .map(|((name, _), rounds)| subject(name, runtime(name), rounds))
        .collect();
    report(started_utc, &subjects)
}

fn chosen<'a>(report: &'a Report, name: &str) -> ChosenSubject<'a> {
    ChosenSubject { report, subject: report.subjects.iter().find(|s| s.name == name).unwrap() }
}

fn percentile<'a>(compared: &'a SubjectComparison, name: &str) -> &'a Percentile {
    compared.percentiles.iter().find(|p| p.name == name).unwrap()
}

#[test]
fn subjects_of_one_run_are_paired() {
    let report = run(&mut Machine::new(2), "then", 40, &[("old", 14e3), ("new", 15.4e3)]);
    let compared = compare(chosen(&report, "old"), chosen(&report, "new")).unwrap();
    assert_eq!(compared.method, Method::PairedByRound);
    let p50 = &percentile(&compared, "p50").all;
    let [low, high] = p50.ratio_ci95.unwrap();
    assert!(low > 1.07 && low < 1.1 && high > 1.1 && high < 1.13, "{p50:?}");
    assert!((1_000..1_900).contains(&p50.difference_ns), "{p50:?}");
    assert_eq!(
        (p50.finding, p50.rounds_a, p50.rounds_b, p50.exact),
        (Finding::Later, 40, 40, true)
    );
    let names: Vec<&str> = compared.percentiles.iter().map(|p| p.name.as_str()).collect();
    assert_eq!(names, ["p50", "p90", "p99"], "rounds of 200 ticks have no p99.9");
    assert_eq!(percentile(&compared, "p99").quiet_half.as_ref().unwrap().rounds_a, 20);
    assert!(percentile(&compared, "p90").quiet_half.is_none());
    // Swapped sides give the opposite sign.
    let back = compare(chosen(&report, "new"), chosen(&report, "old")).unwrap();
    let mirrored = &percentile(&back, "p50").all;
    assert!(
        (mirrored.ratio * p50.ratio - 1.0).abs() < 1e-5 && mirrored.finding == Finding::Earlier
    );
    assert_eq!(mirrored.difference_ns, -p50.difference_ns);
}

#[test]
fn rounds_with_skipped_ticks_are_compared() {
    let mut report = run(&mut Machine::new(2), "then", 40, &[("old", 14e3), ("new", 14e3)]);
    let subject = report.subjects.iter_mut().find(|subject| subject.name == "new").unwrap();
    for round in &mut subject.rounds[..10] {
        // The subject delivers 80 of 200 ticks.
        round.lateness_ns.truncate(80);
        let summary = round.summary.as_mut().unwrap();
        (summary.delivered, summary.skipped) = (80, Some(120));
    }
    // A stopped round has planned only the ticks that came.
    let stopped = &mut subject.rounds[39];
    stopped.lateness_ns.truncate(80);
    let summary = stopped.summary.as_mut().unwrap();
    (summary.ticks, summary.delivered) = (80, 80);
    let compared = compare(chosen(&report, "old"), chosen(&report, "new")).unwrap();
    let p50 = &percentile(&compared, "p50").all;
    assert_eq!((p50.rounds_a, p50.rounds_b), (39, 39));
}

/// The difference between the first two subjects of a report.
fn first_difference(report: &Report, percentile: &str) -> PairDifference {
    ReportEvidence::new(report).difference(Sides { base: 0, candidate: 1 }, percentile)
}

/// The finding of the comparison of the same subjects.
fn first_finding(report: &Report, name: &str) -> Finding {
    let compared = compare(chosen(report, "old"), chosen(report, "new")).unwrap();
    percentile(&compared, name).all.finding
}

#[test]
fn differences_equal_those_of_compare() {
    for (medians_ns, expected) in [
        ([("old", 14e3), ("new", 14e3)], Conclusion::NotShown),
        ([("old", 14e3), ("new", 16.8e3)], Conclusion::BaseIsLower),
        ([("old", 16.8e3), ("new", 14e3)], Conclusion::CandidateIsLower),
    ] {
        let report = run(&mut Machine::new(7), "then", 40, &medians_ns);
        let compared = compare(chosen(&report, "old"), chosen(&report, "new")).unwrap();
        for name in ["p50", "p90", "p99"] {
            let found = first_difference(&report, name);
            let Percentile { all, .. } = percentile(&compared, name);
            assert_eq!(found.conclusion, expected, "{name}: {medians_ns:?}");
            assert_eq!(found.ratio, Some(all.ratio), "{name}");
            assert_eq!(found.ratio_interval.map(Into::into), all.ratio_ci95, "{name}");
        }
    }
}

#[test]
fn few_rounds_show_no_difference() {
    let mut report = run(&mut Machine::new(7), "then", 9, &[("old", 14e3), ("new", 140e3)]);
    let mut found = first_difference(&report, "p50");
    assert_eq!((found.ratio, found.conclusion), (None, Conclusion::Unknown));
    // Intervals over more rounds than those of the comparison do not replace it.
    for (subject, interval) in
        report.subjects.iter_mut().zip([[13_000, 15_000], [130_000, 150_000]])
    {
        let lateness = &mut subject.summary.as_mut().unwrap().lateness_ns;
        lateness.ci95.insert("p50".to_owned(), interval);
    }
    found = first_difference(&report, "p50");
    assert_eq!((found.ratio, found.conclusion), (None, Conclusion::Unknown));
    assert_eq!(first_finding(&report, "p50"), Finding::TooFewRounds);
}

#[test]
fn intervals_decide_without_rounds() {
    let mut report = run(&mut Machine::new(7), "then", 1, &[("old", 14e3), ("new", 16.8e3)]);
    report.subjects.iter_mut().for_each(|subject| subject.rounds.clear());
    let mut find = |intervals: [Option<[i64; 2]>; 2]| {
        for (subject, interval) in report.subjects.iter_mut().zip(intervals) {
            let lateness = &mut subject.summary.as_mut().unwrap().lateness_ns;
            lateness.ci95 = interval.map(|ends| ("p50".to_owned(), ends)).into_iter().collect();
        }
        first_difference(&report, "p50")
    };
    let apart = find([Some([13_000, 15_000]), Some([15_001, 18_000])]);
    assert_eq!(apart.conclusion, Conclusion::BaseIsLower);
    assert!(apart.ratio.is_some_and(|ratio| ratio > 1.1 && ratio < 1.3), "{apart:?}");
    let touching = find([Some([13_000, 15_001]), Some([15_001, 18_000])]);
    assert_eq!(touching.conclusion, Conclusion::NotShown);
    for intervals in [[None, None], [Some([13_000, 15_000]), None]] {
        let unknown = find(intervals);
        assert_eq!((unknown.ratio, unknown.conclusion), (None, Conclusion::Unknown));
    }
}

#[test]
fn reports_without_samples_need_separate_intervals() {
    let mut report = run(&mut Machine::new(7), "then", 40, &[("old", 14e3), ("new", 16.8e3)]);
    for subject in &mut report.subjects {
        subject.rounds.iter_mut().for_each(|round| round.lateness_ns.clear());
    }
    assert_eq!(first_difference(&report, "p50").conclusion, Conclusion::BaseIsLower);
    assert_eq!(first_finding(&report, "p50"), Finding::Later);
    for subject in &mut report.subjects {
        let lateness = &mut subject.summary.as_mut().unwrap().lateness_ns;
        lateness.ci95.insert("p50".to_owned(), [13_000, 17_000]);
    }
    assert_eq!(first_difference(&report, "p50").conclusion, Conclusion::NotShown);
    assert_eq!(first_finding(&report, "p50"), Finding::NoDifferenceShown);
}

#[test]
fn single_source_step_is_no_difference() {
    // A program that writes whole microseconds.
    let coarse = |median_us: f64| {
        let mut report = run(&mut Machine::new(7), "then", 40, &[("old", 4e3), ("new", median_us)]);
        for round in report.subjects.iter_mut().flat_map(|subject| &mut subject.rounds) {
            round.lateness_ns.iter_mut().for_each(|late| *late = *late / 1_000 * 1_000);
        }
        for subject in &mut report.subjects {
            let ticks: Vec<i64> =
                subject.rounds.iter().flat_map(|round| round.lateness_ns.clone()).collect();
            let distribution = crate::summary::distribution(&[&ticks[..]]).unwrap();
            subject.summary.as_mut().unwrap().lateness_ns = distribution;
        }
        report
    };
    for (median_us, expected) in [(5e3, Conclusion::NotShown), (9e3, Conclusion::BaseIsLower)] {
        let report = coarse(median_us);
        assert_eq!(first_difference(&report, "p50").conclusion, expected, "{median_us}");
        let compared = compare(chosen(&report, "old"), chosen(&report, "new")).unwrap();
        let is_later = percentile(&compared, "p50").all.finding == Finding::Later;
        assert_eq!(is_later, expected == Conclusion::BaseIsLower, "{median_us}");
    }
}

#[test]
fn neighbouring_bins_are_no_difference() {
    // Subjects whose values are 14,000 ns, and 7 % or 20 % more.
    let report = |new_ns: f64| {
        let mut report = run(&mut Machine::new(7), "then", 40, &[("old", 14e3), ("new", new_ns)]);
        report.tool.name = "hdr-log".to_owned();
        report
    };
    // Two significant digits are 128 bins in each power of two, and one is 16.
    for (new_ns, digits, step_ns, expected) in [
        (15e3, None, 1, Conclusion::BaseIsLower),
        (15e3, Some(2), 1, Conclusion::BaseIsLower),
        (14_750.0, Some(1), 1, Conclusion::NotShown),
        (16.8e3, Some(1), 1, Conclusion::BaseIsLower),
        (16.8e3, Some(2), 16_384, Conclusion::NotShown),
        (15e3, Some(u32::MAX), 1, Conclusion::BaseIsLower),
    ] {
        let mut report = report(new_ns);
        (report.clock.value_digits, report.clock.error_bound_ns) = (digits, step_ns);
        let case = format!("{new_ns} {digits:?} {step_ns}");
        assert_eq!(first_difference(&report, "p50").conclusion, expected, "{case}");
        let is_later = first_finding(&report, "p50") == Finding::Later;
        assert_eq!(is_later, expected == Conclusion::BaseIsLower, "{case}");
        // The error of our own clock does not round the values.
        report.tool.name = "osjitter".to_owned();
        let is_shown = first_difference(&report, "p50").is_clear();
        assert_eq!(is_shown, step_ns > 1 || expected == Conclusion::BaseIsLower, "{case}");
    }
}

#[test]
fn distrusted_percentiles_show_no_difference() {
    let mut report = run(&mut Machine::new(7), "then", 40, &[("old", 14e3), ("new", 28e3)]);
    let facts = crate::fitness::Facts::default();
    report.fitness = Some(report::Fitness::from_facts(facts, Some("p90"), Some(4)));
    let compared = compare(chosen(&report, "old"), chosen(&report, "new")).unwrap();
    for (name, conclusion, finding) in [
        ("p50", Conclusion::BaseIsLower, Finding::Later),
        ("p90", Conclusion::NotTrusted, Finding::NotTrusted),
        ("p99", Conclusion::NotTrusted, Finding::NotTrusted),
    ] {
        assert_eq!(first_difference(&report, name).conclusion, conclusion, "{name}");
        assert_eq!(percentile(&compared, name).all.finding, finding, "{name}");
    }
}

#[test]
fn contradicting_ticks_show_no_difference() {
    let mut report = run(&mut Machine::new(7), "then", 40, &[("old", 14e3), ("new", 16.8e3)]);
    // A few long rounds can raise the percentile of all ticks, but not that of the median round.
    report.subjects[0].summary.as_mut().unwrap().lateness_ns.p99 = Some(1_000_000);
    for (name, conclusion, finding) in [
        ("p99", Conclusion::NotShown, Finding::NoDifferenceShown),
        ("p90", Conclusion::BaseIsLower, Finding::Later),
    ] {
        assert_eq!(first_difference(&report, name).conclusion, conclusion, "{name}");
        assert_eq!(first_finding(&report, name), finding, "{name}");
    }
}

/// Counts the comparisons of equal subjects that show a difference.
fn count_false_differences(seeds: Range<u64>) -> usize {
    let shows_difference = |&seed: &u64| {
        let report = run(&mut Machine::new(seed), "then", 30, &[("old", 14e3), ("new", 14e3)]);
        let rounds = |name| Rounds::new(&report, chosen(&report, name).subject).values;
        let steps = Sides { base: 1.0, candidate: 1.0 };
        let limits = EvidenceLimits::new(Sides { base: &report, candidate: &report }, steps);
        let values = Sides { base: &rounds("old")[..], candidate: &rounds("new")[..] };
        compare_paired(values, &limits)[0].all.finding != Finding::NoDifferenceShown
    };
    seeds.filter(shows_difference).count()
}

#[test]
fn equal_subjects_seldom_differ() {
    // 5 % of 40, plus three standard deviations.
    let shown = count_false_differences(0..40);
    assert!((1..=6).contains(&shown), "{shown}");
}

#[test]
fn control_reveals_slower_machine() {
    let (mut machine, mut slower) = (Machine::new(3), Machine::new(4));
    let before = run(&mut machine, "then", 40, &[(SLEEPING_CONTROL.name, 10e3), ("it", 14e3)]);
    let after = run(&mut slower, "now", 40, &[(SLEEPING_CONTROL.name, 20e3), ("it", 28e3)]);
    let compared = compare(chosen(&before, "it"), chosen(&after, "it")).unwrap();
    assert_eq!(compared.method, Method::TwoRuns);
    let p50 = percentile(&compared, "p50");
    assert_eq!(p50.all.finding, Finding::Later);
    let relative = p50.beside_control.as_ref().unwrap();
    assert_eq!(
        (relative.finding, relative.rounds_a, relative.rounds_b),
        (Finding::NoDifferenceShown, 40, 40),
        "{relative:?}"
    );
    // A control that failed on the way is none.
    slower.level = 0.0;
    let mut failed = run(&mut slower, "now", 40, &[(SLEEPING_CONTROL.name, 20e3), ("it", 28e3)]);
    failed.subjects[0].status = report::Status::Failed { reason: "it ended".to_owned() };
    let compared_failed = compare(chosen(&before, "it"), chosen(&failed, "it")).unwrap();
    assert!(percentile(&compared_failed, "p50").beside_control.is_none());
    let controls =
        compare(chosen(&before, SLEEPING_CONTROL.name), chosen(&after, SLEEPING_CONTROL.name))
            .unwrap();
    assert!(
        percentile(&controls, "p50").beside_control.is_none(),
        "a control is not compared relative to itself"
    );
    assert_eq!(warnings(&before, &after, &[compared])[0].code, "two-runs");
}

#[test]
fn few_rounds_have_no_interval() {
    let report = run(&mut Machine::new(1), "then", 9, &[("old", 14e3), ("new", 28e3)]);
    let compared = compare(chosen(&report, "old"), chosen(&report, "new")).unwrap();
    let p50 = &percentile(&compared, "p50").all;
    assert!(
        (1.9..2.1).contains(&p50.ratio)
            && p50.ratio_ci95.is_none()
            && p50.difference_ns_ci95.is_none()
    );
    assert_eq!(p50.finding, Finding::TooFewRounds);
    assert!(compared.quantiles.unwrap().points.iter().all(|p| p.ratio_ci95.is_none()));
}

#[test]
fn stalls_count_once() {
    let mut rounds = vec![vec![10_000; TICKS]; 12];
    rounds[3][50..54].copy_from_slice(&[1_700_000, 1_200_000, 700_000, 200_000]);
    // The last round is a remainder, which is left out.
    rounds.push(vec![90_000; 20]);
    let report = report(
        "then",
        &[subject("old", None, &rounds), subject("new", None, &vec![vec![20_000; TICKS]; 12])],
    );
    let compared = compare(chosen(&report, "old"), chosen(&report, "new")).unwrap();
    assert_eq!((compared.a.rounds, compared.b.rounds), (12, 12));
    assert_eq!(compared.a.same_stall_share, Some(3.0 / 2_400.0));
    // One of 110 milliseconds of 4 CPUs.
    assert!((compared.a.steal_share.unwrap() - 1.0 / 440.0).abs() < 1e-9);
    let p99 = &percentile(&compared, "p99").all;
    let close = |x: f64, y: f64| (x - y).abs() < 1e-12;
    assert!(
        close(p99.ratio, 2.0)
            && p99.ratio_ci95.is_some_and(|[l, h]| close(l, 2.0) && close(h, 2.0)),
        "{p99:?}"
    );
    assert_eq!(
        (p99.a_ns, p99.b_ns, p99.difference_ns_ci95),
        (10_000, 20_000, Some([10_000, 10_000]))
    );
    // Intervals of another tool's log have no planned number of values.
    let log = Report { tool: Tool { name: "hdr-log".to_owned(), ..report.tool.clone() }, ..report };
    let compared = compare(chosen(&log, "old"), chosen(&log, "new")).unwrap();
    assert_eq!((compared.a.rounds, compared.b.rounds), (13, 12));
}

#[test]
fn late_subjects_keep_their_ticks() {
    let wheel: Vec<i64> = [700_000, 1_200_000].repeat(TICKS / 2);
    let mut rounds = vec![wheel; 12];
    // One stall of 5 ms, and its backlog.
    for k in 0..12 {
        rounds[3][101 + k as usize] = 6_200_000 - 500_000 * k;
    }
    let report = report(
        "then",
        &[
            subject("punctual", None, &vec![vec![14_000; TICKS]; 12]),
            subject("wheel", None, &rounds),
        ],
    );
    let compared = compare(chosen(&report, "punctual"), chosen(&report, "wheel")).unwrap();
    assert!(
        compared.stalls_once && compared.b.same_stall_share == Some(11.0 / 2_400.0),
        "{:?}",
        compared.b
    );
    assert_eq!(compared.percentiles.iter().map(|p| p.all.rounds_b).collect::<Vec<_>>(), [12; 3]);
    assert_eq!(percentile(&compared, "p50").lift, Some([1.0, 1.0]));
    let p99 = &percentile(&compared, "p99").all;
    assert_eq!((p99.a_ns, p99.b_ns), (14_000, 1_200_000));
    assert!(warnings(&report, &report, &[compared]).is_empty());
    // A loop that restarts its period after each tick never catches up with a stall of 5 ms.
    let behind: Vec<i64> =
        (0..TICKS as i64).map(|k| 600_000 + if k < 20 { 0 } else { 5_000_000 }).collect();
    rounds.fill(behind);
    let report = self::report("then", &[subject("a", None, &rounds), subject("b", None, &rounds)]);
    let compared = compare(chosen(&report, "a"), chosen(&report, "b")).unwrap();
    let lift = percentile(&compared, "p50").lift.unwrap();
    assert!(lift.iter().all(|ratio| (ratio - 5.6 / 0.6).abs() < 1e-3), "{lift:?}");
}

#[test]
fn reports_without_samples_use_summaries() {
    let mut report = run(&mut Machine::new(1), "then", 20, &[("old", 14e3), ("new", 28e3)]);
    for r in report.subjects.iter_mut().flat_map(|s| &mut s.rounds) {
        r.lateness_ns.clear();
    }
    let compared = compare(chosen(&report, "old"), chosen(&report, "new")).unwrap();
    assert_eq!(percentile(&compared, "p50").all.finding, Finding::Later);
    assert!(
        compared.percentiles.iter().all(|p| p.name != "p99"),
        "a summary of 200 ticks has no p99"
    );
    assert!(compared.quantiles.is_none() && compared.a.same_stall_share.is_none());
    // A histogram gives quantiles without a band, in memory that does not depend on the ticks.
    for (subject, value) in report.subjects.iter_mut().zip([10_000, 20_000]) {
        subject.histogram =
            Some(crate::histogram::pack_counts([(value, 1_000_000_000), (1_000_000, 1)]));
    }
    let with_histograms =
        compare(chosen(&report, "old"), chosen(&report, "new")).unwrap().quantiles.unwrap();
    let point = &with_histograms.points[20];
    assert_eq!((with_histograms.ticks_a, with_histograms.resamples), (1_000_000_001, 0));
    assert!((point.ratio - 2.0).abs() < 1e-3 && point.ratio_ci95.is_none(), "{point:?}");
    assert_eq!(with_histograms.points.last().unwrap().ratio, 1.0, "the one late tick of both");
    let warning = &warnings(&report, &report, &[compared])[0];
    assert_eq!((&*warning.code, &*warning.hint), ("no-samples", NO_SAMPLES_HINT));
}

#[test]
fn incomparable_subjects_are_rejected() {
    let report = run(&mut Machine::new(1), "then", 12, &[("old", 14e3), ("new", 14e3)]);
    let mut other = report.clone();
    other.started_utc = "now".to_owned();
    other.host.kernel = Some("6.2".to_owned());
    other.subjects[0].period_ns = 1_000_000;
    let found: Vec<String> = differences(chosen(&report, "old"), chosen(&other, "old"))
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(
        found,
        ["kernel: 6.1 against 6.2", "period of old@500us and old@500us: 500us against 1ms"]
    );
    assert!(
        compare(chosen(&report, "old"), chosen(&report, "old"))
            .unwrap_err()
            .to_string()
            .contains("itself")
    );
    other.subjects[1].rounds.clear();
    assert!(
        compare(chosen(&report, "new"), chosen(&other, "new"))
            .unwrap_err()
            .to_string()
            .contains("no rounds")
    );
}

#[test]
fn quantile_band_covers_the_ratio() {
    let report = run(&mut Machine::new(7), "then", 40, &[("old", 14e3), ("new", 21e3)]);
    let paired =
        compare(chosen(&report, "old"), chosen(&report, "new")).unwrap().quantiles.unwrap();
    assert_eq!((paired.ticks_a, paired.ticks_b, paired.resamples), (8_000, 8_000, 1_000));
    let with_band: Vec<&Quantile> =
        paired.points.iter().filter(|p| p.ratio_ci95.is_some()).collect();
    assert!(with_band.last().unwrap().quantile > 0.999, "8,000 ticks are enough for a p99.9");
    let holds = with_band
        .iter()
        .filter(|p| p.ratio_ci95.is_some_and(|[l, h]| l <= 1.5 && 1.5 <= h))
        .count();
    assert!(holds * 10 >= with_band.len() * 8, "{holds} of {}", with_band.len());
    let mut other = report.clone();
    other.started_utc = "now".to_owned();
    let apart = compare(chosen(&report, "old"), chosen(&other, "new")).unwrap().quantiles.unwrap();
    let width = |q: &Quantiles| {
        let [low, high] = q.points[20].ratio_ci95.unwrap();
        high / low
    };
    assert!(
        width(&apart) > width(&paired),
        "unpaired rounds have a wider band: {} {}",
        width(&apart),
        width(&paired)
    );
}

#[test]
fn comparisons_survive_json() {
    let report = run(&mut Machine::new(1), "then", 12, &[("old", 14e3), ("new", 14e3)]);
    let origin = || Origin {
        file: "x".into(),
        program: None,
        started_utc: "then".into(),
        partial: false,
        fitness: None,
        tool: Tool { name: "osjitter".into(), version: "0".into(), commit: None },
    };
    let comparison = Comparison {
        schema: SCHEMA.into(),
        tool: origin().tool,
        a: origin(),
        b: origin(),
        forced: vec![],
        metrics: Vec::new(),
        subjects: vec![compare(chosen(&report, "old"), chosen(&report, "new")).unwrap()],
        warnings: vec![],
    };
    let text = comparison.to_json();
    assert!(Comparison::from_json(&text).unwrap() == comparison);
    assert!(
        Comparison::from_json(&text.replace(SCHEMA, "osjitter.comparison/2"))
            .unwrap_err()
            .to_string()
            .contains("/2")
    );
    assert!(
        Comparison::from_json(&text[..text.len() / 2]).unwrap_err().to_string().contains("line")
    );
}

/// A proof of settings: a baseline, and settings that make a loop `times` as late, in the same
/// rounds of a machine with a drifting level and stalls with a heavy tail.
fn proof(seed: u64, times: &[f64]) -> Vec<Differences> {
    const ROUNDS: usize = 24;
    let mut machine = Machine::new(seed);
    let mut sides = vec![Vec::new(); times.len() + 1];
    for _ in 0..ROUNDS {
        machine.drift();
        for (side, rounds) in sides.iter_mut().enumerate() {
            let late = side.checked_sub(1).map_or(1.0, |i| times[i]);
            let mut round = machine.round(30_000.0 * late);
            for tick in &mut round {
                if machine.uniform() < 0.005 {
                    *tick += (100e3 / (1.0 - machine.uniform()).powf(1.0 / 1.5)) as i64;
                }
            }
            rounds.push(round);
        }
    }
    let named: Vec<Value> = (0..sides.len())
        .map(|i| subject(&format!("setting-{i}"), Some("current-thread"), &[]))
        .collect();
    let mut report = report("2026-11-21T00:00:00Z", &named);
    for (subject, rounds) in report.subjects.iter_mut().zip(sides) {
        // Set directly, because JSON would take most of the time.
        let round = |(index, lateness_ns)| report::Round {
            index,
            first_tick: 20,
            lateness_ns,
            ..Default::default()
        };
        subject.rounds = (0..).zip(rounds).map(round).collect();
    }
    let (baseline, settings) = report.subjects.split_first().unwrap();
    family(&report, &settings.iter().map(|setting| (baseline, setting)).collect::<Vec<_>>(), 0.05)
}

/// Fails unless 95 % of the proofs of ineffective settings show no difference, and 95 % of the
/// proofs with a helpful and a harmful setting find both.
fn assert_families_find_changes(proofs: u64) {
    let shows_nothing = |d: &Differences| {
        [&d.p50, &d.p99].iter().all(|c| c.as_ref().unwrap().shown == ChangeFinding::NoDifference)
    };
    let finds_nothing = |&seed: &u64| proof(seed, &[1.0; 4]).iter().all(shows_nothing);
    let quiet = (0..proofs).filter(finds_nothing).count() as u64;
    assert!(
        quiet * 20 >= proofs * 19,
        "{quiet} of {proofs} proofs of ineffective settings show no difference"
    );
    let finds_both = |&seed: &u64| {
        let differences = proof(100 + seed, &[1.0, 0.7, 1.0, 1.5]);
        let shown = |i: usize| differences[i].p50.as_ref().unwrap().shown;
        shown(1) == ChangeFinding::Less
            && shown(3) == ChangeFinding::More
            && shows_nothing(&differences[0])
    };
    let found = (0..proofs).filter(finds_both).count() as u64;
    assert!(
        found * 20 >= proofs * 19,
        "{found} of {proofs} proofs find the helpful and the harmful setting"
    );
}

#[test]
fn families_find_only_changes() {
    assert_families_find_changes(20);
}

mod nightly {
    use super::*;

    #[test]
    #[ignore = "nightly: 200 comparisons take ten seconds"]
    fn equal_subjects_seldom_differ() {
        // 5 % of 200, plus three standard deviations.
        let shown = count_false_differences(0..200);
        assert!((1..=19).contains(&shown), "{shown}");
    }

    #[test]
    #[ignore = "nightly: 200 proofs take ten seconds"]
    fn families_find_only_changes() {
        assert_families_find_changes(100);
    }
}

/// A neighbour takes the CPU for four of every eight ticks, so that half of the ticks are within
/// stalls.
#[test]
fn families_include_stalls() {
    let plain = vec![vec![10_000; TICKS]; 30];
    let stalled =
        |i: usize| if i % 8 < 4 { 2_000_000 - (i % 8) as i64 * PERIOD_NS as i64 } else { 10_000 };
    let disturbed = vec![(0..TICKS).map(stalled).collect::<Vec<i64>>(); 30];
    let report = report(
        "2026-11-22T00:00:00Z",
        &[subject("a", None, &plain), subject("b", None, &disturbed)],
    );
    let shown = family(&report, &[(&report.subjects[0], &report.subjects[1])], 0.05).remove(0);
    let p99 = shown.p99.unwrap();
    assert_eq!((p99.baseline_ns, p99.ns, p99.shown), (10_000, 2_000_000, ChangeFinding::More));
}

#[test]
fn families_compare_cpu_time() {
    let rounds = |n: usize| vec![vec![10_000; TICKS]; n];
    let with_cpu = |name: &str, cpu_ns: u64, n: usize| {
        let mut subject = subject(name, None, &rounds(n));
        subject["rounds"]
            .as_array_mut()
            .unwrap()
            .iter_mut()
            .for_each(|round| round["cpu_ns"] = cpu_ns.into());
        subject
    };
    let compare_rounds = |n: usize| {
        let report = report(
            "2026-11-21T00:00:00Z",
            &[with_cpu("a", 2_200_000, n), with_cpu("b", 4_400_000, n)],
        );
        family(&report, &[(&report.subjects[0], &report.subjects[1])], 0.05).remove(0)
    };
    let cpu = compare_rounds(MIN_COMPARED_PAIRS).cpu.unwrap();
    assert_eq!(
        (cpu.baseline_ns, cpu.ns, cpu.ratio, cpu.shown),
        (10_000, 20_000, 2.0, ChangeFinding::More)
    );
    let few = compare_rounds(MIN_COMPARED_PAIRS - 1);
    assert_eq!(few.cpu.unwrap().shown, ChangeFinding::TooFewRounds);
    assert_eq!(few.p50.unwrap().ratio_interval, None);
}
