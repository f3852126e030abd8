use proptest::prelude::*;

use super::*;
use crate::file::File as _;
use crate::report::Report;
use crate::tick_counts::TickCounts;
use jitterstat::stats::quantile;

fn report() -> Report {
    Report::from_json(include_str!("../../../../../tests/fixtures/report.json")).expect("a report")
}

fn key(host: &str, minute: u64) -> Key {
    let labels = Labels::parse("rack=r7;zone=a").unwrap();
    let (subject, start_us) =
        ("control-loop".to_owned(), Some(1_700_000_000_000_000 + minute * 60_000_000));
    Key {
        host: host.into(),
        subject,
        period_ns: 1_000,
        labels,
        start_us,
        duration_ns: 60_000_000_000,
        ..Key::default()
    }
}

fn facts(values: &[i64]) -> IntervalCounts {
    let n = values.len() as u64;
    let early = values.iter().filter(|v| **v < 0).count() as u64;
    let max_ns = values.iter().max().copied();
    let ticks = TickCounts {
        planned: n + 3,
        delivered: n,
        skipped: Some(3),
        missed: Some(3),
        early: Some(early),
        ..TickCounts::default()
    };
    IntervalCounts { ticks, max_ns, cpu_ns: Some(7), ..IntervalCounts::default() }
}

fn interval(key: Key, binning: Binning, values: &[i64]) -> Interval {
    Interval::from_values(key, binning, values.iter().map(|v| (*v, 1)), Some(facts(values)))
}

fn folded<'a>(
    intervals: impl IntoIterator<Item = &'a Interval>,
    group: impl Fn(&mut Key),
) -> Vec<Interval> {
    let mut fold = Fold::default();
    for interval in intervals {
        fold.add(interval, &group);
    }
    fold.finish()
}

fn round_trip(intervals: &[Interval]) -> Vec<Interval> {
    let read = [bins_csv(intervals), intervals_csv(intervals)];
    assert_eq!(read.each_ref().map(|text| kind(text)), [Some(Cells::Bins), Some(Cells::Intervals)]);
    join(read_bins(&read[0]).unwrap(), read_intervals(&read[1]).unwrap()).unwrap()
}

/// Realistic lateness: mostly small, some of it large, some early.
fn lateness() -> impl Strategy<Value = Vec<i64>> {
    let value = prop_oneof![
        0_i64..300,
        0_i64..3_000_000,
        -500_i64..500,
        (0_u32..59).prop_map(|bit| 1_i64 << bit)
    ];
    prop::collection::vec(value, 0..400)
}

fn binning() -> impl Strategy<Value = Binning> {
    prop::sample::select(Binning::ALL.to_vec())
}

