//! Tests of two interleaved sides: the verdict file, the exit codes, and failing sides.

use files::file::File as _;
use files::gate::verdict::{PairVerdict, Verdict};
use jitterstat::gate::decision::{self, Look, Outcome, Reason, Rules};
use jitterstat::gate::round::{Late, Pair, RoundValue};
use serde_json::{Value, json};

use super::Gate;
use crate::osjitter::one_line;
#[cfg(unix)]
use crate::osjitter::{Ran, interrupt_while_measuring};
use crate::test_programs::gated_loop;

#[test]
fn slowed_program_regresses() {
    let program = gated_loop();
    let command = |extra: &str| format!("'{}' 1ms {extra}", program.display());
    // The candidate works longer than a period, so that it is later by far, even on a busy machine.
    let tolerance = ["--tolerance", "p50=200%", "--tolerance", "p90=200%", "--floor", "200us"];
    let sides =
        ["--base-cmd", &command(""), "--candidate-cmd", &command("3ms"), "--format", "json"];
    let gate = Gate::quick(&[&sides[..], &tolerance].concat()).exits(1);
    let verdict = gate.verdict();
    assert_eq!(verdict.verdict, Outcome::Regressed, "{}", gate.ran.stdout);
    let [pair] = verdict.comparisons.as_slice() else { panic!("{}", gate.ran.stdout) };
    assert_eq!(
        (pair.pairs, pair.looks_taken, pair.rounds.len(), verdict.partial),
        (24, 1, 24, false)
    );
    assert_eq!(pair.plan.cpu, None, "commands are bound to a CPU only on request");
    assert_eq!(
        Verdict::from_json(&gate.ran.stdout).unwrap(),
        *verdict,
        "the file is what --format json prints"
    );
}

/// Scripts both sides with a stall of 5 ms in every round, from which they never recover.
fn stalled() -> Value {
    let round = [vec![20_000_i64; 10], vec![5_020_000; 30]].concat();
    json!({"scripted": {"lateness_ns": [round]}, "scripted-b": {"lateness_ns": [round]}})
}

/// Scripts the lateness of both sides in nanoseconds. Rounds cycle through the levels of a side.
fn late_by(a: &[i64], b: &[i64]) -> Value {
    let rounds = |levels: &[i64]| levels.iter().map(|&level| vec![level]).collect::<Vec<_>>();
    json!({"scripted": {"lateness_ns": rounds(a)}, "scripted-b": {"lateness_ns": rounds(b)}})
}

const SCRIPTS: [&str; 4] = ["--a", "scripted", "--b", "scripted-b"];

#[test]
fn scripted_pairs_give_expected_verdicts() {
    use Outcome::{Improved, Inconclusive, Pass, Regressed};
    for (a, b, code, outcome, reason, says) in [
        (
            20_000,
            21_000,
            0,
            Pass,
            None,
            "verdict: pass: p50 +5.0 % (+5.0 % to +5.0 %) is within +20.0 %",
        ),
        // Within both tolerances, 20 % and 50 %; beyond the first; beyond both.
        (20_000, 23_999, 0, Pass, None, "+20.0 %"),
        (20_000, 25_000, 1, Regressed, None, "verdict: regressed"),
        (20_000, 31_000, 1, Regressed, None, "+55.0 %"),
        (20_000, 10_000, 0, Improved, None, "verdict: pass (improved)"),
        // Ten times as late, but by less than the floor.
        (90, 900, 0, Pass, None, "+900.0 %"),
        // A side that is always late by more than half a period is not stalled.
        (600_000, 610_000, 0, Pass, None, "verdict: pass"),
        (
            1_200_000,
            1_900_000,
            1,
            Regressed,
            None,
            "p50 +58.3 % (+58.3 % to +58.3 %) exceeds +20.0 %",
        ),
    ] {
        let gate = Gate::scripted(&SCRIPTS, &late_by(&[a], &[b])).exits(code);
        let verdict = gate.verdict();
        assert_eq!(
            (verdict.verdict, verdict.reason),
            (outcome, reason),
            "{a} {b}: {}",
            gate.ran.stdout
        );
        assert!(one_line(&gate.ran.stdout).contains(says), "{a} {b}: {}", gate.ran.stdout);
        assert_eq!(
            gate.ran.stderr.contains("not a pass"),
            outcome == Inconclusive,
            "{}",
            gate.ran.stderr
        );
        let [pair] = verdict.comparisons.as_slice() else { panic!("{}", gate.ran.stdout) };
        assert!(pair.rounds.iter().all(|r| (r.a_ns, r.b_ns) == ([a; 2], [b; 2])));
        assert!(
            pair.rounds.iter().all(|r| (r.a_own_ns, r.b_own_ns) == (Some([a; 2]), Some([b; 2])))
        );
        assert_eq!((pair.pairs, pair.looks_taken, verdict.partial), (24, 1, false));
    }
}

