//! Applies small mutations to real files. Each result is read and rendered, or rejected with a
//! reason, without a panic.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use files::file::File as _;
use files::histogram;
use files::report::{Report, Round, SCHEMA};
use files::round_costs::RoundCost;
use files::summary::{InstanceRound, summarise};
use jitterstat::sample::{Grid, RoundSamples, Wakeup};
use jitterstat::stats::random::SplitMix64;
use proptest::prelude::*;
use serde_json::Value;

use crate::csv;
use crate::cyclictest::Resolution;
use crate::import_error::Result;
use crate::imported::{ImportedReport, clock, subject};
use crate::{
    FAILED_RUN_WARNING, LAST_LINE_WARNING, cyclictest, detect, hgrm, hlog, log_prefix, openmetrics,
    parse, trackers,
};

const FIXTURES: [&str; 6] = [
    include_str!("../../../../tests/fixtures/cyclictest.json"),
    include_str!("../../../../tests/fixtures/cyclictest-ns.json"),
    include_str!("../../../../tests/fixtures/cyclictest-no-bins.json"),
    include_str!("../../../../tests/fixtures/oslat.json"),
    include_str!("../../../../tests/fixtures/jitterdebugger.json"),
    include_str!("../../../../tests/fixtures/python.hlog"),
];

/// Checks that a text is rejected with a reason after the replacement of a part, in each case.
pub(crate) fn assert_rejected(
    text: &str,
    read: impl Fn(&str) -> Result<Report>,
    cases: &[(&str, &str, &str)],
) {
    for (from, to, says) in cases {
        assert!(text.contains(from), "{from}");
        let error = read(&text.replacen(from, to, 1)).unwrap_err().to_string();
        assert!(error.contains(says), "{says}: {error}");
    }
}

/// Reads a text that is cut anywhere: it is rejected or read in part, and never panics.
pub(crate) fn read_prefixes(text: &str, read: impl Fn(&str) -> Result<Report>) {
    for end in (0..text.len()).filter(|&end| text.is_char_boundary(end)) {
        let _ = read(&text[..end]);
    }
}

/// A report like that of a short run: rounds with samples, some skipped ticks, and wake-up times of
/// the runtime.
fn small_report() -> Report {
    let rounds = 12;
    let grid = Grid { period_ns: 500_000, first_tick: 3, ticks: 20 };
    let samples: Vec<RoundSamples> = (0..rounds)
        .map(|r| {
            let tick = |k: u64| Wakeup {
                tick: k,
                expirations: 1,
                wake_ns: (k * 500_000 + 14_000 + (r * 7_919 + k * 104_729) % 9_973) as i64,
                unpark_ns: (!k.is_multiple_of(3)).then_some((k * 500_000 + 9_000) as i64),
            };
            let wakeups: Vec<Wakeup> = (0..23).filter(|k| r != 5 || k % 7 > 0).map(tick).collect();
            RoundSamples::from_wakeups(grid, &wakeups).unwrap()
        })
        .collect();
    let cost = RoundCost {
        ticks: 24,
        window_ns: Some(12_000_000),
        cpu_ns: Some(400_000),
        wakeups: Some(25),
    };
    let part = |(round, samples)| InstanceRound { round, samples, cost };
    let parts: Vec<InstanceRound<'_>> = (0..).zip(&samples).map(part).collect();
    let mut interval =
        subject("os-interval@500us/current-thread".to_owned(), "os-interval", Some(500_000));
    interval.runtime = Some("current-thread".to_owned());
    interval.status = files::report::Status::Measured;
    interval.summary = summarise(&parts, true);
    interval.histogram =
        Some(histogram::pack(samples.iter().flat_map(|s| s.lateness_ns.iter().copied())));
    interval.rounds = parts
        .iter()
        .map(|part| Round {
            index: part.round,
            start_ns: part.round * 12_000_000,
            phase_ns: 77,
            cpu_ns: part.cost.cpu_ns,
            steal_ns: Some(0),
            run_queue_ns: Some(5),
            switches_voluntary: Some(20),
            switches_involuntary: Some(5),
            summary: summarise(std::slice::from_ref(part), true),
            first_tick: part.samples.ticks[0],
            lateness_ns: part.samples.lateness_ns.clone(),
            tick: (part.round == 5).then(|| part.samples.ticks.clone()),
            until_unpark_ns: Some(part.samples.until_unpark_ns.clone()),
            ..Round::default()
        })
        .collect();
    ImportedReport {
        version: Some("0.1.0".to_owned()),
        started_utc: Some("2026-11-21T08:00:00Z".to_owned()),
        duration_ns: Some(200_000_000),
        subjects: vec![interval],
        ..ImportedReport::new("osjitter", clock("counter", Some(40)), Vec::new())
    }
    .report()
}

