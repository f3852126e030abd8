//! Tests of metrics that the programs write.

use jitterstat::gate::decision::Outcome;

use super::{PAIRS, ScriptPair, runs, throughput_lines};
use crate::gate::Gate;

#[test]
fn metrics_are_judged_by_direction() {
    use Outcome::{Improved, Pass, Regressed};
    for (a, b, args, code, outcome) in [
        ("1000", "980", &[][..], 0, Pass),
        ("1000", "900", &[], 1, Regressed),
        ("1000", "1100", &[], 0, Improved),
        ("1000", "900", &["--tolerance", "throughput=15%"], 0, Pass),
        ("1000", "600", &["--tolerance", "throughput=15%"], 1, Regressed),
    ] {
        let sides = ScriptPair::from_lines(&throughput_lines(a), &throughput_lines(b));
        let gate = sides.gate(&[&["--metric", "throughput"], args].concat()).exits(code);
        let found = runs(&gate);
        let stdout = &gate.ran.stdout;
        let outcome_found = (found.verdict, found.reason, found.pairs);
        assert_eq!(outcome_found, (outcome, None, 24), "{a} {b}: {stdout}");
        let [metric] = &found.metrics[..] else { panic!("{stdout}") };
        assert_eq!((metric.unit.as_str(), metric.higher_is_better), ("req/s", true));
        let (a, b): (f64, f64) = (a.parse().unwrap(), b.parse().unwrap());
        assert_eq!(metric.values, vec![[a, b]; 24]);
        let is_near = |found: f64, expected: f64| (found / expected - 1.0).abs() < 1e-9;
        assert!(is_near(metric.a, a) && is_near(metric.b, b), "{metric:?}");
        assert!(is_near(metric.judged.ratio.unwrap(), b / a), "{metric:?}");
        assert!(stdout.contains("throughput") && stdout.contains("1000 req/s"), "{stdout}");
    }
}

#[test]
fn samples_are_judged_by_percentiles() {
    let side = |tail: u32| {
        let declared = "metric latency ns lower\\nmetric size bytes lower\\nsize 5000000\\n";
        let samples = "latency 1000000\\n".repeat(190) + &format!("latency {tail}\\n").repeat(10);
        format!("{declared}{samples}")
    };
    let sides = ScriptPair::from_lines(&side(5_000_000), &side(9_000_000));
    for format in ["table", "markdown", "junit"] {
        let metrics = ["--metric", "latency", "--metric", "size", "--metric", "latency:p90"];
        let gate = sides.gate(&[&metrics[..], &["--format", format]].concat()).exits(1);
        let found = runs(&gate);
        let names: Vec<(&str, Outcome)> =
            found.metrics.iter().map(|m| (m.name.as_str(), m.judged.verdict)).collect();
        let expected = [
            ("latency:p50", Outcome::Pass),
            ("latency:p99", Outcome::Regressed),
            ("size", Outcome::Pass),
            ("latency:p90", Outcome::Pass),
        ];
        assert_eq!((names.as_slice(), found.plan.alpha), (&expected[..], 0.005));
        let tolerated: Vec<f64> =
            found.metrics.iter().map(|m| (m.judged.tolerated_ratio * 1e3).round()).collect();
        assert_eq!(tolerated, [1_050.0, 1_200.0, 1_050.0, 1_200.0]);
        let says = match format {
            "junit" => "tests=\"4\" failures=\"1\"",
            "markdown" => "| latency:p99 | 5.00 ms | 9.00 ms | +80.0 % |",
            _ => "24 pairs of runs, 1 look",
        };
        assert!(gate.ran.stdout.contains(says), "{}", gate.ran.stdout);
    }
}

#[test]
fn sides_may_write_different_counts() {
    let side = |count: usize| format!("metric lat us lower\\n{}", "lat 9\\n".repeat(count));
    let sides = ScriptPair::from_lines(&side(100), &side(600));
    let gate = sides.gate(&["--metric", "lat"]).exits(0);
    let names: Vec<&str> = runs(&gate).metrics.iter().map(|m| m.name.as_str()).collect();
    // A tail that both sides have.
    assert_eq!(names, ["lat:p50", "lat:p95"]);
    assert!(runs(&gate).metrics.iter().all(|metric| metric.values.len() == 24));
}

#[test]
fn named_tolerances_hold_in_any_order() {
    let side = |value: &str| format!("metric lat u lower\\nlat {value}\\n");
    let sides = ScriptPair::from_lines(&side("100"), &side("120"));
    for tolerances in [["lat=10%", "50%"], ["50%", "lat=10%"]] {
        let [first, second] = tolerances;
        let args = ["--metric", "lat", "--tolerance", first, "--tolerance", second];
        let gate = sides.gate(&args).exits(1);
        let found = &runs(&gate).metrics[0].judged;
        assert_eq!(format!("{:.3}", found.tolerated_ratio), "1.100", "{tolerances:?}");
    }
    // A general tolerance can be one for the metrics that may rise alone.
    let lines = "metric lat u lower\\nmetric rate /s higher\\nlat 100\\nrate 100\\n";
    let metrics = ["--metric", "lat", "--metric", "rate"];
    let tolerances = ["--tolerance", "200%", "--tolerance", "rate=20%"];
    let sides = ScriptPair::from_lines(lines, lines);
    sides.gate(&[&metrics[..], &tolerances].concat()).exits(0);
}