proptest! {
    #[test]
    fn bins_are_narrow_and_adjacent(value in 0_i64..=1_000_000_000_000_000_000) {
        for binning in Binning::ALL {
            let bin = binning.bin(value);
            let Bin { lower, upper } = bin;
            prop_assert!(lower <= value && value <= upper);
            prop_assert!((upper - lower) as f64 * 100.0 <= value as f64 * binning.width_percent());
            prop_assert_eq!((binning.bin(lower), binning.bin(upper)), (bin, bin));
            prop_assert_eq!(binning.bin(upper + 1).lower, upper + 1);
        }
        let (coarse, fine) = (Binning::Hdr2.bin(value), Binning::Hdr3.bin(value));
        prop_assert_eq!(Binning::Hdr2.bin(fine.lower), coarse);
        prop_assert_eq!(Binning::Hdr2.bin(fine.upper), coarse);
    }

    #[test]
    fn bins_match_hdrhistogram(value in 0_u64..=1_000_000_000_000_000_000) {
        for (binning, digits) in [(Binning::Hdr2, 2), (Binning::Hdr3, 3)] {
            let mut histogram = hdrhistogram::Histogram::<u64>::new(digits).unwrap();
            histogram.record(value).unwrap();
            let lower = histogram.lowest_equivalent(value) as i64;
            let upper = histogram.highest_equivalent(value) as i64;
            prop_assert_eq!(binning.bin(value as i64), Bin { lower, upper });
        }
    }

    #[test]
    fn files_round_trip(values in lateness(), other in lateness(), binning in binning()) {
        let mut intervals = vec![interval(key("a", 0), binning, &values), interval(key("b", 0), Binning::Hdr2, &other)];
        intervals.push(interval(Key { labels: Labels::default(), start_us: None, ..key("c", 0) }, binning, &values));
        intervals.sort_by(|a, b| a.key.cmp(&b.key));
        prop_assert_eq!(round_trip(&intervals), intervals);
    }

    #[test]
    fn percentiles_are_upper_ends_of_bins(values in lateness(), binning in binning()) {
        let interval = interval(key("a", 0), binning, &values);
        let mut sorted = values;
        sorted.sort_unstable();
        for q in [0.0, 0.5, 0.9, 0.99, 0.999, 1.0] {
            let exact = quantile::nearest_rank(&sorted, q);
            prop_assert_eq!(interval.percentile(q), exact.map(|exact| binning.bin(exact).upper));
        }
    }

    #[test]
    fn fold_is_independent_of_order(
        values in lateness(), binnings in prop::collection::vec(binning(), 1..6), turn in 0_usize..6,
    ) {
        let parts: Vec<Interval> = binnings.iter().enumerate().map(|(i, binning)| {
            let part: Vec<i64> = values.iter().skip(i).step_by(binnings.len()).copied().collect();
            interval(key(["a", "b"][i % 2], i as u64), *binning, &part)
        }).collect();
        let no_host = |key: &mut Key| key.host.clear();
        let whole = folded(&parts, no_host);
        let mut turned = parts.clone();
        turned.rotate_left(turn % parts.len());
        turned.reverse();
        prop_assert_eq!(&folded(&turned, no_host), &whole);
        // Through files, a host at a time, and then all hosts.
        let hosts: Vec<Interval> = ["b", "a"].iter().flat_map(|host| {
            round_trip(&folded(parts.iter().filter(|part| part.key.host == *host), |_| ()))
        }).collect();
        prop_assert_eq!(&folded(&hosts, no_host), &whole);
        prop_assert_eq!(whole[0].count(), values.len() as u64);
        let coarsest = parts.iter().filter(|part| part.count() > 0).map(|part| part.binning).min();
        prop_assert_eq!(whole[0].binning, coarsest.unwrap_or(Binning::Hdr3));
        prop_assert_eq!(whole[0].facts.as_ref().unwrap().ticks.planned, (values.len() + 3 * parts.len()) as u64);
    }

    #[test]
    fn any_text_fits_a_cell(text in any::<String>(), value in any::<String>()) {
        let mut labels = Labels::default();
        labels.set("x", &value).unwrap();
        let key = Key { host: text.clone(), subject: format!("s{text}"), labels: labels.clone(), ..key("", 0) };
        let read = read_bins(&bins_csv(&[Interval::from_values(key, Binning::Hdr2, [(1, 1)], None)])).unwrap();
        prop_assert_eq!(&read[0].key.labels, &labels);
        prop_assert_eq!(&read[0].key.host, &cell(&text));
    }

    #[test]
    fn garbage_is_rejected_without_panic(
        text in "[-0-9a-z,;=\"\n]{0,80}", cut in 0_usize..2_000, with in "[,\"\n\r;0-9-]{0,6}",
    ) {
        let good = bins_csv(&[interval(key("a", 0), Binning::Hdr2, &[-1, 0, 5_000])]);
        let facts = intervals_csv(&[interval(key("a", 0), Binning::Hdr2, &[1])]);
        for whole in [&good, &facts] {
            let (head, tail) = whole.split_at(cut.min(whole.len()));
            let heading = whole.lines().next().unwrap();
            for text in [text.clone(), format!("{heading}\n{text}"), format!("{head}{with}"), format!("{head}{with}{tail}")] {
                let _ = kind(&text);
                let _ = (read_bins(&text), read_intervals(&text));
            }
        }
    }
}

