use super::*;
use crate::report;
use crate::round_costs::CostPerTick;
use jitterstat::gate::decision::{Outcome, Reason};
use jitterstat::sample::{Grid, RoundSamples};
use jitterstat::stats::Interval;
use proptest::prelude::*;

fn round(lateness_ns: Vec<i64>) -> RoundTicks {
    let n = lateness_ns.len();
    let part = RoundSamples {
        grid: Grid { period_ns: 500_000, first_tick: 0, ticks: n as u64 },
        ticks: (0..n as u64).collect(),
        until_unpark_ns: vec![None; n],
        lateness_ns,
        coalesced: 0,
    };
    let costs = CostPerTick {
        wakeups_per_tick: Some(2.0),
        ticks: part.grid.ticks,
        ..CostPerTick::default()
    };
    RoundTicks { parts: vec![part], costs }
}

/// Rounds of a hundred ticks, which are late by `level(round)` and up to 99 ns more.
fn rounds(n: i64, level: impl Fn(i64) -> i64) -> Vec<RoundTicks> {
    (0..n).map(|r| round((0..100).map(|k| level(r) + k).collect())).collect()
}

fn judge(path: &str, rounds: &[RoundTicks], limit: f64) -> (Outcome, Option<Reason>) {
    SummaryPath::find(path).unwrap().measure(rounds).judge(limit)
}

#[test]
fn numbers_are_found_by_path() {
    for path in SummaryPath::list() {
        assert_eq!(SummaryPath::find(&path.to_string()), Ok(path.clone()));
    }
    for (short, full) in [
        ("p50", "lateness_ns.p50"),
        ("p99.99", "lateness_ns.p99_99"),
        ("max", "lateness_ns.max"),
        ("jitter_spread.p99.9", "jitter_spread_ns.p99_9"),
        ("median_round.p99", "median_round_ns.p99"),
        ("missed", "missed"),
    ] {
        assert_eq!(SummaryPath::find(short).unwrap().to_string(), full);
    }
    for unknown in [
        "", "p98", "p99.999", "lateness", "lateness_ns.", "jitter.p99", "missed.p50",
        "lateness_ns.p50.x",
    ] {
        assert_eq!(SummaryPath::find(unknown), Err(PathError::Unknown), "{unknown}");
    }
    assert_eq!(SummaryPath::find("elapsed_ns"), Err(PathError::OfTheLength));
}

#[test]
fn limits_have_three_outcomes() {
    // The median of the rounds alternates between 10 and 30 us.
    let uneven = rounds(40, |r| 10_000 + 20_000 * (r % 2));
    assert_eq!(judge("p50", &uneven, 9_000.0), (Outcome::LimitBroken, None));
    assert_eq!(judge("p50", &uneven, 40_000.0), (Outcome::Pass, None));
    assert_eq!(judge("p50", &uneven, 20_000.0), (Outcome::Inconclusive, Some(Reason::TooNoisy)));
    let more = SummaryPath::find("p50").unwrap().measure(&uneven).ticks_to_decide(20_000.0);
    assert!(more.is_some_and(|ticks| ticks > 4_000), "{more:?}");
    assert_eq!(
        judge("p50", &uneven[..9], 1.0),
        (Outcome::Inconclusive, Some(Reason::TooFewRounds))
    );
    assert_eq!(judge("p99_99", &uneven, 1.0), (Outcome::Inconclusive, Some(Reason::TooFewTicks)));
}

