use super::gates::{Label, Relabelled};
use super::*;
use jitterstat::gate::decision::Outcome;
use jitterstat::gate::round::{Late, RoundValue};
use jitterstat::stats::random::SplitMix64;

const PERIOD_NS: u64 = 500_000;
const PAIR_NS: u64 = 278_000_000;

/// Pairs of one subject against itself, whose rounds differ by `noise`, on a machine with a
/// drifting level.
fn pairs(n: usize, noise: f64) -> Vec<Pair> {
    let mut random = SplitMix64::new(11);
    let mut normal = || {
        let uniform = SplitMix64::unit;
        (0..12).map(|_| uniform(&mut random)).sum::<f64>() - 6.0
    };
    let mut level = 0.0;
    (0..n)
        .map(|_| {
            level = 0.9 * level + 0.1 * normal();
            let mut round = || {
                let (x, y) = (normal() * noise / 2_f64.sqrt(), normal() * noise / 2_f64.sqrt());
                let late = |ln: f64| Late { ln, ln_unstalled: ln };
                RoundValue {
                    median: late(14e3_f64.ln() + level + x),
                    tail: late(48e3_f64.ln() + level + y),
                }
            };
            Pair { base: round(), candidate: round() }
        })
        .collect()
}

fn calibrate(pairs: &[Pair], rules: &Rules) -> Vec<CalibratedMetric> {
    metrics(&recording(pairs, rules, 0.99, PAIR_NS))
}

fn inconclusive(pairs: &[Pair], pair_ns: u64) -> Vec<InconclusiveChance> {
    recording(pairs, &Rules::new(PERIOD_NS), 0.99, pair_ns).inconclusive()
}

fn real_gates(pairs: &[Pair]) -> RealGates {
    recording(pairs, &Rules::new(PERIOD_NS), 0.99, PAIR_NS).real_gates()
}

#[test]
fn spread_and_smallest_changes_are_estimated() {
    let found = calibrate(&pairs(400, 0.2), &Rules::new(PERIOD_NS));
    let [p50, p99] = &found[..] else { panic!() };
    assert_eq!((p50.name.as_str(), p99.name.as_str()), ("p50", "p99"));
    assert!((0.17..0.23).contains(&p50.spread) && p50.spread_quiet_half.is_none(), "{p50:?}");
    assert!((0.17..0.23).contains(&p99.spread) && p99.spread_quiet_half.is_some());
    let ratios: Vec<f64> = p50.smallest_change.iter().map(|c| c.ratio).collect();
    assert_eq!(
        p50.smallest_change.iter().map(|c| c.pairs).collect::<Vec<_>>(),
        [50, 100, 200, 400]
    );
    assert!(ratios.is_sorted_by(|a, b| a > b), "{ratios:?}");
    // The standard error of 400 pairs is 0.2/20 = 0.01. A bound at alpha/8 is 3.2 standard errors
    // away, and 95 % of the bounds are within another 1.6 of them.
    assert!((1.04..1.06).contains(&ratios[3]), "{ratios:?}");
    let last = &p50.smallest_change[3];
    assert_eq!(last.after_ns, 400 * PAIR_NS);
    assert!((last.difference_ns as f64 / p50.median_ns as f64 - (last.ratio - 1.0)).abs() < 1e-3);
    assert!(p99.smallest_change[3].ratio > ratios[3], "half of the pairs, half of the alpha");
}

#[test]
fn smallest_change_is_detected() {
    let rules = Rules::new(PERIOD_NS);
    let recorded = pairs(400, 0.2);
    let smallest = calibrate(&recorded, &rules)[0].smallest_change[3].ratio;
    let rules =
        Rules { tolerance_median: smallest - 1.0, tolerance_tail: 9.0, floor_ns: 0.0, ..rules };
    let mut labels = Relabelled::with_seed(recorded.len(), 99);
    let relabelled_pair = |&(i, is_swapped): &Label| {
        if is_swapped { recorded[i].swapped() } else { recorded[i] }
    };
    let mut share = |by: f64, outcome: Outcome| {
        let gates = (0..100).filter(|_| {
            let mut gate: Vec<Pair> = labels.gate(400).iter().map(relabelled_pair).collect();
            for p in &mut gate {
                p.candidate.median.ln += by;
            }
            decision::look(&gate, &rules, true).median.outcome == outcome
        });
        gates.count()
    };
    // 95 of 100, and three standard deviations.
    assert!(share(smallest.ln(), Outcome::Regressed) >= 88);
    assert!(share(0.0, Outcome::Pass) >= 88);
    assert!(share(smallest.ln() / 3.0, Outcome::Regressed) < 50);
}