#[test]
fn inconclusive_fails_only_on_request() {
    for (on_inconclusive, code) in [("fail", 3), ("pass", 0)] {
        let args = [&SCRIPTS[..], &["--on-inconclusive", on_inconclusive]].concat();
        let gate = Gate::scripted(&args, &stalled()).exits(code);
        let verdict = gate.verdict();
        assert_eq!(
            (verdict.verdict, verdict.reason),
            (Outcome::Inconclusive, Some(Reason::StallDominated))
        );
        assert!(gate.ran.stderr.contains("not a pass") && !verdict.partial);
        let pair = &verdict.comparisons[0];
        assert!(
            pair.rounds.iter().all(|r| (r.a_ns, r.a_own_ns) == ([5_020_000; 2], Some([20_000; 2])))
        );
        let lift = pair.metrics[0].lift.as_ref().expect("a stall lift");
        assert!((lift.both - 251.0).abs() < 1e-6 && lift.late_anyway == 1.0, "{lift:?}");
        assert!(!gate.ran.stdout.contains("verdict: pass"), "{}", gate.ran.stdout);
    }
}

#[test]
fn verdict_can_be_judged_again() {
    let scripts = [
        late_by(&[20_000], &[21_000]),
        late_by(&[10_000, 90_000], &[10_000, 10_000, 90_000, 90_000]),
        late_by(&[1_200_000], &[1_900_000]),
        stalled(),
    ];
    for script in scripts {
        let gate = Gate::scripted(
            &[&SCRIPTS[..], &["--tolerance", "p50=25%", "--floor", "2us"]].concat(),
            &script,
        );
        let pair = &gate.verdict().comparisons[0];
        let again = repeat_last_look(pair);
        for (judged, metric) in [again.median, again.tail].iter().zip(&pair.metrics) {
            assert_eq!(
                (judged.outcome, judged.reason),
                (metric.judged.verdict, metric.judged.reason)
            );
            assert!((judged.tolerance.exp() - metric.judged.tolerated_ratio).abs() < 1e-9);
            let both = metric.lift.as_ref().map(|lift| lift.both);
            assert!(
                judged
                    .lift
                    .zip(both)
                    .is_some_and(|(lift, both)| (lift.both.exp() / both - 1.0).abs() < 1e-9)
            );
        }
    }
}

/// Repeats the last look of a comparison from the values in its verdict file.
fn repeat_last_look(pair: &PairVerdict) -> Look {
    let late = |ns: [i64; 2], unstalled_ns: Option<[i64; 2]>| {
        let unstalled_ns = unstalled_ns.expect("values without stalls");
        RoundValue {
            median: Late::from_ns(ns[0], unstalled_ns[0]),
            tail: Late::from_ns(ns[1], unstalled_ns[1]),
        }
    };
    let plan = &pair.plan;
    let tolerance = plan.tolerance.as_ref().expect("tolerances");
    let looks: Vec<usize> = plan.looks.iter().map(|&n| usize::try_from(n).unwrap()).collect();
    let taken = usize::try_from(pair.looks_taken).unwrap();
    let pairs: Vec<Pair> = pair.rounds[..looks[taken - 1]]
        .iter()
        .map(|r| Pair { base: late(r.a_ns, r.a_own_ns), candidate: late(r.b_ns, r.b_own_ns) })
        .collect();
    let last = taken == looks.len();
    let rules = Rules {
        alpha: plan.alpha,
        looks,
        period_ns: plan.period_ns,
        tolerance_median: tolerance.median,
        tolerance_tail: tolerance.tail,
        floor_ns: tolerance.floor_ns,
    };
    decision::look(&pairs, &rules, last)
}

