//! Tests the import of files of other tools. The fixtures are made with the tools themselves by
//! `scripts/studies/import-fixtures.sh`; expected values are computed here from their raw numbers.

use std::path::Path;

use serde_json::Value;

use crate::fixtures::{fixture, fixture_text};
use crate::osjitter::Osjitter;
use crate::schema;

const FIXTURES: [&str; 7] = [
    "cyclictest.json", "cyclictest-ns.json", "cyclictest-no-bins.json", "oslat.json",
    "jitterdebugger.json", "python.hlog", "rtla-timerlat.txt",
];

fn report_output(file: &Path, more: &[&str]) -> String {
    Osjitter::new([Path::new("report"), file]).args(more).run().exits(0).stdout
}

fn imported(name: &str) -> Value {
    serde_json::from_str(&report_output(&fixture(name), &["--format", "json"])).unwrap()
}

fn raw(name: &str) -> Value {
    serde_json::from_str(&fixture_text(name)).unwrap()
}

fn codes(report: &Value) -> Vec<String> {
    report["warnings"]
        .as_array()
        .unwrap()
        .iter()
        .map(|w| w["code"].as_str().unwrap().to_owned())
        .collect()
}

/// Returns every value of the bins of a thread in ascending order.
fn values(thread: &Value, unit_ns: i64) -> Vec<i64> {
    let bins = thread["histogram"].as_object().unwrap().iter();
    let mut values: Vec<i64> = bins
        .flat_map(|(bin, n)| {
            let value = bin.parse::<i64>().unwrap() * unit_ns;
            std::iter::repeat_n(value, usize::try_from(n.as_u64().unwrap()).unwrap())
        })
        .collect();
    values.sort_unstable();
    values
}

