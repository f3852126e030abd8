//! `osjitter bench dispatch` from outside: what it writes, that it adds up, and what it refuses.

use std::process::{Command, Output};

use jitterstat::bench::cost::Verdict;
use jitterstat::bench::dispatch::Report;
use jitterstat::file::File as _;

use super::{again, same_pictures, text};

fn bench(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_osjitter"))
        .args(["bench", "dispatch"])
        .args(args)
        .output()
        .expect("the binary runs")
}

#[test]
fn every_operation_is_measured_and_the_report_is_valid() {
    let out = tempfile::tempdir().unwrap();
    let path = out.path().to_str().unwrap();
    let output = bench(&["--quick", "--rounds", "6", "--round-time", "1ms", "--seed", "7", "--out", path]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("6 rounds: about"), "{}", text(&output.stderr));
    let json = std::fs::read_to_string(out.path().join("dispatch.json")).unwrap();
    let schema = Report::json_schema();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let value: serde_json::Value = serde_json::from_str(&json).unwrap();
    let errors: Vec<String> = validator.iter_errors(&value).map(|e| e.to_string()).collect();
    assert!(errors.is_empty(), "{errors:?}");

    let report = Report::from_json(&json).unwrap();
    assert!(!report.partial && report.plan.seed == 7 && report.plan.rounds == 6);
    assert!(report.clock.rate_hz > 1e6 && report.clock.ns_per_read > 0.0);
    let (table, markdown) = (text(&output.stdout), std::fs::read_to_string(out.path().join("dispatch.md")).unwrap());
    let picture = std::fs::read_to_string(out.path().join("dispatch.svg")).unwrap();
    let file = out.path().join("dispatch.json");
    assert_eq!((again(&file, &[]), again(&file, &["--format", "markdown"])), (table.clone(), markdown.clone()));
    assert_eq!(again(&file, &["--format", "json"]), json);
    same_pictures(&file);
    let listed = text(&bench(&["--list"]).stdout);
    for operation in &report.operations {
        let name = operation.name.as_str();
        assert!(listed.lines().any(|l| l.starts_with(&format!("{name} "))), "{name}: {listed}");
        assert!(table.contains(name) && markdown.contains(&format!("| {name} |")) && picture.contains(name), "{name}");
        assert_eq!(operation.results.len() + operation.not_measured.len(), 2, "{name}");
        assert_eq!(operation.results[0].runtime, "busypoll", "{name}");
        for result in &operation.results {
            assert_eq!(result.rounds.len(), 6, "{name}");
            let per_round = result.ns.batches / 6;
            // Events are as many as there is time for.
            assert!(if operation.by_event { per_round >= 6 } else { per_round == report.plan.batches }, "{name}");
            let (c, cycles) = (&result.ns, result.cycles.as_ref());
            assert!(0.0 < c.min && c.min <= c.p50 && c.p50 <= c.max, "{name}: {c:?}");
            let rate = cycles.map(|cycles| cycles.p50 / c.p50 * 1e9);
            assert!(rate.is_none_or(|hz| (hz / report.clock.rate_hz - 1.0).abs() < 0.01), "{name}: {rate:?}");
            let compared = result.to_tokio.as_ref();
            assert_eq!(compared.is_some(), result.runtime != "tokio" && operation.results.len() == 2, "{name}");
            assert!(compared.is_none_or(|o| o.verdict != Verdict::TooFewRounds), "{name}");
        }
    }
    assert_eq!(report.operations.len(), listed.lines().filter(|l| !l.starts_with(' ')).count());
}

#[test]
fn each_format_goes_to_standard_output_alone() {
    let quick = ["--quick", "--rounds", "1", "--round-time", "1ms", "--operation", "channel-*", "--quiet"];
    for (format, starts) in [
        ("json", "{\"schema\":\"osjitter.bench/1\""),
        ("markdown", "### Dispatch"),
        ("svg", "<svg"),
        ("table", "busypoll"),
    ] {
        let output = bench(&[&quick[..], &["--format", format]].concat());
        assert!(output.status.success() && output.stderr.is_empty(), "{format}: {}", text(&output.stderr));
        let said = text(&output.stdout);
        assert!(said.starts_with(starts) && said.contains("channel-spsc") && !said.contains("self-wake"), "{said}");
    }
}

#[test]
fn what_cannot_be_exits_2_and_says_why() {
    for (args, says) in [
        (&["--operation", "teleport"][..], "there are dispatch, self-wake"),
        (&["--rounds", "0"], "0 rounds"),
        (&["--rounds", "10001"], "10000"),
        (&["--round-time", "1us"], "round time"),
        (&["--round-time", "11s"], "outside 1ms to 10s"),
        (&["--round-time", "-1ms"], "negative"),
        (&["--rounds", "10000", "--round-time", "10s"], "hours"),
        (&["--format", "png"], "markdown"),
        (&["--out", "/dev/null/there"], "cannot write"),
    ] {
        let output = bench(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(output.stdout.is_empty(), "{args:?}");
        assert!(text(&output.stderr).contains(says), "{args:?}: {}", text(&output.stderr));
    }
}

#[cfg(unix)]
#[test]
fn an_interrupt_writes_what_was_measured_and_exits_4() {
    let out = tempfile::tempdir().unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_osjitter"))
        .args(["bench", "dispatch", "--operation", "self-wake", "--rounds", "10000", "--quiet", "--out"])
        .arg(out.path())
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    #[allow(clippy::disallowed_methods, reason = "some rounds should be over before the interrupt")]
    std::thread::sleep(std::time::Duration::from_millis(1_500));
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(4));
    let report = Report::from_json(&std::fs::read_to_string(out.path().join("dispatch.json")).unwrap()).unwrap();
    assert!(report.partial && report.operations[0].results.iter().all(|r| r.rounds.len() < 10_000));
}