#[test]
fn open_gate_suggests_pairs() {
    // The levels of the sides alternate with different periods: too noisy for 24 pairs.
    let gate =
        Gate::scripted(&SCRIPTS, &late_by(&[10_000, 90_000], &[10_000, 10_000, 90_000, 90_000]))
            .exits(0);
    let verdict = gate.verdict();
    assert_eq!((verdict.verdict, verdict.reason), (Outcome::Inconclusive, Some(Reason::TooNoisy)));
    let pairs = verdict.comparisons[0].metrics.iter().filter_map(|m| m.pairs_to_decide).max();
    let says = format!("--max-pairs {}", pairs.expect("a number of pairs that would decide it"));
    let stdout = one_line(&gate.ran.stdout);
    assert!(stdout.contains(&says) && stdout.contains("s) would probably decide it"), "{stdout}");
    assert!(
        stdout.contains("p50 +0.0 % (-66.7 % to +200.0 %) may or may not exceed +20.0 %"),
        "{stdout}"
    );
    // Each sentence is printed once.
    assert_eq!(stdout.matches("may or may not exceed +20.0 %").count(), 1, "{stdout}");
    assert_eq!(gate.ran.stderr.matches("verdict: ").count(), 0, "{}", gate.ran.stderr);
    assert!(gate.ran.stdout.lines().all(|line| line.chars().count() <= 100), "{}", gate.ran.stdout);
}

#[test]
fn stalled_gate_suggests_a_quieter_machine() {
    let stalls = Gate::scripted(&SCRIPTS, &stalled());
    let stdout = one_line(&stalls.ran.stdout);
    for says in [
        "stalls raise p50 of both sides by 25000 %, and could hide a rise of +20.0 %",
        "no number of pairs would decide it here: a quieter machine or CPU would, or a wider --tolerance p50=…%",
        "0.0 % of the ticks belong to a stall already counted; stalls raise p50 by 25000 % and p90 by 25000 %",
    ] {
        assert!(stdout.contains(says), "{says}: {stdout}");
    }
}

#[test]
fn contradicting_medians_are_explained() {
    // B is twice as late in three of four pairs, but both sides have the same median.
    let gate = Gate::scripted(
        &SCRIPTS,
        &late_by(&[10_000, 20_000, 40_000, 80_000], &[20_000, 40_000, 80_000, 10_000]),
    );
    let pair = &gate.verdict().comparisons[0];
    let p50 = &pair.metrics[0];
    let medians = p50.b_ns as f64 / p50.a_ns as f64;
    assert!((p50.judged.ratio.unwrap() - medians).abs() > 0.01, "{p50:?}");
    let stdout = one_line(&gate.ran.stdout);
    let says = format!(
        "The change of p50 is the typical change within a pair; the medians of the sides differ by {:+.1} %.",
        (medians - 1.0) * 100.0
    );
    assert!(
        stdout.contains(&says)
            && stdout.contains("p90 is judged by the quieter half of the pairs, 12 of 24."),
        "{stdout}"
    );
    let agrees = Gate::scripted(&SCRIPTS, &late_by(&[20_000], &[25_000]));
    assert!(!agrees.ran.stdout.contains("medians of the sides"), "{}", agrees.ran.stdout);
}

#[test]
fn incomplete_gate_never_passes() {
    let mut interrupted = late_by(&[20_000], &[20_000]);
    interrupted["scripted-b"]["interrupt_at_round"] = 5.into();
    let mut failing = late_by(&[20_000], &[20_000]);
    failing["scripted-b"]["fail"] = json!({"round": 5, "reason": "no timer left"});
    for (scripts, reason, failure) in [
        (interrupted, Reason::Interrupted, None),
        (failing, Reason::NotMeasured, Some("scripted-b@1ms/current-thread: no timer left")),
    ] {
        let gate =
            Gate::scripted(&[&SCRIPTS[..], &["--period", "2ms"]].concat(), &scripts).exits(4);
        let verdict = gate.verdict();
        assert_eq!((verdict.partial, verdict.verdict), (true, Outcome::Inconclusive));
        assert_eq!(
            (verdict.reason, verdict.failure.as_deref().map(|f| f.replace("2ms", "1ms"))),
            (Some(reason), failure.map(str::to_owned))
        );
        let [pair] = verdict.comparisons.as_slice() else {
            panic!("a test that did not start has no verdict")
        };
        assert_eq!((pair.pairs, pair.reason), (5, Some(reason)));
        assert!(
            pair.metrics
                .iter()
                .all(|m| (m.judged.verdict, m.judged.reason)
                    == (Outcome::Inconclusive, Some(reason)))
        );
        assert_eq!(pair.metrics.len(), 2, "the pairs so far are shown");
    }
}

