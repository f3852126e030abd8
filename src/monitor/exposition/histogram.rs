//! Bins of nanoseconds as Prometheus knows histograms: classic buckets, and native ones. Pure.

use std::collections::BTreeMap;

use crate::monitor::books::{BINNING, Bins};

/// Buckets of a native histogram for each factor of two, as a power of two: one is 0.54 % wide. A
/// value stands in the middle of its bin, which is 0.39 % from the bin's ends. So whatever a server
/// answers out of a bucket is within 0.94 % of the value.
pub const SCHEMA: i32 = 7;
/// Values of at most this are in the zero bucket: what other libraries take, so that nothing is
/// lost in a sum with theirs.
pub const ZERO_THRESHOLD: f64 = 2.938_735_877_055_719e-39;
/// So many empty buckets are written out rather than started anew after.
const BRIDGED: i32 = 2;

/// Upper ends of the classic buckets, in nanoseconds.
const BUCKETS_NS: [i64; 19] = [
    1_000,
    10_000,
    20_000,
    50_000,
    100_000,
    200_000,
    500_000,
    1_000_000,
    2_000_000,
    5_000_000,
    10_000_000,
    20_000_000,
    50_000_000,
    100_000_000,
    200_000_000,
    500_000_000,
    1_000_000_000,
    5_000_000_000,
    10_000_000_000,
];

/// Of a loop's lateness.
#[derive(Clone, Copy, Debug)]
pub struct Histogram<'a>(pub &'a Bins);

/// Buckets of a native histogram, of one sign.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Spans {
    /// Buckets left out before each run, and its length.
    pub spans: Vec<(i32, u32)>,
    /// Each count minus the one before it.
    pub deltas: Vec<i64>,
}

/// A native histogram.
#[derive(Debug, PartialEq, Eq)]
pub struct Native {
    pub zero: u64,
    pub negative: Spans,
    pub positive: Spans,
}

impl Histogram<'_> {
    pub fn count(&self) -> u64 {
        self.0.count()
    }

    /// Each value taken in the middle of its bin, and an early one as on time.
    pub fn sum_seconds(&self) -> f64 {
        let positive = self.0.iter().filter(|(lower, _)| *lower >= 0);
        positive.map(|(lower, count)| middle_ns(lower) * count as f64).sum::<f64>() / 1e9
    }

    /// Upper ends in nanoseconds, and how many values are in no bin beyond them; the last has no
    /// end.
    pub fn classic(&self) -> Vec<(Option<i64>, u64)> {
        let mut counts = [0; BUCKETS_NS.len() + 1];
        for (lower, count) in self.0.iter() {
            let upper = BINNING.bin(lower).upper;
            counts[BUCKETS_NS.partition_point(|&end| end < upper)] += count;
        }
        let ends = BUCKETS_NS.into_iter().map(Some).chain([None]);
        let below = counts.iter().scan(0, |below, count| {
            *below += count;
            Some(*below)
        });
        ends.zip(below).collect()
    }

    /// By how much a tick was early is not known: it is in the bucket of a nanosecond.
    pub fn native(&self) -> Native {
        let mut buckets: BTreeMap<i32, u64> = BTreeMap::new();
        let (mut early, mut zero) = (0, 0);
        for (lower, count) in self.0.iter() {
            match lower {
                ..0 => early += count,
                0 => zero += count,
                1.. => *buckets.entry(bucket(middle_ns(lower) / 1e9)).or_default() += count,
            }
        }
        let negative =
            if early > 0 { BTreeMap::from([(bucket(1e-9), early)]) } else { BTreeMap::new() };
        Native { zero, negative: Spans::of(&negative), positive: Spans::of(&buckets) }
    }
}

fn middle_ns(lower: i64) -> f64 {
    let bin = BINNING.bin(lower);
    f64::midpoint(bin.lower as f64, bin.upper as f64)
}

/// The bucket of a value above zero: bucket i ends at 2^(i / 2^[`SCHEMA`]), which is its own.
fn bucket(value: f64) -> i32 {
    (value.log2() * f64::from(1 << SCHEMA)).ceil() as i32
}

