//! Conversion of bins of nanoseconds to the histograms of Prometheus, with classic and native
//! buckets. Does no I/O.

use std::collections::BTreeMap;

use crate::monitor::loop_record::{BINNING, Bins};

/// Resolution of native histograms: there are 2^[`SCHEMA`] buckets per factor of two, each 0.54 %
/// wide.
///
/// Each value is represented by the middle of its bin, which is 0.39 % from the bin's ends. Any
/// value that a server reads out of a bucket is therefore within 0.94 % of the original.
pub const SCHEMA: i32 = 7;
/// Upper end of the zero bucket: the default of other libraries, so that sums with their
/// histograms lose nothing.
pub const ZERO_THRESHOLD: f64 = 2.938_735_877_055_719e-39;
/// Maximum number of empty buckets written out between two others. A longer gap starts a new span.
const MAX_BRIDGED_BUCKETS: i32 = 2;

/// Upper ends of the classic buckets.
const BUCKETS_NS: [i64; 19] = [
    1_000, 10_000, 20_000, 50_000, 100_000, 200_000, 500_000, 1_000_000, 2_000_000, 5_000_000,
    10_000_000, 20_000_000, 50_000_000, 100_000_000, 200_000_000, 500_000_000, 1_000_000_000,
    5_000_000_000, 10_000_000_000,
];

/// Histogram of a loop's lateness.
#[derive(Clone, Copy, Debug)]
pub struct Histogram<'a>(pub &'a Bins);

/// A classic bucket. Each counts the values of all buckets below it as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClassicBucket {
    /// Upper end, or `None` for the last bucket, which has no end.
    pub upper_ns: Option<i64>,
    pub cumulative_count: u64,
}

/// A run of successive native buckets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Number of buckets between the previous span and this one.
    pub gap: i32,
    pub length: u32,
}

/// Buckets of a native histogram of one sign.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct NativeBuckets {
    pub spans: Vec<Span>,
    /// The count of each bucket minus that of the one before it.
    pub deltas: Vec<i64>,
}

/// A native histogram.
#[derive(Debug, PartialEq, Eq)]
pub struct NativeHistogram {
    /// Count of the zero bucket.
    pub zero: u64,
    pub negative: NativeBuckets,
    pub positive: NativeBuckets,
}

impl Histogram<'_> {
    pub fn count(&self) -> u64 {
        self.0.count()
    }

    /// Returns the sum of all values. Each is represented by the middle of its bin; early ones
    /// count as zero.
    pub fn sum_seconds(&self) -> f64 {
        let positive = self.0.iter().filter(|(lower, _)| *lower >= 0);
        positive.map(|(lower, count)| middle_ns(lower) * count as f64).sum::<f64>() / 1e9
    }

    /// Returns the classic buckets in ascending order.
    pub fn classic(&self) -> Vec<ClassicBucket> {
        let mut counts = [0; BUCKETS_NS.len() + 1];
        for (lower, count) in self.0.iter() {
            let upper = BINNING.bin(lower).upper;
            counts[BUCKETS_NS.partition_point(|&end| end < upper)] += count;
        }
        let ends = BUCKETS_NS.into_iter().map(Some).chain([None]);
        let mut cumulative_count = 0;
        let mut buckets = Vec::with_capacity(counts.len());
        for (upper_ns, count) in ends.zip(counts) {
            cumulative_count += count;
            buckets.push(ClassicBucket { upper_ns, cumulative_count });
        }
        buckets
    }

    /// Returns the native histogram. How early a tick was is not known, so all early ticks are in
    /// the bucket of one nanosecond.
    pub fn native(&self) -> NativeHistogram {
        let mut buckets: BTreeMap<i32, u64> = BTreeMap::new();
        let (mut early, mut zero) = (0, 0);
        for (lower, count) in self.0.iter() {
            match lower {
                ..0 => early += count,
                0 => zero += count,
                1.. => *buckets.entry(native_bucket(middle_ns(lower) / 1e9)).or_default() += count,
            }
        }
        let mut negative = BTreeMap::new();
        if early > 0 {
            negative.insert(native_bucket(1e-9), early);
        }
        NativeHistogram {
            zero,
            negative: NativeBuckets::from_counts(&negative),
            positive: NativeBuckets::from_counts(&buckets),
        }
    }
}

fn middle_ns(lower: i64) -> f64 {
    let bin = BINNING.bin(lower);
    f64::midpoint(bin.lower as f64, bin.upper as f64)
}

/// Returns the native bucket of a positive value. Bucket i ends at 2^(i / 2^[`SCHEMA`]), inclusive.
fn native_bucket(value: f64) -> i32 {
    (value.log2() * f64::from(1 << SCHEMA)).ceil() as i32
}

