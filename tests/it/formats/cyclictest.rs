//! cyclictest of rt-tests: JSON and text.

use serde_json::Value;

use crate::osjitter::{Osjitter, one_line};

use super::{
    Figures, NamelessFile, fixture, fixture_text, ids, import, import_text, json_figures,
    run_report, subject, warnings,
};

/// The values of the single thread of most files: 900 of 5 us, 99 of 6 us and one of 40 us.
fn expected_figures() -> Figures {
    Figures::from_bins(&[(5_000, 900), (6_000, 99), (40_000, 1)], 5_130)
}

#[test]
fn period_is_read_from_bundled_options() {
    let report = import(&fixture("cyclictest-bundled-options.json"), &[]);
    let subject = subject(&report, "cyclictest@500us/thread-0");
    assert_eq!(subject["period_ns"], 500_000);
    assert_eq!(Figures::new(subject), expected_figures());
    assert_eq!(report["duration_ns"], 10_000_000_000_u64);
}

#[test]
fn period_is_unknown_if_unclear() {
    let text = fixture_text("cyclictest-bundled-options.json").replace("-mi500", "-Zi500");
    let report = import_text(&text);
    assert_eq!(ids(&report), ["cyclictest/thread-0"]);
    assert_eq!(subject(&report, "cyclictest/thread-0")["period_ns"], 0);
    assert_eq!(warnings(&report, "import-no-period").len(), 1);
    let csv = run_report(&NamelessFile::new(&text).path(), &["--format", "csv"]).exits(0).stdout;
    let cells: Vec<Vec<&str>> = csv.lines().map(|line| line.split(',').collect()).collect();
    for unknown in ["period_ns", "missed", "skipped", "coalesced", "early"] {
        let column = cells[0].iter().position(|name| *name == unknown).unwrap();
        assert_eq!(cells[1][column], "", "{unknown} is not known");
    }
}

#[test]
fn default_period_is_of_cyclictest_only() {
    let text = fixture_text("cyclictest-renamed.json").replace("-i 1000 ", "");
    let default = import_text(&text);
    assert_eq!(ids(&default), ["cyclictest@1ms/thread-0"]);
    assert!(warnings(&default, "import-default-period").concat().contains("1 ms"));
    let stranger = import_text(&text.replace("./cyclictest-static", "stranger"));
    assert_eq!(ids(&stranger), ["cyclictest/thread-0"]);
    assert_eq!(warnings(&stranger, "import-no-period").len(), 1);
}

#[test]
fn counts_of_other_tools_are_unknown() {
    let file = fixture("cyclictest-renamed.json");
    for count in ["skipped=1%", "coalesced=1%", "early=1%"] {
        let gate = ["gate", "--report", file.to_str().unwrap(), "--limit", count];
        Osjitter::new(gate).run().refuses("does not tell").refuses("limit max");
    }
}

/// A file in which nearly all values are above the bins, and the largest is five periods late.
fn mostly_above_bins() -> NamelessFile {
    let text = fixture_text("cyclictest-renamed.json");
    let text = text.replace("\"cycles\": 1000", "\"cycles\": 100000");
    NamelessFile::new(text.replace("\"max\": 40", "\"max\": 5000"))
}

#[test]
fn values_above_bins_are_unknown() {
    let file = mostly_above_bins();
    let report = file.import();
    let summary = &subject(&report, "cyclictest@1ms/thread-0")["summary"];
    for unknown in ["missed", "skipped", "coalesced", "early"] {
        assert_eq!(summary[unknown], Value::Null, "{unknown}");
    }
    assert_eq!((&summary["missed_at_least"], &summary["ticks"]), (&1.into(), &100_000.into()));
    for format in ["table", "markdown", "html"] {
        let text = run_report(&file.path(), &["-v", "--format", format]).exits(0).stdout;
        assert!(text.contains("at least 1 tick") && !text.contains("<0.01 %"), "{format}: {text}");
        let words = one_line(&text);
        assert!(words.contains("99000 of 100000 values are above the last bin"), "{format}");
    }
    let csv = run_report(&file.path(), &["--format", "csv"]).exits(0).stdout;
    let cells: Vec<Vec<&str>> = csv.lines().map(|line| line.split(',').collect()).collect();
    for unknown in ["missed", "skipped", "coalesced", "early"] {
        let column = cells[0].iter().position(|name| *name == unknown).unwrap();
        assert_eq!(cells[1][column], "", "{unknown}");
    }
    for (limit, says) in [
        ("missed=1%", "does not count all missed ticks; limit max instead"),
        ("missed<1%", "at least 1 were missed, and the others are not counted"),
    ] {
        let path = file.path();
        let gate = ["gate", "--report", path.to_str().unwrap(), "--max-stall", "1ms", "--limit"];
        let gate =
            if limit.contains('<') { gate.to_vec() } else { [&gate[..3], &gate[5..]].concat() };
        Osjitter::new(gate).args([limit]).run().refuses(says);
    }
}

