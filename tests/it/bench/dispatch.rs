//! `osjitter bench dispatch`.

use super::{assert_same_pictures, assert_usage_errors, list, parse_valid, show, text};
use crate::osjitter::Osjitter;

fn bench(args: &[&str]) -> Osjitter {
    Osjitter::new(["bench", "dispatch"]).args(args)
}

#[test]
fn report_contains_every_operation() {
    let ran = bench(&["--quick", "--rounds", "6", "--round-time", "1ms", "--seed", "7"])
        .out("")
        .run()
        .exits(0);
    assert!(ran.stderr.contains("6 rounds: about"), "{}", ran.stderr);
    let (file, json) = (ran.path("dispatch.json"), ran.file("dispatch.json"));
    let report = parse_valid(&json);
    assert!(
        report["partial"] == false && report["plan"]["seed"] == 7 && report["plan"]["rounds"] == 6
    );
    let rate_hz = report["clock"]["rate_hz"].as_f64().unwrap();
    assert!(rate_hz > 1e6 && report["clock"]["ns_per_read"].as_f64().unwrap() > 0.0);
    let (table, markdown, picture) =
        (&ran.stdout, ran.file("dispatch.md"), ran.file("dispatch.svg"));
    assert_eq!(
        (show(&file, &[]), show(&file, &["--format", "markdown"])),
        (table.clone(), markdown.clone())
    );
    assert_eq!(show(&file, &["--format", "json"]), json);
    assert_same_pictures(&file);
    let listed = bench(&["--list"]).run().exits(0).stdout;
    let operations = list(&report["operations"]);
    for operation in operations {
        let (name, results) = (text(&operation["name"]), list(&operation["results"]));
        assert!(listed.lines().any(|l| l.starts_with(&format!("{name} "))), "{name}: {listed}");
        assert!(table.contains(name), "{name}");
        assert!(markdown.contains(&format!("| {name} |")), "{name}");
        assert!(picture.contains(name), "{name}");
        assert_eq!(results.len() + list(&operation["not_measured"]).len(), 2, "{name}");
        assert_eq!(results[0]["runtime"], "busypoll", "{name}");
        for result in results {
            assert_eq!(list(&result["rounds"]).len(), 6, "{name}");
            let per_round = result["ns"]["batches"].as_u64().unwrap() / 6;
            // The number of events depends on the time that they need.
            let is_complete = if operation["by_event"] == true {
                per_round >= 6
            } else {
                report["plan"]["batches"] == per_round
            };
            assert!(is_complete, "{name}");
            let ns = |key: &str| result["ns"][key].as_f64().unwrap();
            assert!(0.0 < ns("min"), "{name}: {result}");
            assert!(ns("min") <= ns("p50"), "{name}: {result}");
            assert!(ns("p50") <= ns("max"), "{name}: {result}");
            let rate = result["cycles"]["p50"].as_f64().map(|cycles| cycles / ns("p50") * 1e9);
            assert!(rate.is_none_or(|hz| (hz / rate_hz - 1.0).abs() < 0.01), "{name}: {rate:?}");
            let compared = &result["to_tokio"];
            assert_eq!(
                compared.is_object(),
                result["runtime"] != "tokio" && results.len() == 2,
                "{name}"
            );
            assert_ne!(compared["verdict"], "too-few-rounds", "{name}");
        }
    }
    assert_eq!(operations.len(), listed.lines().filter(|l| !l.starts_with(' ')).count());
}

#[test]
fn formats_are_printed_to_stdout() {
    let quick =
        ["--quick", "--rounds", "1", "--round-time", "1ms", "--operation", "channel-*", "--quiet"];
    for (format, start) in [
        ("json", "{\"schema\":\"osjitter.bench/1\""),
        ("markdown", "### Dispatch"),
        ("svg", "<svg"),
        ("table", "Dispatch\nbusypoll"),
    ] {
        let ran = bench(&quick).args(["--format", format]).run().exits(0);
        assert!(ran.stderr.is_empty(), "{format}: {}", ran.stderr);
        let stdout = ran.stdout;
        assert!(stdout.starts_with(start), "{stdout}");
        assert!(stdout.contains("channel-spsc"), "{stdout}");
        assert!(!stdout.contains("self-wake"), "{stdout}");
    }
}

#[test]
fn invalid_arguments_exit_with_2() {
    assert_usage_errors(
        "dispatch",
        &[
            (&["--operation", "teleport"], "there are dispatch, self-wake"),
            (&["--rounds", "0"], "0 is outside 1 to 10000"),
            (&["--rounds", "10001"], "10000"),
            (&["--round-time", "1us"], "round time"),
            (&["--round-time", "11s"], "outside 1ms to 10s"),
            (&["--round-time", "-1ms"], "negative"),
            (&["--rounds", "10000", "--round-time", "10s"], "hours"),
            (&["--format", "png"], "markdown"),
            (&["--list", "--format", "json"], "cannot be used with"),
            (&["--list", "--out", "x"], "cannot be used with"),
            (&["--out", "/dev/null/there"], "cannot write"),
        ],
    );
}

#[cfg(unix)]
#[test]
fn interrupt_leaves_partial_report() {
    let ran =
        bench(&["--operation", "self-wake", "--rounds", "10000", "--round-time", "1ms"]).out("");
    let report = parse_valid(&ran.interrupt_at("rounds: about").exits(4).file("dispatch.json"));
    let results = list(&report["operations"][0]["results"]);
    assert!(report["partial"] == true && results.iter().all(|r| list(&r["rounds"]).len() < 10_000));
}
