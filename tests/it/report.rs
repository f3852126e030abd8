//! `osjitter report` from outside: everything comes again from the JSON alone.

use std::path::Path;
use std::process::{Command, Output};

fn osjitter(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_osjitter")).args(args).output().expect("the binary runs")
}

fn run_into(directory: &Path, more: &[&str]) -> Output {
    let mut args = vec!["run", "--subject", "os-interval", "--subject", "nanosleep", "--ticks", "100", "--out"];
    args.push(directory.to_str().unwrap());
    args.extend(more);
    osjitter(&args)
}

#[test]
fn table_and_pictures_come_again_from_the_report() {
    for more in [&[][..], &["--no-samples"][..]] {
        let home = tempfile::tempdir().unwrap();
        let directory = home.path().join("run");
        let run = run_into(&directory, more);
        let report = directory.join("report.json");
        let table = osjitter(&["report", report.to_str().unwrap()]);
        assert_eq!(run.stdout, table.stdout);
        let again = home.path().join("again");
        let made = osjitter(&["report", report.to_str().unwrap(), "--format", "svg", "--out", again.to_str().unwrap()]);
        assert!(made.status.success());
        let pictures: Vec<_> = std::fs::read_dir(&again).unwrap().map(|f| f.unwrap().file_name()).collect();
        assert!(pictures.len() >= 4, "{pictures:?}");
        for name in pictures {
            let [first, second] = [&directory, &again].map(|d| std::fs::read_to_string(d.join(&name)).unwrap());
            assert_eq!(first, second, "{name:?}");
            assert!(first.starts_with("<svg") && first.trim_end().ends_with("</svg>"));
        }
    }
}

#[test]
fn what_is_no_report_is_refused_with_the_reason() {
    let home = tempfile::tempdir().unwrap();
    for (text, says) in [
        ("", "not a report: EOF"),
        ("{\"schema\": \"osjitter.report/1\"", "EOF while parsing an object at line 1 column 30"),
        ("{\"schema\": \"osjitter.report/2\"}", "schema \"osjitter.report/2\" is not known"),
        ("{\"schema\": \"osjitter.report/1\", \"tool\": 3}", "expected struct Tool at line 1 column"),
        ("[1, 2]", "not a report"),
    ] {
        let file = home.path().join("with space.json");
        std::fs::write(&file, text).unwrap();
        let output = osjitter(&["report", file.to_str().unwrap()]);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{text}: {stderr}");
        assert!(stderr.contains(says) && stderr.contains("with space.json"), "{text}: {stderr}");
        assert!(output.stdout.is_empty());
    }
    let output = osjitter(&["report", "no-such-file.json"]);
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn the_file_of_a_bench_is_refused_where_there_is_no_such_view_of_it() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("bench.json");
    for (text, more, says) in [
        (r#"{"schema":"osjitter.bench/1","bench":"weight"}"#, "table", "the bench weight is not known"),
        (r#"{"schema":"osjitter.bench/1"}"#, "table", "the bench without a name is not known"),
        (r#"{"schema":"osjitter.bench/1","bench":"clock"}"#, "table", "not a valid osjitter.bench/1: missing field"),
        (r#"{"schema":"osjitter.bench/1","bench":"timeout""#, "table", "EOF while parsing"),
    ] {
        std::fs::write(&file, text).unwrap();
        let output = osjitter(&["report", file.to_str().unwrap(), "--format", more]);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{text}: {stderr}");
        assert!(stderr.contains(says) && stderr.contains("bench.json") && output.stdout.is_empty(), "{text}: {stderr}");
    }
    let fixture = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/report.json");
    let output = osjitter(&["report", fixture, "--reference"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("bench timeout"));
}