#[test]
fn endless_input_ends_at_first_error() {
    use std::io::{self, Read};
    let heading = bins_csv(&[]);
    let endless = |text: &'static [u8]| {
        let rest = std::iter::repeat(text).map(io::Cursor::new);
        heading.as_bytes().chain(EndlessReader(rest))
    };
    // Every row is read only once, so that the first duplicate ends the file.
    let row = b"h,s,500000,,,,,,1,hdr2,5,5,1\n";
    let error = read_bins_from(endless(row)).unwrap_err();
    assert_eq!(error.line, Some(3), "{error}");
    for text in [&b"aaaaaaaaaaaaaaaa"[..], b"\"\n\n\n"] {
        let error = read_bins_from(endless(text)).unwrap_err().to_string();
        assert!(error.contains("longer than") || error.contains("cells"), "{error}");
    }
}

/// Pieces of text, one after the other.
struct EndlessReader<I>(I);

impl<I: Iterator<Item = std::io::Cursor<&'static [u8]>>> std::io::Read for EndlessReader<I> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        self.0.next().map_or(Ok(0), |mut piece| piece.read(buffer))
    }
}

#[test]
fn report_intervals_keep_counts_and_percentiles() {
    let report = report();
    for binning in Binning::ALL {
        let intervals =
            intervals_from_report(&report, "web-17", &Labels::parse("rack=r7").unwrap(), binning)
                .unwrap();
        assert_eq!(intervals.len(), report.subjects.len());
        let mut sorted = intervals.clone();
        sorted.sort_by(|a, b| a.key.cmp(&b.key));
        assert_eq!(round_trip(&intervals), sorted);
        for (interval, subject) in intervals.iter().zip(&report.subjects) {
            let summary = subject.summary.as_ref().unwrap();
            assert_eq!(interval.count(), summary.came());
            assert_eq!(interval.key.start_us.map(stamp).unwrap(), "2026-11-21T08:44:54.000000Z");
            let mut exact: Vec<i64> =
                subject.rounds.iter().flat_map(|round| round.lateness_ns.clone()).collect();
            exact.sort_unstable();
            let from_samples = Interval::from_values(
                interval.key.clone(),
                binning,
                exact.iter().map(|v| (*v, 1)),
                None,
            );
            assert_eq!(from_samples.bins, interval.bins);
            let shown = interval.summary().unwrap();
            assert_eq!(
                (shown.ticks, shown.missed, shown.early),
                (summary.ticks, summary.missed, summary.early)
            );
            assert_eq!(shown.lateness_ns.max, summary.lateness_ns.max);
            for (from_bins, exact) in
                shown.lateness_ns.percentiles().into_iter().zip(summary.lateness_ns.percentiles())
            {
                let upper =
                    exact.1.map(|exact| binning.bin(exact).upper.min(summary.lateness_ns.max));
                assert_eq!(from_bins.1, upper, "{}", exact.0.key);
            }
            assert_eq!(histogram_rows(interval), interval.bins);
        }
    }
}

/// The bins of the histogram that a report would contain.
fn histogram_rows(interval: &Interval) -> std::collections::BTreeMap<i64, u64> {
    let stored = crate::histogram::unpack(&interval.histogram()).unwrap();
    let early = interval.bins.get(&NEGATIVE.lower).copied().unwrap_or(0);
    let values = stored.iter_recorded().map(|v| {
        let value = v.value_iterated_to() as i64;
        (value, v.count_at_value() - if value == 0 { early } else { 0 })
    });
    Interval::from_values(Key::default(), interval.binning, values.chain([(-1, early)]), None).bins
}

