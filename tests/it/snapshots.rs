//! Snapshots of everything that people read: every help text and kind of table, the Markdown, and
//! the structure of every picture of fixed files.
//!
//! After an intended change, run `INSTA_UPDATE=always cargo test --test it` and review the
//! difference.

use std::path::Path;

use crate::osjitter::Osjitter;

/// Relative to the root of the package, where tests run: comparisons name their files.
const REPORT: &str = "tests/fixtures/report.json";

fn output<'a>(args: impl IntoIterator<Item = &'a str>, columns: &str) -> String {
    Osjitter::new(args).env("COLUMNS", columns).run().exits(0).stdout
}

/// Returns the name of a snapshot.
fn snapshot_name(what: &str, parts: &[&str]) -> String {
    [&[what], parts].concat().join("_")
}

/// Compares the help of a command and of its subcommands.
fn check_help(command: &[&str]) {
    let text = output(command.iter().copied().chain(["--help"]), "100");
    insta::assert_snapshot!(snapshot_name("help", command), text);
    let subcommands =
        text.split_once("Commands:\n").map_or("", |(_, rest)| rest.split("\n\n").next().unwrap());
    let subcommands =
        subcommands.lines().filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    for name in
        subcommands.filter_map(|line| line.split_whitespace().next()).filter(|name| *name != "help")
    {
        check_help(&[command, &[name]].concat());
    }
}

#[test]
fn every_help() {
    check_help(&[]);
}

#[test]
fn the_table() {
    insta::assert_snapshot!(output(["report", REPORT], "80"));
}

#[test]
fn the_table_at_other_widths() {
    for columns in ["60", "200"] {
        insta::assert_snapshot!(
            snapshot_name("the_table", &[columns]),
            output(["report", REPORT], columns)
        );
    }
}

#[test]
fn the_histogram() {
    insta::assert_snapshot!(output(["report", REPORT, "--histogram"], "80"));
}

#[test]
fn several_reports() {
    let files = ["tests/fixtures/cyclictest.json", "tests/fixtures/oslat.json"];
    insta::assert_snapshot!(output(["report"].into_iter().chain(files), "80"));
}

#[test]
fn the_markdown() {
    insta::assert_snapshot!(output(["report", REPORT, "--format", "markdown"], "80"));
}

#[test]
fn every_bench() {
    for (name, file) in [
        ("clock", "tests/fixtures/clock.json"),
        ("dispatch", "tests/fixtures/dispatch.json"),
        ("timeout", "tests/fixtures/timeout.json"),
    ] {
        for format in ["table", "markdown"] {
            let text = output(["report", file, "--format", format], "80");
            insta::assert_snapshot!(snapshot_name("bench", &[name, format]), text);
        }
    }
    let timeout = "tests/fixtures/timeout.json";
    insta::assert_snapshot!(
        "bench_timeout_reference",
        output(["report", timeout, "--reference"], "80")
    );
}

#[test]
fn a_comparison() {
    let [a, b] = ["#nanosleep", "#os-interval"].map(|id| format!("{REPORT}{id}"));
    for format in ["table", "markdown"] {
        let text = output(["compare", &a, &b, "--format", format], "80");
        insta::assert_snapshot!(snapshot_name("comparison", &[format]), text);
    }
}

#[test]
fn a_verdict_on_limits() {
    let limits = ["--limit", "p50=1ms", "--limit", "p50=20us", "--limit", "missed=0.1%"];
    for format in ["table", "markdown", "junit"] {
        let gate = Osjitter::new([
            "gate", "--report", REPORT, "--subject", "nanosleep", "--format", format,
        ]);
        let gate = gate.args(limits).env("COLUMNS", "80").out("").run().exits(1);
        // The duration of the judgement varies.
        let text = gate
            .stdout
            .split("time=\"")
            .map(|part| part.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.'));
        insta::assert_snapshot!(
            snapshot_name("verdict", &[format]),
            text.collect::<Vec<_>>().join("time=\"")
        );
    }
}

#[test]
fn a_verdict_on_two_sides() {
    for format in ["table", "markdown", "junit"] {
        let text = output(["report", "tests/fixtures/verdict.json", "--format", format], "80");
        insta::assert_snapshot!(snapshot_name("verdict_sides", &[format]), text);
    }
}

#[test]
fn a_calibration() {
    insta::assert_snapshot!(output(["report", "tests/fixtures/calibration.json"], "80"));
}

#[test]
fn the_list() {
    let text = output(["list"], "200");
    // Lines about missing features depend on the machine.
    let everywhere: Vec<&str> =
        text.lines().filter(|line| !line.contains("not available here")).collect();
    insta::assert_snapshot!(everywhere.join("\n"));
}

#[test]
fn tables_fit_narrow_terminals() {
    let [a, b] = ["#nanosleep", "#os-interval"].map(|id| format!("{REPORT}{id}"));
    let limits = ["gate", "--report", REPORT, "--subject", "nanosleep", "--limit", "p50=1ms"];
    let commands: [(&str, &[&str]); 5] = [
        ("comparison", &["compare", &a, &b]),
        ("verdict_sides", &["report", "tests/fixtures/verdict.json"]),
        ("verdict_limits", &limits),
        ("calibration", &["report", "tests/fixtures/calibration.json"]),
        ("list", &["list"]),
    ];
    for (name, command) in commands {
        for columns in [60, 80] {
            let run = Osjitter::new(command.iter().copied()).env("COLUMNS", columns.to_string());
            let run = if command[0] == "gate" { run.out("") } else { run };
            let text = run.run().exits(0).stdout;
            let widest = text.lines().map(|line| line.chars().count()).max().unwrap();
            assert!(widest <= columns, "{name}, {columns}: {widest} in\n{text}");
            if columns == 60 && name != "list" {
                insta::assert_snapshot!(snapshot_name(name, &["60"]), text);
            }
        }
    }
}

#[test]
fn the_pictures() {
    let pictures = Osjitter::new(["report", REPORT, "--format", "svg"]).out("").run().exits(0);
    let mut files: Vec<_> =
        std::fs::read_dir(pictures.directory()).unwrap().map(|f| f.unwrap().path()).collect();
    files.sort();
    let structures: Vec<String> = files.iter().map(|file| structure(file)).collect();
    insta::assert_snapshot!(structures.join("\n"));
}

/// Returns an SVG without its coordinates: the elements and their colours in order, and every word.
/// Equal neighbours are one line with their number.
fn structure(file: &Path) -> String {
    let svg = std::fs::read_to_string(file).unwrap();
    let mut lines: Vec<(String, usize)> = Vec::new();
    for part in svg.split('<').skip(1).filter(|part| !part.starts_with('/')) {
        let (tag, text) = part.split_once('>').unwrap();
        let name = tag.split([' ', '/']).next().unwrap();
        let colours = ["fill", "stroke"].map(|key| {
            let value =
                tag.split_once(&format!(" {key}=\"")).and_then(|(_, rest)| rest.split('"').next());
            value.filter(|v| *v != "none").map_or(String::new(), |v| format!(" {key} {v}"))
        });
        let text = text.trim();
        let says =
            if text.is_empty() || name == "style" { String::new() } else { format!(": {text}") };
        let line = format!("{name}{}{says}", colours.concat());
        match lines.last_mut() {
            Some((last, n)) if *last == line => *n += 1,
            _ => lines.push((line, 1)),
        }
    }
    let body = lines
        .into_iter()
        .map(|(line, n)| if n == 1 { format!("  {line}\n") } else { format!("  {line} ×{n}\n") });
    format!("{}\n{}", file.file_name().unwrap().display(), body.collect::<String>())
}