#[test]
fn noise_raises_inconclusive_share() {
    let share = |noise: f64| -> Vec<f64> {
        let chances = inconclusive(&pairs(200, noise), PAIR_NS);
        assert_eq!(
            chances.iter().map(|c| (c.seconds, c.pairs)).collect::<Vec<_>>(),
            [(30, 100), (60, 200), (120, 400)]
        );
        chances.iter().map(|c| c.share.unwrap()).collect()
    };
    let (quiet, noisy) = (share(0.1), share(0.5));
    assert!(quiet.iter().all(|&s| s < 0.02), "{quiet:?}");
    assert!(noisy[0] > 0.1 && noisy[0] > noisy[2], "{noisy:?}");
    let slow = inconclusive(&pairs(30, 0.1), 1_000_000_000);
    assert_eq!((slow[0].pairs, slow[0].share), (0, None), "50 pairs of 1 s do not fit into 30 s");
}

#[test]
fn alarm_rate_needs_enough_gates() {
    let few = real_gates(&pairs(240, 0.1));
    assert_eq!((few.gates, few.passed, few.false_alarm_rate), (4, 4, None));
    let many = real_gates(&pairs(6_000, 0.1));
    assert!(many.gates >= MIN_REAL_GATES && many.passed == many.gates, "{many:?}");
    assert_eq!(many.false_alarm_rate, Some(0.0));
    assert!(
        many.false_alarm_rate_upper95.is_some_and(|p| (0.02..=0.029_6).contains(&p)),
        "{many:?}"
    );
    assert_eq!(real_gates(&pairs(49, 0.1)).gates, 0);
}

fn new_calibration(pairs: &[Pair]) -> Calibration {
    let rules = Rules::new(PERIOD_NS);
    let design = GateDesign {
        period_ns: PERIOD_NS,
        round_ticks: 250,
        warmup_ticks: 20,
        seed: 7,
        cpu: Some(3),
        alpha: rules.alpha,
        looks: rules.looks.iter().map(|&n| n as u64).collect(),
        tolerance: None,
    };
    let environment: EnvironmentKey =
        serde_json::from_str(r#"{"os": "linux", "arch": "x86_64", "kernel": "6.1", "cpus": 4}"#)
            .unwrap();
    Calibration {
        schema: SCHEMA.into(),
        tool: Tool { name: "osjitter".into(), version: "0".into(), commit: None },
        started_utc: "then".into(),
        duration_ns: 1,
        partial: false,
        failure: None,
        environment,
        subject: "os-interval@500us".into(),
        plan: CalibrationPlan::new(&design, &rules),
        pairs: pairs.len() as u64,
        pair_ns: PAIR_NS,
        metrics: calibrate(pairs, &rules),
        inconclusive: inconclusive(pairs, PAIR_NS),
        real_gates: real_gates(pairs),
        same_stall_share: 0.0,
        steal_share: None,
        fitness: None,
        warnings: warnings(&[], 0, &rules.looks),
        rounds: crate::gate::verdict::records(pairs),
    }
}

#[test]
fn calibration_is_valid_for_its_machine() {
    let calibration = new_calibration(&pairs(60, 0.2));
    let text = calibration.to_json();
    assert!(Calibration::from_json(&text).unwrap() == calibration);
    assert!(Calibration::from_json(&text[..100]).unwrap_err().to_string().contains("line"));
    assert!(
        Calibration::from_json(&text.replace(SCHEMA, "osjitter.calibration/2"))
            .unwrap_err()
            .to_string()
            .contains("/2")
    );
    assert!(calibration.differences(&calibration.environment, PERIOD_NS, 250).is_empty());
    let other = EnvironmentKey { kernel: Some("6.2".into()), ..calibration.environment.clone() };
    let differences: Vec<String> =
        calibration.differences(&other, 1_000_000, 100).iter().map(ToString::to_string).collect();
    assert_eq!(
        differences,
        [
            "kernel: 6.1 against 6.2",
            "period: 500us against 1ms",
            "ticks of a round: 250 against 100"
        ]
    );
}

/// Returns the names of the numbers that a gate tolerates to change by less than the noise, with the
/// smallest detectable ratio.
fn below_noise(calibration: &Calibration, rules: &Rules) -> Vec<(String, f64)> {
    let last = *rules.looks.last().unwrap() as u64;
    let numbers = calibration.numbers().into_iter().zip([rules.median(), rules.tail()]);
    let below = numbers.filter_map(|(number, rule)| {
        let tolerated = rule.tolerated(number.median);
        let smallest = number.noise_above(tolerated, last, rules.alpha_per_look())?;
        Some((number.name, smallest.exp()))
    });
    below.collect()
}

#[test]
fn tolerance_below_noise_is_named() {
    let calibration = new_calibration(&pairs(400, 0.4));
    let rules = Rules::new(PERIOD_NS);
    assert!(below_noise(&calibration, &rules).is_empty(), "{:?}", calibration.metrics);
    let tight = Rules { tolerance_median: 0.05, floor_ns: 0.0, ..rules.clone() };
    let [(name, smallest)] = &below_noise(&calibration, &tight)[..] else { panic!() };
    assert!(name == "p50" && (1.05..1.2).contains(smallest), "{name} {smallest}");
    // An absolute floor is also a tolerance.
    assert!(below_noise(&calibration, &Rules { floor_ns: 14e3, ..tight.clone() }).is_empty());
    let hasty = Rules { looks: vec![50], ..rules.clone() };
    let names: Vec<String> =
        below_noise(&calibration, &hasty).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["p50", "p99"], "50 pairs detect neither +20 % nor +50 %");
    assert!(
        calibration.numbers()[0].smallest_detectable(24, rules.alpha_per_look()).unwrap()
            > calibration.metrics[0].smallest_change[0].ratio.ln()
    );
}

