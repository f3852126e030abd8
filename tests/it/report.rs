//! Tests `osjitter report` as a program: a file reproduces every output.

use std::ffi::OsStr;
use std::path::Path;

use files::file::File as _;
use files::report::{Status, Warning};

use crate::fixtures::{fixture_text, recorded_report};
use crate::osjitter::{Osjitter, Ran, one_line};
use crate::workspace::root;

const FIXTURE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/report.json");

fn report(file: &Path) -> Osjitter {
    Osjitter::new([Path::new("report"), file])
}

fn run(more: &[&str]) -> Ran {
    let run = Osjitter::new([
        "run", "--subject", "os-interval", "--subject", "nanosleep", "--ticks", "100",
    ]);
    run.args(more).out("").run().exits(0)
}

#[test]
fn report_reproduces_table_and_pictures() {
    for more in [&[][..], &["--no-samples"]] {
        let run = run(&[more, &["--svg"]].concat());
        assert_eq!(run.stdout, report(&run.path("report.json")).run().exits(0).stdout);
        assert_eq!(
            run.stdout,
            report(run.directory()).run().exits(0).stdout,
            "a directory is read as its report"
        );
        let again =
            report(&run.path("report.json")).args(["--format", "svg"]).out("").run().exits(0);
        let pictures: Vec<_> =
            std::fs::read_dir(again.directory()).unwrap().map(|f| f.unwrap().file_name()).collect();
        assert!(pictures.len() >= 4, "{pictures:?}");
        for name in pictures {
            let name = name.to_str().unwrap();
            let picture = again.file(name);
            assert_eq!(picture, run.file(name), "{name}");
            assert!(picture.starts_with("<svg") && picture.trim_end().ends_with("</svg>"));
        }
    }
}

/// A subject of which the first rounds were measured has numbers like any other.
#[test]
fn late_failures_are_named_everywhere() {
    let mut failed = recorded_report();
    let id = failed.subjects[0].id.clone();
    failed.subjects[0].status = Status::Failed { reason: "it exploded".to_owned() };
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("report.json");
    std::fs::write(&file, failed.to_json()).unwrap();
    for format in ["table", "markdown", "html"] {
        let shown = report(&file).args(["--format", format]).run().exits(0).stdout;
        let note = format!("{id}: failed after its first rounds: it exploded");
        assert!(shown.replace('\n', " ").contains(&note), "{shown}");
        assert!(!shown.contains("not measured"), "{shown}");
    }
    let page = report(&file).args(["--format", "html"]).run().exits(0).stdout;
    assert!(page.contains("; it failed after its first rounds: it exploded."), "{page}");
    let card = report(&file).args(["--format", "card"]).run().exits(0).stdout;
    assert!(card.contains(" (failed)"), "{card}");
    // The first sentence is about the program of the user.
    failed.plan.scenarios.iter_mut().find(|scenario| scenario.id == id).unwrap().command =
        Some(vec!["./mine".to_owned()]);
    std::fs::write(&file, failed.to_json()).unwrap();
    let table = report(&file).run().exits(0).stdout;
    assert!(table.contains("failed after its first rounds, in which it was"), "{table}");
}

#[test]
fn early_ends_are_named_alike() {
    let mut ended = recorded_report();
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("report.json");
    ended.partial = true;
    ended.warnings = vec![Warning::new("break", "tick 5 was late", "see flight.json")];
    std::fs::write(&file, ended.to_json()).unwrap();
    for format in ["table", "markdown", "html"] {
        let shown = report(&file).args(["--format", format]).run().exits(0).stdout;
        let shown = shown.replace('\n', " ");
        let note = "nded at a late tick: the values cover the time until then";
        assert!(shown.contains(note) && !shown.contains("nterrupted"), "{shown}");
        assert!(shown.contains("tick 5 was late. see flight.json."), "{shown}");
    }
}

#[test]
fn standard_input_can_be_read() {
    let home = tempfile::tempdir().unwrap();
    let in_home = |args: &[String]| Osjitter::new(args).directory(home.path());
    for args in [
        &["report", "{}"][..],
        &["report", "--format", "csv", "{}"],
        &["compare", "--", "{}#nanosleep@1ms", "{}#os-interval@1ms/current-thread"],
        &["gate", "--limit", "p50=10s", "--subject", "nanosleep@1ms", "--report", "{}"],
    ] {
        let with = |name: &str| args.iter().map(|arg| arg.replace("{}", name)).collect::<Vec<_>>();
        let named = in_home(&with(FIXTURE)).run().exits(0);
        let piped = in_home(&with("-")).input(Path::new(FIXTURE)).run().exits(0);
        for stdout in [&named.stdout, &piped.stdout] {
            assert!(stdout.contains("nanosleep"), "{args:?}: {stdout}");
        }
    }
    Osjitter::new(["report", "-"]).run().refuses("the file is empty");
}