#[test]
fn empty_round_drops_its_pair() {
    let mut late_ns = [20_000; 100];
    late_ns[3] = 777_000;
    let mut script = late_by(&late_ns, &[20_000]);
    script["scripted-b"]["no_tick_in_round"] = 3.into();
    let gate = Gate::scripted(&SCRIPTS, &script).exits(0);
    let verdict = gate.verdict();
    let [warning] = &verdict.warnings[..] else { panic!("{}", gate.ran.stdout) };
    assert_eq!(
        (verdict.verdict, verdict.comparisons[0].pairs, verdict.partial),
        (Outcome::Pass, 24, false)
    );
    assert!(warning.code == "no-tick", "{warning:?}");
    assert!(warning.message.starts_with("1 pair of rounds left out"), "{warning:?}");
    let side = &verdict.comparisons[0].sides[0];
    let max = side.lateness_ns.as_ref().map(|lateness_ns| lateness_ns.max);
    assert_eq!(max, Some(20_000), "the ticks of the left-out pair are in no number");
}

/// A side that is too early has lower percentiles than one that is on time.
#[test]
fn early_sides_are_not_judged() {
    for (a, b, early) in [
        (20_000, -10_000, &["scripted-b@1ms/current-thread was early for 100 % of its ticks"][..]),
        (-10_000, 20_000, &["scripted@1ms/current-thread was early for 100 % of its ticks"]),
        (20_000, 0, &[]),
    ] {
        let (outcome, reason) = match early {
            [] => (Outcome::Improved, None),
            _ => (Outcome::Inconclusive, Some(Reason::EarlyTicks)),
        };
        let gate = Gate::scripted(&SCRIPTS, &late_by(&[a], &[b]));
        assert_eq!((gate.verdict().verdict, gate.verdict().reason), (outcome, reason));
        let warnings = &gate.verdict().warnings;
        assert_eq!(warnings.len(), early.len(), "{warnings:?}");
        for (warning, early) in warnings.iter().zip(early) {
            assert_eq!(warning.code, "early-ticks");
            assert!(warning.message.starts_with(early), "{warning:?}");
            assert!(gate.ran.stdout.contains(early), "{}", gate.ran.stdout);
        }
    }
}

#[test]
fn lost_ticks_are_not_judged() {
    let judge = |a_ns: i64, b_ns: i64, losing: &[&str]| {
        let mut script = late_by(&[a_ns], &[b_ns]);
        for side in losing {
            script[side]["skipped"] =
                (0..40).filter(|tick| tick % 4 != 0).collect::<Vec<u64>>().into();
        }
        Gate::scripted(&SCRIPTS, &script)
    };
    let lost = judge(20_000, 5_000, &["scripted-b"]);
    let verdict = lost.verdict();
    let open = (Outcome::Inconclusive, Some(Reason::LostTicks));
    assert_eq!((verdict.verdict, verdict.reason), open, "{}", lost.ran.stdout);
    let [warning] = &verdict.warnings[..] else { panic!("{}", lost.ran.stdout) };
    assert_eq!(warning.code, "lost-ticks");
    assert!(
        warning.message.starts_with("scripted-b@1ms/current-thread never delivered 7"),
        "{warning:?}"
    );
    // True percentiles would be even higher.
    assert_eq!(judge(20_000, 90_000, &["scripted-b"]).verdict().verdict, Outcome::Regressed);
    assert_eq!(judge(20_000, 90_000, &["scripted"]).verdict().verdict, Outcome::Inconclusive);
    assert_eq!(judge(20_000, 5_000, &["scripted"]).verdict().verdict, Outcome::Improved);
    assert_eq!(judge(20_000, 20_000, &["scripted", "scripted-b"]).verdict().verdict, Outcome::Pass);
}

