//! `osjitter bench clock`.

use super::{assert_same_pictures, assert_usage_errors, list, parse_valid, show, text};
use crate::osjitter::Osjitter;

fn bench(arguments: &[&str]) -> Osjitter {
    Osjitter::new(["bench", "clock", "--quiet", "--order-reads", "20000", "--drift", "2ms"])
        .args(arguments)
}

#[test]
fn outputs_contain_same_clocks() {
    let ran = bench(&["--threads", "1", "--threads", "2"]).out("").run().exits(0);
    assert!(ran.stderr.is_empty(), "{}", ran.stderr);
    let table = &ran.stdout;
    let (file, written) = (ran.path("clock.json"), ran.file("clock.json"));
    assert_eq!(
        (show(&file, &[]), show(&file, &["--format", "json"])),
        (table.clone(), written.clone())
    );
    assert!(show(&file, &["--format", "markdown"]).contains("| clock |"));
    assert_same_pictures(&file);
    let json = parse_valid(&written);
    let svg = ran.file("clock.svg");
    assert_eq!((text(&json["schema"]), text(&json["bench"])), ("osjitter.bench/1", "clock"));
    let costs = list(&json["costs"]);
    assert!(costs.len() >= 10, "expected at least five clocks, each with one and two threads");
    for cost in costs {
        let clock = text(&cost["clock"]);
        assert!(table.contains(clock) && svg.contains(clock), "{clock}");
        assert!(cost["median_ns"].as_f64().unwrap() > 0.0, "{cost}");
    }
    let elapsed: Vec<_> =
        list(&json["elapsed"]).iter().map(|e| (text(&e["age"]), text(&e["clock"]))).collect();
    for age in ["now", "now-elapsed", "1us", "2ms", "process"] {
        assert!(
            ["tach-instant", "std"].iter().all(|&clock| elapsed.contains(&(age, clock))),
            "{age}: {elapsed:?}"
        );
        assert!(table.contains(&format!("\n{age} ")), "{table}");
    }
    for order in list(&json["order"]) {
        let strict = order["clock"] != "tach-instant" && order["clock"] != "tach-ordered";
        assert!(!strict || order["violations"] == 0, "{order}");
    }
    assert_eq!(json["absurd"]["absurd"], 0);
    assert!(json["drift"][0]["span_ns"].as_u64().unwrap() >= 2_000_000);
}

#[test]
fn formats_are_printed_to_stdout() {
    let json = bench(&["--threads", "1", "--format", "json", "--load"]).run().exits(0);
    assert_eq!(parse_valid(&json.stdout)["drift"][0]["loaded"], true);
    for (format, start) in [("markdown", "### Clocks"), ("svg", "<svg")] {
        let ran = bench(&["--threads", "1", "--format", format]).run().exits(0);
        assert!(ran.stderr.is_empty() && ran.stdout.starts_with(start), "{format}: {}", ran.stdout);
    }
}

#[test]
fn invalid_arguments_exit_with_2() {
    assert_usage_errors(
        "clock",
        &[
            (&["--threads", "0"], "--threads"),
            (&["--drift", "soon"], "--drift"),
            (&["--drift", "0s"], "outside 1ms to 86400s"),
            (&["--order-reads", "0"], "--order-reads"),
            (&["--format", "png"], "markdown"),
            (&["--out", "/dev/null/there"], "cannot write"),
        ],
    );
}