#[test]
fn unknown_counts_are_empty_cells() {
    let home = tempfile::tempdir().unwrap();
    let bins = home.path().join("a.bins.csv");
    run_report(&mostly_above_bins().path(), &["--format", "bins", "--out", bins.to_str().unwrap()])
        .exits(0);
    let intervals = std::fs::read_to_string(home.path().join("a.intervals.csv")).unwrap();
    assert!(
        intervals.lines().nth(1).unwrap().contains(",100000,100000,,,,,5000000,"),
        "{intervals}"
    );
    let again = import(&bins, &[]);
    let summary = &again["subjects"][0]["summary"];
    for unknown in ["missed", "missed_at_least", "skipped", "coalesced", "early"] {
        assert_eq!(summary[unknown], Value::Null, "{unknown}");
    }
    assert_eq!(summary["lateness_ns"]["max"], 5_000_000);
}

#[test]
fn values_within_a_period_are_exact() {
    let report = import(&fixture("cyclictest-renamed.json"), &[]);
    let summary = &subject(&report, "cyclictest@1ms/thread-0")["summary"];
    assert_eq!((&summary["missed"], &summary["missed_at_least"]), (&0.into(), &Value::Null));
    assert_eq!(summary["skipped"], Value::Null);
}

#[test]
fn program_may_have_any_name() {
    let text = fixture_text("cyclictest-renamed.json");
    for program in ["./cyclictest-static", "/opt/my tools/cyclictest", "stranger"] {
        let report = import_text(&text.replace("./cyclictest-static", program));
        let subject = subject(&report, "cyclictest@1ms/thread-0");
        assert_eq!(Figures::new(subject), expected_figures(), "{program}");
    }
}

#[test]
fn thread_without_a_cycle_is_dropped() {
    let report = import(&fixture("cyclictest-thread-without-a-cycle-nan.json"), &[]);
    let first = subject(&report, "cyclictest@1ms/thread-0");
    assert_eq!(Figures::new(first), expected_figures());
    let second = subject(&report, "cyclictest@1ms/thread-1");
    assert_eq!((&second["summary"], &second["status"]["state"]), (&Value::Null, &"failed".into()));
}

fn export(name: &str, more: &[&str]) -> Value {
    let more = [&["--format", "cyclictest-json"], more].concat();
    serde_json::from_str(&run_report(&fixture(name), &more).exits(0).stdout).unwrap()
}

#[test]
fn bound_cpu_is_exported() {
    let cpu = |name: &str| export(name, &[])["thread"]["0"]["cpu"].as_i64();
    assert_eq!(cpu("cyclictest-pinned-cpu6.json"), Some(6));
    assert_eq!(cpu("oslat-2.10-quiet-core.json"), Some(2));
    assert_eq!(cpu("cyclictest-hist.txt"), Some(-1), "as cyclictest writes for none");
}

#[test]
fn export_is_in_microseconds() {
    let raw: Value = serde_json::from_str(&fixture_text("cyclictest-pinned-cpu6.json")).unwrap();
    let exported = export("cyclictest-pinned-cpu6.json", &[]);
    assert_eq!(exported["resolution_in_ns"], 0);
    for key in ["histogram", "cycles", "min", "max", "avg", "cpu"] {
        assert_eq!(exported["thread"]["0"][key], raw["thread"]["0"][key], "{key}");
    }
    for key in ["start_time", "end_time"] {
        assert_eq!(exported[key], raw[key], "{key}");
    }
    let in_ns = export("cyclictest-pinned-cpu6.json", &["--resolution", "ns"]);
    assert_eq!(in_ns["resolution_in_ns"], 1);
    assert_eq!(in_ns["thread"]["0"]["max"], 40_000);
    let unknown = export("cyclictest-hist.txt", &[]);
    assert_eq!((&unknown["start_time"], &unknown["end_time"]), (&"".into(), &"".into()));
}

