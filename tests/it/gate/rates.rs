//! Tests of limits on the rate of missed ticks.

use files::gate::verdict::{LimitCheck, RateBounds};
use files::report::Warning;
use jitterstat::gate::decision::{Outcome, Reason};
use serde_json::{Value, json};

use super::Gate;
use crate::fixtures::fixture;
use crate::osjitter::{Osjitter, Ran, one_line};

/// 480 rounds of 250 scripted ticks, which are just enough for 1 in 10,000 and stalls of 2 ms.
const MINUTE: [&str; 8] =
    ["--subject", "scripted", "--period", "500us", "--ticks", "120k", "--max-stall", "2ms"];

fn rate_gate(limit: &str, lateness_ns: &Value, more: &[&str]) -> Gate {
    let script = json!({"scripted": {"lateness_ns": lateness_ns}});
    let args = [&["--limit", limit], &MINUTE[..], more].concat();
    Gate::from_ran(super::gate(&args).script(&script).run())
}

/// The lateness of rounds of which one in 120 has a missed tick.
fn one_miss_in_120_rounds() -> Value {
    let mut rounds = vec![vec![10_000]; 120];
    rounds[7] = (0..400).map(|tick| if tick == 100 { 600_000 } else { 10_000 }).collect();
    json!(rounds)
}

fn only_check(gate: &Gate) -> (&LimitCheck, &RateBounds) {
    let [check] = &gate.verdict().limits[..] else { panic!("{}", gate.ran.stdout) };
    (check, check.rate.as_ref().expect("bounds"))
}

#[test]
fn rate_without_a_miss_passes() {
    let gate = rate_gate("missed<1e-4", &json!([10_000]), &[]).exits(0);
    let (check, bounds) = only_check(&gate);
    assert_eq!((check.verdict, check.value, check.ticks), (Outcome::Pass, Some(0.0), 120_000));
    assert_eq!((check.rounds, check.ticks_to_decide), (480, None));
    assert_eq!((bounds.missed, bounds.lower, bounds.lower_confidence), (0, 0.0, 0.995));
    assert!(bounds.upper < 1e-4 && bounds.upper > 9.9e-5, "{}", bounds.upper);
    assert_eq!((bounds.upper_confidence, bounds.max_stall_ns), (0.95, Some(2_000_000)));
    assert_eq!(bounds.measured_ns, 60_000_000_000);
    let text = one_line(&gate.ran.stdout);
    let shown = "below 1 in 10,014 with 95 % confidence after 60s (0 of 120,000 ticks; no stall above 2 ms)";
    assert!(text.contains(shown) && text.contains("limit 1 in 10,000"), "{text}");
    assert!(
        text.contains("assumes that no stall is longer than 2 ms and that stalls are independent"),
        "{text}"
    );
    assert!(gate.ran.stderr.contains("for the limits"), "{}", gate.ran.stderr);
}

#[test]
fn frequent_misses_break_the_limit() {
    let lateness: Vec<u64> = (0..100).map(|k| if k == 7 { 600_000 } else { 10_000 }).collect();
    let gate = rate_gate("missed<0.1%", &json!(lateness), &["--format", "junit"]).exits(1);
    let (check, bounds) = only_check(&gate);
    assert_eq!((check.verdict, bounds.missed), (Outcome::LimitBroken, 1_200));
    let value = check.value.unwrap();
    assert!((value - 1.0).abs() < 1e-9 && bounds.lower > 1e-3 && bounds.lower < 0.01, "{value}");
    let junit = &gate.ran.stdout;
    assert!(junit.contains("name=\"missed below 1 in 1,000\"><failure message=\"missed: above"));
    assert!(junit.contains("99.5 % confidence after 60s (1,200 of 120,000 ticks"), "{junit}");
    for (format, expected) in [
        ("sarif", "missed below 1 in 1,000: missed: above"),
        ("markdown", "1,200 of 120,000 ticks"),
        ("html", "1,200 of 120,000 ticks"),
    ] {
        let text =
            Osjitter::new(["report", "--format", format]).args([gate.ran.path("verdict.json")]);
        assert!(text.run().exits(0).stdout.contains(expected), "{format}");
    }
}

