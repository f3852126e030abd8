//! Tests of the reader of logs. Expected values follow from the specification: a value counts at the
//! highest value that is equivalent to it. `tests/it/formats` compares files of other
//! implementations with what their own readers find.

use files::report::MAX_SUBJECTS;

use super::*;
use crate::hlog::write::write;

/// Two digits and a lowest value of 20 us, the defaults of jHiccup: 1,000 values of 330,000 ns and
/// 20 of 1.8 s.
const TWO_DIGITS: &str = "HISTFAAAACl42pNpmSzMwMDAxgABTBDKT4GBgdnNYMcCBvsPEBH1C/yNohoAeeoGgQ==";

fn read_log(text: &str) -> Report {
    let report = read(text, None).unwrap();
    files::file::File::check(&report).unwrap();
    report
}

fn lateness(subject: &Subject) -> &Distribution {
    &subject.summary.as_ref().unwrap().lateness_ns
}

fn interval(start: &str, length: &str, max: &str) -> String {
    format!("{start},{length},{max},{TWO_DIGITS}\n")
}

fn message(report: &Report, code: &str) -> Option<String> {
    report.warnings.iter().find(|w| w.code == code).map(|w| w.message.clone())
}

#[test]
fn values_count_at_highest_equivalent() {
    let report = read_log(&interval("0.0", "2.0", "1803.551"));
    let d = lateness(&report.subjects[0]);
    assert_eq!((d.p50, d.max), (Some(344_063), 1_803_550_719));
    let round = report.subjects[0].rounds[0].summary.as_ref().unwrap();
    assert_eq!(round.lateness_ns, *d, "the whole is its only part");
    let stored = histogram::unpack(report.subjects[0].histogram.as_ref().unwrap()).unwrap();
    assert_eq!(stored.max(), 1_803_550_719);
    assert_eq!((report.clock.value_digits, report.clock.error_bound_ns), (Some(2), 16_384));
}

#[test]
fn second_unit_is_rejected() {
    let line = interval("0.0", "2.0", "1803.551");
    let in_unit = |unit: &str| format!("#[Values are in {unit}]\n{line}");
    let twice = format!("{}{}", in_unit("nanoseconds"), in_unit("nanoseconds"));
    assert_eq!(read_log(&twice).subjects[0].rounds.len(), 2);
    let mixed = format!("{}{}", in_unit("nanoseconds"), in_unit("microseconds"));
    let error = read(&mixed, None).unwrap_err().to_string();
    assert!(error.contains("line 3 states another unit"), "{error}");
}

#[test]
fn intervals_are_sorted_by_time() {
    let log = format!(
        "\n{}\n\n{}",
        interval("7.0", "1.0", "1803.551"),
        interval("5.5", "1.5", "1803.551")
    );
    let report = read_log(&log);
    let starts: Vec<(u64, u64)> =
        report.subjects[0].rounds.iter().map(|round| (round.index, round.start_ns)).collect();
    assert_eq!(starts, [(0, 0), (1, 1_500_000_000)]);
    assert_eq!(report.duration_ns, 2_500_000_000);
    assert!(!report.started_utc.contains("1970"), "{}", report.started_utc);
}

#[test]
fn unit_is_stated_known_or_guessed() {
    let p50 = |report: &Report| lateness(&report.subjects[0]).p50;
    let guessed = read_log(&interval("0.0", "2.0", "1803.551"));
    assert!(message(&guessed, "import-unit").is_some_and(|m| m.contains("guess")));
    // The column has the value itself, as the C implementation writes it.
    let unknown = read_log(&interval("0.0", "2.0", "1803550719.0"));
    assert_eq!(p50(&unknown), Some(344_063));
    assert!(message(&unknown, "import-unit").is_some_and(|m| !m.contains("guess")));
    let log = format!("#[Logging for: READ]\n{}", interval("0.0", "2.0", "1803.551"));
    let ycsb = read_log(&log);
    assert_eq!((p50(&ycsb), message(&ycsb, "import-unit")), (Some(344_063_000), None));
    let flag = read(&log, Some(Unit::Ns)).unwrap();
    assert_eq!(p50(&flag), Some(344_063));
    assert!(message(&flag, "import-unit").is_some_and(|m| m.contains("--unit")));
    let error = read(&interval("0.0", "2.0", "0.0"), Some(Unit::S)).unwrap_err().to_string();
    assert!(error.contains("cannot be times in seconds"), "{error}");
}

#[test]
fn incomplete_last_line_is_dropped() {
    let whole = interval("0.0", "2.0", "1803.551");
    for cut in ["3.0", "3.0,1.0,1.0,HISTFAAAACl4", "Tag="] {
        let report = read_log(&format!("{whole}{cut}"));
        assert_eq!(report.subjects[0].rounds.len(), 1, "{cut}");
        assert!(message(&report, "import-cut").is_some(), "{cut}");
        let error = read(&format!("{whole}{cut}\n"), None).unwrap_err().to_string();
        assert!(error.contains("line 2"), "{error}");
        assert!(read(cut, None).is_err(), "nothing is left of {cut}");
    }
}

