//! Percentile distributions: rounded columns, other headings, and tables without a footer.

use super::{
    Figures, NamelessFile, fixture, fixture_text, import, import_text, run_report, subject,
    warnings,
};

fn figures(text: &str) -> Figures {
    Figures::new(subject(&import_text(text), "distribution"))
}

#[test]
fn rounded_percentiles_keep_every_row() {
    let report = import(&fixture("wrk2-rounded.txt"), &[]);
    let found = Figures::new(subject(&report, "distribution"));
    let bins = [
        (50_000, 1),
        (480_000, 49_999_999),
        (1_200_000, 49_000_000),
        (12_500_000, 999_000),
        (201_471_000, 990),
        (203_775_000, 8),
        (2_308_095_000, 2),
    ];
    let expected = Figures::from_bins(&bins, 520_000);
    assert_eq!(found, Figures { max: 2_308_096_000, ..expected });
    // The values between the rounded rows are in the histogram as well.
    let rows = run_report(&fixture("wrk2-rounded.txt"), &["--format", "hgrm"]).exits(0).stdout;
    let has_count = |line: &&str| line.split_whitespace().nth(2) == Some("99999998");
    let row = rows.lines().find(has_count).unwrap_or_else(|| panic!("{rows}"));
    let value: f64 = row.split_whitespace().next().unwrap().parse().unwrap();
    assert!((203_700.0..204_800.0).contains(&value), "{row}");
}

#[test]
fn vegeta_states_its_unit() {
    let report = import(&fixture("vegeta-12-hdrplot.txt"), &[]);
    let found = Figures::new(subject(&report, "distribution"));
    assert_eq!((found.count, found.min, found.max), (1_000, 412_339, 55_317_402));
    assert_eq!((found.p50, found.p99, found.mean), (Some(1_214_905), Some(9_481_033), None));
    assert!(warnings(&report, "import-unit").is_empty());
}

#[test]
fn mean_of_rows_is_unknown() {
    let text = fixture_text("java-2.2.2.hgrm");
    let (rows, _) = text.split_once("#[").unwrap();
    let (whole, cut) = (figures(&text), figures(rows));
    assert_eq!(whole.mean.map(|mean| mean / 1_000), Some(820));
    assert_eq!((cut.count, cut.p50, cut.mean), (whole.count, whole.p50, None));
    let file = NamelessFile::new(rows);
    let table = run_report(&file.path(), &[]).exits(0).stdout;
    assert!(table.contains("import-mean"), "{table}");
    let csv = run_report(&file.path(), &["--format", "csv"]).exits(0).stdout;
    let cells: Vec<Vec<&str>> = csv.lines().map(|line| line.split(',').collect()).collect();
    let column = cells[0].iter().position(|name| *name == "mean_ns").unwrap();
    assert_eq!(cells[1][column], "");
}

#[test]
fn tables_of_logs_are_read() {
    let logged = import(&fixture("java-logged-without-footer.hgrm"), &[]);
    let found = Figures::new(subject(&logged, "distribution"));
    assert_eq!((found.count, found.min, found.max), (1_000, 1_000_000, 9_000_000));
    let text = fixture_text("java-2.2.2.hgrm");
    let with_prefix = |prefix: &str| -> String {
        text.lines().map(|line| format!("{prefix} {line}\n")).collect()
    };
    let expected = figures(&text);
    for change in [
        text.replace('\n', "\r\n"),
        text.replace("#[", "[Info]        #["),
        with_prefix("[Info]"),
        with_prefix("Nov 27 10:00:00 host app[7]:"),
        with_prefix("#"),
    ] {
        assert_eq!(figures(&change), expected, "{change:.300}");
    }
}