#[test]
fn rare_misses_need_more_ticks() {
    let gate = rate_gate("missed<1e-4", &one_miss_in_120_rounds(), &["--on-inconclusive", "fail"]);
    let gate = gate.exits(3);
    let (check, bounds) = only_check(&gate);
    assert_eq!((check.verdict, check.reason), (Outcome::Inconclusive, Some(Reason::TooFewTicks)));
    assert_eq!(bounds.missed, 4);
    assert!(bounds.lower > 0.0 && bounds.lower < 1e-4 && bounds.upper > 1e-4);
    let ticks = check.ticks_to_decide.expect("a number of ticks");
    assert!(ticks > 120_000 && ticks < 1_000_000, "{ticks}");
    let text = one_line(&gate.ran.stdout);
    let seconds = (ticks as f64 * 0.0005).ceil();
    let advice = format!(
        "about {ticks} ticks ({seconds}s) would probably decide the limits: --ticks {ticks}"
    );
    assert!(text.contains(&advice), "{advice}: {text}");
}

#[test]
fn too_few_ticks_are_refused() {
    let subject = ["--subject", "nanosleep", "--period", "500us", "--limit", "missed<1e-4"];
    let refuses = |more: &[&str], says: &str| Gate::run(&[&subject, more].concat()).refuses(says);
    // 29,956 rounds for stalls of any length, 2,397 for stalls of 20 ticks, 480 for 4 ticks.
    refuses(&[], "--ticks 10000 is too small to show a rate of misses below 1 in 10,000");
    refuses(&["--ticks", "120k"], "--ticks 7489000 (");
    refuses(&["--ticks", "120k"], "--max-stall 10ms --ticks 599250 (");
    refuses(&["--ticks", "119k", "--max-stall", "2ms"], "--ticks 120000 (");
    refuses(&["--round-ticks", "25"], "--ticks 748900 (");
}

#[test]
fn invalid_rates_are_rejected() {
    for (args, says) in [
        (&["--limit", "p99<1ms"][..], "only missed has a rate; give a maximum with ="),
        (&["--limit", "missed<0"], "expected more than 0 and less than 1"),
        (&["--limit", "missed<1ms"], "missed<0.01%"),
        (&["--limit", "missed>1e-4"], "expected e.g. p99=200us or missed<1e-4"),
        (&["--limit", "missed=1%", "--max-stall", "2ms"], "--max-stall is for a limit on the rate"),
        (&["--limit", "missed<1e-2", "--max-stall", "0s"], "a stall of 0s is outside"),
    ] {
        Gate::run(&[args, &["--subject", "nanosleep"]].concat()).refuses(says);
    }
}

/// Checks a limit on the rate of a file.
fn judge_report(file: &std::path::Path, limit: &str, more: &[&str]) -> Gate {
    let report = ["--report", file.to_str().unwrap(), "--limit", limit];
    Gate::run(&[&report, more].concat())
}

fn run_scripted(lateness_ns: &Value, more: &[&str]) -> Ran {
    let script = json!({"scripted": {"lateness_ns": lateness_ns}});
    let args = ["run", "--subject", "scripted", "--period", "500us"];
    let ticks = if more.contains(&"--ticks") { &[][..] } else { &["--ticks", "120k"] };
    Osjitter::new(args).args(ticks).args(more).script(&script).out("").run().exits(0)
}

#[test]
fn stored_rounds_need_no_samples() {
    let lateness = one_miss_in_120_rounds();
    let [with, without] = [&[][..], &["--no-samples"]].map(|more| {
        let ran = run_scripted(&lateness, more);
        let gate = judge_report(&ran.path("report.json"), "missed<1%", &[]).exits(0);
        let (check, bounds) = only_check(&gate);
        assert_eq!((check.verdict, bounds.missed, bounds.max_stall_ns), (Outcome::Pass, 4, None));
        let is_expected = |warning: &Warning| warning.code == "scripted";
        let warnings = &gate.verdict().warnings;
        assert!(warnings.iter().all(is_expected), "{warnings:?}");
        bounds.clone()
    });
    assert_eq!(with, without);
}