#[test]
fn own_log_has_standard_header() {
    let report = read_log(&interval("1700000000.0", "2.0", "1803.551"));
    let log = write(&report).unwrap();
    let lines: Vec<&str> = log.lines().collect();
    assert_eq!(
        lines[..4],
        [
            "#[Lateness in nanoseconds; the tag is the subject]",
            "#[Histogram log format version 1.3]",
            "#[StartTime: 1700000000.000 (seconds since epoch), Tue, 14 Nov 2023 22:13:20 +0000]",
            "#[BaseTime: 1700000000.000 (seconds since epoch)]",
        ]
    );
    assert!(lines[5].starts_with("Tag=untagged,0.000,2.000,1803.551,HISTF"), "{}", lines[5]);
    // The C implementation reads comments into a buffer of 128 bytes.
    assert!(lines[..5].iter().all(|line| line.len() < 127));
    let again = read_log(&log);
    let figures = |report: &Report| {
        let d = lateness(&report.subjects[0]);
        (d.p50, d.p90, d.p99, d.max)
    };
    assert_eq!(figures(&again), figures(&report));
    assert_eq!(again.started_utc, report.started_utc);
    assert_eq!(message(&again, "import-unit"), None);
    let unknown = read_log(&interval("1.0", "2.0", "1803.551"));
    assert!(!write(&unknown).unwrap().contains("Time:"), "an unknown start is not written");
}

#[test]
fn parts_of_own_tags_are_read() {
    let line = interval("0.0", "2.0", "1803.551");
    let log = |tag: &str| format!("#{}\nTag={tag},{line}", histogram::LOG_COMMENT);
    let read_tag = |tag: &str| {
        let subject = &read_log(&log(tag)).subjects[0];
        let texts = [subject.runtime.clone(), subject.load.clone()];
        (subject.name.clone(), subject.instances, subject.period_ns, texts)
    };
    let text = |text: &str| Some(text.to_owned());
    assert_eq!(
        read_tag("os-interval*3@500us/current-thread+cpu:2"),
        ("os-interval".to_owned(), 3, 500_000, [text("current-thread"), text("cpu:2")])
    );
    let alone = ("./a/b".to_owned(), 1, 1_000_000, [None, None]);
    assert_eq!(read_tag("./a/b@1ms"), alone);
    for tag in ["x*0@1ms", "x*many@1ms", "x*99999999999@1ms"] {
        let name = tag.trim_end_matches("@1ms").to_owned();
        assert_eq!(read_tag(tag), (name, 1, 1_000_000, [None, None]), "the number is none");
    }
    for tag in ["@1ms", "*2@1ms", "plain"] {
        assert_eq!(read_tag(tag), (tag.to_owned(), 1, 0, [None, None]));
    }
    // In the log of another writer, a tag has no parts.
    let other = read_log(&format!("Tag=x*3@1ms,{line}"));
    assert_eq!((other.subjects[0].instances, other.subjects[0].period_ns), (1, 0));
}

#[test]
fn instances_share_a_line() {
    let mut report = read_log(&interval("1700000000.0", "2.0", "1803.551"));
    let measured = &mut report.subjects[0];
    (measured.instances, measured.period_ns) = (2, 1_000_000);
    let entry = |instance, start_ns, late_ns| Round {
        instance,
        start_ns,
        lateness_ns: vec![late_ns; 3],
        ..Round::default()
    };
    measured.rounds = vec![entry(0, 5_000_000, 10), entry(1, 9_000_000, 20)];
    let log = write(&report).unwrap();
    assert!(log.contains("\nTag=untagged,0.005,0.007,0.000,"), "{log}");
    let again = &read_log(&log).subjects[0];
    assert_eq!((again.rounds.len(), again.summary.as_ref().unwrap().ticks), (1, 6));
}

#[test]
fn late_values_are_missed_at_least() {
    let line = interval("0.0", "2.0", "1803.551");
    let missed = |period: &str| {
        let log = format!("#{}\nTag=x@{period},{line}", histogram::LOG_COMMENT);
        let summary = read_log(&log).subjects[0].summary.clone().unwrap();
        (summary.missed, summary.missed_at_least)
    };
    assert_eq!(missed("1ms"), (None, Some(20)));
    assert_eq!(missed("10s"), (Some(0), None));
}

#[test]
fn as_many_tags_as_subjects() {
    let tagged = |tags: usize| -> String {
        let line = interval("0.0", "2.0", "1803.551");
        (0..tags).map(|tag| format!("Tag={tag},{line}")).collect()
    };
    let report = read_log(&tagged(300));
    assert_eq!(report.subjects.len(), 300);
    let again = read_log(&write(&report).unwrap());
    assert_eq!(again.subjects.len(), 300, "what is written can be read again");
    let error = read(&tagged(MAX_SUBJECTS + 1), None).unwrap_err().to_string();
    assert!(error.ends_with("tags: 8193 entries, expected at most 8192"), "{error}");
}

#[test]
fn times_of_centuries_are_rejected() {
    assert_eq!(nanoseconds(1.5), Some(1_500_000_000));
    for seconds in [-1.0, 1.844_674_407_370_955_2e10, 1e30, f64::INFINITY, f64::NAN] {
        assert_eq!(nanoseconds(seconds), None, "{seconds}");
    }
}