/// Writes a valid report in every format of this crate.
fn export_all(report: &Report) {
    let both = [report.clone(), report.clone()];
    for reports in [&both[..1], &both[..]] {
        let _ = csv::summary(reports);
        let _ = csv::samples(reports);
        let _ = trackers::bmf(reports);
        let _ = trackers::gab(reports);
        let _ = openmetrics::text(reports);
    }
    for resolution in [Resolution::Us, Resolution::Ns] {
        let _ = cyclictest::write(report, resolution);
    }
    let _ = hlog::write(report);
    for subject in &report.subjects {
        let _ = hgrm::write(subject);
    }
    let _ = files::merge::merge(&both, true);
    let _ = files::merge::ranking(&both);
}

/// Checks that a text is rejected with a reason, or can be written in every format.
fn parse_and_write(text: &str) -> Result<Report> {
    let result = parse(text);
    match &result {
        Ok(report) => export_all(report),
        Err(reason) => assert!(!reason.to_string().is_empty()),
    }
    result
}

/// Returns the positions of all numbers in a document, as JSON pointers.
fn numbers(value: &Value, at: &str, found: &mut Vec<String>) {
    match value {
        Value::Number(_) => found.push(at.to_owned()),
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(i, v)| numbers(v, &format!("{at}/{i}"), found))
        }
        Value::Object(fields) => {
            for (key, v) in fields {
                numbers(v, &format!("{at}/{}", key.replace('~', "~0").replace('/', "~1")), found);
            }
        }
        _ => {}
    }
}

/// Values that often break arithmetic.
const EXTREME_VALUES: [&str; 14] = [
    "0", "-1", "1", "9223372036854775807", "-9223372036854775808", "18446744073709551615",
    "1000000000000000000", "-1000000000000000000", "9007199254740992", "1e300", "0.5", "null",
    "[]", "\"NaN\"",
];

#[test]
fn real_files_are_read() {
    let report = small_report();
    assert_eq!(parse_and_write(&report.to_json()).unwrap(), report);
    for text in FIXTURES {
        parse_and_write(text).unwrap();
    }
}

/// Returns the files of other tools by name.
fn foreign_files() -> Vec<(String, String)> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../tests/fixtures/formats");
    let mut paths: Vec<PathBuf> =
        std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let name = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned();
    let read = |path: PathBuf| {
        let text = std::fs::read_to_string(&path).unwrap();
        (name(&path), text.trim_start_matches('\u{feff}').to_owned())
    };
    let files = paths.into_iter().map(read);
    files.filter(|(name, _)| !["expected.json", "hlog.json"].contains(&name.as_str())).collect()
}

/// Checks that a beginning of a file is read, or rejected in one sentence that names its format or
/// none.
fn check_beginning(name: &str, text: &str, end: usize) {
    let Err(error) = parse(&text[..end]) else { return };
    let message = error.to_string();
    let at = format!("{name}, {end} bytes: {message}");
    assert!(!message.is_empty() && message.lines().count() == 1 && message.len() < 600, "{at}");
    let behind = || log_prefix::detect_behind(text).map(|(detection, _)| detection);
    let format = detect::detect(text).or_else(behind).unwrap().format.name();
    let names_format = message.starts_with(&format!("cannot read {format} ("));
    assert!(names_format || message.starts_with("unknown format: "), "{at}");
}

