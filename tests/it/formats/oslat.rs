//! oslat of rt-tests. Versions up to 2.4 round all values up; later ones only the labels of bins.

use super::{Figures, fixture, fixture_text, import, import_text, subject, warnings};

#[test]
fn labels_are_upper_edges() {
    // Since 2023 the label of the last bin is above the largest value.
    let report = import(&fixture("oslat-2.10-quiet-core.json"), &[]);
    let bins = [(1_000, 90_000_000), (2_000, 40), (5_000, 9), (8_000, 1)];
    let expected = Figures { min: 0, ..Figures::from_bins(&bins, 1_000) };
    assert_eq!(Figures::new(subject(&report, "oslat/cpu-2")), expected);
    assert!(warnings(&report, "import-overflow").is_empty());
    assert_eq!(warnings(&report, "import-gaps").len(), 1);
}

/// Replaces the numbers of the only thread of the fixture.
fn with_thread(min: &str, avg: &str, max: &str, bins: &str) -> String {
    let text = fixture_text("oslat-2.10-quiet-core.json");
    let (before, rest) = text.split_once("\"min\": 0").unwrap();
    let (_, after) = rest.split_once("\"9\": 1").unwrap();
    format!(
        "{before}\"min\": {min}, \"avg\": {avg}, \"max\": {max}, \"duration\": 9.998, \"histogram\": {{{bins}{after}"
    )
}

#[test]
fn narrow_bins_have_nanoseconds() {
    // With -W 500, labels are in microseconds with decimals, and min and max in nanoseconds.
    let bins = "\"0.500\": 5000, \"1.000\": 4000, \"12.500\": 7";
    let report = import_text(&with_thread("38", "0.731", "12340", bins));
    let bins = [(500, 5_000), (1_000, 4_000), (12_340, 7)];
    let expected = Figures { min: 38, ..Figures::from_bins(&bins, 731) };
    assert_eq!(Figures::new(subject(&report, "oslat/cpu-2")), expected);
}

#[test]
fn mean_with_narrow_overflow_is_unknown() {
    // oslat adds the overflow of bins of 0.5 us as 0.5 ms.
    let text = with_thread("21", "31.902", "16086712", "\"0.500\": 1000, \"32.000\": 6");
    let report = import_text(&text);
    let mean = Figures::new(subject(&report, "oslat/cpu-2")).mean;
    assert_eq!(mean, None);
    assert_eq!(warnings(&report, "import-mean").len(), 1);
}

#[test]
fn wide_bins_are_clamped() {
    // With -W 5000, the only bin of a quiet core reaches to 5 us.
    let report = import_text(&with_thread("1", "5.000", "3", "\"5\": 1000"));
    let figures = Figures::new(subject(&report, "oslat/cpu-2"));
    assert_eq!((figures.min, figures.p50, figures.max), (1_000, Some(3_000), 3_000));
    // The stated mean, of labels, is above the largest value.
    assert_eq!(figures.mean, None);
    assert_eq!(warnings(&report, "import-mean").len(), 1);
}

#[test]
fn last_bin_has_larger_values() {
    let report = import_text(&with_thread("1", "2.5", "6185", "\"1\": 1000, \"32\": 6"));
    let subject = subject(&report, "oslat/cpu-2");
    assert_eq!(Figures::new(subject).max, 6_185_000);
    assert_eq!(subject["histogram"]["overflow"]["count"], 6);
}

#[test]
fn labels_of_old_versions_are_values() {
    let report = import(&fixture("oslat-2.4.json"), &[]);
    for (id, max, above) in [("oslat/cpu-0", 12_070, 159), ("oslat/cpu-1", 12_073, 144)] {
        let subject = subject(&report, id);
        let figures = Figures::new(subject);
        assert_eq!((figures.min, figures.p99, figures.max), (1_000, Some(1_000), max * 1_000));
        assert_eq!(subject["histogram"]["overflow"]["count"], above);
    }
    let counts = |id: &str| Figures::new(subject(&report, id)).count;
    assert_eq!(counts("oslat/cpu-0"), 25_302_531);
    assert_eq!(counts("oslat/cpu-1"), 19_869_874);
}