/// Compares a thread with its subject: the values in bins, in ascending order, and the number of
/// values above them.
fn assert_agrees(subject: &Value, thread: &Value, binned: &[i64], above: usize, unit_ns: i64) {
    let summary = &subject["summary"];
    let n = binned.len() + above;
    assert_eq!(summary["ticks"], n);
    let d = &summary["lateness_ns"];
    for (name, q) in
        [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99_9", 0.999), ("p99_99", 0.9999)]
    {
        let rank = (q * n as f64 - 1e-6).ceil().max(1.0) as usize;
        let carried = n as f64 * (1.0 - q) + 1e-6 >= 5.0;
        let expected = binned.get(rank - 1).filter(|_| carried).copied();
        assert_eq!(d[name].as_i64(), expected, "{name} of {}", subject["id"]);
    }
    assert_eq!(d["min"], thread["min"].as_i64().unwrap() * unit_ns);
    assert_eq!(d["max"], thread["max"].as_i64().unwrap() * unit_ns);
    assert_eq!(d["mean"], (thread["avg"].as_f64().unwrap() * unit_ns as f64) as i64);
    assert!(d["ci95"].as_object().unwrap().is_empty());
    assert!(subject["rounds"].as_array().unwrap().is_empty());
    if binned.is_empty() {
        assert!(subject["histogram"].is_null());
        return;
    }
    assert_eq!(subject["histogram"]["count"], n, "no value is lost, those above the bins included");
    let stored = read_histogram(subject);
    assert_eq!(stored.len(), n as u64);
    for (i, &value) in binned.iter().enumerate() {
        if i == 0 || binned[i - 1] != value {
            assert!(stored.count_at(value as u64) > 0, "{value}");
        }
    }
    assert!(stored.equivalent(stored.max(), d["max"].as_u64().unwrap()));
}

fn read_histogram(subject: &Value) -> hdrhistogram::Histogram<u64> {
    use base64::Engine as _;
    let data = subject["histogram"]["data"].as_str().unwrap();
    let bytes = base64::prelude::BASE64_STANDARD.decode(data).unwrap();
    hdrhistogram::serialization::Deserializer::new().deserialize(&mut bytes.as_slice()).unwrap()
}

#[test]
fn cyclictest_bins_and_overflow_are_kept() {
    for (name, unit_ns) in
        [("cyclictest.json", 1_000), ("cyclictest-ns.json", 1), ("cyclictest-no-bins.json", 1_000)]
    {
        let (raw, report) = (raw(name), imported(name));
        let threads = raw["thread"].as_object().unwrap();
        assert_eq!(report["subjects"].as_array().unwrap().len(), threads.len());
        let mut overflows = 0;
        for (subject, thread) in report["subjects"].as_array().unwrap().iter().zip(threads.values())
        {
            let binned = values(thread, unit_ns);
            let above = usize::try_from(thread["cycles"].as_u64().unwrap()).unwrap() - binned.len();
            assert_agrees(subject, thread, &binned, above, unit_ns);
            overflows += usize::from(above > 0 && !binned.is_empty());
        }
        let codes = codes(&report);
        let has = |code: &str| codes.iter().filter(|c| *c == code).count();
        assert_eq!(has("import-overflow"), overflows, "{name}");
        assert_eq!(has("import-rounded"), usize::from(unit_ns > 1), "{name}");
        assert_eq!(has("import-no-histogram"), usize::from(name.contains("no-bins")), "{name}");
        assert_eq!(
            (has("import-no-rounds"), has("import-missed"), has("import-no-cost")),
            (1, 1, 1),
            "{name}"
        );
        assert_eq!(report["started_utc"].as_str().unwrap().len(), "2026-11-21T08:49:02Z".len());
        assert_eq!(report["host"]["kernel"], "6.18.0");
    }
    let period = |name: &str| imported(name)["subjects"][0]["period_ns"].as_u64();
    assert_eq!(
        ["cyclictest.json", "cyclictest-ns.json"].map(period),
        [Some(1_000_000), Some(10_000_000)]
    );
}

#[test]
fn oslat_values_are_gaps() {
    let (raw, report) = (raw("oslat.json"), imported("oslat.json"));
    for (subject, thread) in report["subjects"]
        .as_array()
        .unwrap()
        .iter()
        .zip(raw["thread"].as_object().unwrap().values())
    {
        let mut bins: Vec<(i64, u64)> = thread["histogram"]
            .as_object()
            .unwrap()
            .iter()
            .map(|(b, n)| (b.parse().unwrap(), n.as_u64().unwrap()))
            .collect();
        bins.sort_unstable();
        let (last, open) = *bins.last().unwrap();
        assert!(
            last < thread["max"].as_i64().unwrap(),
            "the fixture has values above its last bin"
        );
        let n: u64 = bins.iter().map(|b| b.1).sum();
        assert_eq!(subject["summary"]["ticks"], n);
        assert_eq!(subject["histogram"]["count"], n);
        let stored = read_histogram(subject);
        assert_eq!(stored.count_at(thread["max"].as_u64().unwrap() * 1_000), open);
        assert_eq!(stored.count_at(1_000), bins[0].1);
        assert_eq!(subject["period_ns"], 0);
    }
    let codes = codes(&report);
    for code in ["import-gaps", "import-overflow", "import-rounded", "import-no-rounds"] {
        assert!(codes.iter().any(|c| c == code), "{code}");
    }
    let table = report_output(&fixture("oslat.json"), &[]);
    assert!(table.contains("\n\nGaps of a busy loop"), "{table}");
    assert!(!table.contains(" %"), "without a period no tick is missed: {table}");
}

#[test]
fn jitterdebugger_overflow_is_counted() {
    let (raw, report) = (raw("jitterdebugger.json"), imported("jitterdebugger.json"));
    let cpus = raw["cpu"].as_object().unwrap();
    assert_eq!(report["subjects"].as_array().unwrap().len(), cpus.len());
    for (subject, (number, cpu)) in report["subjects"].as_array().unwrap().iter().zip(cpus) {
        assert_eq!(subject["id"], format!("jitterdebugger/cpu-{number}"));
        let binned = values(cpu, 1_000);
        let above = usize::try_from(cpu["count"].as_u64().unwrap()).unwrap() - binned.len();
        assert_agrees(subject, cpu, &binned, above, 1_000);
    }
    assert!(codes(&report).contains(&"import-no-period".to_owned()));
}

#[test]
fn interval_log_tags_become_subjects() {
    let report = imported("python.hlog");
    let subjects = report["subjects"].as_array().unwrap();
    let ids: Vec<&str> = subjects.iter().map(|s| s["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["B", "untagged"]);
    for subject in subjects {
        assert_eq!(
            (&subject["summary"]["ticks"], &subject["histogram"]["count"]),
            (&600.into(), &600.into())
        );
        let rounds = subject["rounds"].as_array().unwrap();
        let starts: Vec<u64> = rounds.iter().map(|r| r["start_ns"].as_u64().unwrap()).collect();
        assert_eq!(starts, [0, 5_000_000_000, 10_000_000_000]);
        assert!(rounds.iter().all(
            |r| r["summary"]["ticks"] == 200 && r["lateness_ns"].as_array().unwrap().is_empty()
        ));
        let largest =
            rounds.iter().map(|r| r["summary"]["lateness_ns"]["max"].as_u64().unwrap()).max();
        assert_eq!(subject["summary"]["lateness_ns"]["max"].as_u64(), largest);
    }
    assert_eq!(report["started_utc"], "2023-11-14T22:13:20Z");
    assert!(codes(&report).contains(&"import-unit".to_owned()));
}

#[test]
fn interval_log_survives_a_round_trip() {
    let args = ["run", "--subject", "os-interval", "--subject", "nanosleep", "--ticks", "400"];
    let run = Osjitter::new(args).out("").run().exits(0);
    let log = run.path("run.hlog");
    report_output(run.directory(), &["--format", "hlog", "--out", log.to_str().unwrap()]);
    let before = run.json("report.json");
    let after: Value = serde_json::from_str(&report_output(&log, &["--format", "json"])).unwrap();
    for old in before["subjects"].as_array().unwrap() {
        let new = after["subjects"]
            .as_array()
            .unwrap()
            .iter()
            .find(|s| s["id"] == old["id"])
            .expect("the subject");
        for same in ["name", "period_ns", "runtime"] {
            assert_eq!(new[same], old[same]);
        }
        assert_eq!(
            new["rounds"].as_array().unwrap().len(),
            old["rounds"].as_array().unwrap().len()
        );
        assert_eq!(new["summary"]["ticks"], old["summary"]["ticks"]);
        // The bin at one period has missed ticks and others.
        let period_ns = old["period_ns"].as_i64().unwrap();
        let rounds = old["rounds"].as_array().unwrap().iter();
        let late = rounds.flat_map(|round| round["lateness_ns"].as_array().unwrap());
        let is_in_bin = |ns: &&Value| (ns.as_i64().unwrap() - period_ns).abs() <= period_ns / 500;
        let in_bin = late.filter(is_in_bin).count() as u64;
        let known = |s: &Value| s["missed"].as_u64().or(s["missed_at_least"].as_u64()).unwrap();
        let [was, is] = [old, new].map(|s| known(&s["summary"]));
        assert!(is.abs_diff(was) <= in_bin, "missed: {was} and {is}, {in_bin} in the bin");
        for percentile in ["p50", "p90", "max"] {
            let [was, is] =
                [old, new].map(|s| s["summary"]["lateness_ns"][percentile].as_f64().unwrap());
            assert!((is - was).abs() <= (was / 500.0).max(2.0), "{percentile}: {was} and {is}");
        }
    }
}

#[test]
fn every_import_exports_to_every_format() {
    let home = tempfile::tempdir().unwrap();
    for name in FIXTURES {
        let file = fixture(name);
        let again = home.path().join(name).with_extension("report.json");
        report_output(&file, &["--format", "json", "--out", again.to_str().unwrap()]);
        let report = schema::valid(&std::fs::read_to_string(&again).unwrap(), "report.1");
        for format in [
            "table", "markdown", "html", "csv", "hlog", "cyclictest-json", "bmf", "gab",
            "openmetrics",
        ] {
            if format == "hlog" && name == "cyclictest-no-bins.json" {
                let command = Osjitter::new([Path::new("report"), &file]);
                command.args(["--format", format]).run().refuses("has no histogram");
                continue;
            }
            let text = report_output(&file, &["--format", format]);
            assert_eq!(
                text,
                report_output(&again, &["--format", format]),
                "{name} as {format}: the report holds all of it"
            );
        }
        let pictures = home.path().join(name);
        report_output(&file, &["--format", "svg", "--out", pictures.to_str().unwrap()]);
        // A curve needs bins.
        let has_bins = name != "cyclictest-no-bins.json";
        assert_eq!(pictures.join("percentiles.svg").is_file(), has_bins, "{name}");
        assert!(pictures.join("card.svg").is_file(), "{name}");
        let table = report_output(&file, &[]);
        for code in codes(&report) {
            assert!(table.contains(&format!("{code}: ")), "{name}: the table does not say {code}");
        }
    }
}

#[test]
fn exports_name_assumptions() {
    let notes = |name: &str, format: &str| {
        let command = Osjitter::new([Path::new("report"), &fixture(name)]);
        command.args(["--format", format]).run().exits(0).stderr
    };
    for format in ["hlog", "bins"] {
        let note = notes("cyclictest.json", format);
        assert!(note.contains("thread-0 and 1 other subject above the last bin"), "{note}");
    }
    assert_eq!(notes("cyclictest.json", "cyclictest-json"), "");
    assert!(notes("python.hlog", "csv").starts_with("The log states no unit: "));
    assert_eq!(notes("python.hlog", "table"), "");
}

#[test]
fn imports_without_samples_cannot_merge() {
    let file = fixture("cyclictest.json");
    Osjitter::new([Path::new("merge"), &file, &file]).run().refuses("no samples");
}

#[test]
fn pictures_hatch_unresolved_values() {
    let drawn = Osjitter::new([Path::new("report"), &fixture("cyclictest.json")])
        .args(["--format", "svg"])
        .out("");
    let drawn = drawn.run().exits(0);
    let percentiles = drawn.file("percentiles.svg");
    for says in ["2 above 151 us, up to 4.98 ms", "8 above 370 us, up to 6.02 ms"] {
        assert!(percentiles.contains(says), "{says}");
    }
    let pictures = std::fs::read_dir(drawn.directory()).unwrap().map(|file| file.unwrap().path());
    let histograms: Vec<String> = pictures
        .filter(|file| file.file_name().unwrap().to_str().unwrap().starts_with("histogram"))
        .map(|file| std::fs::read_to_string(file).unwrap())
        .collect();
    assert_eq!(histograms.len(), 2);
    assert!(
        histograms.iter().all(|svg| svg.contains("Hatched: ")),
        "each says what its hatched zone is"
    );
}

/// The lines of a text after the first line that begins with these words.
fn lines_from<'a>(text: &'a str, beginning: &str) -> Vec<&'a str> {
    text.lines().skip_while(|line| !line.starts_with(beginning)).collect()
}

#[test]
fn ranges_without_bins_are_shown() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("quiet.txt");
    let text = "T: 0 (12345) P:95 I:500 C:  20000 Min:      1 Act:    3 Avg:    4 Max:      57\n\
                T: 1 (12346) P:95 I:1000 C:  10000 Min:      2 Act:    5 Avg:    6 Max:      81\n";
    std::fs::write(&file, text).unwrap();
    let shown = report_output(&file, &[]);
    assert!(shown.starts_with("The highest lateness was 81.0 us, in "), "{shown}");
    let table = lines_from(&shown, "subject");
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(words(table[0])[1..4], ["min", "mean", "max"], "{shown}");
    assert_eq!(words(table[1])[1..7], ["1.00", "us", "4.00", "us", "57.0", "us"], "{shown}");
    let notes: Vec<&str> = lines_from(&shown, "import-");
    assert_eq!(notes.last(), Some(&"All of these notes: -v"));
    let codes: Vec<&str> = notes.iter().filter_map(|note| note.split(':').next()).collect();
    assert!(codes.iter().filter(|code| code.starts_with("import-")).count() == notes.len() - 1);
    let verbose = report_output(&file, &["-v"]);
    let verbose: Vec<&str> = verbose.split_whitespace().collect();
    assert!(verbose.join(" ").contains("osjitter run shows CPU time next to lateness."));
}