#[test]
fn beginnings_of_files_name_their_format() {
    let files = foreign_files();
    assert!(files.len() >= 40, "{} files", files.len());
    let mut random = SplitMix64::new(7);
    for (name, text) in &files {
        let random_ends = (0..24).map(|_| random.index(text.len()));
        let lines = text.match_indices('\n').map(|(at, _)| at + 1).take(8);
        for end in random_ends.chain(lines).filter(|&end| text.is_char_boundary(end)) {
            check_beginning(name, text, end);
        }
    }
}

#[test]
fn equal_tags_are_numbered() {
    let mut report = parse(include_str!("../../../../tests/fixtures/cyclictest.json")).unwrap();
    report.subjects.truncate(2);
    for (subject, id) in report.subjects.iter_mut().zip(["node, worker", "node__worker"]) {
        id.clone_into(&mut subject.id);
    }
    let read = parse(&hlog::write(&report).unwrap()).unwrap();
    let ids: Vec<&str> = read.subjects.iter().map(|subject| subject.id.as_str()).collect();
    assert_eq!(ids, ["node__worker", "node__worker_2"]);
    report.subjects[1].histogram = None;
    report.subjects[1].rounds.clear();
    let error = hlog::write(&report).unwrap_err().to_string();
    assert_eq!(error, "node__worker has no histogram");
}

#[test]
fn open_last_lines_are_named() {
    let cyclictest = include_str!("../../../../tests/fixtures/formats/cyclictest-1.5-quiet.txt");
    let rtla = include_str!("../../../../tests/fixtures/formats/rtla-6.3-osnoise.txt");
    let hwlatdetect = include_str!("../../../../tests/fixtures/formats/hwlatdetect-2.6-report.txt");
    let bpftrace = include_str!("../../../../tests/fixtures/formats/bpftrace-hist.txt");
    let is_open = |text: &str| {
        let warnings = parse(text).unwrap().warnings;
        warnings.iter().any(|warning| warning.code == LAST_LINE_WARNING)
    };
    // A number is cut off, or the rest of its line.
    for (text, lost) in [(cyclictest, 2), (rtla, 3), (hwlatdetect, 60), (bpftrace, 60)] {
        assert!(!is_open(text), "{text}");
        assert!(is_open(&text[..text.len() - lost]), "{text}");
    }
    // The bars of bpftrace show that the line is complete.
    assert!(!is_open(bpftrace.trim_end()));
    // Footers show that the text is complete.
    let table = include_str!("../../../../tests/fixtures/formats/java-1.2.1.hgrm");
    assert!(!is_open(table.trim_end()));
    // A table without a footer ends with a number, unless its last distance is infinite.
    let rows = table.split("#[").next().unwrap().trim_end();
    assert!(is_open(rows) && !is_open(&format!("{rows}\n")));
    let csv = include_str!("../../../../tests/fixtures/formats/java-1.2.1-csv.hgrm");
    assert!(!is_open(csv.trim_end()));
}

/// Returns the number of values in a report.
fn value_count(report: &Report) -> u64 {
    report.subjects.iter().filter_map(|subject| subject.summary.as_ref()).map(|s| s.ticks).sum()
}