#[test]
fn value_at_the_limit_passes() {
    let even = rounds(20, |_| 10_000);
    assert_eq!(judge("p50", &even, 10_049.0), (Outcome::Pass, None));
    assert_eq!(judge("p50", &even, 10_048.0), (Outcome::LimitBroken, None));
    assert_eq!(judge("max", &even, 10_099.0), (Outcome::Pass, None));
    assert_eq!(judge("max", &even, 10_098.0), (Outcome::LimitBroken, None));
    assert_eq!(
        SummaryPath::find("max").unwrap().measure(&even).interval,
        None,
        "the largest value has no interval"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn higher_limits_are_easier_to_keep(
        levels in proptest::collection::vec(0_i64..50_000, 10..30), limit in 0.0_f64..60_000.0, more in 0.0_f64..60_000.0
    ) {
        let rounds: Vec<RoundTicks> = levels.iter().map(|l| round((0..40).map(|k| l + k).collect())).collect();
        let weight = |outcome| [Outcome::Pass, Outcome::Inconclusive, Outcome::LimitBroken].iter().position(|o| *o == outcome);
        for path in ["p50", "p90", "mean", "max", "median_round.p50"] {
            let (low, high) = (judge(path, &rounds, limit).0, judge(path, &rounds, limit + more).0);
            prop_assert!(weight(high) <= weight(low), "{path}: {low:?} {high:?}");
        }
    }
}

#[test]
fn other_numbers_are_measured() {
    let mut some = rounds(20, |_| 10_000);
    // One round of twenty has ten ticks of a hundred that are late by a period.
    some[7].parts[0].lateness_ns[..10].fill(500_000);
    let measured = |path: &str| SummaryPath::find(path).unwrap().measure(&some);
    assert_eq!(measured("missed").value, Some(0.5));
    assert!(
        measured("missed")
            .interval
            .is_some_and(|found| found.lower == 0.0 && (1.0..5.0).contains(&found.upper))
    );
    assert_eq!((measured("delivered").value, measured("early").value), (Some(100.0), Some(0.0)));
    assert_eq!(
        (measured("wakeups_per_tick").value, measured("wakeups_per_tick").interval),
        (Some(2.0), Some(Interval::point(2.0)))
    );
    assert_eq!(
        measured("cpu_ns_per_tick").judge(1.0),
        (Outcome::Inconclusive, Some(Reason::NotMeasured))
    );
    assert_eq!(measured("no_park").value, None, "parks were not observed");
    assert_eq!(measured("jitter_spread.p50").value, Some(50.0));
    // Each tick is a nanosecond later than the one before: 1 ns in 500 us.
    let even = rounds(20, |_| 10_000);
    let drift = SummaryPath::find("drift_ppb").unwrap().measure(&even);
    assert!((drift.value.unwrap() - 2_000.0).abs() < 1e-6, "{drift:?}");
}

#[test]
fn minimum_ticks_depend_on_the_number() {
    let least = |path: &str, round: u64| SummaryPath::find(path).unwrap().least_ticks(round);
    assert_eq!(least("p99", 250), Some(500));
    assert_eq!(least("p99.9", 250), Some(5_000));
    assert_eq!(
        (least("median_round.p99", 250), least("median_round.p99", 100)),
        (Some(2_500), None)
    );
    assert_eq!(least("missed", 250), Some(1));
    // A round of 25 ticks has 24 differences: 20 rounds have 480, and 21 more ticks the other 20.
    for (round, ticks) in [(25, Some(521)), (251, Some(502)), (1_000, Some(501)), (1, None)] {
        assert_eq!(least("jitter_consecutive.p99", round), ticks, "{round}");
    }
    assert_eq!(least("jitter_consecutive.mean", 2), Some(2));
}

#[test]
fn summaries_have_no_percentiles() {
    let summary = crate::report::Summary {
        ticks: 1_000,
        delivered: 990,
        skipped: Some(10),
        missed: Some(20),
        lateness_ns: crate::report::Distribution {
            min: 100,
            mean: Some(300),
            p99: Some(900),
            max: 5_000,
            ..crate::report::Distribution::default()
        },
        ..crate::report::Summary::default()
    };
    let measured = |path: &str| SummaryPath::find(path).unwrap().from_summary(&summary, 0);
    let value = |path: &str| measured(path).value;
    assert_eq!((value("max"), value("missed"), value("mean")), (Some(5e3), Some(2.0), Some(300.0)));
    for path in ["p99", "median_round.p99", "jitter_spread.max", "cpu_ns_per_tick"] {
        assert_eq!(value(path), None, "{path}");
    }
    // No number of rounds is needed.
    assert_eq!(measured("max").judge(5_000.0), (Outcome::Pass, None));
    assert_eq!(measured("max").judge(4_999.0), (Outcome::LimitBroken, None));
    assert_eq!(measured("missed").judge(1.0), (Outcome::LimitBroken, None));
    assert_eq!(measured("max").interval, None);
}

/// A subject of rounds with these numbers of misses among 250 ticks at 500 us.
fn subject_with_misses(misses: &[u64]) -> crate::report::Subject {
    let summary = |ticks: u64, missed: u64| crate::report::Summary {
        ticks,
        delivered: ticks,
        missed: Some(missed),
        ..crate::report::Summary::default()
    };
    let round = |(index, &missed): (u64, &u64)| crate::report::Round {
        index,
        summary: Some(summary(250, missed)),
        ..crate::report::Round::default()
    };
    report::Subject {
        summary: Some(summary(250 * misses.len() as u64, misses.iter().sum())),
        rounds: (0..).zip(misses).map(round).collect(),
        ..report::Subject::new("loop@500us", "loop", 500_000, report::Status::Measured)
    }
}

#[test]
fn rate_limits_have_three_outcomes() {
    use rate::MeasuredRate;
    let judge = |misses: &[u64], limit: f64, max_stall_ns: Option<u64>| {
        let subject = subject_with_misses(misses);
        let rate = MeasuredRate::from_subject(&subject, true, max_stall_ns).unwrap();
        (rate.judge(limit).0, rate.judge(limit).1, rate.ticks_to_decide(limit))
    };
    let in_time = [0; 480];
    // Stalls of any length need 30,000 rounds, stalls of up to 2 ms 480.
    assert_eq!(judge(&in_time, 1e-4, Some(2_000_000)), (Outcome::Pass, None, None));
    let (outcome, reason, more) = judge(&in_time, 1e-4, None);
    assert_eq!((outcome, reason), (Outcome::Inconclusive, Some(Reason::TooFewTicks)));
    assert!(more.is_some_and(|ticks| (7_480_000..7_500_000).contains(&ticks)), "{more:?}");
    assert_eq!(judge(&in_time, 0.01, None), (Outcome::Pass, None, None));
    let mut often = [0; 480];
    often[..100].fill(1);
    assert_eq!(judge(&often, 1e-4, None), (Outcome::LimitBroken, None, None));
    let few = judge(&in_time[..9], 0.5, None);
    assert_eq!((few.0, few.1), (Outcome::Inconclusive, Some(Reason::TooFewRounds)));
    assert_eq!(few.2, Some(2_500));
}

#[test]
fn later_ticks_raise_the_stall() {
    let mut subject = subject_with_misses(&[0; 20]);
    let rate =
        |subject: &_| rate::MeasuredRate::from_subject(subject, true, Some(2_000_000)).unwrap();
    assert_eq!(
        (rate(&subject).max_burst(), rate(&subject).measured_ns()),
        (Some(4), 2_500_000_000)
    );
    subject.summary.as_mut().unwrap().lateness_ns.max = 7_200_000;
    let raised = rate(&subject);
    assert_eq!((raised.max_stall_ns(), raised.max_burst()), (Some(7_200_000), Some(15)));
}

#[test]
fn lost_rounds_count_as_missed() {
    let mut subject = subject_with_misses(&[0; 20]);
    subject.rounds[7].summary = None;
    let found = rate::MeasuredRate::from_subject(&subject, true, None).unwrap();
    assert_eq!((found.rate().missed(), found.rate().ticks()), (250, 5_000));
    // With samples, also if several instances tick.
    for instances in [1, 2] {
        let rounds = RoundTicks::from_subject(&subject_with_lost_rounds(instances)).unwrap();
        let found = rate::MeasuredRate::from_rounds(&rounds, 500_000, None);
        let lost = 1_250 * instances;
        assert_eq!((found.rate().missed(), found.rate().ticks()), (lost, 4 * lost));
        for (path, percent) in [("missed", 25.0), ("skipped", 25.0), ("delivered", 75.0)] {
            let measured = SummaryPath::find(path).unwrap().measure(&rounds);
            assert_eq!((measured.value, measured.ticks), (Some(percent), 4 * lost), "{path}");
        }
        assert_eq!(judge("missed", &rounds, 2.0), (Outcome::LimitBroken, None));
        assert_eq!(judge("delivered", &rounds, 95.0), (Outcome::Pass, None));
    }
}

#[test]
fn stopped_instances_skip_no_tick() {
    for lengths in [[100, 99], [99, 100]] {
        let mut subject = subject_with_lost_rounds(2);
        subject.rounds.truncate(2);
        for (round, length) in subject.rounds.iter_mut().zip(lengths) {
            round.lateness_ns.truncate(length);
        }
        subject.rounds[0].summary.as_mut().unwrap().ticks = 199;
        let rounds = RoundTicks::from_subject(&subject).unwrap();
        for path in ["missed", "skipped"] {
            let measured = SummaryPath::find(path).unwrap().measure(&rounds);
            assert_eq!((measured.value, measured.ticks), (Some(0.0), 199), "{lengths:?} {path}");
        }
        let found = rate::MeasuredRate::from_rounds(&rounds, 500_000, None);
        assert_eq!((found.rate().missed(), found.rate().ticks()), (0, 199));
    }
}

/// Interrupts cut rounds in their warm-up, and a trace has slices without a timer.
#[test]
fn rounds_without_ticks_lose_none() {
    for instances in [1, 2] {
        let mut subject = subject_with_lost_rounds(instances);
        subject.summary.as_mut().unwrap().ticks = 15 * 250 * instances;
        let rounds = RoundTicks::from_subject(&subject).unwrap();
        let measured = SummaryPath::find("missed").unwrap().measure(&rounds);
        assert_eq!((measured.value, measured.rounds), (Some(0.0), 15));
        assert_eq!(measured.ticks, 3_750 * instances);
        let found = rate::MeasuredRate::from_subject(&subject, true, None).unwrap();
        assert_eq!((found.rate().missed(), found.rate().rounds()), (0, 15));
        // The last one was cut, the others were lost.
        subject.summary.as_mut().unwrap().ticks += 4 * 250 * instances;
        let rounds = RoundTicks::from_subject(&subject).unwrap();
        let measured = SummaryPath::find("missed").unwrap().measure(&rounds);
        assert_eq!((measured.rounds, measured.ticks), (19, 4_750 * instances));
    }
}

/// A subject of 20 rounds of 250 ticks in time, of which every fourth one delivered none.
fn subject_with_lost_rounds(instances: u64) -> report::Subject {
    let mut subject = subject_with_misses(&[0; 20]);
    let mut rounds = Vec::new();
    for mut round in std::mem::take(&mut subject.rounds) {
        let is_lost = round.index % 4 == 3;
        round.lateness_ns = vec![10_000; if is_lost { 0 } else { 250 }];
        let whole = round.summary.take().filter(|_| !is_lost);
        let whole = whole.map(|whole| report::Summary { ticks: 250 * instances, ..whole });
        for instance in 0..instances {
            let summary = whole.clone().filter(|_| instance == 0);
            rounds.push(report::Round { instance, summary, ..round.clone() });
        }
    }
    subject.summary.as_mut().unwrap().ticks *= instances;
    report::Subject { instances, rounds, ..subject }
}

#[test]
fn totals_need_a_longest_stall() {
    use rate::{MeasuredRate, RateSource, UnknownRate};
    let mut subject = subject_with_misses(&[0; 480]);
    subject.rounds.clear();
    let rate = |subject: &_, is_own| MeasuredRate::from_subject(subject, is_own, Some(2_000_000));
    assert_eq!(
        MeasuredRate::from_subject(&subject, true, None),
        Err(UnknownRate::OnlyTotals),
        "one stall may have been as long as the run"
    );
    for is_own in [true, false] {
        let found = rate(&subject, is_own).unwrap();
        assert_eq!((found.source(), found.judge(1e-4).0), (RateSource::Totals, Outcome::Pass));
    }
    // Other tools count a stall once.
    subject.summary.as_mut().unwrap().missed = Some(3);
    assert_eq!(rate(&subject, true).unwrap().rate().missed(), 3);
    assert_eq!(rate(&subject, false), Err(UnknownRate::NotCounted(3)));
    let summary = subject.summary.as_mut().unwrap();
    (summary.missed, summary.missed_at_least) = (None, Some(9_000));
    assert_eq!(rate(&subject, false), Err(UnknownRate::NotCounted(9_000)));
    subject.period_ns = 0;
    assert_eq!(rate(&subject, true), Err(UnknownRate::NoPeriod));
}

#[test]
fn drawn_rounds_are_not_the_run() {
    use rate::{MeasuredRate, RateSource, UnknownRate};
    // A long run without samples: the only missed ticks are in a round that was not kept.
    let mut subject = subject_with_misses(&[0; 480]);
    let summary = subject.summary.as_mut().unwrap();
    (summary.ticks, summary.missed) = (summary.ticks + 250, Some(250));
    assert_eq!(MeasuredRate::from_subject(&subject, true, None), Err(UnknownRate::OnlyTotals));
    let found = MeasuredRate::from_subject(&subject, true, Some(2_000_000)).unwrap();
    assert_eq!((found.source(), found.rate().missed()), (RateSource::Totals, 250));
    assert_eq!(found.judge(1e-4).0, Outcome::LimitBroken);
}

/// A round of two instances, each of which slips by half a period per tick, at a cost of 20 us per
/// tick.
fn slipping_subject(window_ns: Option<u64>) -> report::Subject {
    const TICKS: u64 = 11;
    let lateness_ns: Vec<i64> = (0..TICKS as i64).map(|k| k * 50_000).collect();
    let mut rounds = Vec::new();
    for (index, instance) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
        let summary = report::Summary {
            ticks: 2 * TICKS,
            delivered: 2 * TICKS,
            cpu_ns_per_tick: Some(20_000.0),
            elapsed_ns: 3_000_000,
            ideal_ns: 2_000_000,
            ..report::Summary::default()
        };
        rounds.push(report::Round {
            index,
            instance,
            cost_window_ns: window_ns,
            cost_ticks: window_ns.map(|_| TICKS - 1),
            lateness_ns: lateness_ns.clone(),
            summary: (instance == 0).then_some(summary),
            ..report::Round::default()
        });
    }
    report::Subject {
        instances: 2,
        summary: Some(report::Summary::default()),
        rounds,
        ..report::Subject::new("slips", "slips", 100_000, report::Status::Measured)
    }
}