#[test]
fn written_nanoseconds_have_no_floor() {
    let side = |value: u32| format!("metric lookup ns lower\\nlookup {value}\\n");
    let sides = ScriptPair::from_lines(&side(20), &side(24));
    let gate = sides.gate(&["--metric", "lookup"]).exits(1);
    assert_eq!(format!("{:.3}", runs(&gate).metrics[0].judged.tolerated_ratio), "1.050");
}

#[test]
fn floors_have_the_unit_of_times() {
    for (unit, base) in [("ns", 1e5), ("us", 1e2), ("\u{b5}s", 1e2), ("ms", 0.1), ("s", 1e-4)] {
        let side = |value: f64| format!("metric lat {unit} lower\\nlat {value}\\n");
        let sides = ScriptPair::from_lines(&side(base), &side(base * 1.2));
        sides.gate(&["--metric", "lat", "--floor", "50us"]).exits(0);
        sides.gate(&["--metric", "lat", "--floor", "10us"]).exits(1);
    }
    let size = "metric size bytes lower\\nsize 100\\nmetric rate s higher\\nrate 5\\n";
    let metrics = ["--metric", "size", "--metric", "rate"];
    let sides = ScriptPair::from_lines(size, size);
    let floor = |floor| [&metrics[..], &["--floor", floor]].concat();
    for (value, is_noted) in [("1ns", true), ("0ns", false)] {
        let gate = sides.gate(&floor(value)).exits(0);
        let says = "--floor has no effect: it applies to times in ns, us, ms or s";
        assert_eq!(gate.ran.stderr.contains(says), is_noted, "{}", gate.ran.stderr);
    }
    // A default of a project applies to the metrics that are times.
    let settings = sides.path("osjitter.toml");
    std::fs::write(&settings, "[gate]\nfloor = \"1ns\"\n").unwrap();
    let config = ["--config", settings.to_str().unwrap()];
    let gate = sides.gate(&[&metrics[..], &config].concat()).exits(0);
    assert!(!gate.ran.stderr.contains("--floor has no effect"), "{}", gate.ran.stderr);
}

#[test]
fn metrics_of_the_system_keep_names() {
    let side = |value: &str| format!("metric cpu percent lower\\ncpu {value}\\n");
    let sides = ScriptPair::from_lines(&side("10"), &side("90"));
    let says =
        "it declares the metric \"cpu\" in OSJITTER_OUT, and --metric cpu is that of the system";
    sides.refuses(&["--metric", "cpu"], says);
    let gate = sides.gate(&["--metric", "cpu:p50"]).exits(1);
    assert_eq!(runs(&gate).metrics[0].values[0], [10.0, 90.0]);
    // No other metric of the system is meant.
    sides.gate(&["--metric", "wall", "--tolerance", "9000%"]).exits(0);
}

/// Lines that a side writes, of which one declares the metric `x`.
const TIME: &str = "metric x ns lower\\nx 5\\n";
const TWO_TIMES: &str = "metric x ns lower\\nx 5\\nx 5\\n";
const RATE: &str = "metric x /s higher\\nx 5\\n";

#[test]
fn different_metrics_are_rejected() {
    for (candidate, says) in [
        ("", "it writes no metric \"x\""),
        ("metric x us lower\\nx 5\\n", "x in ns and x in us"),
        (TWO_TIMES, "different metrics"),
        (
            "metric x ns higher\\nx 5\\n",
            "different metrics: x in ns (lower is better) and x in ns (higher is better)",
        ),
        (
            "metric x ns lower\\n",
            "it declares the metric \"x\" in OSJITTER_OUT, and writes no value of it; nothing",
        ),
    ] {
        ScriptPair::from_lines(TIME, candidate).refuses(&["--metric", "x"], says);
    }
}

#[test]
fn unsuitable_metrics_are_rejected() {
    for (lines, args, says) in [
        (TIME, "--metric y", "it writes x"),
        (TIME, "--metric libtset", "did you mean libtest? it writes x"),
        (TIME, "--metric x:p98", "unknown percentile"),
        (TIME, "--metric x --metric x", "names a number twice; give each once"),
        (TWO_TIMES, "--metric x --metric x:p50", "--metric names x:p50 twice"),
        (TIME, "--metric x --allow-unjudged ^", "a part of a benchmark's name"),
        (
            TIME,
            "--metric x --tolerance x=5% --tolerance x=300%",
            "--tolerance is given twice for x",
        ),
        (
            TIME,
            "--metric x --tolerance p50=5%",
            "--tolerance names p50, which is not judged; choose from x",
        ),
        (RATE, "--metric x --tolerance x=100%", "more of x is better: it cannot fall by 100%"),
        (RATE, "--metric x --tolerance 200%", "more of x is better: it cannot fall by 200%"),
        (TIME, "--metric wall --min-run-time 1h", "starting the process is much of that"),
        #[cfg(target_os = "linux")]
        (TIME, "--metric max-rss", "MiB of osjitter itself"),
    ] {
        let pair = ScriptPair::from_lines(lines, lines);
        let args: Vec<&str> = args.split(' ').collect();
        Gate::from_ran(pair.command_line(&[&PAIRS, &args[..]].concat()).run()).refuses(says);
    }
    let spin = ["--a", "spin", "--b", "spin"];
    Gate::run(&[&spin[..], &["--metric", "wall"]].concat()).refuses("--candidate-cmd");
    let detect = ["--detect", "5%", "--detect", "9%", "--calibration", "calibration.json"];
    Gate::run(&[&spin[..], &detect].concat()).refuses("--detect is given twice for all numbers");
}
