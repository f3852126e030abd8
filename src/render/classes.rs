//! Logarithmic classes, and bars in whole cells: what a terminal can draw.

use crate::render::samples::Lateness;

/// Most classes of a histogram that are wished for: a screen, with what stands around it.
const WISHED_CLASSES: usize = 14;
/// Where the classes of a decade begin, the finest first. The last is used however many classes
/// there are.
const STEPS: [&[i64]; 3] = [
    &[100, 125, 160, 200, 250, 315, 400, 500, 630, 800],
    &[100, 150, 200, 300, 500, 700],
    &[100, 200, 500],
];
/// What the steps are multiples of.
const SCALE: i64 = 100;

/// One class of a histogram: the values from here up to where the next one begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Class {
    /// Where it begins; the least value of all for early ticks and those of no lateness.
    pub from: i64,
    pub count: u64,
}

/// Logarithmic classes from the least to the largest value, the empty ones between them included;
/// in steps that people count in, as fine as a screen allows.
pub fn classes(values: &Lateness) -> Vec<Class> {
    let positive = || values.counts().map(|(value, _)| value).filter(|&value| value > 0);
    let mut all = Vec::new();
    let early: u64 = values.counts().filter(|(value, _)| *value <= 0).map(|(_, n)| n).sum();
    if early > 0 {
        all.push(Class { from: i64::MIN, count: early });
    }
    if let (Some(least), Some(largest)) = (positive().next(), positive().last()) {
        let all_edges = STEPS.map(|steps| edges(least, largest, steps));
        let [.., coarsest] = &all_edges;
        let edges =
            all_edges.iter().find(|edges| edges.len() <= WISHED_CLASSES).unwrap_or(coarsest);
        let first = all.len();
        all.extend(edges.iter().map(|&from| Class { from, count: 0 }));
        let mut class = first;
        for (value, n) in values.counts().filter(|(value, _)| *value > 0) {
            while all.get(class + 1).is_some_and(|next| next.from <= value) {
                class += 1;
            }
            all[class].count += n;
        }
    }
    all
}

/// Where classes begin: the last edge at or below `least`, and all above it up to `largest`.
fn edges(least: i64, largest: i64, steps: &[i64]) -> Vec<i64> {
    let decades = (0..=18).map(|power| 10_i64.pow(power));
    let all =
        decades.flat_map(|decade| steps.iter().filter_map(move |step| decade.checked_mul(*step)));
    // Below 100 ns a step of a hundredth is no whole number: the first decades are taken twice.
    let small = [1, 10].into_iter().flat_map(|decade| {
        steps.iter().filter(move |s| **s % (SCALE / decade) == 0).map(move |s| s * decade / SCALE)
    });
    let mut edges: Vec<i64> = small.chain(all).filter(|&edge| edge <= largest).collect();
    let first = edges.partition_point(|&edge| edge <= least).saturating_sub(1);
    edges.split_off(first)
}

/// Cells of a bar for a count, in proportion to it: at least one for a single one, `width` for the
/// most.
pub fn of_count(count: u64, most: u64, width: usize) -> usize {
    if count == 0 {
        return 0;
    }
    let share = count as f64 / most.max(count) as f64;
    ((share * width as f64).round() as usize).clamp(1, width.max(1))
}

/// Cells of a bar that ends at a time on a logarithmic scale from `low` to `high`.
pub fn of_time(ns: i64, low: i64, high: i64, width: usize) -> usize {
    let log = |ns: i64| (ns.max(1) as f64).ln();
    let span = log(high) - log(low);
    let share = if span > 0.0 { (log(ns) - log(low)) / span } else { 1.0 };
    (share.clamp(0.0, 1.0) * width as f64).round() as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn classes_begin_where_people_count() {
        assert_eq!(edges(7, 130, STEPS[2]), [5, 10, 20, 50, 100]);
        assert_eq!(edges(13_000, 29_000, STEPS[1]), [10_000, 15_000, 20_000]);
        assert_eq!(edges(1, 1, STEPS[0]), [1]);
        assert_eq!(edges(i64::MAX, i64::MAX, STEPS[2]), [5_000_000_000_000_000_000]);
        let values = Lateness::from_values(vec![-3, 0, 12_000, 14_000, 17_000, 310_000]);
        let all = classes(&values);
        assert_eq!(all[0], Class { from: i64::MIN, count: 2 });
        let counts: Vec<(i64, u64)> =
            all[1..].iter().filter(|c| c.count > 0).map(|c| (c.from, c.count)).collect();
        assert_eq!(counts, [(10_000, 2), (15_000, 1), (300_000, 1)]);
    }

    #[test]
    fn one_late_tick_is_seen_beside_a_million() {
        assert_eq!([0, 1, 500_000, 1_000_000].map(|n| of_count(n, 1_000_000, 40)), [0, 1, 20, 40]);
        assert_eq!(of_count(1, u64::MAX, 10), 1);
        assert_eq!([100, 1_000, 10_000].map(|ns| of_time(ns, 100, 10_000, 40)), [0, 20, 40]);
        assert_eq!(of_time(5, 5, 5, 40), 40);
    }

    proptest! {
        #[test]
        fn every_value_is_in_the_class_it_belongs_to(values in proptest::collection::vec(any::<i64>(), 0..60)) {
            let all = classes(&Lateness::from_values(values.clone()));
            prop_assert_eq!(all.iter().map(|c| c.count).sum::<u64>(), values.len() as u64);
            prop_assert!(all.windows(2).all(|w| w[0].from < w[1].from));
            for (i, class) in all.iter().enumerate() {
                let next = all.get(i + 1).map_or(i64::MAX, |c| c.from);
                let inside = |v: &&i64| if class.from == i64::MIN { **v <= 0 } else {
                    **v > 0 && **v >= class.from && (**v < next || i + 1 == all.len())
                };
                prop_assert_eq!(values.iter().filter(inside).count() as u64, class.count);
            }
        }
    }
}