#[test]
fn invalid_rows_are_rejected_with_line() {
    let good = bins_csv(&[interval(key("a", 0), Binning::Hdr2, &[5_000, 70_000])]);
    let rows: Vec<&str> = good.lines().collect();
    let check_error = |row: String, expected: &str| {
        let text = format!("{}\n{}\n{row}\n", rows[0], rows[1]);
        let error = read_bins(&text).unwrap_err();
        let text = error.to_string();
        assert!(text.starts_with("line 3: ") && text.contains(expected), "{row}: {text}");
    };
    check_error(rows[1].to_owned(), "comes twice");
    check_error(rows[2].replace("hdr2", "exp8"), "not hdr2 or hdr3");
    check_error(rows[2].replace("hdr2", "hdr3"), "ends of a bin");
    check_error(rows[2].replace(",1,hdr2", ",2,hdr2"), "a newer osjitter wrote it");
    check_error(rows[2].replace(",1,hdr2", ",one,hdr2"), "schema_version \"one\" is not known");
    check_error(rows[2].replace("2023", "MMXX"), "RFC 3339");
    check_error(rows[2].replace("rack=", "rack"), "key=value");
    check_error(rows[2].replace("control-loop", ""), "a name");
    check_error(rows[2].replace("69632,70143,1", "69632,70143,0"), "at least 1");
    check_error(rows[2].replace("69632,70143,1", "69632,70143,-1"), "2^53");
    check_error(rows[2].replace("69632,70143", "69632,9223372036854775808"), "whole number");
    check_error(
        rows[2].replace("69632,70143", "4611686018427387904,4647714815446351871"),
        "ends of a bin",
    );
    check_error(rows[2].replace("control-loop", &"x".repeat(300)), "as short");
    check_error(rows[2].replace(",1,hdr2", ",1"), "12 cells, and 13 columns");
    let hdr3 = bins_csv(&[interval(key("a", 0), Binning::Hdr3, &[70_000])]);
    check_error(hdr3.lines().nth(1).unwrap().to_owned(), "two widths");
    let error = read_bins("a,b\n1,2\n").unwrap_err().to_string();
    assert!(error.contains("line 1: the heading"), "{error}");
    let later = good
        .replace("count\n", "count,mood\n")
        .replace(",1,hdr2", ",2,hdr2")
        .replace(",1\n", ",1,good\n");
    let error = read_bins(&later).unwrap_err().to_string();
    assert!(error.contains("a newer osjitter wrote it"), "{error}");
    assert_eq!(read_bins(rows[0]).unwrap(), []);
}

#[test]
fn bins_and_counts_must_agree() {
    let two_values = interval(key("a", 0), Binning::Hdr2, &[5, 6]);
    let one_value = interval(key("a", 0), Binning::Hdr2, &[5]);
    let read = join(
        read_bins(&bins_csv(std::slice::from_ref(&two_values))).unwrap(),
        read_intervals(&intervals_csv(&[one_value])).unwrap(),
    );
    let error = read.unwrap_err().to_string();
    assert!(
        error.contains("control-loop of a") && error.contains("2 values, and 1 ticks"),
        "{error}"
    );
    let twice = intervals_csv(&[two_values.clone(), two_values.clone()]);
    assert!(read_intervals(&twice).unwrap_err().to_string().contains("line 3"));
    let wrong = intervals_csv(&[two_values]).replace(",5,2,0,3,", ",6,2,0,3,");
    assert!(read_intervals(&wrong).unwrap_err().to_string().contains("ticks is \"6\""));
}