#[test]
fn threads_without_a_period_are_partners() {
    let directory = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let file = directory.path().join(name);
        std::fs::write(&file, text).unwrap();
        file.to_str().unwrap().to_owned()
    };
    let line = |thread: u64| {
        format!(
            "T: {thread} (1) P:95 I:500 C:  20000 Min:      1 Act:    3 Avg:    4 Max:      57\n"
        )
    };
    let timed = write("timed", &(line(0) + &line(1)));
    let bins = "# Histogram\n000003 019000\t019500\n000004 001000\t000500\n# Total: 000020000 000020000\n\
                # Min Latencies: 00003 00003\n# Avg Latencies: 00003 00003\n# Max Latencies: 00004 00004\n\
                # Histogram Overflows: 00000 00000\n";
    let untimed = write("untimed", bins);
    let error = Osjitter::new(["compare", &timed, &untimed]).run().exits(2).stderr;
    assert!(error.contains("thread-0 has no rounds"), "paired, then refused: {error}");
    let remedy = format!("osjitter report {timed} {untimed} shows both");
    assert!(error.contains(&remedy) && !error.contains("--force"), "{error}");
    Osjitter::new(["report", &timed, &untimed]).run().exits(0);
}

/// The user may not have any other tool.
#[test]
fn warnings_advise_about_their_tool() {
    const TOOLS: [&str; 8] = [
        "cyclictest", "jitterdebugger", "oslat", "rtla", "hwlatdetect", "bpftrace", "vegeta",
        "xenomai",
    ];
    let mut with_advice = 0;
    for name in FIXTURES.into_iter().chain(["hwlatdetect.txt"]) {
        let report = imported(name);
        let is_foreign = |tool: &&str| !name.starts_with(tool);
        for warning in report["warnings"].as_array().unwrap() {
            let text = format!("{} {}", warning["message"], warning["hint"]).to_lowercase();
            let named = TOOLS.iter().filter(|tool| is_foreign(tool));
            let named: Vec<_> = named.filter(|tool| text.contains(**tool)).collect();
            assert!(named.is_empty(), "{name}: {named:?} in {text}");
            with_advice += usize::from(text.contains("with -n, "));
        }
    }
    assert!(with_advice > 0, "cyclictest has an option for ns");
}
