//! HdrHistogram logs. `hlog.json` has what the reader of HdrHistogram for Java finds in them, in
//! their own units.

use serde_json::Value;

use crate::osjitter::Osjitter;

use super::{
    Figures, NamelessFile, fixture, fixture_text, ids, import, import_text, subject, warnings,
};

const NS: i64 = 1;
const US: i64 = 1_000;
const MS: i64 = 1_000_000;

/// A log with what it and its writer imply.
struct ExpectedLog {
    name: &'static str,
    /// Length of the unit of its values in nanoseconds.
    unit_ns: i64,
    started: &'static str,
    millis: u64,
}

const fn log(name: &'static str, unit_ns: i64, started: &'static str, seconds: u64) -> ExpectedLog {
    ExpectedLog { name, unit_ns, started, millis: seconds * 1_000 }
}

const JHICCUP_START: &str = "2015-08-06T14:06:01Z";
const START: &str = "2023-11-14T22:13:20Z";
const UNKNOWN: &str = "at an unknown time";
const LOGS: [ExpectedLog; 25] = [
    // V0, V1 with counts of 8 and 2 bytes, and V2, each with the defaults of jHiccup.
    log("java-1.2.1.hlog", NS, JHICCUP_START, 3),
    log("java-2.0.3.hlog", NS, JHICCUP_START, 3),
    log("java-2.1.6.hlog", NS, JHICCUP_START, 3),
    log("java-2.2.2.hlog", NS, JHICCUP_START, 3),
    log("java-digits.hlog", NS, START, 2),
    log("java-tags.hlog", NS, START, 2),
    // Each number of digits with the widest bins that it allows.
    log("java-coarse.hlog", NS, "2023-11-14T22:13:21Z", 5),
    log("java-kinds.hlog", NS, START, 1),
    log("java-ycsb.hlog", US, "2015-08-03T14:52:59Z", 3),
    log("js-1.2.0.hlog", US, START, 3),
    log("js-2.0.3.hlog", US, START, 3),
    log("js-3.0.1.hlog", US, START, 3),
    log("go-1.1.2.hlog", NS, START, 3),
    log("go-1.1.2-relative.hlog", NS, START, 3),
    log("go-1.2.0.hlog", NS, START, 3),
    log("go-1.4.0.hlog", NS, START, 3),
    log("node-hiccup.hlog", MS, START, 15),
    log("python-0.10.hlog", NS, START, 3),
    log("python-2digits.hlog", NS, START, 2),
    log("python-millisecond-times.hlog", NS, START, 2),
    // A run of YCSB itself.
    ExpectedLog {
        name: "ycsb-0.17.hlog",
        unit_ns: US,
        started: "2026-11-25T17:31:32Z",
        millis: 2_453,
    },
    // In microseconds, which the log does not state.
    log("c-0.11.8.hlog", NS, START, 3),
    log("c-end-timestamps.hlog", NS, UNKNOWN, 3),
    log("out-of-order.hlog", NS, JHICCUP_START, 3),
    log("byte-order-mark.hlog", NS, JHICCUP_START, 3),
];

fn expected_tags() -> Value {
    serde_json::from_str(&fixture_text("hlog.json")).unwrap()
}

#[test]
fn logs_match_their_own_reader() {
    let expected = expected_tags();
    for log in LOGS {
        let report = import(&fixture(log.name), &[]);
        let tags = expected[log.name].as_object().unwrap();
        assert_eq!(ids(&report).len(), tags.len(), "{}", log.name);
        for (tag, found) in tags {
            let subject = subject(&report, tag);
            let scaled = |key: &str| found[key].as_i64().unwrap() * log.unit_ns;
            let d = &subject["summary"]["lateness_ns"];
            for key in ["min", "p50", "p90", "p99", "max"] {
                assert_eq!(d[key], scaled(key), "{key} of {tag} in {}", log.name);
            }
            let mean = d["mean"].as_i64().unwrap();
            // Means of years are not exact.
            let tolerance = log.unit_ns.max(mean / 1_000_000_000);
            assert!((mean - scaled("mean")).abs() <= tolerance, "{}: {mean}", log.name);
            assert_eq!(subject["summary"]["ticks"], found["count"], "{}", log.name);
            assert_eq!(subject["histogram"]["count"], found["count"], "{}", log.name);
            let rounds = subject["rounds"].as_array().unwrap();
            assert_eq!(rounds.len() as u64, found["intervals"], "{}", log.name);
            assert!(rounds.is_sorted_by_key(|round| round["start_ns"].as_u64()), "{}", log.name);
        }
        assert_eq!(report["started_utc"], log.started, "{}", log.name);
        assert_eq!(report["duration_ns"], log.millis * 1_000_000, "{}", log.name);
    }
}

