//! rtla of the kernels 5.17 to today, in the layout that its source prints.

use super::{
    Figures, NamelessFile, fixture, fixture_text, ids, import, import_text, subject, warnings,
};

#[test]
fn means_may_have_decimals() {
    let report = import(&fixture("rtla-osnoise-avg-decimals.txt"), &[]);
    let bins = [(1_000, 4_000), (2_000, 900), (7_000, 99), (41_000, 1)];
    assert_eq!(Figures::new(subject(&report, "osnoise/cpu-0")), Figures::from_bins(&bins, 1_310));
    assert_eq!(subject(&report, "osnoise/cpu-1")["summary"]["ticks"], 4_000);
    assert_eq!(report["duration_ns"], 10_000_000_000_u64);
    assert_eq!(warnings(&report, "import-gaps").len(), 1);
}

#[test]
fn impossible_mean_is_unknown() {
    // Before 6.3, the mean of osnoise is divided twice, and 0.
    let text = fixture_text("rtla-osnoise-avg-decimals.txt").replace("1.31", "   0");
    let report = import_text(&text);
    assert_eq!(Figures::new(subject(&report, "osnoise/cpu-0")).mean, None);
    assert_eq!(Figures::new(subject(&report, "osnoise/cpu-1")).mean, Some(1_340));
    assert_eq!(warnings(&report, "import-mean").len(), 1);
}

#[test]
fn histogram_may_be_empty() {
    let new = fixture_text("rtla-osnoise-empty-new.txt");
    // Older versions print the lines without a value.
    let old = new.replace(": 0\n", ": \n");
    for text in [new, old] {
        let report = import_text(&text);
        assert_eq!(ids(&report), ["osnoise"]);
        let reason = &subject(&report, "osnoise")["status"]["reason"];
        assert_eq!(reason, "no noise above the threshold");
    }
}

#[test]
fn other_lines_are_skipped() {
    let text = fixture_text("rtla-timerlat-blank-after-header.txt");
    let report = import_text(&text);
    assert_eq!(ids(&report).len(), 4);
    let figures = Figures::new(subject(&report, "timerlat-thread/cpu-1"));
    assert_eq!((figures.count, figures.min, figures.max), (10_001, 19_000, 371_000));
    let shell = format!(
        "$ rtla timerlat hist -d 10s\nwarning: no BPF\n{text}\nrtla timerlat hit stop tracing\n"
    );
    assert_eq!(import_text(&shell)["subjects"], report["subjects"]);
}

#[test]
fn buckets_suffice_without_summary() {
    let text = fixture_text("rtla-osnoise-avg-decimals.txt");
    let (buckets, _) = text.split_once("count:").unwrap();
    let report = import_text(buckets);
    let bins = [(1_000, 4_000), (2_000, 900), (7_000, 99), (41_000, 1)];
    assert_eq!(Figures::new(subject(&report, "osnoise/cpu-0")), Figures::from_bins(&bins, None));
    let above = buckets.replace("over:         0", "over:         3");
    let error = NamelessFile::new(above).error();
    assert!(error.contains("a histogram of rtla") && error.contains("the maximum"), "{error}");
}

#[test]
fn buckets_may_be_wide() {
    let text = "# RTLA timerlat histogram\n# Time unit is nanoseconds (ns)\n# Duration:   1 00:00:02\n\
                Index   IRQ-003   Thr-003   Usr-003\n0            95         0         0\n1000          5       100         0\n\
                over:         0         0         0\ncount:      100       100         0 \nmin:        412      1300         - \n\
                avg:        600      1500         - \nmax:       1999      1999         - \n";
    let report = import_text(text);
    // A bucket counts at its lower edge, but not below the smallest value.
    let irq = Figures::from_bins(&[(412, 95), (1_000, 5)], 600);
    let found = Figures::new(subject(&report, "timerlat-irq/cpu-3"));
    assert_eq!(found, Figures { max: 1_999, ..irq });
    assert!(subject(&report, "timerlat-user/cpu-3")["summary"].is_null());
    assert_eq!(report["duration_ns"], 86_402_000_000_000_u64);
    for (text, width_ns, says) in [
        (text.to_owned(), 1_000, "whole microseconds"),
        (text.replace("nanoseconds (ns)", "microseconds (us)"), 1_000_000, "buckets of up to 1ms"),
    ] {
        let report = import_text(&text);
        assert_eq!(report["clock"]["error_bound_ns"], width_ns);
        let rounded = warnings(&report, "import-rounded").concat();
        assert!(rounded.contains(says), "{rounded}");
    }
}
