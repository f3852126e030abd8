//! `osjitter bench clock` from outside.

use super::{again, list, refused, same_pictures, text, valid};
use crate::osjitter::Osjitter;

fn bench(arguments: &[&str]) -> Osjitter {
    Osjitter::new(["bench", "clock", "--quiet", "--order-reads", "20000", "--drift", "2ms"])
        .args(arguments)
}

#[test]
fn the_table_the_file_and_the_picture_tell_of_the_same_clocks() {
    let ran = bench(&["--threads", "1", "--threads", "2"]).out("").run().exits(0);
    assert!(ran.stderr.is_empty(), "{}", ran.stderr);
    let table = &ran.stdout;
    let (file, written) = (ran.path("clock.json"), ran.file("clock.json"));
    assert_eq!(
        (again(&file, &[]), again(&file, &["--format", "json"])),
        (table.clone(), written.clone())
    );
    assert!(again(&file, &["--format", "markdown"]).contains("| clock |"));
    same_pictures(&file);
    let json = valid(&written);
    let svg = ran.file("clock.svg");
    assert_eq!((text(&json["schema"]), text(&json["bench"])), ("osjitter.bench/1", "clock"));
    let costs = list(&json["costs"]);
    assert!(costs.len() >= 10, "five clocks at least, on one thread and on two");
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
    assert!(json["drift"][0]["span_ns"].as_u64().unwrap() >= 2_000_000, "never shorter than asked");
}

#[test]
fn each_format_goes_to_standard_output_alone() {
    let json = bench(&["--threads", "1", "--format", "json", "--load"]).run().exits(0);
    assert_eq!(valid(&json.stdout)["drift"][0]["loaded"], true);
    for (format, starts) in [("markdown", "### Clocks"), ("svg", "<svg")] {
        let ran = bench(&["--threads", "1", "--format", format]).run().exits(0);
        assert!(
            ran.stderr.is_empty() && ran.stdout.starts_with(starts),
            "{format}: {}",
            ran.stdout
        );
    }
}

#[test]
fn bad_usage_is_refused_before_anything_is_measured() {
    refused(
        "clock",
        &[
            (&["--threads", "0"], "--threads"),
            (&["--drift", "soon"], "--drift"),
            (&["--drift", "0s"], "at least 1ms"),
            (&["--order-reads", "0"], "--order-reads"),
            (&["--format", "png"], "markdown"),
            (&["--out", "/dev/null/there"], "cannot write"),
        ],
    );
}