/// Pairs without a tick on a side are left out, but not only the machine can cause them.
#[test]
fn lost_rounds_are_not_judged() {
    // Noisy rounds, which decide nothing before many others follow.
    let mut levels = [[20_000; 800]; 2];
    for round in 0..66 {
        levels[round % 2][round] = 80_000;
    }
    let mut script = late_by(&levels[0], &levels[1]);
    let rounds = ["--period", "1ms", "--round-ticks", "40", "--warmup", "3"];
    let judge = |script: &Value| {
        let gate = super::gate(&[&SCRIPTS[..], &rounds].concat()).script(script);
        let gate = Gate::from_ran(gate.run()).exits(0);
        let codes = gate.verdict().warnings.iter().map(|warning| warning.code.clone());
        (gate.verdict().verdict, gate.verdict().reason, codes.collect::<Vec<_>>().join(" "))
    };
    assert_eq!(judge(&script), (Outcome::Pass, None, String::new()));
    script["scripted-b"]["no_tick_in_every"] = 11.into();
    let codes = "lost-ticks no-tick".to_owned();
    assert_eq!(judge(&script), (Outcome::Inconclusive, Some(Reason::LostTicks), codes));
}

/// A stall counts once, however many ticks it delays.
#[test]
fn stalls_of_a_side_are_open() {
    let round = |level_ns: i64, backlog: i64| -> Vec<i64> {
        let late_ns = |tick: i64| level_ns.max((5 + backlog - tick) * 1_000_000);
        (0..40).map(|tick| if tick < 5 { level_ns } else { late_ns(tick) }).collect()
    };
    let judge = |a: &[Vec<i64>], b: &[Vec<i64>]| {
        let script = json!({"scripted": {"lateness_ns": a}, "scripted-b": {"lateness_ns": b}});
        Gate::scripted(&SCRIPTS, &script)
    };
    let quiet = &[round(20_000, 0)][..];
    let open = judge(quiet, &[round(20_000, 20)]);
    let verdict = open.verdict();
    let found = (verdict.verdict, verdict.reason);
    let expected = (Outcome::Inconclusive, Some(Reason::UnequalStalls));
    assert_eq!(found, expected, "{}", open.ran.stdout);
    let [warning] = &verdict.warnings[..] else { panic!("{}", open.ran.stdout) };
    assert_eq!(warning.code, "unequal-stalls");
    let share = "50.0 % of the ticks of scripted-b@1ms/current-thread came late in a stall";
    assert!(warning.message.starts_with(share), "{warning:?}");
    // All of its ticks would be even later.
    let later = judge(quiet, &[round(90_000, 20)]);
    assert_eq!(later.verdict().verdict, Outcome::Regressed, "{}", later.ran.stdout);
    // Stalls of both sides are stalls of the machine.
    let both = [round(20_000, 20), round(20_000, 0)];
    assert_eq!(judge(&both, &both).verdict().verdict, Outcome::Pass);
}

#[test]
fn side_without_ticks_fails() {
    let mut script = late_by(&[20_000], &[20_000]);
    script["scripted-b"]["skipped"] = (0..40).collect::<Vec<u64>>().into();
    let gate = Gate::scripted(&SCRIPTS, &script).exits(4);
    let failure = gate.verdict().failure.as_deref();
    assert!(
        failure.is_some_and(|f| f.contains("scripted-b") && f.contains("delivered no tick")),
        "{failure:?}"
    );
}

#[test]
fn subjects_are_paired() {
    let subjects = [
        "--a", "nanosleep", "--b", "nanosleep", "--tolerance", "p50=900%", "--tolerance",
        "p90=900%",
    ];
    let gate = Gate::quick(&[&subjects[..], &["--format", "junit", "--seed", "7"]].concat());
    let verdict = gate.verdict();
    let [pair] = verdict.comparisons.as_slice() else { panic!("{}", gate.ran.stdout) };
    assert_eq!((pair.pairs, pair.plan.seed, pair.plan.round_ticks), (24, 7, 40));
    assert_eq!((pair.a.as_str(), pair.b.as_str()), ("nanosleep@1ms", "nanosleep@1ms#2"));
    assert_eq!(metrics(verdict), ["p50", "p90"], "40 ticks are too few for p99");
    assert!(gate.ran.stderr.contains("judged by p90 instead of p99"), "{}", gate.ran.stderr);
    if cfg!(target_os = "linux") {
        assert!(pair.plan.cpu.is_some(), "subjects are bound to one CPU");
        assert_eq!(verdict.host.affinity.as_ref().map(Vec::len), Some(1));
    }
    let junit = &gate.ran.stdout;
    assert!(junit.contains("<testsuite") && junit.contains("tests=\"2\""), "{junit}");
}

fn metrics(verdict: &Verdict) -> Vec<&str> {
    verdict.comparisons.iter().flat_map(|c| c.metrics.iter().map(|m| m.name.as_str())).collect()
}

