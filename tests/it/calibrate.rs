//! `osjitter calibrate` from outside: the file, what it claims and what it does not, and every way it can end.

use jitterstat::file::File as _;
use jitterstat::gate::calibration::Calibration;

use crate::osjitter::Osjitter;

/// Rounds of 20 ticks at 1 ms: a pair takes about 50 ms, a calibration a second and more.
const SHORT: [&str; 6] = ["--period", "1ms", "--round-ticks", "20", "--warmup", "3"];

fn calibrate(args: &[&str]) -> Osjitter {
    Osjitter::new(["calibrate"]).args(args)
}

#[test]
fn a_short_calibration_says_what_a_gate_can_see_and_claims_no_rate() {
    let home = tempfile::tempdir().unwrap();
    let args = [&SHORT[..], &["--time", "4s", "--subject", "nanosleep", "--seed", "7", "--format", "json"]].concat();
    let json = calibrate(&args).directory(home.path()).run().exits(0).stdout;
    let file = std::fs::read_to_string(home.path().join("osjitter-calibration.json")).expect("the documented place");
    assert_eq!(json, file);
    let schema = Calibration::json_schema();
    let value: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert!(jsonschema::validator_for(&schema).unwrap().is_valid(&value), "{json}");

    let found = Calibration::from_json(&json).unwrap();
    assert!(!found.partial && found.failure.is_none() && found.pairs >= 24, "{} pairs", found.pairs);
    assert_eq!((found.subject.as_str(), found.plan.seed, found.plan.round_ticks), ("nanosleep@1ms", 7, 20));
    assert_eq!((found.rounds.len() as u64, found.environment.arch.as_str()), (found.pairs, std::env::consts::ARCH));
    assert!(found.duration_ns >= 4_000_000_000, "it measures for as long as it was asked");
    let names: Vec<&str> = found.metrics.iter().map(|m| m.name.as_str()).collect();
    assert_eq!(names, ["p50", "p90"], "20 ticks carry no p99");
    for metric in &found.metrics {
        assert!(metric.median_ns > 0 && metric.spread > 0.0, "{metric:?}");
        let looks: Vec<u64> = metric.smallest_change.iter().map(|c| c.pairs).collect();
        assert_eq!(looks, found.plan.looks);
        assert!(metric.smallest_change.iter().all(|c| c.ratio > 1.0 && c.difference_ns > 0), "{metric:?}");
    }
    assert_eq!(found.inconclusive.iter().map(|c| c.seconds).collect::<Vec<_>>(), [30, 60, 120]);
    assert!(found.inconclusive[2].share.is_some_and(|s| (0.0..=1.0).contains(&s)));
    assert!(found.real_gates.gates < 100 && found.real_gates.false_alarm_rate.is_none(), "{:?}", found.real_gates);
}

#[test]
fn bad_usage_is_named_before_anything_runs() {
    let home = tempfile::tempdir().unwrap();
    for (args, says) in [
        (&["--time", "5"][..], "'--max-time <DURATION>': \"5\" has no unit"),
        (&["--max-time", "1s"], "give --max-time 7s or more"),
        // Rounds of a second, as the gate takes them.
        (&["--max-time", "10s", "--period", "100ms"], "give --max-time 63s or more"),
        (&["--period", "0us"], "no period"),
        (&["--subject", "no-such"], "no subject"),
        (&["--subject", "tokio-*"], "several subjects"),
        (&["--cpu", "99999"], "CPU 99999"),
        (&["--out", "no/such/place.json"], "nothing was run"),
        (&["--out", "."], "nothing was run"),
        (&["--format", "svg"], "svg"),
    ] {
        let refused = calibrate(args).directory(home.path()).run().exits(2);
        assert!(refused.stderr.contains(says), "{args:?}: {}", refused.stderr);
    }
    assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 0, "nothing is left behind");
}

#[cfg(unix)]
#[test]
fn an_interrupt_leaves_what_was_measured() {
    let args = [&["--subject", "nanosleep", "--max-time", "10m"], &SHORT[..]].concat();
    let pause = std::time::Duration::from_secs(2);
    let ran = calibrate(&args).out("partial.json").interrupt_after("calibrate: ", pause).exits(4);
    let found = Calibration::from_json(&ran.file("partial.json")).unwrap();
    assert!(found.partial && found.failure.is_none() && found.pairs > 0, "{} pairs", found.pairs);
    assert_eq!(found.rounds.len() as u64, found.pairs);
}

#[test]
fn a_gate_warns_of_a_tolerance_below_what_the_calibration_saw() {
    let home = tempfile::tempdir().unwrap();
    let quick = [&SHORT[..], &["--max-time", "3s", "--subject", "nanosleep", "--quiet"]].concat();
    let made = calibrate(&quick).directory(home.path()).run().exits(0);
    assert_eq!(made.stderr, "");
    let gate = |more: &[&str], period: &str| {
        let rounds = ["--period", period, "--round-ticks", "20", "--warmup", "3", "--max-pairs", "24", "--out", "gate"];
        let sides = ["gate", "--a", "nanosleep", "--b", "nanosleep", "--floor", "1ns"];
        let args = [&sides[..], &rounds, &["--calibration", "osjitter-calibration.json"], more].concat();
        Osjitter::new(args).directory(home.path()).run()
    };
    let verdict = || {
        let text = std::fs::read_to_string(home.path().join("gate/verdict.json")).unwrap();
        jitterstat::gate::verdict::Verdict::from_json(&text).unwrap()
    };
    // No machine tells 24 rounds apart by a thousandth, and none needs a factor of a thousand.
    let tight = gate(&["--tolerance", "p50=0.1%", "--tolerance", "p90=100000%"], "1ms").exits(0);
    let codes: Vec<(String, bool)> =
        verdict().warnings.into_iter().map(|w| (w.code, w.message.starts_with("p50 is tolerated"))).collect();
    assert_eq!(codes, [("tolerance-below-noise".to_owned(), true)]);
    assert!(tight.stderr.contains("warning: p50"), "{}", tight.stderr);

    let _ = gate(&[], "2ms");
    let [warning] = &verdict().warnings[..] else { panic!() };
    assert_eq!(warning.code, "calibration-not-used");
    assert!(warning.message.contains("period: 1000000 ns against 2000000 ns"), "{}", warning.message);

    std::fs::write(home.path().join("osjitter-calibration.json"), "{").unwrap();
    let refused = gate(&[], "1ms").exits(2);
    assert!(refused.stderr.contains("osjitter.calibration/1"), "{}", refused.stderr);
}
