//! Tests every text format of one real run with independent readers.

use std::path::Path;

use files::file::File as _;
use files::report::{Report, Status};
use serde_json::Value;

use crate::fixtures::recorded_report;
use crate::osjitter::{Osjitter, Ran};

const SUBJECTS: usize = 2;
const TICKS: usize = 400;

fn measure() -> Ran {
    let run = Osjitter::new(["run", "--subject", "os-interval", "--subject", "nanosleep"]);
    run.args(["--ticks", &TICKS.to_string()]).out("").run().exits(0)
}

fn export(run: &Ran, format: &[&str]) -> String {
    report(run, format).exits(0).stdout
}

fn report(run: &Ran, format: &[&str]) -> Ran {
    Osjitter::new([Path::new("report"), run.directory()]).args(["--format"]).args(format).run()
}

fn sorted_lateness(report: &Value, subject: usize) -> Vec<i64> {
    let rounds = report["subjects"][subject]["rounds"].as_array().unwrap().iter();
    let mut lateness: Vec<i64> = rounds
        .flat_map(|r| r["lateness_ns"].as_array().unwrap())
        .map(|v| v.as_i64().unwrap())
        .collect();
    lateness.sort_unstable();
    lateness
}

/// Formats without words cannot state what they lack, so that standard error does.
#[test]
fn omissions_are_named_without_words() {
    let home = tempfile::tempdir().unwrap();
    let mut report = recorded_report();
    let show = |report: &Report, format: &str| {
        let file = home.path().join("report.json");
        std::fs::write(&file, report.to_json()).unwrap();
        let command = Osjitter::new([Path::new("report"), &file]).args(["--format", format]);
        match format {
            "hgrm" | "perfetto" => command.args(["--subject", &report.subjects[0].id]),
            "svg" => command.out("pictures"),
            _ => command,
        }
        .args(["--force"])
        .run()
        .exits(0)
    };
    assert_eq!(show(&report, "csv").stderr, "", "nothing is left out");
    report.partial = true;
    let failed = &mut report.subjects[1];
    failed.status = Status::Failed { reason: "it exploded".to_owned() };
    (failed.summary, failed.histogram) = (None, None);
    failed.rounds.clear();
    let expected = [
        "interrupted: the values cover the time until then".to_owned(),
        format!("{} is left out: it exploded", failed.id),
    ];
    for format in [
        "csv", "hgrm", "hlog", "cyclictest-json", "bmf", "gab", "openmetrics", "bins", "perfetto",
        "svg", "card",
    ] {
        let lines: Vec<String> = show(&report, format).stderr.lines().map(str::to_owned).collect();
        assert_eq!(lines, expected, "{format}");
    }
    for format in ["table", "json", "markdown", "html"] {
        let ran = show(&report, format);
        assert!(ran.stdout.contains("it exploded") && ran.stderr.is_empty(), "{format}");
    }
}