#[test]
fn core_share_has_its_own_window() {
    let percent = |subject: &report::Subject| {
        let rounds = RoundTicks::from_subject(subject).unwrap();
        RoundTicks::measure_core_percent(&rounds, 0.99).value.unwrap()
    };
    // 20 ticks of 20 us in ten gaps of 150 us, not of a period.
    for window_ns in [None, Some(1_500_000)] {
        let percent = percent(&slipping_subject(window_ns));
        assert!((percent - 40.0 / 1.5).abs() < 1e-9, "{window_ns:?}: {percent}");
    }
    assert!((percent(&slipping_subject(Some(2_000_000))) - 20.0).abs() < 1e-9);
}

#[test]
fn stopped_rounds_have_no_cost() {
    let mut subject = slipping_subject(Some(1_500_000));
    for round in &mut subject.rounds[2..] {
        (round.cost_window_ns, round.cost_ticks) = (None, Some(0));
        if let Some(summary) = &mut round.summary {
            summary.cpu_ns_per_tick = None;
        }
    }
    let rounds = RoundTicks::from_subject(&subject).unwrap();
    let cost = SummaryPath::find("cpu_ns_per_tick").unwrap().measure(&rounds);
    assert_eq!((cost.value, cost.rounds), (Some(20_000.0), 2));
    let core = RoundTicks::measure_core_percent(&rounds, 0.99).value.unwrap();
    assert!((core - 40.0 / 1.5).abs() < 1e-9, "{core}");
    // Any other round without a cost makes it unknown.
    subject.rounds[2].cost_ticks = Some(10);
    let rounds = RoundTicks::from_subject(&subject).unwrap();
    assert_eq!(SummaryPath::find("cpu_ns_per_tick").unwrap().measure(&rounds).value, None);
    assert_eq!(RoundTicks::measure_core_percent(&rounds, 0.99).value, None);
}