#[test]
fn invalid_reports_are_rejected() {
    let home = tempfile::tempdir().unwrap();
    for (text, says) in [
        ("", "unknown format: the file is empty"),
        (
            "{\"schema\": \"osjitter.report/1\"",
            "cut off: EOF while parsing an object at line 1 column 30",
        ),
        ("{\"schema\": \"osjitter.report/2\"}", "schema \"osjitter.report/2\" is not known"),
        (
            "{\"schema\": \"osjitter.report/1\", \"tool\": 3}",
            "expected struct Tool at line 1 column",
        ),
        ("[1, 2]", "unknown format"),
    ] {
        let file = home.path().join("with space.json");
        std::fs::write(&file, text).unwrap();
        report(&file).run().refuses(says).refuses("with space.json");
    }
    report(Path::new("no-such-file.json")).run().exits(2);
}

#[test]
fn invalid_bench_files_are_rejected() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("bench.json");
    for (text, says) in [
        (r#"{"schema":"osjitter.bench/1","bench":"weight"}"#, "the bench weight is not known"),
        (r#"{"schema":"osjitter.bench/1"}"#, "the bench without a name is not known"),
        (r#"{"schema":"osjitter.bench/1","bench":"clock"}"#, "missing field"),
        (r#"{"schema":"osjitter.bench/1","bench":"timeout""#, "EOF while parsing"),
    ] {
        std::fs::write(&file, text).unwrap();
        report(&file).args(["--format", "table"]).run().refuses(says).refuses("bench.json");
    }
}

#[test]
fn schema_key_may_be_anywhere() {
    let home = tempfile::tempdir().unwrap();
    let sorted = home.path().join("sorted.json");
    for file in ["tests/fixtures/verdict.json", "tests/fixtures/calibration.json"] {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
        let value: serde_json::Value =
            serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
        let text = serde_json::to_string_pretty(&value).unwrap();
        assert!(text.find("\"schema\"").unwrap() > 4_096, "{}", file.display());
        std::fs::write(&sorted, text).unwrap();
        assert_eq!(report(&sorted).run().exits(0).stdout, report(&file).run().exits(0).stdout);
    }
}

#[test]
fn picture_does_not_claim_equality() {
    let timeout = "tests/fixtures/timeout.json";
    let timeout = Path::new(env!("CARGO_MANIFEST_DIR")).join(timeout);
    let drawn = report(&timeout).args(["--format", "svg"]).out("").run().exits(0);
    let pictures = std::fs::read_dir(drawn.directory()).unwrap().map(|file| file.unwrap().path());
    let all: String = pictures.map(|file| std::fs::read_to_string(file).unwrap()).collect();
    assert!(all.contains("no difference shown"));
    assert!(!all.replace("no difference shown", "").contains("no difference"));
}

#[test]
fn options_of_other_formats_are_rejected() {
    let timeout = "tests/fixtures/timeout.json";
    let timeout = Path::new(env!("CARGO_MANIFEST_DIR")).join(timeout);
    for (file, args, says) in [
        (Path::new(FIXTURE), &["--reference"][..], "bench timeout"),
        (Path::new(FIXTURE), &["--samples"], "csv or parquet"),
        (Path::new(FIXTURE), &["--subject", "nanosleep"], "hgrm"),
        (
            Path::new(FIXTURE),
            &["--format", "junit"],
            "offers table, json, markdown, svg, card, html, csv",
        ),
        (Path::new(FIXTURE), &["--format", "svg"], "a directory with --out"),
        (Path::new(FIXTURE), &[FIXTURE, "--format", "hlog"], "give one"),
        (
            Path::new("tests/fixtures/verdict.json"),
            &["--format", "csv"],
            "a verdict has no format csv; it offers table, json",
        ),
        (Path::new("tests/fixtures/calibration.json"), &["--samples"], "the report of a run"),
        (Path::new("tests/fixtures/verdict.json"), &["--label", "a=b"], "the report of a run"),
        (Path::new("tests/fixtures/verdict.json"), &["--unit", "us"], "HdrHistogram log"),
        (Path::new("tests/fixtures/verdict.json"), &["--reference"], "bench timeout"),
        (Path::new("tests/fixtures/clock.json"), &["--reference"], "bench timeout"),
        (Path::new("tests/fixtures/dispatch.json"), &["--reference"], "bench timeout"),
        (&timeout, &["--reference", "--format", "json"], "table, markdown or html"),
        (
            Path::new(FIXTURE),
            &["--format", "bins", "--label", "rack=r7", "--label", "rack=r8"],
            "--label rack is given twice",
        ),
        (&timeout, &["--samples"], "the report of a run"),
        (
            &timeout,
            &["--format", "hlog"],
            "the file of a bench has no format hlog; it offers table, json, markdown, html, svg",
        ),
    ] {
        report(file).args(args).run().refuses(says);
    }
}

#[test]
fn unused_table_flags_are_noted() {
    for (file, format) in [(FIXTURE, "html"), ("tests/fixtures/verdict.json", "table")] {
        for flag in ["--histogram", "--sort=cpu", "--columns=max", "--percentiles=p50"] {
            let ran = report(Path::new(file)).args([flag, "--format", format]).run().exits(0);
            let name = flag.split('=').next().unwrap();
            assert!(
                ran.stderr.contains(&format!("{name} has no effect")),
                "{flag}: {}",
                ran.stderr
            );
        }
    }
}

#[test]
fn reference_needs_its_workload() {
    let text = fixture_text("timeout.json");
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("timeout.json");
    std::fs::write(&file, text.replace("\"channel-multi-thread\"", "\"another\"")).unwrap();
    report(&file).args(["--reference"]).run().refuses("channel-multi-thread");
}

#[test]
fn bins_have_no_unit() {
    let home = tempfile::tempdir().unwrap();
    let bins = home.path().join("a.bins.csv");
    report(Path::new(FIXTURE)).args(["--format", "bins", "--out"]).args([&bins]).run().exits(0);
    let gate = ["gate", "--limit", "p99=1s", "--unit", "us", "--report"].map(OsStr::new);
    for command in [report(&bins).args(["--unit", "us"]), Osjitter::new(gate).args([&bins])] {
        command.run().refuses("in nanoseconds");
    }
}

#[test]
fn names_of_formats_are_no_flags() {
    let tip = |args: &[&str]| Osjitter::new(args).run().exits(2).stderr;
    let report = FIXTURE;
    for (args, expected) in [
        (["report", report, "--svg", "x"], "tip: use '--format svg --out PATH'"),
        (["report", report, "--html", "-q"], "tip: use '--format html'"),
        (["compare", report, report, "--markdown"], "tip: use '--format markdown'"),
    ] {
        let stderr = tip(&args);
        assert!(stderr.contains(expected) && !stderr.contains("as a value"), "{stderr}");
    }
    let stderr = tip(&["report", report, "--nonsense"]);
    assert!(!stderr.contains("--format"), "{stderr}");
    // Behind `--`, a flag would be a program.
    for (args, expected) in [
        (["run", "--html", "-q"], "unexpected argument '--html'"),
        (["run", "--ticks", "-1"], "unexpected argument '-1'"),
        (["trace", "--nonsense", "-q"], "unexpected argument '--nonsense'"),
    ] {
        let stderr = tip(&args);
        assert!(stderr.contains(expected) && !stderr.contains("as a value"), "{stderr}");
    }
}

/// Returns the text of a page in the order of its elements.
fn page_text(page: &str) -> String {
    let body = &page[page.find("<body").expect("a body")..];
    let (mut text, mut is_tag) = (String::new(), false);
    for c in body.chars() {
        match c {
            '<' => is_tag = true,
            '>' => is_tag = false,
            c if !is_tag => text.push(c),
            _ => {}
        }
    }
    text
}

/// Returns the text of a picture from top to bottom.
fn picture_text(svg: &str) -> String {
    let document = roxmltree::Document::parse(svg).expect("XML");
    let y = |node: &roxmltree::Node<'_, '_>| -> f64 {
        node.attribute("y").and_then(|y| y.parse().ok()).expect("a position")
    };
    let mut texts: Vec<_> = document.descendants().filter(|n| n.has_tag_name("text")).collect();
    texts.sort_by(|a, b| y(a).total_cmp(&y(b)));
    texts.iter().filter_map(|text| text.text()).collect()
}

/// The answer, the verdict on the machine, the table and the notes have one order everywhere.
#[test]
fn formats_have_one_order() {
    let file = root().join("results/2026-11-27-epyc-kvm-2cpu/report.json.gz");
    if !file.exists() {
        return; // A published package has no results.
    }
    let made = |format| report(&file).args(["--format", format]).run().exits(0).stdout;
    let readme = std::fs::read_to_string(root().join("README.md")).unwrap();
    let answer = "os-interval-precise had the lowest p99 (7.27 us) and used 5.3 % of one core. The p99 of every other \
                  ranked subject was at least 9.01 times";
    let parts =
        [answer, "Quiet machine", "1.02 ms", "imer slack of tokio-interval", "In the same rounds"];
    let texts = [
        ("table", made("table"), parts.len()),
        ("markdown", made("markdown"), parts.len()),
        ("html", page_text(&made("html")), parts.len()),
        ("card", picture_text(&made("card")), 3),
        ("README", readme, 3),
    ];
    for (name, text, count) in texts {
        let text = one_line(&text);
        let mut rest = text.as_str();
        for part in &parts[..count] {
            let at = rest.find(part).unwrap_or_else(|| panic!("{name}: no {part:?} in {rest}"));
            rest = &rest[at..];
        }
        let first = text.find(parts[0]).unwrap();
        assert!(!text[..first].contains(parts[1]), "{name}: the answer comes first");
    }
}

/// Early ticks count at 0 in the histogram.
#[test]
fn early_ticks_without_samples_are_shown() {
    let script = serde_json::json!({ "scripted": { "lateness_ns": [-150_000, -20_000] } });
    let run = ["run", "--subject", "scripted", "--period", "1ms", "--ticks", "40", "--no-samples"];
    let ran = Osjitter::new(run).script(&script).out("").run().exits(0);
    let shown = Osjitter::new([Path::new("report"), &ran.path("report.json")]).run().exits(0);
    assert!(shown.stdout.contains("scripted"), "{}", shown.stdout);
}