#[test]
fn concatenated_outputs_are_all_read() {
    // A log of fractions needs a unit. A prefix is recognized if all lines have it.
    let is_text = |name: &str| !name.ends_with(".json") && !name.starts_with("java-logged");
    let files = foreign_files();
    let texts = files.iter().filter(|(name, text)| is_text(name) && text.ends_with('\n'));
    let sources: Vec<(&str, Report)> =
        texts.filter_map(|(_, text)| Some((text.as_str(), parse(text).ok()?))).collect();
    let mut read_twice = BTreeSet::new();
    for (i, (text, first)) in sources.iter().enumerate() {
        // Every file meets itself and some of other formats.
        for step in (0..).step_by(7).take(8) {
            let (other, second) = &sources[(i + step) % sources.len()];
            let Ok(both) = parse(&format!("{text}{other}")) else { continue };
            if step == 0 {
                read_twice.insert(first.tool.name.clone());
            }
            let line = text.lines().next().unwrap_or_default();
            let at = format!("{line}, {}", second.tool.name);
            assert_eq!(value_count(&both), value_count(first) + value_count(second), "{at}");
            // The lines of these files have no order, and are added up.
            let is_sum = ["hdr-log", "hwlatdetect"].contains(&second.tool.name.as_str());
            let subjects = first.subjects.len() + second.subjects.len();
            assert!(is_sum || both.subjects.len() == subjects, "{at}");
        }
    }
    let numbered = ["bpftrace", "hdr-log", "hdr-percentiles", "xenomai-latency"];
    assert!(numbered.iter().all(|tool| read_twice.contains(*tool)), "{read_twice:?}");
}

#[test]
fn failed_runs_are_named() {
    for text in [FIXTURES[0], FIXTURES[3]] {
        let is_failed = |text: &str| {
            let warnings = parse(text).unwrap().warnings;
            warnings.iter().any(|warning| warning.code == FAILED_RUN_WARNING)
        };
        let failed = text.replace("\"return_code\": 0", "\"return_code\": 1");
        assert_ne!(failed, text);
        assert!(!is_failed(text) && is_failed(&failed));
    }
}

#[test]
fn prefixed_texts_are_read() {
    for text in [
        include_str!("../../../../tests/fixtures/formats/java-2.2.2.hlog"),
        include_str!("../../../../tests/fixtures/formats/c-0.11.8-csv.hgrm"),
    ] {
        let expected = parse(text).unwrap().subjects;
        for prefix in [
            "2026-11-28T10:00:00.123Z app[1]: ",
            "app-1  | ",
            "INFO\t",
            "12:30 [main] a.B - ",
            "-- ",
        ] {
            let lines: Vec<String> = text.lines().map(|line| format!("{prefix}{line}\n")).collect();
            assert_eq!(parse(&lines.concat()).unwrap().subjects, expected, "{prefix}");
        }
    }
}

/// A terminal echoes Ctrl-C in front of the first line that a tool prints then.
#[test]
fn echo_of_interrupt_is_removed() {
    let line = "T: 0 (12) P:9 I:1000 C:  70 Min:      1 Act:    3 Avg:    4 Max:      57\n";
    let lines = format!("{line}{}", line.replace("T: 0 (12)", "T: 1 (13)"));
    let rtla = include_str!("../../../../tests/fixtures/rtla-timerlat.txt");
    for (text, first) in [(lines.as_str(), "T: 0"), (rtla, "# RTLA")] {
        let echoed = text.replacen(first, &format!("^C{first}"), 1);
        assert_eq!(parse(&echoed).unwrap(), parse(text).unwrap(), "{first}");
    }
}

#[test]
fn type_errors_name_path_and_position() {
    let error =
        parse("{\"schema\": \"osjitter.report/1\",\n \"tool\": 3}").unwrap_err().to_string();
    assert!(error.contains("tool: ") && error.contains("line 2 column"), "{error}");
}