#[test]
fn unknown_maximum_stays_unknown() {
    let known = interval(key("a", 0), Binning::Hdr2, &[100]);
    let mut unknown = interval(key("a", 1), Binning::Hdr2, &[50_000_000]);
    unknown.facts.as_mut().unwrap().max_ns = None;
    for intervals in [[&known, &unknown], [&unknown, &known]] {
        let sum = folded(intervals, |_| {}).remove(0);
        assert_eq!(sum.facts.as_ref().unwrap().max_ns, None);
        let max = sum.summary().unwrap().lateness_ns.max;
        assert_eq!(max, Binning::Hdr2.bin(50_000_000).upper);
    }
    // Without a tick, there is no maximum to know.
    let without_tick = interval(key("a", 2), Binning::Hdr2, &[]);
    for intervals in [[&known, &without_tick], [&without_tick, &known]] {
        assert_eq!(folded(intervals, |_| {})[0].facts.as_ref().unwrap().max_ns, Some(100));
    }
}

#[test]
fn bins_count_if_facts_state_less() {
    // The period is 1 us: five values were missed, and three ticks were skipped.
    let mut stated =
        interval(key("a", 0), Binning::Hdr2, &[100, 101, 5_000, 5_001, 50_000, 50_000, 50_000]);
    let counts = |stated: &Interval| {
        let summary = stated.summary().unwrap();
        (summary.missed, summary.lateness_ns.max)
    };
    assert_eq!(counts(&stated), (Some(8), 50_000));
    let facts = stated.facts.as_mut().unwrap();
    (facts.ticks.missed, facts.max_ns) = (Some(9), Some(120));
    assert_eq!(counts(&stated), (Some(9), Binning::Hdr2.bin(50_000).upper));
    // Bins of another program may end below its maximum.
    let facts = stated.facts.as_mut().unwrap();
    (facts.ticks.missed, facts.max_ns) = (None, Some(1_000_000));
    assert_eq!(counts(&stated), (None, 1_000_000));
}

#[test]
fn database_exports_are_read() {
    let csv = bins_csv(&[interval(key("a", 0), Binning::Hdr2, &[5_000])]);
    let quoted: String = csv
        .lines()
        .map(|line| {
            line.split(',').map(|cell| format!("\"{cell}\"")).collect::<Vec<_>>().join(",") + "\r\n"
        })
        .collect();
    assert_eq!(kind(&quoted), Some(Cells::Bins));
    assert_eq!(read_bins(&quoted).unwrap(), read_bins(&csv).unwrap());
    let blank = csv.replace("T22:13:20.000000Z", " 22:13:20");
    assert_ne!(blank, csv);
    assert_eq!(read_bins(&blank).unwrap(), read_bins(&csv).unwrap());
}

/// The expected rows are literals, independent of the function that cleans cells.
#[test]
fn cells_are_never_formulas() {
    for (text, cell) in [
        ("=1+1", "_1+1"),
        ("+1", "_1"),
        ("-1", "_1"),
        ("@SUM(A1)", "_SUM(A1)"),
        ("'=1", "_=1"),
        ("\t=1", "_=1"),
        ("\r=1", "_=1"),
        ("\n=1", "_=1"),
        ("a,=1", "a_=1"),
        ("a\",=1", "a__=1"),
        ("a;b==1", "a_b==1"),
        ("a=1", "a=1"),
    ] {
        let [host, subject, runtime, run_id] = std::array::from_fn(|_| text.to_owned());
        let mut labels = Labels::default();
        labels.set("x", text).unwrap();
        let key = Key {
            host,
            subject,
            period_ns: 7,
            runtime,
            labels,
            start_us: None,
            duration_ns: 9,
            run_id,
        };
        let intervals = [interval(key, Binning::Hdr2, &[5])];
        let shared = format!("{cell},{cell},7,{cell},x={cell},,9,{cell},1");
        let [bins, facts] = [bins_csv(&intervals), intervals_csv(&intervals)];
        assert_eq!(bins.split_once('\n').unwrap().1, format!("{shared},hdr2,5,5,1\n"), "{text:?}");
        assert_eq!(
            facts.split_once('\n').unwrap().1,
            format!("{shared},4,1,0,3,3,0,5,7,,,\n"),
            "{text:?}"
        );
    }
}