#[test]
fn pairs_are_planned_for_a_change() {
    let calibration = new_calibration(&pairs(400, 0.2));
    let alpha = Rules::new(PERIOD_NS).alpha_per_look();
    for number in calibration.numbers() {
        let planned = |ratio: f64| number.pairs_to_detect(ratio.ln(), alpha).unwrap();
        for change in &number.changes {
            let n = planned(change.ratio + 1e-9);
            assert!(n.abs_diff(change.pairs) <= 1, "{}: {n} for {change:?}", number.name);
        }
        let mut before = u64::MAX;
        for percent in 1..60 {
            let ratio = 1.0 + f64::from(percent) / 100.0;
            let n = planned(ratio);
            assert!(n <= before, "a larger change needs no more pairs");
            let smallest = number.smallest_detectable(n, alpha).unwrap().exp();
            assert!(smallest <= ratio + 1e-3 || n == 24, "{percent} {n}");
            before = n;
        }
    }
    // A fourth of the change needs sixteen times the pairs; a smaller alpha needs more.
    let median = &calibration.numbers()[0];
    let last = median.changes[3].ratio.ln();
    let n = median.pairs_to_detect(last / 4.0, alpha).unwrap();
    assert!(n.abs_diff(16 * 400) <= 16, "{n}");
    let strict = median.pairs_to_detect(last, alpha / 10.0).unwrap();
    assert!((500..800).contains(&strict), "{strict}");
}

#[test]
fn stalls_make_changes_undetectable() {
    let mut calibration = new_calibration(&pairs(60, 0.2));
    let alpha = Rules::new(PERIOD_NS).alpha_per_look();
    calibration.metrics[0].lift = Some(1.05);
    calibration.metrics[1].stall_dominated = true;
    let [lifted, dominated] = &calibration.numbers()[..] else { panic!() };
    assert_eq!(lifted.pairs_to_detect(1.05_f64.ln(), alpha), None);
    assert_eq!(dominated.pairs_to_detect(2_f64.ln(), alpha), None);
    assert_eq!(dominated.smallest_detectable(400, alpha), None);
}

/// A gate of whole runs looks first after fewer pairs than one of lateness.
#[test]
fn few_pairs_miss_the_first_look() {
    for (looks, pairs, is_few) in
        [([24, 50], 23, true), ([24, 50], 24, false), ([50, 100], 49, true)]
    {
        let codes: Vec<String> =
            warnings(&[], pairs, &looks).into_iter().map(|warning| warning.code).collect();
        assert_eq!(codes.contains(&"few-pairs".to_owned()), is_few, "{looks:?} {pairs}");
    }
}

#[test]
fn few_pairs_give_no_results() {
    assert!(calibrate(&pairs(23, 0.1), &Rules::new(PERIOD_NS)).is_empty());
    assert!(inconclusive(&pairs(23, 0.1), 1).iter().all(|c| c.share.is_none()));
}