#[test]
fn drawn_rounds_are_judged_as_totals() {
    // 1,100 rounds, of which the report keeps 1,000.
    let ran = run_scripted(
        &json!([20_000]),
        &["--no-samples", "--ticks", "2200", "--round-ticks", "2", "--warmup", "0"],
    );
    let report = ran.path("report.json");
    judge_report(&report, "missed<1%", &[]).refuses("--max-stall limits it");
    let gate = judge_report(&report, "missed<1%", &["--max-stall", "500us"]).exits(0);
    let (check, _) = only_check(&gate);
    assert_eq!((check.verdict, check.rounds, check.ticks), (Outcome::Pass, 0, 2_200));
    let warnings = &gate.verdict().warnings;
    assert!(warnings.iter().any(|w| w.code == "rate-of-totals"), "{warnings:?}");
}

#[test]
fn small_reports_get_applicable_advice() {
    let rate = "a report of more rounds, or --max-stall, would probably decide the limits";
    for (rounds, limit, more, says) in [
        (10, "missed<1e-4", &[][..], rate),
        (10, "missed<1e-4", &["--max-stall", "1ms"], "a report of about "),
        (9, "missed<1e-4", &[], rate),
        (9, "p50=1s", &[], "a report of more rounds would probably decide the limits"),
    ] {
        let ticks = (rounds * 250).to_string();
        let ran = run_scripted(&json!([1_000]), &["--ticks", &ticks, "--round-ticks", "250"]);
        let gate = judge_report(&ran.path("report.json"), limit, more).exits(0);
        assert_eq!(gate.verdict().verdict, Outcome::Inconclusive);
        let text = one_line(&gate.ran.stdout);
        assert!(text.contains(says), "{rounds} {limit}: {text}");
        for flag in ["--ticks", "--round-ticks", "--max-time"] {
            assert!(!text.contains(flag), "{rounds} {limit}: {text}");
        }
    }
}

#[test]
fn late_tick_replaces_assumed_stall() {
    let ran = run_scripted(&json!([3_000]), &[]);
    let report = ran.path("report.json");
    let gate = judge_report(&report, "missed<1e-4", &["--max-stall", "1us"]).exits(0);
    assert_eq!(only_check(&gate).1.max_stall_ns, Some(3_000));
    let warnings = &gate.verdict().warnings;
    assert!(warnings.iter().any(|w| w.code == "later-than-max-stall"), "{warnings:?}");
}

#[test]
fn lines_of_logs_are_rounds() {
    let ran = run_scripted(&one_miss_in_120_rounds(), &[]);
    let log = ran.path("run.hlog");
    let export = ["report", "--format", "hlog", "--out", log.to_str().unwrap()];
    Osjitter::new(export).args([ran.path("report.json")]).run().exits(0);
    let gate = judge_report(&log, "missed<1%", &[]).exits(0);
    let (check, bounds) = only_check(&gate);
    assert_eq!((check.verdict, check.rounds, bounds.missed), (Outcome::Pass, 480, 4));
    let warnings = &gate.verdict().warnings;
    assert!(warnings.iter().any(|w| w.code == "rate-of-values"), "{warnings:?}");
}

#[test]
fn totals_need_a_longest_stall() {
    // 1,000 values of at most 40 us at 1 ms.
    let file = fixture("formats/cyclictest-renamed.json");
    judge_report(&file, "missed<1%", &[]).refuses("--max-stall limits it");
    let gate = judge_report(&file, "missed<1%", &["--max-stall", "2ms"]).exits(0);
    let (check, bounds) = only_check(&gate);
    // No event in 500 bursts of two ticks.
    assert_eq!((check.verdict, check.rounds, check.ticks), (Outcome::Pass, 0, 1_000));
    assert!((bounds.upper - 0.005_97).abs() < 1e-5, "{}", bounds.upper);
    let warnings = &gate.verdict().warnings;
    assert!(warnings.iter().any(|w| w.code == "rate-of-totals"), "{warnings:?}");
    let open = judge_report(&file, "missed<1e-3", &["--max-stall", "2ms"]).exits(0);
    assert_eq!(only_check(&open).0.verdict, Outcome::Inconclusive);
    // Values above the bins, of which only the largest is known to be later than a period.
    let subject = ["--subject", "cyclictest@1ms/thread-0", "--max-stall", "2ms"];
    judge_report(&fixture("cyclictest.json"), "missed<1%", &subject)
        .refuses("at least 1 were missed, and the others are not counted");
    judge_report(&fixture("python.hlog"), "missed<1%", &["--subject", "B"])
        .refuses("its period is not known");
}