impl NativeBuckets {
    fn from_counts(buckets: &BTreeMap<i32, u64>) -> Self {
        let mut native = Self::default();
        let mut counts: Vec<u64> = Vec::new();
        let mut end = 0;
        for (&bucket, &count) in buckets {
            let gap = bucket - end;
            match native.spans.last_mut() {
                Some(span) if gap <= MAX_BRIDGED_BUCKETS => {
                    counts.resize(counts.len() + gap.unsigned_abs() as usize, 0);
                    span.length += gap.unsigned_abs() + 1;
                }
                _ => native.spans.push(Span { gap, length: 1 }),
            }
            counts.push(count);
            end = bucket + 1;
        }
        let mut previous = 0;
        for count in counts {
            let count = i64::try_from(count).unwrap_or(i64::MAX);
            native.deltas.push(count - previous);
            previous = count;
        }
        native
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bins(values: &[i64]) -> Bins {
        values.iter().map(|&value| (BINNING.bin(value).lower, 1)).collect()
    }

    /// Returns the counts of all buckets, as a server decodes them.
    fn decode(native: &NativeBuckets) -> BTreeMap<i32, u64> {
        let (mut bucket, mut count, mut deltas) = (0, 0, native.deltas.iter());
        let mut counts = BTreeMap::new();
        for span in &native.spans {
            bucket += span.gap;
            for _ in 0..span.length {
                count += deltas.next().unwrap();
                if count > 0 {
                    counts.insert(bucket, u64::try_from(count).unwrap());
                }
                bucket += 1;
            }
        }
        assert_eq!(deltas.next(), None);
        counts
    }

    #[test]
    fn early_ticks_are_in_negative_buckets() {
        let native = Histogram(&bins(&[-1, -5_000, 0, 1_000])).native();
        assert_eq!(
            (native.zero, decode(&native.negative)),
            (1, BTreeMap::from_iter([(native_bucket(1e-9), 2)]))
        );
        assert_eq!(decode(&native.positive), BTreeMap::from_iter([(native_bucket(1_001.5e-9), 1)]));
        assert_eq!(Histogram(&bins(&[])).native().positive, NativeBuckets::default());
    }

    #[test]
    fn buckets_include_their_upper_end() {
        assert_eq!([0.25, 1.0, 1.001, 2.0].map(native_bucket), [-256, 0, 1, 128]);
    }

    #[test]
    fn short_gaps_are_bridged() {
        let native = NativeBuckets::from_counts(&BTreeMap::from_iter([(-5, 2), (-2, 7), (2, 1)]));
        let spans = vec![Span { gap: -5, length: 4 }, Span { gap: 3, length: 1 }];
        assert_eq!(native, NativeBuckets { spans, deltas: vec![2, -2, 0, 7, -6] });
    }

    proptest! {
        #[test]
        fn buckets_are_within_one_percent(value in 1_i64..1 << 40, shift in 0_u32..40) {
            let value = (value >> shift).max(1);
            let native = Histogram(&bins(&[value])).native();
            let bucket = *decode(&native.positive).first_key_value().unwrap().0;
            let ends = [bucket - 1, bucket].map(|i| (f64::from(i) / 128.0).exp2() * 1e9);
            for end in ends {
                prop_assert!((end / value as f64 - 1.0).abs() < 0.0094 + 1e-9, "{value}: {ends:?}");
            }
        }

        #[test]
        fn all_formats_count_every_value(values in prop::collection::vec(-3_i64..1 << 35, 0..200)) {
            let bins = bins(&values);
            let histogram = Histogram(&bins);
            let n = values.len() as u64;
            let native = histogram.native();
            let sum = |native: &NativeBuckets| decode(native).values().sum::<u64>();
            prop_assert_eq!(native.zero + sum(&native.negative) + sum(&native.positive), n);
            let classic = histogram.classic();
            prop_assert!(classic.is_sorted_by_key(|bucket| bucket.cumulative_count));
            let last = ClassicBucket { upper_ns: None, cumulative_count: n };
            prop_assert_eq!((classic.last().unwrap(), histogram.count()), (&last, n));
            let count_up_to = |end| values.iter().filter(|&&v| v <= end).count() as u64;
            for bucket in classic {
                let Some(end) = bucket.upper_ns else { continue };
                let expected = count_up_to(end - end / 100)..=count_up_to(end);
                prop_assert!(expected.contains(&bucket.cumulative_count), "{bucket:?}: {expected:?}");
            }
            let exact = values.iter().map(|&v| v.max(0)).sum::<i64>() as f64 / 1e9;
            prop_assert!((histogram.sum_seconds() - exact).abs() <= exact * 0.004 + 1e-12);
        }
    }
}