impl Spans {
    fn of(buckets: &BTreeMap<i32, u64>) -> Self {
        let mut all = Self::default();
        let (mut end, mut before) = (0, 0);
        let mut push = |deltas: &mut Vec<i64>, count: u64| {
            let count = i64::try_from(count).unwrap_or(i64::MAX);
            deltas.push(count - before);
            before = count;
        };
        for (&bucket, &count) in buckets {
            let gap = bucket - end;
            match all.spans.last_mut() {
                Some((_, length)) if gap <= BRIDGED => {
                    (0..gap).for_each(|_| push(&mut all.deltas, 0));
                    *length += gap.unsigned_abs() + 1;
                }
                _ => all.spans.push((gap, 1)),
            }
            push(&mut all.deltas, count);
            end = bucket + 1;
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bins(values: &[i64]) -> Bins {
        values.iter().map(|&value| (BINNING.bin(value).lower, 1)).collect()
    }

    /// Buckets and their counts, as a server reads them.
    fn read(spans: &Spans) -> BTreeMap<i32, u64> {
        let (mut at, mut count, mut deltas) = (0, 0, spans.deltas.iter());
        let mut buckets = BTreeMap::new();
        for &(gap, length) in &spans.spans {
            at += gap;
            for _ in 0..length {
                count += deltas.next().unwrap();
                if count > 0 {
                    buckets.insert(at, u64::try_from(count).unwrap());
                }
                at += 1;
            }
        }
        assert_eq!(deltas.next(), None);
        buckets
    }

    #[test]
    fn an_early_tick_is_negative_and_one_on_time_is_zero() {
        let native = Histogram(&bins(&[-1, -5_000, 0, 1_000])).native();
        assert_eq!((native.zero, read(&native.negative)), (1, BTreeMap::from([(bucket(1e-9), 2)])));
        assert_eq!(read(&native.positive), BTreeMap::from([(bucket(1_001.5e-9), 1)]));
        assert_eq!(Histogram(&bins(&[])).native().positive, Spans::default());
    }

    #[test]
    fn a_bucket_has_its_upper_end() {
        assert_eq!([0.25, 1.0, 1.001, 2.0].map(bucket), [-256, 0, 1, 128]);
    }

    #[test]
    fn few_empty_buckets_are_bridged() {
        let spans = Spans::of(&BTreeMap::from([(-5, 2), (-2, 7), (2, 1)]));
        assert_eq!(spans, Spans { spans: vec![(-5, 4), (3, 1)], deltas: vec![2, -2, 0, 7, -6] });
    }

    proptest! {
        #[test]
        fn no_value_is_a_hundredth_off(value in 1_i64..1 << 40, shift in 0_u32..40) {
            let value = (value >> shift).max(1);
            let native = Histogram(&bins(&[value])).native();
            let bucket = *read(&native.positive).first_key_value().unwrap().0;
            let ends = [bucket - 1, bucket].map(|i| (f64::from(i) / 128.0).exp2() * 1e9);
            for end in ends {
                prop_assert!((end / value as f64 - 1.0).abs() < 0.0094 + 1e-9, "{value}: {ends:?}");
            }
        }

        #[test]
        fn every_form_has_every_value(values in prop::collection::vec(-3_i64..1 << 35, 0..200)) {
            let bins = bins(&values);
            let histogram = Histogram(&bins);
            let n = values.len() as u64;
            let native = histogram.native();
            let sum = |spans: &Spans| read(spans).values().sum::<u64>();
            prop_assert_eq!(native.zero + sum(&native.negative) + sum(&native.positive), n);
            let classic = histogram.classic();
            prop_assert!(classic.is_sorted_by_key(|(_, below)| *below));
            prop_assert_eq!((classic.last().unwrap(), histogram.count()), (&(None, n), n));
            for (end, below) in classic {
                let Some(end) = end else { continue };
                let [within, surely] = [end, end - end / 100].map(|end| values.iter().filter(|&&v| v <= end).count() as u64);
                prop_assert!(surely <= below && below <= within, "{end}: {surely} {below} {within}");
            }
            let exact = values.iter().map(|&v| v.max(0)).sum::<i64>() as f64 / 1e9;
            prop_assert!((histogram.sum_seconds() - exact).abs() <= exact * 0.004 + 1e-12);
        }
    }
}
