//! `osjitter.bins/1` as text: a row a bin, and beside it a row an interval. Pure.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Write as _;

const SCHEMA_VERSION: u32 = 1;
/// All negative values are in one bin, which begins here.
const NEGATIVE_NS: i64 = -1_000_000_000_000_000_000;
/// No value is beyond it.
const LARGEST_NS: i64 = 1_000_000_000_000_000_000;
/// Bits of a value that its bin keeps, beside the leading one: HDR's two digits.
const BITS: u32 = 7;
const BINNING: &str = "hdr2";
const LONGEST_CELL: usize = 256;

const KEY: &str = "host,subject,period_ns,runtime,labels,start,duration_ns,run_id,schema_version";

/// What the rows of an interval have in common.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Key {
    pub host: String,
    pub subject: String,
    pub period_ns: u64,
    pub runtime: String,
    /// `key=value;key=value`
    pub labels: String,
    /// RFC 3339 in UTC, with microseconds.
    pub start: String,
    pub duration_ns: u64,
    pub run_id: String,
}

/// Beside the bins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    pub ticks: u64,
    pub delivered: u64,
    pub coalesced: u64,
    pub skipped: u64,
    pub missed: u64,
    pub early: u64,
    pub max_ns: Option<i64>,
    pub cpu_ns: Option<u64>,
    pub steal_ns: Option<u64>,
    pub run_queue_ns: Option<u64>,
    pub throttled_ns: Option<u64>,
}

/// One subject or meter over one stretch of time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interval {
    pub key: Key,
    /// Counts by the least value of their bins.
    pub bins: BTreeMap<i64, u64>,
    pub facts: Facts,
}

/// The bin of a value: its least and its largest.
pub fn bin(value_ns: i64) -> (i64, i64) {
    let Ok(value) = u64::try_from(value_ns.min(LARGEST_NS)) else { return (NEGATIVE_NS, -1) };
    let width = 1_u64 << value.max(1).ilog2().saturating_sub(BITS);
    let lower = value & !(width - 1);
    (lower as i64, (lower + width - 1) as i64)
}

pub fn bins_csv(intervals: &[Interval]) -> String {
    let mut text = format!("{KEY},binning,lower_ns,upper_ns,count\n");
    for interval in intervals {
        let key = key(&interval.key);
        for (&lower, count) in &interval.bins {
            let _ = writeln!(text, "{key},{BINNING},{lower},{},{count}", bin(lower).1);
        }
    }
    text
}

pub fn intervals_csv(intervals: &[Interval]) -> String {
    let mut text = format!(
        "{KEY},ticks,delivered,coalesced,skipped,missed,early,max_ns,cpu_ns,steal_ns,run_queue_ns,throttled_ns\n"
    );
    for Interval { key: of, facts: f, .. } in intervals {
        let known = |ns: Option<u64>| ns.map_or(String::new(), |ns| ns.to_string());
        let max = f.max_ns.map_or(String::new(), |ns| ns.to_string());
        let counts = [f.ticks, f.delivered, f.coalesced, f.skipped, f.missed, f.early].map(|n| n.to_string()).join(",");
        let costs = [f.cpu_ns, f.steal_ns, f.run_queue_ns, f.throttled_ns].map(known).join(",");
        let _ = writeln!(text, "{},{counts},{max},{costs}", key(of));
    }
    text
}

fn key(of: &Key) -> String {
    let Key { host, subject, period_ns, runtime, labels, start, duration_ns, run_id } = of;
    let [host, subject, runtime, run_id] = [host, subject, runtime, run_id].map(|text| cell(text));
    format!("{host},{subject},{period_ns},{runtime},{labels},{start},{duration_ns},{run_id},{SCHEMA_VERSION}")
}

/// A text that needs no quotes, is no formula of a spreadsheet, and ends no label: what offends becomes `_`.
pub fn cell(text: &str) -> Cow<'_, str> {
    let offends = |at: usize, c: char| c.is_control() || ",\";".contains(c) || at == 0 && "=+-@'".contains(c);
    if text.len() <= LONGEST_CELL && !text.char_indices().any(|(at, c)| offends(at, c)) {
        return text.into();
    }
    let fitting = text.char_indices().take_while(|(at, c)| at + c.len_utf8() <= LONGEST_CELL);
    fitting.map(|(at, c)| if offends(at, c) { '_' } else { c }).collect::<String>().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_cell_needs_no_quotes() {
        assert_eq!(cell("control-loop"), "control-loop");
        assert_eq!(cell("=a,b\"c;d\ne"), "_a_b_c_d_e");
        assert_eq!(cell(&"ä".repeat(200)).len(), LONGEST_CELL);
    }

    #[test]
    fn what_is_not_known_is_empty_and_negatives_have_a_bin() {
        let facts =
            Facts { ticks: 3, delivered: 3, early: 1, max_ns: Some(300), steal_ns: Some(0), ..Facts::default() };
        let bins = BTreeMap::from([(bin(-7).0, 1), (bin(301).0, 2)]);
        let key = Key { subject: "spin".into(), period_ns: 5, start: "S".into(), ..Key::default() };
        let intervals = [Interval { key, bins, facts }];
        let rows = bins_csv(&intervals);
        assert!(rows.ends_with(",spin,5,,,S,0,,1,hdr2,-1000000000000000000,-1,1\n,spin,5,,,S,0,,1,hdr2,300,301,2\n"));
        assert!(intervals_csv(&intervals).ends_with(",spin,5,,,S,0,,1,3,3,0,0,0,1,300,,0,,\n"));
    }

    proptest! {
        #[test]
        fn a_bin_has_its_value_and_is_narrow(value in -5_i64..=LARGEST_NS, shift in 0_u32..60) {
            let value = value >> shift;
            let (lower, upper) = bin(value);
            prop_assert!(lower <= value && value <= upper);
            prop_assert!(value < 0 || (upper - lower) * 128 <= value);
            prop_assert_eq!(bin(lower), (lower, upper));
        }
    }
}