#[test]
fn comparisons_share_alpha() {
    let two = ["--a", "nanosleep", "--b", "nanosleep", "--period", "200us", "--period", "100us"];
    let short =
        ["--round-ticks", "110", "--warmup", "3", "--max-rounds", "24", "--tolerance", "p95=900%"];
    let gate = Gate::run(&[two, short].concat());
    let verdict = gate.verdict();
    let plans: Vec<(u64, f64)> =
        verdict.comparisons.iter().map(|c| (c.plan.period_ns, c.plan.alpha)).collect();
    assert_eq!(plans, [(200_000, 0.0025), (100_000, 0.0025)]);
    assert_eq!(
        verdict.comparisons[0].plan.seed, verdict.comparisons[1].plan.seed,
        "--seed repeats the whole gate"
    );
    assert_eq!(metrics(verdict), ["p50", "p95", "p50", "p95"], "110 ticks are enough for p95");
}

#[test]
fn bad_usage_is_rejected() {
    let both = |extra: &[&'static str]| [&["--a", "nanosleep", "--b", "spin"], extra].concat();
    for (args, says) in [
        (vec!["--a", "nanosleep"], "--b"),
        (vec!["--a", "nanosleep", "--b", "no-such"], "'--b <SUBJECT>': unknown subject"),
        (both(&["--b", "nanosleep"]), "as many of each"),
        (both(&["--tolerance", "p90=50%"]), "not by p90"),
        (
            vec![
                "--base-cmd", "true", "--candidate-cmd", "true", "--period", "1ms", "--period",
                "2ms",
            ],
            "once",
        ),
        (vec![], "--a and --b"),
        (vec!["--duet"], "--a"),
        (vec!["--duet", "--base-cmd", "true", "--candidate-cmd", "true"], "--a"),
        (vec!["--a", "tokio-*", "--b", "nanosleep"], "several subjects"),
        (vec!["--base-cmd", "true"], "--candidate-cmd"),
        (vec!["--base-cmd", "'open", "--candidate-cmd", "true"], "'--base-cmd <CMD>': the command"),
        (vec!["--base-cmd", "'open", "--candidate-cmd", "true"], "open quote"),
        (both(&["--tolerance", "p50=20"]), "'--tolerance <[NAME=]PERCENT>': invalid tolerance"),
        (both(&["--floor", "1"]), "'--floor <DURATION>'"),
        (both(&["--max-time", "1s"]), "first look"),
        (both(&["--max-time", "1"]), "'--max-time <DURATION>'"),
        (both(&["--round-time-limit", "1"]), "'--max-round-time <DURATION>'"),
        (both(&["--max-pairs", "5"]), "24"),
        (both(&["--period", "500"]), "no unit"),
        (both(&["--runtime", "async-std"]), "'--runtime <KIND>': unknown runtime"),
        (both(&["--cpu", "99999"]), "CPU 99999"),
        (both(&["--subject", "spin"]), "--baseline"),
        (both(&["--max-round-time", "1s"]), "--candidate-cmd"),
        (both(&["--min-run-time", "1s"]), "--metric"),
        (both(&["--warmup-runs", "2"]), "--metric"),
        (vec!["--limit", "p99=1s", "--subject", "spin", "--calibration", "x.json"], "--a"),
        (vec!["--baseline", "x.json", "--calibration", "x.json"], "--a"),
    ] {
        Gate::run(&args).refuses(says);
    }
}

#[cfg(unix)]
#[test]
fn interrupt_leaves_a_partial_verdict() {
    let args = ["--a", "nanosleep", "--b", "nanosleep", "--period", "1ms", "--period", "2ms"];
    let has_pairs = |ran: &Ran| super::read(&ran.file("verdict.json")).comparisons[0].pairs > 0;
    let gate =
        Gate::from_ran(interrupt_while_measuring(|| super::gate(&args), "gate: ", has_pairs))
            .exits(4);
    let verdict = gate.verdict();
    assert!(
        verdict.partial && verdict.verdict == Outcome::Inconclusive && verdict.failure.is_none()
    );
    assert_eq!(
        (verdict.reason, verdict.comparisons[0].reason),
        (Some(Reason::Interrupted), Some(Reason::Interrupted))
    );
    assert_eq!(verdict.comparisons.len(), 1, "a test that did not start has no verdict");
    assert!(verdict.comparisons[0].metrics.iter().all(|m| m.judged.is_inconclusive()));
}