#[test]
fn invalid_values_are_named_by_path() {
    let good: Value = serde_json::from_str(&small_report().to_json()).unwrap();
    let cases: BTreeMap<&str, (&str, Value)> = BTreeMap::from([
        (
            "/subjects/0/rounds/3/lateness_ns/17",
            ("subjects[0].rounds[3].lateness_ns[17]", i64::MIN.into()),
        ),
        ("/subjects/0/rounds/5/tick/2", ("subjects[0].rounds[5].tick[2]", 0.into())),
        (
            "/subjects/0/rounds/1/until_unpark_ns",
            ("subjects[0].rounds[1].until_unpark_ns", Value::Array(vec![])),
        ),
        ("/subjects/0/summary/skipped", ("subjects[0].summary: delivered", 99.into())),
        ("/subjects/0/summary/lateness_ns/p90", ("subjects[0].summary.lateness_ns.p90", 1.into())),
        ("/subjects/0/histogram/count", ("subjects[0].histogram: histogram holds", 3.into())),
        (
            "/subjects/0/histogram/data",
            ("subjects[0].histogram: histogram data", "HISTFA==".into()),
        ),
        ("/subjects/0/instances", ("subjects[0].instances", 0.into())),
        (
            "/subjects/0/period_ns",
            ("subjects[0].rounds[0], its last deadline", 500_000_000_000_000_000_u64.into()),
        ),
        ("/subjects/0/rounds/0/start_ns", ("subjects[0].rounds[0].start_ns", u64::MAX.into())),
        ("/subjects/0/rounds/2/slot", ("subjects[0].rounds[2].slot", (-1).into())),
    ]);
    for (pointer, (says, value)) in cases {
        let mut bad = good.clone();
        *bad.pointer_mut(pointer).expect("a field of that name") = value;
        let error = parse(&bad.to_string()).unwrap_err().to_string();
        assert!(error.contains(says), "{pointer}: {error}");
        assert!(error.contains(SCHEMA), "{pointer}: {error}");
    }
}

#[test]
fn invalid_foreign_numbers_are_rejected() {
    let with = |text: &str, from: &str, to: &str| {
        assert!(text.contains(from), "the fixture has {from}");
        text.replacen(from, to, 1)
    };
    let cyclictest = FIXTURES[0];
    let jitterdebugger = FIXTURES[4];
    let one_thread = with(cyclictest, "\"num_threads\": 2", "\"num_threads\": 1");
    let cases = [
        (with(cyclictest, "\"cycles\": ", "\"cycles\": 1"), ""),
        (with(cyclictest, "\"cycles\": ", "\"cycles\": -"), "invalid value: integer"),
        (with(cyclictest, "\"cycles\": ", "\"was\": 0, \"cycles\": 0"), "invalid number"),
        (
            with(cyclictest, "\"max\": ", "\"max\": 18446744073709551615, \"was\": "),
            "thread.0: invalid time 18446744073709551615",
        ),
        (with(cyclictest, "\"min\": ", "\"min\": 300, \"was\": "), "outside of the stated minimum"),
        // An impossible mean is unknown.
        (with(cyclictest, "\"avg\": ", "\"avg\": -nan, \"was\": "), ""),
        (with(cyclictest, "\"avg\": ", "\"avg\": -3, \"was\": "), ""),
        (with(FIXTURES[2], "\"avg\": ", "\"avg\": -3, \"was\": "), ""),
        (with(FIXTURES[2], "\"avg\": ", "\"avg\": nan, \"was\": "), ""),
        (with(FIXTURES[2], "\"max\": ", "\"was\": "), "the maximum is missing"),
        (
            with(cyclictest, "\"histogram\": {", "\"histogram\": {\"70\": 1, \"70\": 2, "),
            "bin 70 comes twice",
        ),
        (
            with(cyclictest, "\"histogram\": {", "\"histogram\": {\"7\": 9223372036854775807, "),
            "in one histogram",
        ),
        (with(cyclictest, "cyclictest -q", "stranger -q"), ""),
        (
            with(&with(cyclictest, "cyclictest -q", "stranger -q"), "\"histogram\"", "\"bins\""),
            "of rt-tests, cyclictest and oslat are read",
        ),
        (with(jitterdebugger, "\"version\": 3", "\"version\": 9"), "version 9"),
        (with(jitterdebugger, "\"avg\": ", "\"avg\": -nan, \"was\": "), ""),
        (with(cyclictest, "\"num_threads\": 2", "\"num_threads\": 5"), "2 threads, but the stated"),
        (
            with(FIXTURES[3], "\"num_threads\": 2", "\"num_threads\": 1"),
            "2 threads, but the stated",
        ),
        (with(cyclictest, "\"num_threads\": 2,", ""), ""),
        (with(cyclictest, "\"max\": ", "\"was\": "), "thread.0: the maximum is missing"),
        (with(jitterdebugger, "\"max\": ", "\"was\": "), "cpu.0: the maximum is missing"),
        (with(&one_thread, "\"1\": {", "\"0\": {"), "entry 0 comes twice"),
        (with(jitterdebugger, "\"count\": ", "\"was\": "), "cpu.0: the count is missing"),
        (with(jitterdebugger, "\"1\": {", "\"0\": {"), "entry 0 comes twice"),
        (
            with(jitterdebugger, "\"resolution_in_ns\": 1000", "\"resolution_in_ns\": 10"),
            "resolution_in_ns 10",
        ),
    ];
    for (text, says) in cases {
        match parse_and_write(&text) {
            Ok(_) => assert!(says.is_empty(), "{says}"),
            Err(error) => {
                assert!(!says.is_empty() && error.to_string().contains(says), "{says}: {error}")
            }
        }
    }
    let no_sample = "{\"version\": 3, \"cpu\": {\"0\": {\"histogram\": {}, \"count\": 0, \"min\": 18446744073709551615, \
                     \"max\": 0, \"avg\": null}}}";
    assert!(parse_and_write(no_sample).unwrap().subjects[0].summary.is_none());
}