#[test]
fn every_expected_log_is_tested() {
    let expected = expected_tags();
    let names: Vec<&str> = LOGS.iter().map(|log| log.name).collect();
    let missing: Vec<&String> = expected
        .as_object()
        .unwrap()
        .keys()
        .filter(|name| !names.contains(&name.as_str()))
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn whole_equals_its_only_part() {
    let report = import(&fixture("hlog-2digits-lowest-20us.hlog"), &[]);
    let subject = subject(&report, "untagged");
    let figures = Figures::new(subject);
    assert_eq!((figures.p50, figures.max), (Some(344_063), 1_803_550_719));
    assert_eq!(subject["rounds"][0]["summary"]["lateness_ns"], subject["summary"]["lateness_ns"]);
}

#[test]
fn offsets_and_blank_lines_are_ignored() {
    for name in ["hlog-hdrhistogramjs-offset1.hlog", "hlog-blank-lines.hlog"] {
        let figures = Figures::new(subject(&import(&fixture(name), &[]), "untagged"));
        assert_eq!((figures.p50, figures.max), (Some(5_001_215), 10_002_431), "{name}");
    }
}

#[test]
fn units_are_known_guessed_or_given() {
    let unit_warning = |name: &str, more: &[&str]| {
        let report = import(&fixture(name), more);
        let max = Figures::new(&report["subjects"][0]).max;
        (warnings(&report, "import-unit").concat(), max)
    };
    for known in ["java-1.2.1.hlog", "java-ycsb.hlog", "node-hiccup.hlog"] {
        assert_eq!(unit_warning(known, &[]).0, "", "{known}");
    }
    let (guess, max) = unit_warning("js-2.0.3.hlog", &[]);
    assert!(guess.contains("microseconds") && guess.contains("guess"), "{guess}");
    assert_eq!(max, 3_197_000);
    let (given, max) = unit_warning("js-2.0.3.hlog", &["--unit", "ms"]);
    assert!(given.contains("milliseconds") && given.contains("--unit"), "{given}");
    assert_eq!(max, 3_197_000_000);
    let (nothing, max) = unit_warning("c-end-timestamps.hlog", &[]);
    assert!(nothing.contains("nanoseconds") && !nothing.contains("guess"), "{nothing}");
    assert_eq!(max, 28_835_839);
}

#[test]
fn comparison_names_assumed_units() {
    let files = ["c-end-timestamps.hlog", "js-2.0.3.hlog"].map(fixture);
    let compared = Osjitter::new(["compare", "--format", "json"]).args(&files).run().exits(0);
    let comparison: Value = serde_json::from_str(&compared.stdout).unwrap();
    let messages = warnings(&comparison, "import-unit");
    let [a, b] = &messages[..] else { panic!("{messages:?}") };
    assert!(a.starts_with("A: ") && a.contains("nanoseconds"), "{a}");
    assert!(b.starts_with("B: ") && b.contains("microseconds"), "{b}");
    let double =
        Osjitter::new(["compare"]).args([fixture("java-double.hlog"), fixture("js-2.0.3.hlog")]);
    let error = double.run().exits(2).stderr;
    assert!(error.contains("give it to osjitter report or gate with --unit"), "{error}");
}

#[test]
fn milliseconds_of_interval_max_are_guessed() {
    // The values of node-hiccup without its comment.
    let text = fixture_text("node-hiccup.hlog").replace("milliseconds", "some unit");
    let report = import_text(&text);
    assert_eq!(Figures::new(subject(&report, "HICCUP")).max, 35 * MS);
    assert!(warnings(&report, "import-unit").concat().contains("milliseconds"));
}

#[test]
fn last_line_may_be_cut() {
    let report = import(&fixture("cut-off.hlog"), &[]);
    assert_eq!(subject(&report, "untagged")["rounds"].as_array().unwrap().len(), 2);
    assert_eq!(warnings(&report, "import-cut").len(), 1);
}

#[test]
fn double_histograms_need_a_unit() {
    let error = NamelessFile::new(fixture_text("java-double.hlog")).error();
    assert!(error.contains("DoubleHistogram") && error.contains("HdrHistogram log"), "{error}");
    assert!(error.contains("--unit"), "{error}");
}

#[test]
fn double_histograms_have_given_unit() {
    // One value in each second: 0.25, 1.25, 2.25 and 3.25, with three digits.
    for (unit, ns) in [("us", 1_000), ("ms", 1_000_000), ("s", 1_000_000_000_i64)] {
        let report = import(&fixture("java-double.hlog"), &["--unit", unit]);
        let found = subject(&report, "untagged");
        let figures = Figures::new(found);
        assert_eq!((figures.count, figures.min), (4, ns / 4), "{unit}");
        let max = 3 * ns + ns / 4;
        assert!((max..max + max / 1_000).contains(&figures.max), "{unit}: {}", figures.max);
        let mean = figures.mean.unwrap();
        assert!((mean - 7 * ns / 4).abs() <= ns / 500, "{unit}: {mean}");
        assert_eq!(found["rounds"].as_array().unwrap().len(), 4);
        assert!(warnings(&report, "import-unit").concat().contains("--unit"));
    }
}