#[test]
fn formats_agree_with_the_report() {
    let run = measure();
    let report = run.json("report.json");
    let first = &report["subjects"][0];
    let id = first["id"].as_str().unwrap();
    let p50 = &first["summary"]["lateness_ns"]["p50"];

    let csv = export(&run, &["csv"]);
    let rows: Vec<Vec<&str>> = csv.lines().map(|l| l.split(',').collect()).collect();
    assert_eq!(rows.len(), 1 + SUBJECTS);
    assert!(rows.iter().all(|r| r.len() == rows[0].len()), "{csv}");
    let column = |name: &str| rows[0].iter().position(|c| *c == name).unwrap();
    assert_eq!(rows[1][column("id")], id);
    assert_eq!(rows[1][column("p50_ns")], p50.to_string());

    let samples = export(&run, &["csv", "--samples"]);
    let mut late: Vec<i64> = samples
        .lines()
        .filter(|l| l.split(',').nth(1) == Some(id))
        .map(|l| l.split(',').nth(7).unwrap().parse().unwrap())
        .collect();
    late.sort_unstable();
    assert_eq!(late, sorted_lateness(&report, 0));

    let bmf: Value = serde_json::from_str(&export(&run, &["bmf"])).unwrap();
    assert_eq!(&bmf[id]["lateness_p50_ns"]["value"], p50);

    let gab: Value = serde_json::from_str(&export(&run, &["gab"])).unwrap();
    let name = format!("{id} lateness p50");
    let found =
        gab.as_array().unwrap().iter().find(|e| e["name"] == name.as_str()).expect("the p50");
    assert_eq!((&found["value"], found["unit"].as_str()), (p50, Some("ns")));

    let cyclictest: Value = serde_json::from_str(&export(&run, &["cyclictest-json"])).unwrap();
    let thread = &cyclictest["thread"]["0"];
    let bins = thread["histogram"].as_object().unwrap();
    assert_eq!(bins.values().map(|n| n.as_u64().unwrap()).sum::<u64>(), TICKS as u64);
    // In microseconds, as cyclictest writes by default.
    let max_ns = first["summary"]["lateness_ns"]["max"].as_i64().unwrap();
    assert_eq!(thread["max"], max_ns / 1_000);

    let metrics = export(&run, &["openmetrics"]);
    assert!(metrics.ends_with("# EOF\n"));
    let line =
        metrics.lines().find(|l| l.starts_with("osjitter_ticks_total{") && l.contains(id)).unwrap();
    assert!(line.ends_with(&format!(" {TICKS}")), "{line}");

    let markdown = export(&run, &["markdown"]);
    assert_eq!(
        markdown.lines().filter(|l| l.starts_with("| ")).count(),
        1 + SUBJECTS,
        "{markdown}"
    );
}

#[test]
fn page_is_self_contained_and_complete() {
    let run = measure();
    let page = export(&run, &["html"]);
    assert_eq!(page, run.file("report.html"));
    for loads in ["http://", "https://", " src=", "@import", "url("] {
        // A namespace is not loaded.
        assert!(!page.replace("http://www.w3.org/2000/svg", "").contains(loads), "{loads}");
    }
    let data = page.split("class=\"data\">").nth(1).unwrap().split("</script>").next().unwrap();
    let data: Value = serde_json::from_str(data).unwrap();
    for subject in data["subjects"].as_array().unwrap() {
        let codes = base64::Engine::decode(
            &base64::prelude::BASE64_STANDARD,
            subject["codes"].as_str().unwrap(),
        )
        .unwrap();
        assert_eq!(codes.len(), 3 * TICKS.div_ceil(2));
        let exact: Vec<i64> =
            subject["exact"].as_array().unwrap().iter().map(|v| v.as_i64().unwrap()).collect();
        let largest = exact.chunks(2).map(|pair| pair[1]).max().unwrap();
        assert_eq!(
            largest,
            subject["curve"].as_array().unwrap().last().unwrap()[1].as_i64().unwrap()
        );
    }
}

#[test]
fn hdr_formats_contain_every_tick() {
    use hdrhistogram::Histogram;
    use hdrhistogram::serialization::Deserializer;
    use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};

    let run = measure();
    let log = export(&run, &["hlog"]);
    let mut count = 0;
    let mut tags = std::collections::BTreeSet::new();
    for entry in IntervalLogIterator::new(log.as_bytes()) {
        if let LogEntry::Interval(interval) = entry.unwrap() {
            let bytes = base64::Engine::decode(
                &base64::prelude::BASE64_STANDARD,
                interval.encoded_histogram(),
            )
            .unwrap();
            let histogram: Histogram<u64> =
                Deserializer::new().deserialize(&mut bytes.as_slice()).unwrap();
            count += histogram.len();
            tags.insert(interval.tag().unwrap().as_str().to_owned());
        }
    }
    assert_eq!((count, tags.len()), ((SUBJECTS * TICKS) as u64, SUBJECTS));

    let distribution = export(&run, &["hgrm", "--subject", "nanosleep"]);
    let last = distribution.lines().rfind(|l| !l.starts_with('#')).unwrap();
    let columns: Vec<&str> = last.split_whitespace().collect();
    assert_eq!(columns[1..], ["1.000000000000", &TICKS.to_string()]);
    report(&run, &["hgrm"]).refuses("--subject");
}