/// Values above the last bin are in it if it contains the largest of them, in a coarser unit or within
/// the precision of a stored histogram.
#[test]
fn close_values_above_bins_are_exported() {
    for (unit, max, resolution, last) in [
        ("-N", 1_200_001, "us", "1200"),
        ("-N", 1_200_100, "ns", "1200100"),
        ("", 1_200_100, "us", "1200100"),
    ] {
        let source = serde_json::json!({
            "cmdline": format!("cyclictest {unit} -i 500"),
            "resolution_in_ns": u8::from(unit == "-N"),
            "thread": {"0": {
                "histogram": {"14000": 5, "1200000": 5},
                "cycles": 128, "min": 14_000, "max": max, "avg": 604_666.0
            }}
        });
        let source = NamelessFile::new(source.to_string());
        let args = ["--format", "cyclictest-json", "--resolution", resolution];
        let exported = run_report(&source.path(), &args).exits(0).stdout;
        let thread = &serde_json::from_str::<Value>(&exported).unwrap()["thread"]["0"];
        assert_eq!((&thread["histogram"][last], &thread["cycles"]), (&123.into(), &128.into()));
        assert_eq!(import_text(&exported)["subjects"][0]["summary"]["ticks"], 128);
    }
}

#[test]
fn text_histogram_is_read() {
    let report = import(&fixture("cyclictest-hist.txt"), &[]);
    assert_eq!(ids(&report), ["cyclictest/thread-0", "cyclictest/thread-1"]);
    let first = subject(&report, "cyclictest/thread-0");
    let expected = [(5_000, 900), (6_000, 99), (412_000, 1)];
    assert_eq!(Figures::new(first), Figures::from_bins(&expected, 5_000));
    assert_eq!(first["histogram"]["overflow"]["count"], 1);
    let second = subject(&report, "cyclictest/thread-1");
    let expected = [(3_000, 1), (4_000, 9), (5_000, 950), (6_000, 39), (40_000, 1)];
    assert_eq!(Figures::new(second), Figures::from_bins(&expected, 5_000));
    assert!(warnings(&report, "import-unit").concat().contains("microseconds"));
    let in_ns = import(&fixture("cyclictest-hist.txt"), &["--unit", "ns"]);
    assert_eq!(Figures::new(subject(&in_ns, "cyclictest/thread-1")).max, 40);
}

#[test]
fn unit_is_only_for_unstated_ones() {
    run_report(&fixture("cyclictest-renamed.json"), &["--unit", "ns"])
        .refuses("--unit")
        .refuses("states its unit");
}

/// Computes the numbers of a column of a text histogram, whose values are in microseconds.
fn column_figures(text: &str, column: usize) -> Figures {
    let cells = |line: &str| -> Option<(i64, u64)> {
        let numbers: Vec<&str> = line.split_whitespace().collect();
        Some((numbers.first()?.parse().ok()?, numbers.get(column + 1)?.parse().ok()?))
    };
    let summary = |name: &str| -> i64 {
        let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.split_whitespace().nth(column).unwrap().parse().unwrap()
    };
    let bins = text.lines().filter_map(cells).filter(|bin| bin.1 > 0);
    let bins: Vec<(i64, u64)> = bins.map(|(us, count)| (us * 1_000, count)).collect();
    let max = summary("# Max Latencies:") * 1_000;
    let above = summary("# Histogram Overflows:") as u64;
    Figures::with_larger(bins, max, above, summary("# Avg Latencies:") * 1_000)
}

#[test]
fn printed_histograms_match_their_columns() {
    for (name, prefix) in [
        ("cyclictest-2.4.txt", "cyclictest"),
        // A file of --histfile, with a column of sums.
        ("cyclictest-2.4-sum.txt", "cyclictest"),
        // Printed after the lines of a terminal.
        ("cyclictest-2.4-lines.txt", "cyclictest@500us"),
    ] {
        let text = fixture_text(name);
        let report = import(&fixture(name), &[]);
        let expected = [0, 1].map(|thread| format!("{prefix}/thread-{thread}"));
        assert_eq!(ids(&report), expected, "{name}");
        for (column, id) in expected.iter().enumerate() {
            let found = Figures::new(subject(&report, id));
            assert_eq!(found, column_figures(&text, column), "{name}: {id}");
        }
    }
}

#[test]
fn json_of_bound_thread_is_read() {
    let report = import(&fixture("cyclictest-2.4-pinned.json"), &[]);
    let raw: Value = serde_json::from_str(&fixture_text("cyclictest-2.4-pinned.json")).unwrap();
    let found = subject(&report, "cyclictest@500us/thread-0");
    let figures = Figures::new(found);
    assert_eq!(figures, json_figures(&raw["thread"]["0"], "cycles", 1_000));
    assert_eq!(found["cpu"], 1);
    assert_eq!(report["started_utc"], "2026-11-25T16:02:37Z");
}