proptest! {
    #[test]
    fn mutated_reports_never_panic(which in any::<prop::sample::Index>(), extreme in 0..EXTREME_VALUES.len()) {
        let mut value: Value = serde_json::from_str(&small_report().to_json()).unwrap();
        let mut found = Vec::new();
        numbers(&value, "", &mut found);
        // The counts and times of summaries are few among thousands of samples, so half of the
        // draws are taken from them.
        let (samples, others): (Vec<String>, Vec<String>) =
            found.into_iter().partition(|at| at.contains("lateness_ns/") || at.contains("/tick/"));
        let pool = if extreme % 2 == 0 { &others } else { &samples };
        let at: &String = which.get(pool);
        *value.pointer_mut(at).unwrap() = "evil".into();
        let _ = parse_and_write(&value.to_string().replacen("\"evil\"", EXTREME_VALUES[extreme], 1));
    }

    #[test]
    fn mutated_imports_never_panic(which in any::<prop::sample::Index>(), extreme in 0..EXTREME_VALUES.len(), file in 0..5_usize) {
        let mut value: Value = serde_json::from_str(FIXTURES[file]).unwrap();
        let mut found = Vec::new();
        numbers(&value, "", &mut found);
        let at: &String = which.get(&found);
        *value.pointer_mut(at).unwrap() = "evil".into();
        let _ = parse_and_write(&value.to_string().replacen("\"evil\"", EXTREME_VALUES[extreme], 1));
    }

    #[test]
    fn mutated_bytes_never_panic(
        file in 0..=6_usize,
        edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..4_u8), 1..5),
    ) {
        let report = small_report().to_json();
        let mut bytes = FIXTURES.get(file).map_or(report.as_str(), |f| f).as_bytes().to_vec();
        for (at, byte, kind) in edits {
            if bytes.is_empty() {
                break;
            }
            let at = at.index(bytes.len());
            match kind {
                0 => bytes.truncate(at),
                1 => bytes[at] = byte,
                2 => drop(bytes.remove(at)),
                _ => bytes.insert(at, bytes[at]),
            }
        }
        let _ = parse_and_write(&String::from_utf8_lossy(&bytes));
    }
}
